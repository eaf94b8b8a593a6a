//! `headway-bench calc window`: the fair window, and the queue of senders that cannot use
//! a window that small.

use clap::Args;
use headway_formulas::{CutOrder, DELTA, Increase, SharedLink, growth_exponent};
use headway_units::{Bytes, Duration, Rate};
use serde::Serialize;

use super::{Size, digits, exact, flows, line, print_json, rate, scale, share_of_one, time};
use headway_program::print_line;

/// Calculates the window with which each flow fills its share, and the queue of senders that keep two
/// segments in flight.
///
/// If the fair window is below two segments, senders that keep two build a queue no matter how many packets
/// are marked. LS-AIMD goes lower, down to the window at which a halving and the increase per ACK cancel out;
/// that window is printed for the scale C.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc window --rate '40 Gb/s' --rtt '10 us' --flows 4 --mtu 9000
  headway-bench calc window --rate '600 Mb/s' --rtt '250 us' --flows 16 --mtu 9000 --scale 1/128
  headway-bench calc window --rate '400 Gb/s' --rtt '1 us' --flows 1 --frame '64 KiB' --json")]
pub(super) struct WindowArgs {
    /// Rate of the link.
    #[arg(long, value_parser = rate)]
    rate: Rate,
    /// RTT without queueing.
    #[arg(long, value_name = "TIME", value_parser = time)]
    rtt: Duration,
    /// Number of flows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    #[command(flatten)]
    size: Size,
    /// Minimum window, in segments, of a sender that goes no lower: as many as the receiver
    /// acknowledges at once.
    #[arg(long, value_name = "SEGMENTS", default_value_t = DELTA, value_parser = clap::value_parser!(u32).range(1..=1000))]
    segments: u32,
    /// Scale C of LS-AIMD's increase, 1/65536 to 1.
    #[arg(long, value_name = "C", default_value = "1", value_parser = scale)]
    scale: f64,
}

/// Windows in segments.
#[derive(Debug, Serialize)]
struct Window {
    rate_bps: u64,
    rtt_ns: i64,
    flows: u32,
    frame_bytes: u64,
    mss_bytes: u64,
    bandwidth_delay_bits: f64,
    fair_rate_bps: u64,
    fair_window: f64,
    departure_gap_ns: i64,
    floor: u32,
    below_floor: bool,
    floor_queue_ns: i64,
    floor_rtt_ns: i64,
    scale: f64,
    ls_least_window: f64,
    ls_least_window_after_cut: f64,
}

pub(super) fn run(args: &WindowArgs, json: bool) -> anyhow::Result<()> {
    let share = SharedLink { rate: args.rate, rtt: args.rtt, flows: args.flows, frame: args.size.frame() };
    let window = calculate(&share, args.segments, args.scale);
    if json { print_json(&window) } else { print(&share, &window) }
}

fn calculate(share: &SharedLink, floor: u32, scale: f64) -> Window {
    let mss = share.mss();
    let increase = Increase { exponent: growth_exponent(mss as u32), scale };
    let least = |order| increase.least_window(mss as f64, order) / mss as f64;
    let fair = share.window();
    Window {
        rate_bps: share.rate.bps(),
        rtt_ns: share.rtt.ns(),
        flows: share.flows,
        frame_bytes: share.frame.get(),
        mss_bytes: mss,
        bandwidth_delay_bits: share.bits(),
        fair_rate_bps: share.fair_rate().bps(),
        fair_window: fair,
        departure_gap_ns: share.departure_gap().ns(),
        floor,
        below_floor: fair < f64::from(floor),
        floor_queue_ns: share.standing_queue(floor).ns(),
        floor_rtt_ns: share.rtt_for(floor).ns(),
        scale,
        ls_least_window: least(CutOrder::BeforeCut),
        ls_least_window_after_cut: least(CutOrder::AfterCut),
    }
}

fn print(share: &SharedLink, window: &Window) -> anyhow::Result<()> {
    let (of, frame) = (flows(share.flows), share.frame.get());
    print_line!("{of} at {} over {}, frames of {frame} B", share.rate, exact(share.rtt));
    line("bandwidth-delay product", &Bytes::new((share.bits() / 8.0).round() as u64).to_string());
    line("fair rate", &share.fair_rate().to_string());
    line("fair window", &format!("{} segments: {}", digits(window.fair_window), regime(window)));
    line("one segment of each flow", &format!("every {}", exact(share.departure_gap())));
    let floor = format!("never below {} segment{}", window.floor, if window.floor == 1 { "" } else { "s" });
    let rtt = share.rtt.max(Duration::from_ns(window.floor_rtt_ns));
    let queue = exact(Duration::from_ns(window.floor_queue_ns));
    line(&floor, &format!("queue {queue}, round trip {}", exact(rtt)));
    let reached = if window.ls_least_window <= window.fair_window { "" } else { ": above the fair one" };
    line(
        &format!("LS-AIMD, C = {}", share_of_one(window.scale)),
        &format!(
            "windows down to {} segments where everything is marked ({} with the window after the cut){reached}",
            digits(window.ls_least_window),
            digits(window.ls_least_window_after_cut)
        ),
    );
    Ok(())
}

fn regime(window: &Window) -> String {
    match window.fair_window {
        fair if fair < 1.0 => "less than one per round trip".to_owned(),
        _ if window.below_floor => format!("senders that keep {} build a standing queue", window.floor),
        _ => "ACK clocking works".to_owned(),
    }
}
