//! Compressed ACKs: segments received out of order that share an ACK, as in Linux.

/// Duplicate ACKs sent immediately before compression begins (Linux's `TCP_FASTRETRANS_THRESH`).
const DUP_ACK_THRESHOLD: u32 = 3;
/// The most ACKs that are compressed into one (Linux's `tcp_comp_sack_nr`).
const MAX_COMPRESSED: u32 = 44;
/// A compressed ACK waits RTT/20, at most 1 ms, plus 100 us of timer slack (Linux: 5 %,
/// `tcp_comp_sack_delay_ns`, `tcp_comp_sack_slack_ns`).
const COMPRESSION_RTT_DIVISOR: u64 = 20;
const MAX_COMPRESSION_DELAY: u64 = 1_000_000;
pub(super) const COMPRESSION_SLACK: u64 = 100_000;

/// State of ACK compression.
#[derive(Debug, Default)]
pub(super) struct Compression {
    /// The compression delay, ns; `None` if ACKs are not compressed.
    delay: Option<u64>,
    /// The cumulative ACK of the last segment out of order, and duplicate ACKs sent
    /// immediately since it changed.
    next: u64,
    dup_acks: u32,
    /// ACKs held back, and when they may be sent as one (ns).
    pub(super) compressed: u32,
    pub(super) due: u64,
}

impl Compression {
    /// ACK compression on a path with an RTT of `round_trip` when empty (ns); zero turns it off.
    pub(super) fn new(round_trip: u64) -> Compression {
        let delay = (round_trip / COMPRESSION_RTT_DIVISOR).min(MAX_COMPRESSION_DELAY);
        Compression { delay: (round_trip > 0).then_some(delay), ..Compression::default() }
    }

    /// Whether the ACK of a segment out of order is held back, with `next` as the cumulative ACK.
    pub(super) fn delays(&mut self, now: u64, next: u64) -> bool {
        let Some(delay) = self.delay else { return false };
        if self.next != next {
            (self.next, self.dup_acks) = (next, 0);
        }
        if self.dup_acks < DUP_ACK_THRESHOLD {
            self.dup_acks += 1;
            return false;
        }
        if self.compressed == 0 {
            self.due = now + delay;
        }
        self.compressed += 1;
        self.compressed <= MAX_COMPRESSED && now < self.due
    }
}
