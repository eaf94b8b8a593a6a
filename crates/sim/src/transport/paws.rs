//! Protection against wrapped sequence numbers by timestamps (PAWS, RFC 7323 5).

use super::ticks::tick;
use crate::packet::Packet;

/// Ticks by which a timestamp may be older than the most recent one (Linux's `TCP_PAWS_WINDOW`).
const REPLAY_WINDOW: u64 = 1;

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
    /// TS.Recent of RFC 7323, in ticks.
    ts_recent: u64,
}

impl Paws {
    pub(super) fn new(enabled: bool) -> Paws {
        Paws { enabled, last_ack_sent: 0, ts_recent: 0 }
    }

    /// Takes the timestamp of a segment; returns whether the segment is acceptable.
    #[inline]
    pub(super) fn accepts(&mut self, segment: &Packet) -> bool {
        let timestamp = tick(segment.sent);
        if segment.seq <= self.last_ack_sent && timestamp >= self.ts_recent {
            self.ts_recent = timestamp;
        }
        !self.enabled || timestamp + REPLAY_WINDOW >= self.ts_recent
    }
}
