//! Queue limits.

use super::Backlog;
use super::waiting::Waiting;
use headway_units::Bytes;

/// The limits of a queue in wire bytes and in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    bytes: Bytes,
    packets: u32,
}

impl Limit {
    /// Creates limits; an absent one does not apply.
    pub(super) fn new(bytes: Option<Bytes>, packets: Option<u32>) -> Limit {
        Limit { bytes: bytes.unwrap_or(Bytes::new(u64::MAX)), packets: packets.unwrap_or(u32::MAX) }
    }

    /// Returns the limit in bytes, if packets are not limited.
    pub(super) fn in_bytes_only(&self) -> Option<Bytes> {
        (self.packets == u32::MAX).then_some(self.bytes)
    }

    /// Returns whether a packet of `size` still fits.
    pub(super) fn admits(&self, backlog: &Backlog, size: Bytes) -> bool {
        backlog.bytes + size <= self.bytes && backlog.packets < self.packets
    }

    /// Returns whether more waits than may.
    pub(super) fn is_exceeded(&self, waiting: &Waiting) -> bool {
        waiting.bytes > self.bytes.get() || waiting.packets > self.packets
    }
}
