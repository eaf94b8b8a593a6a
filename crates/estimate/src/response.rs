//! The rate-response estimator, which derives the available bandwidth from the growth of the one-way delay.
//!
//! A stream sent at rate R for a time T into a FIFO link of capacity C with available bandwidth A < R makes
//! the queue grow, and with it the one-way delay by T * (R - A) / C. Therefore
//!
//! ```text
//! A = R - C * rho,        rho = (growth of the one-way delay) / T
//! ```
//!
//! Because R is kept near A, the term with rho is small, and an error in C hardly matters. The formula holds
//! only while the queue is not empty, which determines how to treat bursty cross traffic:
//!
//! - Where individual timestamps are reliable, [`busy_sample`] counts only gaps during which the queue
//!   *cannot* have run empty, because the packet before met a queue that takes longer to drain than the
//!   gap lasts. Whether a gap counts is known before its own cross traffic arrives, so the selection does
//!   not bias the sample.
//! - Where the receiver coalesces interrupts, individual delays are noise and only sums over whole
//!   buffering events hold (rapid 2.9, 2.17). A stream during which the queue ran empty then gives a lower
//!   bound, a *censored* sample.
//!
//! One stream sees only the cross traffic of its own few milliseconds, so its A is a sample with a spread
//! that shrinks with its duration. [`Posterior`] combines samples and lower bounds into one distribution, as
//! in Tobit regression. TOPP and BART introduced rate-response curves.

use headway_units::{Bytes, Duration, Instant, Rate};

/// A sample of the available bandwidth from one stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// R - C * rho in bit/s, at most the capacity; negative when cross traffic alone exceeded the capacity.
    pub available_bps: f64,
    /// The part of the sender's time that the sample covers.
    pub duration: Duration,
    /// The queue ran empty during the stream, so at least `available_bps` was available.
    pub censored: bool,
}

/// One arrived packet of a stream, as input to [`busy_sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// Position in the stream; a gap in the numbers is a lost packet.
    pub index: u32,
    /// Time of departure.
    pub sent: Instant,
    /// One-way delay above that of an empty path, zero or more.
    pub queueing: Duration,
}

/// Fraction of a packet time by which a queue must outlast a gap, so that timestamp jitter does not decide.
const BUSY_MARGIN: f64 = 0.1;

/// Returns the available bandwidth during the gaps of a stream in which the queue cannot have run empty.
///
/// `packet` is the size of all packets on the wire, `capacity` that of the link with the queue. Returns
/// `None` when no gap qualifies, as is typical of a stream sent below the available bandwidth.
pub(crate) fn busy_sample(packets: &[Delayed], packet: Bytes, capacity: Rate) -> Option<Sample> {
    sample_behind(packets, packet, capacity, Duration::ZERO)
}

/// Returns the same behind a token bucket of sustained rate `capacity`.
///
/// While tokens remain, the queue can run empty unnoticed, so only gaps after packets that waited at least
/// `least` count.
pub(crate) fn backlogged_sample(
    packets: &[Delayed],
    packet: Bytes,
    capacity: Rate,
    least: Duration,
) -> Option<Sample> {
    sample_behind(packets, packet, capacity, least)
}

/// Share of a stream that must meet a queue for the growth of its delay to tell what was available,
/// and not only a bound.
const BUSY_THROUGHOUT: f64 = 0.8;

/// Returns the available bandwidth during a whole stream, which a queue that ran empty
/// turns into a lower bound.
///
/// `busy` is the [`busy_sample`] of the same packets, which covers only the time in which there was a queue.
/// Where cross traffic comes in bursts, that is the time of bursts.
pub(crate) fn whole_sample(
    packets: &[Delayed],
    packet: Bytes,
    capacity: Rate,
    busy: Option<&Sample>,
) -> Option<Sample> {
    let (first, last) = (packets.first()?, packets.last()?);
    let duration = last.sent - first.sent;
    let rate = Rate::of(packet * u64::from(last.index - first.index), duration)?;
    let growth = (last.queueing - first.queueing).secs_f64() / duration.secs_f64();
    let available_bps = (rate.bps_f64() - capacity.bps_f64() * growth).min(capacity.bps_f64());
    let busy = busy.map_or(Duration::ZERO, |sample| sample.duration);
    Some(Sample { available_bps, duration, censored: busy < duration.scale(BUSY_THROUGHOUT) })
}

fn sample_behind(packets: &[Delayed], packet: Bytes, capacity: Rate, least: Duration) -> Option<Sample> {
    let service = capacity.time_for(packet);
    let margin = service.scale(BUSY_MARGIN);
    let mut busy = Duration::ZERO;
    let mut grown = Duration::ZERO;
    let mut count = 0;
    for pair in packets.windows(2) {
        let gap = pair[1].sent - pair[0].sent;
        let consecutive = pair[1].index == pair[0].index + 1;
        let waited = pair[0].queueing >= least;
        if consecutive && waited && gap + margin < pair[0].queueing + service {
            busy += gap;
            grown += pair[1].queueing - pair[0].queueing;
            count += 1;
        }
    }
    let rate = Rate::of(packet * count, busy)?;
    let available_bps = rate.bps_f64() - capacity.bps_f64() * grown.secs_f64() / busy.secs_f64();
    Some(Sample { available_bps: available_bps.min(capacity.bps_f64()), duration: busy, censored: false })
}

/// Grid points for the available bandwidth, from just above zero to the capacity.
pub(crate) const RATE_POINTS: usize = 200;
/// Grid points for the spread of the cross traffic.
const SPREAD_POINTS: usize = 40;
/// Lowest and highest spread of the cross-traffic rate over [`REFERENCE`], as a fraction of capacity.
const SPREAD_RANGE: (f64, f64) = (0.002, 2.0);
/// The duration to which the spread grid applies; the spread over other durations follows 1 / sqrt(duration).
const REFERENCE: Duration = Duration::from_ms(10);
/// Error of one sample that does not shrink with its duration (timestamps, coalescing), as a
/// fraction of capacity.
const SAMPLE_NOISE: f64 = 0.01;
/// The posterior distribution of the available bandwidth over a grid, with a flat prior up to the capacity.
#[derive(Clone, Debug)]
pub struct Posterior {
    capacity_bps: f64,
    log_likelihood: Vec<f64>,
}

impl Posterior {
    /// Creates the distribution before any sample, for a link of `capacity` (taken as at least 1 b/s).
    pub(crate) fn new(capacity: Rate) -> Posterior {
        Posterior {
            capacity_bps: capacity.bps_f64().max(1.0),
            log_likelihood: vec![0.0; RATE_POINTS * SPREAD_POINTS],
        }
    }

    /// Returns the distribution before any sample, for the same link.
    pub(crate) fn emptied(&self) -> Posterior {
        Posterior { log_likelihood: vec![0.0; self.log_likelihood.len()], ..*self }
    }

    /// Updates the distribution with one more sample.
    pub(crate) fn add(&mut self, sample: &Sample) {
        let seconds = sample.duration.secs_f64().max(1e-9);
        let scale = REFERENCE.secs_f64() / seconds;
        let value = sample.available_bps / self.capacity_bps;
        for (row, likelihoods) in self.log_likelihood.chunks_exact_mut(RATE_POINTS).enumerate() {
            let spread = (spread_at(row).powi(2) * scale + SAMPLE_NOISE.powi(2)).sqrt();
            for (point, likelihood) in likelihoods.iter_mut().enumerate() {
                let z = (rate_at(point) - value) / spread;
                *likelihood += if sample.censored { ln_normal_cdf(z) } else { -0.5 * z * z - spread.ln() };
            }
        }
    }

    /// Returns the unnormalized density at [`RATE_POINTS`] points up to the capacity.
    pub(crate) fn density(&self) -> [f64; RATE_POINTS] {
        let top = self.log_likelihood.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut density = [0.0; RATE_POINTS];
        for row in self.log_likelihood.chunks_exact(RATE_POINTS) {
            for (sum, likelihood) in density.iter_mut().zip(row) {
                *sum += (likelihood - top).exp();
            }
        }
        density
    }
}

/// Returns the available bandwidth of a grid point as a fraction of capacity.
fn rate_at(point: usize) -> f64 {
    (point as f64 + 0.5) / RATE_POINTS as f64
}

/// Returns the spread of a grid row as a fraction of capacity; rows are spaced evenly in its logarithm.
fn spread_at(row: usize) -> f64 {
    let (low, high) = SPREAD_RANGE;
    low * (high / low).powf(row as f64 / (SPREAD_POINTS - 1) as f64)
}

/// Returns the point where the cumulative `density` reaches `share`, as a fraction of capacity; each point
/// stands for one grid cell.
pub(crate) fn quantile(density: &[f64], share: f64) -> f64 {
    let mut left = share * density.iter().sum::<f64>();
    for (point, mass) in density.iter().enumerate() {
        if left <= *mass && *mass > 0.0 {
            return (point as f64 + left / mass) / RATE_POINTS as f64;
        }
        left -= mass;
    }
    density.len() as f64 / RATE_POINTS as f64
}

/// Returns the logarithm of the standard normal distribution function, to about 1e-3 absolute.
///
/// Uses Abramowitz and Stegun 26.2.17 near zero, and two terms of the asymptotic series where
/// that loses precision.
fn ln_normal_cdf(z: f64) -> f64 {
    if z < -5.0 {
        let inverse_square = 1.0 / (z * z);
        return -0.5 * z * z - (-z).ln() - 0.918_938_533_204_672_7
            + (-inverse_square * (1.0 - 3.0 * inverse_square)).ln_1p();
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * z * z).exp() * 0.398_942_280_401_432_7 * poly;
    if z < 0.0 { tail.ln() } else { (-tail).ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Error common to all samples, as a fraction of capacity.
    const COMMON_ERROR: f64 = 0.015;

    /// The median with the 90 % interval around it.
    #[derive(Debug)]
    struct Credible {
        low: Rate,
        median: Rate,
        high: Rate,
    }

    fn credible(posterior: &Posterior) -> Credible {
        let density = posterior.density();
        let median = quantile(&density, 0.5);
        let widen = |q: f64| (COMMON_ERROR.powi(2) + (q - median).powi(2)).sqrt();
        let rate = |share: f64| Rate::from_bps_f64(share * posterior.capacity_bps);
        Credible {
            low: rate(median - widen(quantile(&density, 0.05))),
            median: rate(median),
            high: rate(median + widen(quantile(&density, 0.95))),
        }
    }

    fn sample(mbps: f64, censored: bool) -> Sample {
        Sample { available_bps: mbps * 1e6, duration: Duration::from_ms(10), censored }
    }

    #[test]
    fn equal_samples_give_their_value_and_the_common_error() {
        let mut posterior = Posterior::new(Rate::from_mbps(100.0));
        for _ in 0..12 {
            posterior.add(&sample(40.0, false));
        }
        let credible = credible(&posterior);
        assert!((credible.median.mbps() - 40.0).abs() < 0.3, "{credible:?}");
        assert!(credible.low.mbps() < 38.6 && credible.low.mbps() > 36.0, "{credible:?}");
        assert!(credible.high.mbps() > 41.4 && credible.high.mbps() < 44.0, "{credible:?}");
    }

    #[test]
    fn censored_samples_pull_the_estimate_up_and_never_down() {
        let plain = [30.0, 34.0, 38.0, 42.0, 46.0, 50.0];
        let median = |censored_from: f64| {
            let mut posterior = Posterior::new(Rate::from_mbps(100.0));
            for mbps in plain {
                posterior.add(&sample(mbps, mbps >= censored_from));
            }
            credible(&posterior).median
        };
        assert!((median(f64::INFINITY).mbps() - 40.0).abs() < 1.0);
        assert!(median(46.0) > median(f64::INFINITY));
    }

    #[test]
    fn only_lower_bounds_leave_everything_above_them_possible() {
        let mut posterior = Posterior::new(Rate::from_mbps(100.0));
        for _ in 0..5 {
            posterior.add(&sample(60.0, true));
        }
        let credible = credible(&posterior);
        assert!(credible.low.mbps() > 50.0 && credible.high.mbps() > 90.0, "{credible:?}");
    }

    /// Simulates a FIFO link of one packet per 10 us that also serves cross packets
    /// arriving at the given times.
    fn queue(sent_us: &[u64], cross_us: &[u64]) -> Vec<Delayed> {
        let mut free_at = 0;
        let mut cross = cross_us.iter().peekable();
        let mut packets = Vec::new();
        for (index, at) in (0..).zip(sent_us) {
            while let Some(arrival) = cross.next_if(|arrival| *arrival <= at) {
                free_at = free_at.max(*arrival) + 10;
            }
            let queueing = Duration::from_us(free_at.saturating_sub(*at) as i64);
            packets.push(Delayed { index, sent: Instant::from_ns(at * 1000), queueing });
            free_at = free_at.max(*at) + 10;
        }
        packets
    }

    const PACKET: Bytes = Bytes::new(1250);
    const CAPACITY: Rate = Rate::from_bps(1_000_000_000);

    #[test]
    fn a_busy_queue_gives_capacity_less_cross_traffic() {
        // Packets every 8 us overload the link; a cross packet every 40 us takes a quarter of its capacity.
        let sent: Vec<u64> = (0..50).map(|i| i * 8).collect();
        let cross: Vec<u64> = (0..10).map(|i| i * 40 + 1).collect();
        let sample = busy_sample(&queue(&sent, &cross), PACKET, CAPACITY).expect("a busy queue");
        assert!((sample.available_bps - 750e6).abs() < 15e6, "{sample:?}");
        assert!(!sample.censored);
    }

    #[test]
    fn a_stream_below_what_is_free_gives_no_busy_sample() {
        let sent: Vec<u64> = (0..50).map(|i| i * 20).collect();
        assert_eq!(busy_sample(&queue(&sent, &[]), PACKET, CAPACITY), None);
        assert_eq!(busy_sample(&[], PACKET, CAPACITY), None);
    }

    #[test]
    fn a_whole_stream_counts_its_quiet_time_as_a_bound() {
        // A quarter of the link's rate, with ten cross packets at once in the middle: the queue is
        // empty before and after.
        let sent: Vec<u64> = (0..50).map(|i| i * 40).collect();
        let whole = |packets: &[Delayed]| {
            let busy = busy_sample(packets, PACKET, CAPACITY);
            (whole_sample(packets, PACKET, CAPACITY, busy.as_ref()).expect("a stream"), busy)
        };
        let (sample, busy) = whole(&queue(&sent, &[1000; 10]));
        assert!(sample.censored && (sample.available_bps - 250e6).abs() < 1.0, "{sample:?}");
        // Only the burst is seen while there is a queue.
        let busy = busy.expect("a burst");
        assert!(busy.duration < sample.duration.scale(0.2), "{busy:?}");
        // An overloaded link tells the rate itself.
        let fast: Vec<u64> = (0..50).map(|i| i * 8).collect();
        let (sample, _) = whole(&queue(&fast, &[]));
        assert!(!sample.censored && (sample.available_bps - 1e9).abs() < 1e6, "{sample:?}");
    }

    #[test]
    fn gaps_beside_a_lost_packet_do_not_count() {
        let sent: Vec<u64> = (0..50).map(|i| i * 8).collect();
        let mut packets = queue(&sent, &[]);
        let whole = busy_sample(&packets, PACKET, CAPACITY).expect("a busy queue");
        packets.remove(20);
        let holed = busy_sample(&packets, PACKET, CAPACITY).expect("a busy queue");
        assert_eq!(whole.available_bps, holed.available_bps);
        assert_eq!(whole.duration - holed.duration, Duration::from_us(16));
    }

    #[test]
    fn normal_cdf_logarithm_matches_known_values() {
        for (z, expected) in
            [(0.0, -std::f64::consts::LN_2), (1.0, -0.172_753_8), (-2.0, -3.783_184_3), (-6.0, -20.736_769)]
        {
            assert!((ln_normal_cdf(z) - expected).abs() < 2e-3, "{z}: {}", ln_normal_cdf(z));
        }
    }
}
