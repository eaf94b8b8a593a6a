//! `headway-bench calc explicit crowd`: how fast a crowd makes the number of flows grow.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use headway_formulas::explicit::{Crowd, Surge};
use headway_units::Duration;
use serde::Serialize;

use super::super::{digits, exact, line, print_json, time};
use super::arrivals::CrowdOption;
use super::beta;
use headway_program::print_line;
use headway_runs::testbed;

/// Most rows of a CSV file; the rows of longer crowds are several round trips apart.
const MOST_ROWS: i64 = 100_000;

/// Calculates how fast a crowd of arriving flows makes the number of flows grow, and when it
/// is too fast for RCP.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc explicit crowd --arrivals laplace:peak=20s,b=1s
  headway-bench calc explicit crowd --arrivals normal:peak=10s,sigma=2s --csv growth.csv
  headway-bench calc explicit crowd --arrivals erlang:k=4,lambda=1 --json")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["arrivals"]))]
pub(super) struct CrowdArgs {
    #[command(flatten)]
    crowd: CrowdOption,
    /// RTT without queueing.
    #[arg(long, value_name = "TIME", default_value = "100 ms", value_parser = time)]
    rtt: Duration,
    /// Weight of the queue in the control law, which determines the limit, 0.001 to 0.999.
    #[arg(long, default_value = "0.226", value_parser = beta)]
    beta: f64,
    /// Write time, number of flows and growth to this CSV file, a row per RTT.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Growth is per RTT without queue.
#[derive(Debug, Serialize)]
struct Answer {
    fastest_growth: f64,
    fastest_at_ns: i64,
    limit: f64,
    /// Null, as is the next, if growth never exceeds the limit.
    above_limit_from_ns: Option<i64>,
    above_limit_until_ns: Option<i64>,
}

pub(super) fn run(args: &CrowdArgs, json: bool) -> anyhow::Result<()> {
    let Some(crowd) = args.crowd.crowd() else { return Ok(()) };
    if let Some(file) = &args.csv {
        testbed::write(file, &rows(crowd, args.rtt))?;
    }
    let (at, growth) = crowd.fastest(args.rtt);
    let limit = Surge { beta: args.beta }.limit().growth;
    let above = crowd.above(limit, args.rtt);
    let answer = Answer {
        fastest_growth: growth,
        fastest_at_ns: at.ns(),
        limit,
        above_limit_from_ns: above.map(|above| above.from.ns()),
        above_limit_until_ns: above.map(|above| above.until.ns()),
    };
    if json {
        return print_json(&answer);
    }
    print_line!("Growth of the number of flows per {}", exact(args.rtt));
    line("fastest", &format!("{}, at {}", digits(growth), at));
    let text = match above {
        Some(above) => format!("exceeded from {} to {}", above.from, above.until),
        None => "never exceeded".to_owned(),
    };
    line("limit of RCP", &format!("{}, {text}", digits(limit)));
    Ok(())
}

/// Returns the growth over time as CSV.
fn rows(crowd: Crowd, rtt: Duration) -> String {
    let end = crowd.arrivals.end();
    let apart = (end.ns() / rtt.ns() / MOST_ROWS + 1).saturating_mul(rtt.ns());
    let mut text = "time_ns,flows,growth\n".to_owned();
    for index in 0..=end.ns() / apart {
        let at = Duration::from_ns(index * apart);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{},{},{}", at.ns(), crowd.flows(at), crowd.growth(at, rtt));
    }
    text
}
