//! `headway-bench calc`: windows, rates, token buckets and explicit rates by formula.

mod bucket;
mod constants;
mod explicit;
mod required;
mod tables;
mod window;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use headway_formulas::{FRAME_OVERHEAD, SEGMENT_OVERHEAD};
use headway_units::{Bytes, Duration, Rate};

use headway_program::{out, print_line};

/// Calculates by formula the window of equal flows on a shared link, the rate they need for a window, and
/// what token-bucket shapers and routers with explicit rates can do.
///
/// Nothing is measured or simulated. Frame sizes of flows are counted as in the tables of the LS-AIMD thesis:
/// the IP packet and 18 bytes of Ethernet.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc window --rate '40 Gb/s' --rtt '10 us' --flows 4 --mtu 9000
  headway-bench calc required --rtt '10 us' --flows 4 --mtu 9000 --segments 16
  headway-bench calc tables Q1
  headway-bench calc constants --mtu 9000
  headway-bench calc tbf --rate '100 Mb/s' --burst '4800 B'
  headway-bench calc explicit limits")]
pub(crate) struct CalcArgs {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Window(window::WindowArgs),
    Required(required::RequiredArgs),
    Tables(tables::TablesArgs),
    Constants(constants::ConstantsArgs),
    Tbf(bucket::TbfArgs),
    Explicit(explicit::ExplicitArgs),
}

pub(crate) fn run(args: &CalcArgs, json: bool) -> anyhow::Result<ExitCode> {
    match &args.command {
        What::Window(args) => window::run(args, json)?,
        What::Required(args) => required::run(args, json)?,
        What::Tables(args) => tables::run(args, json)?,
        What::Constants(args) => return constants::run(args, json),
        What::Tbf(args) => bucket::run(args, json)?,
        What::Explicit(args) => explicit::run(args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The size of full segments.
#[derive(Args, Debug)]
#[group(multiple = false)]
struct Size {
    /// Largest IP packet; a frame has 18 bytes more [default: 1500].
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    mtu: Option<Bytes>,
    /// Size of the frame itself, if it is not an IP packet in Ethernet.
    #[arg(long, value_name = "BYTES", value_parser = frame)]
    frame: Option<Bytes>,
}

impl Size {
    fn frame(&self) -> Bytes {
        let mtu = self.mtu.unwrap_or(Bytes::new(1500));
        self.frame.unwrap_or(mtu + Bytes::new(FRAME_OVERHEAD))
    }
}

/// Range of the payload of a segment, in bytes: the shared kernel arithmetic has 16 bits for it.
const MSS: std::ops::RangeInclusive<u64> = 1..=65_535;

fn mtu(text: &str) -> Result<Bytes, String> {
    within(text, *MSS.start() + SEGMENT_OVERHEAD..=*MSS.end() + SEGMENT_OVERHEAD)
}

fn frame(text: &str) -> Result<Bytes, String> {
    let more = SEGMENT_OVERHEAD + FRAME_OVERHEAD;
    within(text, *MSS.start() + more..=*MSS.end() + more)
}

fn within(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if range.contains(&bytes.get()) {
        Ok(bytes)
    } else {
        Err(format!("it must be {} B to {} B", range.start(), range.end()))
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error| format!("{error}"))?;
    if rate > Rate::ZERO { Ok(rate) } else { Err("it must be above zero".to_owned()) }
}

fn time(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if time > Duration::ZERO { Ok(time) } else { Err("it must be above zero".to_owned()) }
}

/// Parses the scale C of the increase, a number or a fraction such as `1/128`.
fn scale(text: &str) -> Result<f64, String> {
    let value = match text.split_once('/') {
        None => text.parse().ok(),
        Some((part, whole)) => match (part.parse::<f64>(), whole.parse::<f64>()) {
            (Ok(part), Ok(whole)) => Some(part / whole),
            _ => None,
        },
    };
    let least = 1.0 / 65_536.0;
    value
        .filter(|value| (least..=1.0).contains(value))
        .ok_or_else(|| "C is 1/65536 to 1, such as `1/128` or `0.5`".to_owned())
}

/// Formats a number with four significant digits.
fn digits(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor() as i32 + 1;
    format!("{value:.*}", (4 - whole).clamp(0, 8) as usize)
}

/// Formats a time with four significant digits.
fn exact(time: Duration) -> String {
    match time.ns() {
        ..=0 => "none".to_owned(),
        1..1_000 => format!("{} ns", time.ns()),
        1_000..10_000_000 => format!("{} us", digits(time.us())),
        10_000_000..10_000_000_000 => format!("{} ms", digits(time.ms())),
        _ => format!("{} s", digits(time.secs_f64())),
    }
}

/// Formats the scale C as a fraction where possible.
fn share_of_one(scale: f64) -> String {
    let parts = (1.0 / scale).round();
    match parts {
        1.0 if scale > 0.999_999 => "1".to_owned(),
        _ if (1.0 / scale - parts).abs() < 1e-9 => format!("1/{parts}"),
        _ => digits(scale),
    }
}

/// Formats a number of flows.
fn flows(count: u32) -> String {
    if count == 1 { "1 flow".to_owned() } else { format!("{count} flows") }
}

/// Prints one line of a result: an aligned label and the value.
fn line(what: &str, value: &str) {
    print_line!("  {what:<25} {value}");
}

/// Prints a result as one JSON object.
fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    out::document(&serde_json::to_string(value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_may_be_fractions() {
        assert_eq!([scale("1"), scale("1/128"), scale("0.5")], [Ok(1.0), Ok(0.007_812_5), Ok(0.5)]);
        for text in ["0", "2", "1/0", "1/131072", "much", "NaN", "1/x"] {
            assert!(scale(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(
            [1.386_116, 0.034_65, 12.0, 123_456.7].map(digits),
            ["1.386", "0.03465", "12.00", "123457"]
        );
    }

    #[test]
    fn what_would_divide_by_zero_is_refused() {
        assert!(
            rate("0").is_err()
                && rate("0.1 b/s").is_err()
                && time("0 us").is_err()
                && time("0.1 ns").is_err()
        );
        assert!(mtu("52").is_err() && mtu("53").is_ok() && frame("65606").is_err() && frame("65605").is_ok());
    }
}
