//! The sending end of a TCP flow: what may be sent when, loss recovery, timers.
//!
//! Without I/O: the network hands in acknowledgements and expired timers, and then polls for segments. Sequence numbers count
//! segments.

mod burst;
mod delivery;
mod departures;
mod frto;
mod handshake;
pub(super) mod rack;
mod report;
mod tail;
#[cfg(test)]
mod tests;
mod timers;
mod undo;

use headway_core::control::{Ack, AnyController, Congestion, Controller, Delivery, RecoveryState, Start};
use headway_core::{Duration, Instant};

use self::burst::{Bursts, Usage};
use self::departures::Departures;
use self::frto::Timeout;
use self::handshake::Handshake;
use self::rack::Rack;
use self::report::News;
use self::tail::Tail;
use self::undo::{Undo, Verdict};
use super::application::Application;
use super::pacer::{Pace, Pacer};
use super::rates::Rates;
use super::reduction::Reduction;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::ticks::Timer;
use crate::config::{Burst, Ecn, TcpConfig};
use crate::packet::{CWR, DUPLICATE, ECE, ECT, Kind, Packet, RETRANSMITTED, Report, WINDOW_PROBE};

/// Bytes of a segment on the wire besides its payload: 20 + 32 of headers with timestamps, and 38 of Ethernet.
pub(crate) const SEGMENT_OVERHEAD: u32 = 90;

/// Which rules the window follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The controller's.
    Open,
    /// A reduction after a mark.
    Reducing,
    /// A reduction after a loss, with retransmissions.
    Recovery,
    /// Everything is sent again after a timeout.
    Loss,
}

impl State {
    /// Whether losses are being repaired.
    #[inline]
    fn recovers(self) -> bool {
        matches!(self, State::Recovery | State::Loss)
    }
}

/// How a reduction was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// It was not.
    None,
    /// The first reduction of this round trip.
    New,
    /// Losses showed during a reduction after a mark.
    Deeper,
}

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
    /// One past the last segment the receiver has room for.
    limit: u64,
    /// One past the last segment the application has written.
    written: u64,
    cwnd: u32,
    state: State,
    /// A reduction or recovery ends when this segment is reached.
    high: u64,
    owner: u32,
    route: u32,
    size: u16,
    ecn: Ecn,
    cwr: bool,
    /// The retransmission or persist timer.
    deadline: Timer,
    timeout: Timeout,
    /// When the last segment was sent (ns).
    last_sent: u64,
    rtt: Rtt,
    controller: AnyController,
    departures: Departures,
    scoreboard: Scoreboard,
    rack: Rack,
    reduction: Reduction,
    tail: Tail,
    undo: Undo,
    bursts: Bursts,
    usage: Usage,
    pacer: Option<Pacer>,
    /// Whether reductions are proportional, as the controller says.
    uses_prr: bool,
    /// For controllers that want the delivery rate.
    rates: Option<Box<Rates>>,
    application: Application,
    /// Absent when the connection is open.
    handshake: Option<Box<Handshake>>,
    counters: Counters,
    finished: Option<u64>,
}

impl Sender {
    /// A sender with nothing under way, over a path that takes `round_trip` when it is empty (ns). A host's connection is opened before
    /// its flow starts, unless there is no time for that.
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
        // Queues that mark may drop the packets of a handshake, so connections with classic ECN are opened before time zero.
        let late =
            opening > now && config.burst == Burst::Host && round_trip > 0 && config.ecn != Ecn::Classic;
        let pacer = (config.pacing || controller.pacing_rate().is_some()).then(Pacer::default);
        let mut sender = Sender {
            una: 0,
            next: 0,
            limit: (config.receive_buffer.get() / u64::from(config.mss)).max(1),
            written: 0,
            cwnd: controller.flight_limit(),
            state: State::Open,
            high: 0,
            owner,
            route,
            size: wire as u16,
            ecn: config.ecn,
            cwr: false,
            deadline: Timer::OFF,
            timeout: Timeout::default(),
            last_sent: 0,
            rtt: Rtt::new(),
            uses_prr: controller.uses_prr(),
            rates: controller.wants_delivery_rate().then(|| Box::new(Rates::new())),
            controller,
            departures: Departures::default(),
            scoreboard: Scoreboard::default(),
            rack: Rack::new(),
            reduction: Reduction::new(1),
            tail: Tail::new(),
            undo: Undo::default(),
            bursts: Bursts::new(config.burst),
            usage: Usage::default(),
            pacer,
            application: Application::new(config),
            handshake: late.then(|| Box::new(Handshake::new(opening))),
            counters: Counters::default(),
            finished: None,
        };
        if !late && config.burst == Burst::Host && round_trip > 0 {
            sender.know_round_trip(opening.max(now), round_trip);
        }
        sender
    }

    #[inline]
    fn in_flight(&self) -> u64 {
        self.next - self.una - self.scoreboard.absent()
    }

    /// The next segment that may leave now; call until there is none.
    #[inline(always)]
    pub(crate) fn poll(&mut self, now: u64) -> Option<Packet> {
        let packet = self.next_packet(now);
        if packet.is_none() && self.timeout.falls_back(self.next, self.high) {
            return self.next_packet_after_all(now);
        }
        packet
    }

    #[cold]
    fn next_packet_after_all(&mut self, now: u64) -> Option<Packet> {
        self.next_packet(now)
    }

    #[inline(always)]
    fn next_packet(&mut self, now: u64) -> Option<Packet> {
        let in_flight = self.in_flight();
        if in_flight >= u64::from(self.cwnd) {
            return self.pause(now, true);
        }
        let lost = if self.timeout.sends_new_data() { None } else { self.scoreboard.next_lost() };
        let within = self.bursts.is_within(lost);
        if !within && self.pacer.as_ref().is_some_and(|pacer| pacer.blocked(now)) {
            self.look_for_data(now);
            return self.pause(now, false);
        }
        let held = !within && self.clock() > now;
        if !held && let Some(seq) = lost.filter(|_| self.bursts.may_resend()) {
            return Some(self.resend(now, seq, in_flight, !within));
        }
        if self.next == self.written {
            self.write(now);
        }
        if self.next >= self.written.min(self.limit) {
            self.bursts.end();
            self.look_for_data(now);
            return self.pause(now, false);
        }
        if held {
            return self.pause(now, true);
        }
        let seq = self.next;
        if seq == self.una && seq > 0 {
            self.restart(now);
        }
        if !within && let Some(limited) = self.begin_burst(now, in_flight) {
            return self.pause(now, limited);
        }
        self.bursts.sent();
        self.note(now, seq, in_flight == 0);
        self.next += 1;
        let flags = if std::mem::take(&mut self.cwr) { CWR } else { 0 };
        Some(self.segment(now, seq, flags, !within))
    }

    /// Sends a lost segment again, the `first` of a burst or not.
    #[inline(never)]
    fn resend(&mut self, now: u64, seq: u64, in_flight: u64, first: bool) -> Packet {
        if first {
            self.begin_resending(seq);
        }
        self.bursts.resent();
        self.scoreboard.resend(now, seq);
        self.counters.resent += 1;
        self.note(now, seq, in_flight == 0);
        self.undo.resent(now);
        if seq == self.una {
            self.deadline = Timer::new(now, self.rtt.timeout());
        }
        self.repeat(now, seq, RETRANSMITTED, first)
    }

    /// A segment that is not sent for the first time, or carries nothing. With classic ECN no queue may mark it: the mark would be taken for
    /// one of the first copy's way, or go unanswered when it is dropped (RFC 3168 6.1.5, 6.1.6).
    fn repeat(&mut self, now: u64, seq: u64, flag: u8, first: bool) -> Packet {
        let mut packet = self.segment(now, seq, flag, first);
        if self.ecn == Ecn::Classic {
            packet.flags &= !ECT;
        }
        packet
    }

    #[inline]
    fn has_window(&self) -> bool {
        self.in_flight() < u64::from(self.cwnd)
    }

    /// When the controller lets the next segment leave (ns), zero if acknowledgements decide. It counts from the last departure, and
    /// is asked for anew at every event, so that the pending departure moves with what acknowledgements tell (ls-aimd 2.4).
    #[inline]
    fn clock(&self) -> u64 {
        self.controller.gap(self.next).map_or(0, |gap| self.last_sent + gap.ns().unsigned_abs())
    }

    /// Asks the application for more to send.
    fn write(&mut self, now: u64) {
        self.written = self.application.written(now, self.next);
        let in_flight = self.in_flight();
        if let Some(rates) = &mut self.rates
            && self.written > self.next
        {
            rates.fed(in_flight);
        }
    }

    /// A flow that was idle may have to begin again with a smaller window (RFC 2861).
    fn restart(&mut self, now: u64) {
        let idle = now - self.last_sent;
        let timeout = self.rtt.timeout();
        if idle > timeout {
            let (idle, timeout) = (Duration::from_ns(idle as i64), Duration::from_ns(timeout as i64));
            self.controller.on_idle(Instant::from_ns(now), idle, timeout);
            self.cwnd = self.controller.flight_limit();
        }
    }

    #[inline(always)]
    fn segment(&mut self, now: u64, seq: u64, flags: u8, first: bool) -> Packet {
        self.counters.sent += 1;
        self.last_sent = now;
        self.usage.sent();
        if self.state != State::Open {
            self.reduction.sent();
        }
        if self.deadline.is_off() {
            self.deadline = Timer::new(now, self.rtt.timeout());
        }
        let size = if seq == self.application.last() { self.application.last_size() } else { self.size };
        if self.pacer.is_some() {
            self.pace(now, size, first);
        }
        let ect = if self.ecn == Ecn::Off { 0 } else { ECT };
        Packet {
            sent: now,
            seq,
            owner: self.owner,
            route: self.route,
            size,
            kind: Kind::Segment,
            flags: flags | ect,
            at: 0,
            extra: 0,
            joined: 0,
        }
    }

    /// An acknowledgement arrived.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: u64, ack: &Packet, report: Option<&Report>) {
        if ack.seq < self.una {
            return;
        }
        let limit = ack.seq + u64::from(report.map_or(ack.extra, |report| report.window));
        let opened = limit > self.limit;
        self.limit = self.limit.max(limit);
        let flight = self.in_flight();
        let acked = ack.seq - self.una;
        let clean = self.scoreboard.is_clean() && report.is_none();
        let losses = self.scoreboard.losses();
        let reported = match clean {
            true => News { delivered: acked, rtt: self.take_in_order(now, ack, acked), ..News::default() },
            false => self.take_report(now, ack, report),
        };
        // What has come twice is delivered, too (Linux).
        let delivered = reported.delivered + u64::from(ack.has(DUPLICATE));
        if let Some(rates) = &mut self.rates {
            rates.forget(acked);
        }
        self.una = ack.seq;
        self.departures.forget(ack.seq);
        if delivered == 0 && acked == 0 && !opened && clean && ack.flags & (ECE | DUPLICATE) == 0 {
            return;
        }
        if ack.has(DUPLICATE) && !self.answers_probe(ack) {
            self.scoreboard.resent_in_vain();
        }
        self.judge_probe(now, ack, flight);
        let verdict = self.consider_undo(ack, acked);
        if self.state == State::Loss {
            self.judge_timeout(now, acked, &reported);
        }
        let look = match verdict {
            Verdict::Stands => reported.delivered > 0,
            Verdict::Undone => true,
            Verdict::Awaited => false,
        };
        let lost = look && (!clean || self.state.recovers()) && self.detect(now);
        let entry = self.change_state(ack.has(ECE), lost);
        let reducing = matches!(self.state, State::Reducing | State::Recovery);
        let in_flight = self.in_flight();
        let marked = if ack.has(ECE) { delivered } else { 0 };
        // Segments out of order make a window grow only where they come late, not instead of others (Linux).
        let grows = acked > 0 || self.scoreboard.is_reordered_far();
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
        self.begin(now, flight, entry);
        if self.rates.is_some() {
            self.deliver(&news, flight, losses);
        }
        let limit = self.controller.flight_limit();
        if !reducing || !self.uses_prr {
            self.cwnd = limit;
        } else if delivered > 0 {
            self.cwnd = self.reduction.window(delivered, in_flight, limit.into(), acked > 0 && !lost);
        }
        self.set_timer(now, acked > 0);
    }

    fn in_slow_start(&self) -> bool {
        self.controller.window() < self.controller.ssthresh()
    }

    /// Leaves recovery when it is over, and enters it when there is a reason: an echo, or segments found `lost`.
    #[inline]
    fn change_state(&mut self, echo: bool, lost: bool) -> Entry {
        let over = match self.state {
            State::Open => false,
            // Until something sent after it is acknowledged, so that the word of it has reached the receiver (Linux).
            State::Reducing => self.una > self.high,
            State::Recovery | State::Loss => self.una >= self.high,
        };
        if over && self.state.recovers() {
            self.scoreboard.recovered();
        }
        let before = if over { State::Open } else { self.state };
        self.state = match before {
            State::Open | State::Reducing if self.scoreboard.has_lost() => State::Recovery,
            State::Open if echo && self.ecn != Ecn::Off => State::Reducing,
            // What is sent again after a timeout is lost, too: the path has become worse, and the window is reduced once more (Linux).
            State::Loss if lost && self.rack.lost_again => State::Recovery,
            _ => before,
        };
        match before {
            _ if before == self.state => Entry::None,
            State::Reducing => Entry::Deeper,
            _ => Entry::New,
        }
    }

    /// Begins a reduction; one that was under way because of marks goes on with retransmissions.
    #[inline]
    fn begin(&mut self, now: u64, flight: u64, entry: Entry) {
        if entry == Entry::None {
            return;
        }
        self.high = self.next;
        self.tail.end();
        if self.state == State::Recovery {
            self.counters.recoveries += 1;
        }
        if entry == Entry::Deeper {
            // Marks had demanded the reduction anyway.
            self.undo = Undo::default();
            self.controller.on_further_losses(self.cwnd);
            return;
        }
        let marked = self.state != State::Recovery;
        self.undo.begin(&self.controller, marked, self.scoreboard.resent());
        self.counters.reductions += 1;
        let cause = if self.state == State::Recovery { Congestion::Loss } else { Congestion::Mark };
        // A recovery that ends with this acknowledgement has come to its target before.
        self.reduction = Reduction::new(self.controller.flight_limit());
        self.controller.on_congestion(Instant::from_ns(now), flight as u32, cause);
        self.cwr = self.ecn != Ecn::Off;
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

    /// When its application begins (ns).
    pub(crate) fn start(&self) -> u64 {
        self.application.start()
    }

    /// When everything had been acknowledged (ns).
    pub(crate) fn finished(&self) -> Option<u64> {
        self.finished
    }

    /// What of `segments` full segments from the first on is no payload, because the last segment is short (bytes).
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
