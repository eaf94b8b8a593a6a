//! `headway calc increase` and `headway calc gap`: the increase of LS-AIMD and the gap between its departures.

use clap::Args;
use headway_core::calculate::{Increase, departure_gap, growth_exponent};
use headway_core::{Bytes, Duration};
use serde::Serialize;

use super::{Size, digits, exact, line, mss, print_json, scale, share_of_one, time};
use crate::out::print_line;

/// Units of a window per byte in the kernel's fixed-point arithmetic.
const PARTS: f64 = 512.0;
/// Largest threshold in bytes: the limit of the shared kernel arithmetic.
const LARGEST: u64 = 1 << 30;

/// Calculates the increase of LS-AIMD's window per round trip: C k0 lg(S / k1 + 1) bytes at a threshold
/// (ssthresh) of S bytes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway calc increase --ssthresh 10000
  headway calc increase --ssthresh 8948 --mtu 9000 --scale 1/128
  headway calc increase --ssthresh 10000 --k0 256 --json")]
pub(super) struct IncreaseArgs {
    /// The threshold S (ssthresh), 1 B to 1 GiB.
    #[arg(long, value_name = "BYTES", value_parser = ssthresh)]
    ssthresh: Bytes,
    #[command(flatten)]
    size: Size,
    /// The constant k0, a power of two from 1 to 1048576 [default: depends on the MTU]; k1 is twice that.
    #[arg(long, value_name = "BYTES", value_parser = exponent)]
    k0: Option<u32>,
    /// The scale C, 1/65536 to 1.
    #[arg(long, value_name = "C", default_value = "1", value_parser = scale)]
    scale: f64,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// Calculates the time between two departures of LS-AIMD: the RTT times segment size over window.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway calc gap --window 724 --rtt '100 us'
  headway calc gap --window 2 --mss 8948 --rtt '100 us' --json")]
pub(super) struct GapArgs {
    /// The window, 1 B to 1 GiB.
    #[arg(long, value_name = "BYTES", value_parser = ssthresh)]
    window: Bytes,
    /// Payload of a full segment.
    #[arg(long, value_name = "BYTES", default_value = "1448", value_parser = mss)]
    mss: Bytes,
    /// Smoothed RTT.
    #[arg(long, value_name = "TIME", value_parser = time)]
    rtt: Duration,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Serialize)]
struct Grown {
    ssthresh_bytes: u64,
    k0_bytes: u32,
    k1_bytes: u32,
    scale: f64,
    increase_bytes: f64,
    /// Without C, as computed in the kernel.
    fixed_point_q9: u32,
    fixed_point_bytes: f64,
}

pub(super) fn run(args: &IncreaseArgs) -> anyhow::Result<()> {
    let exponent = args.k0.unwrap_or_else(|| growth_exponent(args.size.mss() as u32));
    let increase = Increase { exponent, scale: args.scale };
    let fixed_point = increase.fixed_point(args.ssthresh.get());
    let grown = Grown {
        ssthresh_bytes: args.ssthresh.get(),
        k0_bytes: 1 << exponent,
        k1_bytes: 2 << exponent,
        scale: args.scale,
        increase_bytes: increase.exact(args.ssthresh.get() as f64),
        fixed_point_q9: fixed_point,
        fixed_point_bytes: f64::from(fixed_point) / PARTS,
    };
    if args.json {
        return print_json(&grown);
    }
    print_line!("threshold of {} B, k0 = {}, k1 = {}", grown.ssthresh_bytes, grown.k0_bytes, grown.k1_bytes);
    let whole = format!("{} B per round trip", digits(grown.increase_bytes));
    line(&format!("increase, C = {}", share_of_one(args.scale)), &whole);
    let parts = format!("{fixed_point}/512 = {} B without C", digits(grown.fixed_point_bytes));
    line("in fixed point", &parts);
    Ok(())
}

#[derive(Debug, Serialize)]
struct Gap {
    window_bytes: u64,
    mss_bytes: u64,
    rtt_ns: i64,
    gap_ns: i64,
}

pub(super) fn gap(args: &GapArgs) -> anyhow::Result<()> {
    let gap = departure_gap(args.window.get() as f64, args.mss.get(), args.rtt);
    if args.json {
        return print_json(&Gap {
            window_bytes: args.window.get(),
            mss_bytes: args.mss.get(),
            rtt_ns: args.rtt.ns(),
            gap_ns: gap.ns(),
        });
    }
    let (window, mss) = (args.window.get(), args.mss.get());
    print_line!("window of {window} B, segments of {mss} B, round trip {}", exact(args.rtt));
    line("one departure every", &exact(gap));
    Ok(())
}

fn ssthresh(text: &str) -> Result<Bytes, String> {
    super::within(text, 1..=LARGEST)
}

/// Parses k0 and returns its exponent.
fn exponent(text: &str) -> Result<u32, String> {
    let k0 = text.parse::<u32>().ok().filter(|k0| k0.is_power_of_two() && *k0 <= 1 << 20);
    k0.map(u32::trailing_zeros).ok_or_else(|| "k0 is a power of two from 1 to 1048576".to_owned())
}
