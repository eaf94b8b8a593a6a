//! What waits in one of several queues.

use super::Backlog;
use headway_units::Bytes;

/// Wire bytes and packets that wait, without the packet in transmission.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) bytes: u64,
    pub(super) packets: u32,
}

impl Waiting {
    /// Adds a packet of this size on the wire.
    pub(super) fn add(&mut self, size: Bytes) {
        self.bytes += size.get();
        self.packets += 1;
    }

    /// Removes a packet of this size on the wire.
    pub(super) fn remove(&mut self, size: Bytes) {
        self.bytes = self.bytes.saturating_sub(size.get());
        self.packets = self.packets.saturating_sub(1);
    }

    /// Returns it as a part of the backlog of the whole link; the time that a packet waits is at
    /// most that of the whole.
    pub(super) fn part_of(&self, whole: &Backlog) -> Backlog {
        Backlog { bytes: Bytes::new(self.bytes), packets: self.packets, ..*whole }
    }
}
