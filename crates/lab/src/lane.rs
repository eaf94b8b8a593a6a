//! One direction of a link with its frames.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};

use headway_host::nic::Nic;
use headway_queue::Label;
use headway_queue::explicit::{Format, Header};
use headway_traffic::channel::{Jitter, JitterDraws};
use headway_traffic::random;
use headway_units::{Duration, Instant};
use rand::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::congestion_header::{self, Carrier, Place};
use crate::ecn::{self, ETHERNET};
use crate::frame_pool::FramePool;
use crate::header_counts::HeaderCounts;
use crate::line::{Line, MAC_CONTROL};
use crate::link::{Decided, Fate, LEAD, Link};
use crate::packet::{HostFrame, Packet};
use crate::port::Received;
use crate::queue::wire_size;
use crate::spec::{Direction, LinkSpec, Spec};
use crate::wire::Wire;

/// A frame in the buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) number: u32,
    /// Length with the Ethernet header.
    pub(crate) len: usize,
    /// Where its congestion header is, if its queue reads such headers and can use this one.
    header: Option<Place>,
}

/// A frame with a known time of delivery to the receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) frame: Frame,
    pub(crate) release: Instant,
}

/// Where the EtherType of a frame without VLAN tags begins.
const TYPE_AT: usize = ETHERNET - 2;

/// A version of congestion headers that no router serves.
const NO_VERSION: u8 = 0;

/// One direction of a link: frames come in at one port and leave at the other.
pub(crate) struct Lane {
    pub(crate) link: Link,
    /// The line from the node to the queue, if it has one; without, frames reach the queue at once.
    line: Option<Line<Frame>>,
    /// Random delays on the wire, if there are any.
    jitter: Option<JitterDraws>,
    reordering: bool,
    /// When the latest frame arrives at the end of the wire.
    last: Instant,
    rng: Pcg64Mcg,
    /// Frames that the link has not told what becomes of them, by number.
    inside: Vec<Option<Frame>>,
    /// The receiver's NIC, if it coalesces interrupts, and the seed of the next one.
    nic: Option<Nic<Frame>>,
    nic_seed: u64,
    /// How long before it is due the NIC hands up a frame at the latest: no later frame
    /// can arrive before that.
    ahead: Duration,
    /// Frames on the wire in order of arrival; without an NIC, the frames to deliver.
    flight: VecDeque<Held>,
    /// Frames that the NIC has handed up.
    held: VecDeque<Held>,
    /// What happens to frames behind the queue, if anything does.
    wire: Option<Wire>,
    carrier: Carrier,
    headers: HeaderCounts,
    /// Numbers flows. Its key is secret, so that no sender can choose the slot of a router's
    /// table that it falls into.
    hasher: RandomState,
    /// Frames dropped because they are larger than the MTU.
    oversized: u64,
}

impl Lane {
    /// Creates an empty lane for a direction of the link with this number.
    pub(crate) fn new(spec: &Spec, number: usize, direction: Direction, start: Instant) -> Lane {
        let link = spec.links[number].path.side(direction);
        // Every link has random numbers of its own.
        let seed = spec.seed.wrapping_add((number as u64) << 32);
        let way = match direction {
            Direction::Forward => 0,
            Direction::Reverse => 1,
        };
        let mut lane = Lane {
            link: Link::new(direction, link, &spec.cross_on(number), (seed, spec.mtu), start, spec.interval),
            line: link.line.map(Line::new),
            jitter: draws(link.jitter),
            reordering: link.reordering,
            last: Instant::ZERO,
            rng: Pcg64Mcg::seed_from_u64(seed.wrapping_add(way)),
            inside: Vec::new(),
            nic: None,
            nic_seed: seed.wrapping_add(way),
            ahead: Duration::ZERO,
            flight: VecDeque::with_capacity(1024),
            held: VecDeque::new(),
            wire: Wire::new(link, seed.wrapping_add(way)),
            carrier: spec.carrier(),
            headers: HeaderCounts::default(),
            hasher: RandomState::new(),
            oversized: 0,
        };
        lane.set_nic(link);
        if spec.delays {
            lane.link.log_delays();
        }
        lane
    }

    /// Replaces the link's parameters from `at` on.
    pub(crate) fn set_link(&mut self, at: Instant, spec: &LinkSpec) {
        self.jitter = draws(spec.jitter);
        self.reordering = spec.reordering;
        self.wire = Wire::new(spec, self.rng.next_u64());
        self.link.set_link(at, spec);
        self.set_nic(spec);
    }

    /// Replaces the NIC, which first hands up what it holds.
    fn set_nic(&mut self, spec: &LinkSpec) {
        // The old one hands up what it holds, and frames on the wire arrive at the new one.
        self.hand_up(Instant::from_ns(u64::MAX));
        let seed = self.nic_seed;
        self.nic_seed = seed.wrapping_add(1);
        self.nic = spec.coalesce.map(|coalescing| Nic::new(coalescing, random::generator(seed, "nic", 0)));
        self.ahead = spec.delay.min(LEAD);
    }

    /// Takes a frame that has arrived at port `from`.
    pub(crate) fn receive(&mut self, received: Received, frames: &mut FramePool) {
        let Received { frame: number, len, stamp } = received;
        let frame = Frame { number, len, header: None };
        let ends_here = frames.get(number).get(TYPE_AT..ETHERNET) == Some(&MAC_CONTROL[..]);
        if ends_here {
            self.link.control_frame(stamp);
            frames.free(number);
        }
        let onward = (!ends_here).then_some(frame);
        match (&mut self.line, onward) {
            (Some(line), onward) => line.send(stamp, wire_size(len.saturating_sub(ETHERNET) as u64), onward),
            (None, Some(frame)) => self.offer(stamp, frame, frames),
            (None, None) => {}
        }
    }

    /// Handles everything due by `now`: frames that reach the queue, whose departure must be judged,
    /// and that reach the NIC.
    pub(crate) fn settle(&mut self, now: Instant, frames: &mut FramePool) {
        while let Some((at, frame)) = self.line.as_mut().and_then(|line| line.arrived(now)) {
            self.offer(at, frame, frames);
        }
        self.place_decided(now, frames);
        self.reach_nic(now + self.ahead);
    }

    /// Returns how many frames were dropped since the last call because they are larger than the MTU.
    pub(crate) fn take_oversized(&mut self) -> u64 {
        std::mem::take(&mut self.oversized)
    }

    /// Returns what the router found in the packets so far.
    pub(crate) fn headers(&self) -> HeaderCounts {
        self.headers
    }

    /// Returns the next frame to deliver.
    pub(crate) fn first(&self) -> Option<Held> {
        self.ready().front().copied()
    }

    /// The frames to deliver.
    fn ready(&self) -> &VecDeque<Held> {
        if self.nic.is_some() || !self.held.is_empty() { &self.held } else { &self.flight }
    }

    /// Removes the first held frame, which was sent at `now`.
    pub(crate) fn released(&mut self, now: Instant, frames: &mut FramePool) {
        let from_wire = self.nic.is_none() && self.held.is_empty();
        let ready = if from_wire { &mut self.flight } else { &mut self.held };
        if let Some(held) = ready.pop_front() {
            self.link.released(held.release, now - held.release);
            frames.free(held.frame.number);
        }
    }

    /// Returns when [`Lane::settle`] next has something to do.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let arrival = self.flight.front().map(|held| held.release);
        let nic = self.nic.as_ref().and_then(|nic| nic.next_event().into_iter().chain(arrival).min());
        let line = self.line.as_ref().and_then(Line::next);
        self.link.next_event().into_iter().chain(nic.map(|event| event - self.ahead)).chain(line).min()
    }

    /// Discards all frames and returns their buffers to the pool.
    pub(crate) fn clear(&mut self, frames: &mut FramePool) {
        self.reach_nic(Instant::from_ns(u64::MAX));
        while let Some((_, frame)) =
            self.line.as_mut().and_then(|line| line.arrived(Instant::from_ns(u64::MAX)))
        {
            frames.free(frame.number);
        }
        let held = self.held.drain(..).chain(self.flight.drain(..)).map(|held| held.frame);
        for frame in self.inside.drain(..).flatten().chain(held) {
            frames.free(frame.number);
        }
    }

    fn offer(&mut self, at: Instant, frame: Frame, frames: &mut FramePool) {
        let bytes = frames.get(frame.number);
        // A frame larger than its buffer was cut on arrival, or has no room for its VLAN tag: drop it.
        let Some(bytes) = bytes.get(..frame.len) else {
            self.oversized += 1;
            frames.free(frame.number);
            return;
        };
        let mut packet = Packet::new(at, wire_size(frame.len.saturating_sub(ETHERNET) as u64));
        packet.ect = ecn::is_capable(bytes);
        packet.frame = Some(HostFrame { number: frame.number, is_tcp: congestion_header::is_tcp(bytes) });
        let found = match self.link.versions() {
            [] => None,
            versions => {
                let found = congestion_header::find(bytes, self.carrier);
                self.headers.note(&found, versions);
                found
            }
        };
        // A packet whose header is of no use counts as input and is dropped (xcp-rcp 2.4, 2.16).
        let useless = |_| Header::new(NO_VERSION, Format::Standard);
        packet.header = found.map(|found| found.map_or_else(useless, |found| found.header));
        let found = found.and_then(Result::ok);
        if self.link.needs_flows() {
            let flow = found.map_or_else(|| congestion_header::flow(bytes), |found| found.flow(bytes));
            packet.label =
                Label { flow: self.hasher.hash_one(flow) as u32, is_scalable: ecn::is_scalable(bytes) };
        }
        let number = frame.number as usize;
        self.inside.resize(self.inside.len().max(number + 1), None);
        self.inside[number] = Some(Frame { header: found.and_then(|found| found.place), ..frame });
        self.link.offer(packet);
        self.place_decided(at, frames);
    }

    fn place_decided(&mut self, now: Instant, frames: &mut FramePool) {
        while let Some(Decided { frame, fate, feedback }) = self.link.take(now)
            && let Some(frame) = self.inside.get_mut(frame as usize).and_then(Option::take)
        {
            let Fate::Arrives { at, marked } = fate else {
                frames.free(frame.number);
                continue;
            };
            let bytes = &mut frames.get_mut(frame.number)[..frame.len];
            if let (Some(feedback), Some(place)) = (feedback, frame.header)
                && congestion_header::rewrite(bytes, place, feedback)
            {
                self.headers.rewritten += 1;
            }
            if marked {
                ecn::mark(bytes);
            }
            self.pass(at, frame, frames);
        }
    }

    /// Passes a frame over the wire, where it arrives at `at`.
    fn pass(&mut self, at: Instant, frame: Frame, frames: &mut FramePool) {
        let Some(wire) = &mut self.wire else { return self.arrive(at, frame) };
        let changed = wire.pass(&mut frames.get_mut(frame.number)[..frame.len]);
        self.link.changed(at, changed);
        self.arrive(at, frame);
        if changed.doubled {
            self.arrive(at, Frame { number: frames.copy(frame.number, frame.len), ..frame });
        }
    }

    /// Puts a frame on the wire, which would arrive at `at` without jitter.
    fn arrive(&mut self, at: Instant, frame: Frame) {
        let mut release = at;
        if let Some(jitter) = &mut self.jitter {
            release += jitter.draw(&mut self.rng);
        }
        if !self.reordering {
            release = release.max(self.last);
        }
        self.last = self.last.max(release);
        // Most frames are the last ones.
        let place =
            self.flight.iter().rposition(|held| held.release <= release).map_or(0, |before| before + 1);
        self.flight.insert(place, Held { frame, release });
    }

    /// Passes the frames that arrive by `time` to the NIC, and releases what it hands up by then.
    fn reach_nic(&mut self, time: Instant) {
        while self.nic.is_some()
            && let Some(Held { frame, release }) = self.flight.pop_front_if(|held| held.release <= time)
        {
            // If both happen at the same time, the arrival comes first.
            self.hand_up(Instant::from_ns(release.ns().saturating_sub(1)));
            if let Some(nic) = &mut self.nic {
                nic.arrive(release, frame);
            }
        }
        self.hand_up(time);
    }

    /// Releases what the NIC hands up by `time`.
    fn hand_up(&mut self, time: Instant) {
        let Some(nic) = &mut self.nic else { return };
        while let Some(event) = nic.next_event().filter(|event| *event <= time) {
            if let Some((frame, at)) = nic.poll(event) {
                let release = self.held.back().map_or(at, |last| at.max(last.release));
                self.held.push_back(Held { frame, release });
            }
        }
    }
}

fn draws(jitter: Jitter) -> Option<JitterDraws> {
    (!jitter.is_none()).then(|| JitterDraws::new(jitter))
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
