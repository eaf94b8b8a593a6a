//! The samples of a transfer: gaps of ACKs, or of segments where the queue is before the tap.

use super::{
    Bytes, Duration, Estimate, First, Form, Instant, Known, Limit, PairAck, Passed, Seen, Segment, Side,
    Step, Transfer, Way,
};

/// Where packets pass the tap behind the queue of the tight link, so that their gaps show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// ACKs do, and how long their segments waited is known.
    Acks,
    /// ACKs do, but near the receiver nothing tells how long segments waited.
    AcksAlone,
    /// Segments do, and their time stamps tell how long they waited.
    Segments,
}

impl Place {
    pub(super) const fn of(side: Side) -> Place {
        match side {
            Side::Sender => Place::Acks,
            Side::Receiver => Place::AcksAlone,
        }
    }
}

/// Differences of an RTT that are no queue: hosts and NICs take so long now and then. Range 100 to 500 us.
const NOISE: Duration = Duration::from_us(300);
/// Beside the sender, one of this many segments tells how long it waited.
const LOOKS: u8 = 8;
impl Transfer {
    /// Takes a new segment; where the queue is before the tap, its gap is a sample.
    pub(super) fn arrive(&mut self, segment: &Segment, is_full: bool) {
        let at = segment.at;
        let wait = self.note_wait(segment);
        let gap = self.arrived.replace(at).map(|before| at - before);
        if self.place != Place::Segments {
            return;
        }
        let bytes = self.wire.bytes(segment.payload);
        self.meter.acknowledged(bytes);
        let step = self.step(at, gap, bytes, (wait, is_full));
        self.passed = Some(Passed {
            at,
            bytes: Bytes::new(bytes.round() as u64),
            wait: wait.filter(|_| gap.is_some()),
            presses: step.presses,
            counts: gap.is_some(),
            is_full,
        });
        match gap {
            Some(_) => _ = self.measure(step),
            None => self.restart(),
        }
    }

    pub(super) fn step(
        &self,
        at: Instant,
        gap: Option<Duration>,
        bytes: f64,
        (wait, is_full): (Option<Duration>, bool),
    ) -> Step {
        let presses = self.limiter.current() == Limit::Path;
        Step { at, gap: gap.unwrap_or(Duration::ZERO), bytes, wait, presses, is_full }
    }

    /// Takes a step of the chain; returns whether it gave a sample.
    pub(super) fn measure(&mut self, step: Step) -> bool {
        let first = self.first();
        self.meter.step(step, first.packet, |step| self.search.add(step, &first))
    }

    /// The next step does not continue the one before.
    pub(super) fn restart(&mut self) {
        self.meter.restart();
        self.search.restart();
    }

    /// The queue is on the other side of the tap than was thought.
    pub(super) fn change_place(&mut self, place: Place) {
        if self.meter.settings().form == Form::Guarded && place != self.place {
            self.place = place;
            // Segments that react to an ACK pass the tap behind the queue.
            self.is_beside &= place == Place::Acks;
            self.meter.clear();
            self.restart();
        }
    }

    /// Takes note of the queue that a segment met before the tap, and returns how long it waited there.
    pub(super) fn note_wait(&mut self, segment: &Segment) -> Option<Duration> {
        let (stamp, _) = segment.timestamps?;
        // Beside a sender, hardly ever is there a queue before the tap: that of a router.
        self.looks = self.looks.wrapping_add(1);
        if self.is_beside && !self.looks.is_multiple_of(LOOKS) {
            return None;
        }
        let wait = self.one_way.wait(segment.at, stamp)?;
        if let Some(rtt) = self.empty_rtt() {
            self.limiter.on_wait(Seen::Before, wait, rtt);
        }
        Some(wait)
    }

    /// Takes newly acknowledged payload; returns whether it gave a sample.
    pub(super) fn take(&mut self, at: Instant, payload: u32, gap: Option<Duration>, number: u32) -> bool {
        let bytes = self.wire.bytes(payload);
        self.acknowledged += u64::from(payload);
        let all = self.flight.acknowledge(number);
        let sent = all.sent.filter(|_| !all.retransmitted);
        let wait = self.time(at, sent);
        if self.place == Place::Segments {
            return gap.is_some() && !all.retransmitted;
        }
        self.meter.acknowledged(bytes);
        let counts = gap.is_some() && !all.retransmitted;
        let is_full = self.largest > 0 && payload.is_multiple_of(self.largest);
        let packets = if is_full { payload / self.largest } else { 0 };
        let ack = PairAck { at, gap: gap.filter(|_| counts), sent, bytes, packets };
        self.pairs.add(&ack, self.meter.settings().nic);
        let step = self.step(at, gap, bytes, (wait, is_full));
        let wait = wait.filter(|_| counts && self.place == Place::Acks);
        let passed = Bytes::new(bytes.round() as u64);
        self.passed = Some(Passed { at, bytes: passed, wait, presses: step.presses, counts, is_full });
        if !counts {
            self.restart();
            return false;
        }
        self.measure(step)
    }

    /// Takes the RTT of an ACK, and tells the limiter; returns how long the segment waited in queues.
    pub(super) fn time(&mut self, at: Instant, sent: Option<Instant>) -> Option<Duration> {
        let time = at - sent?;
        self.timed = Some(time);
        self.round_trips.add(time);
        self.round_trip.measured(at, time);
        self.take_back(Way::Data as usize, time);
        let least = self.round_trip.least()?;
        // An ACK that was delayed by the receiver acknowledges all that had arrived: only what
        // has not shows a queue.
        let oldest = self.flight.oldest().map_or(Duration::ZERO, |oldest| at - oldest - least);
        let queue = oldest.min(time - least).max(Duration::ZERO);
        let empty = if self.is_beside { least } else { self.empty_rtt().unwrap_or(least) };
        self.limiter.on_wait(Seen::Behind, queue, empty);
        Some(time - least - NOISE)
    }

    pub(super) fn known(&self) -> Known {
        Known {
            rtt: self.rtt(),
            capacity: self.search.rate(),
            limit: self.limiter.current(),
            knows_waits: self.place != Place::AcksAlone,
        }
    }

    pub(super) fn tumble(&mut self, end: Instant, now: Instant) -> Option<Estimate> {
        self.search.look();
        let known = self.known();
        let packet = self.wire.packet();
        // Only of batches, steps are left to take at the end of a window.
        let first = self.meter.is_batched().then(|| self.first());
        self.meter.tumble((end, now), &known, packet, |step| {
            if let Some(first) = &first {
                self.search.add(step, first);
            }
        })
    }

    /// Returns what phase 1 needs.
    pub(super) fn first(&self) -> First {
        First {
            mss: self.wire.mss(),
            packet: self.wire.packet(),
            rtt: if self.search.has_begun() {
                None
            } else {
                self.handshake.rtt().or_else(|| self.round_trip.least())
            },
            longest_gap: self.known().longest_gap(),
            knows_waits: self.place != Place::AcksAlone,
            has_been_full: self.limiter.has_been_full(),
        }
    }
}
