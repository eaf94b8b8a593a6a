//! An application on a host that reads at a limited rate, and the memory that unread segments
//! occupy (as in Linux).
//!
//! The application wakes once a millisecond and reads what is due since the flow's start. The receive window
//! follows from the memory that is left, and unread segments take little of it, because they are merged: so a
//! host holds nearly twice its receive buffer. Nothing is offered below a sixteenth of the window, so a
//! closed window opens by many segments.

use headway_units::Rate;

use crate::transport::receive_window::{MEMORY_FACTOR, WINDOW_SHARE};
use crate::transport::ticks::TICK;

/// Memory of a segment that shares a buffer with those before it: its payload, bytes of 1448.
const MERGED: u64 = 1448;
/// Memory of the first segment of a buffer beyond that (Linux: 2408 bytes for a segment of 1448).
const BUFFER: u64 = 960;
/// Segments that share a buffer (Linux's `MAX_SKB_FRAGS`); their memory is free again when
/// all of them are read.
const SHARED: u64 = 17;
/// A host offers nothing below this fraction of the window (Linux's `__tcp_select_window`).
const LEAST_SHARE: u64 = 16;
/// Unread bytes, at most, and as a fraction of the receive buffer, with which the reader counts as late: then
/// an ACK that would not move the window waits for it (Linux's `__tcp_ack_snd_check` and `SO_RCVLOWAT`).
const LATE: u64 = 1 << 18;
const LATE_SHARE: u64 = 16;

/// The reader of a host.
#[derive(Debug)]
pub(super) struct HostReader {
    /// Payload bits per second.
    rate: u64,
    mss: u64,
    /// When the flow starts (ns).
    start: u64,
    /// Segments read, and the first one that still takes memory.
    read: u64,
    held: u64,
    /// Memory for segments, bytes.
    memory: u64,
    /// With this many unread segments the reader is late.
    late: u64,
    /// The window that the last ACK advertised, segments.
    pub(super) advertised: u64,
    /// When an ACK is due whatever is read (ns); `u64::MAX` if none is.
    pub(super) due: u64,
}

/// The memory of `segments` that arrived one after the other, bytes.
fn taken(segments: u64) -> u64 {
    segments * MERGED + segments.div_ceil(SHARED) * BUFFER
}

impl HostReader {
    /// Returns a reader for a receive buffer of this many bytes.
    pub(super) fn new(rate: Rate, mss: u32, start: u64, buffer: u64) -> HostReader {
        let mss = u64::from(mss);
        HostReader {
            rate: rate.bps().max(1),
            mss,
            start,
            read: 0,
            held: 0,
            memory: buffer.saturating_mul(MEMORY_FACTOR),
            late: LATE.min(buffer / LATE_SHARE).div_ceil(mss).max(1),
            advertised: buffer / mss,
            due: u64::MAX,
        }
    }

    /// Reads what is due by `now` (ns) of the segments below `next`.
    pub(super) fn advance(&mut self, now: u64, next: u64) {
        let time = now.saturating_sub(self.start) / TICK * TICK;
        let bytes = u128::from(time) * u128::from(self.rate) / 8_000_000_000;
        self.read = self.read.max(((bytes / u128::from(self.mss)) as u64).min(next));
        if self.read == next {
            self.held = next;
        } else {
            self.held += (self.read - self.held) / SHARED * SHARED;
        }
    }

    /// When it wakes next after `now` (ns).
    pub(super) fn wakes_after(&self, now: u64) -> u64 {
        let ticks = now.checked_sub(self.start).map_or(0, |time| time / TICK + 1);
        self.start + ticks * TICK
    }

    /// The window in bytes while no segment is held.
    fn whole(&self) -> u64 {
        self.memory / WINDOW_SHARE.1 * WINDOW_SHARE.0
    }

    /// The window in bytes that is left beside the segments below `next` and `more` out of order.
    fn free(&self, next: u64, more: u64) -> u64 {
        let taken = taken(next - self.held) + taken(more);
        self.memory.saturating_sub(taken) / WINDOW_SHARE.1 * WINDOW_SHARE.0
    }

    /// Whether less than half of the window is left; then quickack mode ends (Linux).
    pub(super) fn is_low(&self, next: u64, more: u64) -> bool {
        self.free(next, more) < self.whole() / 2
    }

    /// The window to offer beside these segments, in segments.
    pub(super) fn window(&self, next: u64, more: u64) -> u64 {
        let free = self.free(next, more);
        if free < self.whole() / LEAST_SHARE { 0 } else { free / self.mss }
    }

    /// Whether the reader is late with the segments below `next`.
    pub(super) fn is_late(&self, next: u64) -> bool {
        next - self.read >= self.late
    }

    /// Whether the window may have to be advertised again when something has been read: segments are unread,
    /// and of the window `offered` segments, at most half of all, are left.
    pub(super) fn may_open(&self, next: u64, offered: u64) -> bool {
        self.read < next && 2 * offered * self.mss <= self.whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader of one segment per millisecond with a buffer of 1 MB.
    fn reader() -> HostReader {
        HostReader::new(Rate::from_bps(1448 * 8 * 1000), 1448, 0, 1_000_000)
    }

    #[test]
    fn it_reads_at_ticks_what_is_due_since_the_start() {
        let mut reader = reader();
        reader.advance(2_999_999, 10);
        assert_eq!(
            (reader.read, reader.wakes_after(2_999_999), reader.wakes_after(3_000_000)),
            (2, 3_000_000, 4_000_000)
        );
        reader.advance(30_000_000, 10);
        assert_eq!(reader.read, 10);
        // What it missed while nothing was there it reads later.
        reader.advance(30_500_000, 60);
        assert_eq!(reader.read, 30);
    }

    #[test]
    fn segments_that_wait_share_buffers_of_seventeen() {
        let reader = reader();
        // 2 MB of memory, of which the window is 153/256.
        assert_eq!(reader.window(0, 0), 1_195_236 / 1448);
        // In Linux about 1059 unread segments left a window of 163.
        let window = reader.window(1_059, 0);
        assert!((158..=168).contains(&window), "{window}");
        // Below a sixteenth of the window nothing is offered.
        assert_eq!([1_240, 1_250].map(|unread| reader.window(unread, 0)), [55, 0]);
    }

    #[test]
    fn memory_is_free_again_when_a_whole_buffer_is_read() {
        let mut reader = reader();
        let window = |reader: &HostReader| reader.window(500, 0);
        let before = window(&reader);
        reader.advance(16_000_000, 500);
        assert_eq!(window(&reader), before);
        reader.advance(17_000_000, 500);
        assert!(window(&reader) >= before + 10);
    }
}
