//! Accuracy on emulated paths.

use std::time::Duration as Span;

use comfy_table::Table;
use headway_core::measure::Method;
use headway_core::{Duration, Rate};
use serde::Serialize;

use super::cells::{self, Runs, Watch, coverage, median, reached};
use super::{AccuracyArgs, Emulated};
use crate::exit::Failed;
use crate::out::print_line;
use crate::testbed::{self, Model, Scored, Testbed};

/// Default capacities, and default loads in percent.
const RATES_MBPS: [f64; 3] = [10.0, 100.0, 500.0];
const LOADS: [u32; 3] = [0, 40, 80];
/// Default number of valid runs in each cell.
const RUNS: u32 = 10;

/// Coalescing interval of the paper's first network card (rapid 2.15).
const COALESCING: Duration = Duration::from_us(120);

/// The runs of one cell of the table.
#[derive(Debug, Serialize)]
struct CellRuns {
    capacity_mbps: f64,
    load_percent: u32,
    traffic: Model,
    method: String,
    #[serde(flatten)]
    measured: Runs,
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
    let what = |plan: &Plan| format!("{} {} {} % {}", plan.rate, traffic(plan.model), plan.load, plan.method);
    let cells = cells::all(&plans, runs, what, cell)?;
    print_line!("{}", table(&cells));
    for verdict in verdicts(&cells, runs, args.emulated.coalesce) {
        print_line!("{verdict}");
    }
    cells::write(args.output.as_deref(), &cells)?;
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

fn cell(plan: &Plan, index: u64, watch: &Watch) -> anyhow::Result<CellRuns> {
    let load = plan.rate.scale(f64::from(plan.load) / 100.0);
    let path = testbed::symmetric(plan.rate, plan.coalesce);
    let testbed =
        Testbed::new(&testbed::spec(path, testbed::cross(plan.model, load), index + 1), "accuracy")?;
    Ok(CellRuns {
        capacity_mbps: plan.rate.mbps(),
        load_percent: plan.load,
        traffic: plan.model,
        method: plan.method.to_string(),
        measured: watch.measure(&testbed, &["--method", plan.method.name()])?,
    })
}

pub(crate) fn traffic(model: Model) -> &'static str {
    match model {
        Model::Cbr => "CBR",
        Model::Poisson => "Poisson",
        Model::Bursty => "bursty",
    }
}

fn table(cells: &[CellRuns]) -> Table {
    let header = ["capacity", "load", "traffic", "method"].into_iter().chain(Runs::COLUMNS);
    let row = |cell: &CellRuns| {
        let path = [
            format!("{} Mb/s", cell.capacity_mbps),
            format!("{} %", cell.load_percent),
            traffic(cell.traffic).to_owned(),
            cell.method.clone(),
        ];
        path.into_iter().chain(cell.measured.columns()).collect()
    };
    cells::table(header, cells.iter().map(row))
}

/// Returns the goals for the default method, each with the result.
fn verdicts(all_cells: &[CellRuns], wanted: u32, coalesce: bool) -> Vec<String> {
    let cells: Vec<&CellRuns> = all_cells.iter().filter(|cell| cell.method == "response").collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let measured = cells.iter().map(|cell| &cell.measured);
    let within = |limit: f64| measured.clone().filter(|cell| cell.median_error() <= limit).count();
    let displaced: u64 = measured.clone().map(Runs::displaced).sum();
    let at_100 = cells.iter().filter(|cell| cell.capacity_mbps == 100.0);
    let at_100: Vec<&Scored> = at_100.flat_map(|cell| &cell.measured.runs).collect();
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
        coverage(measured.clone()),
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
    if coalesce {
        let raw = all_cells.iter().filter(|cell| cell.method == "excursion");
        let errors: Vec<f64> = raw.map(|cell| cell.measured.median_error()).collect();
        let wrong = errors.iter().filter(|error| **error > 0.10).count();
        verdicts.push(format!(
            "raw excursion search is off by more than 10 % in {wrong} of {} cells",
            errors.len()
        ));
    }
    verdicts.extend(cells::troubles(all_cells.iter().map(|cell| &cell.measured), wanted));
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
