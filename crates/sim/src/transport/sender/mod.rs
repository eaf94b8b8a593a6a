//! The sending end of a TCP flow: what may be sent when, loss recovery, timers.
//!
//! Without I/O: the network hands in acknowledgements and expired timers, and then polls for segments. Sequence numbers count
//! segments.

mod burst;
mod delivery;
mod tail;
#[cfg(test)]
mod tests;
mod timers;
mod undo;

use headway_core::control::{Ack, AnyController, Congestion, Controller, Delivery, Standing, Start};
use headway_core::{Duration, Instant};

use self::burst::{Bursts, Usage};
use self::tail::Tail;
use self::undo::Undo;
use super::application::Application;
use super::pacer::{Pace, Pacer};
use super::rates::Rates;
use super::reduction::Reduction;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use crate::config::{Burst, Ecn, TcpConfig};
use crate::packet::{CWR, ECE, ECT, Kind, Packet, RETRANSMITTED, Report, WINDOW_PROBE};

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
    /// When the retransmission or persist timer expires (ns).
    deadline: u64,
    /// The first segment not acknowledged at the last timeout.
    restarted: u64,
    /// When the newest reported segment was sent, and when the last segment was.
    newest: u64,
    last_sent: u64,
    rtt: Rtt,
    controller: AnyController,
    scoreboard: Scoreboard,
    reduction: Reduction,
    tail: Tail,
    undo: Undo,
    bursts: Bursts,
    usage: Usage,
    pacer: Option<Pacer>,
    /// For controllers that own their window.
    rates: Option<Box<Rates>>,
    application: Application,
    counters: Counters,
    finished: Option<u64>,
}

impl Sender {
    /// A sender with nothing under way. A host's connection has been opened before, from which it knows the `round_trip` time
    /// of an empty path (ns).
    pub(crate) fn new(config: &TcpConfig, owner: u32, route: u32, seed: u64, round_trip: u64) -> Sender {
        let wire = config.mss + SEGMENT_OVERHEAD;
        let start = Start { window: config.initial_window, mss: config.mss, wire, seed };
        let mut controller = config.controller.build(&start);
        controller.set_paced(config.pacing);
        controller.set_whole(config.whole);
        let mut rtt = Rtt::new();
        if config.burst == Burst::Host && round_trip > 0 {
            rtt.measured(round_trip);
            controller.on_open(Duration::from_ns(round_trip as i64));
        }
        let pacer = (config.pacing || controller.pacing_rate().is_some()).then(Pacer::default);
        Sender {
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
            deadline: u64::MAX,
            restarted: 0,
            newest: 0,
            last_sent: 0,
            rtt,
            rates: controller.owns_window().then(|| Box::new(Rates::new())),
            controller,
            scoreboard: Scoreboard::default(),
            reduction: Reduction::default(),
            tail: Tail::new(),
            undo: Undo::default(),
            bursts: Bursts::new(config.burst),
            usage: Usage::default(),
            pacer,
            application: Application::new(config),
            counters: Counters::default(),
            finished: None,
        }
    }

    #[inline]
    fn in_flight(&self) -> u64 {
        self.next - self.una - self.scoreboard.absent()
    }

    /// The next segment that may leave now; call until there is none.
    #[inline]
    pub(crate) fn poll(&mut self, now: u64) -> Option<Packet> {
        let in_flight = self.in_flight();
        if in_flight >= u64::from(self.cwnd) {
            return self.pause(true);
        }
        let lost = self.scoreboard.next_lost();
        let within = self.bursts.is_within(lost);
        if !within && self.pacer.as_ref().is_some_and(|pacer| pacer.blocked(now)) {
            self.look_for_data(now);
            return self.pause(false);
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
            return self.pause(false);
        }
        if held {
            return self.pause(true);
        }
        let seq = self.next;
        if seq == self.una && seq > 0 {
            self.restart(now);
        }
        if !within && let Some(limited) = self.begin_burst(now, in_flight) {
            return self.pause(limited);
        }
        self.bursts.sent();
        self.note(now, seq, in_flight == 0);
        self.next += 1;
        let flags = if std::mem::take(&mut self.cwr) { CWR } else { 0 };
        let segment = self.segment(now, seq, flags, !within);
        self.arm_probe(now);
        Some(segment)
    }

    /// Sends a lost segment again, the `first` of a burst or not.
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
            self.deadline = now + self.rtt.timeout();
        }
        self.segment(now, seq, RETRANSMITTED, first)
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

    #[inline]
    fn segment(&mut self, now: u64, seq: u64, flags: u8, first: bool) -> Packet {
        self.counters.sent += 1;
        self.last_sent = now;
        self.usage.sent();
        if self.state != State::Open {
            self.reduction.sent();
        }
        if self.deadline == u64::MAX {
            self.deadline = now + self.rtt.timeout();
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
        let delivered = if clean { acked } else { self.update_scoreboard(ack, report) };
        if let Some(rates) = &mut self.rates {
            if clean && acked > 0 {
                rates.reported(acked - 1);
            }
            rates.forget(acked);
        }
        self.una = ack.seq;
        let mut rtt = None;
        if delivered > 0 {
            self.newest = self.newest.max(ack.sent);
            let sample = now - ack.sent;
            if !ack.has(RETRANSMITTED) {
                self.rtt.measured(sample);
                rtt = Some(Duration::from_ns(sample as i64));
            } else if acked > 0 {
                // The timestamp tells the copies apart (RFC 6298 3), so the back-off of the timer ends here.
                self.rtt.measured(sample);
            }
        } else if acked == 0 && !opened && clean && !ack.has(ECE) {
            return;
        }
        self.judge_probe(now, ack, flight);
        self.consider_undo(ack, acked);
        let lost = !clean && self.detect(now, self.answers_probe(ack));
        let entry = self.change_state(ack.has(ECE));
        let reducing = matches!(self.state, State::Reducing | State::Recovery);
        let in_flight = self.in_flight();
        let marked = if ack.has(ECE) { delivered } else { 0 };
        self.counters.echoed += marked;
        let news = Ack {
            now: Instant::from_ns(now),
            delivered: delivered as u32,
            acked: acked as u32,
            marked: marked as u32,
            rtt,
            timeout: Duration::from_ns(self.rtt.timeout() as i64),
            in_flight: in_flight as u32,
            window_limited: self.is_window_limited(),
            una: self.una,
            next: self.next,
            reducing,
        };
        self.controller.on_ack(&news);
        if self.rates.is_some() {
            self.begin(now, flight, entry);
            self.deliver(&news, flight, losses);
        } else if reducing {
            self.begin(now, flight, entry);
            let target = u64::from(self.controller.flight_limit());
            self.cwnd = self.reduction.window(delivered, in_flight, target, acked > 0 && !lost);
        } else {
            self.cwnd = self.controller.flight_limit();
        }
        self.set_timer(now, acked > 0);
    }

    fn in_slow_start(&self) -> bool {
        self.controller.window() < self.controller.ssthresh()
    }

    #[cold]
    fn update_scoreboard(&mut self, ack: &Packet, report: Option<&Report>) -> u64 {
        self.scoreboard.caused_by(ack.sent, ack.has(RETRANSMITTED));
        let (una, ack) = (self.una, ack.seq);
        let rates = &mut self.rates;
        let mut fresh = |segment: u64| {
            if let Some(rates) = rates {
                rates.reported(segment - una);
            }
        };
        let mut delivered = self.scoreboard.acknowledge(una, ack, &mut fresh);
        for (from, to) in report.iter().flat_map(|report| report.blocks).filter(|block| block.1 > 0) {
            delivered += self.scoreboard.sack(ack + u64::from(from)..ack + u64::from(to), &mut fresh);
        }
        delivered
    }

    /// Looks for losses; without patience when a probe of the tail is answered, which left long after everything else.
    fn detect(&mut self, now: u64, probed: bool) -> bool {
        let recovering = probed || matches!(self.state, State::Recovery | State::Loss);
        // RFC 8985 6.2: quarters of the smallest round-trip time, at most the smoothed one.
        let quarters = self.scoreboard.quarters(self.una, self.next);
        let wait = (self.rtt.min() / 4).saturating_mul(quarters).min(self.rtt.smoothed());
        let wait = if probed { 0 } else { wait };
        let old = self.bursts.left_before(self.newest.saturating_sub(wait));
        self.scoreboard.detect(now, self.una, (self.newest, old), recovering, wait)
    }

    /// Leaves recovery when it is over, and enters it when there is a reason.
    #[inline]
    fn change_state(&mut self, echo: bool) -> Entry {
        let over = match self.state {
            State::Open => false,
            // Until something sent after it is acknowledged, so that the word of it has reached the receiver (Linux).
            State::Reducing => self.una > self.high,
            State::Recovery | State::Loss => self.una >= self.high,
        };
        let before = if over { State::Open } else { self.state };
        self.state = match before {
            State::Open | State::Reducing if self.scoreboard.has_lost() => State::Recovery,
            State::Open if echo && self.ecn != Ecn::Off => State::Reducing,
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
            self.scoreboard.recover();
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
        self.reduction = Reduction::new(self.cwnd);
        self.controller.on_congestion(Instant::from_ns(now), flight as u32, cause);
        if matches!(self.controller, AnyController::FixedWindow(_) | AnyController::FixedRate(_)) {
            self.reduction = Reduction::none();
        }
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
            + self.bursts.memory()
            + self.rates.as_ref().map_or(0, |rates| rates.memory())
    }
}
