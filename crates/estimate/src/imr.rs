//! IMR: smoothing of one-way delays before the trend tests, against interrupt coalescing (rapid 2.17).

use super::{Decision, Trend};
use crate::denoise::{Wavelet, approximate};
use crate::stream::{Gaps, Refusal};

/// Number of groups of delays whose means IMR-avg tests.
const GROUPS: usize = 10;

/// Levels of the wavelet transform; each halves the number of values.
const LEVELS: u32 = 3;

/// The minimum number of values for the trend tests after the transform (rapid 2.17).
const MIN_POINTS: usize = 8;

/// Applies the trend tests to the means of ten consecutive groups of delays (IMR-avg, rapid 2.17).
///
/// # Errors
/// [`Refusal::TooShort`] with fewer than ten delays.
pub(crate) fn average(delays: &[f64], trend: &Trend) -> Result<Decision, Refusal> {
    if delays.len() < GROUPS {
        return Err(Refusal::TooShort);
    }
    let bound = |group: usize| group * delays.len() / GROUPS;
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    let means: [f64; GROUPS] = std::array::from_fn(|group| mean(&delays[bound(group)..bound(group + 1)]));
    Ok(trend.decide(&means))
}

/// Applies the trend tests to the delays after three levels of wavelet approximation
/// (IMR-wavelet, rapid 2.17).
///
/// `delays` is replaced by the n/8 values tested.
///
/// # Errors
/// [`Refusal::TooShort`] with fewer than 64 delays, which leave fewer than eight values.
pub(crate) fn wavelet(
    delays: &mut Vec<f64>,
    trend: &Trend,
    wavelet: &mut Wavelet,
) -> Result<Decision, Refusal> {
    if delays.len() >> LEVELS < MIN_POINTS {
        return Err(Refusal::TooShort);
    }
    approximate(delays, LEVELS, wavelet);
    Ok(trend.decide(delays))
}

/// Writes the delays that the gaps imply, in nanoseconds relative to the delay of the packet
/// before the first gap.
pub(crate) fn delays_from_gaps(gaps: &Gaps, delays: &mut Vec<f64>) {
    delays.clear();
    delays.push(0.0);
    let mut delay = 0i64;
    for (send, receive) in gaps.send.iter().zip(&gaps.receive) {
        delay = delay.wrapping_add(receive.ns()).wrapping_sub(send.ns());
        delays.push(delay as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Duration;

    /// Returns delays with the sawtooth of coalescing 12 packets at a time on top of a slope per packet.
    fn coalesced(packets: usize, slope: f64) -> Vec<f64> {
        (0..packets).map(|i| slope * i as f64 + 9.0 * (11 - i % 12) as f64).collect()
    }

    #[test]
    fn means_of_groups_see_through_saw_teeth() {
        let rising = coalesced(320, 0.5);
        assert_ne!(Trend::default().decide(&rising), Decision::Above);
        assert_eq!(average(&rising, &Trend::default()), Ok(Decision::Above));
        assert_eq!(average(&coalesced(320, -0.5), &Trend::default()), Ok(Decision::NotAbove));
    }

    #[test]
    fn the_wavelet_leaves_an_eighth_of_the_values() {
        // Coalescing of four packets at a time is averaged out; with twelve the answer would stay ambiguous.
        let mut rising: Vec<f64> =
            (0..320).map(|i| 0.5 * f64::from(i) + 9.0 * f64::from(3 - i % 4)).collect();
        assert_ne!(Trend::default().decide(&rising), Decision::Above);
        assert_eq!(wavelet(&mut rising, &Trend::default(), &mut Wavelet::default()), Ok(Decision::Above));
        assert_eq!(rising.len(), 40);
        let mut flat: Vec<f64> = (0..320).map(|i| f64::from(i % 3)).collect();
        assert_ne!(wavelet(&mut flat, &Trend::default(), &mut Wavelet::default()), Ok(Decision::Above));
    }

    #[test]
    fn too_few_delays_are_refused() {
        assert_eq!(average(&[1.0; 9], &Trend::default()), Err(Refusal::TooShort));
        let mut delays = vec![1.0; 63];
        assert_eq!(wavelet(&mut delays, &Trend::default(), &mut Wavelet::default()), Err(Refusal::TooShort));
    }

    #[test]
    fn delays_are_the_running_sum_of_gap_differences() {
        let mut gaps = Gaps::default();
        for (send, receive) in [(10, 12), (10, 9), (10, 15)] {
            gaps.push(Duration::from_ns(send), Duration::from_ns(receive));
        }
        let mut delays = Vec::new();
        delays_from_gaps(&gaps, &mut delays);
        assert_eq!(delays, [0.0, 2.0, 1.0, 6.0]);
    }
}
