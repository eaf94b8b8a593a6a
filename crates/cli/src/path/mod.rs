//! `headway path`: the hops of the path to a host, and which of its links is the narrow one.

mod figure;
mod pairs;
mod report;
mod run;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use headway_estimate::hire::Rule;
use headway_net::{Carrier, Host};
use headway_units::{Bytes, Duration};

use crate::limits::Least;
use headway_program::connection::ConnectionArgs;

use headway_program::exit::Failed;

/// Measures the path and prints the answer.
pub(crate) fn run(args: &PathArgs, json: bool) -> Result<(), Failed> {
    args.check().and_then(|()| run::run(args, json)).map_err(|failed| failed.at_host(&args.host.name))
}

/// Finds the narrow link of the path to HOST, where `headway serve` must run.
///
/// Sends pairs of UDP packets, whose distance at the receiver shows the capacity of the narrow link, and
/// trains whose inner packets expire on the way, which shows its hop. An answer takes about ten seconds
/// and at most 3 MB, and does not fill the path unless `--tight` is given. Needs no privileges, except
/// for `--carrier icmp`.
///
/// The answer is a hop with a probability, or the reason why there is none. Rates count every byte on the
/// wire (IP packet + 38 bytes of Ethernet framing).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = AFTER_LONG_HELP.as_str())]
pub(crate) struct PathArgs {
    /// Name or address of the host on which `headway serve` runs; also `HOST:PORT` and `[IPv6]:PORT`.
    #[arg(value_name = "HOST")]
    host: Host,
    /// Also measure the capacities of the links before the narrow one, for up to 15 MB and 30 s each.
    #[arg(long)]
    all: bool,
    /// Also find the tight link, which has the least to spare, by streams that overload it for a moment: up
    /// to 12 MB and 60 s in all.
    #[arg(long)]
    tight: bool,
    /// Decide by the rule of the original paper, which takes cross traffic for a narrow link.
    #[arg(long)]
    literal: bool,
    /// Most bytes of probes, for example `1 MB` [default: 3 MB, 12 MB with `--tight`, 500 MB with `--all`].
    #[arg(long, short, value_name = "BYTES")]
    budget: Option<Bytes>,
    /// Most time, for example `15 s` [default: 30 s, 60 s with `--tight`, 15 min with `--all`].
    #[arg(long, short, value_name = "TIME")]
    duration: Option<Duration>,
    /// What carries pairs and trains to the server.
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    carrier: By,
    /// Draw the evidence: delays of pairs over their rates, and rates of trains over hops.
    #[arg(long, value_name = "FILE.svg")]
    report: Option<PathBuf>,
    /// Write the times of every pair and train to a file, a JSON object per line.
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What carries pairs and trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// UDP datagrams to the server's port.
    #[default]
    Udp,
    /// ICMP Echo Replies, for paths that treat UDP differently; both hosts need CAP_NET_RAW.
    Icmp,
}

impl From<By> for Carrier {
    fn from(by: By) -> Carrier {
        match by {
            By::Udp => Carrier::Udp,
            By::Icmp => Carrier::Icmp,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  headway path 192.0.2.7                     hops, capacity and narrow link
  headway path 192.0.2.7 --report path.svg   and a picture of the evidence
  headway path 192.0.2.7 --all               and the capacities of the links before the narrow one
  headway path 192.0.2.7 --tight             and the link with the least to spare
  headway path 192.0.2.7 --budget '1 MB'     on a metered link
  sudo headway path 192.0.2.7 --carrier icmp where UDP is filtered or limited differently
  headway path 192.0.2.7 --json | jq .narrow_hop";

/// Exit codes and examples.
static AFTER_LONG_HELP: std::sync::LazyLock<String> =
    std::sync::LazyLock::new(|| format!("{}\n\n{EXAMPLES}", headway_program::exit::HELP));

/// Default limits of an answer, and those with `--tight` and with `--all`.
const BUDGET: Bytes = Bytes::new(3_000_000);
const TIME: Duration = Duration::from_ms(30_000);
const BUDGET_TIGHT: Bytes = Bytes::new(12_000_000);
const TIME_TIGHT: Duration = Duration::from_ms(60_000);
const BUDGET_ALL: Bytes = Bytes::new(500_000_000);
const TIME_ALL: Duration = Duration::from_ms(900_000);

/// The smallest budget with which a path can give an answer: the packets that find the largest size take 29
/// kB, and the ten pairs without which there is no capacity, 31 kB, may take 35 % of the rest.
const LEAST_BUDGET: Bytes = Bytes::new(120_000);

/// The shortest time in which a path can give an answer: that of ten pairs, 20 ms apart, which
/// may take 35 % of it.
const LEAST_TIME: Duration = Duration::from_ms(570);

/// The threshold of the original rule, in Mb/s, and that of the rule by steps: links that differ by a fifth
/// are told apart, and cross traffic alone makes neighbouring groups differ by some per cent.
const LITERAL_GAMMA: f64 = 0.2;
const STEP_GAMMA: f64 = 0.15;

impl PathArgs {
    /// Refuses limits below which no path gives an answer, before anything is sent.
    fn check(&self) -> Result<(), Failed> {
        Least { budget: LEAST_BUDGET, duration: LEAST_TIME }.check(self.budget, self.duration)
    }

    fn rule(&self) -> Rule {
        if self.literal { Rule::Deviation(LITERAL_GAMMA) } else { Rule::Step(STEP_GAMMA) }
    }

    fn budget(&self) -> Bytes {
        self.budget.unwrap_or(match (self.all, self.tight) {
            (true, _) => BUDGET_ALL,
            (false, true) => BUDGET_TIGHT,
            (false, false) => BUDGET,
        })
    }

    fn time(&self) -> Duration {
        self.duration.unwrap_or(match (self.all, self.tight) {
            (true, _) => TIME_ALL,
            (false, true) => TIME_TIGHT,
            (false, false) => TIME,
        })
    }
}
