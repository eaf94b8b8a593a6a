//! A window that never changes: the reference of an experiment without control.

use super::{Ack, Congestion, Controller};
use crate::units::Instant;

/// Keeps its window whatever happens, also after a timeout.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    window: f64,
}

impl FixedWindow {
    /// A controller whose window is `segments`, at least one.
    pub fn new(segments: u32) -> FixedWindow {
        FixedWindow { window: f64::from(segments.max(1)) }
    }
}

impl Controller for FixedWindow {
    #[inline]
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {}

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _reduced: bool) {}

    #[inline]
    fn window(&self) -> f64 {
        self.window
    }

    /// The window itself: this controller is never in slow start.
    #[inline]
    fn ssthresh(&self) -> f64 {
        self.window
    }
}
