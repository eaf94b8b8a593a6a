//! The send gaps of a p-stream.

use headway_units::{Bytes, Duration, Rate};

/// The layout of probing rates in a p-stream: `rates` geometric steps of `packets_per_rate` packets each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Number of probing rates N_r, at least 1.
    pub rates: u32,
    /// Packets at each rate N_p, at least 1.
    pub packets_per_rate: u32,
    /// Ratio s between consecutive rates: greater than 1 for a rising stream, 1 for a single rate.
    pub step: f64,
}

impl Shape {
    /// Returns a shape whose top rate lies `range` above its bottom rate (0.5 for 50 %): s = (1 + range)^(1 /
    /// (N_r - 1)) (rapid 2.2).
    pub fn with_range(rates: u32, packets_per_rate: u32, range: f64) -> Shape {
        let steps = rates.saturating_sub(1);
        let step = if steps == 0 { 1.0 } else { (1.0 + range).powf(1.0 / f64::from(steps)) };
        Shape { rates, packets_per_rate, step }
    }

    /// Returns the number of gaps in a stream.
    pub fn gaps(&self) -> usize {
        self.rates.max(1) as usize * self.packets_per_rate as usize
    }
}

/// The gaps at which to send one probe stream (rapid 2.2).
///
/// A schedule of n gaps is sent as n + 1 packets: gap i lies between the starts of packets i and i + 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Size of each packet on the wire, including all headers and the Ethernet preamble and inter-packet gap.
    pub packet: Bytes,
    /// Send gaps in order.
    pub gaps: Vec<Duration>,
    /// Average rate of the whole stream: all bits over the total time (the harmonic mean
    /// of the probing rates).
    pub average: Rate,
}

impl Schedule {
    /// Creates a p-stream with the given average rate (rapid 2.2); its gaps sum to N * P / average within 1
    /// ns per packet.
    pub fn p_stream(shape: Shape, average: Rate, packet: Bytes) -> Schedule {
        let packet_time = packet.get() as f64 * 8e9 / average.bps_f64().max(1.0);
        let slowdowns: Vec<f64> = (0..shape.rates.max(1)).map(|i| shape.step.powi(-(i as i32))).collect();
        let mean = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
        let gaps = slowdowns
            .iter()
            .flat_map(|slowdown| {
                let gap = Duration::from_ns((packet_time * slowdown / mean).round() as i64);
                std::iter::repeat_n(gap, shape.packets_per_rate as usize)
            })
            .collect();
        Schedule { packet, gaps, average }
    }

    /// Creates a stream of `gaps` equal gaps at `rate`, for estimators that judge one rate at a time.
    pub fn single_rate(rate: Rate, gaps: usize, packet: Bytes) -> Schedule {
        Schedule { packet, gaps: vec![rate.time_for(packet); gaps], average: rate }
    }

    /// Creates a stream with these gaps; its average rate is `otherwise` if they take no time.
    pub(crate) fn with_gaps(packet: Bytes, gaps: Vec<Duration>, otherwise: Rate) -> Schedule {
        let time = gaps.iter().copied().sum();
        let average = Rate::of(packet * gaps.len() as u64, time).unwrap_or(otherwise);
        Schedule { packet, gaps, average }
    }

    /// Returns the beginning of the stream that takes at most this time, two packets at least.
    pub(crate) fn shortened(self, longest: Duration) -> Schedule {
        let mut time = Duration::ZERO;
        let within = |gap: &&Duration| {
            time += **gap;
            time <= longest
        };
        let count = self.gaps.iter().take_while(within).count().max(1);
        match self.gaps.get(..count) {
            Some(gaps) if count < self.gaps.len() => {
                Schedule::with_gaps(self.packet, gaps.to_vec(), self.average)
            }
            _ => self,
        }
    }

    /// Creates a chirp as in pathChirp: `gaps` gaps that start at the one for `bottom` and shrink by a
    /// factor of `spread`.
    ///
    /// Ribeiro et al., "pathChirp: Efficient Available Bandwidth Estimation for Network Paths", PAM 2003, use
    /// a spread factor of 1.2.
    pub fn chirp(bottom: Rate, spread: f64, gaps: usize, packet: Bytes) -> Schedule {
        let first = packet.get() as f64 * 8e9 / bottom.bps_f64().max(1.0);
        let gaps =
            (0..gaps).map(|i| Duration::from_ns((first / spread.powf(i as f64)).round() as i64)).collect();
        Schedule::with_gaps(packet, gaps, bottom)
    }

    /// Creates two chirps, the second the reflection of the first at `centre`: rates rise from
    /// `centre - reach` in steps that shrink by a factor of `spread`, and then to `centre + reach` in steps
    /// that grow again. So they are densest at the centre. `half` is the number of gaps of each chirp.
    ///
    /// The trains of ASSOLO have this shape (wan 3.1). Rates below 1 b/s are raised to it.
    pub fn reflected_chirp(centre: Rate, reach: Rate, spread: f64, half: usize, packet: Bytes) -> Schedule {
        let gap = |bps: f64| Duration::from_ns((packet.get() as f64 * 8e9 / bps.max(1.0)).round() as i64);
        let distance = |step: usize| reach.bps_f64() / spread.powf(step as f64);
        let rising = (0..half).map(|step| gap(centre.bps_f64() - distance(step)));
        let falling = (0..half).rev().map(|step| gap(centre.bps_f64() + distance(step)));
        Schedule::with_gaps(packet, rising.chain(falling).collect(), centre)
    }

    /// Repeats the schedule `times` times; the last packet of one repetition is the first of the next.
    pub fn repeated(&self, times: usize) -> Schedule {
        Schedule { gaps: self.gaps.repeat(times), ..*self }
    }

    /// Returns the time from the first packet to the last.
    pub fn duration(&self) -> Duration {
        self.gaps.iter().copied().sum()
    }

    /// Returns the number of packets, one more than there are gaps.
    pub fn packets(&self) -> usize {
        self.gaps.len() + 1
    }

    /// Returns the total size of the stream on the wire.
    pub(crate) fn bytes(&self) -> Bytes {
        self.packet * self.packets() as u64
    }

    /// Returns the highest probing rate in the stream; zero for a stream without gaps.
    pub fn top_rate(&self) -> Rate {
        self.gaps.iter().min().and_then(|gap| Rate::of(self.packet, *gap)).unwrap_or(Rate::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: Bytes = Bytes::new(9038);

    fn gbps(gap: Duration) -> f64 {
        PACKET.get() as f64 * 8.0 / gap.ns() as f64
    }

    #[test]
    fn an_average_of_7_gbps_is_probed_with_the_published_four_rates() {
        let shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
        let stream = Schedule::p_stream(shape, Rate::from_mbps(7_000.0), PACKET);
        assert_eq!(stream.gaps.len(), 64);
        for (block, rate) in stream.gaps.chunks(16).zip([5.75, 6.61, 7.60, 8.74]) {
            assert!(block.iter().all(|gap| (gbps(*gap) - rate).abs() < 0.02));
        }
        let exact = 64.0 * 9038.0 * 8.0 / 7.0;
        assert!((stream.duration().ns() as f64 - exact).abs() <= 64.0);
    }

    #[test]
    fn a_range_of_30_percent_over_five_rates_steps_by_1_0678() {
        let shape = Shape::with_range(5, 64, 0.3);
        assert!((shape.step - 1.0678).abs() < 5e-5);
        assert_eq!(shape.gaps(), 320);
        let stream = Schedule::p_stream(shape, Rate::from_mbps(6_000.0), PACKET);
        assert!((gbps(stream.gaps[319]) / gbps(stream.gaps[0]) - 1.3).abs() < 1e-3);
        assert_eq!(Shape::with_range(1, 64, 0.5).step, 1.0);
    }

    #[test]
    fn a_shortened_stream_keeps_the_gaps_that_fit() {
        let gaps = [10, 10, 30, 10].map(Duration::from_us).to_vec();
        let stream = Schedule { packet: Bytes::new(1_000), gaps, average: Rate::from_mbps(533.0) };
        let short = stream.clone().shortened(Duration::from_us(49));
        assert_eq!((short.gaps.len(), short.average), (2, Rate::from_mbps(800.0)));
        assert_eq!(stream.clone().shortened(Duration::from_us(60)), stream);
        assert_eq!(stream.shortened(Duration::ZERO).gaps.len(), 1);
    }

    #[test]
    fn a_single_rate_stream_has_equal_gaps() {
        let stream = Schedule::single_rate(Rate::from_mbps(10_000.0), 100, PACKET);
        assert_eq!(stream.gaps, vec![Duration::from_ns(7_230); 100]);
        assert_eq!(stream.packets(), 101);
    }

    #[test]
    fn a_chirp_shortens_each_gap_by_the_spread() {
        let stream = Schedule::chirp(Rate::from_mbps(10.0), 1.2, 15, Bytes::new(1_250));
        assert_eq!(stream.gaps[0], Duration::from_ms(1));
        assert!(stream.gaps.windows(2).all(|pair| (pair[0].us() / pair[1].us() - 1.2).abs() < 1e-3));
        assert_eq!(stream.average, Rate::of(Bytes::new(15 * 1_250), stream.duration()).expect("positive"));
    }

    #[test]
    fn a_reflected_chirp_is_symmetric_and_densest_at_its_centre() {
        let (centre, reach) = (Rate::from_mbps(100.0), Rate::from_mbps(64.0));
        let stream = Schedule::reflected_chirp(centre, reach, 2.0, 5, Bytes::new(1_250));
        let rates: Vec<f64> = stream.gaps.iter().map(|gap| 10_000.0 / gap.us()).collect();
        let expected = [36.0, 68.0, 84.0, 92.0, 96.0, 104.0, 108.0, 116.0, 132.0, 164.0];
        assert!(rates.iter().zip(expected).all(|(rate, mbps)| (rate - mbps).abs() < 0.01), "{rates:?}");
    }

    proptest! {
        #[test]
        fn the_gaps_of_a_stream_add_up_to_its_average_rate(
            rates in 1u32..10, packets_per_rate in 1u32..70, range in 0.0..1.0f64, mbps in 1.0..100_000.0f64,
        ) {
            let average = Rate::from_mbps(mbps);
            let shape = Shape::with_range(rates, packets_per_rate, range);
            let stream = Schedule::p_stream(shape, average, PACKET);
            let exact = stream.gaps.len() as f64 * PACKET.get() as f64 * 8e9 / average.bps_f64();
            prop_assert!((stream.duration().ns() as f64 - exact).abs() <= stream.gaps.len() as f64);
            prop_assert!(stream.gaps.is_sorted_by(|a, b| a >= b));
        }
    }
}
