//! RED: the marking probability rises with the average queue (ls-aimd 2.18, `RED ramp`; details as in Linux).

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::{Backlog, Discipline, Packet, Verdict};
use crate::{QueueSpecError, require};
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};

/// Default interval between adaptations of adaptive RED (Linux, after Floyd, Gummadi and
/// Shenker, Adaptive RED).
pub const ADAPTATION: Duration = Duration::from_ms(500);
/// Target of adaptive RED in the middle of the ramp: nothing changes between these fractions
/// of it (ls-aimd 2.18).
const MIDDLE: (f64, f64) = (0.4, 0.6);
/// The adaptive probability increases while it is at most this (ls-aimd 2.18).
const ADAPTIVE_MAX: f64 = 0.5;
/// The adaptive probability decreases while it is at least this (ls-aimd 2.18).
const ADAPTIVE_MIN: f64 = 0.01;
/// Increment of the adaptive probability, limited to a quarter of its value (ls-aimd 2.18).
const INCREASE: f64 = 0.01;
/// Factor of each decrease of the adaptive probability (ls-aimd 2.18).
const DECREASE: f64 = 0.9;
/// Maximum number of adaptations at once: after these, 0.5 has fallen below [`ADAPTIVE_MIN`]
/// and no longer changes.
const MAX_ADAPTATIONS: i64 = 40;
/// The averaging weight is at least 2^-31 (Linux).
const MAX_WEIGHT_LOG: u8 = 31;

/// Parameters of RED. Sizes are wire bytes of the average queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RedConfig {
    /// Average below which nothing is marked.
    pub min: Bytes,
    /// Average from which everything is marked.
    pub max: Bytes,
    /// Marking probability just below `max`, above 0 and at most 1; default 0.1 (ls-aimd 2.18).
    #[serde(default = "default_probability", deserialize_with = "headway_units::share::deserialize")]
    pub probability: f64,
    /// Whether to adapt `probability` to keep the average in the middle of the ramp; default no.
    #[serde(default)]
    pub adaptive: bool,
    /// Interval between adaptations; default 500 ms, the only value that Linux supports.
    #[serde(default = "default_adaptation")]
    pub adaptation: Duration,
    /// Whether ECN-capable packets are marked instead of dropped; default yes.
    #[serde(default = "default_ecn")]
    pub ecn: bool,
    /// Packets that may arrive in a burst at an empty queue without a mark, which determines the averaging
    /// weight; default `(2 min + max) / (3 packet)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Mean packet size; default 1000 B (ls-aimd 2.18).
    #[serde(default = "default_packet")]
    pub packet: Bytes,
    /// Limit in wire bytes; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit in packets; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

headway_units::defaults! {
    default_probability: f64 = 0.1;
    default_adaptation: Duration = ADAPTATION;
    default_ecn: bool = true;
    default_packet: Bytes = Bytes::new(1000);
}

impl RedConfig {
    /// Returns RED with these thresholds and defaults for the rest.
    pub fn between(min: Bytes, max: Bytes) -> RedConfig {
        RedConfig {
            min,
            max,
            probability: default_probability(),
            adaptive: false,
            adaptation: default_adaptation(),
            ecn: default_ecn(),
            burst: None,
            packet: default_packet(),
            limit: None,
            packets: None,
        }
    }

    /// Checks the parameters.
    pub(super) fn validate(&self) -> Result<(), QueueSpecError> {
        require(self.max > self.min, "max", "must be above `min`")?;
        let probable = self.probability > 0.0 && self.probability <= 1.0;
        require(probable, "probability", "must be above 0 and at most 1")?;
        require(self.adaptation > Duration::ZERO, "adaptation", "must be above zero")?;
        require(self.packet > Bytes::ZERO, "packet", "must be above zero")?;
        require(self.min > self.packet, "min", "must be above `packet`")?;
        require(self.weight_log().is_some(), "burst", "must be at least `min` / `packet`")
    }

    /// Returns the burst in packets: as configured, or as the authors of RED advise, then at
    /// least `min` / `packet`.
    pub(crate) fn burst(&self) -> f64 {
        let (min, max, packet) = (self.min.get() as f64, self.max.get() as f64, self.packet.get() as f64);
        let advised = ((2.0 * min + max) / (3.0 * packet)).floor().max((min / packet).ceil());
        self.burst.map_or(advised, f64::from)
    }

    /// Returns the weight of a packet in the average as a negative power of two: the largest weight that
    /// lets a burst pass.
    ///
    /// Returns `None` if the burst alone would bring the average to `min` with any weight.
    pub fn weight_log(&self) -> Option<u8> {
        // The rule of Linux: the smallest Wlog with burst + 1 - min / packet <= (1 - (1 - W)^burst) / W.
        let burst = self.burst();
        let room = burst + 1.0 - self.min.get() as f64 / self.packet.get() as f64;
        (1..=MAX_WEIGHT_LOG).find(|log| {
            let weight = inverse(*log);
            room >= 1.0 && room <= (1.0 - power(1.0 - weight, burst)) / weight
        })
    }
}

/// Returns 2^-`log`.
fn inverse(log: u8) -> f64 {
    1.0 / f64::from(1_u32 << log)
}

/// Returns `base` to the power of `exponent` with the same result on every machine, interpolating linearly
/// between integer exponents.
///
/// `base` is from 0 to 1 and `exponent` at most [`u32::MAX`].
fn power(base: f64, exponent: f64) -> f64 {
    let whole = exponent as u32;
    let mut result = 1.0 - (exponent - f64::from(whole)).min(1.0) * (1.0 - base);
    let (mut square, mut bits) = (base, whole);
    while bits > 0 {
        if bits & 1 == 1 {
            result *= square;
        }
        square *= square;
        bits >>= 1;
    }
    result
}

/// Marks by the average queue, with evenly spaced marks.
#[derive(Clone, Debug)]
pub struct Red {
    limit: Limit,
    ecn: bool,
    min: f64,
    max: f64,
    average: Average,
    /// Marking probability just below `max`.
    probability: f64,
    /// `probability / (max - min)`.
    slope: f64,
    /// Time of the next adaptation; absent before the first packet.
    adapt_at: Option<Instant>,
    adaptive: bool,
    adaptation: Duration,
    spacing: Spacing,
}

impl Red {
    /// Creates a discipline for a queue served at `rate`, or `None` if transmission takes no time.
    pub(crate) fn new(config: &RedConfig, rate: Option<Rate>, seed: u64) -> Red {
        let (min, max) = (config.min.get() as f64, config.max.get() as f64);
        let packet_time = rate.map_or(0.0, |rate| rate.time_for(config.packet).ns() as f64);
        Red {
            limit: Limit::new(config.limit, config.packets),
            ecn: config.ecn,
            min,
            max,
            average: Average {
                bytes: 0.0,
                weight: config.weight_log().map_or(1.0, inverse),
                packets_per_ns: 1.0 / packet_time.max(1.0),
                rates: None,
                updated: Instant::ZERO,
            },
            probability: config.probability,
            slope: config.probability / (max - min),
            adapt_at: None,
            adaptive: config.adaptive,
            adaptation: config.adaptation,
            spacing: Spacing::new(seed),
        }
    }

    /// Makes idle time count at the rates of its time instead of at a constant one.
    pub(crate) fn with_rates(mut self, rates: RateSteps) -> Red {
        // At the first rate, of which `packets_per_ns` is the reciprocal of a packet's time.
        let first = rates.at(Instant::ZERO);
        self.average.rates = Some(Box::new((rates, self.average.packets_per_ns / first.bps_f64())));
        self
    }

    /// Performs the adaptations that have become due since the last packet.
    fn adapt(&mut self, now: Instant) {
        let Some(due) = self.adapt_at.filter(|due| *due <= now) else {
            self.adapt_at = self.adapt_at.or(Some(now + self.adaptation));
            return;
        };
        let times = (now - due).ns() / self.adaptation.ns() + 1;
        self.adapt_at = Some(due + self.adaptation * times);
        let middle = (self.average.bytes - self.min) / (self.max - self.min);
        for _ in 0..times.min(MAX_ADAPTATIONS) {
            if middle > MIDDLE.1 && self.probability <= ADAPTIVE_MAX {
                self.probability += INCREASE.min(self.probability / 4.0);
            } else if middle < MIDDLE.0 && self.probability >= ADAPTIVE_MIN {
                self.probability *= DECREASE;
            }
        }
        self.slope = self.probability / (self.max - self.min);
    }

    /// Returns whether to mark a packet at the current average.
    fn marks(&mut self) -> bool {
        let average = self.average.bytes;
        if average < self.min {
            self.spacing.restart();
            false
        } else if average >= self.max {
            self.spacing.restart();
            true
        } else {
            self.spacing.marks((average - self.min) * self.slope)
        }
    }
}

impl Discipline for Red {
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        self.average.update(now, backlog);
        if self.adaptive {
            self.adapt(now);
        }
        if !self.limit.admits(backlog, packet.size) {
            Verdict::Drop
        } else if self.marks() {
            Verdict::congested(packet.ect && self.ecn)
        } else {
            Verdict::Accept
        }
    }
}

/// The exponentially weighted average of the queue seen by arriving packets.
#[derive(Clone, Debug)]
struct Average {
    bytes: f64,
    weight: f64,
    /// Packets of mean size that the link transmits per nanosecond.
    packets_per_ns: f64,
    /// Rates that change, and the packets per unit of their work.
    rates: Option<Box<(RateSteps, f64)>>,
    updated: Instant,
}

impl Average {
    /// Adds the queue seen by a packet. For idle time, it adds hypothetical packets that would have found
    /// the queue empty.
    fn update(&mut self, now: Instant, backlog: &Backlog) {
        if backlog.idle > Duration::ZERO {
            // A packet dropped since then has already accounted for the time before it.
            let idle = backlog.idle.min(now - self.updated);
            let packets = match &self.rates {
                None => idle.ns() as f64 * self.packets_per_ns,
                Some(changing) => {
                    let (rates, each) = &**changing;
                    rates.work_between((now - idle).ns(), now.ns()) as f64 * each
                }
            };
            self.bytes *= power(1.0 - self.weight, packets);
        }
        self.updated = now;
        self.bytes += (backlog.bytes.get() as f64 - self.bytes) * self.weight;
    }
}

/// Spaces marks evenly: the intervals between them are uniformly distributed from one packet to 1/p.
///
/// Marking each packet with probability p / (1 - count p) has the same effect. Drawing the interval once per
/// mark, as Linux does, needs neither a division nor a random number per packet.
#[derive(Clone, Debug)]
struct Spacing {
    random: Pcg64Mcg,
    /// Packets since the last mark; absent outside the ramp.
    count: Option<u32>,
    /// The next mark is due when `count` times the probability reaches this value, uniformly
    /// distributed from 0 to 1.
    due: f64,
}

impl Spacing {
    fn new(seed: u64) -> Spacing {
        Spacing { random: Pcg64Mcg::seed_from_u64(seed), count: None, due: 0.0 }
    }

    /// Restarts after the average left the ramp: the first packet back on it is not marked.
    fn restart(&mut self) {
        self.count = None;
    }

    /// Returns whether to mark the next packet, given the base probability p.
    fn marks(&mut self, probability: f64) -> bool {
        let count = self.count.map_or(0, |count| count.saturating_add(1));
        let due = count > 0 && f64::from(count) * probability >= self.due;
        if due || count == 0 {
            self.due = self.random.random();
        }
        self.count = Some(if due { 0 } else { count });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::backlog;
    use super::*;

    const PACKET: Bytes = Bytes::new(1500);

    /// Returns the configuration of ls-aimd 2.18 for 200 Mb/s and 500 us.
    fn config() -> RedConfig {
        RedConfig {
            min: Bytes::new(12_500),
            max: Bytes::new(37_500),
            probability: 0.1,
            adaptive: false,
            adaptation: ADAPTATION,
            ecn: true,
            burst: None,
            packet: Bytes::new(1000),
            limit: Some(Bytes::new(5_000_000)),
            packets: None,
        }
    }

    fn red(config: &RedConfig) -> Red {
        Red::new(config, Some(Rate::from_bps(200_000_000)), 1)
    }

    /// Sends packets 60 us apart to a queue held at `bytes` and returns the fraction marked.
    fn fraction(red: &mut Red, bytes: u64, packets: u32) -> f64 {
        let mut marked = 0;
        for index in 0..packets {
            let now = Instant::from_ns(60_000 * u64::from(index));
            marked +=
                u32::from(red.on_arrival(now, &backlog(bytes), &Packet::new(PACKET, true)) == Verdict::Mark);
        }
        f64::from(marked) / f64::from(packets)
    }

    /// Returns the mean number of packets between marks: the sum of P(interval > n) over n = 0, 1, 2, ...
    fn mean_interval(probability: f64) -> f64 {
        let longest = (1.0 / probability).floor() as u32;
        (0..=longest).map(|packets| 1.0 - f64::from(packets) * probability).sum()
    }

    #[test]
    fn the_weight_follows_from_the_burst_as_in_linux() {
        assert_eq!(config().weight_log(), Some(4));
        assert_eq!(RedConfig { burst: Some(20), ..config() }.weight_log(), Some(4));
        let fast =
            RedConfig { min: Bytes::new(18_750), max: Bytes::new(56_250), burst: Some(31), ..config() };
        assert_eq!(fast.weight_log(), Some(4));
        assert_eq!(RedConfig { burst: Some(5), ..config() }.weight_log(), None);
        let narrow = RedConfig { min: Bytes::new(1_500), max: Bytes::new(1_600), ..config() };
        assert_eq!(narrow.weight_log(), Some(1));
    }

    #[test]
    fn marks_follow_the_ramp_on_a_held_average() {
        for (bytes, probability) in [(15_000, 0.01), (20_000, 0.03), (25_000, 0.05), (32_500, 0.08)] {
            let expected = 1.0 / mean_interval(probability);
            let seen = fraction(&mut red(&config()), bytes, 2_000_000);
            assert!((seen / expected - 1.0).abs() < 0.01, "{bytes}: {seen}, expected {expected}");
        }
        assert_eq!(fraction(&mut red(&config()), 12_000, 10_000), 0.0);
        let mut full = red(&config());
        fraction(&mut full, 40_000, 1000);
        assert_eq!(fraction(&mut full, 40_000, 1000), 1.0);
    }

    #[test]
    fn intervals_are_uniform_up_to_the_inverse_of_the_probability() {
        let mut spacing = Spacing::new(7);
        let mut counts = [0_u32; 21];
        let mut interval = 0;
        for _ in 0..2_000_000 {
            interval += 1;
            if spacing.marks(0.05) {
                counts[interval] += 1;
                interval = 0;
            }
        }
        let mean = f64::from(counts.iter().sum::<u32>()) / 20.0;
        assert!(counts[1..].iter().all(|count| (f64::from(*count) / mean - 1.0).abs() < 0.06), "{counts:?}");
    }

    #[test]
    fn the_average_follows_steps_and_idle_time() {
        let mut red = red(&config());
        let n = 10;
        fraction(&mut red, 16_000, n);
        let expected = 16_000.0 * (1.0 - (15.0_f64 / 16.0).powi(10));
        assert!((red.average.bytes - expected).abs() < 1e-6);
        // 20.5 packet times of 40 us, then the packet itself.
        let now = Instant::from_ns(60_000 * 9) + Duration::from_us(900);
        let idle = Backlog { idle: Duration::from_us(820), ..backlog(0) };
        red.on_arrival(now, &idle, &Packet::new(PACKET, true));
        let expected = expected * (15.0_f64 / 16.0).powf(21.5);
        assert!((red.average.bytes / expected - 1.0).abs() < 1e-3);
    }

    #[test]
    fn idle_time_counts_at_the_rates_of_its_time() {
        let ms = Duration::from_ms;
        // A packet of 1000 bytes takes 40 us at 200 Mb/s, 400 us at 20 Mb/s.
        let rates = vec![(Duration::ZERO, Rate::from_mbps(200.0)), (ms(1), Rate::from_mbps(20.0))];
        let mut changing = red(&config()).with_rates(rates.try_into().unwrap());
        fraction(&mut changing, 16_000, 10);
        let before = changing.average.bytes;
        // Idle from 0.92 to 1.8 ms: two packets before the change, two after it, and then the packet itself.
        let idle = Backlog { idle: Duration::from_us(880), ..backlog(0) };
        changing.on_arrival(Instant::from_ns(1_800_000), &idle, &Packet::new(PACKET, true));
        let expected = before * (15.0_f64 / 16.0).powf(5.0);
        assert!(
            (changing.average.bytes / expected - 1.0).abs() < 1e-3,
            "{}",
            changing.average.bytes / before
        );
    }

    #[test]
    fn the_adaptive_probability_moves_towards_the_target_and_is_clamped() {
        let config = RedConfig { adaptive: true, ..config() };
        let mut above = red(&config);
        // 1.2 s with a high average: two adaptations.
        fraction(&mut above, 35_000, 20_000);
        assert!((above.probability - 0.12).abs() < 1e-9, "{}", above.probability);
        fraction(&mut above, 35_000, 2_000_000);
        assert!((0.5..=0.51).contains(&above.probability));
        let mut below = red(&config);
        fraction(&mut below, 14_000, 20_000);
        assert!((below.probability - 0.081).abs() < 1e-9, "{}", below.probability);
        let much_later = Backlog { idle: Duration::from_ms(3_600_000), ..backlog(0) };
        below.on_arrival(Instant::from_ns(3_700_000_000_000), &much_later, &Packet::new(PACKET, true));
        assert!((0.009..0.01).contains(&below.probability));
        let mut middle = red(&config);
        fraction(&mut middle, 25_000, 100_000);
        assert_eq!(middle.probability, 0.1);
    }

    #[test]
    fn what_cannot_be_marked_or_does_not_fit_is_dropped() {
        let mut red_without_ecn = red(&RedConfig { ecn: false, ..config() });
        fraction(&mut red_without_ecn, 50_000, 100);
        let full = backlog(4_998_501);
        let now = Instant::from_ns(10_000_000);
        assert_eq!(
            red_without_ecn.on_arrival(now, &backlog(50_000), &Packet::new(PACKET, true)),
            Verdict::Drop
        );
        let mut red = red(&config());
        fraction(&mut red, 50_000, 100);
        assert_eq!(red.on_arrival(now, &backlog(50_000), &Packet::new(PACKET, false)), Verdict::Drop);
        assert_eq!(red.on_arrival(now, &full, &Packet::new(PACKET, true)), Verdict::Drop);
    }
}
