//! One direction of a link with its frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use headway_core::Instant;
use headway_core::explicit::{Format, Header};
use headway_traffic::channel::{Jitter, JitterDraws};
use rand::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::congestion_header::{self, Carrier, Place};
use crate::ecn::{self, ETHERNET};
use crate::frame_pool::FramePool;
use crate::header_counts::HeaderCounts;
use crate::link::{Decided, Link, Verdict};
use crate::port::Received;
use crate::queue::HostFrame;
use crate::spec::{Direction, LinkSpec, Spec};
use crate::wire::Wire;

/// A frame in the buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The congestion header of a frame, where it is, and the number of its flow.
struct Labelled {
    header: Header,
    place: Option<Place>,
    flow: u32,
}

/// A version of congestion headers that no router serves.
const NO_VERSION: u8 = 0;

/// One direction of a link: frames come in at one port and leave at the other.
pub(crate) struct Lane {
    pub(crate) link: Link,
    /// Random delays before the queue, if there are any.
    jitter: Option<JitterDraws>,
    reordering: bool,
    /// When the latest frame with jitter arrives at the queue.
    last: Instant,
    rng: Pcg64Mcg,
    /// Frames that jitter delays before the queue, ordered by arrival there and then by the order of the draws.
    arriving: BinaryHeap<Reverse<(Instant, u64, Frame)>>,
    drawn: u64,
    /// Frames that wait in the queue until the discipline judges their departure, by number.
    waiting: Vec<Option<Frame>>,
    held: VecDeque<Held>,
    /// What happens to frames behind the queue, if anything does.
    wire: Option<Wire>,
    carrier: Carrier,
    headers: HeaderCounts,
    /// Numbers flows. Its key is secret, so that no sender can choose the slot of a router's table that it falls into.
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
            link: Link::new(direction, link, &spec.cross_on(number), seed, start, spec.interval),
            jitter: draws(link.jitter),
            reordering: link.reordering,
            last: Instant::ZERO,
            rng: Pcg64Mcg::seed_from_u64(seed.wrapping_add(way)),
            arriving: BinaryHeap::new(),
            drawn: 0,
            waiting: Vec::new(),
            held: VecDeque::with_capacity(1024),
            wire: Wire::new(link, seed.wrapping_add(way)),
            carrier: spec.carrier(),
            headers: HeaderCounts::default(),
            hasher: RandomState::new(),
            oversized: 0,
        };
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
    }

    /// Takes a frame that has arrived at port `from`.
    pub(crate) fn receive(&mut self, received: Received, frames: &mut FramePool) {
        let Received { frame: number, len, stamp } = received;
        let frame = Frame { number, len, header: None };
        let Some(jitter) = &mut self.jitter else { return self.offer(stamp, frame, frames) };
        let mut at = stamp + jitter.draw(&mut self.rng);
        if !self.reordering {
            at = at.max(self.last);
        }
        self.last = at;
        self.drawn += 1;
        self.arriving.push(Reverse((at, self.drawn, frame)));
    }

    /// Handles everything due by `now`: frames that reach the queue and frames whose departure must be judged.
    pub(crate) fn settle(&mut self, now: Instant, frames: &mut FramePool) {
        while let Some(&Reverse((at, _, frame))) = self.arriving.peek()
            && at <= now
        {
            self.arriving.pop();
            self.offer(at, frame, frames);
        }
        while let Some(event) = self.link.next_event()
            && event <= now
            && let Some(turn) = self.link.next_turn()
        {
            self.link.advance(turn);
        }
        self.place_decided(frames);
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
        self.held.front().copied()
    }

    /// Removes the first held frame, which was sent at `now`.
    pub(crate) fn released(&mut self, now: Instant, frames: &mut FramePool) {
        if let Some(held) = self.held.pop_front() {
            self.link.released(held.release, now - held.release);
            frames.free(held.frame.number);
        }
    }

    /// Returns when [`Lane::settle`] next has something to do.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let arrival = self.arriving.peek().map(|Reverse((at, ..))| *at);
        arrival.into_iter().chain(self.link.next_event()).min()
    }

    /// Discards all frames and returns their buffers to the pool.
    pub(crate) fn clear(&mut self, frames: &mut FramePool) {
        let arriving = self.arriving.drain().map(|Reverse((_, _, frame))| frame);
        let held = self.held.drain(..).map(|held| held.frame);
        for frame in arriving.chain(self.waiting.drain(..).flatten()).chain(held) {
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
        let ip = frame.len.saturating_sub(ETHERNET) as u64;
        let ect = ecn::is_capable(bytes);
        let header = match self.link.versions() {
            [] => None,
            versions => self.header(bytes, versions),
        };
        let with_flow = header.as_ref().map(|found| (&found.header, found.flow));
        let host_frame = HostFrame { number: frame.number, is_tcp: congestion_header::is_tcp(bytes) };
        let verdict = self.link.offer(at, ip, ect, with_flow, host_frame);
        let frame = Frame { header: header.and_then(|found| found.place), ..frame };
        // Departures up to now come first: those frames are older.
        self.place_decided(frames);
        self.place(frame, verdict, frames);
    }

    /// Returns the congestion header of a frame. Of a packet whose header is of no use it is one that every router rejects:
    /// the packet counts as input and is dropped (xcp-rcp 2.4, 2.16).
    fn header(&mut self, frame: &[u8], versions: &[u8]) -> Option<Labelled> {
        let found = congestion_header::find(frame, self.carrier)?;
        self.headers.note(found.as_ref().map_err(|fault| *fault), versions);
        Some(match found {
            Ok(found) => Labelled {
                header: found.header,
                place: found.place,
                flow: if self.link.polices() { self.hasher.hash_one(found.flow(frame)) as u32 } else { 0 },
            },
            Err(_) => Labelled { header: Header::new(NO_VERSION, Format::Standard), place: None, flow: 0 },
        })
    }

    fn place_decided(&mut self, frames: &mut FramePool) {
        while let Some(Decided { frame, verdict, feedback }) = self.link.decided()
            && let Some(frame) = self.waiting.get_mut(frame as usize).and_then(Option::take)
        {
            if let (Some(feedback), Some(place), Verdict::Deliver { .. }) = (feedback, frame.header, verdict)
            {
                congestion_header::rewrite(&mut frames.get_mut(frame.number)[..frame.len], place, feedback);
                self.headers.rewritten += 1;
            }
            self.place(frame, verdict, frames);
        }
    }

    fn place(&mut self, frame: Frame, verdict: Verdict, frames: &mut FramePool) {
        match verdict {
            Verdict::Deliver { at: release, marked } => {
                if marked {
                    ecn::mark(&mut frames.get_mut(frame.number)[..frame.len]);
                }
                self.held.push_back(Held { frame, release });
                let Some(wire) = &mut self.wire else { return };
                let changed = wire.pass(&mut frames.get_mut(frame.number)[..frame.len]);
                self.link.changed(release, changed);
                if changed.doubled {
                    let copy = Frame { number: frames.copy(frame.number, frame.len), ..frame };
                    self.held.push_back(Held { frame: copy, release });
                }
            }
            Verdict::Pending => {
                let number = frame.number as usize;
                self.waiting.resize(self.waiting.len().max(number + 1), None);
                self.waiting[number] = Some(frame);
            }
            Verdict::Lost | Verdict::Dropped => frames.free(frame.number),
        }
    }
}

fn draws(jitter: Jitter) -> Option<JitterDraws> {
    (!jitter.is_none()).then(|| JitterDraws::new(jitter))
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
