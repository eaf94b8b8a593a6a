//! The p-stream generator in integer arithmetic, as a kernel needs it (rapid 2.2, 2.20).
//!
//! The ratio between rates is fixed at 256/223, which approximates the step of 1.15 of four rates
//! over a range of 50 %.

use headway_units::{Bytes, Duration, Rate};

/// Returns the gap at the next higher rate: gap * 223 / 256, which is gap / 1.148 and within
/// 0.2 % of gap / 1.15.
pub const fn next_gap(gap: Duration) -> Duration {
    Duration::from_ns((gap.ns() * 223) >> 8)
}

/// Fractional bits in the weight of a rate.
const WEIGHT_DIGITS: u32 = 16;

/// Longest time of one packet at each rate that keeps 64-bit arithmetic in range: about 1.6 days.
const MAX_TIME: u64 = 1 << (63 - WEIGHT_DIGITS);

/// Writes the gap of each of `gaps.len()` rates, lowest rate first, such that the same number of packets at
/// each rate averages to `average`.
///
/// The result is within 0.3 % of the floating-point generator with a step of 1.15 for up to four rates; with
/// more rates the two drift apart, because the step itself differs by 0.2 %. The packet size times the number
/// of rates may be up to 2.3 GB.
pub fn p_stream_gaps(average: Rate, packet: Bytes, gaps: &mut [Duration]) {
    let rate = average.bps().max(1);
    // The gaps must sum to the time that all packets take at the average rate.
    let bit_ns = (packet * gaps.len() as u64).get().saturating_mul(8_000_000_000);
    let time = (bit_ns / rate).min(MAX_TIME);
    let next = |weight: u64| (weight * 223) >> 8;
    let first = 1 << WEIGHT_DIGITS;
    let weights: u64 =
        std::iter::successors(Some(first), |weight| Some(next(*weight))).take(gaps.len()).sum();
    let mut weight = first;
    for gap in gaps {
        *gap = Duration::from_ns(((time * weight + weights / 2) / weights) as i64);
        weight = next(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Schedule, Shape};
    use proptest::prelude::*;

    #[test]
    fn a_thousand_over_1_15_is_871() {
        assert_eq!(next_gap(Duration::from_ns(1_000)), Duration::from_ns(871));
    }

    #[test]
    fn no_gaps_are_no_trouble() {
        p_stream_gaps(Rate::ZERO, Bytes::new(9038), &mut []);
    }

    proptest! {
        #[test]
        fn integers_differ_from_floats_by_less_than_0_3_percent(mbps in 0.1..20_000.0f64, packet in 1_000u64..10_000) {
            let (average, packet) = (Rate::from_mbps(mbps), Bytes::new(packet));
            let mut gaps = [Duration::ZERO; 4];
            p_stream_gaps(average, packet, &mut gaps);
            let shape = Shape { rates: 4, packets_per_rate: 1, step: 1.15 };
            for (integer, float) in gaps.iter().zip(Schedule::p_stream(shape, average, packet).gaps) {
                // Both are rounded to whole nanoseconds.
                let allowed = 0.003 * float.ns() as f64 + 1.0;
                prop_assert!((integer.ns() - float.ns()).abs() as f64 <= allowed, "{integer:?} {float:?}");
            }
        }
    }
}
