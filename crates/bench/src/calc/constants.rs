//! `headway-bench calc constants`: whether constants of LS-AIMD's increase are sound.

use std::process::ExitCode;

use clap::Args;
use headway_formulas::{Constants, growth_exponent};
use headway_units::Bytes;
use serde_json::json;

use super::{digits, line, mtu, print_json};
use headway_program::exit::Code;
use headway_program::print_line;

/// Checks constants of the increase k0 lg(S / k1 + 1): that it never exceeds ssthresh, can be computed by
/// shifts, and is about a segment at usual windows.
///
/// Without constants, those that are implemented for the size of packets. The exit code is 1 if one
/// constraint does not hold.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc constants --mtu 9000
  headway-bench calc constants --k0 512 --k1 512")]
pub(super) struct ConstantsArgs {
    /// The factor, in bytes.
    #[arg(long, value_name = "BYTES", requires = "k1", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    k0: Option<u32>,
    /// The scale of ssthresh, in bytes.
    #[arg(long, value_name = "BYTES", requires = "k0", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    k1: Option<u32>,
    /// Largest IP packet.
    #[arg(long, value_name = "BYTES", value_parser = mtu, default_value = "1500")]
    mtu: Bytes,
}

pub(super) fn run(args: &ConstantsArgs, json: bool) -> anyhow::Result<ExitCode> {
    let mss = args.mtu.get() - headway_formulas::SEGMENT_OVERHEAD;
    let own = 1 << growth_exponent(mss as u32);
    let constants = Constants { k0: args.k0.unwrap_or(own), k1: args.k1.unwrap_or(2 * own) };
    let constraints = constants.constraints(mss as f64);
    let sound = constraints.iter().all(|constraint| constraint.holds);
    if json {
        let each = constraints.map(|one| json!({"name": one.name, "value": one.value, "holds": one.holds}));
        print_json(&json!({"k0": constants.k0, "k1": constants.k1, "sound": sound, "constraints": each}))?;
    } else {
        print_line!("k0 = {} B, k1 = {} B, segments of {mss} B", constants.k0, constants.k1);
        for one in constraints {
            line(if one.holds { "holds" } else { "FAILS" }, &format!("{}: {}", one.name, digits(one.value)));
        }
    }
    Ok(if sound { ExitCode::SUCCESS } else { Code::Other.into() })
}
