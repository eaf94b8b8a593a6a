//! P-streams, and streams of one rate, through the testbed of the Rapid papers (rapid F45).

use headway_estimate::{Schedule, Shape, StreamRecord};
use headway_host::gap::Mechanism;
use headway_host::nic::Coalescing;
use headway_scenario::check_traffic;
use headway_sim::testbed::{Observed, Testbed, TestbedConfig};
use headway_traffic::{Traffic, random};
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Rate};
use rand::RngExt as _;
use serde::Deserialize;

use crate::Part;
use crate::acks::delay_acks;

/// Streams in a row. The first meets an empty queue and an idle NIC, and does not count.
const TRAIN: u32 = 50;

/// Least rate that other rates are shares of: streams must end.
const LEAST_FREE: Rate = Rate::from_bps(10_000);

/// IP bytes of the largest packet of cross traffic: jumbo frames.
const MTU: u32 = 9_000;

/// What streams to send, and over which paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// From it follow the seeds of all runs.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of rates of a stream: 1 for streams that are judged, more for those that answer with a rate.
    pub rates: u32,
    /// Packets at each rate.
    pub packets_per_rate: u32,
    /// Difference between the highest and the lowest rate, as a share of the lowest.
    #[serde(default)]
    pub range: f64,
    /// Average rates.
    pub averages: Averages,
    /// Packets per ACK, 1 to 64. From 2 on, gaps are what a TCP sender sees: each interval between two
    /// stamps, of whole microseconds, is spread evenly over its packets (rapid 2.8).
    #[serde(default = "each")]
    pub ack_every: u32,
    /// The paths.
    pub path: Vec<PathPlan>,
}

/// Average rates of streams.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Averages {
    /// The lowest.
    pub from: f64,
    /// The highest.
    pub to: f64,
    /// The difference between neighbours; without it, any rate between the two ends is as likely.
    pub step: Option<f64>,
    /// What they are shares of.
    #[serde(default)]
    pub of: Base,
}

/// What average rates are shares of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// The capacity of the path.
    #[default]
    Capacity,
    /// What was available to the streams of the row before, in the mean: rates as a sender has that follows
    /// it. A model that has seen streams all over the capacity expects more than is there from such a
    /// sender (rapid 2.16).
    Free,
}

/// Paths that differ in their traffic and in the coalescing of interrupts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PathPlan {
    /// Rate of the bottleneck and of the sender's link.
    #[serde(default = "ten_gigabits")]
    pub capacity: Rate,
    /// Wire size of a packet.
    #[serde(default = "jumbo")]
    pub packet: Bytes,
    /// Buffer of the bottleneck.
    #[serde(default = "shallow")]
    pub buffer: Bytes,
    /// Idle time between rows of streams.
    #[serde(default = "ten_milliseconds")]
    pub silence: Duration,
    /// Kinds of cross traffic, one at a time.
    pub traffic: Vec<Traffic>,
    /// Coalescing of the receiver's interrupts, one at a time; zero means one interrupt per packet.
    pub coalescing: Vec<Coalescing>,
    /// Runs with each traffic and coalescing.
    pub runs: u32,
    /// How many of them are tests.
    #[serde(default)]
    pub test_runs: u32,
    /// Streams of a run.
    pub streams: u32,
}

const fn one() -> u64 {
    1
}

const fn each() -> u32 {
    1
}

const fn ten_gigabits() -> Rate {
    Rate::from_bps(10_000_000_000)
}

const fn jumbo() -> Bytes {
    Bytes::new(9038)
}

const fn shallow() -> Bytes {
    Bytes::new(1_000_000)
}

const fn ten_milliseconds() -> Duration {
    Duration::from_ms(10)
}

/// One run: a path and its seed.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    plan: &'a Plan,
    /// The path.
    pub path: &'a PathPlan,
    /// The cross traffic.
    pub traffic: &'a Traffic,
    /// The coalescing of interrupts.
    pub coalescing: Coalescing,
    /// Number of the run among all, which its seed follows from.
    pub number: u32,
    /// What it is for.
    pub part: Part,
}

/// A stream of which every packet arrived, and the truth.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Departures and timestamps of the receiver.
    pub record: StreamRecord,
    /// The available bandwidth while it was sent (rapid 2.16).
    pub available: Rate,
}

impl Stream {
    /// Returns the first and the last probing rate.
    pub fn ends(&self) -> [Rate; 2] {
        let StreamRecord { packet, intended, average, .. } = &self.record;
        let rate = |gap: Option<&Duration>| gap.and_then(|gap| Rate::of(*packet, *gap)).unwrap_or(*average);
        [rate(intended.first()), rate(intended.last())]
    }

    /// Whether the available bandwidth lies within the range of the probing rates (rapid 2.16).
    pub fn is_covered(&self) -> bool {
        let [lowest, highest] = self.ends();
        lowest <= self.available && self.available <= highest
    }

    /// Whether the average rate is above what was available.
    pub fn is_above(&self) -> bool {
        self.record.average > self.available
    }
}

impl Plan {
    /// Checks what the types do not say.
    ///
    /// # Errors
    /// Names the key that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        check("rates", (1..=64).contains(&self.rates), "must be 1 to 64")?;
        check("packets-per-rate", (1..=1_024).contains(&self.packets_per_rate), "must be 1 to 1024")?;
        check("range", (0.0..=10.0).contains(&self.range), "must be 0 to 10")?;
        let is_flat = self.range == 0.0;
        check("range", is_flat == (self.rates == 1), "must be above 0 with several rates, and 0 with one")?;
        let Averages { from, to, step, of } = self.averages;
        let (most, rule) = match of {
            Base::Capacity => (1.0, "must go from above 0 to at most 1"),
            Base::Free => (4.0, "must go from above 0 to at most 4"),
        };
        check("averages", 0.0 < from && from <= to && to <= most, rule)?;
        check("averages.step", step.is_none_or(|step| step > 0.0), "must be above 0")?;
        check("ack-every", (1..=64).contains(&self.ack_every), "must be 1 to 64")?;
        check("path", !self.path.is_empty(), "there must be one at least")?;
        self.path.iter().enumerate().try_for_each(|(index, path)| path.check(index))
    }

    /// Returns all runs.
    pub fn runs(&self) -> Vec<Run<'_>> {
        let mut runs = Vec::new();
        for path in &self.path {
            for traffic in &path.traffic {
                for coalescing in &path.coalescing {
                    for index in 0..path.runs {
                        let part = Part::of(index, path.runs, path.test_runs);
                        let number = runs.len() as u32;
                        runs.push(Run { plan: self, path, traffic, coalescing: *coalescing, number, part });
                    }
                }
            }
        }
        runs
    }

    /// Returns the shape of the streams.
    pub fn shape(&self) -> Shape {
        Shape::with_range(self.rates, self.packets_per_rate, self.range)
    }
}

impl PathPlan {
    fn check(&self, index: usize) -> Result<(), ConfigError> {
        let key = |name: &str| format!("path[{index}].{name}");
        let positive = |name: &str, value: u64| check(&key(name), value > 0, "must be above 0");
        positive("capacity", self.capacity.bps())?;
        positive("packet", self.packet.get())?;
        positive("buffer", self.buffer.get())?;
        positive("silence", self.silence.ns().unsigned_abs())?;
        positive("runs", self.runs.into())?;
        positive("streams", self.streams.into())?;
        positive("traffic", self.traffic.len() as u64)?;
        positive("coalescing", self.coalescing.len() as u64)?;
        check(&key("test-runs"), self.test_runs <= self.runs, "must be at most `runs`")?;
        for traffic in &self.traffic {
            let is_file = matches!(traffic, Traffic::Pcap { .. });
            check(&key("traffic"), !is_file, "cannot be a capture")?;
            check_traffic(&key("traffic"), traffic, MTU)?;
        }
        for coalescing in &self.coalescing {
            check(
                &key("coalescing"),
                coalescing.mistake().is_none(),
                coalescing.mistake().unwrap_or_default(),
            )?;
        }
        Ok(())
    }
}

impl Run<'_> {
    /// Returns the seed of the run.
    fn seed(&self) -> u64 {
        random::generator(self.plan.seed, "run", u64::from(self.number)).random()
    }

    /// Sends the streams of the run in rows; `go_on` is asked before each.
    ///
    /// Streams that lost a packet are left out.
    pub fn send(&self, go_on: impl Fn() -> bool) -> Vec<Stream> {
        let seed = self.seed();
        let mut averages = random::generator(seed, "averages", 0);
        let mut testbed = Testbed::new(&self.testbed(), seed);
        let mut streams = Vec::new();
        let mut left = self.path.streams;
        let mut base = self.base(&mut testbed);
        while left > 0 && go_on() {
            let count = left.min(TRAIN);
            left -= count;
            let row: Vec<Schedule> = (0..=count)
                .map(|_| {
                    let average = base.scale(self.plan.averages.draw(&mut averages)).min(self.path.capacity);
                    Schedule::p_stream(self.plan.shape(), average, self.path.packet)
                })
                .collect();
            let mut observed = testbed.send_train(&row, self.path.silence);
            if self.plan.averages.of == Base::Free {
                base = mean_free(&observed);
            }
            if self.plan.ack_every > 1 {
                let phase = averages.random_range(0..self.plan.ack_every);
                delay_acks(&mut observed, self.plan.ack_every, phase);
            }
            let complete = observed.into_iter().skip(1).filter(|observed| observed.complete);
            streams.extend(complete.map(|Observed { record, available, .. }| Stream { record, available }));
        }
        streams
    }

    /// Returns what the average rates of the first row are shares of.
    fn base(&self, testbed: &mut Testbed) -> Rate {
        let capacity = self.path.capacity;
        match self.plan.averages.of {
            Base::Capacity => capacity,
            Base::Free => {
                let stream = Schedule::p_stream(self.plan.shape(), capacity.scale(0.5), self.path.packet);
                mean_free(&testbed.send_train(&vec![stream; TRAIN as usize], self.path.silence))
            }
        }
    }

    fn testbed(&self) -> TestbedConfig {
        let is_fast = matches!(self.coalescing, Coalescing::Fixed { interval: Duration::ZERO, .. });
        TestbedConfig {
            capacity: self.path.capacity,
            buffer: self.path.buffer,
            cross: vec![self.traffic.clone()],
            mechanism: Mechanism::ByteClock,
            coalescing: (!is_fast).then_some(self.coalescing),
        }
    }
}

/// Returns the mean of what was available to streams, of which there is one at least.
fn mean_free(streams: &[Observed]) -> Rate {
    let sum: f64 = streams.iter().map(|stream| stream.available.bps_f64()).sum();
    Rate::from_bps_f64(sum / streams.len() as f64).max(LEAST_FREE)
}

impl Averages {
    fn draw(&self, random: &mut impl rand::Rng) -> f64 {
        match self.step {
            Some(step) => {
                let count = ((self.to - self.from) / step + 1e-9) as u32;
                self.from + step * f64::from(random.random_range(0..=count))
            }
            None => random.random_range(self.from..=self.to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let path = PathPlan {
            capacity: ten_gigabits(),
            packet: jumbo(),
            buffer: shallow(),
            silence: ten_milliseconds(),
            traffic: vec![Traffic::Bct { scale: 1.0 }],
            coalescing: vec![Duration::from_us(120).into(), Duration::ZERO.into()],
            runs: 2,
            test_runs: 1,
            streams: 60,
        };
        let averages = Averages { from: 0.5, to: 0.9, step: Some(0.1), of: Base::Capacity };
        Plan { seed: 3, rates: 4, packets_per_rate: 12, range: 0.5, averages, ack_every: 1, path: vec![path] }
    }

    #[test]
    fn every_traffic_and_coalescing_has_runs_for_training_and_for_tests() {
        let plan = plan();
        let runs = plan.runs();
        let parts: Vec<(u32, Part)> = runs.iter().map(|run| (run.number, run.part)).collect();
        assert_eq!(parts, [(0, Part::Train), (1, Part::Test), (2, Part::Train), (3, Part::Test)]);
        assert!(plan.check().is_ok());
    }

    #[test]
    fn streams_have_the_rates_and_gaps_of_the_plan_and_depend_on_its_seed_only() {
        let plan = plan();
        let send = |plan: &Plan, run: usize| plan.runs()[run].send(|| true);
        let streams = send(&plan, 0);
        assert!(streams.len() > 50 && streams.iter().all(|stream| stream.record.arrivals.len() == 49));
        for stream in &streams {
            let tenths = stream.record.average.mbps() / 1e3;
            assert!((tenths - tenths.round()).abs() < 1e-6 && (5.0..=9.0).contains(&tenths), "{tenths}");
        }
        let records = |streams: &[Stream]| streams.iter().map(|one| one.record.clone()).collect::<Vec<_>>();
        assert_eq!(records(&streams), records(&send(&plan, 0)));
        assert_ne!(records(&streams), records(&send(&plan, 1)));
        assert_ne!(records(&streams), records(&send(&Plan { seed: 4, ..plan.clone() }, 0)));
        assert!(plan.runs()[0].send(|| false).is_empty(), "it stops when told");
    }

    #[test]
    fn a_covering_stream_has_the_truth_between_its_lowest_and_highest_rate() {
        for stream in plan().runs()[0].send(|| true) {
            let share = stream.record.average.bps_f64() / stream.available.bps_f64();
            // Four rates over 50 % are 0.8259 to 1.2388 of their average.
            assert_eq!(stream.is_covered(), (1.0 / 1.2388..=1.0 / 0.8259).contains(&share), "{share}");
            assert_eq!(stream.is_above(), share > 1.0);
        }
    }

    #[test]
    fn averages_around_what_is_free_follow_the_load() {
        let mut plan = plan();
        plan.averages = Averages { from: 0.8, to: 1.25, step: None, of: Base::Free };
        for load in [1_000.0, 4_500.0] {
            plan.path[0].traffic = vec![Traffic::poisson(Rate::from_mbps(load))];
            for stream in plan.runs()[0].send(|| true) {
                let share = stream.record.average.mbps() / (10_000.0 - load);
                assert!((0.76..1.32).contains(&share), "{share} of what a load of {load} Mb/s leaves");
            }
        }
    }

    #[test]
    fn mistakes_name_their_key() {
        let mistake = |change: fn(&mut Plan)| {
            let mut plan = plan();
            change(&mut plan);
            plan.check().err().and_then(|mistake| mistake.key().map(str::to_owned)).unwrap_or_default()
        };
        assert_eq!(mistake(|plan| plan.rates = 1), "range");
        assert_eq!(mistake(|plan| plan.averages.to = 1.5), "averages");
        assert_eq!(mistake(|plan| plan.ack_every = 0), "ack-every");
        assert_eq!(mistake(|plan| plan.path.clear()), "path");
        assert_eq!(mistake(|plan| plan.path[0].test_runs = 3), "path[0].test-runs");
        let nothing = |plan: &mut Plan| plan.path[0].traffic[0] = Traffic::Bct { scale: 0.0 };
        assert_eq!(mistake(nothing), "path[0].traffic.scale");
        // Packets without bytes would never fill a moment.
        let endless = |plan: &mut Plan| {
            plan.path[0].traffic[0] = Traffic::Poisson { rate: ten_gigabits(), size: Bytes::ZERO };
        };
        assert_eq!(mistake(endless), "path[0].traffic.size");
    }
}
