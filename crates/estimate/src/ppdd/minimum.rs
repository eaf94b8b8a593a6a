//! The mode of the pairs' rates next to the capacity that the lowest delays imply.
//!
//! A first packet with the lowest delay and a second one with the lowest delay are both undelayed, also if
//! they belong to different pairs: then they would have arrived as far apart as the narrow link puts them
//! (Chan, Luo, Chang, "A minimum-delay-difference method for mitigating cross-traffic impact on capacity
//! measurement", CoNEXT 2009). That is far more likely than a pair in which both are. Two delays have the
//! noise of two timestamps, though. Many pairs that met other packets before the narrow link have its gap
//! nevertheless; they are a mode next to that estimate.

use super::capacity::{Ranked, Selection};
use super::{Insufficient, Pairs};
use crate::kde::modes;
use headway_units::Duration;

/// The mode is searched among pairs whose rates differ from that estimate by less than this share, if
/// kernels are narrower than half of it: on fast links the noise is as large as the gaps, and the lowest
/// delays have less of it.
const NEAR: f64 = 0.03;

impl Pairs {
    /// Returns the mode next to the capacity that the lowest delays imply, and the pairs near it; where there
    /// are hardly any, that capacity.
    pub(super) fn next_to_lowest(
        &self,
        ranked: &Ranked,
        weights: &[u32],
    ) -> Result<(f64, Selection), Insufficient> {
        let total = weights.iter().map(|weight| *weight as usize).sum();
        if total <= self.settings.alpha {
            return Err(self.insufficient(total, total));
        }
        let implied = self.rate(lowest_gap(ranked, weights));
        let near = |(index, weight): (usize, &u32)| {
            let counts = *weight > 0 && (ranked.rate[index] / implied - 1.0).abs() < NEAR;
            counts.then_some((index as u32, *weight))
        };
        let near = Selection::near(weights.iter().enumerate().filter_map(near).collect());
        let bandwidth = self.bandwidth_at(self.settings.bandwidth, implied);
        if near.count() <= self.settings.alpha || bandwidth > implied * NEAR / 2.0 {
            return Ok((implied, near));
        }
        let modes = modes(&mut near.samples(ranked), bandwidth);
        let highest = modes.iter().max_by(|a, b| a.height.total_cmp(&b.height));
        Ok((highest.map_or(implied, |mode| mode.at), near))
    }
}

/// Returns the time between the arrivals of a first and a second packet that were both undelayed.
fn lowest_gap(ranked: &Ranked, weights: &[u32]) -> Duration {
    let counted = || (0..weights.len()).filter(|index| weights[*index] > 0);
    let first = counted().map(|index| ranked.first[index]).min();
    // From the departure of the first one: a late second packet is not a fast one.
    let last = counted().map(|index| ranked.gaps[index] + ranked.second[index]).min();
    (last.unwrap_or_default() - first.unwrap_or_default()).max(Duration::from_ns(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ppdd::{Bandwidth, Settings};
    use crate::stream::Arrival;
    use headway_units::{Bytes, Instant};

    /// Pairs sent back to back: the delay of the first packet and the gap at arrival, in ns.
    fn pairs(observed: impl IntoIterator<Item = (u64, u64)>) -> Pairs {
        let size = Bytes::new(1_500);
        let bandwidth = Bandwidth::Relative(0.007);
        let mut pairs = Pairs::new(size, Settings { bandwidth, ..Settings::lowest_delays() });
        for (number, (delay, gap)) in observed.into_iter().enumerate() {
            let sent = 1_000_000_000 + 20_000_000 * number as u64;
            let arrival = |index, received| Arrival {
                index,
                size,
                sent: Instant::from_ns(sent),
                received: Some(Instant::from_ns(received)),
            };
            pairs.push(&arrival(0, sent + delay), &arrival(1, sent + delay + gap)).unwrap();
        }
        pairs
    }

    fn mbps(pairs: &Pairs) -> Option<f64> {
        pairs.capacity().ok().map(|capacity| capacity.rate.mbps())
    }

    #[test]
    fn undelayed_packets_of_different_pairs_tell_the_mode() {
        // 400 us are 30 Mb/s. No pair is undelayed as a whole: the first packets of the pairs with that gap
        // come late. More pairs were compressed to 300 us or spread to 800 us.
        let narrow = (0..30).map(|i| (50_000 + i * 2_000, 400_000 + (i % 5) * 500 - 1_000));
        let compressed = (0..60).map(|i| (150_000 + i * 1_000, 300_000));
        let first = (0..60).map(|i| (i % 3 * 100, 800_000));
        let second = (0..3).map(|i| (20_000 + i, 380_000));
        let found = mbps(&pairs(narrow.chain(compressed).chain(first).chain(second))).unwrap();
        assert!((found - 30.0).abs() < 0.1, "{found}");
    }

    #[test]
    fn a_late_second_packet_is_not_a_fast_one() {
        let usual = (0..40).map(|i| (i * 1_000, 400_000));
        let mut all = pairs(usual);
        let size = Bytes::new(1_500);
        // Left 350 us after the first packet, so it waited only 50 us.
        let (sent, first) = (2_000_000_000, 5_000);
        let arrival = |index, sent, received| Arrival {
            index,
            size,
            sent: Instant::from_ns(sent),
            received: Some(Instant::from_ns(received)),
        };
        all.push(&arrival(0, sent, sent + first), &arrival(1, sent + 350_000, sent + first + 400_000))
            .unwrap();
        assert!((mbps(&all).unwrap() - 30.0).abs() < 0.01);
    }

    #[test]
    fn without_pairs_near_it_the_lowest_delays_decide() {
        // Implied: 400 us. The pairs have other gaps.
        let spread = (0..40).map(|i| (i * 100, 600_000 + i * 10_000));
        let late = (0..40).map(|i| (250_000 + i * 10_000, 150_000));
        assert!((mbps(&pairs(spread.chain(late))).unwrap() - 30.0).abs() < 1e-9);
        let insufficient = pairs((0..7).map(|i| (i, 400_000))).capacity().unwrap_err();
        assert_eq!((insufficient.pairs, insufficient.needed), (7, 8));
    }
}
