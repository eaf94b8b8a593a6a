//! Congestion controllers: when and how much a sender may send. One file per controller.
//!
//! A controller sees acknowledgements and congestion and answers with a window, and with a pacing rate if it
//! paces. The transport does what all have in common: loss detection, proportional rate reduction,
//! retransmission, timers.
//!
//! To add a controller, write its file, which exports a type that implements [`Controller`], and add a line
//! to the table below. Parameters implement [`Parameters`]. A controller outside this crate implements
//! [`Controller`] and is handed to a flow as a [`Factory`].
//!
//! # Decisions
//!
//! - **A controller is one file and one entry of the table.** From the table a macro generates names,
//!   parsing, help, and an enum with static dispatch ([`AnyController`]), because the transport calls a
//!   controller several times per segment. One outside this crate costs an indirect call
//!   (`crates/sim/examples/my_controller.rs`).
//! - **A controller may set the gap between departures** ([`Controller::gap`]). The sender asks for it at
//!   every event and stores no departure time, so every ACK may move a pending departure earlier or later, as
//!   the packet conservation clock of LS-AIMD requires.
//! - **Or it schedules every departure** ([`Controller::schedule`]), at absolute times, as Rapid does. The
//!   sender asks when it has something to send, and the line of the host, which its flows share, says when
//!   the packet really leaves.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::kind::controllers;
use headway_learned::Model;
use headway_queue::explicit::Header;
use headway_units::{Duration, Instant, Rate};

mod bbr;
mod bic;
mod claims;
mod compound;
mod cubic;
mod dctcp;
mod factory;
mod fast;
mod fixed_rate;
mod fixed_window;
mod highspeed;
mod htcp;
mod hybla;
mod hystart;
mod illinois;
mod kind;
mod lp;
mod ls_aimd;
mod nice;
mod parts;
#[cfg(test)]
mod properties;
mod rapid;
mod rcp;
mod reno;
mod rfc3168;
mod round_trip;
mod scalable;
mod sdc;
mod subtcp;
mod ticks;
mod vegas;
mod veno;
mod westwood;
mod window;
mod xcp;
mod yeah;

pub use bbr::Bbr;
pub use bic::Bic;
pub use compound::Compound;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use factory::{Build, Factory};
pub use fast::{Fast, FastParameters};
pub use fixed_rate::FixedRate;
pub use fixed_window::FixedWindow;
pub use headway_arithmetic::Algorithm;
pub use highspeed::HighSpeed;
pub use htcp::HTcp;
pub use hybla::Hybla;
pub use illinois::Illinois;
pub use kind::{Argument, Entry, Parameters, ParseKindError};
pub use lp::Lp;
pub use ls_aimd::{LsAimd, LsParameters};
pub use nice::Nice;
pub use rapid::{Rapid, RapidParameters};
pub use rcp::{Rcp, RcpParameters};
pub use reno::Reno;
pub use rfc3168::Rfc3168;
pub use scalable::Scalable;
pub use sdc::Sdc;
pub use subtcp::Subtcp;
pub use vegas::Vegas;
pub use veno::Veno;
pub use westwood::Westwood;
pub use xcp::{LossPolicy, Xcp, XcpParameters};
pub use yeah::Yeah;

// A line is `/// description "name" Variant(parameters: Type) => constructor as type,
// where;`. The constructor takes the parameters, if there are any, and a `&Start`. `linux` means that Linux
// has the controller too, by itself or as a module or program of ours; all others are `simulated`. `+ gaps`
// marks those that override `gap` or `flight_limit`; all others are asked for neither.
controllers! {
    /// Reno: one segment more per round trip, half the window at a loss (RFC 5681)
    "reno" Reno => Reno::new as Reno, linux;
    /// CUBIC with HyStart: grows along a cubic function of the time since the last reduction (RFC 9438)
    "cubic" Cubic => Cubic::new as Cubic, linux;
    /// DCTCP: reduces in proportion to the fraction of marked segments (RFC 8257)
    "dctcp" Dctcp => Dctcp::new as Dctcp, linux;
    /// BBR, version 1: paces at the bottleneck bandwidth with about two bandwidth-delay products in flight
    "bbr" Bbr => Bbr::new as Box<Bbr>, linux;
    /// LS-AIMD that halves at a mark or loss; works below two segments per round trip
    "ls-reno" LsReno(parameters: LsParameters) => LsAimd::reno as Box<LsAimd>, linux + gaps;
    /// LS-AIMD that reduces by half the fraction of marked segments; works below two segments per round trip
    "ls-dctcp" LsDctcp(parameters: LsParameters) => LsAimd::dctcp as Box<LsAimd>, linux + gaps;
    /// Reno that waits for its retransmission timer when it is marked at one segment (RFC 3168)
    "rfc3168" Rfc3168 => Rfc3168::new as Rfc3168, simulated + gaps;
    /// Sender delay control: delays segments in place of windows below eight
    "sdc" Sdc => Sdc::new as Sdc, simulated + gaps;
    /// SUBTCP: grows by 5 % of its window per round trip, and spaces segments out below a window of one
    "subtcp" Subtcp => Subtcp::new as Subtcp, simulated + gaps;
    /// TCP Nice: Vegas for background transfers, with windows down to 1/48 of a segment
    "nice" Nice => Nice::new as Box<Nice>, simulated + gaps;
    /// Scalable TCP: 1 % more per round trip, an eighth less at a loss (Kelly 2003)
    "scalable" Scalable => Scalable::new as Scalable, linux;
    /// HighSpeed TCP: grows by more and reduces by less the larger its window is (RFC 3649)
    "highspeed" HighSpeed => HighSpeed::new as HighSpeed, linux;
    /// BIC: searches for the window of the last loss in halves (Xu, Harfoush and Rhee 2004)
    "bic" Bic => Bic::new as Bic, linux;
    /// Westwood+: reduces the window to the measured rate times the minimum RTT (Grieco and Mascolo 2004)
    "westwood" Westwood => Westwood::new as Westwood, linux;
    /// Veno: Reno that takes losses for random where the queue is short (Fu and Liew 2003)
    "veno" Veno => Veno::new as Veno, linux;
    /// Vegas: keeps two to four segments in the queue (Brakmo, O'Malley and Peterson 1994)
    "vegas" Vegas => Vegas::new as Vegas, linux;
    /// Hybla: gives flows with long RTTs the growth of one with 25 ms (Caini and Firrincieli 2004)
    "hybla" Hybla => Hybla::new as Hybla, linux;
    /// H-TCP: grows by more the longer the last loss is past (Leith and Shorten 2004)
    "htcp" HTcp => HTcp::new as HTcp, linux;
    /// Illinois: queueing delay sets the growth and the size of reductions (Liu, Basar and Srikant 2006)
    "illinois" Illinois => Illinois::new as Illinois, linux;
    /// YeAH: Scalable TCP while the queue is short, Reno where it is not (Baiocchi,
    /// Castellani and Vacirca 2007)
    "yeah" Yeah => Yeah::new as Yeah, linux;
    /// TCP-LP: Reno that yields when the one-way delay grows (Kuzmanovic and Knightly 2003)
    "lp" Lp => Lp::new as Lp, linux;
    /// FAST: moves its window towards 200 segments in the queue (Wei, Jin, Low and Hegde 2006)
    "fast" Fast(parameters: FastParameters) => Fast::new as Box<Fast>, simulated;
    /// Compound: Reno's window and one more, which grows while the queue is short (Tan et al. 2006)
    "compound" Compound => Compound::new as Compound, simulated;
    /// TCP Rapid: every packet probes; sends at the estimated available bandwidth (Yin 2017)
    "rapid" Rapid(parameters: RapidParameters) => Rapid::new as Box<Rapid>, linux;
    /// XCP: routers say how much faster to become (Katabi, Handley and Rohrs 2002)
    "xcp" Xcp(parameters: XcpParameters) => Xcp::new as Box<Xcp>, linux;
    /// RCP: routers say how fast to send (Dukkipati, Kobayashi, Zhang-Shen and McKeown 2005)
    "rcp" Rcp(parameters: RcpParameters) => Rcp::new as Box<Rcp>, linux + gaps;
    /// A window that never changes
    "fixed-window" FixedWindow(fixed: FixedWindow) => FixedWindow::start as FixedWindow, linux;
    /// A pacing rate that never changes, counting wire bytes
    "fixed-rate" FixedRate(fixed: FixedRate) => FixedRate::start as FixedRate, linux;
}

/// The information carried by one acknowledgement. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Segments newly acknowledged or SACKed, plus one for a DSACK; this is what grows a window.
    pub delivered: u32,
    /// Of `delivered`, those the receiver saw marked CE, as far as the echo tells (exact
    /// with the DCTCP echo).
    pub marked: u32,
    /// RTT of the newest segment that it reports for the first time and that was sent only once. If
    /// it reports only retransmissions, the RTT from their timestamps, in whole milliseconds. `None`
    /// if neither is known.
    pub rtt: Option<Duration>,
    /// Smoothed RTT (RFC 6298), this acknowledgement included; `None` before the first sample.
    pub smoothed: Option<Duration>,
    /// The RTO from now on.
    pub timeout: Duration,
    /// Segments in flight after this acknowledgement.
    pub in_flight: u32,
    /// Whether the flow was cwnd-limited before this acknowledgement, and not limited by the
    /// application or the receiver.
    pub window_limited: bool,
    /// The number of the first segment not yet acknowledged.
    pub una: u64,
    /// The number of the next segment to be sent for the first time.
    pub next: u64,
    /// Whether the window must not grow, because the sender is in recovery or reducing after a mark, or
    /// because the acknowledgement does not advance. After a timeout the window grows with every
    /// acknowledgement that does.
    pub reducing: bool,
    /// The recovery state after this acknowledgement.
    pub state: RecoveryState,
    /// One-way delay of the segment that triggered it, from the timestamps of both ends: clocks differ by an
    /// unknown constant, so it may be negative. `None` if unknown, as in the simulator so far.
    pub one_way_delay: Option<Duration>,
    /// The segment that caused it, for controllers that [need stamps](Needs::stamps). `None` if that was a
    /// retransmission or a duplicate, or if the acknowledgement reports nothing new.
    pub arrival: Option<Arrival>,
    /// What routers granted and the receiver returned; `None` without a congestion header.
    pub feedback: Option<Feedback>,
}

/// The feedback that an acknowledgement returns in its congestion header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The version of the header: [`VERSION_XCP`](headway_queue::explicit::VERSION_XCP) or
    /// [`VERSION_RCP`](headway_queue::explicit::VERSION_RCP).
    pub version: u8,
    /// XCP: the sum of the granted changes of throughput, two's complement; RCP: the latest rate. In B/s.
    pub value: u32,
}

/// The arrival of a segment that was sent only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the segment.
    pub segment: u64,
    /// When it arrived by the receiver's clock, modulo 2^32, in units of [`Start::stamp_unit`]; `None` if the
    /// receiver does not say.
    pub stamp: Option<u32>,
}

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When its first bit left.
    pub at: Instant,
    /// The number of its segment.
    pub segment: u64,
    /// Whether the segment had left before.
    pub retransmission: bool,
    /// Whether it is as large as a full segment.
    pub full: bool,
}

/// The parameters of a flow when it starts.
#[derive(Clone, Debug)]
pub struct Start {
    /// Segments in the initial window.
    pub window: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Bytes of a full segment on the wire.
    pub wire: u32,
    /// Whether the transport paces, that is, spreads segments over the round trip.
    pub paced: bool,
    /// Whether CUBIC leaves slow start where HyStart finds the path full.
    pub hystart: bool,
    /// Whether controllers round as Linux does; DCTCP then reduces by whole segments and
    /// estimates in ten bits.
    pub linux_rounding: bool,
    /// Seed of the controller's random choices.
    pub seed: u64,
    /// The rate of the host's own link, counting wire bytes, for controllers that [schedule
    /// departures](Controller::schedules); `None` if unknown.
    pub line: Option<Rate>,
    /// The unit of the receiver's stamps in [`Arrival`].
    pub stamp_unit: Duration,
    /// The trained model that estimates for a controller in place of its own estimator.
    pub model: Option<Arc<Model>>,
}

impl Start {
    /// An ordinary start: ten full segments of an MTU of 1500.
    pub(crate) const EXAMPLE: Start = Start {
        window: 10,
        mss: 1448,
        wire: 1538,
        paced: false,
        hystart: true,
        linux_rounding: false,
        seed: 1,
        line: None,
        stamp_unit: Duration::from_us(1),
        model: None,
    };
}

/// The recovery state of a flow: Linux's `TCP_CA_Open`, `TCP_CA_Disorder`, `TCP_CA_CWR`, `TCP_CA_Recovery`
/// and `TCP_CA_Loss`, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryState {
    /// Nothing is missing.
    #[default]
    Open,
    /// Segments are SACKed, but none is deemed lost.
    Disorder,
    /// A reduction after a mark.
    Reducing,
    /// Fast recovery: lost segments are being retransmitted.
    Recovery,
    /// Everything is being retransmitted after an RTO.
    Loss,
}

/// What an acknowledgement says about the delivery rate. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Delivered since the flow began, this acknowledgement included.
    pub delivered: u64,
    /// When the last was delivered.
    pub at: Instant,
    /// Deemed lost since the flow began, retransmissions included.
    pub lost: u64,
    /// Of those, the ones that this acknowledgement showed.
    pub losses: u32,
    /// In flight before this acknowledgement.
    pub flight_before: u32,
    /// When pacing lets the next segment leave; not before now.
    pub departure: Instant,
    /// The sample of the newest segment that this acknowledgement reports; `None` if it reports none.
    pub sample: Option<RateSample>,
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered when the sampled segment was sent.
    pub prior_delivered: u64,
    /// Segments delivered since.
    pub delivered: u64,
    /// The longer of the send interval and the ACK interval; `None` if it is shorter than the minimum RTT.
    pub interval: Option<Duration>,
    /// Whether the flow was app-limited when the segment was sent.
    pub app_limited: bool,
    /// Whether the receiver may have delayed the ACK: a single segment was in flight, and it was not full.
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

/// The state of a controller as far as the transport needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// The congestion window in segments, possibly less than one.
    pub window: f64,
    /// The slow-start threshold in segments; infinite before the first reduction.
    pub ssthresh: f64,
    /// The pacing rate, counting wire bytes; `None` leaves it to the transport.
    pub pacing_rate: Option<Rate>,
    /// The fewest segments in a burst when the transport sends bursts, as hosts with segmentation offload do
    /// (Linux's `min_tso_segs`); `None` for the transport's own minimum.
    pub min_burst: Option<u32>,
    /// Whether the controller keeps the flow below the rate of the path; delivery-rate samples of what it
    /// sends now are then app-limited.
    pub is_limiting_rate: bool,
}

impl Metrics {
    /// A window and a threshold in segments, and all else left to the transport.
    pub const fn new(window: f64, ssthresh: f64) -> Metrics {
        Metrics { window, ssthresh, pacing_rate: None, min_burst: None, is_limiting_rate: false }
    }
}

/// What a controller knows beside its window, for records of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inside {
    /// The estimated fraction of marked segments, 0 to 1; `None` for controllers that do not follow it.
    pub alpha: Option<f64>,
    /// The state of LS-AIMD; `None` with other controllers.
    pub fractional: Option<Fractional>,
    /// The one-way delay of the latest stamped packet less that of the first one (rapid F26).
    pub one_way: Option<Duration>,
}

/// A window with a fraction, and how it grows (ls-aimd 2.1, 2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fractional {
    /// The window, in bytes.
    pub window: f64,
    /// ssthresh, in bytes; infinite before the first reduction.
    pub ssthresh: f64,
    /// The increase per round trip with the scale C, in bytes.
    pub add: f64,
    /// The RTT by which departures are spaced; zero before the first sample.
    pub pace_rtt: Duration,
}

/// What a controller needs of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The transport reduces the window by PRR (RFC 6937); without it the controller's window applies at
    /// once, in recovery too. The only one that a controller has by default.
    pub prr: bool,
    /// Delivery-rate samples: the transport calls [`Controller::on_delivery`] and [`Controller::on_resume`].
    pub delivery_rate: bool,
    /// The controller decides when each packet leaves, in [`Controller::schedule`]. Such a flow has neither
    /// bursts nor other pacing.
    pub departures: bool,
    /// When the receiver saw each packet ([`Ack::arrival`]).
    pub stamps: bool,
    /// A congestion header on every segment ([`Controller::header`]), because the window or rate comes from
    /// the feedback of routers. Such a flow sends no bursts, and begins with one segment.
    pub header: bool,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs { prr: true, delivery_rate: false, departures: false, stamps: false, header: false }
    }
}

/// Decides how much a sender may send, and when.
///
/// Windows are in segments and may have a fraction. After each callback, or after the last of those that one
/// ACK causes, the transport reads [`Controller::flight_limit`]; it reads [`Controller::gap`] and
/// [`Metrics::pacing_rate`] before every departure.
///
/// # Order of callbacks
///
/// 1. [`on_open`](Controller::on_open), before anything is sent, if the handshake has measured an RTT.
/// 2. For an ACK, those that apply, in this order:
///    - [`on_undo`](Controller::on_undo) if it shows that the last reduction was spurious;
///    - [`on_ack`](Controller::on_ack), unless the ACK says nothing new;
///    - [`on_congestion`](Controller::on_congestion) if a reduction begins with it, or
///      [`on_further_losses`](Controller::on_further_losses) if losses show in a reduction that marks began;
///    - [`on_delivery`](Controller::on_delivery) after every `on_ack`, if the controller [needs
///      it](Needs::delivery_rate).
/// 3. Without an ACK: `on_congestion` or `on_further_losses` when the reordering timer declares segments
///    lost; [`on_timeout`](Controller::on_timeout) when the RTO expires, and on a later ACK `on_undo` if it
///    was spurious. If an ACK shows that a tail loss probe repaired a loss, `on_congestion` comes before
///    all of its callbacks.
/// 4. For controllers that [schedule departures](Needs::departures):
///    [`schedule`](Controller::schedule) whenever the sender has something to send, and
///    [`on_departure`](Controller::on_departure) when it has left.
/// 5. Before a segment is sent: [`on_idle`](Controller::on_idle) after an idle time longer than an RTO, then
///    [`on_resume`](Controller::on_resume) if the flow was app-limited and nothing is in flight; the latter
///    only for controllers that want delivery rates.
pub trait Controller: fmt::Debug {
    /// The connection opened at `now`; its handshake measured this RTT.
    fn on_open(&mut self, _now: Instant, _rtt: Duration) {}

    /// An ACK arrived.
    fn on_ack(&mut self, ack: &Ack);

    /// A reduction begins, at most one per round trip; afterwards [`Metrics::window`] is where it ends.
    fn on_congestion(&mut self, now: Instant, in_flight: u32, cause: Congestion);

    /// Losses show during a reduction that marks began, which has brought the window to
    /// `window` segments so far.
    fn on_further_losses(&mut self, _window: u32) {}

    /// An ACK arrived; the delivery rate after it.
    fn on_delivery(&mut self, _ack: &Ack, _delivery: &Delivery) {}

    /// The RTO expired; afterwards the window is one segment unless it is fixed.
    ///
    /// With `already_reduced` the losses belong to an episode for which ssthresh has been
    /// reduced; it then stays.
    fn on_timeout(&mut self, now: Instant, in_flight: u32, already_reduced: bool);

    /// The last reduction or timeout was spurious; window and ssthresh before it were these.
    fn on_undo(&mut self, _window: f64, _ssthresh: f64) {}

    /// The flow restarts after having been idle for `idle`, longer than its RTO `timeout`.
    fn on_idle(&mut self, _now: Instant, _idle: Duration, _timeout: Duration) {}

    /// An app-limited flow sends with nothing in flight.
    fn on_resume(&mut self, _now: Instant) {}

    /// Returns when the next packet is due; not called unless the controller [schedules
    /// departures](Needs::departures).
    ///
    /// The transport asks while it has something to send, after every event and perhaps several times for one
    /// packet; the last answer before the departure counts. Times may lie in the past: late packets follow
    /// back to back. `idle` is true in the first call after a time in which the sender had nothing to send,
    /// or no window for it.
    fn schedule(&mut self, now: Instant, _idle: bool) -> Instant {
        now
    }

    /// A packet left; not called unless the controller [schedules departures](Needs::departures).
    fn on_departure(&mut self, _departure: &Departure) {}

    /// What the transport needs to know of the controller's state.
    fn metrics(&self) -> Metrics;

    /// What a record of the run shows beside the metrics; asked for at the ends of intervals only.
    fn inside(&self) -> Option<Inside> {
        None
    }

    /// What the controller needs of the transport; it must not change.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Returns [`Metrics::window`].
    fn window(&self) -> f64 {
        self.metrics().window
    }

    /// Returns [`Metrics::ssthresh`].
    fn ssthresh(&self) -> f64 {
        self.metrics().ssthresh
    }

    /// Returns [`Metrics::pacing_rate`].
    fn pacing_rate(&self) -> Option<Rate> {
        self.metrics().pacing_rate
    }

    /// The most segments that may be in flight: the window rounded down, at least one.
    fn flight_limit(&self) -> u32 {
        (self.window() as u32).max(1)
    }

    /// The least time between two departures, whatever ACKs arrive; `None` if ACKs clock the flow.
    ///
    /// It may change with every ACK, and a pending departure then moves earlier or later. `next` is the
    /// number of the next segment to be sent for the first time.
    fn gap(&self, _next: u64) -> Option<Duration> {
        None
    }

    /// Returns the congestion header of the segment that leaves next; not called unless the controller [needs
    /// one](Needs::header).
    fn header(&mut self) -> Option<Header> {
        None
    }

    /// Bytes of memory besides the controller itself that grow with the segments in flight.
    fn memory(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    pub(super) const START: Start = Start::EXAMPLE;

    /// A start with an initial window of `window` segments.
    pub(super) fn start(window: u32) -> Start {
        Start { window, ..START }
    }

    /// An acknowledgement of `delivered` segments by a flow that is cwnd-limited.
    pub(super) fn ack(delivered: u32) -> Ack {
        Ack {
            now: Instant::ZERO,
            delivered,
            marked: 0,
            rtt: None,
            smoothed: None,
            timeout: Duration::from_ms(200),
            in_flight: 0,
            window_limited: true,
            una: 0,
            next: 0,
            reducing: false,
            state: RecoveryState::Open,
            one_way_delay: None,
            arrival: None,
            feedback: None,
        }
    }

    /// The mean window in round trips of a flow that loses one segment in every 1 / `loss` of them, over ten
    /// losses after the first 30. Every segment is acknowledged by itself, and an RTT is 100 ms.
    pub(super) fn mean_window(controller: &mut impl Controller, loss: f64) -> f64 {
        let (mut una, mut round_trips) = (0, 0.0);
        let every = (1.0 / loss).round() as u64;
        let rtt = Some(Duration::from_ms(100));
        let mut now = 0.0;
        let mut counted = (0, 0.0);
        for number in 1..=40 {
            for _ in 0..every {
                una += 1;
                round_trips += 1.0 / controller.window();
                now += 1e8 / controller.window();
                let next = una + controller.window() as u64;
                let now = Instant::from_ns(now as u64);
                let in_flight = controller.window() as u32;
                controller.on_ack(&Ack { now, rtt, smoothed: rtt, una, next, in_flight, ..ack(1) });
            }
            if number == 30 {
                counted = (una, round_trips);
            }
            controller.on_congestion(Instant::from_ns(now as u64), 0, Congestion::Loss);
        }
        (una - counted.0) as f64 / (round_trips - counted.1)
    }

    /// A delivery of one segment without a sample.
    pub(super) fn delivery() -> Delivery {
        Delivery {
            delivered: 1,
            at: Instant::ZERO,
            lost: 0,
            losses: 0,
            flight_before: 1,
            departure: Instant::ZERO,
            sample: None,
        }
    }
}
