//! One direction of a connection.

mod samples;

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
use super::pairs::{AckPairs, PairAck, PairCapacity, PairRefusal};
use super::path::Passed;
use super::round_trip::RoundTrip;
use super::sample::Step;
use super::segment::{Segment, Way};
use super::settings::{Form, Settings, Side, Windows};
use super::window_counts::WindowCounts;
use super::wire::Wire;
use headway_learned::{Model, Outside};
use headway_units::{Bytes, Duration, Instant, Rate};
use samples::Place;

/// One direction of a connection, observed at a tap: data one way, ACKs the other.
///
/// Its memory is bounded by [`Settings::samples`]; it grows only while a window or a flight is
/// larger than any before.
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
    pairs: AckPairs,
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
            pairs: AckPairs::default(),
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

    /// Takes the next segment that passes the tap; returns an estimate if a window ended
    /// with it that gives one.
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

    /// Returns a transfer whose handshake has been seen so far, or as far as it was; the sender of its data
    /// is the end `sender` of the handshake.
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

    /// Data of an end were acknowledged far sooner than its SYN was answered: another host answered. The
    /// sender of the data is the first end.
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

    /// Whether a packet has, after segmentation, one that is smaller than others; `most` is the
    /// largest possible payload.
    fn is_partial(&mut self, payload: u32, most: u32) -> bool {
        let most = most.max(1);
        self.largest = self.largest.max(payload.min(most));
        let full = if payload <= most { self.largest } else { most };
        !payload.is_multiple_of(full)
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

    fn situation(&self, at: Instant) -> Situation {
        let acknowledged = self.known.map(|(number, _)| number);
        let next = self.flight.next();
        let flight = next.zip(acknowledged).map_or(0, |(next, number)| next.wrapping_sub(number));
        let flight = if flight > 1 << 31 { 0 } else { flight };
        let room = self.receive_window().map(|window| window.saturating_sub(flight));
        let mss = self.wire.mss().min(if self.widest > 0 { self.widest / 2 } else { u32::MAX });
        Situation { at, flight, room, mss }
    }

    /// Returns the last window that the sender received, in bytes; `None` where its scale is not known.
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

    /// Looks for the capacity that packets which left together tell, if they are many more than at the last
    /// call: it takes some ms.
    pub fn look_at_pairs(&mut self) {
        self.pairs.look(self.wire.packet(), self.meter.settings());
    }

    /// Returns the capacity of the narrow link by packets that left together, as of the last look.
    ///
    /// # Errors
    /// Says why they do not tell it.
    pub fn pair_capacity(&self) -> Result<PairCapacity, PairRefusal> {
        match self.place {
            Place::Acks => self.pairs.found(),
            _ => Err(PairRefusal::NoDepartures),
        }
    }

    /// Returns the number of pairs of packets that left together.
    pub fn paired(&self) -> u64 {
        self.pairs.count()
    }

    /// Returns the RTT: smoothed at the sender's side, of the handshake at the receiver's;
    /// `None` until it is known.
    pub fn rtt(&self) -> Option<Duration> {
        match self.meter.settings().side {
            Side::Sender => self.round_trip.smoothed().or_else(|| self.handshake.rtt()),
            Side::Receiver => self.handshake.rtt(),
        }
    }

    /// Returns the RTT of the handshake, even if a proxy answered it; `None` if it was not seen.
    pub fn handshake_rtt(&self) -> Option<Duration> {
        self.handshake.shaken_rtt()
    }

    /// Returns the rate on the wire that was acknowledged in the last window; `None` before
    /// the end of the first.
    pub fn throughput(&self) -> Option<Rate> {
        self.meter.throughput()
    }

    /// Returns the rates on the wire of the samples in the present window, oldest first.
    pub fn rates(&self) -> impl Iterator<Item = Rate> {
        self.meter.rates()
    }

    /// Returns what the last segment taken acknowledged, for
    /// [`Path::observe`](super::Path::observe); `None` if nothing.
    pub fn passed(&self) -> Option<Passed> {
        self.passed
    }

    /// Whether segments pass the tap behind the queue, so that they show themselves what is
    /// delivered, and when.
    pub fn shows_delivery(&self) -> bool {
        self.place != Place::Acks
    }

    /// Returns the payload acknowledged so far.
    pub fn acknowledged(&self) -> Bytes {
        Bytes::new(self.acknowledged)
    }

    /// Returns the window that the published rules judged last; `None` if it had too few samples, or
    /// other rules are in use.
    pub fn judgement(&self) -> Option<Judgement<'_>> {
        self.meter.judgement()
    }

    /// Lets a trained model judge windows from now on, in place of the rules of the settings: a classifier
    /// says which means that pass the published rules are right (wan 2.11), a regression estimates from every
    /// window (wan 2.13). Models were trained on windows of [`Form::Literal`](super::Form::Literal).
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

    /// Returns the times between segments and their ACKs at the tap, without those of segments
    /// that were sent again.
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
            + self.pairs.memory()
            + self.on_the_way.memory()
            + self.round_trips.memory()
    }
}

#[cfg(test)]
mod tests;
