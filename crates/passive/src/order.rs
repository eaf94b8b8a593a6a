//! Packets in the order of their times.
//!
//! Nearly all captures are in this order, and their packets pass at once. In others packets wait for earlier
//! ones that come behind them, for about as long as such ones were late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headway_units::{Duration, Instant};

use headway_capture::{ClockCounts, DISORDER};

/// A packet that is no later than this is as late as the one before: processors of a host write what they
/// receive at the same time in any order, in half of all captures. Range 10 to 50 us: below what a host
/// needs to answer a packet.
const SLIGHT: Duration = Duration::from_us(20);
/// Longest wait, by the clock of the capture.
const LONGEST: Duration = Duration::from_ns(DISORDER);
/// How many times as long as a packet was late others wait. Range 1 to 4: the blocks of a
/// queue differ in length.
const MARGIN: i64 = 2;
/// For so long every packet waits where late ones are expected. Range 1 s to 1 min: longer than
/// a pause at the start.
const LEARNING: Duration = Duration::from_ms(10_000);
/// How often the wait is set anew. Range 10 s to 10 min: packets that wait in vain for so long do no harm.
const REVIEW: Duration = Duration::from_ms(60_000);
/// Most packets that wait, so that they take at most 20 MB: a second of 130 000 packets.
const MOST: usize = 1 << 17;

/// Packets that wait for earlier ones.
#[derive(Debug)]
pub(crate) struct Order<T> {
    /// Those that came in order.
    ordered: VecDeque<Waiting<T>>,
    /// Those that came behind later ones.
    late: BinaryHeap<Waiting<T>>,
    /// Packets that have come to wait.
    number: u64,
    wait: Duration,
    /// How late packets were at most since the last review of the wait, and when the next one is.
    lateness: Duration,
    review: Instant,
    /// The time of the latest packet that came, and of the latest that left.
    latest: Instant,
    gone: Instant,
}

/// A packet with its time and number: the earliest is the largest, as a heap gives that first.
#[derive(Debug)]
struct Waiting<T>(Reverse<(Instant, u64)>, T);

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Waiting<T> {}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Order<T> {
    /// Lets no packet wait before one was late.
    pub(crate) fn new() -> Order<T> {
        Order {
            ordered: VecDeque::new(),
            late: BinaryHeap::new(),
            number: 0,
            wait: Duration::ZERO,
            lateness: Duration::ZERO,
            review: Instant::ZERO,
            latest: Instant::ZERO,
            gone: Instant::ZERO,
        }
    }

    /// Lets every packet wait for as long as possible: in the first seconds, which show how long is
    /// needed, or `always`.
    pub(crate) fn expect_late(&mut self, always: bool) {
        self.wait = LONGEST;
        self.review = if always { Instant::from_ns(u64::MAX) } else { Instant::ZERO };
    }

    /// Returns the time of the next packet if it need not wait; it must be [`Order::take`]n otherwise.
    pub(crate) fn pass(&mut self, at: Instant) -> Option<Instant> {
        let passes = self.wait == Duration::ZERO && at + SLIGHT >= self.latest;
        passes.then(|| {
            self.latest = self.latest.max(at);
            self.gone = self.latest;
            self.latest
        })
    }

    /// Takes the next packet; returns it with its time if it cannot be sorted.
    #[cold]
    pub(crate) fn take(&mut self, at: Instant, packet: T, counts: &mut ClockCounts) -> Option<(Instant, T)> {
        self.number += 1;
        let waiting = Waiting(Reverse((at, self.number)), packet);
        if at >= self.latest {
            self.ordered.push_back(waiting);
            self.arrive(at);
            return None;
        }
        let lateness = self.latest - at;
        if lateness > LONGEST {
            counts.behind += 1;
            return Some((at, waiting.1));
        }
        counts.disordered += 1;
        self.lateness = self.lateness.max(lateness);
        self.wait = self.wait.max(self.needed());
        if at < self.gone {
            counts.late += 1;
            return Some((self.gone, waiting.1));
        }
        self.late.push(waiting);
        None
    }

    /// Takes note of a packet in order, and reviews the wait when it is time to.
    fn arrive(&mut self, at: Instant) {
        if self.latest == Instant::ZERO && self.review == Instant::ZERO {
            self.review = at + LEARNING;
        } else if at >= self.review {
            self.wait = self.needed();
            self.lateness = Duration::ZERO;
            self.review = at + REVIEW;
        }
        self.latest = at;
    }

    fn needed(&self) -> Duration {
        (self.lateness * MARGIN).min(LONGEST)
    }

    /// Returns the next packet whose wait is over, or whether it is or not if this is the `last` occasion.
    pub(crate) fn next(&mut self, last: bool) -> Option<(Instant, T)> {
        let late = self.late.peek() > self.ordered.front();
        let Waiting(Reverse((at, _)), _) = if late { self.late.peek()? } else { self.ordered.front()? };
        let full = self.ordered.len() + self.late.len() > MOST;
        if !(last || full || *at + self.wait <= self.latest) {
            return None;
        }
        let Waiting(Reverse((at, _)), packet) =
            if late { self.late.pop()? } else { self.ordered.pop_front()? };
        self.gone = self.gone.max(at);
        Some((at, packet))
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        (self.ordered.capacity() + self.late.capacity()) * size_of::<Waiting<T>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Plays times in ms; returns them as they leave.
    fn play(order: &mut Order<u64>, times: &[u64]) -> (Vec<u64>, ClockCounts) {
        let (mut counts, mut left) = (ClockCounts::default(), Vec::new());
        for ms in times {
            let at = Instant::from_ns(ms * MS);
            if order.pass(at).is_some() {
                left.push(*ms);
                continue;
            }
            left.extend(order.take(at, *ms, &mut counts).map(|(at, _)| at.ns() / MS));
            left.extend(std::iter::from_fn(|| order.next(false)).map(|(at, _)| at.ns() / MS));
        }
        left.extend(std::iter::from_fn(|| order.next(true)).map(|(at, _)| at.ns() / MS));
        (left, counts)
    }

    /// Two queues with a packet every 2 ms each, read in turns in blocks of this length.
    fn blocks(length: u64, count: u64) -> Vec<u64> {
        let block =
            |k: u64| (0..2).flat_map(move |queue| (0..length / 2).map(move |i| k * length + 2 * i + queue));
        (0..count).flat_map(block).map(|ms| 5_000 + ms).collect()
    }

    #[test]
    fn packets_of_queues_in_blocks_are_sorted() {
        for length in [20, 100, 900] {
            let times = blocks(length, 30);
            let mut sorted = times.clone();
            sorted.sort_unstable();
            for always in [false, true] {
                let mut order = Order::new();
                order.expect_late(always);
                let (left, counts) = play(&mut order, &times);
                assert_eq!(left, sorted, "{length} ms");
                assert_eq!((counts.late, counts.behind), (0, 0));
                assert!(counts.disordered >= 30 * (length / 2 - 1));
            }
        }
    }

    #[test]
    fn what_is_not_expected_is_late_once_and_then_sorted() {
        let (left, counts) = play(&mut Order::new(), &blocks(20, 30));
        assert!(left.is_sorted());
        assert_eq!(counts.late, 9, "the first block of the second queue but its last packet");
    }

    #[test]
    fn packets_wait_no_longer_than_needed() {
        let mut order = Order::new();
        order.expect_late(false);
        let count = |order: &Order<u64>| order.ordered.len() + order.late.len();
        let mut feed = |times: std::ops::Range<u64>| {
            let mut most = 0;
            for ms in times {
                let at = Instant::from_ns(ms * MS);
                if order.pass(at).is_none() {
                    order.take(at, ms, &mut ClockCounts::default());
                    while order.next(false).is_some() {}
                    most = count(&order);
                }
            }
            most
        };
        assert_eq!(feed(1_000..10_900), 1_000, "a second");
        assert_eq!(feed(10_900..12_000), 0, "the first seconds showed that none has to");
        feed(11_990..11_991);
        assert_eq!(feed(12_000..13_000), 18, "twice as long as one was late");
        assert_eq!(feed(13_000..200_000), 0, "it is forgotten after some time");
    }

    #[test]
    fn packets_with_the_same_time_stay_as_they_came_and_few_wait() {
        let mut order = Order::new();
        order.expect_late(true);
        let mut counts = ClockCounts::default();
        let at = Instant::from_ns(MS);
        let mut left = 0;
        for number in 0..3 * MOST {
            assert!(order.take(at, number, &mut counts).is_none());
            while let Some((_, packet)) = order.next(false) {
                assert_eq!(packet, left);
                left += 1;
            }
        }
        assert_eq!(left, 2 * MOST);
        // Another clock.
        assert_eq!(order.take(at + LONGEST * 5, 0, &mut counts), None);
        assert_eq!(order.take(at, 7, &mut counts), Some((at, 7)));
        assert_eq!((counts.behind, counts.late), (1, 0));
    }
}
