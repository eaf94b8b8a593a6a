//! Probe packets: scheduled in advance, logged at one link and at the receiver.

use std::collections::VecDeque;

use headway_units::{Bytes, Duration, Instant};

use crate::link::Link;
use crate::packet::{Kind, Packet};

/// The log entry of a probe packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeLog {
    /// When it was sent into the path.
    pub sent: Instant,
    /// When its transmission at the tapped link ended; for a packet dropped there, when that of the
    /// last accepted packet ends. `None` until it reaches that link, or when that link serves its
    /// queue packet by packet.
    pub tapped: Option<Instant>,
    /// Bytes of other packets that the tapped link had accepted before it since the start of the run.
    pub other_bytes: Bytes,
    /// The additional queueing delay that probes cause for a packet right behind it, summed over the watched
    /// links it has passed.
    pub added_delay: Duration,
    /// When it arrived; `None` until then.
    pub arrived: Option<Instant>,
}

/// Sends scheduled packets.
#[derive(Debug, Default)]
pub(crate) struct Prober {
    owner: u32,
    route: u32,
    tap: Option<u32>,
    planned: VecDeque<(u64, u16)>,
    log: Vec<ProbeLog>,
    /// Number of packets whose log entries have been taken.
    taken: u64,
    /// Links, and the bytes of this prober's packets that each has accepted.
    accepted: Vec<(u32, u64)>,
}

impl Prober {
    pub(crate) fn new(owner: u32, route: u32, tap: Option<u32>) -> Prober {
        Prober { owner, route, tap, ..Prober::default() }
    }

    /// Returns the index of its route.
    pub(crate) fn route(&self) -> u32 {
        self.route
    }

    /// Schedules a packet; returns true when no other is scheduled.
    pub(crate) fn plan(&mut self, at: u64, size: Bytes) -> bool {
        self.planned.push_back((at, size.get() as u16));
        self.planned.len() == 1
    }

    /// Sends the first scheduled packet; also returns the time of the next one.
    pub(crate) fn send(&mut self, now: u64) -> (Option<Packet>, Option<u64>) {
        let packet = self.planned.pop_front().map(|(_, size)| Packet {
            seq: self.taken + self.log.len() as u64,
            owner: self.owner,
            route: self.route,
            size,
            kind: Kind::Probe,
            ..Packet::default()
        });
        self.log.push(ProbeLog { sent: Instant::from_ns(now), ..ProbeLog::default() });
        (packet, self.planned.front().map(|(at, _)| *at))
    }

    /// Logs that packet `seq` was sent over `link`, number `hop`, which had accepted `before` bytes of
    /// all packets until then.
    pub(crate) fn on_link(&mut self, now: u64, (hop, link): (u32, &mut Link), before: u64, seq: u64) {
        let own = self.accepted_by(hop);
        self.accept(hop, link.accepted() - before);
        let (tapped, added) = (self.tap == Some(hop), link.added_delay(now));
        if let Some(log) = self.entry(seq) {
            log.added_delay += Duration::from_ns(added as i64);
            if tapped {
                log.tapped = link.knows_departure().then(|| Instant::from_ns(link.free()));
                log.other_bytes = Bytes::new(before - own);
            }
        }
    }

    fn accept(&mut self, hop: u32, bytes: u64) {
        match self.accepted.iter_mut().find(|(link, _)| *link == hop) {
            Some((_, sum)) => *sum += bytes,
            None => self.accepted.push((hop, bytes)),
        }
    }

    /// Returns the bytes of this prober's packets that link number `hop` has accepted.
    pub(crate) fn accepted_by(&self, hop: u32) -> u64 {
        self.accepted.iter().find(|(link, _)| *link == hop).map_or(0, |(_, bytes)| *bytes)
    }

    pub(crate) fn memory(&self) -> usize {
        self.planned.capacity() * size_of::<(u64, u16)>() + self.log.capacity() * size_of::<ProbeLog>()
    }

    fn entry(&mut self, seq: u64) -> Option<&mut ProbeLog> {
        self.log.get_mut(usize::try_from(seq.checked_sub(self.taken)?).ok()?)
    }

    pub(crate) fn arrived(&mut self, now: u64, seq: u64) {
        if let Some(log) = self.entry(seq) {
            // A second copy may come later.
            log.arrived.get_or_insert(Instant::from_ns(now));
        }
    }

    pub(crate) fn all_arrived(&self) -> bool {
        // The last packet usually arrives last, so the search is short.
        self.planned.is_empty() && self.log.iter().rev().all(|log| log.arrived.is_some())
    }

    pub(crate) fn latest_delay(&self) -> Option<Duration> {
        self.log.iter().rev().find_map(|log| Some(log.arrived? - log.sent))
    }

    pub(crate) fn take_log(&mut self) -> Vec<ProbeLog> {
        self.taken += self.log.len() as u64;
        std::mem::take(&mut self.log)
    }
}
