//! TCP flows over the 10 Gb/s bottleneck of the thesis on Rapid, with cross traffic (rapid 4.0).

mod scenario;
mod statistics;
mod tracking;

use std::path::Path;

use headway_record::{Results, Summary};
use headway_scenario::{FlowController, Scenario};
use headway_units::{Bytes, Duration, Rate};
use headway_worlds::{Options, World};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::context::{Context, Error};
use crate::kept::Key;

pub(crate) use statistics::{Statistics, Web, statistics};
pub(crate) use tracking::{Tracking, tracking};

/// Rate of the bottleneck, and of the hosts' NICs.
pub(crate) const CAPACITY: Rate = Rate::from_bps(10_000_000_000);
/// IP bytes of the test flow's packets.
pub(crate) const MTU: u32 = 9000;
/// Index of the bottleneck among the links of the scenario.
pub(crate) const BOTTLENECK: usize = 0;

/// Attempts of a run in real time before the machine counts as too busy.
const TRIES: usize = 3;

/// Returns the segments per ACK. Senders with a congestion header are acknowledged at once: they send segments one by
/// one, and the RTTs that routers hear of would include the delay of ACKs.
pub(crate) const fn segments_per_ack(is_explicit: bool) -> u32 {
    if is_explicit { 1 } else { 2 }
}

/// The traffic that shares the bottleneck with the test flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cross {
    /// None.
    Idle,
    /// Nine constant-rate senders, 2.47 Gb/s on average.
    Cbr,
    /// Smooth replayed web traffic, 2.49 Gb/s on average.
    Sct,
    /// Bursty replayed web traffic, 2.51 Gb/s on average.
    Bct,
    /// Web traffic that responds to losses and delays: 90 000 sessions, 2.4 Gb/s on average.
    Web,
}

impl Cross {
    /// Returns the name in experiment files and in the names of measures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Cross::Idle => "idle",
            Cross::Cbr => "cbr",
            Cross::Sct => "sct",
            Cross::Bct => "bct",
            Cross::Web => "web",
        }
    }

    /// Returns the traffic model of a scenario; `None` for none and for web traffic, which is made of TCP flows.
    const fn model(self) -> Option<&'static str> {
        match self {
            Cross::Idle | Cross::Web => None,
            Cross::Cbr => Some("cbr-profile"),
            Cross::Sct => Some("sct"),
            Cross::Bct => Some("bct"),
        }
    }
}

/// A test flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow<'a> {
    pub(crate) controller: &'a FlowController,
    /// Further keys of the flow, as lines of a scenario file.
    pub(crate) keys: &'a str,
    pub(crate) start: Duration,
    /// End; `None` for that of the run.
    pub(crate) stop: Option<Duration>,
}

/// The network and the flows of one run.
#[derive(Clone, Debug)]
pub(crate) struct Setup<'a> {
    /// The test flows, each with hosts of its own.
    pub(crate) flows: Vec<Flow<'a>>,
    pub(crate) cross: Cross,
    /// RTT without queueing.
    pub(crate) rtt: Duration,
    /// Ratio of independent losses behind the bottleneck.
    pub(crate) loss: f64,
    /// Buffer of the bottleneck.
    pub(crate) buffer: Bytes,
    /// Time before the measured time.
    pub(crate) warmup: Duration,
    /// Measured time.
    pub(crate) measured: Duration,
    /// Interval of the time series.
    pub(crate) interval: Duration,
}

/// Where the runs of a study take place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) world: World,
    pub(crate) options: &'a Options<'a>,
}

impl Place<'_> {
    /// Runs a setup and evaluates the results, as [`Place::run_scenario`].
    pub(crate) fn run<R: Serialize + DeserializeOwned>(
        &self,
        setup: &Setup<'_>,
        name: &str,
        seed: u64,
        context: &Context<'_>,
        evaluate: impl Fn(&Results) -> R,
    ) -> Result<R, Error> {
        self.run_scenario(setup.scenario(self.world), name, seed, context, evaluate)
    }

    /// Runs a scenario and evaluates the results, or returns the kept evaluation of an earlier run. `name` describes
    /// the run and names its file.
    pub(crate) fn run_scenario<R: Serialize + DeserializeOwned>(
        &self,
        scenario: String,
        name: &str,
        seed: u64,
        context: &Context<'_>,
        evaluate: impl Fn(&Results) -> R,
    ) -> Result<R, Error> {
        let key = Key { world: self.world.name().to_owned(), scenario, seed };
        let file = format!("{}/{name}.json", self.world);
        if let Some(result) = context.kept.and_then(|kept| kept.get(&file, &key)) {
            return Ok(result);
        }
        let result = evaluate(&self.results(&key.scenario, name, seed)?);
        if let Some(kept) = context.kept {
            kept.put(&file, &key, &result)?;
        }
        Ok(result)
    }

    /// Runs a scenario to its end and returns the results; runs that the machine disturbed are repeated. `name`
    /// describes the run.
    pub(crate) fn results(&self, scenario: &str, name: &str, seed: u64) -> Result<Results, Error> {
        let failed = |source| Error::World { run: name.to_owned(), source };
        let scenario = Scenario::parse(scenario, Path::new("experiment.toml"), &[]);
        let mut scenario = scenario.map_err(|error| failed(error.into()))?;
        scenario.name = name.replace('/', " ");
        scenario.seed = seed;
        for _ in 0..TRIES {
            match headway_worlds::run(&scenario, self.world, self.options) {
                Ok(Results { summary: Summary { partial: true, .. }, .. }) => return Err(Error::Interrupted),
                Ok(results) if results.summary.valid => return Ok(results),
                Ok(_) => {}
                // A failure caused by an interruption is not an error of the run.
                Err(_) if self.options.cancellation.is_cancelled() => return Err(Error::Interrupted),
                Err(source) => return Err(failed(source)),
            }
        }
        Err(Error::Disturbed { run: name.to_owned() })
    }

    /// Whether a controller exists in this world.
    pub(crate) fn has(&self, controller: &FlowController) -> bool {
        match controller.known() {
            Some(kind) => self.world == World::Sim || kind.is_on_linux(),
            None => self.world != World::Sim,
        }
    }
}
