//! Links that serve their queue one packet at a time.

use std::collections::BTreeMap;

use headway_core::queue::{Backlog, Discipline, Verdict};
use headway_core::{Bytes, Duration, Instant};
use rand::Rng;

use super::{Link, Wish};
use crate::packet::{ECT, Kind, LOST, Packet};
use crate::ring::Ring;

/// What a link needs that serves its queue one packet at a time.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) queue: Ring<Packet>,
    pub(super) sending: Option<Packet>,
    pub(super) jitter: u64,
    /// Earliest arrival of the next packet unless packets may overtake.
    pub(super) last: u64,
    /// Packets in flight by time of arrival and age, where they may overtake each other.
    pub(super) overtaking: Option<BTreeMap<(u64, u64), Packet>>,
    pub(super) entered: u64,
}

impl Staged {
    pub(super) fn bytes_sending(&self) -> u64 {
        self.sending.map_or(0, |packet| packet.size.into())
    }
}

impl Link {
    /// A packet joins the queue and is sent at once if nothing else is.
    pub(super) fn wait(&mut self, now: u64, packet: &Packet) -> Wish {
        let Some(staged) = &mut self.staged else { return Wish::Nothing };
        staged.queue.push(Packet { at: now, route: packet.route + 1, ..*packet });
        if staged.sending.is_some() { Wish::Nothing } else { self.next(now) }
    }

    /// Takes the next packet from the queue, unless the discipline drops it.
    fn next(&mut self, now: u64) -> Wish {
        while let Some(mut packet) = self.staged.as_mut().and_then(|staged| staged.queue.pop()) {
            let size = Bytes::new(packet.size.into());
            let behind = Backlog {
                bytes: Bytes::new(self.backlog - u64::from(packet.size)),
                packets: self.waiting - 1,
                idle: Duration::ZERO,
                delay: Duration::ZERO,
            };
            let waited = now - packet.at;
            let verdict = self.queue.on_departure(
                Instant::from_ns(now),
                &behind,
                Duration::from_ns(waited as i64),
                size,
                packet.has(ECT),
            );
            match verdict {
                Verdict::Accept => {}
                Verdict::Mark => packet.flags |= self.mark(),
                Verdict::Drop => {
                    self.backlog -= u64::from(packet.size);
                    self.waiting -= 1;
                    self.statistics.dropped.add(packet.size);
                    if packet.kind != Kind::Probe {
                        self.accepted -= u64::from(packet.size);
                    }
                    if packet.kind == Kind::Datagram {
                        self.accepted_datagrams -= u64::from(packet.size);
                    }
                    self.discard(&packet);
                    continue;
                }
            }
            self.statistics.delay.add(waited);
            self.free = self.server.finish(now, packet.size);
            if let Some(staged) = &mut self.staged {
                staged.sending = Some(packet);
            }
            return Wish::Serve(self.free);
        }
        Wish::Nothing
    }

    /// The transmission of a packet has ended: it takes to the wire, and the next one is sent. Wishes for both.
    pub(crate) fn serve(&mut self, now: u64) -> (Wish, Wish) {
        let Some(packet) = self.staged.as_mut().and_then(|staged| staged.sending.take()) else {
            return (Wish::Nothing, Wish::Nothing);
        };
        self.served(packet.kind, packet.size);
        let arrival = self.launch(now, packet);
        (arrival, self.next(now))
    }

    fn launch(&mut self, now: u64, mut packet: Packet) -> Wish {
        if self.loses() {
            packet.flags |= LOST;
        }
        let random = self.rng.next_u64();
        let Some(staged) = &mut self.staged else { return Wish::Nothing };
        let jitter = ((u128::from(random) * (u128::from(staged.jitter) + 1)) >> 64) as u64;
        (packet.at, packet.joined) = (now + self.delay + jitter, now);
        if let Some(flight) = &mut staged.overtaking {
            staged.entered += 1;
            let first = flight.first_key_value().is_none_or(|((at, _), _)| packet.at < *at);
            flight.insert((packet.at, staged.entered), packet);
            return if first { Wish::Arrival { at: packet.at, since: now } } else { Wish::Nothing };
        }
        packet.at = packet.at.max(staged.last);
        staged.last = packet.at;
        let first = self.flight.len() == 0;
        self.flight.push(packet);
        if first { self.first_arrival(now, packet.at) } else { Wish::Nothing }
    }
}
