//! Timestamps of the connections that pass a middlebox.
//!
//! Packets carry none, as nothing else needs them. A segment has the time when it was sent, and its ACK
//! echoes that. When an ACK was sent is noted here: a segment echoes that of the latest ACK that its
//! sender had when it sent.

use std::collections::VecDeque;

use crate::packet::{Kind, Packet};

/// Most ACKs that are remembered on their way to a sender, so that memory is bounded where none arrives.
const MOST_ACKS: usize = 1 << 16;

/// What a timestamp counts, in ns: as with Linux.
const TICK: u64 = 1_000_000;

/// An ACK on its way to the sender: what it acknowledges, the time that it echoes, and its own timestamp.
#[derive(Clone, Copy, Debug)]
struct OnItsWay {
    seq: u64,
    sent: u64,
    stamp: u32,
}

/// ACKs on their way, in the order of their sending.
#[derive(Clone, Debug, Default)]
struct Acks(VecDeque<OnItsWay>);

/// The ACKs of a connection behind a middlebox.
#[derive(Clone, Debug, Default)]
pub(super) struct Echoes {
    /// Before the middlebox, and behind it.
    acks: [Acks; 2],
    /// When ACKs reached the sender (ns), and their timestamps.
    heard: VecDeque<(u64, u32)>,
    /// The timestamp of the latest ACK that the sender had when it sent the latest segment.
    echo: Option<u32>,
}

/// Returns a time in ns as a timestamp, which wraps.
fn stamp(ns: u64) -> u32 {
    (ns / TICK) as u32
}

impl Acks {
    fn add(&mut self, ack: &Packet, stamp: u32) {
        if self.0.len() == MOST_ACKS {
            self.0.pop_front();
        }
        self.0.push_back(OnItsWay { seq: ack.seq, sent: ack.sent, stamp });
    }

    /// Takes the timestamp of an ACK that has arrived. Those that were sent before it were
    /// lost, or come too late.
    fn take(&mut self, ack: &Packet) -> Option<u32> {
        let is_it = |known: &OnItsWay| (known.seq, known.sent) == (ack.seq, ack.sent);
        let place = self.0.iter().position(is_it)?;
        self.0.drain(..=place).next_back().map(|known| known.stamp)
    }
}

impl Echoes {
    /// Returns timestamp and echo of a packet that passes the middlebox; none if it has no echo.
    pub(super) fn of(&mut self, packet: &Packet) -> Option<[u32; 2]> {
        match packet.kind {
            Kind::SynAck => Some([self.acks[0].take(packet)?, stamp(packet.sent)]),
            Kind::Ack => {
                let stamp = self.acks[0].take(packet)?;
                self.acks[1].add(packet, stamp);
                Some([stamp, self::stamp(packet.sent)])
            }
            Kind::Segment => {
                while let Some((_, echo)) = self.heard.pop_front_if(|(at, _)| *at <= packet.sent) {
                    self.echo = Some(echo);
                }
                self.echo.map(|echo| [stamp(packet.sent), echo])
            }
            _ => None,
        }
    }

    /// Notes that the receiver sends an ACK, or a SYN-ACK.
    pub(super) fn on_reply(&mut self, now: u64, ack: &Packet) {
        self.acks[0].add(ack, stamp(now));
    }

    /// Notes that an ACK has reached the sender.
    pub(super) fn on_ack(&mut self, now: u64, ack: &Packet) {
        if let Some(stamp) = self.acks[1].take(ack) {
            self.heard.push_back((now, stamp));
        }
    }
}
