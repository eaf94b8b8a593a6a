//! `headway-bench calc explicit limits`: how fast the number of flows may grow.

use clap::Args;
use headway_formulas::explicit::Surge;
use serde::Serialize;

use super::super::{digits, print_json};
use super::{Link, beta};
use headway_program::print_line;
use headway_program::table::table;

/// Calculates how fast the number of flows may grow before no queue of an RCP router is long enough.
///
/// Beyond the limit, the queue makes round trips longer, more flows arrive in each of them, and they need a
/// longer queue. The limit depends on beta, the weight of the queue in the control law; alpha plays no part.
#[derive(Args, Debug)]
#[command(after_help = "\
Columns:
  growth            limit of growth per RTT without queue, of a router that updates its rate once per RTT
  short intervals   the same, if it updates its rate many times per RTT
  per delay         limit of growth per RTT with queue
  RTT               RTT with queue at the limit, as a multiple of the RTT without
  queue             queue at the limit

Examples:
  headway-bench calc explicit limits
  headway-bench calc explicit limits --beta 0.226,0.3 --rate '10 Mb/s' --rtt '50 ms'
  headway-bench calc explicit limits --beta 0.226 --json")]
pub(super) struct LimitsArgs {
    /// Weight of the queue in the control law, 0.001 to 0.999; several with commas.
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.15,0.2,0.226,0.3,0.4,0.5", value_parser = beta)]
    beta: Vec<f64>,
    #[command(flatten)]
    link: Link,
}

/// Growth is per RTT without queue.
#[derive(Debug, Serialize)]
struct Limits {
    beta: f64,
    growth: f64,
    short_interval_growth: f64,
    growth_per_delay: f64,
    /// RTT with queue at the limit, as a multiple of the RTT without.
    relative_rtt: f64,
    queue_bytes: u64,
}

pub(super) fn run(args: &LimitsArgs, json: bool) -> anyhow::Result<()> {
    let limits: Vec<Limits> = args.beta.iter().map(|beta| calculate(*beta, args.link)).collect();
    if json {
        return print_json(&limits);
    }
    let header = ["beta", "growth", "short intervals", "per delay", "RTT", "queue, B"];
    let rows = limits.iter().map(|limits| {
        [
            limits.beta.to_string(),
            digits(limits.growth),
            digits(limits.short_interval_growth),
            digits(limits.growth_per_delay),
            digits(limits.relative_rtt),
            limits.queue_bytes.to_string(),
        ]
    });
    print_line!("{}", table(header, rows));
    Ok(())
}

fn calculate(beta: f64, link: Link) -> Limits {
    let surge = Surge { beta };
    let limit = surge.limit();
    Limits {
        beta,
        growth: limit.growth,
        short_interval_growth: surge.limit_of_short_intervals(),
        growth_per_delay: surge.limit_per_delay(),
        relative_rtt: 1.0 + limit.queue,
        queue_bytes: link.bytes(limit.queue).get(),
    }
}
