//! Congestion controllers: when and how much a sender may send. One file a controller.
//!
//! A controller sees acknowledgements and congestion and answers with a window, and with a pacing rate if it paces. What is
//! common to all (loss detection, proportional rate reduction, retransmission, timers) belongs to the transport.

use crate::units::{Duration, Instant, Rate};

mod bbr;
mod cubic;
mod dctcp;
mod fixed_rate;
mod fixed_window;
mod hystart;
mod kind;
mod ls_aimd;
mod nice;
mod reno;
mod rfc3168;
mod sdc;
mod subtcp;
mod window;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use fixed_rate::FixedRate;
pub use fixed_window::FixedWindow;
pub use headway_arithmetic::Algorithm;
pub use kind::{AnyController, Kind, ParseKindError};
pub use ls_aimd::{LsAimd, LsParameters};
pub use nice::Nice;
pub use reno::Reno;
pub use rfc3168::Rfc3168;
pub use sdc::Sdc;
pub use subtcp::Subtcp;

/// What one acknowledgement told the sender. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Segments it reports for the first time, cumulatively or selectively, and one more when it says that a segment came twice; this is
    /// what grows a window.
    pub delivered: u32,
    /// Of `delivered`, those the receiver saw marked CE, as far as the echo tells (exact with the DCTCP echo).
    pub marked: u32,
    /// Round-trip time of the newest segment that it reports for the first time and that was sent once only; in their stead of a
    /// retransmission in whole milliseconds, which is what time stamps tell; `None` if neither is known.
    pub rtt: Option<Duration>,
    /// The retransmission timeout from now on.
    pub timeout: Duration,
    /// Segments in flight after this acknowledgement.
    pub in_flight: u32,
    /// Whether the window, and not the application or the receiver, limited the flight before this acknowledgement.
    pub window_limited: bool,
    /// The number of the first segment not yet acknowledged.
    pub una: u64,
    /// The number of the next segment to be sent for the first time.
    pub next: u64,
    /// Whether the window must not grow: the sender is in recovery or reducing after a mark, and the transport owns the window; or the
    /// acknowledgement does not advance. After a timeout the window grows with every acknowledgement that does.
    pub reducing: bool,
}

/// What a flow starts with.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Segments in the initial window.
    pub window: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Bytes of a full segment on the wire.
    pub wire: u32,
    /// Of the random choices of the controller.
    pub seed: u64,
}

/// How a flow stands with losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is being recovered.
    Open,
    /// Losses are being recovered.
    Recovery,
    /// Everything is sent again after a timeout.
    Loss,
}

/// How fast segments are delivered, for controllers that own their window. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Delivered since the flow began, this acknowledgement included.
    pub delivered: u64,
    /// When the last was delivered.
    pub at: Instant,
    /// Thought lost since the flow began, retransmissions included.
    pub lost: u64,
    /// Of those, the ones that this acknowledgement told of.
    pub losses: u32,
    /// In flight before this acknowledgement.
    pub flight_before: u32,
    /// When pacing lets the next segment leave; not before now.
    pub departure: Instant,
    /// How the flow stands.
    pub standing: Standing,
    /// Smoothed round-trip time.
    pub smoothed: Option<Duration>,
    /// The sample of the newest segment that this acknowledgement reports; `None` if it reports none.
    pub sample: Option<RateSample>,
}

/// What was delivered while a segment was on its way (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered when it was sent.
    pub prior_delivered: u64,
    /// Segments delivered since.
    pub delivered: u64,
    /// The longer of the times that sending and acknowledging these took; `None` when it is shorter than any round-trip time.
    pub interval: Option<Duration>,
    /// Whether the application had nothing to send then.
    pub app_limited: bool,
    /// Whether the receiver may have held the acknowledgement back: a single segment was under way, and it was not full.
    pub delayed: bool,
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

    /// Losses show during a reduction that marks demanded, which has brought the window to `window` segments so far.
    fn on_further_losses(&mut self, _window: u32) {}

    /// The retransmission timer expired; afterwards the window is one segment unless it is fixed.
    ///
    /// With `reduced` the losses belong to an episode that the threshold has been reduced for already; it then stays.
    fn on_timeout(&mut self, now: Instant, in_flight: u32, reduced: bool);

    /// The last reduction or timeout was needless; before it the window and the threshold were these.
    fn on_undo(&mut self, _window: f64, _ssthresh: f64) {}

    /// The connection was opened at `now`, before anything was sent; its packets took this round-trip time.
    fn on_open(&mut self, _now: Instant, _rtt: Duration) {}

    /// The flow starts sending again after having been idle for `idle`, longer than its retransmission `timeout`.
    fn on_idle(&mut self, _now: Instant, _idle: Duration, _timeout: Duration) {}

    /// An acknowledgement arrived; called after [`Controller::on_ack`] for those that own their window.
    fn on_delivery(&mut self, _ack: &Ack, _delivery: &Delivery) {}

    /// A segment is sent while nothing is in flight, because the application had nothing to send before.
    fn on_resume(&mut self, _now: Instant) {}

    /// Whether the controller sets the window in recovery too; then no other reduction applies, and it hears of deliveries.
    fn owns_window(&self) -> bool {
        false
    }

    /// Whether the controller sends so little that samples of what is sent now say nothing about the path.
    fn holds_back(&self) -> bool {
        false
    }

    /// The fewest segments that leave back to back when the transport sends in bursts, as hosts do that leave segmentation to
    /// their card; `None` spreads single segments.
    fn least_burst(&self) -> Option<u32> {
        None
    }

    /// The congestion window in segments, at least a fraction of one.
    fn window(&self) -> f64;

    /// The most segments that may be in flight: the whole ones of the window, at least one.
    fn flight_limit(&self) -> u32 {
        (self.window() as u32).max(1)
    }

    /// The least time from the departure of one segment to that of the next, whatever acknowledgements come; `None` if these decide.
    ///
    /// It may change with every acknowledgement, and the departure that is pending then moves, earlier or later. `next` is the number of
    /// the next segment to be sent for the first time.
    fn gap(&self, _next: u64) -> Option<Duration> {
        None
    }

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

    /// Ten full segments of an MTU of 1500.
    pub(super) const START: Start = Start { window: 10, mss: 1448, wire: 1538, seed: 1 };

    /// An acknowledgement of `delivered` segments by a flow that its window limits.
    pub(super) fn ack(delivered: u32) -> Ack {
        Ack {
            now: Instant::ZERO,
            delivered,
            marked: 0,
            rtt: None,
            timeout: Duration::from_ms(200),
            in_flight: 0,
            window_limited: true,
            una: 0,
            next: 0,
            reducing: false,
        }
    }
    /// What an acknowledgement on a path with this round-trip time says to controllers that own their window.
    pub(super) fn delivery(smoothed: Duration) -> Delivery {
        Delivery {
            delivered: 1,
            at: Instant::ZERO,
            lost: 0,
            losses: 0,
            flight_before: 1,
            departure: Instant::ZERO,
            standing: Standing::Open,
            smoothed: Some(smoothed),
            sample: None,
        }
    }
}
