//! Sizes: how many bytes something has.

use std::fmt;
use std::ops::Mul;
use std::str::FromStr;

use super::sums::sums;
use super::text::{ParseQuantityError, Unit, parse, serde_as_text};

/// Ethernet bytes that an IP packet occupies on the wire besides its own: 14 of header, 4 of frame check
/// sequence, and 20 of preamble and inter-packet gap.
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

sums!(Bytes);

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, count: u64) -> Bytes {
        Bytes(self.0.saturating_mul(count))
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

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Parses `1500`, `1500 B`, `250 kB`, `2 MB`, `64 KiB`; a bare number is bytes.
    fn from_str(text: &str) -> Result<Bytes, ParseQuantityError> {
        const UNITS: [Unit; 8] = [
            (&["", "B", "byte", "bytes"], 1.0),
            (&["kB", "KB"], 1e3),
            (&["KiB"], 1024.0),
            (&["MB"], 1e6),
            (&["MiB"], 1_048_576.0),
            (&["GB"], 1e9),
            (&["GiB"], 1_073_741_824.0),
            (&["TB"], 1e12),
        ];
        parse(text, "a size such as `250 kB`", &UNITS).map(|bytes| Bytes(bytes.round() as u64))
    }
}

serde_as_text!(Bytes, "a size such as `250 kB`", |bytes| format!("{} B", bytes.0));
