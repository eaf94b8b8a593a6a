//! `headway-bench calc tbf`: what a token-bucket shaper can do.

use clap::Args;
use headway_formulas::{TokenBucketShaper, highest_rate, least_burst};
use headway_units::{Bytes, Duration, Rate};
use serde::Serialize;

use super::{exact, line, print_json, rate, time, within};
use headway_program::print_line;

/// Calculates what a token-bucket shaper such as the kernel's `tbf` can do: rate, burst, tick and limit.
///
/// A shaper that serves its queue only at timer ticks passes at most a bucket per tick. Linux uses
/// high-resolution timers, so there the tick does not matter.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc tbf --rate '100 Mb/s'
  headway-bench calc tbf --burst '1500 B' --tick 250
  headway-bench calc tbf --rate '100 Mb/s' --burst '4800 B' --latency '50 ms'")]
pub(super) struct TbfArgs {
    /// Rate at which tokens arrive.
    #[arg(long, value_parser = rate, required_unless_present = "burst")]
    rate: Option<Rate>,
    /// Size of the bucket.
    #[arg(long, value_name = "BYTES", value_parser = burst)]
    burst: Option<Bytes>,
    /// Timer ticks per second of a system without high-resolution timers.
    #[arg(long, value_name = "HZ", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tick: u32,
    /// Size of a packet as the shaper counts it: for `tbf` the IP packet and 14 bytes of Ethernet.
    #[arg(long, value_name = "BYTES", default_value = "1514 B", value_parser = packet)]
    packet: Bytes,
    /// Longest time that a packet may wait in the queue; needs a rate and a bucket.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "rate", requires = "burst")]
    latency: Option<Duration>,
}

/// Sizes in bytes.
#[derive(Debug, Serialize)]
struct Answer {
    rate_bps: Option<u64>,
    burst_bytes: Option<u64>,
    tick_hz: u32,
    packet_bytes: u64,
    /// Smallest bucket with which a tick-driven shaper reaches the rate.
    tick_least_burst_bytes: Option<u64>,
    /// Highest rate of a tick-driven shaper with this bucket.
    tick_highest_rate_bps: Option<u64>,
    shaper: Option<Shaper>,
}

/// What follows from rate and bucket together.
#[derive(Debug, Serialize)]
struct Shaper {
    tick_rate_bps: u64,
    packets_at_once: u64,
    packet_time_ns: i64,
    pair_gap_ns: i64,
    fill_time_ns: i64,
    /// The `limit` for the latency, if one was given.
    limit_bytes: Option<u64>,
}

pub(super) fn run(args: &TbfArgs, json: bool) -> anyhow::Result<()> {
    let answer = calculate(args);
    if json { print_json(&answer) } else { print(args, &answer) }
}

fn calculate(args: &TbfArgs) -> Answer {
    let shaper = args.rate.zip(args.burst).map(|(rate, burst)| {
        let shaper = TokenBucketShaper { rate, burst };
        Shaper {
            tick_rate_bps: shaper.with_ticks(args.tick).bps(),
            packets_at_once: shaper.packets_at_once(args.packet),
            packet_time_ns: rate.time_for(args.packet).ns(),
            pair_gap_ns: shaper.pair_gap(args.packet).ns(),
            fill_time_ns: shaper.fill_time().ns(),
            limit_bytes: args.latency.map(|time| (rate.bytes_in(time) + burst).get()),
        }
    });
    Answer {
        rate_bps: args.rate.map(Rate::bps),
        burst_bytes: args.burst.map(Bytes::get),
        tick_hz: args.tick,
        packet_bytes: args.packet.get(),
        tick_least_burst_bytes: args.rate.map(|rate| least_burst(rate, args.tick).get()),
        tick_highest_rate_bps: args.burst.map(|burst| highest_rate(burst, args.tick).bps()),
        shaper,
    }
}

fn print(args: &TbfArgs, answer: &Answer) -> anyhow::Result<()> {
    let parts =
        [args.rate.map(|rate| rate.to_string()), args.burst.map(|burst| format!("bucket of {burst}"))];
    let given: Vec<String> = parts.into_iter().flatten().collect();
    print_line!("Token bucket: {}", given.join(", "));
    if let Some(shaper) = &answer.shaper {
        let gap = Duration::from_ns(shaper.pair_gap_ns);
        let packets = match shaper.packets_at_once {
            0 => {
                format!("none: `tbf` drops packets of {} B, which the bucket cannot hold", args.packet.get())
            }
            1 => "1 packet".to_owned(),
            count => format!("{count} packets"),
        };
        line("full bucket passes", &packets);
        let steady = exact(Duration::from_ns(shaper.packet_time_ns));
        line("gap of a packet pair", &format!("{} ({steady} at the rate)", exact(gap)));
        line("bucket fills in", &exact(Duration::from_ns(shaper.fill_time_ns)));
        if let Some((limit, latency)) = shaper.limit_bytes.zip(args.latency) {
            line("limit", &format!("{} for {}", Bytes::new(limit), exact(latency)));
        }
    }
    let tick = format!("with {} ticks per second", args.tick);
    let text = match (answer.tick_least_burst_bytes, answer.tick_highest_rate_bps) {
        (Some(least), Some(highest)) => format!(
            "{} at most with this bucket; {} are needed for the rate",
            Rate::from_bps(highest),
            Bytes::new(least)
        ),
        (Some(least), None) => format!("a bucket of at least {}", Bytes::new(least)),
        (None, Some(highest)) => format!("{} at most", Rate::from_bps(highest)),
        (None, None) => return Ok(()),
    };
    line(&tick, &text);
    Ok(())
}

fn burst(text: &str) -> Result<Bytes, String> {
    within(text, 1..=2_000_000_000)
}

fn packet(text: &str) -> Result<Bytes, String> {
    within(text, 64..=65_549)
}
