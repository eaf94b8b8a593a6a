//! How much a queue may hold.

use super::Backlog;
use crate::units::Bytes;

/// The room of a queue, in wire bytes and in packets; what is absent does not limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    bytes: Bytes,
    packets: u32,
}

impl Limit {
    /// At most so many bytes and so many packets.
    pub(super) fn new(bytes: Option<Bytes>, packets: Option<u32>) -> Limit {
        Limit { bytes: bytes.unwrap_or(Bytes::new(u64::MAX)), packets: packets.unwrap_or(u32::MAX) }
    }

    /// The bytes, where packets are not counted.
    pub(super) fn in_bytes_only(&self) -> Option<Bytes> {
        (self.packets == u32::MAX).then_some(self.bytes)
    }

    /// Whether a packet of `size` still fits.
    #[inline]
    pub(super) fn admits(&self, backlog: &Backlog, size: Bytes) -> bool {
        backlog.bytes + size <= self.bytes && backlog.packets < self.packets
    }
}
