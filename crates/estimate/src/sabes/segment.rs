//! What a tap sees of a TCP segment.

use headway_units::Instant;

/// The direction of a segment relative to the transfer that is observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the sender of the transfer's data to its receiver.
    #[default]
    Data,
    /// From the receiver of the data to its sender.
    Acks,
}

/// The control flags of a TCP segment that matter here; the ACK flag is [`Segment::acknowledgement`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// The segment opens the connection.
    pub syn: bool,
    /// The sender of the segment has no more data.
    pub fin: bool,
    /// The connection is aborted.
    pub rst: bool,
}

/// A TCP segment as a tap sees it: from a capture, an interface or the simulator.
///
/// A connection that carries data both ways has two transfers, which see every segment
/// with opposite [`Way`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// When the segment passed the tap, by the tap's clock.
    pub at: Instant,
    /// The direction of the segment.
    pub way: Way,
    /// The sequence number of its first byte, as in the header.
    pub sequence: u32,
    /// The acknowledgement number; `None` without the ACK flag.
    pub acknowledgement: Option<u32>,
    /// Bytes of TCP payload. More than the MSS if the packet was captured before segmentation or after
    /// reassembly by a NIC.
    pub payload: u32,
    /// Bytes of IP and TCP headers of this packet, with extension headers and options.
    pub headers: u32,
    /// The window field as in the header, not scaled.
    pub window: u16,
    /// The control flags.
    pub flags: Flags,
    /// The shift count of the window scale option, which only SYN segments carry.
    pub window_scale: Option<u8>,
    /// The maximum segment size option, bytes, which only SYN segments carry.
    pub mss: Option<u16>,
    /// Whether options may be missing, because the capture kept less than all of them.
    pub cut: bool,
    /// Whether the segment carries SACK blocks.
    pub sack: bool,
    /// The value and the echo of the timestamps option.
    pub timestamps: Option<(u32, u32)>,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A segment with data, sent at `us` microseconds.
    pub(in super::super) fn data(us: u64, sequence: u32, payload: u32) -> Segment {
        Segment {
            at: Instant::from_ns(us * 1_000),
            way: Way::Data,
            sequence,
            acknowledgement: Some(1),
            payload,
            headers: 52,
            window: 1_000,
            ..Segment::default()
        }
    }

    /// An ACK at `us` microseconds.
    pub(in super::super) fn ack(us: u64, number: u32) -> Segment {
        Segment { way: Way::Acks, sequence: 1, acknowledgement: Some(number), ..data(us, 1, 0) }
    }
}
