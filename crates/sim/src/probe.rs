//! Probe packets: planned ahead, and logged at a link and at the far end.

use std::collections::VecDeque;

use headway_core::{Bytes, Duration, Instant};

use crate::link::Link;
use crate::packet::{Kind, Packet};

/// What became of a probe packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeLog {
    /// When it entered the path.
    pub sent: Instant,
    /// When the tapped link has sent it; `None` when that link serves its queue one packet at a time, or dropped it and none
    /// came after.
    pub tapped: Option<Instant>,
    /// Bytes of other packets that the tapped link had accepted before it, since the start of the run.
    pub other_bytes: Bytes,
    /// How much longer a packet right behind it would wait, summed over the watched links that it passed, because of probes.
    pub added_delay: Duration,
    /// When it arrived; `None` as long as it has not.
    pub arrived: Option<Instant>,
}

/// Sends planned packets.
#[derive(Debug)]
pub(crate) struct Prober {
    owner: u32,
    route: u32,
    tap: Option<u32>,
    planned: VecDeque<(u64, u16)>,
    log: Vec<ProbeLog>,
    /// Packets whose log has been taken.
    forgotten: u64,
    /// Links and the bytes that they have accepted.
    accepted: Vec<(u32, u64)>,
}

impl Prober {
    pub(crate) fn new(owner: u32, route: u32, tap: Option<u32>) -> Prober {
        Prober {
            owner,
            route,
            tap,
            planned: VecDeque::new(),
            log: Vec::new(),
            forgotten: 0,
            accepted: Vec::new(),
        }
    }

    /// Where its route begins.
    pub(crate) fn route(&self) -> u32 {
        self.route
    }

    /// Plans a packet; true when it is the only one.
    pub(crate) fn plan(&mut self, at: u64, size: Bytes) -> bool {
        self.planned.push_back((at, size.get() as u16));
        self.planned.len() == 1
    }

    /// Sends the first planned packet; also says when the next one leaves.
    pub(crate) fn send(&mut self, now: u64) -> (Option<Packet>, Option<u64>) {
        let packet = self.planned.pop_front().map(|(_, size)| Packet {
            seq: self.forgotten + self.log.len() as u64,
            owner: self.owner,
            route: self.route,
            size,
            kind: Kind::Probe,
            ..Packet::default()
        });
        self.log.push(ProbeLog {
            sent: Instant::from_ns(now),
            tapped: None,
            other_bytes: Bytes::ZERO,
            added_delay: Duration::ZERO,
            arrived: None,
        });
        (packet, self.planned.front().map(|(at, _)| *at))
    }

    /// Packet `seq` has come to `link`, number `hop`, which had accepted `before` bytes of all packets then.
    pub(crate) fn passed(&mut self, now: u64, (hop, link): (u32, &mut Link), before: u64, seq: u64) {
        let own = self.accepted_by(hop);
        self.accept(hop, link.accepted() - before);
        let (tapped, added) = (self.tap == Some(hop), link.added_delay(now));
        if let Some(log) = self.entry(seq) {
            log.added_delay += Duration::from_ns(added as i64);
            if tapped {
                log.tapped = link.is_immediate().then(|| Instant::from_ns(link.free()));
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

    /// Bytes that link number `hop` has accepted.
    pub(crate) fn accepted_by(&self, hop: u32) -> u64 {
        self.accepted.iter().find(|(link, _)| *link == hop).map_or(0, |(_, bytes)| *bytes)
    }

    pub(crate) fn memory(&self) -> usize {
        self.planned.capacity() * size_of::<(u64, u16)>() + self.log.capacity() * size_of::<ProbeLog>()
    }

    fn entry(&mut self, seq: u64) -> Option<&mut ProbeLog> {
        self.log.get_mut(usize::try_from(seq.checked_sub(self.forgotten)?).ok()?)
    }

    pub(crate) fn arrived(&mut self, now: u64, seq: u64) {
        if let Some(log) = self.entry(seq) {
            log.arrived = Some(Instant::from_ns(now));
        }
    }

    pub(crate) fn all_arrived(&self) -> bool {
        // The last packet arrives last unless packets overtake each other, so the search is short.
        self.planned.is_empty() && self.log.iter().rev().all(|log| log.arrived.is_some())
    }

    pub(crate) fn take_log(&mut self) -> Vec<ProbeLog> {
        self.forgotten += self.log.len() as u64;
        std::mem::take(&mut self.log)
    }
}
