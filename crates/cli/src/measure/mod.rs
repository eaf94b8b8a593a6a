//! `headway measure`: the available bandwidth of the path to a host.

mod report;
mod run;
mod streams;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use headway_estimate::measure::{Config, Method};
use headway_learned::Model;
use headway_net::{Gaps, Host, Session};
use headway_program::lines::Direction;
use headway_units::{Bytes, Duration, Rate};

use crate::limits::Least;
use crate::metrics::MetricsArgs;
use crate::model_file;
use headway_program::connection::ConnectionArgs;

use headway_program::exit::{Code, Failed};

/// Runs all requested measurements and prints the answers.
pub(crate) fn run(args: &MeasureArgs, json: bool) -> Result<(), Failed> {
    args.check(json).and_then(|()| run::run(args, json)).map_err(|failed| failed.at_host(&args.host.name))
}

/// Measures the available bandwidth of the path to HOST, where `headway serve` must run.
///
/// Sends short streams of UDP packets and infers from the gaps between them how much more traffic the path
/// could carry now. A measurement takes 1 to 3 s and 2 MB at 100 Mb/s, does not fill the path, and finds any
/// rate from 1 Mb/s to 10 Gb/s.
///
/// The answer is the available bandwidth with a 90 % interval. All rates count every byte on the wire (IP
/// packet + 38 bytes of Ethernet framing); with 1500-byte packets TCP can carry about 94 % of it as data.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  headway measure 192.0.2.7                    once, from here to there\n",
    "  headway measure 192.0.2.7 --both             and back\n",
    "  headway measure 192.0.2.7 --watch            again and again, with a live view\n",
    "  headway measure 192.0.2.7 --interval 5min --csv >> path.csv\n",
    "  headway measure 192.0.2.7 --budget '500 kB'  on a metered link\n"
), after_long_help = AFTER_LONG_HELP.as_str())]
pub(crate) struct MeasureArgs {
    /// Name or address of the host on which `headway serve` runs; also `HOST:PORT` and `[IPv6]:PORT`.
    #[arg(value_name = "HOST")]
    host: Host,
    /// Measure from the server to here instead.
    #[arg(long, short = 'R', conflicts_with = "both")]
    reverse: bool,
    /// Measure both directions, one after the other.
    #[arg(long)]
    both: bool,
    /// Estimator to use; see the list below.
    #[arg(
        long,
        short,
        default_value_t,
        value_name = "NAME",
        hide_possible_values = true,
        help_heading = "Method"
    )]
    method: Method,
    /// Trained model for `--method learned`, which sends the streams that it was trained on.
    #[arg(long, value_name = "FILE", help_heading = "Method")]
    model: Option<PathBuf>,
    /// What makes the gaps between probes from here.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "KIND",
        conflicts_with = "reverse",
        help_heading = "Method"
    )]
    gaps: GapKind,
    /// Most bytes of probes per answer, for example `500 kB` [default: 2 MB up to 200 Mb/s and 6 MB above;
    /// four times that for methods other than the default].
    #[arg(long, short, value_name = "BYTES", help_heading = "Limits")]
    budget: Option<Bytes>,
    /// Disturb other traffic less: half the delay and half the bytes, with pauses, up to four times as long,
    /// and a wider interval. The first packet lost from a full queue ends the measurement.
    #[arg(long, short, help_heading = "Limits")]
    gentle: bool,
    /// Most time per answer, for example `2 s` [default: 2.4 s, or 4.8 s on paths below
    /// 30 Mb/s, and 40 RTTs].
    #[arg(long, short, value_name = "TIME", help_heading = "Limits")]
    duration: Option<Duration>,
    /// Measure repeatedly, with an answer every TIME; measurements stop early if necessary. With
    /// `0 s`, back to back.
    #[arg(long, short, value_name = "TIME", help_heading = "Series")]
    interval: Option<Duration>,
    /// Measure repeatedly, with a live view of the last answers [interval: 10 s].
    #[arg(long, short, help_heading = "Series")]
    watch: bool,
    /// Stop after this many answers [interval: 10 s].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Series")]
    count: Option<u64>,
    /// Print comma-separated values with a header.
    #[arg(long, conflicts_with = "watch", help_heading = "Output")]
    csv: bool,
    /// Also write the times of every packet to a CSV file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    streams: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Output")]
    metrics: MetricsArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What makes gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum GapKind {
    /// A thread that reads the clock until it is time.
    #[default]
    Spin,
    /// A timer of the kernel: less CPU, later packets.
    Timer,
    /// PAUSE frames (802.3x, time 0) that fill the line between probes, and that the first switch drops.
    /// Needs CAP_NET_RAW and a line of known rate.
    Pause,
}

impl GapKind {
    fn gaps(self) -> Gaps {
        match self {
            GapKind::Spin => Gaps::Spin,
            GapKind::Timer => Gaps::Timer,
            GapKind::Pause => Gaps::Pause,
        }
    }
}

/// Methods and exit codes, generated from the tables that the program itself uses.
static AFTER_LONG_HELP: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let mut text = String::from("Methods:\n");
    for method in Method::named() {
        text.push_str(&format!("  {:17} {}\n", method.name(), method.summary()));
    }
    text.push('\n');
    text.push_str(headway_program::exit::HELP);
    text.push_str(
        "\n\nExamples:\n\
         \x20 headway measure 192.0.2.7                    once, from here to there\n\
         \x20 headway measure 192.0.2.7 --both             and back\n\
         \x20 headway measure 192.0.2.7 --watch            again and again, with a live view\n\
         \x20 headway measure 192.0.2.7 --interval 5min --csv >> path.csv\n\
         \x20 headway measure 192.0.2.7 --budget '500 kB'  on a metered link\n\
         \x20 headway measure 192.0.2.7 --json | jq .available_bps",
    );
    text
});

/// The highest average rate to probe.
const TOP_RATE: Rate = Rate::from_bps(10_000_000_000);

/// The smallest budget with which a path can give an answer: the packets that find the largest size take 29
/// kB, and the streams of the cheapest path in the simulator, an idle one of 1 Mb/s, more than 50 kB.
const LEAST_BUDGET: Bytes = Bytes::new(80_000);

/// The shortest time in which a path can give an answer: a stream of the slowest rate takes longer.
const LEAST_TIME: Duration = Duration::from_ms(50);

/// Default interval between the answers of a series.
const DEFAULT_INTERVAL: Duration = Duration::from_ms(10_000);

impl MeasureArgs {
    /// Returns the configuration of a measurement in this direction.
    ///
    /// `spent` are the bytes of probes that this answer has cost already, those that found the packet size.
    fn config(&self, method: Method, direction: Direction, session: &Session, spent: Bytes) -> Config {
        let top_rate = match direction {
            Direction::Forward => TOP_RATE,
            Direction::Reverse => TOP_RATE.min(session.reverse_rate()),
        };
        Config {
            method,
            packet: session.packet_size(),
            budget: self.budget.map(|budget| Bytes::new(budget.get().saturating_sub(spent.get()))),
            gentle: self.gentle,
            duration: self.duration,
            rtt: session.rtt(),
            top_rate,
            train_rate: TOP_RATE,
        }
    }

    /// Returns the method, with the model if it is a trained one.
    fn method(&self) -> Result<(Method, Option<Arc<Model>>), Failed> {
        let wrong = |why: String| Failed::new(Code::Arguments, anyhow::anyhow!(why));
        let Some(path) = &self.model else {
            return match self.method == Method::LEARNED {
                true => Err(wrong("--method learned needs --model FILE".to_owned())),
                false => Ok((self.method, None)),
            };
        };
        if self.method != Method::LEARNED {
            return Err(wrong(format!("--model is for --method learned, not for {}", self.method)));
        }
        let model = model_file::read(path).map_err(|error| Failed::new(Code::Arguments, error))?;
        let task = model.task().name();
        let file = path.display();
        let method = Method::of_model(&model).ok_or_else(|| {
            wrong(format!("{file} is a model of TCP samples ({task}); it is for `headway passive --model`"))
        })?;
        Ok((method, Some(model)))
    }

    /// Refuses two forms of output, and limits below which no path gives an answer, before anything is sent.
    fn check(&self, json: bool) -> Result<(), Failed> {
        let other = if self.csv { "--csv" } else { "--watch" };
        if json && (self.csv || self.watch) {
            return Err(Failed::new(Code::Arguments, anyhow::anyhow!("--json cannot be used with {other}")));
        }
        if self.metrics.metrics.is_some() && self.repeat_every().is_none() {
            let reason =
                anyhow::anyhow!("--metrics is for measurements that go on; add --watch or --interval");
            return Err(Failed::new(Code::Arguments, reason));
        }
        Least { budget: LEAST_BUDGET, duration: LEAST_TIME }.check(self.budget, self.duration)
    }

    /// Returns the time between the starts of two measurements; `None` for a single answer.
    fn repeat_every(&self) -> Option<Duration> {
        let series = self.watch || self.count.is_some_and(|count| count > 1);
        self.interval.or(series.then_some(DEFAULT_INTERVAL))
    }
}
