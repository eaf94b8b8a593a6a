//! The records of a tap as TCP segments with bytes and wrapping sequence numbers, as a capture has them.

use headway_estimate::sabes::{Flags, Segment, Way};

use crate::config::TcpConfig;
use crate::network::{TapEvent, TapRecord};
use crate::transport::sender::SEGMENT_OVERHEAD;

/// Wire bytes of every packet that belong to Ethernet.
const FRAMING: u32 = 38;
/// Bytes of a TCP header's timestamps option, which every segment but a SYN carries.
const TIMESTAMPS: u32 = 12;
/// The shift count that the sender's SYN offers.
pub(crate) const SENDER_SCALE: u8 = 7;

/// Returns the shift count that the receiver's SYN-ACK offers: twice the buffer fits into the field (Linux's
/// `tcp_select_initial_window`).
pub(crate) fn receiver_scale(config: &TcpConfig) -> u8 {
    config.receive_buffer.get().max(1).ilog2().saturating_sub(15).min(14) as u8
}

/// Returns the largest segment that both SYNs say.
pub(crate) fn largest_segment(mss: u32) -> u16 {
    (mss + TIMESTAMPS) as u16
}

/// Returns the window field for this many segments, rounded up: the simulated sender uses every
/// segment of the window.
pub(crate) fn field(segments: u32, mss: u32, scale: u8) -> u16 {
    (u64::from(segments) * u64::from(mss)).div_ceil(1 << scale).min(u16::MAX.into()) as u16
}

/// Converts the tap records of one flow into segments.
#[derive(Clone, Debug)]
pub struct Conversion {
    mss: u32,
    size: Option<u64>,
    /// The sequence number of the first byte of data.
    first: u32,
    scale: u8,
}

impl Conversion {
    /// Returns the conversion for a flow with this configuration, whose data begin with the
    /// sequence number `first`.
    pub fn new(config: &TcpConfig, first: u32) -> Conversion {
        let size = config.size.map(|size| size.get());
        Conversion { mss: config.mss, size, first, scale: receiver_scale(config) }
    }

    /// Returns the segment of a record.
    pub fn segment(&self, record: &TapRecord) -> Segment {
        let size = record.size.get() as u32;
        let blank = Segment {
            at: record.at,
            way: Way::Data,
            sequence: self.first,
            acknowledgement: Some(1),
            payload: 0,
            headers: size - FRAMING,
            window: u16::MAX,
            ..Segment::default()
        };
        let open = Segment {
            sequence: self.first.wrapping_sub(1),
            flags: Flags { syn: true, ..Flags::default() },
            mss: Some(largest_segment(self.mss)),
            ..blank
        };
        match record.event {
            TapEvent::Syn => Segment { acknowledgement: None, window_scale: Some(SENDER_SCALE), ..open },
            TapEvent::SynAck => Segment {
                way: Way::Acks,
                sequence: 0,
                acknowledgement: Some(self.first),
                window_scale: Some(self.scale),
                ..open
            },
            TapEvent::HandshakeAck => blank,
            TapEvent::Segment { sequence, .. } => Segment {
                sequence: self.number(sequence),
                payload: size - SEGMENT_OVERHEAD,
                headers: SEGMENT_OVERHEAD - FRAMING,
                ..blank
            },
            TapEvent::Ack { number, window, sack } => Segment {
                way: Way::Acks,
                sequence: 1,
                acknowledgement: Some(self.number(number)),
                window: field(window, self.mss, self.scale),
                sack,
                ..blank
            },
        }
    }

    /// Returns the sequence number of the first byte of a segment, or of the byte behind the last one.
    fn number(&self, segment: u64) -> u32 {
        let bytes = segment * u64::from(self.mss);
        self.first.wrapping_add(self.size.map_or(bytes, |size| bytes.min(size)) as u32)
    }
}
