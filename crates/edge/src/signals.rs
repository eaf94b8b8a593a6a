//! What others say of the access link: a modem, a dish, or a program that measures it.

use headway_units::{Duration, Instant, PerSide, Rate, Side};
use serde::Deserialize;

use crate::evaluate::{Estimate, Facts, Input, Quantity};
use crate::snapshot::RateState;

/// Most sources of a direction; another one takes the place of that which was silent for longest.
const SOURCES: usize = 8;
/// Longest name of a source, in bytes.
const NAME: usize = 40;
/// What a source without a name is called.
const NAMELESS: &str = "signal";
/// An estimate is shown for so long, though it stops to count earlier.
const SHOWN: Duration = Duration::from_ms(60_000);

/// A line of JSON: `{"path": "down", "available_bps": 20000000, "low_bps": 18000000, "high_bps":
/// 22000000, "age_ms": 100}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    path: Path,
    available_bps: u64,
    low_bps: Option<u64>,
    high_bps: Option<u64>,
    #[serde(default)]
    age_ms: u64,
    source: Option<String>,
}

/// The directions of the access link.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Path {
    Down,
    Up,
}

/// The latest estimate of each source and direction.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Of data.
    estimates: PerSide<Vec<Estimate>>,
    /// The part of what passes the link that is data; 0 for all.
    payload: f64,
}

impl Signals {
    /// Takes a line of JSON: `path` (`down` or `up`), `available_bps`, and, where known, `low_bps` and
    /// `high_bps`, `age_ms`, and the name of its `source`.
    ///
    /// # Errors
    /// Says what is wrong with the line.
    pub fn take(&mut self, now: Instant, line: &str) -> Result<(), String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let [low, high] = [line.low_bps, line.high_bps].map(|end| end.unwrap_or(line.available_bps));
        if line.available_bps == 0 {
            return Err("`available_bps` must be above 0".to_owned());
        }
        if !(low..=high).contains(&line.available_bps) {
            return Err("`available_bps` must be from `low_bps` to `high_bps`".to_owned());
        }
        let source = line.source.unwrap_or_else(|| NAMELESS.to_owned());
        if source.is_empty() || source.len() > NAME || source.contains(char::is_control) {
            return Err(format!("`source` must have 1 to {NAME} bytes and no control characters"));
        }
        let payload = if self.payload > 0.0 { self.payload } else { 1.0 };
        let [rate, low, high] = [line.available_bps, low, high]
            .map(|bps| Rate::from_bps(bps).scale(payload).max(Rate::from_bps(1)));
        let side = Side::of(line.path as u8);
        let age = line.age_ms.saturating_mul(1_000_000);
        let at = Instant::from_ns(now.ns().saturating_sub(age));
        self.put(Estimate {
            source: source.into(),
            quantity: Quantity::Available,
            side,
            rate,
            low,
            high,
            at,
        });
        Ok(())
    }

    /// Takes rates of lines for bytes on the wire of the link, of which this part is data.
    pub(crate) fn set_payload(&mut self, payload: f64) {
        self.payload = payload;
    }

    /// Takes an estimate in place of the one before of its source and direction.
    pub fn put(&mut self, estimate: Estimate) {
        let known = &mut self.estimates[estimate.side];
        known.retain(|other| other.source != estimate.source);
        if known.len() == SOURCES {
            let oldest = known.iter().enumerate().min_by_key(|(_, other)| other.at).map(|(index, _)| index);
            oldest.map(|oldest| known.remove(oldest));
        }
        known.push(estimate);
    }

    /// Returns what was said of a direction in the last minute, as pages show it.
    pub fn states(&self, now: Instant, side: Side) -> impl Iterator<Item = RateState> {
        let known = self.estimates[side].iter().filter(move |estimate| now - estimate.at <= SHOWN);
        known.map(move |estimate| RateState {
            rate_bps: estimate.rate.bps(),
            low_bps: estimate.low.bps(),
            high_bps: estimate.high.bps(),
            age_ms: ((now - estimate.at).ns() / 1_000_000).max(0) as u64,
            source: estimate.source.to_string(),
        })
    }
}

impl Input for Signals {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        facts.estimates.extend(self.estimates.0.iter().flatten().cloned());
    }
}
