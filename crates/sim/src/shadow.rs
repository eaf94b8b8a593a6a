//! The queue of a link as it would be without probes: what a measurement does to others.

use std::collections::VecDeque;

use headway_core::queue::{Backlog, Discipline, Queue, TokenBucket, Verdict};
use headway_core::{Bytes, Duration, Instant};

use crate::packet::{ECT, Packet};
use crate::service::Server;

/// Policer, queue and server of a link to which all packets come but probes, at the times when they really come.
///
/// That is exact for traffic that does not react, at the first queue of its path. What a discipline drops on departure is not
/// seen.
#[derive(Debug)]
pub(crate) struct Shadow {
    server: Server,
    queue: Queue,
    policer: Option<TokenBucket>,
    /// When the last packet has been sent (ns).
    free: u64,
    /// Packets that wait or are being sent: when they have been sent (ns), and their sizes.
    waiting: VecDeque<(u64, u16)>,
    backlog: u64,
    /// Packets turned away here.
    dropped: u64,
    /// Packets that were no probes and were turned away on the real link.
    really_dropped: u64,
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
            really_dropped: 0,
        }
    }

    /// A packet comes to the link at `now`.
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
        if !conforms || self.queue.on_arrival(at, &backlog, size, packet.has(ECT)) == Verdict::Drop {
            self.dropped += 1;
            return;
        }
        self.free = self.server.finish(now.max(self.free), packet.size);
        self.waiting.push_back((self.free, packet.size));
        self.backlog += u64::from(packet.size);
    }

    /// A packet that is no probe was turned away on the real link.
    pub(crate) fn turned_away(&mut self) {
        self.really_dropped += 1;
    }

    /// Packets really turned away less those turned away here; negative where probes have, by chance, saved some.
    pub(crate) fn displaced(&self) -> i64 {
        self.really_dropped as i64 - self.dropped as i64
    }

    /// How long a packet that comes now would wait (ns).
    pub(crate) fn delay(&self, now: u64) -> u64 {
        self.free.saturating_sub(now)
    }

    pub(crate) fn memory(&self) -> usize {
        size_of::<Shadow>() + self.waiting.capacity() * size_of::<(u64, u16)>()
    }
}
