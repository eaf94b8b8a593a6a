//! How large the receive window of a host gets.

use crate::config::{Burst, TcpConfig};

/// While its window grows, a host acknowledges every segment at once. It grows by so many segments for each that comes.
pub(super) const GROWTH: u64 = 2;
/// To so much of itself it grows, as a ratio: from the half of its buffer that a host takes for payload at first, to 153/256,
/// which it finds when the first full segment has come (Linux's `tcp_grow_window` and `scaling_ratio`; 1448 bytes take 2408 of memory).
const WINDOW_GROWTH: (u64, u64) = (153, 128);
/// Bytes of it that the segment takes whose acknowledgement tells the window, because nobody has read it by then: 2408 of memory.
const UNREAD_SEGMENT: u64 = 2408 * 153 / 256;
/// What the window field holds, in units of a power of two that is chosen by the buffer at first: so that it can tell twice as much, but
/// at most 14 bits (Linux's `tcp_select_initial_window`, RFC 7323 2.3).
const FIELD: u64 = 65_535;
const FIELD_BITS: u32 = 15;
const MAX_SCALE: u32 = 14;

/// The largest window, in bytes, that a host with this buffer can tell.
fn max_advertised(buffer: u64) -> u64 {
    FIELD << buffer.max(1).ilog2().saturating_sub(FIELD_BITS).min(MAX_SCALE)
}

/// What a host has room for, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// At first.
    pub(super) initial: u64,
    /// When its window has grown.
    pub(super) max: u64,
    /// By so much it grows, whether that can be told or not.
    pub(super) growth: u64,
}

impl ReceiveWindow {
    pub(super) fn new(config: &TcpConfig) -> ReceiveWindow {
        let (bytes, mss) = (config.receive_buffer.get(), u64::from(config.mss));
        let initial = (bytes / mss).max(1);
        if config.burst != Burst::Host {
            return ReceiveWindow { initial, max: initial, growth: 0 };
        }
        let grown = bytes.saturating_mul(WINDOW_GROWTH.0) / WINDOW_GROWTH.1;
        let read = grown.saturating_sub(UNREAD_SEGMENT);
        let advertised = max_advertised(bytes);
        // A window that is told in bytes is a whole number of segments, and stays as it is for less than another one.
        let stays = advertised == FIELD && read < (initial + 1) * mss;
        let max = if stays { initial } else { read.min(advertised) / mss };
        ReceiveWindow { initial, max: max.max(1), growth: grown / mss - initial.min(grown / mss) }
    }
}
