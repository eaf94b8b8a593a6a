//! Windows that are larger than shares x RTT, because packets wait in bursts.

use headway_units::Rate;

use crate::load::{Load, Passed};

/// By how much windows become wider and narrower in a second. Range 1.005 to 1.05.
const WIDER: f64 = 1.02;
/// See [`WIDER`].
const NARROWER: f64 = 0.96;
/// The most: more would be a queue of that part of the RTT if it were wrong. Range 1.1 to 1.5.
pub(crate) const WIDEST: f64 = 1.25;
/// Flows that would have this part of what they share are held by their windows: some of it is kept for those that have just begun. Range
/// 0.5 to 0.8.
const ASKS: f64 = 0.7;
/// Flows have their shares if they have this part: what is left are pauses of windows. Range 0.95 to 0.99.
const REACHED: f64 = 0.97;

/// By how much windows are larger than shares x RTT, because packets wait though no queue stands.
///
/// A window of a share is sent in bursts, and packets wait behind those of others. So the usual RTT is longer than the least one, from which
/// windows are computed, and flows have less than their shares. That is made up for as long as the least RTT of a second stays.
#[derive(Clone, Debug)]
pub struct Widening {
    factors: [f64; 2],
}

impl Default for Widening {
    fn default() -> Widening {
        Widening { factors: [1.0; 2] }
    }
}

impl Widening {
    /// Takes what the flows that are limited did in the last second, and what they share; none where that is found by their queue.
    pub fn look(&mut self, loads: &[Load], shared: [Option<Rate>; 2]) {
        let passed = [0, 1].map(|side| Passed::new(loads, side));
        let waits = passed.iter().any(|passed| passed.waits);
        for ((factor, passed), shared) in self.factors.iter_mut().zip(passed).zip(shared) {
            let Some(shared) = shared else {
                *factor = 1.0;
                continue;
            };
            if waits {
                *factor = (*factor * NARROWER).max(1.0);
            } else if passed.asks > shared.scale(ASKS) && passed.rate < shared.scale(REACHED) {
                *factor = (*factor * WIDER).min(WIDEST);
            }
        }
    }

    /// Returns what windows towards each side are multiplied with, 1 or more.
    pub const fn factors(&self) -> [f64; 2] {
        self.factors
    }
}
