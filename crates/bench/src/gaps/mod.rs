//! `headway-bench gaps`: how exact the gaps are that mechanisms make, at the next hop.

mod arrivals;
mod errors;
mod hosts;
mod load;
mod run;
mod tcp;
mod udp;
mod verdicts;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comfy_table::Table;
use headway_host::gap;
use headway_program::exit::{Code, Failed};
use headway_units::statistics::{median, sorted};
use headway_units::{Bytes, Duration, Rate};
use serde::Serialize;

use self::errors::Errors;
use crate::accuracy::cells;

/// A packet of 1500 bytes on the wire.
const PACKET: Bytes = Bytes::new(1538);

/// Makes gaps between packets by several mechanisms, and prints their errors at the next hop.
///
/// A sender and its next hop are two network namespaces of this program; nothing leaves the host. Times are
/// the kernel's receive stamps at the next hop. Packets have 1500 bytes, rates count 1538. The error of a gap
/// is how much longer it is than intended; several flows have an equal share of the rate each, and their own
/// gaps count. `cpu` is what program and kernel take for both hosts, of one processor. Needs root.
///
/// The wire between the hosts takes no time. What `pause` and `tcp-pause` send then passes a line of the rate
/// `--line`, which takes the time of its bytes for each frame and drops PAUSE frames, as the first switch
/// does. The models are those of the simulator, for a sender on such a line.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo headway-bench gaps
  sudo headway-bench gaps --mechanisms tcp-device --rates '300 Mb/s,400 Mb/s' --flows 1 --loads quiet")]
pub(crate) struct GapsArgs {
    /// Mechanisms to compare.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "NAME,...", default_values_t = Mechanism::ALL)]
    mechanisms: Vec<Mechanism>,
    /// Rates of all flows together.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "20 Mb/s,50 Mb/s,100 Mb/s,200 Mb/s",
        value_name = "RATE,..."
    )]
    rates: Vec<Rate>,
    /// Rate of the line that `pause` and `tcp-pause` fill and models have, at least that of the flows.
    #[arg(long, default_value = "1 Gb/s", value_name = "RATE")]
    line: Rate,
    /// Numbers of flows, 1 to 16.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,4",
        value_parser = clap::value_parser!(u32).range(1..=16),
        value_name = "N,..."
    )]
    flows: Vec<u32>,
    /// What the last processor does meanwhile.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "quiet,busy", value_name = "LOAD,...")]
    loads: Vec<Load>,
    /// Valid runs of each row.
    #[arg(long, default_value_t = 3, value_name = "N")]
    runs: u32,
    /// Length of a run, 100 ms to 60 s.
    #[arg(long, default_value = "2 s", value_name = "TIME", value_parser = length)]
    time: Duration,
    /// Also write every run to this JSON file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What makes the gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Mechanism {
    /// TCP's pace, set by a BPF controller whose window keeps segments single.
    TcpWindow,
    /// The same with an interface that takes single segments, as `headway cc rapid` has it.
    TcpDevice,
    /// Departure times that TCP sets and the queue discipline `fq` keeps.
    TcpFq,
    /// TCP as with `tcp-device`, with PAUSE frames between its segments, as
    /// `headway cc rapid --gaps pause` has it.
    TcpPause,
    /// Threads that send UDP when a timer of the kernel wakes them.
    Timer,
    /// Threads that look at the clock until it is time to send UDP.
    Spin,
    /// UDP with PAUSE frames between the packets.
    Pause,
    /// The simulator's kernel timer.
    ModelTimer,
    /// The simulator's process that looks at the clock.
    ModelSpin,
    /// The simulator's clock of bytes.
    ModelPause,
}

impl Mechanism {
    const ALL: [Mechanism; 10] = [
        Mechanism::TcpWindow,
        Mechanism::TcpDevice,
        Mechanism::TcpFq,
        Mechanism::TcpPause,
        Mechanism::Timer,
        Mechanism::Spin,
        Mechanism::Pause,
        Mechanism::ModelTimer,
        Mechanism::ModelSpin,
        Mechanism::ModelPause,
    ];

    /// Whether PAUSE frames fill the line.
    fn fills_line(self) -> bool {
        matches!(self, Mechanism::Pause | Mechanism::TcpPause)
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it sends over a line.
    fn has_line(self) -> bool {
        self.fills_line() || self.model().is_some()
    }

    /// Returns the simulator's mechanism if it is a model.
    fn model(self) -> Option<gap::Mechanism> {
        match self {
            Mechanism::ModelTimer => Some(gap::Mechanism::Timer),
            Mechanism::ModelSpin => Some(gap::Mechanism::BusyWait),
            Mechanism::ModelPause => Some(gap::Mechanism::ByteClock),
            _ => None,
        }
    }
}

/// What the last processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Load {
    /// Nothing but its part of the work.
    Quiet,
    /// It also runs a program that never waits.
    Busy,
}

fn length(text: &str) -> Result<Duration, String> {
    let length: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let range = Duration::from_ms(100)..=Duration::from_ms(60_000);
    if range.contains(&length) { Ok(length) } else { Err("between 100 ms and 60 s".to_owned()) }
}

/// A row of the table.
struct Plan {
    mechanism: Mechanism,
    rate: Rate,
    flows: u32,
    load: Load,
    line: Rate,
}

impl Plan {
    /// Returns the intended gap between packets of one flow.
    fn gap(&self) -> Duration {
        self.rate.time_for(PACKET) * i64::from(self.flows)
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize)]
struct Run {
    #[serde(flatten)]
    errors: Errors,
    rate_mbps: f64,
    /// `None` of a model.
    cpu_percent: Option<f64>,
}

/// The runs of a row.
#[derive(Debug, Serialize)]
struct CellRuns {
    mechanism: Mechanism,
    rate_mbps: f64,
    flows: u32,
    load: Load,
    gap_us: f64,
    runs: Vec<Run>,
    /// Runs that the machine disturbed.
    void_runs: u32,
    failures: Vec<String>,
}

pub(crate) fn run(args: &GapsArgs, json: bool) -> Result<(), Failed> {
    let what =
        |plan: &Plan| format!("{} {} {} flows {:?}", plan.mechanism.name(), plan.rate, plan.flows, plan.load);
    let plans = plans(args);
    if let Some(plan) = plans.iter().find(|plan| plan.rate > plan.line && plan.mechanism.has_line()) {
        let reason =
            anyhow::anyhow!("{} cannot send {} over {}", plan.mechanism.name(), plan.rate, plan.line);
        return Err(Failed::new(Code::Arguments, reason));
    }
    let mut cells = cells::all(&plans, args.runs, what, |plan, _, watch| run::cell(plan, args.time, watch))?;
    // What this host does not have is said once.
    cells.dedup_by(|one, other| {
        one.mechanism == other.mechanism && one.is_impossible() && other.is_impossible()
    });
    Ok(cells::print(&cells, json, args.output.as_deref(), &table(&cells), &verdicts::sentences(&cells))?)
}

fn plans(args: &GapsArgs) -> Vec<Plan> {
    let mut plans = Vec::new();
    for mechanism in &args.mechanisms {
        // Nothing disturbs a model.
        let loads = if mechanism.model().is_some() { &[Load::Quiet][..] } else { &args.loads };
        for load in loads {
            for flows in &args.flows {
                for rate in &args.rates {
                    let (mechanism, rate, flows, load) = (*mechanism, *rate, *flows, *load);
                    plans.push(Plan { mechanism, rate, flows, load, line: args.line });
                }
            }
        }
    }
    plans
}

impl CellRuns {
    fn new(plan: &Plan) -> CellRuns {
        CellRuns {
            mechanism: plan.mechanism,
            rate_mbps: plan.rate.mbps(),
            flows: plan.flows,
            load: plan.load,
            gap_us: plan.gap().us(),
            runs: Vec::new(),
            void_runs: 0,
            failures: Vec::new(),
        }
    }

    /// Whether no run gave a number.
    fn is_impossible(&self) -> bool {
        self.runs.is_empty() && !self.failures.is_empty()
    }

    /// Returns the median of a number over the runs.
    fn median_of(&self, value: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(value).collect()).unwrap_or(f64::NAN)
    }

    /// Returns the standard deviation as a share of the gap.
    fn share(&self) -> f64 {
        self.median_of(|run| run.errors.deviation_us) / self.gap_us
    }

    fn columns(&self) -> Vec<String> {
        let plan = [
            self.mechanism.name(),
            format!("{:?}", self.load).to_lowercase(),
            self.flows.to_string(),
            format!("{} Mb/s", self.rate_mbps),
            format!("{:.1}", self.gap_us),
        ];
        plan.into_iter().chain(self.results()).collect()
    }

    fn results(&self) -> Vec<String> {
        if self.runs.is_empty() {
            return vec![if self.failures.is_empty() { "void" } else { "none" }.to_owned()];
        }
        let us = |value: fn(&Run) -> f64| format!("{:.1}", self.median_of(value));
        let deviations = sorted(self.runs.iter().map(|run| run.errors.deviation_us).collect());
        let cpu = median(self.runs.iter().filter_map(|run| run.cpu_percent).collect());
        let ends = (deviations[0], deviations[deviations.len() - 1]);
        vec![
            us(|run| run.rate_mbps),
            us(|run| run.errors.mean_us),
            us(|run| run.errors.deviation_us),
            format!("{:.1} to {:.1}", ends.0, ends.1),
            format!("{:.0} %", self.share() * 100.0),
            us(|run| run.errors.p1_us),
            us(|run| run.errors.p99_us),
            cpu.map_or_else(String::new, |percent| format!("{percent:.0} %")),
            self.void_runs.to_string(),
        ]
    }
}

fn table(cells: &[CellRuns]) -> Table {
    let header = [
        "mechanism",
        "last processor",
        "flows",
        "rate",
        "gap, us",
        "had, Mb/s",
        "mean",
        "std",
        "of runs",
        "of gap",
        "p1",
        "p99",
        "cpu",
        "void",
    ];
    cells::table(header, cells.iter().map(CellRuns::columns))
}
