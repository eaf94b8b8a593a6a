//! Protection against wrapped sequence numbers by time stamps (PAWS, RFC 7323 5).

use super::ticks::tick;
use crate::packet::Packet;

/// A stamp may be so many ticks older than the latest (Linux's `TCP_PAWS_WINDOW`).
const REPLAY_WINDOW: u64 = 1;

/// The stamps that a receiver has seen.
///
/// A segment that repeats what has been acknowledged brings a new stamp, and first copies that left well before it and are still under
/// way, because packets overtake each other, are thrown away: so Linux loses by repairs where nothing was lost.
#[derive(Debug)]
pub(super) struct Paws {
    /// Whether segments are refused at all.
    enabled: bool,
    /// The last acknowledgement said that everything below this has arrived.
    pub(super) last_ack_sent: u64,
    /// The latest stamp of the segments that began no later, in ticks.
    ts_recent: u64,
}

impl Paws {
    pub(super) fn new(enabled: bool) -> Paws {
        Paws { enabled, last_ack_sent: 0, ts_recent: 0 }
    }

    /// Takes in the stamp of a segment; says whether the segment counts.
    #[inline]
    pub(super) fn accepts(&mut self, segment: &Packet) -> bool {
        let timestamp = tick(segment.sent);
        if segment.seq <= self.last_ack_sent && timestamp >= self.ts_recent {
            self.ts_recent = timestamp;
        }
        !self.enabled || timestamp + REPLAY_WINDOW >= self.ts_recent
    }
}
