//! The estimator of Rapid and BASS, which finds the rate from which on receive gaps exceed
//! send gaps (rapid 2.11).

use super::{Bound, StreamEstimate};
use crate::stream::{Gaps, Refusal};
use headway_units::{Bytes, Duration, Rate};

/// Settings of the search for excursions: runs of samples whose receive gap exceeds the
/// send gap (rapid 2.11).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excursion {
    /// The minimum excess that counts at any gap: 100 ns at 10 Gb/s, to be scaled with the packet time.
    pub margin: Duration,
    /// The minimum excess that counts, as a fraction of the send gap: 0 for the literal rule,
    /// 0.02 in a closed loop.
    ///
    /// With long gaps, a fixed margin is smaller than timestamp jitter, and every stream
    /// would look congested.
    pub relative_margin: f64,
    /// The minimum number of consecutive samples in an excursion, at least 1; 4 in Rapid.
    pub min_length: usize,
}

impl Default for Excursion {
    /// Returns the literal rule for 10 Gb/s: 100 ns, no relative margin, 4 samples.
    fn default() -> Excursion {
        Excursion { margin: Duration::from_ns(100), relative_margin: 0.0, min_length: 4 }
    }
}

/// Fractional bits of the relative margin, for steps of a millionth.
const MARGIN_DIGITS: u32 = 20;

impl Excursion {
    /// Returns the default with its margin multiplied by `kappa`, the packet time on the
    /// narrow link over 7.23 us.
    pub(crate) fn scaled(kappa: f64) -> Excursion {
        let usual = Excursion::default();
        Excursion { margin: usual.margin.scale(kappa), ..usual }
    }

    /// Returns the settings with a different relative margin.
    pub fn with_relative_margin(self, relative_margin: f64) -> Excursion {
        Excursion { relative_margin, ..self }
    }

    /// Estimates the available bandwidth from the gaps of one stream, usually denoised ones (rapid 2.11).
    ///
    /// All samples up to the end of an excursion count with the rate of the sample before that excursion;
    /// samples after the last excursion count with the last rate. The result is the mean, so an excursion
    /// that ended lowers it only in part.
    ///
    /// # Errors
    /// [`Refusal::TooShort`] with fewer than twice `min_length` samples, [`Refusal::SenderGaps`] when a send
    /// gap that enters the mean is not positive.
    pub fn estimate(&self, packet: Bytes, gaps: &Gaps) -> Result<StreamEstimate, Refusal> {
        let n = gaps.send.len().min(gaps.receive.len());
        let min_length = self.min_length.max(1);
        if n < min_length.saturating_mul(2) {
            return Err(Refusal::TooShort);
        }
        let (send, receive) = (&gaps.send[..n], &gaps.receive[..n]);
        let relative = (self.relative_margin * f64::from(1u32 << MARGIN_DIGITS)).round() as i64;
        let congested = |i: usize| {
            let gap = send[i].ns();
            let margin = self.margin.ns().max(gap.saturating_mul(relative) >> MARGIN_DIGITS);
            receive[i].ns() > gap.saturating_add(margin)
        };
        let mut total = Total { packet, sum: 0 };
        let mut bound = Bound::AtLeast;
        let mut counted = 0;
        let mut i = 0;
        while i < n {
            let mut end = i;
            while end < n && congested(end) {
                end += 1;
            }
            if end - i >= min_length {
                total.add(end - counted, send[i.saturating_sub(1)])?;
                bound = if end - i == n { Bound::AtMost } else { Bound::Within };
                counted = end;
                i = end;
            } else {
                i = end.max(i + 1);
            }
        }
        if counted < n {
            total.add(n - counted, send[n - 1])?;
        }
        Ok(StreamEstimate::new(Rate::from_bps(total.sum / n as u64), bound))
    }
}

/// A sum of rates. It needs one 64-bit division per segment, because it runs for every stream.
struct Total {
    packet: Bytes,
    sum: u64,
}

impl Total {
    /// Adds `count` samples at the rate of one packet per `gap`.
    fn add(&mut self, count: usize, gap: Duration) -> Result<(), Refusal> {
        let gap = u64::try_from(gap.ns()).ok().filter(|gap| *gap > 0).ok_or(Refusal::SenderGaps)?;
        // 8e9 bit-nanoseconds per byte-second; a packet below 2.3 GB fits.
        let rate = self.packet.get().saturating_mul(8_000_000_000) / gap;
        self.sum = self.sum.saturating_add(rate.saturating_mul(count as u64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Schedule, Shape};
    use proptest::prelude::*;

    const PACKET: Bytes = Bytes::new(9038);
    const LITERAL: Excursion = Excursion { margin: Duration::ZERO, relative_margin: 0.0, min_length: 4 };

    /// Returns the gaps of a stream after a noiseless link with `available` left of `capacity`.
    fn fluid(average: Rate, capacity: Rate, available: Rate) -> Gaps {
        let shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
        let cross = capacity.saturating_sub(available).bps_f64();
        let packet_time = capacity.time_for(PACKET).ns() as f64;
        let mut gaps = Gaps::default();
        for send in Schedule::p_stream(shape, average, PACKET).gaps {
            // While the queue is not empty, a receive gap holds the packet and the cross traffic that arrived
            // during the send gap.
            let filled = packet_time + cross / capacity.bps_f64() * send.ns() as f64;
            gaps.push(send, Duration::from_ns((filled.round() as i64).max(send.ns())));
        }
        gaps
    }

    fn rate_of(gaps: &Gaps, packet_number: usize) -> Rate {
        Rate::of(PACKET, gaps.send[packet_number - 1]).expect("send gaps are positive")
    }

    fn gbps(gbps: f64) -> Rate {
        Rate::from_mbps(gbps * 1e3)
    }

    #[test]
    fn separation_from_packet_33_on_gives_the_rate_of_packet_32() {
        let gaps = fluid(gbps(7.2), gbps(10.0), gbps(7.55));
        let estimate = Excursion::default().estimate(PACKET, &gaps).expect("64 samples");
        assert_eq!(estimate, StreamEstimate::new(rate_of(&gaps, 32), Bound::Within));
    }

    #[test]
    fn an_uncongested_stream_gives_its_top_rate() {
        let gaps = fluid(gbps(5.0), gbps(10.0), gbps(7.55));
        let estimate = Excursion::default().estimate(PACKET, &gaps).expect("64 samples");
        assert_eq!(estimate, StreamEstimate::new(rate_of(&gaps, 64), Bound::AtLeast));
    }

    #[test]
    fn a_stream_overloaded_from_its_first_packet_gives_its_bottom_rate() {
        let gaps = fluid(gbps(9.9), gbps(10.0), gbps(7.55));
        let estimate = Excursion::default().estimate(PACKET, &gaps).expect("64 samples");
        assert_eq!(estimate, StreamEstimate::new(rate_of(&gaps, 1), Bound::AtMost));
    }

    #[test]
    fn an_excursion_that_ends_again_pulls_the_mean_down_in_part() {
        let mut gaps = Gaps::default();
        for i in 0..20 {
            let send = Duration::from_us(if i < 10 { 20 } else { 10 });
            let excess = if (5..10).contains(&i) { Duration::from_us(1) } else { Duration::ZERO };
            gaps.push(send, send + excess);
        }
        let estimate = LITERAL.estimate(Bytes::new(1250), &gaps).expect("20 samples");
        // Ten samples count with 0.5 Gb/s (up to the end of the excursion), ten with 1 Gb/s.
        assert_eq!(estimate, StreamEstimate::new(gbps(0.75), Bound::Within));
    }

    #[test]
    fn three_samples_are_no_excursion_and_four_are_one() {
        for (length, bound) in [(3, Bound::AtLeast), (4, Bound::Within)] {
            let mut gaps = Gaps::default();
            for i in 0..16 {
                let excess = i64::from(i >= 16 - length);
                gaps.push(Duration::from_us(10), Duration::from_us(10 + excess));
            }
            assert_eq!(LITERAL.estimate(PACKET, &gaps).expect("16 samples").bound, bound);
        }
    }

    #[test]
    fn the_relative_margin_counts_where_gaps_are_long() {
        let mut gaps = Gaps::default();
        for _ in 0..16 {
            gaps.push(Duration::from_us(1_000), Duration::from_us(1_019));
        }
        let usual = Excursion::default();
        assert_eq!(usual.estimate(PACKET, &gaps).expect("16 samples").bound, Bound::AtMost);
        let loop_setting = usual.with_relative_margin(0.02);
        assert_eq!(loop_setting.estimate(PACKET, &gaps).expect("16 samples").bound, Bound::AtLeast);
    }

    #[test]
    fn short_streams_and_impossible_send_gaps_are_refused() {
        let mut gaps = Gaps::default();
        for _ in 0..7 {
            gaps.push(Duration::from_us(10), Duration::from_us(10));
        }
        assert_eq!(LITERAL.estimate(PACKET, &gaps), Err(Refusal::TooShort));
        gaps.push(Duration::ZERO, Duration::from_us(1));
        assert_eq!(LITERAL.estimate(PACKET, &gaps), Err(Refusal::SenderGaps));
    }

    fn samples(range: std::ops::Range<i64>) -> impl Strategy<Value = Gaps> {
        prop::collection::vec((range.clone(), range), 8..200).prop_map(|pairs| {
            let mut gaps = Gaps::default();
            for (send, receive) in pairs {
                gaps.push(Duration::from_ns(send), Duration::from_ns(receive));
            }
            gaps
        })
    }

    proptest! {
        #[test]
        fn the_estimate_lies_between_the_lowest_and_the_highest_rate_sent(gaps in samples(1..10_000_000)) {
            let rates = || gaps.send.iter().filter_map(|gap| Rate::of(PACKET, *gap));
            let estimate = Excursion::default().estimate(PACKET, &gaps).expect("positive gaps");
            prop_assert!(Some(estimate.rate) <= rates().max());
            // The integer mean rounds down once.
            prop_assert!(Some(estimate.rate + Rate::from_bps(1)) >= rates().min());
        }

        #[test]
        fn any_numbers_at_all_are_accepted(gaps in samples(i64::MIN..i64::MAX), relative in any::<f64>(), length in any::<usize>()) {
            let settings = Excursion { relative_margin: relative, min_length: length, ..Excursion::default() };
            let _ = settings.estimate(PACKET, &gaps);
        }

        #[test]
        fn stretching_all_gaps_and_the_margin_divides_the_estimate(gaps in samples(1_000..10_000_000), factor in 2i64..50) {
            let mut stretched = Gaps::default();
            for (send, receive) in gaps.send.iter().zip(&gaps.receive) {
                stretched.push(*send * factor, *receive * factor);
            }
            let usual = Excursion::default();
            let wide = Excursion { margin: usual.margin * factor, ..usual };
            let before = usual.estimate(PACKET, &gaps).expect("positive gaps");
            let after = wide.estimate(PACKET, &stretched).expect("positive gaps");
            prop_assert_eq!(before.bound, after.bound);
            prop_assert!(after.rate.bps().abs_diff(before.rate.bps() / factor as u64) <= 2);
        }
    }
}
