//! `headway-bench calc explicit queue`: the queue that growth of the number of flows needs.

use clap::Args;
use headway_formulas::explicit::Surge;
use serde::Serialize;

use super::super::print_json;
use super::{Link, beta, growth};
use headway_program::print_line;
use headway_program::table::table;

/// Calculates the queue of an RCP router while the number of flows grows by a constant share per RTT.
///
/// Newcomers send at the rate of all others, so the queue grows until it takes from all as
/// much as newcomers bring.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc explicit queue
  headway-bench calc explicit queue --beta 0.226 --growth 0.05 --rate '10 Mb/s' --rtt '50 ms'
  headway-bench calc explicit queue --beta 0.226 --growth 0.05 --json")]
pub(super) struct QueueArgs {
    /// Weight of the queue in the control law, 0.001 to 0.999; several with commas.
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.2,0.226,0.3,0.4,0.5", value_parser = beta)]
    beta: Vec<f64>,
    /// Growth of the number of flows per RTT without queue, 0.000001 to 10; several with commas.
    #[arg(long, value_delimiter = ',', default_value = "0.01,0.02,0.03,0.04,0.05,0.06", value_parser = growth)]
    growth: Vec<f64>,
    #[command(flatten)]
    link: Link,
}

/// Values are null where growth is beyond the limit.
#[derive(Debug, Serialize)]
struct Cell {
    beta: f64,
    growth: f64,
    queue_bytes: Option<u64>,
    /// RTT with queue, as a multiple of the RTT without.
    relative_rtt: Option<f64>,
}

pub(super) fn run(args: &QueueArgs, json: bool) -> anyhow::Result<()> {
    let row = |beta: f64| args.growth.iter().map(move |growth| calculate(beta, *growth, args.link));
    if json {
        return print_json(&args.beta.iter().flat_map(|beta| row(*beta)).collect::<Vec<_>>());
    }
    let link = args.link;
    print_line!(
        "Queue in bytes at {} over {}, by beta and growth; none beyond the limit",
        link.rate,
        link.rtt
    );
    let mut header = vec!["beta".to_owned()];
    header.extend(args.growth.iter().map(f64::to_string));
    let rows = args.beta.iter().map(|beta| {
        let mut cells = vec![beta.to_string()];
        cells.extend(row(*beta).map(|cell| match cell.queue_bytes {
            Some(bytes) => bytes.to_string(),
            None => "none".to_owned(),
        }));
        cells
    });
    print_line!("{}", table(header, rows));
    Ok(())
}

fn calculate(beta: f64, growth: f64, link: Link) -> Cell {
    let queue = Surge { beta }.compensation_queue(growth);
    Cell {
        beta,
        growth,
        queue_bytes: queue.map(|queue| link.bytes(queue).get()),
        relative_rtt: queue.map(|queue| 1.0 + queue),
    }
}
