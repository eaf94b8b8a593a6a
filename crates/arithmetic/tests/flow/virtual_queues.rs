//! A virtual queue is as long as a plain fluid queue, and marks as CoDel in plain numbers does.

use headway_arithmetic::virtual_queue::{COST_BITS, DEPTH, INTERVAL, LEAST_BYTES, THRESHOLD, VirtualQueue};
use proptest::collection::vec;
use proptest::prelude::*;

/// The same queue in bytes and floating point: what comes in less what drains. Marks are judged by the
/// wait that it is given.
struct Plain {
    /// Bytes per ns.
    rate: f64,
    bytes: f64,
    at: u64,
    since: Option<u64>,
    due: u64,
    marks: u32,
}

impl Plain {
    fn new(bits_per_second: f64) -> Plain {
        Plain { rate: bits_per_second / 8e9, bytes: 0.0, at: 0, since: None, due: 0, marks: 0 }
    }

    fn threshold(&self) -> f64 {
        (THRESHOLD as f64 * self.rate).max(LEAST_BYTES as f64)
    }

    /// Drains until `now`, and returns the time in ns that a packet waits which is added then.
    fn add(&mut self, now: u64, bytes: u32) -> f64 {
        self.bytes = (self.bytes - (now - self.at) as f64 * self.rate).max(0.0);
        self.at = now;
        let found = self.bytes;
        self.bytes = (found + f64::from(bytes)).min(DEPTH as f64 * self.threshold());
        found / self.rate
    }

    /// Whether a packet that waits so long, or not, is marked.
    fn marks(&mut self, now: u64, is_queue: bool, may: bool) -> bool {
        if !is_queue {
            (self.since, self.marks) = (None, 0);
            return false;
        }
        if self.since.is_none() {
            (self.since, self.due) = (Some(now), now + INTERVAL);
        }
        if !may || now < self.due {
            return false;
        }
        self.marks += 1;
        // With the root as exact as eight fraction bits.
        let root = (f64::from(self.marks).sqrt() * 256.0).floor();
        self.due = now + (INTERVAL as f64 * 256.0 / root) as u64;
        true
    }
}

fn cost(bits_per_second: f64) -> u64 {
    (8e9 / bits_per_second * f64::from(1 << COST_BITS)).round() as u64
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    // From 100 kb/s to 100 Gb/s, with packets from the least to merged ones, a little slower and much
    // faster than it drains.
    #[test]
    fn it_marks_what_stands(
        exponent in 5.0_f64..11.0,
        load in 0.3_f64..3.0,
        packets in vec((prop_oneof![Just(1538_u32), 84_u32..1538, 10_000_u32..65_000], 0.0_f64..2.0, any::<bool>()), 1..600),
    ) {
        let rate = 10_f64.powf(exponent);
        let (mut queue, mut plain, cost) = (VirtualQueue::default(), Plain::new(rate), cost(rate));
        let mut now = 1_000_000_000;
        for (bytes, part, may) in packets {
            let wait = queue.wait(now) as f64;
            let expected = plain.add(now, bytes);
            // What a cost and the time of each packet are rounded to.
            prop_assert!((wait - expected).abs() <= 1e-4 * expected + 600.0, "{wait} ns, {expected} ns");
            let is_queue = wait > (THRESHOLD as f64).max((LEAST_BYTES as f64 * cost as f64 / f64::from(1 << COST_BITS)).round());
            prop_assert_eq!(queue.add(now, bytes, cost, may), plain.marks(now, is_queue, may));
            // Slow links have few packets in an interval, and fast ones many.
            let gap = (f64::from(bytes) / plain.rate).max(3e5);
            now += (gap * part / load) as u64;
        }
    }

    // Nothing that a caller could pass in makes it overflow or mark an empty queue.
    #[test]
    fn any_cost_is_fine(now in 1..u64::MAX, bytes in any::<u32>(), cost in any::<u64>()) {
        let mut queue = VirtualQueue::default();
        prop_assert!(!queue.add(now, bytes, cost, true));
        queue.add(now, bytes, cost, true);
    }
}

const MS: u64 = 1_000_000;
/// At this rate a full packet takes a ms.
const RATE: f64 = 12.304e6;

#[test]
fn a_burst_that_is_gone_before_the_next_one_is_not_marked() {
    // Twenty packets at once every 20 ms: all of the rate.
    let mut queue = VirtualQueue::default();
    assert!((1..2_000_u64).all(|tick| !queue.add(tick / 20 * 20 * MS + 1, 1538, cost(RATE), true)));
}

#[test]
fn who_does_not_slow_down_is_marked_more_and_more_often_and_not_for_long_afterwards() {
    let (mut queue, cost) = (VirtualQueue::default(), cost(RATE));
    let mut add = |half: u64| queue.add(MS + MS / 2 * half, 1538, cost, true);
    let mut marks = |from: u64, to: u64| (from..to).filter(|half| add(*half)).count();
    // Twice as fast as it drains, for a second each.
    let seconds = [marks(0, 2_000), marks(2_000, 4_000), marks(4_000, 6_000)];
    assert!((20..40).contains(&seconds[0]) && seconds.is_sorted(), "{seconds:?}");
    let end = 3_001 * MS;
    assert!(queue.wait(end) <= DEPTH * THRESHOLD);
    assert!(!queue.add(end + DEPTH * THRESHOLD, 1538, cost, true));
}
