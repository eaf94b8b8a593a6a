//! Accuracy on emulated paths.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use comfy_table::Table;
use headway_estimate::measure::Method;
use headway_program::exit::Failed;
use headway_runs::testbed::{self, Model, Scored, Testbed};
use headway_units::{Duration, Rate};
use serde::Serialize;

use super::cells::{self, Runs, Watch, coverage, reached};
use headway_units::statistics::median;

/// Coalescing interval of the paper's first NIC (rapid 2.15).
const COALESCING: Duration = Duration::from_us(120);
/// Capacity of the path with such a NIC: 120 us are 5 packets there.
const COALESCED: Rate = Rate::from_bps(500_000_000);
/// Methods that are compared behind it.
const CONTRASTED: [&str; 4] = ["response", "bass", "excursion", "null"];
/// The method that needs a model.
const LEARNED: &str = "learned";

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

/// Measures emulated paths of 10, 100 and 500 Mb/s with CBR, Poisson and bursty cross traffic.
///
/// The RTT is 20 ms, the MTU 1500 and the drop-tail buffer 100 ms, but at least 1 MB; cross traffic goes
/// through the same queue as the probes. Errors are differences from the bandwidth that the emulator logged
/// as free during the measurement, as shares of the path's capacity.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench accuracy emulated
  headway-bench accuracy emulated --coalesce --output report/coalescing.json
  headway-bench accuracy emulated --methods response,bass --model models/p-streams.json --rates '100 Mb/s,500 Mb/s'")]
pub(super) struct EmulatedArgs {
    /// Methods to compare.
    #[arg(long, value_delimiter = ',', default_value = "response", value_name = "NAME,...")]
    methods: Vec<Method>,
    /// Valid runs in each cell.
    #[arg(long, default_value_t = 10, value_name = "N")]
    runs: u32,
    /// Capacities of the path.
    #[arg(long, value_delimiter = ',', default_value = "10 Mb/s,100 Mb/s,500 Mb/s", value_name = "RATE,...")]
    rates: Vec<Rate>,
    /// Cross traffic as percent of the capacity.
    #[arg(long, value_delimiter = ',', default_value = "0,40,80", value_name = "PERCENT,...")]
    loads: Vec<u32>,
    /// Also measure with this trained model, the method `learned`.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Emulate a receiver that coalesces interrupts for 120 us, at 500 Mb/s, and compare BASS with raw gaps.
    #[arg(long, conflicts_with_all = ["methods", "rates"])]
    coalesce: bool,
    /// Also write every run to this JSON file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &EmulatedArgs, json: bool) -> Result<(), Failed> {
    let what = |plan: &Plan| format!("{} {} {} % {}", plan.rate, plan.model.name(), plan.load, plan.method);
    let cells =
        cells::all(&plans(args), args.runs, what, |plan, index, watch| cell(args, plan, index, watch))?;
    let verdicts = verdicts(&cells, args.runs, args.coalesce);
    Ok(cells::print(&cells, json, args.output.as_deref(), &table(&cells), &verdicts)?)
}

fn plans(args: &EmulatedArgs) -> Vec<Plan> {
    let (mut methods, rates, coalesce): (Vec<Method>, _, _) = if args.coalesce {
        let methods = CONTRASTED.iter().filter_map(|name| name.parse().ok()).collect();
        (methods, vec![COALESCED], Some(COALESCING))
    } else {
        (args.methods.clone(), args.rates.clone(), None)
    };
    let learned = args.model.iter().filter_map(|_| LEARNED.parse().ok());
    methods.extend(learned.filter(|learned| !args.methods.contains(learned)));
    let mut plans = Vec::new();
    for rate in rates {
        for model in [Model::Cbr, Model::Poisson, Model::Bursty] {
            for load in &args.loads {
                for method in &methods {
                    plans.push(Plan { rate, load: *load, model, method: *method, coalesce });
                }
            }
        }
    }
    plans
}

fn cell(args: &EmulatedArgs, plan: &Plan, index: u64, watch: &Watch) -> anyhow::Result<CellRuns> {
    let load = plan.rate.scale(f64::from(plan.load) / 100.0);
    let path = testbed::symmetric(plan.rate, plan.coalesce);
    let spec = testbed::spec(path, testbed::cross(plan.model, load), index + 1);
    let testbed = Testbed::new(super::headway()?, &spec, "accuracy")?;
    let file =
        args.model.as_deref().map(|file| file.to_str().context("the model's path is no text")).transpose()?;
    let model = file.filter(|_| plan.method.name() == LEARNED).map(|file| ["--model", file]);
    let arguments: Vec<&str> =
        ["--method", plan.method.name()].into_iter().chain(model.into_iter().flatten()).collect();
    Ok(CellRuns {
        capacity_mbps: plan.rate.mbps(),
        load_percent: plan.load,
        traffic: plan.model,
        method: plan.method.to_string(),
        measured: watch.measure(&testbed, &arguments)?,
    })
}

fn table(cells: &[CellRuns]) -> Table {
    let header = ["capacity", "load", "traffic", "method"].into_iter().chain(Runs::COLUMNS);
    let row = |cell: &CellRuns| {
        let path = [
            format!("{} Mb/s", cell.capacity_mbps),
            format!("{} %", cell.load_percent),
            cell.traffic.name().to_owned(),
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
