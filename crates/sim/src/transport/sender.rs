//! The sending end of a TCP flow: what may be sent when, loss recovery, timers.
//!
//! Without I/O: the network hands in acknowledgements and expired timers, and then polls for segments. Sequence numbers count
//! segments.

use headway_core::control::{Ack, AnyController, Congestion, Controller};
use headway_core::{Duration, Instant};

use super::application::Application;
use super::pacer::Pacer;
use super::reduction::Reduction;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use crate::config::{Ecn, TcpConfig};
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
    /// When the newest reported segment was sent, and when the last segment was.
    newest: u64,
    last_sent: u64,
    rtt: Rtt,
    controller: AnyController,
    scoreboard: Scoreboard,
    reduction: Reduction,
    pacer: Option<Pacer>,
    application: Application,
    counters: Counters,
    finished: Option<u64>,
}

impl Sender {
    pub(crate) fn new(config: &TcpConfig, owner: u32, route: u32) -> Sender {
        let mut controller = config.controller.build(config.initial_window);
        controller.set_paced(config.pacing);
        let pacer = (config.pacing || controller.pacing_rate().is_some()).then(Pacer::default);
        Sender {
            una: 0,
            next: 0,
            limit: (config.receive_buffer.get() / u64::from(config.mss)).max(1),
            written: 0,
            cwnd: whole(controller.window()),
            state: State::Open,
            high: 0,
            owner,
            route,
            size: (config.mss + SEGMENT_OVERHEAD) as u16,
            ecn: config.ecn,
            cwr: false,
            deadline: u64::MAX,
            newest: 0,
            last_sent: 0,
            rtt: Rtt::new(),
            controller,
            scoreboard: Scoreboard::default(),
            reduction: Reduction::default(),
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
        if !self.has_window() || self.pacer.as_ref().is_some_and(|pacer| pacer.blocked(now)) {
            return None;
        }
        if self.scoreboard.must_resend()
            && let Some(seq) = self.scoreboard.resend(now)
        {
            self.counters.resent += 1;
            if seq == self.una {
                self.deadline = now + self.rtt.timeout();
            }
            return Some(self.segment(now, seq, RETRANSMITTED));
        }
        if self.next == self.written {
            self.write(now);
        }
        if self.next >= self.written.min(self.limit) {
            return None;
        }
        let seq = self.next;
        if seq == self.una && seq > 0 {
            self.restart(now);
        }
        self.next += 1;
        let flags = if std::mem::take(&mut self.cwr) { CWR } else { 0 };
        Some(self.segment(now, seq, flags))
    }

    #[inline]
    fn has_window(&self) -> bool {
        self.in_flight() < u64::from(self.cwnd)
    }

    /// Asks the application for more to send.
    fn write(&mut self, now: u64) {
        self.written = self.application.written(now, self.next);
    }

    /// A flow that was idle may have to begin again with a smaller window (RFC 2861).
    fn restart(&mut self, now: u64) {
        let idle = now - self.last_sent;
        let timeout = self.rtt.timeout();
        if idle > timeout {
            let (idle, timeout) = (Duration::from_ns(idle as i64), Duration::from_ns(timeout as i64));
            self.controller.on_idle(Instant::from_ns(now), idle, timeout);
            self.cwnd = whole(self.controller.window());
        }
    }

    #[inline]
    fn segment(&mut self, now: u64, seq: u64, flags: u8) -> Packet {
        self.counters.sent += 1;
        self.last_sent = now;
        if self.state != State::Open {
            self.reduction.sent();
        }
        if self.deadline == u64::MAX {
            self.deadline = now + self.rtt.timeout();
        }
        let size = if seq == self.application.last() { self.application.last_size() } else { self.size };
        let slow_start = self.pacer.is_some() && self.in_slow_start();
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(now, size, self.controller.pacing_rate(), self.cwnd, self.rtt.smoothed(), slow_start);
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
        let delivered = if clean { acked } else { self.update_scoreboard(ack, report) };
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
        let lost = !clean && self.detect(now);
        let was_reducing = matches!(self.state, State::Reducing | State::Recovery);
        let entry = self.change_state(ack.has(ECE));
        let reducing = matches!(self.state, State::Reducing | State::Recovery);
        let window = u64::from(self.cwnd);
        let in_flight = self.in_flight();
        let marked = if ack.has(ECE) { delivered } else { 0 };
        self.counters.echoed += marked;
        self.controller.on_ack(&Ack {
            now: Instant::from_ns(now),
            delivered: delivered as u32,
            acked: acked as u32,
            marked: marked as u32,
            rtt,
            in_flight: in_flight as u32,
            window_limited: flight >= window || self.in_slow_start() && window < 2 * flight,
            una: self.una,
            next: self.next,
            reducing: was_reducing || reducing,
        });
        if reducing {
            self.begin(now, flight, entry);
            let target = u64::from(whole(self.controller.window()));
            self.cwnd = self.reduction.window(delivered, in_flight, target, acked > 0 && !lost);
        } else {
            self.cwnd = whole(self.controller.window());
        }
        self.set_timer(now, acked > 0);
    }

    fn in_slow_start(&self) -> bool {
        self.controller.window() < self.controller.ssthresh()
    }

    #[cold]
    fn update_scoreboard(&mut self, ack: &Packet, report: Option<&Report>) -> u64 {
        self.scoreboard.caused_by(ack.sent, ack.has(RETRANSMITTED));
        let ack = ack.seq;
        let mut delivered = self.scoreboard.acknowledge(self.una, ack);
        for (from, to) in report.iter().flat_map(|report| report.blocks).filter(|block| block.1 > 0) {
            delivered += self.scoreboard.sack(ack + u64::from(from)..ack + u64::from(to));
        }
        delivered
    }

    /// Looks for losses.
    fn detect(&mut self, now: u64) -> bool {
        let recovering = matches!(self.state, State::Recovery | State::Loss);
        // RFC 8985 6.2: quarters of the smallest round-trip time, at most the smoothed one.
        let quarters = self.scoreboard.quarters(self.una, self.next);
        let wait = (self.rtt.min() / 4).saturating_mul(quarters).min(self.rtt.smoothed());
        self.scoreboard.detect(now, self.una, self.newest, recovering, wait)
    }

    /// Leaves recovery when it is over, and enters it when there is a reason.
    #[inline]
    fn change_state(&mut self, echo: bool) -> Entry {
        let over = self.state != State::Open && self.una >= self.high;
        let before = if over { State::Open } else { self.state };
        self.state = match before {
            State::Open | State::Reducing if self.scoreboard.has_lost() => State::Recovery,
            State::Open if echo && self.is_new_echo() => State::Reducing,
            _ => before,
        };
        match before {
            _ if before == self.state => Entry::None,
            State::Reducing => Entry::Deeper,
            _ => Entry::New,
        }
    }

    /// Whether an echo tells of something sent since the last reduction. The one that ends the reduction does not: it tells of a
    /// segment sent before, and a classic receiver repeats it until it has the first segment sent after.
    fn is_new_echo(&self) -> bool {
        self.ecn != Ecn::Off && self.una > self.high
    }

    /// Begins a reduction; one that was under way because of marks goes on with retransmissions.
    #[inline]
    fn begin(&mut self, now: u64, flight: u64, entry: Entry) {
        if entry == Entry::None {
            return;
        }
        self.high = self.next;
        if self.state == State::Recovery {
            self.counters.recoveries += 1;
            self.scoreboard.recover();
        }
        if entry == Entry::Deeper {
            return;
        }
        self.counters.reductions += 1;
        let cause = if self.state == State::Recovery { Congestion::Loss } else { Congestion::Mark };
        self.reduction = Reduction::new(self.cwnd);
        self.controller.on_congestion(Instant::from_ns(now), flight as u32, cause);
        self.cwr = self.ecn == Ecn::Classic;
    }

    /// Sets the retransmission timer after an acknowledgement.
    #[inline]
    fn set_timer(&mut self, now: u64, progress: bool) {
        if self.una == self.next {
            self.deadline = u64::MAX;
            if self.finished.is_none() && self.application.is_finished(self.una) {
                self.finished = Some(now);
            }
            if self.next >= self.limit && self.finished.is_none() {
                // Only the receive window keeps the flow: the persist timer.
                self.deadline = now + self.rtt.timeout();
            }
        } else if progress || self.deadline == u64::MAX {
            self.deadline = now + self.rtt.timeout();
        }
    }

    /// The retransmission or persist timer expired. Poll afterwards; a window probe is returned.
    pub(crate) fn on_timeout(&mut self, now: u64) -> Option<Packet> {
        self.rtt.back_off();
        self.deadline = now + self.rtt.timeout();
        if self.una == self.next {
            if self.next < self.limit {
                self.deadline = u64::MAX;
                return None;
            }
            let mut probe = self.segment(now, self.next, WINDOW_PROBE);
            probe.size = SEGMENT_OVERHEAD as u16 + 1;
            return Some(probe);
        }
        self.counters.timeouts += 1;
        let flight = self.in_flight() as u32;
        self.scoreboard.lose_all(self.una, self.next);
        let reduced = self.state == State::Recovery && self.una < self.high;
        self.controller.on_timeout(Instant::from_ns(now), flight, reduced);
        self.cwnd = whole(self.controller.window());
        self.state = State::Loss;
        self.high = self.next;
        self.cwr = self.ecn == Ecn::Classic;
        None
    }

    /// The time to wait for reordered segments, to pace or to write is over. Poll afterwards.
    pub(crate) fn on_wake(&mut self, now: u64) {
        if self.scoreboard.wait_over(now) {
            let flight = self.in_flight();
            let entry = self.change_state(false);
            if entry == Entry::None {
                return;
            }
            self.begin(now, flight, entry);
            let target = u64::from(whole(self.controller.window()));
            self.cwnd = self.reduction.window(0, flight, target, false);
        }
    }

    /// When [`Sender::on_timeout`] wants to be called (ns); `u64::MAX` for never.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// When [`Sender::on_wake`] wants to be called (ns); `u64::MAX` for never. Valid after polling.
    #[inline]
    pub(crate) fn wake(&self, now: u64) -> u64 {
        let mut at = self.scoreboard.patience();
        if let Some(pacer) = &self.pacer
            && pacer.blocked(now)
        {
            return at.min(pacer.next());
        }
        // Without a window it is an acknowledgement that lets the sender ask its application again.
        if self.next == self.written && self.has_window() {
            at = at.min(self.application.next_write(now, self.next));
        }
        at
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn reset(&mut self) {
        self.counters = Counters::default();
    }

    pub(crate) fn window(&self) -> u32 {
        self.cwnd
    }

    pub(crate) fn ssthresh(&self) -> f64 {
        self.controller.ssthresh()
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
        size_of::<Sender>() + self.scoreboard.memory()
    }
}

/// Whole segments of a window, at least one.
#[inline]
fn whole(window: f64) -> u32 {
    (window as u32).max(1)
}
