//! The queue of a link as it would be without probes, to measure their effect on other traffic.

use std::collections::VecDeque;

use headway_queue::{Backlog, Discipline, Queue, TokenBucket, Verdict};
use headway_units::{Bytes, Duration, Instant};

use crate::config::QueueChange;
use crate::packet::Packet;
use headway_link::Server;

/// A copy of the policer, queue and server of a link that receives all packets except probes, at
/// their real arrival times.
///
/// It is exact for unresponsive traffic at the first queue of its path. Drops on departure are not modelled.
#[derive(Debug)]
pub(crate) struct Shadow {
    server: Server,
    queue: Queue,
    policer: Option<TokenBucket>,
    /// When the transmission of the last packet ends (ns).
    free: u64,
    /// Packets queued or in service: end of transmission (ns) and size.
    waiting: VecDeque<(u64, u16)>,
    backlog: u64,
    /// Packets dropped here.
    dropped: u64,
    /// Packets other than probes dropped by the real link.
    dropped_by_link: u64,
}

impl Shadow {
    pub(crate) fn new(server: Server, queue: Queue, policer: Option<TokenBucket>) -> Shadow {
        Shadow {
            server,
            queue,
            policer,
            free: 0,
            waiting: VecDeque::new(),
            backlog: 0,
            dropped: 0,
            dropped_by_link: 0,
        }
    }

    /// A packet arrives at the link at `now`.
    pub(crate) fn arrive(&mut self, now: u64, packet: &Packet) {
        while let Some((_, size)) = self.waiting.pop_front_if(|(finish, _)| *finish <= now) {
            self.backlog -= u64::from(size);
        }
        let (at, size) = (Instant::from_ns(now), Bytes::new(packet.size.into()));
        let conforms = self.policer.as_mut().is_none_or(|policer| policer.conforms(at, size));
        let backlog = Backlog {
            bytes: Bytes::new(self.backlog),
            packets: self.waiting.len() as u32,
            idle: Duration::from_ns(now.saturating_sub(self.free) as i64),
            delay: Duration::from_ns(self.delay(now) as i64),
        };
        if !conforms || self.queue.on_arrival(at, &backlog, &packet.seen()) == Verdict::Drop {
            self.dropped += 1;
            return;
        }
        self.free = self.server.finish(now.max(self.free), packet.size);
        self.waiting.push_back((self.free, packet.size));
        self.backlog += u64::from(packet.size);
    }

    /// The discipline of the link is replaced at `now`.
    pub(crate) fn change_queue(&mut self, now: u64, change: &QueueChange) {
        change.apply(&mut self.queue, now, (0, 0));
    }

    /// Counts a packet other than a probe that the real link dropped.
    pub(crate) fn count_rejected(&mut self) {
        self.dropped_by_link += 1;
    }

    /// Returns how many packets other than probes the real link dropped.
    pub(crate) fn dropped_by_link(&self) -> u64 {
        self.dropped_by_link
    }

    /// Returns the drops on the real link minus the drops here; negative where probes happen
    /// to have saved packets.
    pub(crate) fn displaced(&self) -> i64 {
        self.dropped_by_link as i64 - self.dropped as i64
    }

    /// Returns the queueing delay of a packet that arrives now (ns).
    pub(crate) fn delay(&self, now: u64) -> u64 {
        self.free.saturating_sub(now)
    }

    pub(crate) fn memory(&self) -> usize {
        size_of::<Shadow>() + self.waiting.capacity() * size_of::<(u64, u16)>()
    }
}
