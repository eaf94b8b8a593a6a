//! One direction of a connection.

use super::capacity::{First, Phase};
use super::chain::{Chain, Link};
use super::flight::{Flight, before};
use super::handshake::Handshake;
use super::limit::{Limiter, Limits, Situation};
use super::meter::{Estimate, Known, Meter};
use super::path::Passed;
use super::round_trip::RoundTrip;
use super::sample::Step;
use super::segment::{Segment, Way};
use super::settings::{Settings, Side, Windows};
use super::window_counts::WindowCounts;
use super::wire::Wire;
use crate::units::{Bytes, Duration, Instant, Rate};

/// One direction of a connection, observed at a tap: data one way, ACKs the other.
///
/// Its memory is bounded by [`Settings::samples`]; it grows only while a window or a flight is larger than any before.
#[derive(Clone, Debug)]
pub struct Transfer {
    settings: Settings,
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
    phase: Phase,
    acknowledged: u64,
    limiter: Limiter,
}

impl Transfer {
    /// Returns a transfer of which nothing has been seen.
    pub fn new(settings: &Settings) -> Transfer {
        Transfer {
            settings: *settings,
            chain: Chain::default(),
            flight: Flight::default(),
            wire: Wire::new(settings.framing.get()),
            round_trip: RoundTrip::default(),
            handshake: Handshake::default(),
            last: None,
            meter: Meter::new(settings),
            passed: None,
            phase: Phase::new(settings),
            acknowledged: 0,
            limiter: Limiter::new(),
        }
    }

    /// Takes the next segment that passes the tap; returns an estimate if a window ended with it that gives one.
    pub fn observe(&mut self, segment: &Segment) -> Option<Estimate> {
        self.passed = None;
        let end = self.meter.is_over(segment.at);
        let over = end.and_then(|end| self.tumble(end, segment.at));
        self.handshake.observe(segment.way as usize, segment);
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
                if advanced && self.settings.windows == Windows::Sliding {
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
        transfer
    }

    /// The tap is on another side than was assumed.
    pub fn move_to(&mut self, side: Side) {
        self.settings.side = side;
        self.meter.move_to(side);
    }

    /// Takes what the opening of an end tells.
    fn open(&mut self, way: Way) {
        let Some(opening) = self.handshake.opening(way as usize) else { return };
        opening.mss.into_iter().for_each(|mss| self.wire.announce(mss));
        if way == Way::Data {
            self.chain.begin(opening.at, opening.sequence.wrapping_add(1));
        }
    }

    fn send(&mut self, segment: &Segment) {
        let end = segment.sequence.wrapping_add(segment.payload);
        if segment.flags.fin {
            self.chain.finish(end);
        }
        if segment.payload == 0 || segment.flags.syn {
            return;
        }
        self.wire.observe(segment);
        let again = self.flight.send(segment.at, segment.sequence, end);
        let next = self.flight.next().unwrap_or(end);
        self.limiter.on_send(&self.situation(segment.at), next, again);
    }

    /// Takes an ACK; returns whether it gave a sample.
    fn acknowledge(&mut self, segment: &Segment, number: u32) -> bool {
        let at = segment.at;
        let same_window = self.last.is_some_and(|(_, window)| window == segment.window);
        let repeats = segment.payload == 0 && (segment.sack || same_window);
        let link = self.chain.acknowledge(at, number, repeats);
        if self.last.is_none_or(|(last, _)| !before(number, last)) {
            self.last = Some((number, segment.window));
        }
        if segment.sack {
            self.limiter.on_loss();
        }
        let (payload, gap) = match link {
            Link::Sample { payload, gap } => (payload, Some(gap)),
            Link::Start { payload } => (payload, None),
            Link::Duplicate | Link::Ignored => {
                self.limiter.on_window(&self.situation(at));
                return false;
            }
        };
        let bytes = self.wire.bytes(payload);
        self.acknowledged += u64::from(payload);
        self.meter.acknowledged(bytes);
        let all = self.flight.acknowledge(number);
        let sent = all.sent.filter(|_| !all.retransmitted);
        let wait = self.time(at, payload, number, sent);
        let step = Step { at, gap: gap.unwrap_or(Duration::ZERO), bytes, sent, wait };
        let counts = gap.is_some() && !all.retransmitted;
        self.passed =
            Some(Passed { at, bytes: Bytes::new(bytes.round() as u64), sent: sent.filter(|_| counts), wait });
        if !counts {
            self.meter.restart(&step);
            return false;
        }
        let packet = self.wire.packet();
        let first = self.first();
        self.meter.step(step, packet, |step| self.phase.add(step, &first))
    }

    /// Takes the RTT of an ACK, and tells the limiter; returns how long the segment waited in queues.
    fn time(&mut self, at: Instant, payload: u32, number: u32, sent: Option<Instant>) -> Duration {
        let time = sent.map(|sent| at - sent);
        if let Some(time) = time {
            self.round_trip.measured(at, time);
        }
        let least = self.round_trip.least();
        let queue = time.zip(least).map(|(time, least)| (time - least, least));
        if let Some(next) = self.flight.next() {
            let now = self.situation(at);
            self.limiter.on_ack(
                &now,
                now.flight.saturating_add(payload),
                queue,
                |end| !before(number, end),
                next,
            );
        }
        queue.map_or(Duration::ZERO, |(wait, _)| wait)
    }

    fn known(&self) -> Known {
        Known { rtt: self.rtt(), capacity: self.phase.capacity(), limit: self.limiter.current() }
    }

    fn tumble(&mut self, end: Instant, now: Instant) -> Option<Estimate> {
        let known = self.known();
        let packet = self.wire.packet();
        let first = self.first();
        self.meter.tumble((end, now), &known, packet, |step| self.phase.add(step, &first))
    }

    /// Returns what phase 1 needs.
    fn first(&self) -> First {
        First {
            mss: self.wire.mss(),
            rtt: self.handshake.rtt().or(self.round_trip.least()),
            longest_gap: self.known().longest_gap(),
        }
    }

    fn situation(&self, at: Instant) -> Situation {
        let acknowledged = self.last.map(|(number, _)| number);
        let next = self.flight.next();
        let flight = next.zip(acknowledged).map_or(0, |(next, number)| next.wrapping_sub(number));
        let flight = if flight > 1 << 31 { 0 } else { flight };
        let room = self.receive_window().map(|window| window.saturating_sub(flight));
        Situation { at, flight, room, mss: self.wire.mss() }
    }

    /// Returns the window that the receiver advertised last, in bytes; `None` where its scale is not known.
    fn receive_window(&self) -> Option<u32> {
        let (_, window) = self.last?;
        let scales =
            [Way::Data, Way::Acks].map(|way| Some(self.handshake.opening(way as usize)?.window_scale));
        let scale = match scales {
            [Some(Some(_)), Some(Some(scale))] => scale.min(14),
            [Some(_), Some(_)] => 0,
            _ => return None,
        };
        Some(u32::from(window) << scale)
    }

    /// Tells the capacity found by another transfer over the same path; the larger one counts.
    pub fn share_capacity(&mut self, capacity: Rate) {
        self.phase.share(capacity);
    }

    /// Returns the capacity of the narrow link; `None` until it is known.
    pub fn capacity(&self) -> Option<Rate> {
        self.phase.capacity()
    }

    /// Returns the RTT: smoothed at the sender's side, of the handshake at the receiver's; `None` until it is known.
    pub fn rtt(&self) -> Option<Duration> {
        match self.settings.side {
            Side::Sender => self.round_trip.smoothed().or(self.handshake.rtt()),
            Side::Receiver => self.handshake.rtt(),
        }
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

    /// Returns the payload acknowledged so far.
    pub fn acknowledged(&self) -> Bytes {
        Bytes::new(self.acknowledged)
    }

    /// Returns how many windows gave an estimate, and why others did not.
    pub fn windows(&self) -> &WindowCounts {
        self.meter.counts()
    }

    /// Returns what limited the transfer, and for how long.
    pub fn limits(&self) -> &Limits {
        self.limiter.limits()
    }

    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        size_of::<Transfer>() + self.flight.memory() + self.meter.memory() + self.phase.memory()
    }
}

#[cfg(test)]
mod tests;
