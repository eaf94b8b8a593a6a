//! Counters of a link.

use headway_core::Bytes;
use headway_record::Histogram;

/// Packets and their wire bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Wire bytes.
    pub bytes: Bytes,
}

impl Count {
    #[inline]
    pub(crate) fn add(&mut self, size: u16) {
        self.packets += 1;
        self.bytes = Bytes::new(self.bytes.get().wrapping_add(size.into()));
    }

    #[inline]
    pub(super) fn add_all(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes = Bytes::new(self.bytes.get().wrapping_add(bytes));
    }
}

/// Counters of a link since the start of the run or the last reset.
#[derive(Clone, Debug, Default)]
pub struct LinkStatistics {
    /// Packets that arrived at the link.
    pub arrived: Count,
    /// TCP segments and ACKs whose transmission has ended.
    pub served_tcp: Count,
    /// Datagrams of sources whose transmission has ended.
    pub served_other: Count,
    /// Probe packets whose transmission has ended.
    pub served_probe: Count,
    /// Packets delivered at the far end.
    pub delivered: Count,
    /// Packets dropped by the queue discipline.
    pub dropped: Count,
    /// Packets dropped by the policer.
    pub policed: Count,
    /// Packets lost on the wire.
    pub lost: Count,
    /// Packets marked CE.
    pub marked: u64,
    /// Queueing delay of all packets served: time between arrival and start of transmission.
    pub delay: Histogram,
}
