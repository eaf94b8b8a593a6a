use super::*;
use crate::Bound;
use crate::stream::{Arrival, StreamRecord};
use headway_units::{Duration, Instant};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

const PACKET: Bytes = Bytes::new(1_500);
const GAP: Duration = Duration::from_us(12);
/// Serialisation times of the reference path (wan 2.14), in nanoseconds.
const REFERENCE: [u64; 7] = [24_000, 24_000, 30_000, 20_000, 40_000, 15_000, 20_000];

fn arrival(index: u32, sent: u64, received: Option<u64>) -> Arrival {
    Arrival { index, size: PACKET, sent: Instant::from_ns(sent), received: received.map(Instant::from_ns) }
}

/// A pair over the links of the reference path, where packets find queues of the given lengths at every link.
fn cross(sent: u64, mut queueing: impl FnMut() -> [u64; 2]) -> [u64; 2] {
    REFERENCE.iter().fold([sent, sent + 12_000], |[first, second], time| {
        let [before, between] = queueing();
        let first = first + before + time;
        // The second waits for the first, and for what came between them.
        [first, second.max(first + between) + time]
    })
}

/// Pairs of which each packet finds a queue at a link with this probability, with exponential
/// lengths around 60 us.
fn loaded(count: u64, probability: f64, seed: u64) -> Vec<Arrival> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut queue = move || {
        if uniform() < probability { (-60_000.0 * (1.0 - uniform()).ln()) as u64 } else { 0 }
    };
    let pair = |index: u64| {
        let sent = 1_000 + index * 20_000_000;
        let [first, second] = cross(sent, || [queue(), queue()]);
        let index = 2 * index as u32;
        [arrival(index, sent, Some(first)), arrival(index + 1, sent + 12_000, Some(second))]
    };
    (0..count).map(pair).collect::<Vec<_>>().concat()
}

fn record(arrivals: Vec<Arrival>) -> StreamRecord {
    StreamRecord { id: 0, packet: PACKET, average: Rate::ZERO, intended: Vec::new(), arrivals }
}

fn pairs(arrivals: Vec<Arrival>) -> Pairs {
    let mut pairs = Pairs::new(PACKET, Settings::default());
    pairs.add_stream(&record(arrivals));
    pairs
}

#[test]
fn a_clean_pair_at_300_mbps_is_40_us_wide_and_its_second_packet_28_us_slower() {
    let [first, second] = cross(0, || [0, 0]);
    let triplet = Triplet::of(&arrival(0, 0, Some(first)), &arrival(1, 12_000, Some(second)));
    let triplet = triplet.expect("in order");
    assert_eq!(triplet.dispersion, Duration::from_us(40));
    assert_eq!(triplet.second - triplet.first, Duration::from_us(28));
    assert_eq!(triplet.gap, GAP);
}

#[test]
fn a_pair_over_500_400_and_300_mbps_is_40_us_wide() {
    // wan F29.
    let rates = [500, 400, 300].map(|mbps| Rate::from_bps(mbps * 1_000_000));
    assert_eq!(crate::hire::dispersion(&rates, PACKET, 0, GAP, 3), Duration::from_us(40));
}

#[test]
fn delays_and_dispersion_of_a_pair_agree() {
    let pairs = pairs(loaded(500, 0.3, 1));
    assert_eq!(pairs.len(), 500);
    assert_eq!(pairs.identity_violations(2), 0);
}

#[test]
fn an_idle_path_has_an_exact_capacity_and_the_printed_strict_comparison_none() {
    let arrivals = loaded(50, 0.0, 1);
    let capacity = pairs(arrivals.clone()).capacity().expect("enough pairs");
    assert_eq!(capacity.rate, Rate::from_mbps(300.0));
    assert_eq!((capacity.low, capacity.high), (capacity.rate, capacity.rate));
    assert_eq!((capacity.confidence, capacity.bound, capacity.percentile), (1.0, Bound::Within, 1));
    assert_eq!((capacity.selected, capacity.clean, capacity.pairs), (50, 50, 50));
    let mut literal = Pairs::new(PACKET, Settings::literal());
    literal.add_stream(&record(arrivals));
    assert_eq!(literal.capacity(), Err(Insufficient { selected: 0, pairs: 50, needed: 6 }));
}

#[test]
fn the_filter_finds_the_capacity_where_the_highest_mode_is_not_it() {
    let pairs = pairs(loaded(1_000, 0.35, 2));
    let capacity = pairs.capacity().expect("enough pairs");
    assert!((capacity.rate.mbps() / 300.0 - 1.0).abs() < 0.01, "{capacity:?}");
    assert!(capacity.clean >= 1 && capacity.selected >= 6);
}

#[test]
fn offset_and_skew_of_the_clocks_do_not_change_the_estimate() {
    // wan F58.
    for probability in [0.0, 0.2, 0.35] {
        let arrivals = loaded(1_000, probability, 3);
        let plain = pairs(arrivals.clone()).capacity().expect("enough").rate.bps_f64();
        for skew in [50e-6, -50e-6] {
            let moved = arrivals.iter().map(|packet| {
                let received = packet.received.expect("all arrive").ns();
                let skewed = received as f64 * (1.0 + skew) + 5e9;
                Arrival { received: Some(Instant::from_ns(skewed.round() as u64)), ..*packet }
            });
            let skewed = pairs(moved.collect()).capacity().expect("enough").rate.bps_f64();
            assert!((skewed / plain - 1.0).abs() < 0.01, "{plain} {skewed}");
        }
    }
}

#[test]
fn pairs_that_cannot_be_used_are_counted_by_reason() {
    let pair = |index: u32, times: [Option<u64>; 2]| {
        let sent = u64::from(index) * 20_000_000;
        let [first, second] = times.map(|time| time.map(|time| sent + time));
        [arrival(2 * index, sent, first), arrival(2 * index + 1, sent + 12_000, second)]
    };
    let mut arrivals = [
        pair(0, [Some(50_000), Some(90_000)]),
        pair(1, [Some(50_000), None]),
        pair(2, [None, Some(90_000)]),
        pair(3, [Some(90_000), Some(50_000)]),
        pair(4, [Some(50_000), Some(50_000)]),
        pair(5, [Some(50_000), Some(90_000)]),
    ]
    .concat();
    arrivals.insert(1, arrivals[0]);
    // The second packet left 1 ms after the first.
    arrivals.extend(pair(6, [Some(50_000), Some(1_090_000)]));
    arrivals.last_mut().expect("not empty").sent = Instant::from_ns(121_000_000);
    let pairs = pairs(arrivals);
    let dropped = pairs.dropped();
    assert_eq!(dropped, Dropped { lost: 2, reordered: 2, duplicated: 1, late: 1 });
    assert_eq!((pairs.len(), dropped.total()), (1, 6));
    assert_eq!(
        dropped.to_string(),
        "2 packets lost, 2 packets reordered, 1 packets duplicated, 1 sender interrupted"
    );
}

#[test]
fn five_pairs_are_too_few() {
    assert_eq!(pairs(loaded(5, 0.0, 1)).capacity(), Err(Insufficient { selected: 5, pairs: 5, needed: 6 }));
    assert_eq!(pairs(Vec::new()).capacity(), Err(Insufficient { selected: 0, pairs: 0, needed: 6 }));
}

#[test]
fn more_pairs_are_wanted_until_the_mode_stands() {
    assert_eq!(pairs(Vec::new()).wanted(), Some(200));
    assert_eq!(pairs(loaded(150, 0.0, 1)).wanted(), Some(50));
    assert_eq!(pairs(loaded(200, 0.0, 1)).wanted(), None);
    assert_eq!(pairs(loaded(200, 0.95, 1)).wanted(), Some(100));
}

#[test]
fn a_sender_that_is_slower_than_the_path_gives_a_lower_bound() {
    let pair = |index: u32| {
        let sent = u64::from(index) * 20_000_000;
        [
            arrival(2 * index, sent, Some(sent + 70)),
            arrival(2 * index + 1, sent + 120_000, Some(sent + 120_070)),
        ]
    };
    let capacity = pairs((0..50).map(pair).collect::<Vec<_>>().concat()).capacity().expect("enough pairs");
    assert_eq!((capacity.rate, capacity.bound), (Rate::from_mbps(100.0), Bound::AtLeast));
}

#[test]
fn rivals_agree_on_an_idle_path() {
    let pairs = pairs(loaded(50, 0.0, 1));
    assert_eq!(pairs.raw_mode(), Some(Rate::from_mbps(300.0)));
    assert_eq!(pairs.capprobe(), Some(Rate::from_mbps(300.0)));
    assert_eq!(first_mode_above(&pairs.modes(), Rate::from_mbps(250.0)), Some(Rate::from_mbps(300.0)));
}

#[test]
fn capprobe_takes_the_pair_with_the_lowest_delays() {
    let pairs = pairs(
        [
            [arrival(0, 0, Some(100_000)), arrival(1, 12_000, Some(120_000))],
            [arrival(2, 20_000_000, Some(20_060_000)), arrival(3, 20_012_000, Some(20_100_000))],
        ]
        .concat(),
    );
    assert_eq!(pairs.capprobe(), Some(Rate::from_mbps(300.0)));
}

#[test]
fn pathrate_takes_the_first_mode_above_the_dispersion_rate() {
    let mode = |at: f64, height: f64| crate::kde::Mode { at: at * 1e6, height };
    let modes = [mode(40.0, 60.0), mode(100.0, 20.0), mode(120.0, 1.0), mode(300.0, 30.0)];
    let first = |mbps: f64| first_mode_above(&modes, Rate::from_mbps(mbps)).map(|rate| rate.mbps());
    assert_eq!(first(30.0), Some(40.0));
    assert_eq!(first(70.0), Some(100.0));
    // The mode at 120 is noise.
    assert_eq!(first(110.0), Some(300.0));
    assert_eq!(first(400.0), Some(300.0));
    assert_eq!(first_mode_above(&[], Rate::from_mbps(1.0)), None);
}

proptest! {
    #[test]
    fn any_times_at_all_are_accepted(
        packets in prop::collection::vec((0u32..80, any::<u64>(), any::<Option<u64>>()), 0..80),
        literal: bool,
    ) {
        let mut packets = packets;
        packets.sort_by_key(|packet| packet.0);
        let arrivals = packets.into_iter().map(|(index, sent, received)| arrival(index, sent, received)).collect();
        let mut pairs = Pairs::new(PACKET, if literal { Settings::literal() } else { Settings::default() });
        pairs.add_stream(&record(arrivals));
        let _ = (pairs.capprobe(), pairs.raw_mode(), pairs.wanted());
        if let Ok(capacity) = pairs.capacity() {
            prop_assert!(capacity.low <= capacity.rate && capacity.rate <= capacity.high);
            prop_assert!((0.0..=1.0).contains(&capacity.confidence));
        }
    }
}
