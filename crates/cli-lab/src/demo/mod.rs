//! `headway demo`: measurements on an emulated path, with figures.

mod page;
mod rows;
mod streams;

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use headway_estimate::measure::Method;
use headway_figures::{GapSeries, Mark, Points, Row, methods, truth_and_estimates};
use headway_lab::{Direction, Truth};
use headway_units::{Duration, Instant, Rate};
use maud::html;

use headway_program::exit::Failed;
use headway_program::print_line;
use headway_program::progress::Progress;
use headway_runs::testbed::{self, Model, Scored, Testbed};
use headway_worlds::Output;
use page::Figures;
use rows::{rates, table};
use streams::StreamFile;

/// Measures an emulated path with every method while its cross traffic changes.
///
/// Needs no configuration and sends nothing to the network: the path lives in network namespaces that
/// disappear with the demo. Takes less than a minute.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Write report.html and the raw numbers into this folder.
    #[arg(long, default_value = "report", value_name = "DIR")]
    output: PathBuf,
}

/// Capacity of the path for the comparison of methods.
const CAPACITY: Rate = Rate::from_bps(100_000_000);
/// Cross traffic during the comparison of methods.
const COMPARED: (Model, u64) = (Model::Poisson, 40_000_000);
/// Sequence of cross traffic while the default method tracks it.
const CHANGES: [(Model, u64); 4] = [
    (Model::Poisson, 20_000_000),
    (Model::Bursty, 60_000_000),
    (Model::Cbr, 80_000_000),
    (Model::Poisson, 40_000_000),
];
/// Duration of each entry of the sequence.
const CHANGE_EVERY: Duration = Duration::from_ms(3_000);
/// Time limit of each method in the comparison, which keeps the demo below a minute.
const TURN: &str = "1800 ms";
/// Capacity and cross traffic of the path with a coalescing receiver, where raw gaps are misleading.
const COALESCED: (Rate, Rate) = (Rate::from_bps(500_000_000), Rate::from_bps(200_000_000));
const COALESCING: Duration = Duration::from_us(120);
/// Gaps of the p-streams on that path: four rates of 16 packets (rapid 1.6).
const P_STREAM_GAPS: usize = 64;
/// Methods shown on that path.
const CONTRASTED: [&str; 4] = ["response", "bass", "excursion", "null"];

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failed> {
    let steps = Method::all().count() + CHANGES.len() + CONTRASTED.len();
    let progress = Progress::new(steps as u64);
    progress.show_activity("building a path of 100 Mb/s, RTT 20 ms".to_owned());
    let path = testbed::symmetric(CAPACITY, None);
    let cross = testbed::cross(COMPARED.0, Rate::from_bps(COMPARED.1));
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let testbed = Testbed::new(program, &testbed::spec(path, cross, 1), "demo")?;

    let compared = compare(&testbed, &progress)?;
    let (followed, truth, begin) = follow(&testbed, &progress)?;
    // An unlinked file, so that nothing remains however this program ends.
    let kept = tempfile::tempfile().context("cannot make a temporary file")?;
    let streams = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), kept.as_raw_fd()));
    let contrasted = contrast(&testbed, &streams, &progress)?;
    drop(progress);

    print_line!(
        "Every method, 100 Mb/s with 40 Mb/s of Poisson cross traffic, RTT 20 ms:\n{}\n",
        table(&compared)
    );
    print_line!("The default method while the cross traffic changes:\n{}\n", table(&followed));
    print_line!(
        "500 Mb/s with 200 Mb/s of cross traffic and a receiver that coalesces for 120 us:\n{}\n",
        table(&contrasted)
    );

    let figures = Figures {
        tracking: tracking_figure(&truth, &followed, begin)?,
        methods: methods_figure(&compared)?,
        coalescing: gaps_figure(&streams)?,
    };
    let output = Output::make(&args.output)?;
    output.write("report.html", &page::html(&figures, &compared, &followed, &contrasted))?;
    output.write("tracking.svg", &figures.tracking)?;
    output.write("methods.svg", &figures.methods)?;
    output.write("gaps.svg", &figures.coalescing)?;
    let everything =
        serde_json::json!({ "methods": compared, "tracking": followed, "coalescing": contrasted });
    output.write("demo.json", &serde_json::to_string_pretty(&everything)?)?;
    print_line!("Figures: {}", args.output.join("report.html").display());
    Ok(())
}

/// Measures with every method once on the same path.
fn compare(testbed: &Testbed, progress: &Progress) -> anyhow::Result<Vec<Scored>> {
    let mut scored = Vec::new();
    for method in Method::all() {
        progress.show_activity(format!("every method in turn: {method}"));
        scored.push(testbed.measure(&["--method", method.name(), "--duration", TURN])?);
        progress.step();
    }
    Ok(scored)
}

/// Measures repeatedly with the default method while cross traffic changes.
fn follow(testbed: &Testbed, progress: &Progress) -> anyhow::Result<(Vec<Scored>, Points, Instant)> {
    let mut scored: Vec<Scored> = Vec::new();
    let mut begin = None;
    let mut end = Instant::ZERO;
    for (model, rate) in CHANGES {
        progress.show_activity(format!("cross traffic changes to {} {}", Rate::from_bps(rate), model.name()));
        let cross = testbed::cross(model, Rate::from_bps(rate));
        let since =
            testbed.lab().set_traffic(&testbed::spec(testbed::symmetric(CAPACITY, None), cross, 1))?;
        begin.get_or_insert(since);
        end = since + CHANGE_EVERY;
        loop {
            let measured = testbed.measure(&[])?;
            let finished = Instant::from_ns(measured.line.finished_unix_ns);
            scored.push(measured);
            if finished >= end {
                end = finished;
                break;
            }
        }
        progress.step();
    }
    let begin = begin.unwrap_or(end);
    let truth = series(&testbed.truth(begin, end)?, begin, end);
    Ok((scored, truth, begin))
}

/// Compares BASS with raw gaps behind a coalescing receiver; keeps the packets of the BASS run.
fn contrast(testbed: &Testbed, streams: &Path, progress: &Progress) -> anyhow::Result<Vec<Scored>> {
    let (capacity, cross) = COALESCED;
    let path = testbed::symmetric(capacity, Some(COALESCING));
    testbed.lab().set_links(&path)?;
    testbed.lab().set_traffic(&testbed::spec(path, testbed::cross(Model::Poisson, cross), 1))?;
    let file = streams.to_string_lossy();
    let mut scored = Vec::new();
    for name in CONTRASTED {
        progress.show_activity(format!("a coalescing receiver at 500 Mb/s: {name}"));
        let mut args = vec!["--method", name];
        if name == "bass" {
            args.extend(["--streams", &file]);
        }
        scored.push(testbed.measure(&args)?);
        progress.step();
    }
    Ok(scored)
}

/// Returns the available bandwidth as 100 ms averages, in seconds from `begin` and Mb/s.
fn series(truth: &Truth, begin: Instant, end: Instant) -> Points {
    let step = Duration::from_ms(100);
    let mut from = begin;
    let mut points = Vec::new();
    while from + step <= end {
        if let Some(free) = truth.free_between(Direction::Forward, from, from + step) {
            points.push(((from - begin).secs_f64(), free.mbps()));
        }
        from += step;
    }
    points
}

fn tracking_figure(truth: &[(f64, f64)], scored: &[Scored], begin: Instant) -> anyhow::Result<String> {
    let marks: Vec<Mark> = scored
        .iter()
        .filter_map(|s| {
            let (rate, low, high) = rates(s)?;
            let middle = (s.line.started_unix_ns + s.line.finished_unix_ns) / 2;
            Some(Mark { seconds: middle.saturating_sub(begin.ns()) as f64 / 1e9, rate, low, high })
        })
        .collect();
    Ok(truth_and_estimates(truth, &marks, CAPACITY.mbps())?)
}

fn methods_figure(scored: &[Scored]) -> anyhow::Result<String> {
    let rows: Vec<Row> = scored
        .iter()
        .map(|s| Row { name: s.line.method.clone(), truth: s.truth_bps as f64 / 1e6, estimate: rates(s) })
        .collect();
    Ok(methods(&rows, CAPACITY.mbps())?)
}

/// Draws a p-stream of the BASS run, before and after denoising.
fn gaps_figure(streams: &Path) -> anyhow::Result<String> {
    let file = StreamFile::read(streams)?;
    let Some(gaps) = file.clearest(P_STREAM_GAPS, COALESCED.0) else {
        let words = html! { p { "No stream of the BASS run was complete: the machine was too busy." } };
        return Ok(words.into_string());
    };
    Ok(headway_figures::gaps(&GapSeries {
        send: gaps.raw.send.iter().map(|gap| gap.us()).collect(),
        receive: gaps.raw.receive.iter().map(|gap| gap.us()).collect(),
        first_kept: gaps.first_kept,
        denoised_send: gaps.denoised.send.iter().map(|gap| gap.us()).collect(),
        denoised_receive: gaps.denoised.receive.iter().map(|gap| gap.us()).collect(),
    })?)
}
