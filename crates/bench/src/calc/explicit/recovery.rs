//! `headway-bench calc explicit recovery`: how far growth must fall before a long queue becomes shorter.

use clap::Args;
use headway_formulas::explicit::Surge;
use headway_units::Bytes;
use serde::Serialize;

use super::super::{digits, line, print_json};
use super::{Link, beta, growth, number};
use headway_program::print_line;
use headway_program::table::table;

/// Calculates how far growth must fall before a long queue of an RCP router becomes shorter.
///
/// After a time of growth beyond the limit it is not enough that growth falls below the limit. The longer the
/// queue, the more flows arrive per round trip, and the lower the growth must be.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc explicit recovery
  headway-bench calc explicit recovery --queue '5 MB,10 MB'
  headway-bench calc explicit recovery --beta 0.3 --growth 0.03")]
pub(super) struct RecoveryArgs {
    /// Weight of the queue in the control law, 0.001 to 0.999.
    #[arg(long, default_value = "0.226", value_parser = beta)]
    beta: f64,
    /// RTT with queue as a multiple of the RTT without, 1 to 10000; several with commas
    /// [default: 3,5,10,20,30].
    #[arg(long, value_delimiter = ',', value_name = "FACTOR", conflicts_with_all = ["queue", "growth"], value_parser = factor)]
    relative_rtt: Vec<f64>,
    /// Queue; several with commas.
    #[arg(long, value_delimiter = ',', value_name = "BYTES", conflicts_with = "growth")]
    queue: Vec<Bytes>,
    /// Instead calculate the longest queue that shrinks at this growth per RTT without queue, 0.000001 to 10.
    #[arg(long, value_parser = growth)]
    growth: Option<f64>,
    #[command(flatten)]
    link: Link,
}

#[derive(Debug, Serialize)]
struct Recovery {
    beta: f64,
    relative_rtt: f64,
    queue_bytes: u64,
    /// Growth per RTT without queue below which the queue shrinks.
    growth: f64,
}

/// Queues are null where growth is beyond the limit.
#[derive(Debug, Serialize)]
struct Longest {
    beta: f64,
    growth: f64,
    limit: f64,
    compensation_queue_bytes: Option<u64>,
    longest_shrinking_queue_bytes: Option<u64>,
}

pub(super) fn run(args: &RecoveryArgs, json: bool) -> anyhow::Result<()> {
    if let Some(growth) = args.growth {
        return longest(args, growth, json);
    }
    let recoveries: Vec<Recovery> = queues(args).iter().map(|queue| recovery(args, *queue)).collect();
    if json {
        return print_json(&recoveries);
    }
    let rows = recoveries.iter().map(|recovery| {
        [digits(recovery.relative_rtt), recovery.queue_bytes.to_string(), digits(recovery.growth)]
    });
    print_line!("{}", table(["RTT", "queue, B", "shrinks below a growth of"], rows));
    Ok(())
}

/// Returns the queues as multiples of rate times RTT.
fn queues(args: &RecoveryArgs) -> Vec<f64> {
    let unit = args.link.rate.bps_f64() / 8.0 * args.link.rtt.secs_f64();
    if !args.queue.is_empty() {
        return args.queue.iter().map(|queue| queue.get() as f64 / unit).collect();
    }
    let factors: &[f64] =
        if args.relative_rtt.is_empty() { &[3.0, 5.0, 10.0, 20.0, 30.0] } else { &args.relative_rtt };
    factors.iter().map(|factor| factor - 1.0).collect()
}

fn recovery(args: &RecoveryArgs, queue: f64) -> Recovery {
    Recovery {
        beta: args.beta,
        relative_rtt: 1.0 + queue,
        queue_bytes: args.link.bytes(queue).get(),
        growth: Surge { beta: args.beta }.growth_at(queue),
    }
}

fn longest(args: &RecoveryArgs, growth: f64, json: bool) -> anyhow::Result<()> {
    let surge = Surge { beta: args.beta };
    let bytes = |queue: f64| args.link.bytes(queue).get();
    let answer = Longest {
        beta: args.beta,
        growth,
        limit: surge.limit().growth,
        compensation_queue_bytes: surge.compensation_queue(growth).map(bytes),
        longest_shrinking_queue_bytes: surge.longest_shrinking_queue(growth).map(bytes),
    };
    if json {
        return print_json(&answer);
    }
    print_line!("Growth of {growth} per RTT at {} over {}", args.link.rate, args.link.rtt);
    line("limit of growth", &digits(answer.limit));
    let text = |queue: Option<u64>| match queue {
        Some(bytes) => Bytes::new(bytes).to_string(),
        None => "none: growth is beyond the limit".to_owned(),
    };
    line("queue comes to rest at", &text(answer.compensation_queue_bytes));
    line("longest that shrinks", &text(answer.longest_shrinking_queue_bytes));
    Ok(())
}

fn factor(text: &str) -> Result<f64, String> {
    number(text, 1.0..=10_000.0)
}
