//! `headway calc required`: the rate or RTT a path needs so that each flow keeps a number of segments in flight.

use clap::Args;
use headway_core::calculate::{DELTA, SharedLink};
use headway_core::{Duration, Rate};
use serde::Serialize;

use super::{Size, exact, flows, line, print_json, rate, time};
use crate::out::print_line;

/// Calculates the rate, or the RTT, at which the fair window is two segments.
///
/// Give the RTT to get the rate, the rate to get the RTT, or both.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway calc required --flows 4 --mtu 9000 --rtt '10 us' --segments 16
  headway calc required --flows 4 --mtu 9000 --rate '40 Gb/s'
  headway calc required --flows 128 --rtt '1 ms' --json")]
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
    /// Segments in the window: as many as the receiver acknowledges at once.
    #[arg(long, value_name = "SEGMENTS", default_value_t = DELTA, value_parser = clap::value_parser!(u32).range(1..=1000))]
    segments: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
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

pub(super) fn run(args: &RequiredArgs) -> anyhow::Result<()> {
    let share = |rate, rtt| SharedLink { rate, rtt, flows: args.flows, frame: args.size.frame() };
    // Neither formula uses the quantity that it computes.
    let at_rtt = args.rtt.map(|rtt| share(Rate::ZERO, rtt));
    let at_rate = args.rate.map(|rate| share(rate, Duration::ZERO));
    let rate = at_rtt.map(|share| share.rate_for(args.segments));
    let flow_rate = at_rtt.map(|share| share.flow_rate_for(args.segments));
    let rtt = at_rate.map(|share| share.rtt_for(args.segments));
    if args.json {
        return print_json(&Required {
            flows: args.flows,
            segments: args.segments,
            frame_bytes: args.size.frame().get(),
            rate_bps: rate.map(Rate::bps),
            flow_rate_bps: flow_rate.map(Rate::bps),
            rtt_ns: rtt.map(Duration::ns),
        });
    }
    let (of, frame) = (flows(args.flows), args.size.frame().get());
    print_line!("{of} with windows of {} segments, frames of {frame} B", args.segments);
    if let (Some(given), Some(rate), Some(flow)) = (args.rtt, rate, flow_rate) {
        line(&format!("round trip {}", exact(given)), &format!("rate {rate}, {flow} per flow"));
    }
    if let (Some(given), Some(rtt)) = (args.rate, rtt) {
        line(&format!("rate {given}"), &format!("round trip {}, queue included", exact(rtt)));
    }
    Ok(())
}
