//! PIE: drops with a probability that a controller adjusts to the queueing delay (RFC 8033).

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::pi::Pi;
use super::{Backlog, Discipline, Packet, Verdict};
use crate::{QueueSpecError, require};
use headway_units::{Bytes, Duration, Instant};

/// Weight of the deviation from the target, per second (RFC 8033 4.2).
const ALPHA: f64 = 0.125;
/// Weight of the change since the last update, per second (RFC 8033 4.2).
const BETA: f64 = 1.25;
/// Below each probability, the change is scaled by the factor beside it: low probabilities move in small
/// steps (RFC 8033 4.2).
const TUNING: [(f64, f64); 6] = [
    (0.000_001, 1.0 / 2048.0),
    (0.000_01, 1.0 / 512.0),
    (0.000_1, 1.0 / 128.0),
    (0.001, 1.0 / 32.0),
    (0.01, 1.0 / 8.0),
    (0.1, 1.0 / 2.0),
];
/// Maximum increase per update of a probability of at least 0.1 (RFC 8033 5.5).
const STEP: f64 = 0.02;
/// Delay above which the probability grows by an additional [`STEP`] (RFC 8033 5.5).
const LARGE_DELAY: Duration = Duration::from_ms(250);
/// Factor by which the probability shrinks while the queue stays empty (RFC 8033 4.2).
const DECAY: f64 = 0.98;
/// Below this probability, nothing is dropped while the delay is below half the target (RFC 8033 4.1).
const SAFE_PROBABILITY: f64 = 0.2;
/// Nothing is dropped with at most this backlog: two packets of mean size, 1024 B (RFC 8033 4.1).
const SAFE_BACKLOG: Bytes = Bytes::new(2048);
/// Limits of the sum of probabilities since the last drop: nothing is dropped below the first, everything
/// from the second on (RFC 8033 5.4).
const SUMS: (f64, f64) = (0.85, 8.5);

/// Parameters of PIE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PieConfig {
    /// Target delay; default 15 ms (RFC 8033 4.2).
    pub target: Duration,
    /// Interval between updates of the probability; default 15 ms (RFC 8033 4.2).
    pub update: Duration,
    /// Maximum duration of a burst without drops; default 150 ms (RFC 8033 4.4).
    pub burst: Duration,
    /// Probability, 0 to 1, below which ECN-capable packets are marked instead of dropped;
    /// default 0.1 (RFC 8033 5.1).
    #[serde(deserialize_with = "headway_units::share::deserialize")]
    pub ecn_threshold: f64,
    /// Limit in wire bytes; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit in packets; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

impl Default for PieConfig {
    /// Returns the parameters of RFC 8033 without a limit.
    fn default() -> PieConfig {
        PieConfig {
            target: Duration::from_ms(15),
            update: Duration::from_ms(15),
            burst: Duration::from_ms(150),
            ecn_threshold: 0.1,
            limit: None,
            packets: None,
        }
    }
}

impl PieConfig {
    /// Checks the parameters.
    pub(super) fn validate(&self) -> Result<(), QueueSpecError> {
        require(self.target > Duration::ZERO, "target", "must be above zero")?;
        require(self.update > Duration::ZERO, "update", "must be above zero")?;
        require((0.0..=1.0).contains(&self.ecn_threshold), "ecn-threshold", "must be from 0 to 1")
    }
}

/// An accepted packet.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    arrived: Instant,
    /// When its transmission starts.
    starts: Instant,
}

/// Judges arrivals by a probability that follows the delay.
///
/// The delay is the waiting time of the packet that last started transmission, or zero if the queue was empty
/// behind it (RFC 8033 4.3, by timestamps, as in Linux). It therefore lags behind a growing queue.
#[derive(Clone, Debug)]
pub struct Pie {
    limit: Limit,
    config: PieConfig,
    probability: f64,
    /// Sum of the probabilities of the packets since the last drop.
    sum: f64,
    pi: Pi,
    /// Packets whose transmission had not started when last checked.
    waiting: VecDeque<Accepted>,
    /// Waiting time of the packet that last started transmission, or zero.
    waited: Duration,
    /// The remaining burst allowance.
    burst: Duration,
    random: Pcg64Mcg,
}

impl Pie {
    /// Creates a discipline with these parameters.
    pub(crate) fn new(config: &PieConfig, seed: u64) -> Pie {
        Pie {
            limit: Limit::new(config.limit, config.packets),
            config: config.clone(),
            probability: 0.0,
            sum: 0.0,
            pi: Pi::new(config.target, config.update, (ALPHA, BETA)),
            waiting: VecDeque::new(),
            waited: Duration::ZERO,
            burst: config.burst,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Performs the updates that have become due since the last packet.
    fn update(&mut self, now: Instant) {
        while let Some(due) = self.pi.due(now) {
            let delay = self.waited(due);
            if delay == Duration::ZERO && self.waiting.is_empty() && self.is_at_rest() {
                self.pi.skip(now);
            }
            self.update_probability(delay);
        }
    }

    /// Returns the waiting time of the packet that last started transmission by `now`, or zero if no others
    /// waited then.
    fn waited(&mut self, now: Instant) -> Duration {
        while let Some(packet) = self.waiting.pop_front_if(|packet| packet.starts <= now) {
            let others = self.waiting.front().is_some_and(|next| next.arrived <= packet.starts);
            self.waited = if others { packet.starts - packet.arrived } else { Duration::ZERO };
        }
        self.waited
    }

    /// Returns whether an update with an empty queue changes nothing.
    fn is_at_rest(&self) -> bool {
        self.probability == 0.0 && self.pi.delay() == Duration::ZERO && self.burst == self.config.burst
    }

    /// Performs one update of the probability (RFC 8033 4.2, 4.4, 5.5).
    fn update_probability(&mut self, delay: Duration) {
        let factor =
            TUNING.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, factor)| *factor);
        let (target, before) = (self.config.target, self.pi.delay());
        let change = self.pi.update(delay) * factor;
        self.probability += if self.probability >= 0.1 { change.min(STEP) } else { change };
        if delay > LARGE_DELAY {
            self.probability += STEP;
        }
        if delay == Duration::ZERO && before == Duration::ZERO {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst = (self.burst - self.config.update).max(Duration::ZERO);
        if self.probability == 0.0 && delay * 2 < target && before * 2 < target {
            self.burst = self.config.burst;
        }
    }

    /// Returns whether to drop or mark a packet (RFC 8033 4.1, 5.4).
    fn drops(&mut self, now: Instant, queued: Bytes) -> bool {
        let short = self.waited(now) * 2 < self.config.target && self.probability < SAFE_PROBABILITY;
        if self.burst > Duration::ZERO || short || queued <= SAFE_BACKLOG {
            return false;
        }
        if self.probability == 0.0 {
            self.sum = 0.0;
        }
        self.sum += self.probability;
        let drops =
            self.sum >= SUMS.0 && (self.sum >= SUMS.1 || self.random.random::<f64>() < self.probability);
        if drops {
            self.sum = 0.0;
        }
        drops
    }
}

impl Discipline for Pie {
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        self.update(now);
        let verdict = if !self.limit.admits(backlog, packet.size) {
            Verdict::Drop
        } else if self.drops(now, backlog.bytes) {
            Verdict::congested(packet.ect && self.probability < self.config.ecn_threshold)
        } else {
            Verdict::Accept
        };
        if verdict != Verdict::Drop {
            self.waiting.push_back(Accepted { arrived: now, starts: now + backlog.delay });
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Rate;

    const SIZE: Bytes = Bytes::new(1538);

    /// Evenly spaced packets on a link of 100 Mb/s.
    struct Overload {
        now: Instant,
        queued: Duration,
        drops: u32,
        marks: u32,
        delay: Duration,
    }

    impl Overload {
        /// Offers `packets` packets at `load` times the rate of the link.
        fn run(pie: &mut Pie, load: f64, packets: u32, ect: bool) -> Overload {
            let rate = Rate::from_bps(100_000_000);
            let (service, spacing) = (rate.time_for(SIZE), rate.scale(load).time_for(SIZE));
            let mut state = Overload {
                now: Instant::ZERO,
                queued: Duration::ZERO,
                drops: 0,
                marks: 0,
                delay: Duration::ZERO,
            };
            for _ in 0..packets {
                state.now += spacing;
                let left = state.queued - spacing;
                state.queued = left.max(Duration::ZERO);
                let backlog = Backlog {
                    bytes: rate.bytes_in(state.queued),
                    packets: (state.queued.ns() / service.ns()) as u32,
                    idle: (-left).max(Duration::ZERO),
                    delay: state.queued,
                };
                match pie.on_arrival(state.now, &backlog, &Packet::new(SIZE, ect)) {
                    Verdict::Drop => state.drops += 1,
                    verdict => {
                        state.marks += u32::from(verdict == Verdict::Mark);
                        state.queued += service;
                    }
                }
                state.delay += state.queued;
            }
            state.delay = state.delay / i64::from(packets);
            state
        }
    }

    #[test]
    fn an_overload_is_dropped_and_the_delay_kept_at_the_target() {
        for load in [1.05, 1.25] {
            let mut pie = Pie::new(&PieConfig::default(), 1);
            Overload::run(&mut pie, load, 300_000, false);
            // The second run starts at time zero again.
            pie.pi = Pi::new(pie.config.target, pie.config.update, (ALPHA, BETA));
            pie.waiting.clear();
            let state = Overload::run(&mut pie, load, 300_000, false);
            let (drops, expected) = (f64::from(state.drops) / 300_000.0, 1.0 - 1.0 / load);
            assert!((drops / expected - 1.0).abs() < 0.05, "{load}: {drops}, expected {expected}");
            assert!((state.delay.ms() / 15.0 - 1.0).abs() < 0.25, "{load}: {}", state.delay);
            // Summing probabilities spaces drops by (0.85 + 1) / p on average.
            assert!((0.8..2.5).contains(&(pie.probability / expected)), "{load}: {}", pie.probability);
        }
    }

    #[test]
    fn a_burst_passes_and_a_light_load_loses_nothing() {
        let mut pie = Pie::new(&PieConfig::default(), 1);
        // 150 ms at twice the rate is 2438 packets.
        assert_eq!(Overload::run(&mut pie, 2.0, 2_400, false).drops, 0);
        let mut pie = Pie::new(&PieConfig::default(), 1);
        assert_eq!(Overload::run(&mut pie, 0.9, 100_000, false).drops, 0);
        assert_eq!(pie.probability, 0.0);
    }

    #[test]
    fn low_probabilities_mark_and_high_ones_drop() {
        let mut pie = Pie::new(&PieConfig { ecn_threshold: 1.0, ..PieConfig::default() }, 1);
        let state = Overload::run(&mut pie, 1.02, 20_000, true);
        assert!(state.marks > 0 && state.drops == 0);
        let mut pie = Pie::new(&PieConfig { ecn_threshold: 0.0, ..PieConfig::default() }, 1);
        let state = Overload::run(&mut pie, 1.02, 20_000, true);
        assert!(state.marks == 0 && state.drops > 0);
    }

    #[test]
    fn the_delay_is_that_of_the_packet_that_started_last() {
        let mut pie = Pie::new(&PieConfig::default(), 1);
        let ms = |ms: i64| Instant::ZERO + Duration::from_ms(ms);
        for (arrived, starts) in [(0, 0), (1, 10), (2, 20)] {
            pie.waiting.push_back(Accepted { arrived: ms(arrived), starts: ms(starts) });
        }
        // The last packet leaves an empty queue.
        let waited = [5, 10, 19, 20, 50].map(|now| pie.waited(ms(now)).ms());
        assert_eq!(waited, [0.0, 9.0, 9.0, 0.0, 0.0]);
    }

    #[test]
    fn updates_missed_in_a_pause_are_made_up_for() {
        let mut pie = Pie::new(&PieConfig::default(), 1);
        let end = Overload::run(&mut pie, 1.25, 100_000, false);
        let mut often = pie.clone();
        let mut now = end.now + end.queued;
        for _ in 0..100 {
            now += Duration::from_ms(3);
            often.update(now);
        }
        pie.update(now);
        assert!(pie.probability > 0.0);
        let later = now + pie.config.update;
        assert_eq!((pie.probability, pie.pi.due(later)), (often.probability, often.pi.due(later)));
        now += Duration::from_ms(86_400_000);
        pie.update(now);
        assert!(pie.is_at_rest() && pie.pi.due(now).is_none());
    }
}
