//! A pacing rate that never changes.

use super::{Ack, Congestion, Controller};
use crate::units::{Instant, Rate};

/// Segments that no path holds: 2^24 full segments are 20 s of 10 Gb/s, so the rate alone limits the sender.
const WINDOW: f64 = 16_777_216.0;

/// Paces at its rate whatever happens, also after a timeout.
#[derive(Clone, Debug)]
pub struct FixedRate {
    rate: Rate,
}

impl FixedRate {
    /// A controller that paces at `rate`, counting wire bytes.
    pub fn new(rate: Rate) -> FixedRate {
        FixedRate { rate }
    }
}

impl Controller for FixedRate {
    #[inline]
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {}

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _reduced: bool) {}

    #[inline]
    fn window(&self) -> f64 {
        WINDOW
    }

    /// The window itself: this controller is never in slow start.
    #[inline]
    fn ssthresh(&self) -> f64 {
        WINDOW
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }
}
