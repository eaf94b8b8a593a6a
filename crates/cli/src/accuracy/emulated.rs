//! Accuracy on emulated paths.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Span;

use comfy_table::{Cell, CellAlignment, Table, presets};
use headway_core::measure::Method;
use headway_core::{Duration, Rate};
use headway_lab::Model;
use serde::Serialize;

use super::{AccuracyArgs, Emulated};
use crate::exit::Failed;
use crate::out::print_line;
use crate::progress::Progress;
use crate::testbed::{self, Scored, Testbed};

/// Default capacities, and default loads in percent.
const RATES_MBPS: [f64; 3] = [10.0, 100.0, 500.0];
const LOADS: [u32; 3] = [0, 40, 80];
/// Default number of valid runs in each cell.
const RUNS: u32 = 10;

/// Coalescing interval of the paper's first network card (rapid 2.15).
const COALESCING: Duration = Duration::from_us(120);

/// Attempts per cell and requested run before the machine counts as too busy.
const TRIES_PER_RUN: u32 = 3;

/// The runs of one cell of the table.
#[derive(Debug, Serialize)]
struct CellRuns {
    capacity_mbps: f64,
    load_percent: u32,
    traffic: Model,
    method: String,
    runs: Vec<Scored>,
    void_runs: u32,
    failures: Vec<String>,
}

struct Plan {
    rate: Rate,
    load: u32,
    model: Model,
    method: Method,
    coalesce: Option<Duration>,
}

pub(super) fn run(args: &AccuracyArgs) -> Result<(), Failed> {
    if args.emulated.idle {
        return idle();
    }
    let plans = plans(args);
    let runs = args.emulated.runs.unwrap_or(RUNS);
    let progress = Progress::new(plans.len() as u64 * u64::from(runs));
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
    let mut cells = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        let what = format!("{} {} {} % {}", plan.rate, traffic(plan.model), plan.load, plan.method);
        progress.show_activity(format!("cell {} of {}: {what}", index + 1, plans.len()));
        cells.push(cell(plan, runs, index as u64, &progress, &interrupted)?);
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(progress);
    print_line!("{}", table(&cells));
    if interrupted.load(Ordering::Relaxed) {
        print_line!("Interrupted: {} of {} cells, the last one incomplete.", cells.len(), plans.len());
    }
    for verdict in verdicts(&cells, runs, args.emulated.coalesce) {
        print_line!("{verdict}");
    }
    if let Some(path) = &args.output {
        testbed::write(path, &serde_json::to_string_pretty(&cells)?)?;
        print_line!("every run: {}", path.display());
    }
    Ok(())
}

fn plans(args: &AccuracyArgs) -> Vec<Plan> {
    let Emulated { rates, loads, coalesce, .. } = &args.emulated;
    let methods = match (coalesce, args.methods.is_empty()) {
        (true, _) => {
            ["response", "bass", "excursion", "null"].iter().filter_map(|name| name.parse().ok()).collect()
        }
        (false, true) => vec![Method::Response],
        (false, false) => args.methods.clone(),
    };
    let rates = match (coalesce, rates.is_empty()) {
        (true, _) => vec![Rate::from_mbps(500.0)],
        (false, true) => RATES_MBPS.map(Rate::from_mbps).to_vec(),
        (false, false) => rates.clone(),
    };
    let loads = if loads.is_empty() { &LOADS[..] } else { loads };
    let coalesce = coalesce.then_some(COALESCING);
    let mut plans = Vec::new();
    for rate in rates {
        for model in [Model::Cbr, Model::Poisson, Model::Bursty] {
            for load in loads {
                for method in &methods {
                    plans.push(Plan { rate, load: *load, model, method: *method, coalesce });
                }
            }
        }
    }
    plans
}

fn cell(
    plan: &Plan,
    runs: u32,
    seed: u64,
    progress: &Progress,
    interrupted: &AtomicBool,
) -> anyhow::Result<CellRuns> {
    let load = plan.rate.scale(f64::from(plan.load) / 100.0);
    let path = testbed::symmetric(plan.rate, plan.coalesce);
    let testbed = Testbed::new(&testbed::spec(path, testbed::cross(plan.model, load), seed + 1), "accuracy")?;
    let mut cell = CellRuns {
        capacity_mbps: plan.rate.mbps(),
        load_percent: plan.load,
        traffic: plan.model,
        method: plan.method.to_string(),
        runs: Vec::new(),
        void_runs: 0,
        failures: Vec::new(),
    };
    for _ in 0..runs * TRIES_PER_RUN {
        if cell.answered() >= runs as usize || interrupted.load(Ordering::Relaxed) {
            break;
        }
        match testbed.measure(&["--method", plan.method.name()]) {
            Ok(scored) if scored.disturbed => {
                cell.void_runs += 1;
                continue;
            }
            Ok(scored) => cell.runs.push(scored),
            Err(error) => cell.failures.push(format!("{error:#}")),
        }
        progress.step();
    }
    Ok(cell)
}

impl CellRuns {
    /// Returns the number of valid runs.
    fn answered(&self) -> usize {
        self.runs.len() + self.failures.len()
    }

    fn errors(&self) -> Vec<f64> {
        self.runs.iter().filter_map(Scored::error).collect()
    }

    /// Returns the median absolute error; a run without an answer counts as wrong by the whole capacity.
    fn median_error(&self) -> f64 {
        let mut errors: Vec<f64> = self.errors().iter().map(|e| e.abs()).collect();
        errors.resize(self.answered(), 1.0);
        median(errors).unwrap_or(1.0)
    }

    fn median_of(&self, value: impl Fn(&Scored) -> f64) -> f64 {
        median(self.runs.iter().map(value).collect()).unwrap_or(f64::NAN)
    }

    fn covered(&self) -> usize {
        self.runs.iter().filter(|run| run.covered()).count()
    }

    fn displaced(&self) -> u64 {
        self.runs.iter().map(|run| run.cross_displaced).sum()
    }
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        return values.get(middle).copied();
    }
    Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0)
}

pub(crate) fn traffic(model: Model) -> &'static str {
    match model {
        Model::Cbr => "CBR",
        Model::Poisson => "Poisson",
        Model::Bursty => "bursty",
        Model::Pareto => "Pareto",
    }
}

fn table(cells: &[CellRuns]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "capacity",
        "load",
        "traffic",
        "method",
        "truth",
        "|error|",
        "worst",
        "bias",
        "covered",
        "cost",
        "time",
        "delay +",
        "displaced",
        "void",
    ]);
    for cell in cells {
        let errors = cell.errors();
        let worst = errors.iter().fold(0.0, |worst: f64, e| worst.max(e.abs()));
        let answered = cell.answered();
        let row = [
            format!("{} Mb/s", cell.capacity_mbps),
            format!("{} %", cell.load_percent),
            traffic(cell.traffic).to_owned(),
            cell.method.clone(),
            format!("{:.1}", cell.median_of(|run| run.truth_bps as f64 / 1e6)),
            format!("{:.1} %", cell.median_error() * 100.0),
            format!("{:.1} %", worst * 100.0),
            format!("{:+.1} %", median(errors).unwrap_or(f64::NAN) * 100.0),
            format!("{}/{answered}", cell.covered()),
            format!("{:.2} MB", cell.median_of(|run| run.line.probe_bytes as f64 / 1e6)),
            format!("{:.2} s", cell.median_of(|run| run.line.duration_ms / 1e3)),
            format!("{:.1} ms", cell.median_of(|run| run.line.added_delay_median_us / 1e3)),
            cell.displaced().to_string(),
            cell.void_runs.to_string(),
        ];
        table.add_row(row.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
    }
    table
}

/// Returns the goals for the default method, each with the result.
fn verdicts(all_cells: &[CellRuns], wanted: u32, coalesce: bool) -> Vec<String> {
    let cells: Vec<&CellRuns> = all_cells.iter().filter(|cell| cell.method == "response").collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let within = |limit: f64| cells.iter().filter(|cell| cell.median_error() <= limit).count();
    let runs: usize = cells.iter().map(|cell| cell.answered()).sum();
    let covered: usize = cells.iter().map(|cell| cell.covered()).sum();
    let failures: usize = cells.iter().map(|cell| cell.failures.len()).sum();
    let displaced: u64 = cells.iter().map(|cell| cell.displaced()).sum();
    let at_100: Vec<&Scored> =
        cells.iter().filter(|cell| cell.capacity_mbps == 100.0).flat_map(|cell| &cell.runs).collect();
    let reached = |yes: bool| if yes { "reached" } else { "NOT reached" };
    let all = cells.len();
    let mut verdicts = vec![
        format!(
            "{}: median |error| at most 10 % of capacity in every cell ({} of {all})",
            reached(within(0.10) == all),
            within(0.10)
        ),
        format!(
            "{}: at most 5 % in two thirds of the cells ({} of {all})",
            reached(within(0.05) * 3 >= all * 2),
            within(0.05)
        ),
        format!(
            "{}: the 90 % interval holds the truth in at least 80 % of runs ({covered} of {runs})",
            reached(covered * 5 >= runs * 4)
        ),
        format!("{}: no cross packet is lost because of the probing ({displaced})", reached(displaced == 0)),
    ];
    let bytes = median(at_100.iter().map(|run| run.line.probe_bytes as f64 / 1e6).collect());
    let seconds = median(at_100.iter().map(|run| run.line.duration_ms / 1e3).collect());
    if let (Some(bytes), Some(seconds)) = (bytes, seconds) {
        verdicts.push(format!(
            "{}: median cost at 100 Mb/s at most 3 s and 2 MB ({seconds:.2} s, {bytes:.2} MB)",
            reached(seconds <= 3.0 && bytes <= 2.0)
        ));
    }
    let short = all_cells.iter().filter(|cell| cell.answered() < wanted as usize).count();
    if short > 0 {
        verdicts
            .push(format!("the machine was too busy: {short} cells have fewer valid runs than requested"));
    }
    if coalesce {
        let raw = all_cells.iter().filter(|cell| cell.method == "excursion");
        let errors: Vec<f64> = raw.map(CellRuns::median_error).collect();
        let wrong = errors.iter().filter(|error| **error > 0.10).count();
        verdicts.push(format!(
            "raw excursion search is off by more than 10 % in {wrong} of {} cells",
            errors.len()
        ));
    }
    let failed = cells.iter().flat_map(|cell| &cell.failures).next();
    if let Some(reason) = failed {
        verdicts.push(format!("{failures} runs gave no answer, the first because: {reason}"));
    }
    verdicts
}

/// Interval between the two measurements of the client: short enough that its session stays open in between.
const IDLE_INTERVAL: &str = "14 s";

/// How long the idle programs are observed.
const WATCHED: Span = Span::from_secs(5);

/// Prints the CPU usage of `serve` and `measure` while a session is open but nothing is sent.
fn idle() -> Result<(), Failed> {
    let path = testbed::symmetric(Rate::from_mbps(100.0), None);
    let testbed = Testbed::new(&testbed::spec(path, Vec::new(), 1), "idle")?;
    let mut client = testbed
        .measure_command(&["--interval", IDLE_INTERVAL, "--count", "2"])?
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    // After its first result the client only waits.
    let mut first = String::new();
    if let Some(stdout) = client.stdout.as_mut() {
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut first)?;
    }
    let programs = [("serve", testbed.server_id()), ("measure", client.id())];
    let before = programs.map(|(_, id)| cpu_time(id));
    std::thread::sleep(WATCHED);
    for ((name, id), before) in programs.iter().zip(before) {
        let used = cpu_time(*id).zip(before).map(|(after, before)| after.saturating_sub(before));
        match used {
            Some(used) => {
                let share = used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
                print_line!("{name:8} {share:5.2} % of one core between streams (target: under 5 %)");
            }
            None => print_line!("{name:8} ended early"),
        }
    }
    client.kill()?;
    client.wait()?;
    Ok(())
}

/// Returns the CPU time of a process, from /proc.
fn cpu_time(id: u32) -> Option<Span> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may contain spaces; user and system time are the 12th and 13th field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(Span::from_secs_f64(ticks as f64 / per_second as f64))
}
