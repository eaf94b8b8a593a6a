//! A window that never changes: the baseline of an experiment, without congestion control.

use std::fmt;
use std::str::FromStr;

use super::{Ack, Argument, Congestion, Controller, Metrics, Needs, Parameters, Start};
use headway_units::Instant;

/// Keeps its window whatever happens, also after a timeout; it has no state besides its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    segments: u32,
}

impl FixedWindow {
    /// A controller whose window is `segments`, at least one.
    pub const fn new(segments: u32) -> FixedWindow {
        FixedWindow { segments: if segments == 0 { 1 } else { segments } }
    }

    /// The window in segments, at least one.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    pub(super) fn start(self, _start: &Start) -> FixedWindow {
        self
    }
}

impl Parameters for FixedWindow {
    const ARGUMENT: Argument = Argument::Required("SEGMENTS", "100");
}

impl FromStr for FixedWindow {
    type Err = ();

    fn from_str(text: &str) -> Result<FixedWindow, ()> {
        text.parse().ok().filter(|segments| *segments > 0).map(FixedWindow::new).ok_or(())
    }
}

impl fmt::Display for FixedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.segments)
    }
}

impl Controller for FixedWindow {
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {}

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _already_reduced: bool) {}

    /// The threshold is the window itself: this controller is never in slow start.
    fn metrics(&self) -> Metrics {
        let window = f64::from(self.segments);
        Metrics::new(window, window)
    }

    fn needs(&self) -> Needs {
        Needs { prr: false, ..Needs::default() }
    }
}
