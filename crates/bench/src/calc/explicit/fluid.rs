//! `headway-bench calc explicit fluid`: queue and rate of RCP over time, by the fluid model.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use headway_formulas::explicit::{Flows, Fluid, STEPS, Surge, Trajectory};
use headway_units::{Bytes, Duration};
use serde::Serialize;

use super::super::{digits, line, print_json, time};
use super::arrivals::CrowdOption;
use super::{Link, alpha, beta, figure, growth};
use headway_program::print_line;
use headway_runs::testbed;

/// Round trips without --duration while flows grow by a constant share: the queue comes to rest in fewer,
/// unless growth is next to the limit.
const ROUND_TRIPS: i64 = 300;
/// Most round trips: their states take 100 MB.
const MOST_ROUND_TRIPS: i64 = 100_000;
/// A queue that changes by less than this share of itself during the last quarter is at rest.
const AT_REST: f64 = 0.02;

/// Calculates queue and rate of an RCP router over time while the number of flows grows, by its fluid model.
///
/// The model is a delay differential equation whose delay grows with the queue. All flows have the same RTT,
/// use exactly the link in the beginning, and take every rate at once. If the number of flows grows by a
/// constant share per RTT, the queue comes to rest at the value that `headway-bench calc explicit queue`
/// gives, unless alpha and beta make it oscillate. While growth is beyond the limit, the model says that the
/// queue gets long but not how long: it takes the growth during one round trip for that during the next.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc explicit fluid --growth 0.05
  headway-bench calc explicit fluid --growth 0.07 --csv fluid.csv
  headway-bench calc explicit fluid --arrivals laplace:peak=20s,b=1s --report fluid.svg")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["growth", "arrivals"]))]
pub(super) struct FluidArgs {
    /// Growth of the number of flows per RTT without queue, 0.000001 to 10.
    #[arg(long, value_parser = growth)]
    growth: Option<f64>,
    #[command(flatten)]
    crowd: CrowdOption,
    /// Weight of the spare bandwidth in the control law, 0.001 to 2.
    #[arg(long, default_value = "0.4", value_parser = alpha)]
    alpha: f64,
    /// Weight of the queue in the control law, 0.001 to 0.999.
    #[arg(long, default_value = "0.226", value_parser = beta)]
    beta: f64,
    #[command(flatten)]
    link: Link,
    /// How long, at most 100000 RTTs [default: 300 RTTs, or one and a half times until the
    /// whole crowd has arrived].
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Write rate, queue and growth to this CSV file, a row per RTT.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a figure of queue, rate and growth over time.
    #[arg(long, value_name = "FILE.svg")]
    report: Option<PathBuf>,
}

/// Queues in bytes.
#[derive(Debug, Serialize)]
struct Answer {
    duration_ns: i64,
    /// Whether the queue became ten thousand times as long as the link carries in an RTT, which
    /// ended the calculation.
    endless: bool,
    longest_queue_bytes: u64,
    longest_queue_at_ns: i64,
    /// Shortest and longest queue of the last quarter.
    last_queue_bytes: [u64; 2],
    /// The closed form, for growth by a constant share below the limit.
    compensation_queue_bytes: Option<u64>,
}

pub(super) fn run(args: &FluidArgs, json: bool) -> anyhow::Result<()> {
    let fluid = args.fluid()?;
    let trajectory = fluid.solve(args.round_trips()?, STEPS);
    if let Some(file) = &args.csv {
        testbed::write(file, &rows(args.link, &fluid, &trajectory))?;
    }
    if let Some(file) = &args.report {
        testbed::write(file, &figure::draw(args.link, &fluid, &trajectory)?)?;
    }
    let answer = answer(args, &trajectory);
    if json { print_json(&answer) } else { print(args, &answer) }
}

impl FluidArgs {
    fn fluid(&self) -> anyhow::Result<Fluid> {
        let flows = match (self.growth, self.crowd.crowd()) {
            (Some(growth), _) => Flows::Growing(growth),
            (None, Some(crowd)) => Flows::Crowd(crowd),
            (None, None) => bail!("--growth or --arrivals is needed"),
        };
        Ok(Fluid { alpha: self.alpha, beta: self.beta, rtt: self.link.rtt, flows })
    }

    /// Returns the duration in round trips without queue, rounded up.
    fn round_trips(&self) -> anyhow::Result<u32> {
        let rtt = self.link.rtt.ns();
        let wanted = match (self.duration, self.crowd.crowd()) {
            (Some(duration), _) => duration.ns(),
            (None, Some(crowd)) => crowd.arrivals.end().scale(1.5).ns(),
            (None, None) => rtt.saturating_mul(ROUND_TRIPS),
        };
        match (wanted - 1) / rtt + 1 {
            trips if trips <= MOST_ROUND_TRIPS => Ok(trips as u32),
            trips => bail!("that takes {trips} RTTs; --duration is at most {MOST_ROUND_TRIPS} RTTs"),
        }
    }

    /// Returns the closed form of the queue, where there is one.
    fn compensation_queue(&self) -> Option<f64> {
        Surge { beta: self.beta }.compensation_queue(self.growth?)
    }
}

fn answer(args: &FluidArgs, trajectory: &Trajectory) -> Answer {
    let longest = trajectory.longest_queue();
    let (least, most) = trajectory.last_queues();
    let bytes = |queue| args.link.bytes(queue).get();
    Answer {
        duration_ns: trajectory.points().last().map_or(0, |point| point.time.ns()),
        endless: trajectory.is_endless(),
        longest_queue_bytes: bytes(longest.queue),
        longest_queue_at_ns: longest.time.ns(),
        last_queue_bytes: [bytes(least), bytes(most)],
        compensation_queue_bytes: args.compensation_queue().map(bytes),
    }
}

fn print(args: &FluidArgs, answer: &Answer) -> anyhow::Result<()> {
    let text = |bytes: u64| Bytes::new(bytes).to_string();
    let duration = Duration::from_ns(answer.duration_ns);
    let Link { rate, rtt } = args.link;
    print_line!("RCP as a fluid at {rate} over {rtt}, {duration}");
    let at = Duration::from_ns(answer.longest_queue_at_ns);
    line("longest queue", &format!("{} at {at}", text(answer.longest_queue_bytes)));
    let [least, most] = answer.last_queue_bytes;
    let last = match answer {
        Answer { endless: true, .. } => "without end: the calculation stopped".to_owned(),
        _ if (most - least) as f64 <= AT_REST * most as f64 => format!("{}, at rest", text(most)),
        _ => format!("{} to {}, not at rest", text(least), text(most)),
    };
    line("queue in the last quarter", &last);
    if args.growth.is_some() {
        let limit = Surge { beta: args.beta }.limit().growth;
        let queue = answer.compensation_queue_bytes.map_or_else(|| "none".to_owned(), text);
        line("queue by closed form", &format!("{queue}, limit of growth {}", digits(limit)));
    }
    Ok(())
}

/// Returns the points as CSV.
fn rows(link: Link, fluid: &Fluid, trajectory: &Trajectory) -> String {
    let mut text = "time_ns,rate_bps,queue_bytes,growth\n".to_owned();
    for point in trajectory.per_rtt() {
        let rate = link.rate.scale(point.rate).bps();
        let (queue, growth) = (link.bytes(point.queue).get(), fluid.growth(point.time));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{},{rate},{queue},{growth}", point.time.ns());
    }
    text
}
