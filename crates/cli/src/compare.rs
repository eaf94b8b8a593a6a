//! `headway compare`: the same scenario in two worlds, side by side.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use clap::Args;
use headway_core::{Duration, Rate};
use headway_sim::record::{LinkResult, Summary};
use headway_sim::scenario::{Change, Scenario};
use serde::Serialize;

use crate::exit::{Code, Failed};
use crate::run::table::{percent, table};
use crate::run::{self, World, lab, sim};

/// Runs a scenario in two worlds and prints how far apart their results are.
///
/// The simulator and this host's TCP on an emulated path judge each other: goodput, use of the bottleneck, queueing delay,
/// loss and retransmissions after warm-up. Runs in real time that the machine disturbed are repeated.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headway compare scenarios/compare.toml\n  \
    headway compare scenarios/compare.toml --set \"link.0.rate=10 Mb/s\" --set flow.0.controller=reno --json\n  \
    headway compare scenarios/compare.toml --matrix")]
pub(crate) struct CompareArgs {
    /// Scenario (TOML).
    file: PathBuf,
    /// The worlds; differences are relative to the last one.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["sim", "lab"], value_name = "WORLD,WORLD")]
    on: Vec<World>,
    /// Sets a value of the scenario; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Instead of one comparison all of: link 0 at 10 and 100 Mb/s with a drop-tail buffer of 0.5, 1 and 2
    /// bandwidth-delay products, and flow 0 with reno and cubic, once and four times.
    #[arg(long)]
    matrix: bool,
    /// Print results as JSON: an object, or with --matrix an array of them.
    #[arg(long)]
    json: bool,
}

/// Goodput may differ by this share, and mean queueing delay by the other.
const GOODPUT_BAND: f64 = 0.05;
const DELAY_BAND: f64 = 0.15;
/// Runs in real time before the machine is declared too busy.
const TRIES: u32 = 3;

impl CompareArgs {
    pub(crate) fn json(&self) -> bool {
        self.json
    }
}

/// One number in both worlds.
#[derive(Debug, Serialize)]
struct Metric {
    name: &'static str,
    values: [f64; 2],
    /// First minus last as a share of the last; `None` when that is zero.
    difference: Option<f64>,
    #[serde(skip)]
    text: [String; 2],
}

/// A scenario in both worlds.
#[derive(Debug, Serialize)]
struct Comparison {
    set: Vec<String>,
    worlds: Vec<String>,
    /// The link that metrics are about.
    link: String,
    metrics: Vec<Metric>,
    /// Whether goodput and mean queueing delay are within their bands.
    within: bool,
    /// Whether the machine left all runs undisturbed.
    valid: bool,
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failed> {
    let [_, _] = args.on[..] else {
        return Err(anyhow::anyhow!("--on needs two worlds, such as `sim,lab`").into());
    };
    let interrupted = run::interruption()?;
    let cells = if args.matrix { cells(args)? } else { vec![args.set.clone()] };
    let mut done = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        if args.matrix && !args.json {
            eprintln!("cell {} of {}: {}", index + 1, cells.len(), words(cell));
        }
        let Some(comparison) = compare(args, cell, &interrupted)? else { break };
        if !args.json && !args.matrix {
            println!("{}", describe(&comparison));
        }
        done.push(comparison);
    }
    let interrupted = done.len() < cells.len();
    if args.json && args.matrix {
        println!("{}", serde_json::to_string_pretty(&done)?);
    } else if let (true, [one]) = (args.json, &done[..]) {
        println!("{}", serde_json::to_string_pretty(one)?);
    } else if args.matrix {
        println!("{}", matrix(&done));
    }
    Ok(if interrupted { Code::Interrupted.into() } else { ExitCode::SUCCESS })
}

/// The changes of every cell of the matrix, on top of those that were asked for.
fn cells(args: &CompareArgs) -> anyhow::Result<Vec<Vec<Change>>> {
    let scenario = Scenario::load(&args.file, &args.set)?;
    let delay = scenario.link.first().map(|link| link.delay).unwrap_or_default();
    let round_trip = delay * 2;
    let mut cells = Vec::new();
    for mbps in [10.0, 100.0] {
        let rate = Rate::from_mbps(mbps);
        for factor in [0.5, 1.0, 2.0] {
            let buffer = rate.bytes_in(round_trip.scale(factor)).get();
            for controller in ["reno", "cubic"] {
                for count in [1, 4] {
                    let changes = [
                        format!("link.0.rate={mbps} Mb/s"),
                        format!("link.0.buffer={buffer} B"),
                        format!("flow.0.controller={controller}"),
                        format!("flow.0.count={count}"),
                    ];
                    let changes =
                        changes.iter().map(|text| text.parse::<Change>().map_err(anyhow::Error::msg));
                    let all = args.set.iter().cloned().map(Ok).chain(changes);
                    cells.push(all.collect::<anyhow::Result<_>>()?);
                }
            }
        }
    }
    Ok(cells)
}

/// Both runs; `None` when they were interrupted.
fn compare(
    args: &CompareArgs,
    set: &[Change],
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<Comparison>> {
    let scenario = Scenario::load(&args.file, set)?;
    let mut runs = Vec::new();
    for &world in &args.on {
        let summary = one(&scenario, world, interrupted)?;
        if summary.partial || run::is_set(interrupted) {
            return Ok(None);
        }
        runs.push(summary);
    }
    let [first, last] = &runs[..] else { bail!("there are not two runs") };
    let link = bottleneck(first, last)?;
    let metrics = metrics([first, last], link);
    let within = |name: &str, band: f64| {
        let metric = metrics.iter().find(|metric| metric.name == name);
        metric.and_then(|metric| metric.difference).is_some_and(|difference| difference.abs() <= band)
    };
    Ok(Some(Comparison {
        set: set.iter().map(ToString::to_string).collect(),
        worlds: args.on.iter().map(ToString::to_string).collect(),
        link: link[0].link.clone(),
        within: within(GOODPUT, GOODPUT_BAND) && within(MEAN_DELAY, DELAY_BAND),
        valid: first.valid && last.valid,
        metrics,
    }))
}

fn one(scenario: &Scenario, world: World, interrupted: &AtomicBool) -> anyhow::Result<Summary> {
    let seeds = [scenario.seed];
    let mut tries = 0;
    loop {
        tries += 1;
        let outcomes = match world {
            World::Sim => sim::run(scenario, &seeds, 1, run::limit(None)?, interrupted)?,
            World::Lab => lab::run(scenario, &seeds, interrupted)?,
        };
        let outcome = outcomes.into_iter().next().context("interrupted")?;
        let valid = outcome.results.summary.valid;
        if valid || tries == TRIES || run::is_set(interrupted) {
            return Ok(outcome.results.summary);
        }
        eprintln!("repeated, because {}", outcome.trouble.unwrap_or_default());
    }
}

/// The link that both know and that was used most.
fn bottleneck<'a>(first: &'a Summary, last: &'a Summary) -> anyhow::Result<[&'a LinkResult; 2]> {
    let pairs = first.links.iter().filter_map(|one| {
        let other = last.links.iter().find(|other| other.link == one.link)?;
        one.utilisation.map(|used| (used, [one, other]))
    });
    let most = pairs.max_by(|one, other| one.0.total_cmp(&other.0));
    Ok(most.context("the worlds have no link with a rate in common")?.1)
}

const GOODPUT: &str = "goodput";
const MEAN_DELAY: &str = "mean queueing delay";

fn metrics(runs: [&Summary; 2], links: [&LinkResult; 2]) -> Vec<Metric> {
    let metric = |name, values: [f64; 2], text: &dyn Fn(f64) -> String| Metric {
        name,
        values,
        difference: (values[1] != 0.0).then(|| values[0] / values[1] - 1.0),
        text: values.map(text),
    };
    let rate = |bps: f64| Rate::from_bps_f64(bps).to_string();
    let time = |ns: f64| Duration::from_ns(ns as i64).to_string();
    let total = runs.map(|run| &run.total);
    vec![
        metric(GOODPUT, total.map(|t| t.goodput_bps as f64), &rate),
        metric("slowest flow", total.map(|t| t.goodput_min_bps as f64), &rate),
        metric("fastest flow", total.map(|t| t.goodput_max_bps as f64), &rate),
        metric("utilisation", links.map(|link| link.utilisation.unwrap_or(0.0)), &percent),
        metric(MEAN_DELAY, links.map(|link| link.delay_mean_ns as f64), &time),
        metric("99 % queueing delay", links.map(|link| link.delay_p99_ns as f64), &time),
        metric("loss", links.map(|link| link.loss), &percent),
        metric("retransmitted", total.map(|t| t.retransmitted_share()), &percent),
    ]
}

fn describe(comparison: &Comparison) -> String {
    let rows = comparison.metrics.iter().map(|metric| {
        let [first, last] = metric.text.clone();
        [metric.name.to_owned(), first, last, difference(metric)]
    });
    let header = [comparison.link.as_str(), &comparison.worlds[0], &comparison.worlds[1], "difference"];
    let mut text = table(header, rows).to_string();
    if !comparison.valid {
        text += "\nThe machine was too busy for a run in real time: this comparison does not count.";
    }
    text
}

fn difference(metric: &Metric) -> String {
    metric.difference.map(|share| format!("{:+.1} %", share * 100.0)).unwrap_or_default()
}

/// One row a cell, and how many are within the bands.
fn matrix(cells: &[Comparison]) -> String {
    let rows = cells.iter().map(|cell| {
        let find = |name: &str| cell.metrics.iter().find(|metric| metric.name == name);
        let column = |name: &str| {
            let values = find(name).map(|metric| format!("{} / {}", metric.text[0], metric.text[1]));
            let difference = find(name).map(difference);
            (values.unwrap_or_default(), difference.unwrap_or_default())
        };
        let ((goodput, goodput_off), (delay, delay_off)) = (column(GOODPUT), column(MEAN_DELAY));
        let verdict = match (cell.valid, cell.within) {
            (false, _) => "disturbed",
            (true, true) => "within",
            (true, false) => "OUTSIDE",
        };
        let (loss, _) = column("loss");
        [shortened(&cell.set), goodput, goodput_off, delay, delay_off, loss, verdict.to_owned()]
    });
    let header = ["cell", "goodput", "off", "mean delay", "off", "loss", "bands"];
    let within = cells.iter().filter(|cell| cell.valid && cell.within).count();
    format!(
        "{}\n{within} of {} cells have goodput within {:.0} % and mean queueing delay within {:.0} %.",
        table(header, rows),
        cells.len(),
        GOODPUT_BAND * 100.0,
        DELAY_BAND * 100.0,
    )
}

fn words(set: &[Change]) -> String {
    shortened(&set.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// The values only.
fn shortened(set: &[String]) -> String {
    let values: Vec<&str> = set.iter().filter_map(|change| Some(change.split_once('=')?.1)).collect();
    values.join(", ")
}
