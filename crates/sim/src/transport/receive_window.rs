//! The size of a host's receive window.

use crate::config::TcpConfig;

/// Segments by which the window grows for each that arrives; while it grows, every segment is acknowledged at
/// once.
pub(super) const GROWTH: u64 = 2;
/// Memory of a host per byte of `receive-buffer` (Linux doubles what `SO_RCVBUF` asks for).
pub(super) const MEMORY_FACTOR: u64 = 2;
/// The part of that memory that the window offers, which a host computes when the first full segment arrives:
/// a segment of 1448 bytes takes 2408 of memory (Linux's `scaling_ratio`). Before, it is half.
pub(super) const WINDOW_SHARE: (u64, u64) = (153, 256);
/// Bytes of memory that the segment being acknowledged takes, since it has not been read yet.
const UNREAD_SEGMENT: u64 = 2408;
/// Maximum of the window field. Its unit is a power of two fixed by the initial buffer so that twice the
/// buffer can be advertised; the shift is 14 at most (Linux's `tcp_select_initial_window`, RFC 7323 2.3).
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
        let memory = bytes.saturating_mul(MEMORY_FACTOR);
        let share = |memory: u64| memory.saturating_mul(WINDOW_SHARE.0) / WINDOW_SHARE.1;
        let grown = share(memory);
        let beside_unread = share(memory.saturating_sub(UNREAD_SEGMENT)).min(max_advertised(bytes)) / mss;
        // So small a window is advertised again when the segment has been read.
        let max = if beside_unread < 2 { (grown / mss).min(initial) } else { beside_unread };
        ReceiveWindow { initial, max: max.max(1), growth: grown / mss - initial.min(grown / mss) }
    }
}
