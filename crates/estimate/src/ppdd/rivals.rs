//! Other estimators of the capacity from the same pairs, for comparison (wan 3.2).

use super::{Bandwidth, Pairs};
use crate::kde::{Mode, Sample, modes};
use headway_units::Rate;

/// The bandwidth of 2 Mb/s at 300 Mb/s.
pub(super) const RELATIVE_BANDWIDTH: f64 = 1.0 / 150.0;
/// Modes lower than this share of the highest are noise.
const LEAST_HEIGHT: f64 = 0.1;

impl Pairs {
    /// Returns the modes of the rates of all pairs with a bandwidth of 2 Mb/s at 300
    /// Mb/s, in ascending order.
    pub fn modes(&self) -> Vec<Mode> {
        let rates = self.triplets.iter().map(|triplet| self.rate(triplet.dispersion));
        let mut samples: Vec<Sample> = rates.map(|value| Sample { value, weight: 1.0 }).collect();
        let bandwidth = self.bandwidth(Bandwidth::Relative(RELATIVE_BANDWIDTH), &mut samples);
        modes(&mut samples, bandwidth)
    }

    /// Returns the highest mode of the rates of all pairs.
    pub fn raw_mode(&self) -> Option<Rate> {
        let highest = self.modes().into_iter().max_by(|a, b| a.height.total_cmp(&b.height))?;
        Some(Rate::from_bps_f64(highest.at))
    }

    /// Returns the rate of the pair with the lowest sum of delays (Kapoor et al., "CapProbe", SIGCOMM 2004).
    pub fn capprobe(&self) -> Option<Rate> {
        let skew = self.skew();
        let sum = |triplet: &&super::Triplet| {
            skew.corrected(triplet.sent, triplet.first) + skew.corrected(triplet.sent, triplet.second)
        };
        let fastest = self.triplets.iter().min_by_key(sum)?;
        Some(Rate::from_bps_f64(self.rate(fastest.dispersion)))
    }
}

/// Returns the first mode above the asymptotic dispersion rate, which long trains have: pathrate's rule
/// (Dovrolis et al., "Packet-dispersion techniques and a capacity-estimation methodology", 2004).
///
/// Modes below a tenth of the highest do not count. Returns the last mode if none is above.
pub fn first_mode_above(modes: &[Mode], dispersion_rate: Rate) -> Option<Rate> {
    let highest = modes.iter().map(|mode| mode.height).fold(0.0, f64::max);
    let high = || modes.iter().filter(|mode| mode.height >= LEAST_HEIGHT * highest);
    let mode = high().find(|mode| mode.at > dispersion_rate.bps_f64()).or_else(|| high().next_back())?;
    Some(Rate::from_bps_f64(mode.at))
}
