//! Logarithm, power of two and moving average against double precision; wide products against 128 bits.

use headway_arithmetic::{average, exp2_negative, log2, product, scale};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn the_logarithm_is_right_to_its_last_bits(x in 1_u64..1 << 62, bits in 4_u32..=24) {
        let exact = (x as f64).log2() - f64::from(bits);
        let step = 2.0_f64.powi(-(bits as i32));
        let off = exact - log2(x, bits) as f64 * step;
        // Each squaring rounds down, and doubles the error of the earlier ones.
        prop_assert!((-1e-9..=f64::from(bits) * 4.0 * step).contains(&off), "{off} of {step}");
    }

    #[test]
    fn the_logarithm_never_falls(x in 1_u64..1 << 62, more in 0_u64..1 << 40) {
        prop_assert!(log2(x + more, 16) >= log2(x, 16));
    }

    #[test]
    fn the_power_is_within_three_in_a_thousand(x in 0_u32..12 << 16) {
        let exact = 2.0_f64.powf(-f64::from(x) / 65536.0) * 65536.0;
        let off = f64::from(exp2_negative(x)) - exact;
        prop_assert!(off.abs() <= 0.003 * exact + 1.0, "{off} of {exact}");
    }
}

#[test]
fn the_power_halves_exactly_and_ends_at_zero() {
    assert_eq!([0, 1, 2, 16].map(|x| exp2_negative(x << 16)), [65536, 32768, 16384, 1]);
    assert_eq!(exp2_negative(17 << 16), 0);
    assert_eq!(exp2_negative(u32::MAX), 0);
}

/// ls-aimd F33: alpha against double precision over 10^5 windows.
#[test]
fn the_average_follows_double_precision() {
    let (mut fixed, mut exact) = (1_u32 << 24, 1.0_f64);
    let mut state = 1_u64;
    for _ in 0..100_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fraction = (state >> 44) as u32;
        fixed = average(fixed, fraction, 4);
        exact += (f64::from(fraction) / f64::from(1 << 20) - exact) / 16.0;
        assert!((f64::from(fixed) / f64::from(1 << 24) - exact).abs() < 1e-5);
    }
}

#[test]
fn without_marks_the_average_ends_at_zero_and_with_all_at_one() {
    for shift in [4, 5] {
        let settled = |fraction| (0..2000).fold(1_u32 << 20, |value, _| average(value, fraction, shift));
        assert_eq!(settled(0), 0);
        assert!(settled(1 << 20).abs_diff(1 << (20 + shift)) <= 1 << shift);
    }
}

/// Numbers of all lengths, and those beside powers of two, where digits are estimated wrongly most often.
fn wide(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let shift = mixed % 64;
    match mixed >> 61 {
        0 => u64::MAX << shift,
        1 => (1 << shift) + 1,
        2 => (1 << shift) - 1,
        _ => mixed.rotate_left(32) >> shift,
    }
}

// As compiled for BPF, which has no integers of 128 bits.
unsafe extern "C" {
    safe fn headway_portable_scale(a: u64, b: u64, divisor: u64) -> u64;
    safe fn headway_portable_product(a: u64, b: u64, shift: u32) -> u64;
}

#[test]
fn products_of_128_bits_and_their_quotients_are_exact() {
    for seed in 0..500_000 {
        let [a, b, divisor] = [0, 1, 2].map(|k| wide(3 * seed + k));
        let exact = u128::from(a) * u128::from(b);
        let expected = (exact + u128::from(divisor / 2))
            .checked_div(u128::from(divisor))
            .map_or(u64::MAX, |quotient| u64::try_from(quotient).unwrap_or(u64::MAX));
        assert_eq!(scale(a, b, divisor), expected, "{a} * {b} / {divisor}");
        assert_eq!(headway_portable_scale(a, b, divisor), expected, "{a} * {b} / {divisor}");
        let shift = 1 + (seed % 63) as u32;
        let shifted = (exact + (1 << (shift - 1))) >> shift;
        let expected = u64::try_from(shifted).unwrap_or(u64::MAX);
        assert_eq!(product(a, b, shift), expected, "{a} * {b} >> {shift}");
        assert_eq!(headway_portable_product(a, b, shift), expected, "{a} * {b} >> {shift}");
    }
}
