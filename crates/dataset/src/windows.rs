//! Windows of samples of TCP transfers through a dumbbell (wan F44).

use headway_control::Kind;
use headway_estimate::sabes::{Estimate, Form, Path, Segment, Settings, Transfer, Windows};
use headway_traffic::random;
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Instant, Rate};
use rand::RngExt as _;
use serde::Deserialize;

use crate::Part;
use crate::dumbbell::{Dumbbell, Flow, Pattern, Ran, Truth};

/// When the first flow starts, and the time between the starts of flows.
const START: Instant = Instant::from_ns(1_000_000_000);
const STAGGER: Duration = Duration::from_ms(10);
/// A window is good if its mean differs from the truth by less than this share of the capacity (wan 2.11).
pub const GOOD: f64 = 0.1;

/// Which transfers to observe, and over which paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// From it follow the seeds of all runs.
    #[serde(default = "one")]
    pub seed: u64,
    /// How samples are divided.
    pub windows: Division,
    /// Of so many sliding windows one is kept: neighbours differ by one sample.
    #[serde(default = "one")]
    pub keep_every: u64,
    /// The paths.
    pub path: Vec<PathPlan>,
}

/// How samples are divided into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", untagged)]
pub enum Division {
    /// One window for every ACK (wan 2.10).
    Sliding(Sliding),
    /// Windows of this length that never overlap (wan 2.12).
    Tumbling {
        /// Their length.
        tumbling: Duration,
    },
}

/// The word for sliding windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sliding {
    /// One window for every ACK.
    Sliding,
}

/// Paths that differ in RTT and cross traffic.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PathPlan {
    /// Rate of the bottleneck.
    pub capacity: Rate,
    /// RTTs without queues, one at a time.
    pub rtts: Vec<Duration>,
    /// Mean cross traffic as shares of the capacity, one at a time.
    pub loads: Vec<f64>,
    /// What cross traffic is like.
    #[serde(default)]
    pub pattern: Pattern,
    /// Sources that make up the cross traffic.
    pub sources: u32,
    /// Packets that the queue of the bottleneck holds.
    #[serde(default = "usual_queue")]
    pub queue: u64,
    /// The congestion controller of the TCP flows.
    #[serde(default = "usual_controller")]
    pub controller: Kind,
    /// TCP flows.
    pub flows: u32,
    /// Payload of each flow.
    pub size: Bytes,
    /// The end of a run, at the latest.
    pub end: Duration,
    /// Runs with each RTT and load.
    pub runs: u32,
    /// How many of them are tests.
    #[serde(default)]
    pub test_runs: u32,
}

const fn one() -> u64 {
    1
}

/// Of wan 4.5.
const fn usual_queue() -> u64 {
    300
}

/// Of wan 4.5.
const fn usual_controller() -> Kind {
    Kind::Reno
}

/// One run: a path and its seed.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    plan: &'a Plan,
    /// The path.
    pub path: &'a PathPlan,
    /// RTT without queues.
    pub rtt: Duration,
    /// Mean cross traffic as a share of the capacity.
    pub load: f64,
    /// Number of the run among all, which its seed follows from.
    pub number: u32,
    /// What it is for.
    pub part: Part,
}

/// What one run shows.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The windows that have enough samples.
    pub windows: Vec<Window>,
    /// Number of all windows, with those that have too few.
    pub all: u64,
}

/// A window of one flow, and the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Number of the flow.
    pub flow: u32,
    /// The end of the window.
    pub at: Instant,
    /// Its length.
    pub length: Duration,
    /// The capacity of the narrow link, as found from all flows.
    pub capacity: Rate,
    /// The rates of its samples in bits per second, ascending.
    pub samples: Vec<f32>,
    /// The same without outliers.
    pub rates: Vec<f32>,
    /// Whether it passes the published rules.
    pub passed: bool,
    /// The available bandwidth in this time.
    pub available: Rate,
}

impl Window {
    /// Returns the mean of the samples, which the published rules answer.
    pub fn mean(&self) -> Rate {
        let sum: f64 = self.rates.iter().map(|rate| f64::from(*rate)).sum();
        Rate::from_bps_f64(sum / self.rates.len() as f64)
    }

    /// Whether the mean is close to the truth; `bottleneck` is the true capacity (wan 2.11).
    pub fn is_good(&self, bottleneck: Rate) -> bool {
        (self.mean().bps_f64() - self.available.bps_f64()).abs() < GOOD * bottleneck.bps_f64()
    }
}

impl Plan {
    /// Checks what the types do not say.
    ///
    /// # Errors
    /// Names the key that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        check("keep-every", self.keep_every > 0, "must be above 0")?;
        if let Division::Tumbling { tumbling } = self.windows {
            let second = Duration::from_ms(1_000);
            check(
                "windows",
                Duration::ZERO < tumbling && tumbling <= second,
                "must be above 0 and at most 1 s",
            )?;
            check("keep-every", self.keep_every == 1, "is for sliding windows")?;
        }
        check("path", !self.path.is_empty(), "there must be one at least")?;
        self.path.iter().enumerate().try_for_each(|(index, path)| path.check(index))
    }

    /// Returns all runs.
    pub fn runs(&self) -> Vec<Run<'_>> {
        let mut runs = Vec::new();
        for path in &self.path {
            for rtt in &path.rtts {
                for load in &path.loads {
                    for index in 0..path.runs {
                        let part = Part::of(index, path.runs, path.test_runs);
                        let number = runs.len() as u32;
                        runs.push(Run { plan: self, path, rtt: *rtt, load: *load, number, part });
                    }
                }
            }
        }
        runs
    }

    /// Returns the windows as settings name them.
    pub fn division(&self) -> Windows {
        match self.windows {
            Division::Sliding(_) => Windows::Sliding,
            Division::Tumbling { tumbling } => Windows::Tumbling(tumbling),
        }
    }
}

impl PathPlan {
    fn check(&self, index: usize) -> Result<(), ConfigError> {
        let key = |name: &str| format!("path[{index}].{name}");
        let positive = |name: &str, value: u64| check(&key(name), value > 0, "must be above 0");
        positive("capacity", self.capacity.bps())?;
        positive("rtts", self.rtts.len() as u64)?;
        positive("loads", self.loads.len() as u64)?;
        positive("sources", self.sources.into())?;
        positive("queue", self.queue)?;
        positive("flows", self.flows.into())?;
        positive("size", self.size.get())?;
        positive("runs", self.runs.into())?;
        check(&key("test-runs"), self.test_runs <= self.runs, "must be at most `runs`")?;
        let times = self.rtts.iter().chain([&self.end]).all(|time| *time > Duration::ZERO);
        check(&key("rtts"), times, "RTTs and `end` must be above 0")?;
        let loads = self.loads.iter().all(|load| (0.0..1.0).contains(load));
        check(&key("loads"), loads, "must be 0 to below 1")
    }
}

impl Run<'_> {
    /// Runs the flows, and returns the windows that a tap at their sender saw.
    pub fn observe(&self) -> Observed {
        let watched = self.watch();
        self.windows(&watched)
    }

    /// Runs the flows; returns what a tap at their sender saw, and the truth.
    pub fn watch(&self) -> Watched {
        let Ran { seen, truth, .. } = self.dumbbell().run(self.seed());
        Watched::new(seen.into_iter().map(|taps| taps.into_iter().flatten().collect()), truth)
    }

    /// Returns the seed of the run.
    pub fn seed(&self) -> u64 {
        random::generator(self.plan.seed, "run", u64::from(self.number)).random()
    }

    /// Returns the dumbbell of the run.
    pub fn dumbbell(&self) -> Dumbbell {
        let flow = |index: u32| Flow {
            controller: self.path.controller,
            start: START + STAGGER * i64::from(index),
            size: Some(self.path.size),
            ..Flow::default()
        };
        Dumbbell {
            capacity: self.path.capacity,
            rtt: self.rtt,
            queue: self.path.queue,
            load: self.load,
            pattern: self.path.pattern,
            sources: self.path.sources,
            flows: (0..self.path.flows).map(flow).collect(),
            coalescing: None,
            probing: None,
            end: Instant::ZERO + self.path.end,
        }
    }

    /// Returns the windows of the plan.
    pub fn windows(&self, watched: &Watched) -> Observed {
        let settings = Settings { form: Form::Literal, windows: self.plan.division(), ..Settings::default() };
        let mut transfers = vec![Transfer::new(&settings); watched.flows];
        transfers.iter_mut().for_each(|transfer| transfer.share_capacity(watched.capacity()));
        let mut windows = Vec::new();
        let mut all = 0;
        for (flow, segment) in &watched.segments {
            let transfer = &mut transfers[*flow];
            let before = transfer.windows().total();
            transfer.observe(segment);
            if transfer.windows().total() == before {
                continue;
            }
            all += 1;
            if all % self.plan.keep_every != 0 {
                continue;
            }
            let Some(judged) = transfer.judgement() else { continue };
            windows.push(Window {
                flow: *flow as u32,
                at: judged.at,
                length: judged.window,
                capacity: judged.capacity,
                samples: judged.samples.to_vec(),
                rates: judged.rates.to_vec(),
                passed: judged.passed,
                available: watched.truth.between(judged.at - judged.window, judged.at),
            });
        }
        Observed { windows, all: all / self.plan.keep_every }
    }
}

/// What a tap saw of all flows in a run.
#[derive(Clone, Debug)]
pub struct Watched {
    segments: Vec<(usize, Segment)>,
    flows: usize,
    truth: Truth,
}

impl Watched {
    /// Joins what a tap saw of each flow.
    pub fn new(seen: impl IntoIterator<Item = Vec<Segment>>, truth: Truth) -> Watched {
        let mut segments: Vec<(usize, Segment)> = Vec::new();
        let mut flows = 0;
        for (flow, seen) in seen.into_iter().enumerate() {
            segments.extend(seen.into_iter().map(|segment| (flow, segment)));
            flows = flow + 1;
        }
        segments.sort_by_key(|(_, segment)| segment.at);
        Watched { segments, flows, truth }
    }

    /// Returns the segments of all flows, with their numbers, in the order of time.
    pub fn segments(&self) -> &[(usize, Segment)] {
        &self.segments
    }

    /// Returns the number of flows.
    pub fn flows(&self) -> usize {
        self.flows
    }

    /// Returns the available bandwidth during the window of an estimate.
    pub fn truth(&self, estimate: &Estimate) -> Rate {
        self.truth_between(estimate.at - estimate.window, estimate.at)
    }

    /// Returns the available bandwidth between two moments.
    pub fn truth_between(&self, from: Instant, to: Instant) -> Rate {
        self.truth.between(from, to)
    }

    /// Returns the capacity of the tight link.
    pub fn capacity(&self) -> Rate {
        self.truth.capacity
    }

    /// Returns the capacity that all flows together show by the guarded rules.
    pub fn narrow_link(&self) -> Option<Rate> {
        let (_, path) = self.guarded_path(&Settings::default());
        path.narrow_link().map(|found| found.rate)
    }

    /// Returns what the guarded rules say of the path, from the only flow or from all together, and the
    /// number of all windows.
    pub fn guarded(&self, windows: Windows) -> (Vec<Estimate>, u64) {
        let settings = Settings { windows, ..Settings::default() };
        if self.flows == 1 {
            return self.guarded_flow(&settings);
        }
        let (estimates, path) = self.guarded_path(&settings);
        (estimates, path.windows().total())
    }

    fn guarded_flow(&self, settings: &Settings) -> (Vec<Estimate>, u64) {
        let mut transfer = Transfer::new(settings);
        let estimates = self.segments.iter().filter_map(|(_, segment)| transfer.observe(segment)).collect();
        (estimates, transfer.windows().total())
    }

    fn guarded_path(&self, settings: &Settings) -> (Vec<Estimate>, Path) {
        let mut transfers = vec![Transfer::new(settings); self.flows];
        let mut path = Path::new(settings);
        let mut estimates = Vec::new();
        for (flow, segment) in &self.segments {
            let transfer = &mut transfers[*flow];
            transfer.observe(segment);
            let Some(passed) = transfer.passed() else { continue };
            path.learn(transfer.capacity(), transfer.rtt());
            estimates.extend(path.observe(&passed));
        }
        (estimates, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(windows: Division) -> Plan {
        let path = PathPlan {
            capacity: Rate::from_mbps(100.0),
            rtts: vec![Duration::from_ms(20)],
            loads: vec![0.5],
            pattern: Pattern::OnOff,
            sources: 30,
            queue: usual_queue(),
            controller: usual_controller(),
            flows: 10,
            size: Bytes::new(2_000_000),
            end: Duration::from_ms(60_000),
            runs: 2,
            test_runs: 1,
        };
        Plan { seed: 1, windows, keep_every: 1, path: vec![path] }
    }

    #[test]
    fn windows_have_the_truth_of_their_own_time() {
        let plan = plan(Division::Sliding(Sliding::Sliding));
        let observed = plan.runs()[0].observe();
        assert!(observed.windows.len() > 1_000 && observed.all >= observed.windows.len() as u64);
        for window in &observed.windows {
            assert!(window.available <= Rate::from_mbps(100.0) && window.rates.len() >= 4);
            let away = (window.mean().mbps() - window.available.mbps()).abs();
            assert_eq!(window.is_good(Rate::from_mbps(100.0)), away < 10.0);
        }
        assert!(observed.windows.iter().any(|window| window.passed));
    }

    #[test]
    fn windows_that_do_not_overlap_are_a_tenth_of_those_that_slide() {
        let count = |windows| plan(windows).runs()[0].observe().windows.len();
        let sliding = count(Division::Sliding(Sliding::Sliding));
        let tumbling = count(Division::Tumbling { tumbling: Duration::from_ms(200) });
        assert!(tumbling * 10 < sliding, "{tumbling} of {sliding}");
    }

    #[test]
    fn one_of_so_many_sliding_windows_is_kept() {
        let all = plan(Division::Sliding(Sliding::Sliding));
        let some = Plan { keep_every: 10, ..all.clone() };
        let (all, some) = (all.runs()[0].observe(), some.runs()[0].observe());
        assert_eq!(some.all, all.all / 10);
        assert!(some.windows.iter().all(|window| all.windows.contains(window)));
    }
}
