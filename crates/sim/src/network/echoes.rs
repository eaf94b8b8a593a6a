//! Timestamps of the connections that pass a middlebox.
//!
//! Packets carry none, as nothing else needs them. A segment has the time when it was sent, and its ACK echoes that. Of an ACK the
//! time counts when it passed the middlebox: a segment echoes that of the latest ACK that its sender had when it sent.

use std::collections::VecDeque;

use crate::packet::{Kind, Packet};

/// Most ACKs that are remembered on their way to a sender, so that memory is bounded where none arrives.
const MOST_ACKS: usize = 1 << 16;

/// What a timestamp counts, in ns.
const TICK: u64 = 1_000;

/// An ACK on its way from a middlebox to the sender.
#[derive(Clone, Copy, Debug)]
struct Passed {
    seq: u64,
    sent: u64,
    stamp: u32,
}

/// The ACKs of a connection behind a middlebox.
#[derive(Clone, Debug, Default)]
pub(super) struct Echoes {
    passed: VecDeque<Passed>,
    /// When ACKs reached the sender (ns), and their timestamps.
    heard: VecDeque<(u64, u32)>,
    /// The timestamp of the latest ACK that the sender had when it sent the latest segment.
    echo: Option<u32>,
}

/// Returns a time in ns as a timestamp, which wraps.
fn stamp(ns: u64) -> u32 {
    (ns / TICK) as u32
}

impl Echoes {
    /// Returns timestamp and echo of a packet that passes the middlebox; none if it has no echo.
    pub(super) fn of(&mut self, now: u64, packet: &Packet) -> Option<[u32; 2]> {
        match packet.kind {
            Kind::Ack => {
                if self.passed.len() == MOST_ACKS {
                    self.passed.pop_front();
                }
                self.passed.push_back(Passed { seq: packet.seq, sent: packet.sent, stamp: stamp(now) });
                Some([stamp(now), stamp(packet.sent)])
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

    /// Notes that an ACK has reached the sender. Those that passed before it were lost, or come too late.
    pub(super) fn on_ack(&mut self, now: u64, ack: &Packet) {
        let is_it = |passed: &Passed| (passed.seq, passed.sent) == (ack.seq, ack.sent);
        let Some(place) = self.passed.iter().position(is_it) else { return };
        if let Some(passed) = self.passed.drain(..=place).next_back() {
            self.heard.push_back((now, passed.stamp));
        }
    }
}
