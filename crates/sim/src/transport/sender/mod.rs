//! The sending end of a TCP flow: what may be sent when, loss recovery, timers.
//!
//! Does no I/O: the network passes in ACKs and expired timers, and then polls for segments. Sequence numbers
//! count segments.

mod burst;
mod delivery;
mod departures;
mod expected;
mod frto;
mod handshake;
pub(super) mod rack;
mod recovery;
mod report;
#[cfg(test)]
mod tests;
mod timers;
mod tlp;
mod transmit;
mod undo;

use headway_core::control::{Ack, AnyController, Congestion, Controller, Delivery, RecoveryState, Start};
use headway_core::{Duration, Instant};

use self::burst::{Bursts, CwndUsage};
use self::departures::Departures;
use self::frto::Frto;
use self::handshake::Handshake;
use self::rack::Rack;
use self::recovery::{Entry, State};
use self::report::Reported;
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
use crate::packet::{CWR, DUPLICATE, ECE, ECT, Kind, Packet, RETRANSMITTED, Report, WINDOW_PROBE};

/// Bytes of a segment on the wire besides its payload: 20 + 32 of headers with timestamps, and 38 of Ethernet.
pub(crate) const SEGMENT_OVERHEAD: u32 = 90;

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub sent: u64,
    pub resent: u64,
    pub timeouts: u64,
    pub recoveries: u64,
    pub reductions: u64,
    pub echoed: u64,
    pub undone: u64,
}

/// The sender of one flow.
#[derive(Debug)]
pub(crate) struct Sender {
    una: u64,
    next: u64,
    /// One past the last segment in the receive window.
    wnd_end: u64,
    /// One past the last segment that the application has written.
    written: u64,
    cwnd: u32,
    state: State,
    /// A reduction or recovery ends when `una` reaches this segment.
    high_seq: u64,
    owner: u32,
    route: u32,
    size: u16,
    ecn: Ecn,
    cwr: bool,
    /// The retransmission or persist timer.
    rto_timer: Timer,
    frto: Frto,
    /// When the last segment was sent (ns).
    last_sent: u64,
    rtt: Rtt,
    controller: AnyController,
    departures: Departures,
    scoreboard: Scoreboard,
    rack: Rack,
    prr: Prr,
    tlp: Tlp,
    undo: Undo,
    bursts: Bursts,
    usage: CwndUsage,
    pacer: Option<Pacer>,
    /// Whether the controller sets gaps between departures.
    sets_gaps: bool,
    /// Whether the controller's reductions follow PRR.
    uses_prr: bool,
    /// For controllers that want delivery rates.
    rates: Option<Box<Rates>>,
    application: Application,
    /// `None` once the connection is open.
    handshake: Option<Box<Handshake>>,
    counters: Counters,
    finished: Option<u64>,
}

impl Sender {
    /// Returns an idle sender on a path with an RTT of `round_trip` when empty (ns). A host opens its connection
    /// before its flow starts, or knows the RTT from the beginning if the flow starts too early for that.
    pub(crate) fn new(
        config: &TcpConfig,
        (owner, route): (u32, u32),
        seed: u64,
        round_trip: u64,
        now: u64,
    ) -> Sender {
        let wire = config.mss + SEGMENT_OVERHEAD;
        let controller = config.controller.build(&Start {
            window: config.initial_window,
            mss: config.mss,
            wire,
            paced: config.pacing,
            linux_rounding: config.whole,
            seed,
        });
        let opening = handshake::opening(config, round_trip);
        // Marking queues may drop the packets of a handshake, so with classic ECN connections are opened before
        // time zero.
        let late =
            opening > now && config.burst == Burst::Host && round_trip > 0 && config.ecn != Ecn::Classic;
        let pacer = (config.pacing || controller.pacing_rate().is_some()).then(Pacer::default);
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
            cwr: false,
            rto_timer: Timer::OFF,
            frto: Frto::default(),
            last_sent: 0,
            rtt: Rtt::new(),
            sets_gaps: controller.has_gaps(),
            uses_prr: controller.uses_prr(),
            rates: controller.wants_delivery_rate().then(|| Box::new(Rates::new())),
            controller,
            departures: Departures::new(),
            scoreboard: Scoreboard::default(),
            rack: Rack::new(),
            prr: Prr::new(1),
            tlp: Tlp::new(),
            undo: Undo::default(),
            bursts: Bursts::new(config.burst),
            usage: CwndUsage::default(),
            pacer,
            application: Application::new(config),
            handshake: late.then(|| Box::new(Handshake::new(opening))),
            counters: Counters::default(),
            finished: None,
        };
        if !late && config.burst == Burst::Host && round_trip > 0 {
            sender.init_rtt(opening.max(now), round_trip);
        }
        sender
    }

    /// The index of the route of its segments.
    #[inline]
    pub(crate) fn route(&self) -> u32 {
        self.route
    }

    #[inline]
    fn in_flight(&self) -> u64 {
        self.next - self.una - self.scoreboard.not_in_flight()
    }

    /// Takes an ACK.
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, now: u64, ack: &Packet, report: Option<&Report>) {
        if report.is_none() && self.is_expected(ack) {
            self.on_expected_ack(now, ack);
        } else {
            self.on_any_ack(now, ack, report);
        }
    }

    /// Takes an ACK that may change the state of the sender in any way.
    #[inline(never)]
    fn on_any_ack(&mut self, now: u64, ack: &Packet, report: Option<&Report>) {
        if ack.seq < self.una {
            return;
        }
        let limit = ack.seq + u64::from(report.map_or(ack.extra, |report| report.window));
        let opened = limit > self.wnd_end;
        self.wnd_end = self.wnd_end.max(limit);
        let flight = self.in_flight();
        let acked = ack.seq - self.una;
        let clean = self.scoreboard.is_clean() && report.is_none();
        let losses = self.scoreboard.losses();
        let reported = match clean {
            true => Reported {
                delivered: acked,
                rtt: self.process_in_order_ack(now, ack, acked),
                ..Reported::default()
            },
            false => self.process_sack(now, ack, report),
        };
        // A DSACK counts as delivered, too (Linux).
        let delivered = reported.delivered + u64::from(ack.has(DUPLICATE));
        if let Some(rates) = &mut self.rates {
            rates.remove_acked(acked);
        }
        self.una = ack.seq;
        self.departures.forget(ack.seq);
        if delivered == 0 && acked == 0 && !opened && clean && ack.flags & (ECE | DUPLICATE) == 0 {
            return;
        }
        if ack.has(DUPLICATE) && !self.is_tlp_ack(ack) {
            self.scoreboard.on_dsack();
        }
        self.process_tlp_ack(now, ack, flight);
        let verdict = self.check_undo(ack, acked);
        if self.state == State::Loss {
            self.process_frto(now, acked, &reported);
        }
        let look = match verdict {
            Verdict::Stands => reported.delivered > 0,
            Verdict::Undone => true,
            Verdict::Pending => false,
        };
        let lost = look && (!clean || self.state.is_repairing()) && self.detect_losses(now);
        let entry = self.change_state(ack.has(ECE), lost);
        let reducing = matches!(self.state, State::Reducing | State::Recovery);
        let in_flight = self.in_flight();
        let marked = if ack.has(ECE) { delivered } else { 0 };
        // ACKs that only SACK let the window grow only where reordering is large (Linux).
        let grows = acked > 0 || self.scoreboard.has_large_reordering();
        self.counters.echoed += marked;
        let smoothed = self.rtt.smoothed();
        let news = Ack {
            now: Instant::from_ns(now),
            delivered: delivered as u32,
            marked: marked as u32,
            rtt: reported.rtt.map(|rtt| Duration::from_ns(rtt as i64)),
            smoothed: (smoothed > 0).then(|| Duration::from_ns(smoothed as i64)),
            timeout: Duration::from_ns(self.rtt.timeout() as i64),
            in_flight: in_flight as u32,
            window_limited: self.is_window_limited(),
            una: self.una,
            next: self.next,
            reducing: reducing || !grows,
        };
        self.controller.on_ack(&news);
        self.begin_reduction(now, flight, entry);
        if self.rates.is_some() {
            self.deliver(&news, flight, losses);
        }
        let limit = self.controller.flight_limit();
        if !reducing || !self.uses_prr {
            self.cwnd = limit;
        } else if delivered > 0 {
            self.cwnd = self.prr.window(delivered, in_flight, limit.into(), acked > 0 && !lost);
        }
        self.set_timer(now, acked > 0);
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

    pub(crate) fn pacing(&self) -> Option<headway_core::Rate> {
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
            + self.rates.as_ref().map_or(0, |rates| rates.memory())
    }
}
