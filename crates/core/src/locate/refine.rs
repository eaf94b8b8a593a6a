//! A capacity from all pairs near a first estimate.

use crate::estimate::ppdd::Pairs;
use crate::units::{Duration, Rate};

/// Standard deviation of the kernels, as a share of the rate; at least the noise of timestamps.
const KERNEL: f64 = 0.007;

/// Pairs whose rates differ from the estimate by less than this share count, or by fewer than so many kernels.
const NEAR: f64 = 0.06;
const NEAR_KERNELS: f64 = 4.0;

/// Pairs that must be near.
const LEAST: usize = 8;

/// Times that the search continues from where it has arrived.
const STEPS: usize = 3;

/// Returns the mode of the pairs' rates that is closest to `first`.
///
/// The filter by delays selects a handful of pairs that met no other packets. Where hosts and routers delay packets by
/// some us, it prefers pairs whose first packet was late, which makes the capacity a few per cent too high. Most pairs
/// that met other packets did so before the narrow link, which gives them its gap again; the filter has shown which
/// mode that is.
pub(super) fn nearest_mode(pairs: &Pairs, first: Rate, quantum: Duration) -> Rate {
    let bits = pairs.packet().get() as f64 * 8e9;
    let rates: Vec<f64> = pairs.triplets().iter().map(|pair| bits / pair.dispersion.ns() as f64).collect();
    let mut mode = first.bps_f64();
    let kernel = KERNEL.max(quantum.ns() as f64 * mode / bits);
    let width = NEAR.max(NEAR_KERNELS * kernel);
    for _ in 0..STEPS {
        let near: Vec<f64> = rates.iter().copied().filter(|rate| (rate / mode - 1.0).abs() < width).collect();
        if near.len() < LEAST {
            break;
        }
        let deviation = kernel * mode;
        let density =
            |at: f64| near.iter().map(|rate| (-((at - rate) / deviation).powi(2) / 2.0).exp()).sum::<f64>();
        let best = near.iter().map(|at| (density(*at), *at)).max_by(|a, b| a.0.total_cmp(&b.0));
        mode = best.map_or(mode, |(_, at)| at);
    }
    Rate::from_bps_f64(mode)
}

/// A mode dominates if it is this much higher than any that is not near it.
const DOMINATES: f64 = 1.5;

/// Returns the mode of the rates of all pairs, if it is much higher than any other.
///
/// At most loads, a good part of the pairs leave the narrow link back to back and are not changed later. That gives a
/// sharp mode, also where delays vary too much for the filter.
pub(super) fn dominating_mode(pairs: &Pairs, quantum: Duration) -> Option<Rate> {
    let bits = pairs.packet().get() as f64 * 8e9;
    let rates: Vec<f64> = pairs.triplets().iter().map(|pair| bits / pair.dispersion.ns() as f64).collect();
    let kernel = |at: f64| KERNEL.max(quantum.ns() as f64 * at / bits);
    let density = |at: f64| {
        rates.iter().map(|rate| (-((rate / at - 1.0) / kernel(at)).powi(2) / 2.0).exp()).sum::<f64>()
    };
    let modes: Vec<(f64, f64)> = rates.iter().map(|at| (density(*at), *at)).collect();
    let highest =
        |modes: &mut dyn Iterator<Item = &(f64, f64)>| modes.copied().max_by(|a, b| a.0.total_cmp(&b.0));
    let (height, best) = highest(&mut modes.iter())?;
    let apart = NEAR.max(NEAR_KERNELS * kernel(best));
    let second = highest(&mut modes.iter().filter(|(_, at)| (at / best - 1.0).abs() > apart));
    let dominates = height >= LEAST as f64 && height >= DOMINATES * second.map_or(0.0, |(height, _)| height);
    dominates.then(|| Rate::from_bps_f64(best))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::ppdd::Settings;
    use crate::stream::Arrival;
    use crate::units::{Bytes, Instant};

    /// Pairs with these times between arrivals in ns.
    fn pairs(dispersions: impl IntoIterator<Item = u64>) -> Pairs {
        let size = Bytes::new(1_500);
        let mut pairs = Pairs::new(size, Settings::quantiles());
        for dispersion in dispersions {
            let arrival = |index, received| Arrival {
                index,
                size,
                sent: Instant::from_ns(1),
                received: Some(Instant::from_ns(received)),
            };
            pairs.push(&arrival(0, 5), &arrival(1, 5 + dispersion)).unwrap();
        }
        pairs
    }

    #[test]
    fn the_mode_near_the_estimate_wins_over_higher_ones_farther_away() {
        // 400 us are 30 Mb/s. Half of the pairs are around it, the others at 800 us.
        let near = (0..40).map(|i| 400_000 + (i % 5) * 500 - 1_000);
        let pairs = pairs(near.chain([800_000; 60]));
        let refined = nearest_mode(&pairs, Rate::from_mbps(31.2), Duration::from_us(2));
        assert!((refined.mbps() - 30.0).abs() < 0.05, "{refined}");
    }

    #[test]
    fn only_a_mode_much_higher_than_others_dominates() {
        let quantum = Duration::from_us(2);
        let mode = |others| dominating_mode(&pairs((0..40).map(|_| 400_000).chain(others)), quantum);
        let far = |count| (0..count).map(|_| 800_000).collect::<Vec<_>>();
        assert_eq!(mode(far(20)).map(|rate| rate.mbps().round()), Some(30.0));
        assert_eq!(mode(far(35)), None);
        assert_eq!(dominating_mode(&pairs([400_000; 5]), quantum), None, "too few");
    }

    #[test]
    fn an_estimate_without_pairs_near_it_stays() {
        let first = Rate::from_mbps(50.0);
        assert_eq!(nearest_mode(&pairs([400_000; 20]), first, Duration::from_us(2)), first);
        assert_eq!(nearest_mode(&pairs([]), first, Duration::from_us(2)), first);
    }
}
