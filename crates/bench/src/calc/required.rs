//! `headway-bench calc required`: the rate or the RTT at which flows can keep a number of segments in flight.

use clap::Args;
use headway_formulas::{DELTA, SharedLink};
use headway_units::{Duration, Rate};
use serde::Serialize;

use super::{Size, exact, flows, line, print_json, rate, time};
use headway_program::print_line;

/// Calculates the rate, or the RTT, that a path needs so that each flow can keep two segments in
/// flight without a queue.
///
/// Give the RTT to get the rate, the rate to get the RTT, or both.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc required --flows 4 --mtu 9000 --rtt '10 us' --segments 16
  headway-bench calc required --flows 4 --mtu 9000 --rate '40 Gb/s'
  headway-bench calc required --flows 128 --rtt '1 ms' --json")]
#[command(group = clap::ArgGroup::new("known").required(true).multiple(true).args(["rtt", "rate"]))]
pub(super) struct RequiredArgs {
    /// Number of flows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    /// RTT without queueing, to get the rate.
    #[arg(long, value_name = "TIME", value_parser = time)]
    rtt: Option<Duration>,
    /// Rate of the link, to get the RTT.
    #[arg(long, value_parser = rate)]
    rate: Option<Rate>,
    #[command(flatten)]
    size: Size,
    /// Segments in the window of a flow, the delta of the thesis: as many as the receiver
    /// acknowledges at once.
    #[arg(long, visible_alias = "delta", value_name = "SEGMENTS", default_value_t = DELTA, value_parser = clap::value_parser!(u32).range(1..=1000))]
    segments: u32,
}

#[derive(Debug, Serialize)]
struct Required {
    flows: u32,
    segments: u32,
    frame_bytes: u64,
    /// Rate of the link at the given RTT.
    rate_bps: Option<u64>,
    flow_rate_bps: Option<u64>,
    /// RTT including the queue, at the given rate.
    rtt_ns: Option<i64>,
}

pub(super) fn run(args: &RequiredArgs, json: bool) -> anyhow::Result<()> {
    let share = |rate, rtt| SharedLink { rate, rtt, flows: args.flows, frame: args.size.frame() };
    // Neither formula uses the quantity that it gives.
    let at_rtt = args.rtt.map(|rtt| share(Rate::ZERO, rtt));
    let at_rate = args.rate.map(|rate| share(rate, Duration::ZERO));
    let rate = at_rtt.map(|share| share.rate_for(args.segments));
    let flow_rate = at_rtt.map(|share| share.flow_rate_for(args.segments));
    let rtt = at_rate.map(|share| share.rtt_for(args.segments));
    let frame_bytes = args.size.frame().get();
    if json {
        return print_json(&Required {
            flows: args.flows,
            segments: args.segments,
            frame_bytes,
            rate_bps: rate.map(Rate::bps),
            flow_rate_bps: flow_rate.map(Rate::bps),
            rtt_ns: rtt.map(Duration::ns),
        });
    }
    let window =
        if args.segments == 1 { "1 segment".to_owned() } else { format!("{} segments", args.segments) };
    print_line!("{} with {window} in flight each, frames of {frame_bytes} B", flows(args.flows));
    if let (Some(given), Some(rate), Some(flow)) = (args.rtt, rate, flow_rate) {
        line(&format!("RTT {}", exact(given)), &format!("rate {rate}, {flow} per flow"));
    }
    if let (Some(given), Some(rtt)) = (args.rate, rtt) {
        line(&format!("rate {given}"), &format!("RTT {}, with the queue", exact(rtt)));
    }
    Ok(())
}
