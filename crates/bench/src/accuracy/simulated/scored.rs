//! An answer beside the truth.

use headway_record::MeasureResult;
use serde::Serialize;

/// One answer with the truth.
#[derive(Clone, Debug, Serialize)]
pub(in crate::accuracy) struct Scored {
    /// The class of its path.
    pub(super) class: String,
    /// The name of its path.
    pub(super) path: String,
    /// Size of the smallest buffer on the path, in full-size packets.
    pub(super) least_buffer_packets: u64,
    /// Cross-traffic packets lost because of a measurement: those that probes displaced, or, where other
    /// packets react to losses, the drops on this path beyond those of the same path without
    /// measurements, per answer.
    pub(super) lost: f64,
    /// Answer and truth.
    #[serde(flatten)]
    pub(super) result: MeasureResult,
}

/// If less than this share of the narrow link's capacity is available, errors and widths are relative to this
/// share of the capacity.
const MIN_FREE: f64 = 0.25;
/// Largest half width of a narrow interval, as a share of the answer.
const NARROW: f64 = 0.15;

impl Scored {
    /// An answer of which neither class nor losses matter.
    #[cfg(feature = "sensitivity")]
    pub(in crate::accuracy) fn of(result: MeasureResult) -> Scored {
        Scored { class: String::new(), path: String::new(), least_buffer_packets: 0, lost: 0.0, result }
    }

    /// Returns the reference for errors and widths, bit/s: the available bandwidth, or a quarter of the
    /// narrow link's capacity if that is more.
    pub(in crate::accuracy) fn scale(&self) -> f64 {
        self.free().max(MIN_FREE * self.result.narrow_bps.unwrap_or(0) as f64).max(1.0)
    }

    pub(in crate::accuracy) fn free(&self) -> f64 {
        self.result.free_bps.unwrap_or(0) as f64
    }

    pub(in crate::accuracy) fn rate(&self) -> Option<f64> {
        self.result.available_bps.map(|bps| bps as f64)
    }

    /// Whether the answer is only a lower bound.
    pub(super) fn is_at_least(&self) -> bool {
        self.rate().is_some() && self.result.high_bps.is_none()
    }

    /// Whether the interval contains the truth; `None` without an answer.
    pub(in crate::accuracy) fn covered(&self) -> Option<bool> {
        let low = self.result.low_bps? as f64;
        Some(low <= self.free() && self.result.high_bps.is_none_or(|high| self.free() <= high as f64))
    }

    /// Returns the relative error; `None` for bounds and without an answer.
    pub(in crate::accuracy) fn error(&self) -> Option<f64> {
        self.rate().filter(|_| !self.is_at_least()).map(|rate| (rate - self.free()) / self.scale())
    }

    /// Returns the levels, in percent, of all claimed intervals, and whether each
    /// interval contains the truth.
    pub(super) fn claims(&self) -> impl Iterator<Item = (u32, bool)> {
        let free = self.free();
        let holds = move |low: u64, high: Option<u64>| {
            low as f64 <= free && high.is_none_or(|high| free <= high as f64)
        };
        // A method without further levels claims only its interval of 90 %.
        let only = self.covered().filter(|_| self.result.claims.is_empty()).map(|covered| (90, covered));
        let claims = self.result.claims.iter();
        claims.map(move |claim| (claim.percent, holds(claim.low_bps, claim.high_bps))).chain(only)
    }

    /// Returns half of the interval's width, bit/s.
    pub(super) fn half(&self) -> Option<f64> {
        Some((self.result.high_bps? as f64 - self.result.low_bps? as f64) / 2.0)
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.half().zip(self.rate()).is_some_and(|(half, rate)| half <= NARROW * rate)
    }
}
