//! What holds for any policy and any order of events (wan 2.2).

use std::path::Path;

use headway_arithmetic::flow::{Framing, Packet};
use headway_edge::classify::{LimitedBy, Meter, Window};
use headway_edge::{Allocator, Class, Limits, Middlebox, Policy, Ticket};
use headway_units::{Bytes, Duration, Instant, PerSide, Rate, Side};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Connection, MS, mbps};

/// Capacity in Mb/s.
const CAPACITY: f64 = 100.0;

fn policy() -> impl Strategy<Value = Policy> {
    let shares = vec(1_u32..100, 1..6);
    (shares, any::<[bool; 3]>(), 1_u32..=20).prop_map(|(shares, [borrow_idle, literal, whole], delta)| {
        let sum: u32 = shares.iter().sum::<u32>() + if whole { 0 } else { 50 };
        let class = |(index, share): (usize, &u32)| Class {
            name: index.to_string(),
            share: f64::from(*share) / f64::from(sum),
            priority: false,
            ceiling: None,
            split: None,
            ports: vec![index.to_string().parse().unwrap()],
            prefixes: Vec::new(),
            dscp: Vec::new(),
        };
        let class = shares.iter().enumerate().map(class).collect();
        let borrow_idle = borrow_idle && !literal;
        Policy { delta: f64::from(delta) / 10.0, borrow_idle, literal, class, ..Policy::default() }
    })
}

/// The rate of a share, as a part of what the policy's delta makes of the link.
fn part(share: u64, policy: &Policy) -> f64 {
    share as f64 / (1_u64 << 40) as f64 * 8e9 / (CAPACITY * 1e6 * policy.delta)
}

fn holds(
    policy: &Policy,
    allocator: &Allocator,
    live: &[(u32, Ticket, PerSide<u64>)],
) -> Result<(), TestCaseError> {
    let used: f64 = live_classes(policy, live).map(|(_, class)| class.share).sum();
    let all: f64 = policy.class.iter().map(|class| class.share).sum();
    let mut sum = 0.0;
    for (index, class) in live_classes(policy, live) {
        let mine = live.iter().filter(|one| one.0 == index as u32);
        let shares: Vec<f64> =
            mine.map(|one| part(allocator.shares_since(one.0, one.1)[Side::Lan], policy)).collect();
        let total: f64 = shares.iter().sum();
        sum += total;
        let lent = if policy.borrow_idle { all / used } else { 1.0 };
        // A class never has more than its share and what is lent to it; with the corrected
        // algorithm, neither less.
        prop_assert!(total <= class.share * lent + 1e-6, "{total} of {}", class.share);
        if !policy.literal {
            prop_assert!((total - class.share * lent).abs() < 1e-6, "{total} of {}", class.share);
            prop_assert!(shares.iter().all(|share| (share - shares[0]).abs() < 1e-9));
        }
        prop_assert!(shares.iter().all(|share| *share > 0.0));
    }
    // All that may be used is used if idle classes lend, as long as anybody is there.
    if policy.borrow_idle && !live.is_empty() {
        prop_assert!((sum - all).abs() < 1e-6, "{sum} of {all}");
    }
    prop_assert!(sum <= 1.0 + 1e-6);
    Ok(())
}

fn live_classes<'p>(
    policy: &'p Policy,
    live: &[(u32, Ticket, PerSide<u64>)],
) -> impl Iterator<Item = (usize, &'p Class)> {
    let classes = policy.class.iter().enumerate();
    classes.filter(move |(index, _)| live.iter().any(|one| one.0 as usize == *index))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn classes_share_the_link_in_every_state(policy in policy(), events in vec((any::<bool>(), any::<u16>()), 1..60)) {
        prop_assert!(policy.check().is_ok());
        let mut allocator = Allocator::new(&policy, mbps(CAPACITY));
        let mut live: Vec<(u32, Ticket, PerSide<u64>)> = Vec::new();
        for (begins, which) in events {
            let which = usize::from(which);
            if begins || live.is_empty() {
                let class = (which % policy.class.len()) as u32;
                live.push((class, allocator.begin(class).0, PerSide::both(u64::MAX)));
            } else {
                let ended = live.swap_remove(which % live.len());
                allocator.end(ended.0);
            }
            holds(&policy, &allocator, &live)?;
            for one in live.iter_mut().filter(|_| policy.literal) {
                // The printed algorithm never gives back.
                let now = allocator.shares_since(one.0, one.1);
                prop_assert!(now[Side::Lan] <= one.2[Side::Lan] && now[Side::Wan] <= one.2[Side::Wan]);
                one.2 = now;
            }
        }
        let counted: u32 = (0..policy.class.len() as u32).map(|class| allocator.live(class)).sum();
        prop_assert_eq!(counted as usize, live.len());
    }

    #[test]
    fn the_printed_algorithm_is_the_least_since_a_connection_began(
        events in vec((any::<bool>(), any::<u16>(), 1_u64..200), 1..60),
    ) {
        let policy = Policy { literal: true, ..Policy::default() };
        let mut allocator = Allocator::new(&policy, mbps(CAPACITY));
        // The same with a window for each connection, as it is printed.
        let mut live: Vec<(Ticket, u64)> = Vec::new();
        for (begins, which, rate) in events {
            if begins || live.is_empty() {
                allocator.set_capacity(Side::Lan, Rate::from_mbps(rate as f64));
                live.push((allocator.begin(0).0, u64::MAX));
                let computed = allocator.shares(0)[Side::Lan];
                live.iter_mut().for_each(|one| one.1 = one.1.min(computed));
            } else {
                live.swap_remove(usize::from(which) % live.len());
                allocator.end(0);
            }
            for (ticket, window) in &live {
                prop_assert_eq!(allocator.shares_since(0, *ticket)[Side::Lan], *window);
            }
        }
    }

    #[test]
    fn no_text_is_a_policy_that_cannot_be_used(text in "[a-z\\[\\]='\"0-9.\\n {},-]{0,120}") {
        if let Ok(policy) = Policy::parse(&text, Path::new("edge.toml")) {
            Middlebox::new(&policy, mbps(CAPACITY), Limits::default());
        }
    }

    #[test]
    fn no_packet_stops_a_middlebox(
        packets in vec((vec(any::<u8>(), 0..80), any::<bool>(), 0_u8..2, any::<u64>()), 1..20),
        connections in vec((any::<u16>(), 0_u64..2000), 0..20),
        idle in 0_i64..1000,
    ) {
        let limits = Limits { half_open: 4, established: 4, idle: Duration::from_ms(idle) };
        let mut middlebox = Middlebox::new(&Policy::default(), mbps(CAPACITY), limits);
        for (port, ms) in connections {
            Connection::new(port, 443, 40, 7).begin(&mut middlebox, ms);
        }
        for (mut bytes, is_frame, side, now) in packets {
            let framing = if is_frame { Framing::Ethernet } else { Framing::Ip };
            let window = Packet::read(&bytes, framing, side).map_or(0, |packet| packet.window);
            middlebox.on_bytes(&mut bytes, framing, side, Instant::from_ns(now));
            prop_assert!(Packet::read(&bytes, framing, side).map_or(0, |packet| packet.window) <= window);
            middlebox.expire(Instant::from_ns(now / MS));
        }
        prop_assert!(middlebox.connections().count() <= 4 && middlebox.half_open() <= 4);
        let counts = middlebox.counts();
        prop_assert_eq!(counts.begun - counts.ended, middlebox.connections().count() as u64);
    }
}

/// Sizes, and times between packets in ns: from back to back to pauses.
fn packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![
        4 => 1_000_u64..200_000,
        4 => 1_000_000_u64..60_000_000,
        1 => 80_000_000_u64..3_000_000_000,
    ];
    vec((gap, prop_oneof![40_u32..200, Just(1448)]), 1..200)
}

/// Whether two values differ by what rounding times to 256 ns and slots to 4 bytes explains.
fn are_near(one: f64, other: f64, absolute: f64) -> bool {
    (one - other).abs() <= absolute + 0.02 * one.abs().max(other.abs())
}

proptest! {
    // The kernel's sums tell what those in floating point tell, of all packets and of those since a turn.
    #[test]
    fn both_meters_tell_the_same(packets in packets(), waits in 0_u64..2_000) {
        let mut now = 1_000_000_000;
        let mut kernel = headway_arithmetic::flow::Meter::default();
        let mut window = Window::default();
        let mut meter: Option<Meter> = None;
        for (gap, size) in packets {
            now += gap;
            kernel.add(now, size, 1);
            let (at, size) = (Instant::from_ns(now), Bytes::new(size.into()));
            meter.get_or_insert_with(|| Meter::new(at, size));
            if kernel.packets > 1 {
                meter.iter_mut().for_each(|meter| meter.on_packet(at, size));
            }
        }
        now += waits * 1_000_000;
        window.look(now, &kernel);
        let expected = meter.unwrap().features(Instant::from_ns(now), LimitedBy::Path);
        let told = window.features(LimitedBy::Path).unwrap();
        prop_assert_eq!((told.packets, told.pauses, told.burst), (expected.packets, expected.pauses, expected.burst));
        prop_assert_eq!((told.duration, told.rate, told.mean_size), (expected.duration, expected.rate, expected.mean_size));
        prop_assert!(are_near(told.mean_gap.ns() as f64, expected.mean_gap.ns() as f64, 256.0));
        prop_assert!(are_near(told.gap_variation, expected.gap_variation, 0.02), "{told:?}, {expected:?}");
        prop_assert!(are_near(told.size_variation, expected.size_variation, 1e-3), "{told:?}, {expected:?}");
        prop_assert!(are_near(told.busy, expected.busy, 1e-9), "{told:?}, {expected:?}");
        // The kernel rounds the bytes of a slot to 4 in squares: by 2 of at least 40, and so the mean of squares by 1.05^2.
        let squares = [told.slot_variation, expected.slot_variation].map(|variation| variation.powi(2) + 1.0);
        let bound = squares[1] * (1.05_f64.powi(2) - 1.0) + 1e-9;
        prop_assert!((squares[0] - squares[1]).abs() <= bound, "{told:?}, {expected:?}");
    }
}

#[test]
fn a_window_forgets_what_is_older_than_two_turns() {
    let (mut kernel, mut window) = (headway_arithmetic::flow::Meter::default(), Window::default());
    let second = 1_000_000_000;
    // A hundred small packets a second for 20 s, then ten large ones a second.
    for tick in 0..4_000_u64 {
        let now = second + tick * second / 100;
        if tick < 2_000 {
            kernel.add(now, 100, 1);
        } else if tick % 10 == 0 {
            kernel.add(now, 1_400, 1);
        }
        if tick % 100 == 99 {
            window.look(now, &kernel);
        }
    }
    let features = window.features(LimitedBy::Unknown).unwrap();
    assert_eq!(
        (features.mean_size, features.gap_variation < 0.01),
        (Bytes::new(1_400), true),
        "{features:?}"
    );
    assert!((50..=100).contains(&features.packets), "{features:?}");
    // What was sent stays in view while nothing comes.
    window.look(60 * second, &kernel);
    let silent = window.features(LimitedBy::Unknown).unwrap();
    assert!(silent.pauses == 1 && silent.packets > 0, "{silent:?}");
}
