//! Rates: how many bits pass in a second.

use std::fmt;
use std::str::FromStr;

use super::bytes::Bytes;
use super::sums::sums;
use super::text::{ParseQuantityError, Unit, parse, serde_as_text};
use super::time::Duration;

const NS_PER_S: i128 = 1_000_000_000;

/// A rate in bits per second that counts every byte a packet occupies on the wire unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Zero bits per second.
    pub const ZERO: Rate = Rate(0);

    /// Returns a rate of `bits` per second.
    pub const fn from_bps(bits: u64) -> Rate {
        Rate(bits)
    }

    /// Returns a rate of `megabits` (10^6 bits) per second; negative values and NaN become zero.
    pub fn from_mbps(megabits: f64) -> Rate {
        Rate::from_bps_f64(megabits * 1e6)
    }

    /// Converts a floating-point number of bits per second, rounded; negative values and NaN become zero.
    pub fn from_bps_f64(bits: f64) -> Rate {
        Rate(bits.round() as u64)
    }

    /// Returns the rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Returns the rate in bits per second as a float.
    pub const fn bps_f64(self) -> f64 {
        self.0 as f64
    }

    /// Returns the rate in megabits (10^6 bits) per second.
    pub fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the rate that transfers `size` in `time`, or `None` when `time` is not positive.
    pub fn of(size: Bytes, time: Duration) -> Option<Rate> {
        if time <= Duration::ZERO {
            return None;
        }
        let bits = i128::from(size.get()) * 8 * NS_PER_S / i128::from(time.ns());
        Some(Rate(u64::try_from(bits).unwrap_or(u64::MAX)))
    }

    /// Returns the time to transfer `size`, rounded to the nearest nanosecond, or
    /// `Duration::MAX` at rate zero.
    pub fn time_for(self, size: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let rate = i128::from(self.0);
        let ns = (i128::from(size.get()) * 8 * NS_PER_S + rate / 2) / rate;
        Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX))
    }

    /// Returns the whole bytes transferred in `time`; zero for a negative time.
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bits = i128::from(self.0) * i128::from(time.ns().max(0)) / NS_PER_S;
        Bytes::new(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }

    /// Multiplies the rate by `factor`; a negative or NaN product becomes zero.
    pub fn scale(self, factor: f64) -> Rate {
        Rate::from_bps_f64(self.0 as f64 * factor)
    }

    /// Returns the difference, or zero when `other` is larger.
    pub const fn saturating_sub(self, other: Rate) -> Rate {
        Rate(self.0.saturating_sub(other.0))
    }
}

sums!(Rate);

impl fmt::Display for Rate {
    /// Prints three significant digits with a unit that fits the magnitude: `58.8 Mb/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => (bits, "b/s"),
            1_000..999_500 => (bits / 1e3, "kb/s"),
            999_500..999_500_000 => (bits / 1e6, "Mb/s"),
            999_500_000..999_500_000_000 => (bits / 1e9, "Gb/s"),
            _ => (bits / 1e12, "Tb/s"),
        };
        let digits = if value >= 99.95 {
            0
        } else if value >= 9.995 {
            1
        } else {
            2
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    /// Parses `100 Mb/s`, `2.5Gbit/s`, `900kbps` and the like; the unit is required, except for zero.
    fn from_str(text: &str) -> Result<Rate, ParseQuantityError> {
        if text.trim() == "0" {
            return Ok(Rate::ZERO);
        }
        // A small m is not a thousandth: there are no rates so low. A capital B would be bytes.
        const UNITS: [Unit; 5] = [
            (&["b/s", "bps", "bit/s", "bit"], 1.0),
            (&["kb/s", "kbps", "kbit/s", "kbit", "Kb/s", "Kbps", "Kbit/s", "Kbit"], 1e3),
            (&["Mb/s", "Mbps", "Mbit/s", "Mbit", "mb/s", "mbps", "mbit/s", "mbit"], 1e6),
            (&["Gb/s", "Gbps", "Gbit/s", "Gbit", "gb/s", "gbps", "gbit/s", "gbit"], 1e9),
            (&["Tb/s", "Tbps", "Tbit/s", "Tbit", "tb/s", "tbps", "tbit/s", "tbit"], 1e12),
        ];
        parse(text, "a rate such as `100 Mb/s`", &UNITS).map(Rate::from_bps_f64)
    }
}

serde_as_text!(Rate, "a rate such as `100 Mb/s`", |rate| format!("{} b/s", rate.0));
