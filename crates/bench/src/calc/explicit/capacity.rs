//! `headway-bench calc explicit capacity`: XCP with a wrong capacity.

use clap::Args;
use headway_formulas::explicit::CapacityError;
use headway_units::{Bytes, Duration, Rate};
use serde::Serialize;

use super::super::{print_json, rate, time};
use super::{alpha, beta, percent};
use headway_program::print_line;
use headway_program::table::table;

/// Calculates the queue and the throughput of an XCP router that believes in a wrong capacity.
///
/// If it believes in too much, a queue remains; if it believes in too little, a part of the link is not used.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc explicit capacity --rate '1.5 Mb/s' --believed '1.65 Mb/s'
  headway-bench calc explicit capacity --rate '1.5 Mb/s' --believed '1.2 Mb/s,1.8 Mb/s,2.1 Mb/s,3 Mb/s' --json")]
pub(super) struct CapacityArgs {
    /// Rate of the link.
    #[arg(long, value_parser = rate)]
    rate: Rate,
    /// Rate that the router believes in; several with commas.
    #[arg(long, value_delimiter = ',', required = true, value_name = "RATE", value_parser = rate)]
    believed: Vec<Rate>,
    /// RTT without queueing.
    #[arg(long, value_name = "TIME", default_value = "100 ms", value_parser = time)]
    rtt: Duration,
    /// Weight of the spare bandwidth in the control law, 0.001 to 2.
    #[arg(long, default_value = "0.4", value_parser = alpha)]
    alpha: f64,
    /// Weight of the queue in the control law, 0.001 to 0.999.
    #[arg(long, default_value = "0.226", value_parser = beta)]
    beta: f64,
}

#[derive(Debug, Serialize)]
struct Answer {
    rate_bps: u64,
    believed_bps: u64,
    /// Null if the queue grows until the buffer is full.
    queue_bytes: Option<u64>,
    throughput_bps: u64,
    /// The queue grows without end from this belief on.
    unbounded_from_bps: u64,
}

pub(super) fn run(args: &CapacityArgs, json: bool) -> anyhow::Result<()> {
    let answers: Vec<Answer> = args.believed.iter().map(|believed| calculate(args, *believed)).collect();
    if json {
        return print_json(&answers);
    }
    let rows = answers.iter().map(|answer| {
        let queue = answer.queue_bytes.map(|bytes| Bytes::new(bytes).to_string());
        [
            Rate::from_bps(answer.believed_bps).to_string(),
            percent(answer.believed_bps as f64 / answer.rate_bps as f64 - 1.0),
            queue.unwrap_or_else(|| "until it overflows".to_owned()),
            Rate::from_bps(answer.throughput_bps).to_string(),
        ]
    });
    print_line!("{}", table(["believed", "error", "queue", "throughput"], rows));
    if let Some(answer) = answers.first() {
        print_line!("The queue is bounded below {}.", Rate::from_bps(answer.unbounded_from_bps));
    }
    Ok(())
}

fn calculate(args: &CapacityArgs, believed: Rate) -> Answer {
    let CapacityArgs { rate: capacity, rtt, alpha, beta, .. } = *args;
    let error = CapacityError { capacity, believed, rtt, alpha, beta };
    Answer {
        rate_bps: capacity.bps(),
        believed_bps: believed.bps(),
        queue_bytes: error.queue().map(Bytes::get),
        throughput_bps: error.throughput().bps(),
        unbounded_from_bps: error.unbounded_from().bps(),
    }
}
