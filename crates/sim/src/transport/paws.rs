//! Protection against wrapped sequence numbers by timestamps (PAWS, RFC 7323 5).

use super::ticks::{TICK, tick};
use crate::packet::Packet;

/// Time by which a timestamp may be older than the most recent one, ns (Linux's `TCP_PAWS_WINDOW`).
const REPLAY_WINDOW: u64 = TICK;

/// The timestamp state of a receiver.
///
/// A needless retransmission of an acknowledged segment raises TS.Recent. Reordered originals that left well
/// before it and are still in flight are then dropped, so Linux loses segments to spurious retransmissions.
#[derive(Debug)]
pub(super) struct Paws {
    /// Whether segments with old timestamps are dropped.
    enabled: bool,
    /// The acknowledgement number of the last ACK sent (RFC 7323, Last.ACK.sent).
    pub(super) last_ack_sent: u64,
    /// TS.Recent of RFC 7323: the beginning of its tick (ns).
    ts_recent: u64,
}

impl Paws {
    pub(super) fn new(enabled: bool) -> Paws {
        Paws { enabled, last_ack_sent: 0, ts_recent: 0 }
    }

    /// Takes the timestamp of a segment; returns whether the segment is acceptable.
    pub(super) fn accepts(&mut self, segment: &Packet) -> bool {
        // Compares times without converting them to ticks, as divisions are slow.
        if segment.seq <= self.last_ack_sent && segment.sent >= self.ts_recent + TICK {
            self.ts_recent = tick(segment.sent) * TICK;
        }
        !self.enabled || segment.sent + REPLAY_WINDOW >= self.ts_recent
    }
}
