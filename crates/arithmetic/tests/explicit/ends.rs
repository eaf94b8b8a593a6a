//! The ends of a connection, held against integers of 128 bits.

use headway_arithmetic::explicit::end::{
    LARGEST_WINDOW, Request, Rtt, Share, WINDOW_BITS, Window, has_waited, header_time, spacing, throughput,
};
use headway_arithmetic::explicit::{VERSION_RCP, VERSION_XCP};

use crate::support::Random;

const NS_PER_S: i128 = 1_000_000_000;
const CASES: u32 = 200_000;
const SEGMENT: u64 = 1538;
/// A segment in the units of a window.
const UNITS: u64 = SEGMENT << WINDOW_BITS;
/// This many segments were sent when Linux paces.
const PACED: u32 = 10;
const MS: u64 = 1_000_000;

/// A number of up to `bits` bits, with small ones as likely as large ones.
fn number(random: &mut Random, bits: u64) -> u64 {
    random.next() >> (64 - bits + random.next() % bits)
}

#[test]
fn times_and_rates_equal_those_of_wide_integers() {
    let mut random = Random(1);
    for _ in 0..CASES {
        let (bytes, ns, rate) =
            (number(&mut random, 40), number(&mut random, 40).max(1), number(&mut random, 40));
        let (wide, time) = (i128::from(bytes) * 8 * NS_PER_S, i128::from(ns));
        assert_eq!(i128::from(throughput(bytes, ns)), (wide / time).min(u64::MAX.into()));
        if rate > 0 {
            let x = (wide + i128::from(rate / 2)) / i128::from(rate);
            assert_eq!(i128::from(spacing(bytes, rate)), x.min(u64::MAX.into()));
        }
        let units = ((time << 28) + NS_PER_S / 2) / NS_PER_S;
        assert_eq!(i128::from(header_time(ns)), units.clamp(1, u32::MAX.into()));
    }
}

/// The remainder of rounding is part of what the next packet asks for.
#[test]
fn requests_equal_those_of_wide_integers() {
    let mut random = Random(2);
    for _ in 0..CASES / 10 {
        let (mut request, mut remainder) = (Request::default(), 0);
        // Up to 17 Gb/s and a second, where the divisor has 64 bits at most.
        let (rate, desired) = (number(&mut random, 34), number(&mut random, 40));
        let (srtt, segment) = (number(&mut random, 30).max(1), number(&mut random, 16) as u32);
        for _ in 0..10 {
            let change = i128::from(desired) - i128::from(rate);
            let bits = (i128::from(rate) * i128::from(srtt)).max(1);
            let share = ((change * i128::from(segment) * NS_PER_S) << 16) / bits + remainder;
            let whole = (share + (1 << 15)) >> 16;
            let delta = whole.clamp(-i128::from(i32::MAX), i32::MAX.into());
            remainder = if delta == whole { share - (whole << 16) } else { 0 };
            assert_eq!(i128::from(request.next(Share::new(rate, desired, srtt, segment))), delta);
        }
    }
}

#[test]
fn windows_equal_those_of_wide_integers() {
    let mut random = Random(3);
    let (low, high) = (1500 << WINDOW_BITS, i128::from(LARGEST_WINDOW) << WINDOW_BITS);
    let (mut window, mut value, mut rest) = (Window::new(0, 1500), low, 0);
    let mut moved = 0;
    for _ in 0..CASES {
        let srtt = number(&mut random, 36);
        if random.next().is_multiple_of(20) {
            let rate = number(&mut random, 32) as u32;
            window.on_rate(rate, srtt);
            if rate > 0 && srtt > 0 && rate < u32::MAX {
                let bytes = (i128::from(rate) * i128::from(srtt)) << WINDOW_BITS;
                (value, rest) = (((bytes + NS_PER_S / 2) / NS_PER_S).clamp(low, high), 0);
            }
        } else {
            let feedback =
                number(&mut random, 31) as i32 * if random.next().is_multiple_of(2) { 1 } else { -1 };
            window.on_change(feedback, srtt);
            if srtt > 0 {
                let change = ((i128::from(feedback) * i128::from(srtt)) << WINDOW_BITS) + rest;
                let next = value + change.div_euclid(NS_PER_S);
                rest = if (low..=high).contains(&next) { change.rem_euclid(NS_PER_S) } else { 0 };
                value = next.clamp(low, high);
            }
        }
        assert_eq!(i128::from(window.bytes()), value);
        moved += u32::from(low < value && value < high);
    }
    assert!(moved > CASES / 10, "{moved}");
}

/// Whole segments lag behind the bytes by less than one, at every ACK.
#[test]
fn whole_windows_of_xcp_are_those_in_bytes_on_average() {
    let mut random = Random(4);
    let (mut window, mut sum, mut segments) = (Window::new(0, SEGMENT), 0, 0);
    for _ in 0..CASES {
        if random.next().is_multiple_of(100) {
            window.set((2 * UNITS).max(number(&mut random, 36)));
        }
        if window.bytes() < 2 * UNITS {
            continue;
        }
        sum += window.bytes();
        let whole = window.whole(VERSION_XCP, PACED);
        segments += whole;
        assert!(sum >= segments * UNITS && sum - segments * UNITS < UNITS, "{sum} {segments}");
        assert!(whole * UNITS < window.bytes() + UNITS);
    }
    assert!(segments > u64::from(CASES));
}

#[test]
fn whole_windows_that_are_paced_have_room_for_the_fraction_and_for_receivers_that_wait() {
    for (version, bytes, whole) in [
        (VERSION_XCP, UNITS, 2),
        (VERSION_XCP, 2 * UNITS - 1, 2),
        (VERSION_XCP, 2 * UNITS, 2),
        (VERSION_XCP, 3 * UNITS - 1, 2),
        (VERSION_RCP, UNITS, 2),
        (VERSION_RCP, UNITS + 1, 3),
        (VERSION_RCP, 3 * UNITS, 4),
        (VERSION_RCP, 3 * UNITS + 1, 5),
    ] {
        assert_eq!(Window::new(bytes, SEGMENT).whole(version, PACED), whole, "{version} {bytes}");
    }
    // What was carried is forgotten below two segments.
    let mut window = Window::new(3 * UNITS - 1, SEGMENT);
    assert_eq!(window.whole(VERSION_XCP, PACED), 2);
    window.set(UNITS);
    assert_eq!(window.whole(VERSION_XCP, PACED), 2);
    window.set(2 * UNITS + 1);
    assert_eq!(window.whole(VERSION_XCP, PACED), 2);
}

#[test]
fn before_linux_paces_whole_windows_are_never_more_than_those_in_bytes_or_one() {
    let mut random = Random(5);
    for _ in 0..CASES / 10 {
        let mut window = Window::new(number(&mut random, 30), SEGMENT);
        for version in [VERSION_XCP, VERSION_RCP] {
            for sent in 0..PACED {
                assert_eq!(window.whole(version, sent), window.bytes() / UNITS);
            }
        }
    }
}

#[test]
fn xcp_paces_its_window_per_shorter_rtt_and_a_segment_more_where_acks_clock_it() {
    let (mut rising, mut falling) = (Rtt::default(), Rtt::default());
    let clocked = Window::new(10 * UNITS, SEGMENT);
    assert_eq!(clocked.pacing_rate(VERSION_XCP, 0, &rising), 0);
    [100, 180].into_iter().for_each(|ms| rising.sample(ms * MS));
    [180, 100].into_iter().for_each(|ms| falling.sample(ms * MS));
    assert_eq!((rising.smoothed(), falling.smoothed()), (110 * MS, 170 * MS));
    assert_eq!(clocked.pacing_rate(VERSION_XCP, 0, &rising), throughput(11 * SEGMENT, 110 * MS));
    assert_eq!(clocked.pacing_rate(VERSION_XCP, 0, &falling), throughput(11 * SEGMENT, 100 * MS));
    // Below two segments the pace carries the fraction.
    let small = Window::new(2 * UNITS - 1, SEGMENT);
    let rate = |ms: u64| throughput(small.bytes() >> WINDOW_BITS, ms * MS);
    assert_eq!(small.pacing_rate(VERSION_XCP, 0, &falling), rate(100));
    // RCP has the rate that a router gave it, and without one its window per smoothed RTT.
    assert_eq!(small.pacing_rate(VERSION_RCP, 1000, &falling), 8000);
    assert_eq!(small.pacing_rate(VERSION_RCP, 0, &falling), rate(170));
}

#[test]
fn after_an_idle_period_rcp_has_one_segment_and_xcp_ten_at_most() {
    for (version, segments, after) in
        [(VERSION_RCP, 20, 1), (VERSION_RCP, 1, 1), (VERSION_XCP, 20, 10), (VERSION_XCP, 9, 9)]
    {
        let mut window = Window::new(segments * UNITS, SEGMENT);
        assert_eq!(window.restart(version), segments != after);
        assert_eq!(window.bytes(), after * UNITS);
    }
}

#[test]
fn acks_may_have_waited_if_segments_are_further_apart_than_receivers_wait() {
    assert!(has_waited(40 * MS, 140 * MS, 100 * MS));
    assert!(!has_waited(40 * MS, 139 * MS, 100 * MS));
    assert!(!has_waited(39 * MS, 140 * MS, 100 * MS));
}
