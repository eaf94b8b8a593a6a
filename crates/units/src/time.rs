//! Times: points on a clock, and the spans between them.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::sums::sums;
use super::text::{ParseQuantityError, Unit, parse, serde_as_text};

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

sums!(Duration);

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

impl FromStr for Duration {
    type Err = ParseQuantityError;

    /// Parses `120 us`, `20ms`, `1.5 s`, `5 min` or `5m`; the unit is required, except for zero.
    fn from_str(text: &str) -> Result<Duration, ParseQuantityError> {
        if text.trim() == "0" {
            return Ok(Duration::ZERO);
        }
        const UNITS: [Unit; 7] = [
            (&["ns", "nsec"], 1e-9),
            (&["us", "usec", "\u{b5}s", "\u{3bc}s"], 1e-6),
            (&["ms", "msec"], 1e-3),
            (&["s", "sec", "secs", "second", "seconds"], 1.0),
            // No other unit of time begins with m alone.
            (&["min", "m", "mins", "minute", "minutes"], 60.0),
            (&["h", "hr", "hour", "hours"], 3600.0),
            (&["days", "d", "day"], 86_400.0),
        ];
        parse(text, "a time such as `20 ms`", &UNITS).map(Duration::from_secs_f64)
    }
}

serde_as_text!(Duration, "a time such as `20 ms`", |time| format!("{} ns", time.0));
