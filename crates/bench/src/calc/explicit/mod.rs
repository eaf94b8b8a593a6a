//! `headway-bench calc explicit`: XCP and RCP by formula, and RCP as a fluid.

mod arrivals;
mod capacity;
mod crowd;
mod figure;
mod fluid;
mod limits;
mod queue;
mod recovery;

use clap::{Args, Subcommand};
use headway_formulas::explicit::queue_bytes;
use headway_units::{Bytes, Duration, Rate};

use super::{rate, time};

/// Calculates for explicit routers: the limits and queues of RCP while the number of flows grows,
/// and the queue of XCP with a wrong capacity.
///
/// Growth is the relative increase of the number of flows per round-trip time without queue: 0.05
/// makes 105 flows of 100.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc explicit limits
  headway-bench calc explicit queue --beta 0.226 --growth 0.05
  headway-bench calc explicit recovery --growth 0.03
  headway-bench calc explicit capacity --rate '1.5 Mb/s' --believed '1.65 Mb/s'
  headway-bench calc explicit crowd --arrivals laplace:peak=20s,b=1s
  headway-bench calc explicit fluid --growth 0.05 --report fluid.svg")]
pub(super) struct ExplicitArgs {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Limits(limits::LimitsArgs),
    Queue(queue::QueueArgs),
    Recovery(recovery::RecoveryArgs),
    Capacity(capacity::CapacityArgs),
    Crowd(crowd::CrowdArgs),
    Fluid(fluid::FluidArgs),
}

pub(super) fn run(args: &ExplicitArgs, json: bool) -> anyhow::Result<()> {
    match &args.command {
        What::Limits(args) => limits::run(args, json),
        What::Queue(args) => queue::run(args, json),
        What::Recovery(args) => recovery::run(args, json),
        What::Capacity(args) => capacity::run(args, json),
        What::Crowd(args) => crowd::run(args, json),
        What::Fluid(args) => fluid::run(args, json),
    }
}

/// The link, for queues in bytes.
#[derive(Args, Clone, Copy, Debug)]
struct Link {
    /// Rate of the link.
    #[arg(long, default_value = "100 Mb/s", value_parser = rate)]
    rate: Rate,
    /// RTT without queueing.
    #[arg(long, value_name = "TIME", default_value = "100 ms", value_parser = time)]
    rtt: Duration,
}

impl Link {
    /// Returns a queue in bytes that is given as a multiple of rate times RTT.
    fn bytes(&self, queue: f64) -> Bytes {
        queue_bytes(queue, self.rate, self.rtt)
    }
}

fn alpha(text: &str) -> Result<f64, String> {
    number(text, 0.001..=2.0)
}

fn beta(text: &str) -> Result<f64, String> {
    number(text, 0.001..=0.999)
}

fn growth(text: &str) -> Result<f64, String> {
    number(text, 1e-6..=10.0)
}

fn number(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let value = text.trim().parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| format!("it must be {} to {}", range.start(), range.end()))
}

/// Formats a share of one as a percentage.
fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_and_growths_out_of_range_are_refused() {
        assert_eq!([alpha("0.4"), beta("0.226"), growth(" 0.05")], [Ok(0.4), Ok(0.226), Ok(0.05)]);
        for text in ["0", "1", "-0.1", "NaN", "inf", "much", ""] {
            assert!(beta(text).is_err(), "{text}");
        }
        assert!(alpha("2.1").is_err() && growth("0").is_err() && growth("11").is_err());
    }
}
