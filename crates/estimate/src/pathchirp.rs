//! pathChirp: the available bandwidth from the queueing-delay excursions of one chirp.
//!
//! Ribeiro, Riedi, Baraniuk, Navratil and Cottrell, "pathChirp: Efficient Available Bandwidth Estimation for
//! Network Paths", Passive and Active Measurement Workshop, 2003, section 3.

use super::{Bound, StreamEstimate};
use crate::stream::{Gaps, Refusal};
use headway_units::{Bytes, Rate};

/// Settings of the segmentation of a chirp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathChirp {
    /// Decrease factor F, greater than 1: an excursion ends when the delay has fallen to 1/F of its peak.
    pub decrease: f64,
    /// Busy period threshold L in packets: shorter excursions that ended are noise.
    pub busy_period: usize,
}

impl Default for PathChirp {
    /// Returns the published values: F = 1.5, L = 5.
    fn default() -> PathChirp {
        PathChirp { decrease: 1.5, busy_period: 5 }
    }
}

/// The outcome of an excursion.
enum Excursion {
    /// Delays returned to small values at this packet.
    EndsAt(usize),
    /// Delays never returned.
    Lasting,
    /// Delays returned so soon that the excursion is noise.
    Noise,
}

impl PathChirp {
    /// Estimates the available bandwidth from one chirp with n gaps; `delays` are the n + 1 one-way delays in
    /// any unit relative to any origin.
    ///
    /// Each packet gets an estimate: its own rate where delays rise in an excursion that ended, otherwise the
    /// rate at which the lasting excursion began, or the last rate if there is none. The result is the mean
    /// of these estimates, weighted by send gap.
    ///
    /// # Errors
    /// [`Refusal::TooShort`] without gaps or when the number of delays does not match them,
    /// [`Refusal::SenderGaps`] when a send gap is not positive.
    pub(crate) fn estimate(
        &self,
        packet: Bytes,
        gaps: &Gaps,
        delays: &[f64],
    ) -> Result<StreamEstimate, Refusal> {
        let n = gaps.send.len();
        if n == 0 || delays.len() != n + 1 {
            return Err(Refusal::TooShort);
        }
        if gaps.send.iter().any(|gap| gap.ns() <= 0) {
            return Err(Refusal::SenderGaps);
        }
        // E_k times its gap is P where the estimate is the packet's own rate, so two sums suffice.
        let mut own_packets = 0u64;
        let mut other_ns = 0.0;
        let mut lasting = None;
        let gap_ns = |k: usize| gaps.send[k].ns() as f64;
        let mut k = 0;
        while k < n {
            if delays[k] < delays[k + 1] {
                match self.follow(delays, k) {
                    Excursion::EndsAt(end) => {
                        for k in k..end {
                            if delays[k] < delays[k + 1] {
                                own_packets += 1;
                            } else {
                                other_ns += gap_ns(k);
                            }
                        }
                        k = end;
                        continue;
                    }
                    Excursion::Lasting => {
                        lasting = Some(k);
                        other_ns += (k..n).map(gap_ns).sum::<f64>();
                        break;
                    }
                    Excursion::Noise => {}
                }
            }
            other_ns += gap_ns(k);
            k += 1;
        }
        let packet_bits = packet.get() as f64 * 8.0;
        let total_ns: f64 = (0..n).map(gap_ns).sum();
        let other_rate = packet_bits / gap_ns(lasting.unwrap_or(n - 1));
        let bits = own_packets as f64 * packet_bits + other_ns * other_rate;
        let bound = match lasting {
            None => Bound::AtLeast,
            Some(0) => Bound::AtMost,
            Some(_) => Bound::Within,
        };
        Ok(StreamEstimate::new(Rate::from_bps_f64(bits / total_ns * 1e9), bound))
    }

    /// Follows the excursion that begins at packet `begin`.
    fn follow(&self, delays: &[f64], begin: usize) -> Excursion {
        let mut peak = 0.0;
        for (k, delay) in delays.iter().enumerate().skip(begin + 1) {
            let height = delay - delays[begin];
            if height <= peak / self.decrease {
                return if k - begin >= self.busy_period { Excursion::EndsAt(k) } else { Excursion::Noise };
            }
            peak = height.max(peak);
        }
        Excursion::Lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Schedule;
    use headway_units::Duration;
    use proptest::prelude::*;

    const PACKET: Bytes = Bytes::new(1250);

    /// Returns the estimate from a chirp that starts at 10 Mb/s with steps of 1.2, and its rates; `delay`
    /// maps a packet's number to its delay.
    fn estimate(delay: impl Fn(usize) -> f64) -> (StreamEstimate, Vec<Rate>) {
        let schedule = Schedule::chirp(Rate::from_mbps(10.0), 1.2, 20, PACKET);
        let gaps = Gaps { receive: schedule.gaps.clone(), send: schedule.gaps };
        let delays: Vec<f64> = (0..21).map(delay).collect();
        let rates = gaps.send.iter().filter_map(|gap| Rate::of(PACKET, *gap)).collect();
        (PathChirp::default().estimate(PACKET, &gaps, &delays).expect("20 gaps"), rates)
    }

    fn close(a: Rate, b: Rate) -> bool {
        (a.bps_f64() / b.bps_f64() - 1.0).abs() < 1e-3
    }

    #[test]
    fn a_lasting_excursion_gives_the_rate_at_which_it_began() {
        let (estimate, rates) = estimate(|k| k.saturating_sub(12) as f64);
        assert!(close(estimate.rate, rates[12]));
        assert_eq!(estimate.bound, Bound::Within);
    }

    #[test]
    fn without_queueing_the_chirp_gives_its_last_rate() {
        let (estimate, rates) = estimate(|_| 5.0);
        assert!(close(estimate.rate, rates[19]));
        assert_eq!(estimate.bound, Bound::AtLeast);
    }

    #[test]
    fn delays_that_rise_from_the_first_packet_on_give_the_first_rate() {
        let (estimate, rates) = estimate(|k| k as f64);
        assert!(close(estimate.rate, rates[0]));
        assert_eq!(estimate.bound, Bound::AtMost);
    }

    #[test]
    fn a_single_late_packet_is_noise() {
        let (estimate, rates) = estimate(|k| if k == 4 { 9.0 } else { k.saturating_sub(12) as f64 });
        assert!(close(estimate.rate, rates[12]));
    }

    #[test]
    fn rising_packets_of_an_excursion_that_ended_count_with_their_own_rates() {
        // Delays rise from packet 2 to packet 6 and return at packet 8: packets 2 to 5 count with their own
        // rates, the others with rate 14.
        let bump = [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 3.5];
        let delay = |k: usize| bump.get(k).copied().unwrap_or(0.0) + k.saturating_sub(14) as f64;
        let (estimate, rates) = estimate(delay);
        let time = |k: usize| 1.0 / rates[k].bps_f64();
        let total: f64 = (0..20).map(time).sum();
        let own: f64 = (2..6).map(time).sum();
        let expected = (4.0 + (total - own) * rates[14].bps_f64()) / total;
        assert!(close(estimate.rate, Rate::from_bps_f64(expected)), "{} {expected}", estimate.rate);
    }

    #[test]
    fn delays_that_do_not_belong_to_the_gaps_are_refused() {
        let mut gaps = Gaps::default();
        assert_eq!(PathChirp::default().estimate(PACKET, &gaps, &[0.0]), Err(Refusal::TooShort));
        gaps.push(Duration::ZERO, Duration::ZERO);
        assert_eq!(PathChirp::default().estimate(PACKET, &gaps, &[0.0]), Err(Refusal::TooShort));
        assert_eq!(PathChirp::default().estimate(PACKET, &gaps, &[0.0, 0.0]), Err(Refusal::SenderGaps));
    }

    proptest! {
        #[test]
        fn the_estimate_lies_between_the_lowest_and_the_highest_rate(delays in prop::collection::vec(0.0..1e6, 21)) {
            let (estimate, rates) = estimate(|k| delays[k]);
            prop_assert!(estimate.rate >= rates[0].scale(0.999) && estimate.rate <= rates[19].scale(1.001));
        }
    }
}
