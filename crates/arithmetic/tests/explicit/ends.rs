//! The ends of a connection, held against integers of 128 bits.

use headway_arithmetic::explicit::end::{
    LARGEST_WINDOW, Request, WINDOW_BITS, Window, header_time, spacing, throughput,
};

use crate::support::Random;

const NS_PER_S: i128 = 1_000_000_000;
const CASES: u32 = 200_000;

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
            assert_eq!(i128::from(request.next(rate, desired, srtt, segment)), delta);
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
