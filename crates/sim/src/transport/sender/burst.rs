//! Bursts: how many segments leave back to back.
//!
//! A host that leaves segmentation to its card, or to the last step of its stack, hands down large packets; so does Linux whether it
//! paces or not. How large they get follows the rate at which the window leaves, about a millisecond of it. A sender that could
//! send but a small part waits for the next acknowledgement to make it more, when that is likely to come soon. So bursts form even where
//! acknowledgements come evenly.

use std::ops::Range;

use super::*;

/// Most payload bytes in a burst: what one packet may hold while it is unsegmented (65535 less headers in Linux).
const MAX_BYTES: u64 = 65_215;
/// A burst lasts 1/2^10 s, about a millisecond (Linux's `sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
/// On short paths bursts are longer: by the largest one, halved for every 2^19 ns of the smallest round-trip time (Linux's
/// `tcp_tso_rtt_log`, in units of 1024 ns there).
const RTT_STEP: u64 = 512_000;
/// Fewest segments a burst is planned with, unless the controller says (Linux's `tcp_min_tso_segs`).
const MIN_TSO_SEGMENTS: u32 = 2;
/// An unpaced sender counts on leaving at so many percent of its window per round trip: below half of its threshold, and above.
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;
/// A share of the window that is sent at once if it may (Linux's `tcp_tso_win_divisor`).
const TSO_WIN_DIVISOR: u64 = 3;
/// A sender waits only if it has sent within this time, and if an acknowledgement should come within it (ns).
const MAX_DEFERRAL: u64 = 1_000_000;
/// Segments in each of the buffers that the application fills: the largest burst of full segments.
const BUFFER_SEGMENTS: u64 = 45;
/// The first of those are smaller, at most half of the window that the receiver has announced by then: 64 kB for the three that fit into
/// the first send buffer, and two segments more for each that has arrived when there is room for the fourth, which the first window is.
const FIRST_BUFFERS: [u64; 4] = [22, 44, 66, 99];

/// Where the buffer ends that begins with segment `start`.
fn buffer_end(start: u64) -> u64 {
    FIRST_BUFFERS.into_iter().find(|end| *end > start).unwrap_or(start + BUFFER_SEGMENTS)
}

/// The bursts of one flow.
#[derive(Debug)]
pub(super) struct Bursts {
    kind: Burst,
    /// Segments that the present burst may still have.
    left: u32,
    /// Those that the present burst may still have which are sent again; empty when none is.
    retrans: Range<u64>,
    /// The most that a burst may have, as of the last.
    max_segments: u64,
    /// The most at the rate of the window, as of the last.
    autosized: u64,
    /// Where the buffer ends that the next segment is in, and the one after it. A burst does not cross the end of a buffer unless
    /// the part before is too short.
    buffers: [u64; 2],
}

impl Bursts {
    pub(super) fn new(kind: Burst) -> Bursts {
        Bursts {
            kind,
            left: 0,
            retrans: 0..0,
            max_segments: MIN_TSO_SEGMENTS.into(),
            autosized: 0,
            buffers: [FIRST_BUFFERS[0], FIRST_BUFFERS[1]],
        }
    }

    /// Whether bursts may have more than one segment.
    #[inline]
    pub(super) fn are_large(&self) -> bool {
        self.kind == Burst::Host
    }

    /// Whether the next segment belongs to a burst that has begun; `lost` is what would be sent again next.
    #[inline]
    pub(super) fn is_within(&self, lost: Option<u64>) -> bool {
        self.left > 0 || lost.is_some_and(|seq| !self.retrans.is_empty() && seq == self.retrans.start)
    }

    /// Whether no burst of new segments has begun.
    #[inline]
    pub(super) fn may_retransmit(&self) -> bool {
        self.left == 0
    }

    /// The next segment of a burst is sent again.
    #[inline]
    pub(super) fn retransmitted(&mut self) {
        self.retrans.start += 1;
    }

    /// A segment of the burst has left.
    #[inline]
    pub(super) fn sent(&mut self) {
        self.left -= 1;
    }

    /// There is nothing more to send.
    #[inline]
    pub(super) fn end(&mut self) {
        self.left = 0;
    }

    /// Segments from `next` on in the same buffer, of which there are at least `wanted` if the following buffer has them.
    fn buffered(&mut self, next: u64, wanted: u64) -> u64 {
        let [first, second] = &mut self.buffers;
        while *first <= next {
            (*first, *second) = (*second, buffer_end(*second));
        }
        *first = (*first).max((next + wanted).min(*second));
        *first - next
    }
}

/// Whether the window is what limits a flow. What was seen last counts until all that had been sent by then is acknowledged, unless
/// the window is found to limit, or more is found to be under way, before.
#[derive(Debug, Default)]
pub(super) struct CwndUsage {
    /// Something has been sent since the last look.
    sent: bool,
    is_cwnd_limited: bool,
    /// The most segments that were sent and not acknowledged.
    max_packets_out: u64,
    cwnd_usage_seq: u64,
}

impl CwndUsage {
    #[inline]
    pub(super) fn sent(&mut self) {
        self.sent = true;
    }

    /// What has been sent since the last look was a probe.
    pub(super) fn probed(&mut self) {
        self.sent = false;
    }
}

impl Sender {
    /// Nothing more leaves now, for want of window if `limited`.
    #[inline]
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

    /// Whether the window, and not the application or the receiver, limits the flow.
    #[inline]
    pub(super) fn is_window_limited(&self) -> bool {
        self.usage.is_cwnd_limited
            || self.in_slow_start() && u64::from(self.cwnd) < 2 * self.usage.max_packets_out
    }

    /// Begins a burst of segments that are sent again: no more at once than left at once.
    pub(super) fn begin_retransmission_burst(&mut self, seq: u64) {
        let most = if self.sends_single_segments() { 1 } else { self.max_burst() };
        self.bursts.retrans = seq..self.departures.end_of_burst(seq).min(seq + most);
    }

    /// Whether every segment is a burst of its own, as where a controller sets the gaps.
    fn sends_single_segments(&self) -> bool {
        self.bursts.kind == Burst::Single || self.controller.gap(self.next).is_some()
    }

    /// How many segments follow the one that has just been polled at once, and differ from it in nothing but their number; they count as
    /// polled. There may be more that follow.
    #[inline]
    pub(crate) fn rest_of_burst(&mut self, first: &Packet) -> u32 {
        if self.bursts.left == 0 || self.pacer.is_some() || self.rates.is_some() || first.has(CWR) {
            return 0;
        }
        // The last segment of all may be short.
        let count = u64::from(self.bursts.left).min(self.application.last().saturating_sub(self.next)) as u32;
        self.bursts.left -= count;
        self.next += u64::from(count);
        self.counters.sent += u64::from(count);
        if self.state != State::Open {
            self.prr.sent_all(count.into());
        }
        count
    }

    /// Begins a burst, or says that it is better to wait, and whether the window is the reason.
    #[inline]
    pub(super) fn begin_burst(&mut self, now: u64, in_flight: u64) -> Option<bool> {
        if self.sends_single_segments() {
            self.bursts.left = 1;
            self.departures.note(self.next + 1, now);
            return None;
        }
        let available = self.written.min(self.wnd_end) - self.next;
        let window = u64::from(self.cwnd);
        let room = window - in_flight;
        // Two packets at least should be under way.
        let quota = room.min((window / 2).max(1));
        if room < self.bursts.max_segments {
            self.bursts.max_segments = self.max_burst();
        }
        let quota = quota.min(self.bursts.max_segments);
        let buffered = self.bursts.buffered(self.next, quota);
        if buffered > 1 && buffered <= available && self.should_defer(now, room, buffered) {
            return Some(room <= buffered && room < self.wnd_end - self.next);
        }
        let size = quota.min(buffered).min(available);
        self.bursts.left = size as u32;
        self.departures.note(self.next + size, now);
        self.bursts.max_segments = self.max_burst();
        None
    }

    /// Whether to wait for more than the window has `room` for, with `buffered` segments that could leave together.
    fn should_defer(&self, now: u64, room: u64, buffered: u64) -> bool {
        let last = self.pacer.as_ref().map_or(0, Pacer::next).max(self.last_sent);
        if self.state.is_repairing() || now > last + MAX_DEFERRAL {
            return false;
        }
        let room = room.min(self.wnd_end - self.next);
        let share = u64::from(self.cwnd).min(self.wnd_end - self.una);
        if room >= self.bursts.max_segments || room >= buffered || TSO_WIN_DIVISOR * room >= share {
            return false;
        }
        let smoothed = self.rtt.smoothed();
        if smoothed == 0 {
            return false;
        }
        let Some(departure) = self.departures.first() else { return false };
        departure + smoothed <= now + MAX_DEFERRAL.min(smoothed / 2)
    }

    /// The most segments that a burst may have.
    #[inline]
    fn max_burst(&mut self) -> u64 {
        let mss = u64::from(self.size).saturating_sub(SEGMENT_OVERHEAD.into()).max(1);
        let fewest = u64::from(self.controller.min_burst().unwrap_or(MIN_TSO_SEGMENTS));
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

/// The rate of payload that a window a round trip is, and a little more, in bytes a second: `window` over `time`.
struct WindowRate {
    window: u64,
    time: u64,
}

impl WindowRate {
    fn value(&self) -> u64 {
        self.window.checked_div(self.time).unwrap_or(u64::MAX)
    }

    /// Whether [`largest`] is `segments`, a value that it can take, with `more` bytes for a short path: told by multiplying, since it seldom changes and divisions
    /// are slow.
    #[inline]
    fn autosizes_to(&self, segments: u64, extra: u64, mss: u64) -> bool {
        // Bytes of the window from which on so many payload bytes make a burst.
        let needed =
            |bytes: u64| bytes.checked_sub(extra).map_or(0, |bytes| (bytes * self.time) << PACING_SHIFT);
        let (least, beyond) = (segments * mss, (segments + 1) * mss);
        self.time > 0
            && least <= MAX_BYTES
            && needed(least) <= self.window
            && (beyond > MAX_BYTES || self.window < needed(beyond))
    }
}

/// The part of a burst that a path gets for being short, given its smallest round-trip time (ns).
#[inline]
fn short_path_bytes(min_rtt: u64) -> u64 {
    let halvings = min_rtt / RTT_STEP;
    if halvings < u64::from(u32::BITS) { MAX_BYTES >> halvings } else { 0 }
}

/// The most full segments in a burst at a rate of payload, on a path with a smallest round-trip time (ns).
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
        // An eighth of the largest burst on top.
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
        let mut bursts = Bursts::new(Burst::Host);
        assert_eq!(bursts.buffered(0, 10), 22);
        assert_eq!(bursts.buffered(20, 10), 10);
        assert_eq!(bursts.buffered(30, 10), 14);
        assert_eq!(bursts.buffered(44, 45), 45);
        assert_eq!(bursts.buffered(89, 30), 30, "10 are left of the fourth and 45 follow");
        assert_eq!(bursts.buffered(119, 2), 25);
        assert_eq!(bursts.buffered(144, 2), 45);
    }

    #[test]
    fn what_is_sent_again_belongs_to_the_burst_up_to_its_end() {
        let mut bursts = Bursts::new(Burst::Host);
        bursts.retrans = 12..14;
        bursts.retransmitted();
        assert!(bursts.is_within(Some(13)) && !bursts.is_within(Some(14)) && !bursts.is_within(None));
        bursts.retransmitted();
        assert!(!bursts.is_within(Some(14)));
    }
}
