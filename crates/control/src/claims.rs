//! What a sender says about itself that is not so, for studies of routers among such senders.

use std::fmt;

use headway_queue::explicit::Header;

/// Factors are in thousandths.
const WHOLE: u32 = 1_000;

/// By which factors a sender misstates its RTT and the time between its packets; by default it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    rtt: u32,
    x: u32,
}

impl Default for Claims {
    fn default() -> Claims {
        Claims { rtt: WHOLE, x: WHOLE }
    }
}

impl Claims {
    /// Reads `says-rtt=FACTOR` or `says-x=FACTOR`; returns whether the text was one of these.
    pub(crate) fn set(&mut self, part: &str) -> Option<()> {
        match part.split_once('=')? {
            ("says-rtt", factor) => self.rtt = read_factor(factor)?,
            ("says-x", factor) => self.x = read_factor(factor)?,
            _ => return None,
        }
        Some(())
    }

    /// Misstates the fields of a header whose RTT is known.
    pub(crate) fn apply(&self, header: &mut Header) {
        if *self != Claims::default() && header.rtt > 0 {
            header.rtt = scale(header.rtt, self.rtt).max(1);
            header.x = scale(header.x, self.x);
        }
    }

    /// Returns the text of what differs from the truth.
    pub(crate) fn parts(&self) -> impl Iterator<Item = String> {
        [("says-rtt", self.rtt), ("says-x", self.x)]
            .into_iter()
            .filter(|(_, factor)| *factor != WHOLE)
            .map(|(key, factor)| format!("{key}={}", Factor(factor)))
    }
}

/// A factor in thousandths, as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor(pub(crate) u32);

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / f64::from(WHOLE))
    }
}

/// Reads a factor from 0.001 to 1000; returns thousandths.
pub(crate) fn read_factor(text: &str) -> Option<u32> {
    let factor: f64 = text.trim().parse().ok()?;
    (0.001..=1_000.0).contains(&factor).then(|| (factor * f64::from(WHOLE)).round() as u32)
}

/// Multiplies a number with a factor in thousandths; the product stays below 2^32.
pub(crate) fn scale(value: u32, factor: u32) -> u32 {
    u32::try_from(u64::from(value) * u64::from(factor) / u64::from(WHOLE)).unwrap_or(u32::MAX)
}
