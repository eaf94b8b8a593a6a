//! Compressed ACKs.

/// Segments out of order that are acknowledged at once after every advance (Linux's `TCP_FASTRETRANS_THRESH`).
const DUP_ACK_THRESHOLD: u32 = 3;
/// Most segments out of order whose acknowledgement waits for a common one (Linux's `tcp_comp_sack_nr`).
const MAX_COMPRESSED: u32 = 44;
/// That waits for so many parts of the round-trip time, at most so long, and up to so much longer for something else to happen, ns
/// (Linux: 5 %, `tcp_comp_sack_delay_ns`, `tcp_comp_sack_slack_ns`).
const COMPRESSION_RTT_DIVISOR: u64 = 20;
const MAX_COMPRESSION_DELAY: u64 = 1_000_000;
pub(super) const COMPRESSION_SLACK: u64 = 100_000;

/// Acknowledgements of segments out of order that wait for more of them, as Linux lets them.
#[derive(Debug, Default)]
pub(super) struct Compression {
    /// How long one waits, ns; none waits when absent.
    delay: Option<u64>,
    /// The first missing segment at the last one, and how many were acknowledged at once since it changed.
    next: u64,
    dup_acks: u32,
    /// Segments that wait, and since when they may be acknowledged (ns).
    pub(super) compressed: u32,
    pub(super) due: u64,
}

impl Compression {
    /// `round_trip` is the time that an empty path takes (ns).
    pub(super) fn new(round_trip: u64) -> Compression {
        let delay = (round_trip / COMPRESSION_RTT_DIVISOR).min(MAX_COMPRESSION_DELAY);
        Compression { delay: (round_trip > 0).then_some(delay), ..Compression::default() }
    }

    /// Whether a segment out of order waits, while `next` is the first that is missing.
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
