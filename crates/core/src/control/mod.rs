//! Congestion controllers: when and how much a sender may send. One file a controller.
//!
//! A controller sees acknowledgements and congestion and answers with a window, and with a pacing rate if it paces. What is
//! common to all (loss detection, proportional rate reduction, retransmission, timers) belongs to the transport.

use crate::units::{Duration, Instant, Rate};

mod cubic;
mod dctcp;
mod fixed_rate;
mod fixed_window;
mod hystart;
mod kind;
mod reno;
mod window;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use fixed_rate::FixedRate;
pub use fixed_window::FixedWindow;
pub use kind::{AnyController, Kind, ParseKindError};
pub use reno::Reno;

/// What one acknowledgement told the sender. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Segments it reports for the first time, cumulatively or selectively.
    pub delivered: u32,
    /// Segments it acknowledges cumulatively for the first time; this is what grows a window.
    pub acked: u32,
    /// Of `delivered`, those the receiver saw marked CE, as far as the echo tells (exact with the DCTCP echo).
    pub marked: u32,
    /// Round-trip time of the newest segment it covers; `None` when that was retransmitted.
    pub rtt: Option<Duration>,
    /// Segments in flight after this acknowledgement.
    pub in_flight: u32,
    /// Whether the window, and not the application or the receiver, limited the flight before this acknowledgement.
    pub window_limited: bool,
    /// The number of the first segment not yet acknowledged.
    pub una: u64,
    /// The number of the next segment to be sent for the first time.
    pub next: u64,
    /// Whether the sender is in recovery or reducing after a mark; the transport then owns the window. After a timeout
    /// it does not: the window then grows with every acknowledgement.
    pub reducing: bool,
}

/// Why a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Segments were lost.
    Loss,
    /// Segments were marked CE.
    Mark,
}

/// Decides how much a sender may send.
///
/// Windows are in segments and may have a fraction.
pub trait Controller {
    /// An acknowledgement arrived.
    fn on_ack(&mut self, ack: &Ack);

    /// A reduction begins, at most one a round trip; afterwards [`Controller::window`] is where it ends.
    fn on_congestion(&mut self, now: Instant, in_flight: u32, cause: Congestion);

    /// The retransmission timer expired; afterwards the window is one segment unless it is fixed.
    ///
    /// With `reduced` the losses belong to an episode that the threshold has been reduced for already; it then stays.
    fn on_timeout(&mut self, now: Instant, in_flight: u32, reduced: bool);

    /// The flow starts sending again after having been idle for `idle`, longer than its retransmission `timeout`.
    fn on_idle(&mut self, _now: Instant, _idle: Duration, _timeout: Duration) {}

    /// The congestion window in segments, at least a fraction of one.
    fn window(&self) -> f64;

    /// The slow-start threshold in segments; infinite before the first reduction.
    fn ssthresh(&self) -> f64;

    /// The rate to pace at, counting wire bytes; `None` leaves it to the transport.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// An acknowledgement of `acked` segments by a flow that its window limits.
    pub(super) fn ack(acked: u32) -> Ack {
        Ack {
            now: Instant::ZERO,
            delivered: acked,
            acked,
            marked: 0,
            rtt: None,
            in_flight: 0,
            window_limited: true,
            una: 0,
            next: 0,
            reducing: false,
        }
    }
}
