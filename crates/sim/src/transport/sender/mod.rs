//! The sending end of a TCP flow: what may be sent when, loss recovery, timers.
//!
//! Does no I/O: the network passes in ACKs and expired timers, and then polls for segments. Sequence numbers
//! count segments.

mod ack;
mod burst;
mod delivery;
mod departures;
mod frto;
mod handshake;
pub(super) mod rack;
mod recovery;
mod report;
mod slot;
#[cfg(test)]
mod tests;
mod timers;
mod tlp;
mod transmit;
mod undo;

use headway_control::{
    Ack, AnyController, Arrival, Congestion, Controller, Delivery, Feedback, Inside, RecoveryState, Start,
};
use headway_units::{Duration, Instant, Rate};

use self::burst::{Bursts, CwndUsage};
use self::departures::Departures;
use self::frto::Frto;
use self::handshake::Handshake;
use self::rack::Rack;
use self::recovery::{Entry, State};
use self::report::Reported;
use self::slot::Slot;
use self::tlp::Tlp;
use self::undo::{Undo, Verdict};
use super::application::Application;
use super::pacer::{Pace, Pacer};
use super::prr::Prr;
use super::rates::Rates;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::ticks::Timer;
use crate::config::{Burst, Ecn, TcpConfig};
use crate::packet::{CWR, DUPLICATE, ECE, ECT, ECT1, Kind, Packet, RETRANSMITTED, Report, WINDOW_PROBE};

/// Bytes of a segment on the wire besides its payload: 20 + 32 of headers with
/// timestamps, and 38 of Ethernet.
pub(crate) const SEGMENT_OVERHEAD: u32 = 90;

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub sent: u64,
    pub retransmitted: u64,
    pub timeouts: u64,
    pub recoveries: u64,
    pub reductions: u64,
    pub echoed: u64,
    pub undone: u64,
}

/// The sender of one flow.
///
/// The fields are in the order of use: those that every ACK and segment reads come first and share few cache
/// lines, so that many flows fit into the cache. State that most flows never need is boxed.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Sender {
    una: u64,
    next: u64,
    /// One past the last segment in the receive window.
    wnd_end: u64,
    /// One past the last segment that the application has written.
    written: u64,
    /// When the last segment was sent (ns).
    last_sent: u64,
    cwnd: u32,
    owner: u32,
    route: u32,
    size: u16,
    state: State,
    ecn: Ecn,
    /// The flags of ECN-capable segments.
    ect: u8,
    cwr: bool,
    /// Whether the controller sets gaps between departures, or schedules them.
    sets_gaps: bool,
    /// Whether the controller's reductions follow PRR.
    uses_prr: bool,
    pacer: Option<Box<Pacer>>,
    /// For controllers that schedule departures, and segments whose pace the host's line keeps.
    slot: Option<Box<Slot>>,
    /// Whether every ACK tells the controller which segment caused it, and when that arrived.
    wants_stamps: bool,
    /// Whether segments have congestion headers, and ACKs return feedback.
    is_explicit: bool,
    /// Whether segments leave one by one.
    one_by_one: bool,
    rtt: Rtt,
    rack: Rack,
    usage: CwndUsage,
    tlp: Tlp,
    /// For controllers that want delivery rates.
    rates: Option<Box<Rates>>,
    /// The retransmission or persist timer.
    rto_timer: Timer,
    departures: Departures,
    frto: Frto,
    bursts: Bursts,
    /// A reduction or recovery ends when `una` reaches this segment.
    high_seq: u64,
    controller: AnyController,
    scoreboard: Scoreboard,
    application: Application,
    counters: Counters,
    finished: Option<u64>,
    prr: Prr,
    undo: Undo,
    /// `None` once the connection is open.
    handshake: Option<Box<Handshake>>,
}

/// Returns what a controller learns at the start of a flow.
fn start_of(config: &TcpConfig, seed: u64) -> Start {
    Start {
        window: config.initial_window,
        mss: config.mss,
        wire: config.mss + SEGMENT_OVERHEAD + config.header_bytes(),
        paced: config.pacing,
        hystart: config.hystart,
        linux_rounding: config.linux_rounding,
        seed,
        line: config.line.map(|line| line.rate),
        stamp_unit: config.stamp.unit(),
        model: config.model.clone(),
    }
}

impl Sender {
    /// Returns an idle sender on a path with an RTT of `round_trip` when empty (ns). A host opens
    /// its connection before its flow starts, or knows the RTT from the beginning if the flow
    /// starts too early for that.
    pub(crate) fn new(
        config: &TcpConfig,
        (owner, route): (u32, u32),
        seed: u64,
        round_trip: u64,
        now: u64,
    ) -> Sender {
        let wire = config.mss + SEGMENT_OVERHEAD + config.header_bytes();
        let controller = config.controller.build(&start_of(config, seed));
        let opening = handshake::opening(config, round_trip);
        // Marking queues may drop the packets of a handshake, so with classic ECN connections are
        // opened before time zero.
        let opens = config.burst == Burst::Host || config.completes_handshake();
        let early = opening > now && opens && config.ecn != Ecn::Classic;
        let late = round_trip > 0 && (early || config.meets_middlebox());
        let needs = controller.needs();
        let paced = !needs.departures && (config.pacing || controller.pacing_rate().is_some());
        let by_line = paced && config.paced_by_line && config.line.is_some();
        let slot = (needs.departures || by_line).then(|| Box::new(Slot::new(by_line)));
        let mut sender = Sender {
            una: 0,
            next: 0,
            wnd_end: (config.receive_buffer.get() / u64::from(config.mss)).max(1),
            written: 0,
            cwnd: controller.flight_limit(),
            state: State::Open,
            high_seq: 0,
            owner,
            route,
            size: wire as u16,
            ecn: config.ecn,
            ect: if config.ect1 { ECT | ECT1 } else { ECT },
            cwr: false,
            rto_timer: Timer::OFF,
            frto: Frto::default(),
            last_sent: 0,
            rtt: Rtt::new(),
            sets_gaps: controller.has_gaps() || slot.is_some(),
            uses_prr: needs.prr,
            rates: needs.delivery_rate.then(|| Box::new(Rates::new())),
            controller,
            departures: Departures::new(),
            scoreboard: Scoreboard::default(),
            rack: Rack::new(),
            prr: Prr::new(1, !config.prr),
            tlp: Tlp::new(),
            undo: Undo::default(),
            bursts: Bursts::new(
                if needs.header || by_line { Burst::Single } else { config.burst },
                config.initial_window,
            ),
            usage: CwndUsage::default(),
            pacer: paced.then(Box::default),
            one_by_one: slot.is_some() || needs.header,
            slot,
            wants_stamps: needs.stamps,
            is_explicit: needs.header,
            application: Application::new(config),
            handshake: late.then(|| Box::new(Handshake::new(opening.max(now)))),
            counters: Counters::default(),
            finished: None,
        };
        if !late && config.burst == Burst::Host && round_trip > 0 {
            sender.init_rtt(opening.max(now), round_trip);
        }
        sender
    }

    /// Replaces a controller with congestion headers by another one with them.
    pub(crate) fn change_controller(&mut self, config: &TcpConfig, seed: u64) {
        debug_assert!(self.is_explicit && config.controller.is_explicit());
        self.controller = config.controller.build(&start_of(config, seed));
        self.sets_gaps = self.controller.has_gaps();
        self.cwnd = self.controller.flight_limit();
    }

    /// The index of the route of its segments.
    pub(crate) fn route(&self) -> u32 {
        self.route
    }

    fn in_flight(&self) -> u64 {
        self.next - self.una - self.scoreboard.not_in_flight()
    }

    fn in_slow_start(&self) -> bool {
        self.controller.window() < self.controller.ssthresh()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn reset(&mut self) {
        self.counters = Counters::default();
    }

    pub(crate) fn cwnd(&self) -> u32 {
        self.cwnd
    }

    pub(crate) fn window(&self) -> f64 {
        self.controller.window()
    }

    pub(crate) fn ssthresh(&self) -> f64 {
        self.controller.ssthresh()
    }

    pub(crate) fn inside(&self) -> Option<Inside> {
        self.controller.inside()
    }

    pub(crate) fn pacing(&self) -> Option<Rate> {
        self.controller.pacing_rate()
    }

    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// When its application starts (ns).
    pub(crate) fn start(&self) -> u64 {
        self.application.start()
    }

    /// When the whole flow was acknowledged (ns).
    pub(crate) fn finished(&self) -> Option<u64> {
        self.finished
    }

    /// Whether the first `segments` segments are the whole flow, as far as its host knows at `now` (ns).
    pub(crate) fn is_whole(&self, now: u64, segments: u64) -> bool {
        let stopped =
            self.application.has_stopped(now) && self.application.written(now, self.next) == self.next;
        self.application.is_finished(segments) || stopped && segments >= self.next
    }

    /// Bytes of `segments` full segments from the first on that are not payload, because the last segment is
    /// short.
    pub(crate) fn shortfall(&self, segments: u64) -> u64 {
        if segments > self.application.last() {
            u64::from(self.size - self.application.last_size())
        } else {
            0
        }
    }

    pub(crate) fn memory(&self) -> usize {
        size_of::<Sender>()
            + self.scoreboard.memory()
            + self.departures.memory()
            + self.pacer.as_ref().map_or(0, |_| size_of::<Pacer>())
            + self.rates.as_ref().map_or(0, |rates| rates.memory())
            + self.slot.as_ref().map_or(0, |_| size_of::<Slot>() + self.controller.memory())
    }
}
