//! Bursts: how many segments leave back to back.
//!
//! A host that leaves segmentation to its NIC, or to the last step of its stack, sends large packets; Linux
//! does so with and without pacing. Their size follows the rate: about a millisecond of it. A sender that
//! could send only a small part of its window defers if an ACK that allows a larger burst is likely to arrive
//! soon. So bursts form even where ACKs are evenly spaced.

use std::ops::Range;

use super::*;

/// Maximum payload of a burst, bytes: that of an unsegmented packet (65535 less headers in Linux).
const MAX_BYTES: u64 = 65_215;
/// A burst lasts 1/2^10 s, about a millisecond (Linux's `sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
/// On short paths bursts are longer by the maximum burst, halved for every 2^19 ns of minimum RTT (Linux's
/// `tcp_tso_rtt_log`, in units of 1024 ns there).
const RTT_STEP: u64 = 512_000;
/// Minimum size of a burst, segments, unless the controller sets one (Linux's `tcp_min_tso_segs`).
const MIN_TSO_SEGMENTS: u32 = 2;
/// Assumed rate of an unpaced sender in percent of cwnd per RTT, below half of ssthresh and above (Linux's
/// `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`).
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;
/// A sender never defers if it can send this fraction of its window (Linux's `tcp_tso_win_divisor`).
const TSO_WIN_DIVISOR: u64 = 3;
/// A sender defers only if its last departure is at most this long ago and the next ACK at most
/// this far ahead (ns).
const MAX_DEFERRAL: u64 = 1_000_000;
/// Segments per socket buffer: the maximum burst of full segments.
const BUFFER_SEGMENTS: u64 = 45;
/// Segments of each of the two buffers behind the initial window that the application fills at first: half
/// of the window of at most 64 kB that the receiver has advertised by then. The initial window leaves
/// while it still writes.
const FIRST_BUFFERS: u64 = 22;

/// The burst state of one flow.
#[derive(Debug)]
pub(super) struct Bursts {
    kind: Burst,
    /// Segments left in the current burst.
    left: u32,
    /// Segments left in the current burst of retransmissions; empty if there is none.
    retrans: Range<u64>,
    /// The maximum burst at the present rate, segments (Linux computes it anew after each ACK).
    max_segments: u64,
    /// The maximum burst at the rate of the window, as last computed.
    autosized: u64,
    /// Ends of the buffer that contains the next segment and of the one after it. A burst does not cross the
    /// end of a buffer unless the part before it is too short.
    buffers: [u64; 2],
}

impl Bursts {
    pub(super) fn new(kind: Burst, initial_window: u32) -> Bursts {
        let first = u64::from(initial_window) + FIRST_BUFFERS;
        Bursts {
            kind,
            left: 0,
            retrans: 0..0,
            max_segments: MIN_TSO_SEGMENTS.into(),
            autosized: 0,
            buffers: [first, first + FIRST_BUFFERS],
        }
    }

    /// Whether bursts may have more than one segment.
    pub(super) fn are_large(&self) -> bool {
        self.kind == Burst::Host
    }

    /// Whether the next segment continues a burst; `lost` is the next segment to retransmit.
    pub(super) fn is_within(&self, lost: Option<u64>) -> bool {
        self.left > 0 || lost.is_some_and(|seq| !self.retrans.is_empty() && seq == self.retrans.start)
    }

    /// Whether no burst of new segments is in progress.
    pub(super) fn may_retransmit(&self) -> bool {
        self.left == 0
    }

    /// A segment of a burst is retransmitted.
    pub(super) fn retransmitted(&mut self) {
        self.retrans.start += 1;
    }

    /// A new segment of the burst leaves.
    pub(super) fn sent(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// There are no more segments to send.
    pub(super) fn end(&mut self) {
        self.left = 0;
    }

    /// Segments from `next` to the end of the buffer, at least `wanted` if the following buffer has them.
    fn buffered(&mut self, next: u64, wanted: u64) -> u64 {
        let [first, second] = &mut self.buffers;
        while *first <= next {
            (*first, *second) = (*second, *second + BUFFER_SEGMENTS);
        }
        *first = (*first).max((next + wanted).min(*second));
        *first - next
    }
}

/// Whether the flow is cwnd-limited (Linux's `tcp_cwnd_validate`). The last observation holds until
/// everything sent by then is acknowledged, or until the flow becomes cwnd-limited or more is outstanding.
#[derive(Debug, Default)]
pub(super) struct CwndUsage {
    /// Something has been sent since the last observation.
    sent: bool,
    is_cwnd_limited: bool,
    /// The most segments that were outstanding.
    max_packets_out: u64,
    cwnd_usage_seq: u64,
}

impl CwndUsage {
    pub(super) fn sent(&mut self) {
        self.sent = true;
    }

    /// The last segment was a TLP, which does not count.
    pub(super) fn probed(&mut self) {
        self.sent = false;
    }
}

impl Sender {
    /// Ends a round of sending, because of the window if `limited`.
    pub(super) fn pause(&mut self, now: u64, limited: bool) -> Option<Packet> {
        self.bursts.retrans = 0..0;
        let sent = std::mem::take(&mut self.usage.sent);
        if sent || self.tlp.una_advanced {
            self.schedule_tlp(now, sent);
        }
        let usage = &mut self.usage;
        if sent || limited {
            let out = self.next - self.una;
            if limited
                || self.una >= usage.cwnd_usage_seq
                || !usage.is_cwnd_limited && out > usage.max_packets_out
            {
                (usage.is_cwnd_limited, usage.max_packets_out, usage.cwnd_usage_seq) =
                    (limited, out, self.next);
            }
        }
        None
    }

    /// Whether the flow is cwnd-limited, and not limited by the application or the receiver.
    pub(super) fn is_window_limited(&self) -> bool {
        self.usage.is_cwnd_limited
            || self.in_slow_start() && u64::from(self.cwnd) < 2 * self.usage.max_packets_out
    }

    /// Begins a burst of retransmissions, no larger than the burst in which the originals left.
    pub(super) fn begin_retransmission_burst(&mut self, seq: u64) {
        let most = if self.sends_single_segments() { 1 } else { self.max_burst() };
        self.bursts.retrans = seq..self.departures.end_of_burst(seq).min(seq + most);
    }

    /// Whether each segment is a burst of its own, as with controllers that set gaps.
    #[inline(always)]
    pub(super) fn sends_single_segments(&self) -> bool {
        self.bursts.kind == Burst::Single
            || self.sets_gaps && (self.slot.is_some() || self.controller.gap(self.next).is_some())
    }

    /// The number of further segments that leave with the one just polled and differ only in their number;
    /// they count as polled. More may follow.
    pub(crate) fn rest_of_burst(&mut self, first: &Packet) -> u32 {
        if self.bursts.left == 0 || self.pacer.is_some() || self.rates.is_some() || first.has(CWR) {
            return 0;
        }
        // The last segment of the flow may be short.
        let count = u64::from(self.bursts.left).min(self.application.last().saturating_sub(self.next));
        // The window may have shrunk since the burst began.
        let count = count.min(self.wnd_end.saturating_sub(self.next)) as u32;
        self.bursts.left -= count;
        self.next += u64::from(count);
        self.counters.sent += u64::from(count);
        if self.state != State::Open {
            self.prr.sent_all(count.into());
        }
        count
    }

    /// Begins a burst that may have several segments; `Some` defers it, and says whether that is
    /// because of the window.
    pub(super) fn begin_burst(&mut self, now: u64, in_flight: u64) -> Option<bool> {
        let written = self.written - self.next;
        let window = u64::from(self.cwnd);
        let room = window - in_flight;
        // At least two packets should be in flight.
        let quota = room.min((window / 2).max(1));
        self.bursts.max_segments = self.max_burst();
        let quota = quota.min(self.bursts.max_segments);
        let buffered = self.bursts.buffered(self.next, quota);
        if buffered.min(written) > 1
            && let Some(limited) = self.defers(now, room, buffered, written)
        {
            return Some(limited);
        }
        let size = quota.min(buffered).min(written).min(self.wnd_end - self.next);
        self.bursts.left = size as u32;
        self.departures.note(self.next + size, now);
        None
    }

    /// Whether to defer sending (Linux's `tcp_tso_should_defer`), and if so, whether because of cwnd,
    /// which has space for `room` segments. Otherwise the receive window or the application is the
    /// reason: `buffered` segments could leave together when the application has written them; of all, it
    /// has written `written`.
    fn defers(&self, now: u64, room: u64, buffered: u64, written: u64) -> Option<bool> {
        let last = self.pacer.as_ref().map_or(0, |pacer| pacer.next()).max(self.last_sent);
        if self.state.is_repairing() || now > last + MAX_DEFERRAL {
            return None;
        }
        let receivable = self.wnd_end - self.next;
        let sendable = room.min(receivable);
        let share = u64::from(self.cwnd).min(self.wnd_end - self.una);
        // The application may still add to the last buffer.
        let is_complete = buffered < written && sendable >= buffered;
        if sendable >= self.bursts.max_segments || is_complete || TSO_WIN_DIVISOR * sendable >= share {
            return None;
        }
        let smoothed = self.rtt.smoothed();
        let departure = self.departures.first().filter(|_| smoothed > 0)?;
        let is_near = departure + smoothed <= now + MAX_DEFERRAL.min(smoothed / 2);
        is_near.then_some(room < receivable && room <= buffered.min(written))
    }

    /// The most segments that a burst may have.
    fn max_burst(&mut self) -> u64 {
        let mss = u64::from(self.size).saturating_sub(SEGMENT_OVERHEAD.into()).max(1);
        let fewest = u64::from(self.controller.metrics().min_burst.unwrap_or(MIN_TSO_SEGMENTS));
        if let Some(rate) = self.controller.pacing_rate() {
            let bytes_per_second = rate.bps() / 8 * mss / u64::from(self.size);
            return autosize(bytes_per_second, self.rtt.min(), mss).max(fewest);
        }
        let window = u64::from(self.cwnd);
        let percent = if self.cwnd < self.controller.ssthresh() as u32 / 2 {
            SLOW_START_PERCENT
        } else {
            AVOIDANCE_PERCENT
        };
        let window = window.max(self.next - self.una) * mss * percent * 10_000;
        let rate = WindowRate { window, time: self.rtt.smoothed() / 1000 };
        if !rate.autosizes_to(self.bursts.autosized, short_path_bytes(self.rtt.min()), mss) {
            self.bursts.autosized = autosize(rate.value(), self.rtt.min(), mss);
        }
        self.bursts.autosized.max(fewest)
    }
}

/// The payload rate in bytes/s of a window per RTT and some more: `window` over `time`.
struct WindowRate {
    window: u64,
    time: u64,
}

impl WindowRate {
    fn value(&self) -> u64 {
        self.window.checked_div(self.time).unwrap_or(u64::MAX)
    }

    /// Whether [`autosize`] is `segments`, one of its possible values, with `extra` bytes for a short path.
    /// It multiplies, because the result seldom changes and divisions are slow.
    fn autosizes_to(&self, segments: u64, extra: u64, mss: u64) -> bool {
        // The smallest window whose bursts have at least this many payload bytes.
        let needed =
            |bytes: u64| bytes.checked_sub(extra).map_or(0, |bytes| (bytes * self.time) << PACING_SHIFT);
        let (least, beyond) = (segments * mss, (segments + 1) * mss);
        self.time > 0
            && least <= MAX_BYTES
            && needed(least) <= self.window
            && (beyond > MAX_BYTES || self.window < needed(beyond))
    }
}

/// The bytes added to bursts on a path with this minimum RTT (ns).
fn short_path_bytes(min_rtt: u64) -> u64 {
    let halvings = min_rtt / RTT_STEP;
    if halvings < u64::from(u32::BITS) { MAX_BYTES >> halvings } else { 0 }
}

/// The most full segments in a burst at a payload rate, on a path with this minimum RTT (ns).
fn autosize(bytes_per_second: u64, min_rtt: u64, mss: u64) -> u64 {
    ((bytes_per_second >> PACING_SHIFT) + short_path_bytes(min_rtt)).min(MAX_BYTES) / mss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_last_a_millisecond_and_are_longer_on_short_paths() {
        // 12.5 MB/s are 12.2 kB in 1/1024 s.
        let long = 40_000_000;
        assert_eq!(autosize(1_250_000, long, 1448), 0);
        assert_eq!(autosize(12_500_000, long, 1448), 8);
        assert_eq!(autosize(125_000_000, long, 1448), 45);
        // Plus an eighth of the maximum burst.
        assert_eq!(autosize(1_250_000, 3 * RTT_STEP, 1448), (MAX_BYTES / 8 + 1_220) / 1448);
        assert_eq!(autosize(0, 0, 1448), 45);
    }

    #[test]
    fn multiplying_tells_the_same_as_dividing() {
        for (window, time) in
            [(1, 1), (7_777_777, 3), (12_345_678_901, 20_011), (1 << 45, 999_999), (1 << 40, 10)]
        {
            for min_rtt in [0, 3 * RTT_STEP, 9 * RTT_STEP, 50_000_000] {
                for mss in [100, 1448, 8948] {
                    let rate = WindowRate { window, time };
                    let segments = autosize(rate.value(), min_rtt, mss);
                    let most = MAX_BYTES / mss;
                    for other in segments.saturating_sub(2)..=most.min(segments + 2) {
                        assert_eq!(
                            rate.autosizes_to(other, short_path_bytes(min_rtt), mss),
                            other == segments
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_buffer_that_is_too_short_is_filled_from_the_next_only() {
        let mut bursts = Bursts::new(Burst::Host, 10);
        assert_eq!(bursts.buffered(0, 10), 32);
        assert_eq!(bursts.buffered(20, 10), 12);
        assert_eq!(bursts.buffered(30, 10), 10, "2 are left of the first and 22 follow");
        assert_eq!(bursts.buffered(40, 40), 40, "14 are left of the second and 45 follow");
        assert_eq!(bursts.buffered(80, 2), 19);
        assert_eq!(bursts.buffered(99, 2), 45);
    }

    #[test]
    fn what_is_sent_again_belongs_to_the_burst_up_to_its_end() {
        let mut bursts = Bursts::new(Burst::Host, 10);
        bursts.retrans = 12..14;
        bursts.retransmitted();
        assert!(bursts.is_within(Some(13)) && !bursts.is_within(Some(14)) && !bursts.is_within(None));
        bursts.retransmitted();
        assert!(!bursts.is_within(Some(14)));
    }
}
