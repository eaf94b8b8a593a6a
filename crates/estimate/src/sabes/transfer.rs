//! One direction of a connection.

use std::sync::Arc;

use super::anomalies::{Anomalies, Kind, Watch};
use super::capacity::{First, Search};
use super::chain::{Chain, Link};
use super::flight::{Flight, before};
use super::handshake::Handshake;
use super::histogram::Histogram;
use super::limit::{Limit, Limits};
use super::limiter::{Basis, Limiter, Seen, Situation};
use super::meter::{Estimate, Judgement, Known, Meter};
use super::narrow::Capacity;
use super::on_the_way::OnTheWay;
use super::one_way::OneWay;
use super::path::Passed;
use super::round_trip::RoundTrip;
use super::sample::Step;
use super::segment::{Segment, Way};
use super::settings::{Form, Settings, Side, Windows};
use super::window_counts::WindowCounts;
use super::wire::Wire;
use headway_learned::{Model, Outside};
use headway_units::{Bytes, Duration, Instant, Rate};

/// One direction of a connection, observed at a tap: data one way, ACKs the other.
///
/// Its memory is bounded by [`Settings::samples`]; it grows only while a window or a flight is larger than any before.
#[derive(Clone, Debug)]
pub struct Transfer {
    chain: Chain,
    flight: Flight,
    wire: Wire,
    round_trip: RoundTrip,
    /// The handshake, with the sender of the data as its first end.
    handshake: Handshake,
    /// The last acknowledgement number and window field.
    last: Option<(u32, u16)>,
    meter: Meter,
    /// What the last segment acknowledged.
    passed: Option<Passed>,
    search: Search,
    acknowledged: u64,
    watch: Watch,
    round_trips: Histogram,
    /// The latest RTT, if the last segment gave one.
    timed: Option<Duration>,
    limiter: Limiter,
    /// Whether the tap is beside the sender, so that ACKs take effect when they pass it.
    is_beside: bool,
    on_the_way: OnTheWay,
    one_way: OneWay,
    /// The acknowledgement number and window field that the sender had taken last.
    known: Option<(u32, u16)>,
    /// By how many bits the window field is shifted; `None` while that is not known.
    scale: Option<u8>,
    /// The largest payload of a packet on the wire.
    largest: u32,
    /// The largest receive window.
    widest: u32,
    place: Place,
    /// Segments whose time stamps might have been looked at.
    looks: u8,
    /// When the last new segment passed the tap, if the next one continues it.
    arrived: Option<Instant>,
}

/// Where packets pass the tap behind the queue of the tight link, so that their gaps show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// ACKs do, and how long their segments waited is known.
    Acks,
    /// ACKs do, but near the receiver nothing tells how long segments waited.
    AcksAlone,
    /// Segments do, and their time stamps tell how long they waited.
    Segments,
}

impl Place {
    const fn of(side: Side) -> Place {
        match side {
            Side::Sender => Place::Acks,
            Side::Receiver => Place::AcksAlone,
        }
    }
}

/// Differences of an RTT that are no queue: hosts and NICs take so long now and then. Range 100 to 500 us.
const NOISE: Duration = Duration::from_us(300);
/// Beside the sender, one of so many segments tells how long it waited.
const LOOKS: u8 = 8;
/// The tap is beside the sender if the time to it and back is at most this part of the RTT.
const BESIDE: i64 = 16;

impl Transfer {
    /// Returns a transfer of which nothing has been seen.
    pub fn new(settings: &Settings) -> Transfer {
        Transfer {
            chain: Chain::default(),
            flight: Flight::default(),
            wire: Wire::new(settings.framing.get()),
            round_trip: RoundTrip::default(),
            handshake: Handshake::default(),
            last: None,
            meter: Meter::new(settings),
            passed: None,
            search: Search::new(settings),
            acknowledged: 0,
            watch: Watch::default(),
            round_trips: Histogram::default(),
            timed: None,
            limiter: Limiter::new(),
            is_beside: settings.side == Side::Sender,
            on_the_way: OnTheWay::default(),
            one_way: OneWay::default(),
            known: None,
            scale: None,
            largest: 0,
            widest: 0,
            place: Place::of(settings.side),
            looks: 0,
            arrived: None,
        }
    }

    /// Takes the next segment that passes the tap; returns an estimate if a window ended with it that gives one.
    pub fn observe(&mut self, segment: &Segment) -> Option<Estimate> {
        self.passed = None;
        let end = self.meter.is_over(segment.at);
        let over = end.and_then(|end| self.tumble(end, segment.at));
        self.timed = None;
        if !self.handshake.is_over() {
            self.handshake.observe(segment.way as usize, segment);
            if self.handshake.is_over() {
                self.find_sender();
            }
        }
        if segment.flags.syn {
            self.open(segment.way);
        }
        match segment.way {
            Way::Data => {
                self.send(segment);
                over
            }
            Way::Acks => {
                let number = segment.acknowledgement.filter(|_| !segment.flags.syn);
                let advanced = number.is_some_and(|number| self.acknowledge(segment, number));
                if advanced && self.meter.settings().windows == Windows::Sliding {
                    return self.meter.slide(segment.at, &self.known());
                }
                over
            }
        }
    }

    /// Returns a transfer whose handshake has been seen so far, or as far as it was; the sender of its data is the end
    /// `sender` of the handshake.
    pub fn after(settings: &Settings, handshake: &Handshake, sender: usize) -> Transfer {
        let mut transfer = Transfer::new(settings);
        transfer.handshake = handshake.seen_from(sender);
        [Way::Data, Way::Acks].into_iter().for_each(|way| transfer.open(way));
        transfer.find_sender();
        transfer
    }

    /// Before its first data the sender had come to this sequence number, at `at`.
    pub fn reach(&mut self, number: u32, at: Instant) {
        self.watch.reach(number, at);
    }

    /// The tap is on another side than was assumed.
    pub fn move_to(&mut self, side: Side) {
        self.meter.move_to(side);
        self.place = Place::of(side);
        self.find_sender();
    }

    /// Data of an end were acknowledged far sooner than its SYN was answered: another host answered. The sender of the data is the
    /// first end.
    #[inline]
    pub fn take_back(&mut self, end: usize, time: Duration) {
        if self.handshake.take_back(end, time).is_some() {
            self.find_sender();
        }
    }

    /// Finds out how far the sender is from the tap.
    fn find_sender(&mut self) {
        let time = self.handshake.time_to(Way::Data as usize);
        self.is_beside = match (time, self.handshake.rtt()) {
            (Some(time), Some(rtt)) => time <= rtt / BESIDE,
            _ => self.meter.settings().side == Side::Sender,
        };
        self.on_the_way.set_time(time.map(|time| time.max(Duration::ZERO)));
    }

    /// Takes what the opening of an end tells.
    fn open(&mut self, way: Way) {
        let Some(opening) = self.handshake.opening(way as usize) else { return };
        opening.mss.into_iter().for_each(|mss| self.wire.announce(mss));
        if way == Way::Data {
            let first = opening.sequence.wrapping_add(1);
            self.chain.begin(opening.at, first);
            // The window of the SYN is not scaled, and hardly ever full.
            self.known = Some((first, u16::MAX));
        }
        self.scale = self.window_scale();
    }

    fn send(&mut self, segment: &Segment) {
        let at = segment.at;
        let end = segment.sequence.wrapping_add(segment.payload);
        if segment.flags.fin {
            self.chain.finish(end);
        }
        if segment.flags.syn {
            return;
        }
        if segment.payload == 0 && !segment.flags.fin {
            return self.watch.empty(segment);
        }
        let echo = segment.timestamps.filter(|_| segment.acknowledgement.is_some()).map(|(_, echo)| echo);
        while let Some(ack) = self.on_the_way.next(at, echo) {
            self.inform(ack.at, ack.number, ack.window);
        }
        let kind = self.watch.data(segment, || self.handshake.shaken_rtt());
        if segment.payload == 0 {
            return;
        }
        let full = self.wire.observe(segment);
        self.flight.send(at, segment.sequence, end);
        let partial = self.is_partial(segment.payload, full) && !segment.flags.fin;
        match kind {
            Kind::New => self.arrive(segment, !partial),
            Kind::Retransmission => self.limiter.on_loss(),
            Kind::OutOfOrder | Kind::KeepAlive => {}
        }
        if kind != Kind::New {
            self.arrived = None;
        }
        let next = self.flight.next().unwrap_or(end);
        let packets = segment.payload.div_ceil(full.max(1));
        self.limiter.on_send(&self.situation(at), next, (packets, partial && kind == Kind::New));
    }

    /// Takes a new segment; where the queue is before the tap, its gap is a sample.
    fn arrive(&mut self, segment: &Segment, is_full: bool) {
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

    fn step(
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
    fn measure(&mut self, step: Step) -> bool {
        let first = self.first();
        self.meter.step(step, first.packet, |step| self.search.add(step, &first))
    }

    /// The next step does not continue the one before.
    fn restart(&mut self) {
        self.meter.restart();
        self.search.restart();
    }

    /// The queue stands on the other side of the tap than was thought.
    fn change_place(&mut self, place: Place) {
        if self.meter.settings().form == Form::Guarded && place != self.place {
            self.place = place;
            // Segments that react to an ACK pass the tap behind the queue.
            self.is_beside &= place == Place::Acks;
            self.meter.clear();
            self.restart();
        }
    }

    /// Whether a packet has, after segmentation, one that is smaller than others; `most` is the largest possible payload.
    fn is_partial(&mut self, payload: u32, most: u32) -> bool {
        let most = most.max(1);
        self.largest = self.largest.max(payload.min(most));
        let full = if payload <= most { self.largest } else { most };
        !payload.is_multiple_of(full)
    }

    /// Takes note of the queue that a segment met before the tap, and returns how long it waited there.
    fn note_wait(&mut self, segment: &Segment) -> Option<Duration> {
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

    /// Returns the RTT of empty queues.
    fn empty_rtt(&self) -> Option<Duration> {
        let behind = self.round_trip.least();
        if self.is_beside { behind } else { self.handshake.rtt().or(Some(behind? + self.on_the_way.time()?)) }
    }

    /// The sender takes an ACK, at `at` in the order of its events.
    fn inform(&mut self, at: Instant, number: u32, window: u16) {
        let advance = self.known.map_or(0, |(last, _)| number.wrapping_sub(last));
        let is_old = advance > 1 << 31;
        if !is_old {
            self.known = Some((number, window));
            self.widest = self.widest.max(self.receive_window().unwrap_or(0));
        }
        let now = self.situation(at);
        let Some(next) = self.flight.next() else { return };
        if is_old || advance == 0 {
            self.limiter.on_window(&now);
        } else if self.limiter.on_ack(&now, advance, |end| !before(number, end)) {
            let payload = |capacity: Rate| capacity.bps_f64() / 8.0 / self.wire.bytes(1);
            let capacity = self.search.rate().map(payload);
            let knows_order = self.is_beside || self.on_the_way.has_stamps();
            let seen = self.limiter.finish(&now, next, &Basis { capacity, knows_order });
            match seen {
                Some(Seen::Before) => self.change_place(Place::Segments),
                Some(Seen::Behind) => self.change_place(Place::Acks),
                None => {}
            }
        }
    }

    /// Takes an ACK; returns whether it gave a sample.
    fn acknowledge(&mut self, segment: &Segment, number: u32) -> bool {
        let at = segment.at;
        self.watch.ack(segment);
        let same_window = self.last.is_some_and(|(_, window)| window == segment.window);
        let repeats = segment.payload == 0 && (segment.sack || same_window);
        let link = self.chain.acknowledge(at, number, repeats);
        if self.last.is_none_or(|(last, _)| !before(number, last)) {
            self.last = Some((number, segment.window));
        }
        if segment.sack {
            self.limiter.on_loss();
        }
        let advanced = match link {
            Link::Sample { payload, gap } => Some((payload, Some(gap))),
            Link::Start { payload } => Some((payload, None)),
            Link::Duplicate | Link::Ignored => None,
        };
        let given = advanced.is_some_and(|(payload, gap)| self.take(at, payload, gap, number));
        if self.is_beside {
            self.inform(at, number, segment.window);
        } else {
            self.on_the_way.push(at, number, segment.window, segment.timestamps.map(|(stamp, _)| stamp));
        }
        given
    }

    /// Takes newly acknowledged payload; returns whether it gave a sample.
    fn take(&mut self, at: Instant, payload: u32, gap: Option<Duration>, number: u32) -> bool {
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
    fn time(&mut self, at: Instant, sent: Option<Instant>) -> Option<Duration> {
        let time = at - sent?;
        self.timed = Some(time);
        self.round_trips.add(time);
        self.round_trip.measured(at, time);
        self.take_back(Way::Data as usize, time);
        let least = self.round_trip.least()?;
        // An ACK that was delayed by the receiver acknowledges all that had arrived: only what has not shows a queue.
        let oldest = self.flight.oldest().map_or(Duration::ZERO, |oldest| at - oldest - least);
        let queue = oldest.min(time - least).max(Duration::ZERO);
        let empty = if self.is_beside { least } else { self.empty_rtt().unwrap_or(least) };
        self.limiter.on_wait(Seen::Behind, queue, empty);
        Some(time - least - NOISE)
    }

    fn known(&self) -> Known {
        Known {
            rtt: self.rtt(),
            capacity: self.search.rate(),
            limit: self.limiter.current(),
            knows_waits: self.place != Place::AcksAlone,
        }
    }

    fn tumble(&mut self, end: Instant, now: Instant) -> Option<Estimate> {
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
    fn first(&self) -> First {
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

    fn situation(&self, at: Instant) -> Situation {
        let acknowledged = self.known.map(|(number, _)| number);
        let next = self.flight.next();
        let flight = next.zip(acknowledged).map_or(0, |(next, number)| next.wrapping_sub(number));
        let flight = if flight > 1 << 31 { 0 } else { flight };
        let room = self.receive_window().map(|window| window.saturating_sub(flight));
        let mss = self.wire.mss().min(if self.widest > 0 { self.widest / 2 } else { u32::MAX });
        Situation { at, flight, room, mss }
    }

    /// Returns the window that the sender was told last, in bytes; `None` where its scale is not known.
    fn receive_window(&self) -> Option<u32> {
        let (_, window) = self.known?;
        Some(u32::from(window) << self.scale?)
    }

    /// Returns the shift count of the window; `None` where the capture does not tell whether both ends shift.
    fn window_scale(&self) -> Option<u8> {
        let scales = [Way::Data, Way::Acks].map(|way| {
            let opening = self.handshake.opening(way as usize)?;
            // An option that was not captured may have been there.
            (opening.window_scale.is_some() || !opening.cut).then_some(opening.window_scale)
        });
        match scales {
            [Some(Some(_)), Some(Some(scale))] => Some(scale.min(14)),
            [Some(_), Some(_)] => Some(0),
            _ => None,
        }
    }

    /// Tells the capacity found by another transfer over the same path, which counts until this one finds it.
    pub fn share_capacity(&mut self, capacity: Rate) {
        self.search.share(capacity);
    }

    /// Returns the capacity of the narrow link; `None` until it is known.
    pub fn capacity(&self) -> Option<Rate> {
        self.search.rate()
    }

    /// Returns the capacity of the narrow link with its interval, if this transfer itself has found it.
    pub fn narrow_link(&self) -> Option<Capacity> {
        self.search.found()
    }

    /// Returns the RTT: smoothed at the sender's side, of the handshake at the receiver's; `None` until it is known.
    pub fn rtt(&self) -> Option<Duration> {
        match self.meter.settings().side {
            Side::Sender => self.round_trip.smoothed().or_else(|| self.handshake.rtt()),
            Side::Receiver => self.handshake.rtt(),
        }
    }

    /// Returns the RTT of the handshake, whoever answered it; `None` if it was not seen.
    pub fn handshake_rtt(&self) -> Option<Duration> {
        self.handshake.shaken_rtt()
    }

    /// Returns the rate on the wire that was acknowledged in the last window; `None` before the end of the first.
    pub fn throughput(&self) -> Option<Rate> {
        self.meter.throughput()
    }

    /// Returns the rates on the wire of the samples in the present window, oldest first.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        self.meter.rates()
    }

    /// Returns what the last segment taken acknowledged, for [`Path::observe`](super::Path::observe); `None` if nothing.
    pub fn passed(&self) -> Option<Passed> {
        self.passed
    }

    /// Whether segments pass the tap behind the queue, so that they show themselves what is delivered, and when.
    pub fn shows_delivery(&self) -> bool {
        self.place != Place::Acks
    }

    /// Returns the payload acknowledged so far.
    pub fn acknowledged(&self) -> Bytes {
        Bytes::new(self.acknowledged)
    }

    /// Returns the window that the published rules judged last; `None` if it had too few samples, or other rules are in use.
    pub fn judgement(&self) -> Option<Judgement<'_>> {
        self.meter.judgement()
    }

    /// Lets a trained model judge windows from now on, in place of the rules of the settings: a classifier says which means that
    /// pass the published rules are right (wan 2.11), a regression estimates from every window (wan 2.13). Models were trained
    /// on windows of [`Form::Literal`](super::Form::Literal).
    pub fn set_model(&mut self, model: Arc<Model>) {
        self.meter.set_model(model);
    }

    /// Whether a trained model judges windows.
    pub fn has_model(&self) -> bool {
        self.meter.has_model()
    }

    /// Returns why the last window that was refused for it is unlike those that the model has seen.
    pub fn outside(&self) -> Option<Outside> {
        self.meter.outside()
    }

    /// Returns how many windows gave an estimate, and why others did not.
    pub fn windows(&self) -> &WindowCounts {
        self.meter.counts()
    }

    /// Returns what went wrong.
    pub fn anomalies(&self) -> Anomalies {
        self.watch.counts
    }

    /// Returns the times between segments and their ACKs at the tap, without those of segments that were sent again.
    pub fn round_trips(&self) -> &Histogram {
        &self.round_trips
    }

    /// Returns the time between a segment and the ACK that was taken last, if it gave one.
    pub fn timed(&self) -> Option<Duration> {
        self.timed
    }

    /// Returns what limited the transfer, and for how long.
    pub fn limits(&self) -> Limits {
        self.limiter.limits()
    }

    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        size_of::<Transfer>()
            + self.flight.memory()
            + self.meter.memory()
            + self.search.memory()
            + self.on_the_way.memory()
            + self.round_trips.memory()
    }
}

#[cfg(test)]
mod tests;
