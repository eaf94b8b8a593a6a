//! Rates, sizes and times as types, so that no bare number crosses a public boundary.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
        if time.0 <= 0 {
            return None;
        }
        let bits = i128::from(size.0) * 8 * NS_PER_S / i128::from(time.0);
        Some(Rate(u64::try_from(bits).unwrap_or(u64::MAX)))
    }

    /// Returns the time to transfer `size`, rounded to the nearest nanosecond, or `Duration::MAX` at rate zero.
    pub fn time_for(self, size: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let rate = i128::from(self.0);
        let ns = (i128::from(size.0) * 8 * NS_PER_S + rate / 2) / rate;
        Duration(i64::try_from(ns).unwrap_or(i64::MAX))
    }

    /// Returns the whole bytes transferred in `time`; zero for a negative time.
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bits = i128::from(self.0) * i128::from(time.0.max(0)) / NS_PER_S;
        Bytes(u64::try_from(bits / 8).unwrap_or(u64::MAX))
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

impl Add for Rate {
    type Output = Rate;
    fn add(self, other: Rate) -> Rate {
        Rate(self.0.saturating_add(other.0))
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        rates.fold(Rate::ZERO, Add::add)
    }
}

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

/// Ethernet bytes that an IP packet occupies on the wire besides its own: 14 of header, 4 of frame check sequence,
/// and 20 of preamble and inter-packet gap.
pub const WIRE_OVERHEAD: Bytes = Bytes::new(38);

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// Returns a size of `bytes`.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, count: u64) -> Bytes {
        Bytes(self.0.saturating_mul(count))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(sizes: I) -> Bytes {
        sizes.fold(Bytes::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    /// Prints decimal units: `1538 B`, `64.0 kB`, `2.00 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let text = match self.0 {
            0..10_000 => format!("{} B", self.0),
            10_000..1_000_000 => format!("{:.1} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => format!("{:.2} MB", bytes / 1e6),
            _ => format!("{:.2} GB", bytes / 1e9),
        };
        f.pad(&text)
    }
}

/// A point in time: integer nanoseconds since the origin of some clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Instant = Instant(0);

    /// Returns the instant `ns` nanoseconds after the origin.
    pub const fn from_ns(ns: u64) -> Instant {
        Instant(ns)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn ns(self) -> u64 {
        self.0
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// Returns the signed time from `earlier` to `self`.
    fn sub(self, earlier: Instant) -> Duration {
        Duration(self.0.wrapping_sub(earlier.0) as i64)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, time: Duration) -> Instant {
        Instant(self.0.saturating_add_signed(time.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, time: Duration) -> Instant {
        Instant(self.0.saturating_add_signed(time.0.saturating_neg()))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

/// A signed span of time in integer nanoseconds, up to about 292 years in either direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Duration(i64);

impl Duration {
    /// The empty span.
    pub const ZERO: Duration = Duration(0);
    /// The longest span that can be represented.
    pub const MAX: Duration = Duration(i64::MAX);

    /// Returns a span of `ns` nanoseconds.
    pub const fn from_ns(ns: i64) -> Duration {
        Duration(ns)
    }

    /// Returns a span of `us` microseconds.
    pub const fn from_us(us: i64) -> Duration {
        Duration(us.saturating_mul(1_000))
    }

    /// Returns a span of `ms` milliseconds.
    pub const fn from_ms(ms: i64) -> Duration {
        Duration(ms.saturating_mul(1_000_000))
    }

    /// Returns a span of `seconds`, rounded to the nearest nanosecond.
    pub fn from_secs_f64(seconds: f64) -> Duration {
        Duration((seconds * 1e9).round() as i64)
    }

    /// Returns the span in nanoseconds.
    pub const fn ns(self) -> i64 {
        self.0
    }

    /// Returns the span in microseconds.
    pub fn us(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the span in milliseconds.
    pub fn ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the span in seconds.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Multiplies the span by `factor`, rounded to the nearest nanosecond.
    pub fn scale(self, factor: f64) -> Duration {
        Duration((self.0 as f64 * factor).round() as i64)
    }

    /// Converts to the standard library's type; a negative span becomes zero.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(if self.0 < 0 { 0 } else { self.0 as u64 })
    }
}

impl From<std::time::Duration> for Duration {
    fn from(time: std::time::Duration) -> Duration {
        Duration(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl Neg for Duration {
    type Output = Duration;
    fn neg(self) -> Duration {
        Duration(self.0.saturating_neg())
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        *self = *self - other;
    }
}

impl Mul<i64> for Duration {
    type Output = Duration;
    fn mul(self, factor: i64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
}

impl Div<i64> for Duration {
    type Output = Duration;
    /// Truncates the quotient; panics on division by zero, as integers do.
    fn div(self, divisor: i64) -> Duration {
        Duration(self.0 / divisor)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(spans: I) -> Duration {
        spans.fold(Duration::ZERO, Add::add)
    }
}

impl fmt::Display for Duration {
    /// Prints a unit that fits the magnitude: `120 us`, `20.0 ms`, `1.50 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0.unsigned_abs() {
            0..1_000 => format!("{} ns", self.0),
            1_000..1_000_000 => format!("{:.0} us", self.us()),
            1_000_000..1_000_000_000 => format!("{:.1} ms", self.ms()),
            _ => format!("{:.2} s", self.secs_f64()),
        };
        f.pad(&text)
    }
}

/// The error returned when text is not a quantity with a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseQuantityError {
    text: String,
    expected: &'static str,
}

/// Splits `58.8 Mb/s` into a non-negative number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

fn parse(text: &str, expected: &'static str, units: &[(&str, f64)]) -> Result<f64, ParseQuantityError> {
    split(text)
        .and_then(|(number, unit)| {
            let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
            Some(number * factor)
        })
        .ok_or_else(|| ParseQuantityError { text: text.to_owned(), expected })
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    /// Parses `100 Mb/s`, `2.5Gbit/s`, `900kbps` and the like; the unit is required, except for zero.
    fn from_str(text: &str) -> Result<Rate, ParseQuantityError> {
        if text.trim() == "0" {
            return Ok(Rate::ZERO);
        }
        const UNITS: [(&str, f64); 15] = [
            ("b/s", 1.0),
            ("bps", 1.0),
            ("bit/s", 1.0),
            ("kb/s", 1e3),
            ("kbps", 1e3),
            ("kbit/s", 1e3),
            ("Mb/s", 1e6),
            ("Mbps", 1e6),
            ("Mbit/s", 1e6),
            ("Gb/s", 1e9),
            ("Gbps", 1e9),
            ("Gbit/s", 1e9),
            ("Tb/s", 1e12),
            ("Tbps", 1e12),
            ("Tbit/s", 1e12),
        ];
        parse(text, "a rate such as `100 Mb/s`", &UNITS).map(Rate::from_bps_f64)
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Parses `1500`, `1500 B`, `250 kB`, `2 MB`, `64 KiB`; a bare number is bytes.
    fn from_str(text: &str) -> Result<Bytes, ParseQuantityError> {
        const UNITS: [(&str, f64); 8] = [
            ("", 1.0),
            ("B", 1.0),
            ("kB", 1e3),
            ("KB", 1e3),
            ("KiB", 1024.0),
            ("MB", 1e6),
            ("MiB", 1_048_576.0),
            ("GB", 1e9),
        ];
        parse(text, "a size such as `250 kB`", &UNITS).map(|bytes| Bytes(bytes.round() as u64))
    }
}

impl FromStr for Duration {
    type Err = ParseQuantityError;

    /// Parses `120 us`, `20ms`, `1.5 s`, `5 min`; the unit is required, except for zero.
    fn from_str(text: &str) -> Result<Duration, ParseQuantityError> {
        if text.trim() == "0" {
            return Ok(Duration::ZERO);
        }
        const UNITS: [(&str, f64); 6] =
            [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];
        parse(text, "a time such as `20 ms`", &UNITS).map(Duration::from_secs_f64)
    }
}

/// Serializes a quantity as text, such as `"100 Mb/s"`, in files and messages.
macro_rules! serde_as_text {
    ($type:ty, $exact:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let exact: fn(&$type) -> String = $exact;
                serializer.serialize_str(&exact(self))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(Rate, |rate| format!("{} b/s", rate.0));
serde_as_text!(Bytes, |bytes| format!("{} B", bytes.0));
serde_as_text!(Duration, |time| format!("{} ns", time.0));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_at_10_gbps_takes_7230_ns() {
        // rapid 1.5: P = 9038 B on the wire.
        assert_eq!(Rate::from_bps(10_000_000_000).time_for(Bytes::new(9038)), Duration::from_ns(7230));
        assert_eq!(Rate::of(Bytes::new(1250), Duration::from_us(1)), Some(Rate::from_bps(10_000_000_000)));
        assert_eq!(Rate::of(Bytes::new(1250), Duration::ZERO), None);
    }

    #[test]
    fn quantities_read_and_print_with_units() {
        assert_eq!("58.8 Mb/s".parse(), Ok(Rate::from_bps(58_800_000)));
        assert_eq!("250 kB".parse(), Ok(Bytes::new(250_000)));
        assert_eq!("120us".parse(), Ok(Duration::from_us(120)));
        assert_eq!(Rate::from_bps(58_800_000).to_string(), "58.8 Mb/s");
        assert_eq!(Rate::from_bps(9_996_000).to_string(), "10.0 Mb/s");
        assert_eq!(Duration::from_ms(20).to_string(), "20.0 ms");
        assert!("100".parse::<Rate>().is_err());
        assert!("-5 ms".parse::<Duration>().is_err());
        assert!("1e400 s".parse::<Duration>().is_err());
    }

    #[test]
    fn instants_subtract_to_signed_spans() {
        let (a, b) = (Instant::from_ns(5), Instant::from_ns(9));
        assert_eq!(b - a, Duration::from_ns(4));
        assert_eq!(a - b, Duration::from_ns(-4));
        assert_eq!(a + Duration::from_ns(4), b);
        assert_eq!(b - Duration::from_ns(4), a);
    }
}
