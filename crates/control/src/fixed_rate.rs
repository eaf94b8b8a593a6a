//! A pacing rate that never changes.

use std::fmt;
use std::str::FromStr;

use super::{Ack, Argument, Congestion, Controller, Metrics, Needs, Parameters, Start};
use headway_units::{Instant, Rate};

/// More segments than any path holds: 2^24 full segments take 20 s at 10 Gb/s, so only the
/// rate limits the sender.
const WINDOW: f64 = 16_777_216.0;

/// Paces at its rate whatever happens, also after a timeout; it has no state besides its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedRate {
    rate: Rate,
}

impl FixedRate {
    /// A controller that paces at `rate`, counting wire bytes; above zero.
    pub const fn new(rate: Rate) -> FixedRate {
        FixedRate { rate }
    }

    /// The rate, counting wire bytes.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    pub(super) fn start(self, _start: &Start) -> FixedRate {
        self
    }
}

impl Parameters for FixedRate {
    const ARGUMENT: Argument = Argument::Required("RATE", "10 Mb/s");

    fn dilated(self, factor: u32) -> FixedRate {
        FixedRate::new(Rate::from_bps((self.rate.bps() / u64::from(factor)).max(1)))
    }
}

impl FromStr for FixedRate {
    type Err = ();

    fn from_str(text: &str) -> Result<FixedRate, ()> {
        text.parse().ok().filter(|rate| *rate > Rate::ZERO).map(FixedRate::new).ok_or(())
    }
}

impl fmt::Display for FixedRate {
    /// Prints the shortest number that is exact, unlike the three digits of a [`Rate`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mb/s", self.rate.mbps())
    }
}

impl Controller for FixedRate {
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {}

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _already_reduced: bool) {}

    /// The threshold is the window itself: this controller is never in slow start.
    fn metrics(&self) -> Metrics {
        Metrics { pacing_rate: Some(self.rate), ..Metrics::new(WINDOW, WINDOW) }
    }

    fn needs(&self) -> Needs {
        Needs { prr: false, ..Needs::default() }
    }
}
