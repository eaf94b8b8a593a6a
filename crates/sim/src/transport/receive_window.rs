//! The size of a host's receive window.

use crate::config::TcpConfig;

/// Segments by which the window grows for each that arrives; while it grows, every segment is acknowledged at
/// once.
pub(super) const GROWTH: u64 = 2;
/// How far the window grows, as a ratio: from half of the buffer, which a host reserves for payload at first, to
/// 153/256, which it computes when the first full segment arrives (Linux's `tcp_grow_window` and `scaling_ratio`;
/// a segment of 1448 bytes takes 2408 of memory).
const WINDOW_GROWTH: (u64, u64) = (153, 128);
/// Bytes of the window that the segment being acknowledged occupies, since it has not been read yet: 2408 of
/// memory.
const UNREAD_SEGMENT: u64 = 2408 * 153 / 256;
/// Maximum of the window field. Its unit is a power of two fixed by the initial buffer so that twice the buffer
/// can be advertised; the shift is 14 at most (Linux's `tcp_select_initial_window`, RFC 7323 2.3).
const FIELD: u64 = 65_535;
const FIELD_BITS: u32 = 15;
const MAX_SCALE: u32 = 14;

/// The largest window that a host with this buffer can advertise, bytes.
fn max_advertised(buffer: u64) -> u64 {
    FIELD << buffer.max(1).ilog2().saturating_sub(FIELD_BITS).min(MAX_SCALE)
}

/// The receive window of a host, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// At the start.
    pub(super) initial: u64,
    /// After it has grown.
    pub(super) max: u64,
    /// The growth of the buffer, even if the window field cannot express it.
    pub(super) growth: u64,
}

impl ReceiveWindow {
    pub(super) fn new(config: &TcpConfig) -> ReceiveWindow {
        let (bytes, mss) = (config.receive_buffer.get(), u64::from(config.mss));
        let initial = (bytes / mss).max(1);
        if !config.has_host_receiver() {
            return ReceiveWindow { initial, max: initial, growth: 0 };
        }
        let grown = bytes.saturating_mul(WINDOW_GROWTH.0) / WINDOW_GROWTH.1;
        let read = grown.saturating_sub(UNREAD_SEGMENT);
        let advertised = max_advertised(bytes);
        // An unscaled window is rounded to whole segments, and does not change by less than one.
        let stays = advertised == FIELD && read < (initial + 1) * mss;
        let max = if stays { initial } else { read.min(advertised) / mss };
        ReceiveWindow { initial, max: max.max(1), growth: grown / mss - initial.min(grown / mss) }
    }
}
