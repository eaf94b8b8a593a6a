//! The constants of the default method, on drawn paths.

use anyhow::Context as _;
use headway_estimate::sensitivity;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::{Bytes, Rate};
use headway_worlds::available_memory;

use super::super::simulated::{Scored, drawn_path};
use super::compare::Outcome;
use super::study::{Constant, Study, Variant};

/// Classes of `accuracy simulated`: all kinds of traffic, queues, hosts and token buckets.
const CLASSES: [&str; 14] = [
    "constant-rate",
    "poisson",
    "batches",
    "narrow-then-tight",
    "equally-tight",
    "several-queues",
    "coalescing",
    "few-packets",
    "shallow-bursty",
    "jitter",
    "random-loss",
    "token-bucket",
    "policer",
    "load-steps",
];

/// Faster paths take longer to simulate.
const FASTEST: Rate = Rate::from_bps(100_000_000);

/// Most paths drawn of a class before one is slow enough.
const DRAWN: u32 = 100;

/// The groups of [`sensitivity::constants`] that measurements use.
const GROUPS: [&str; 4] = ["PACE", "EVIDENCE", "RESPONSE", "BELIEF"];

/// A path of each class.
pub(super) struct Paths {
    scenarios: Vec<Scenario>,
    memory: Bytes,
}

impl Paths {
    pub(super) fn new(seed: u32) -> anyhow::Result<Paths> {
        let slow = |class: &str| {
            let mut drawn = (seed..seed.saturating_add(DRAWN)).map(|seed| drawn_path(class, seed));
            let is_slow = |scenario: &Scenario| {
                scenario.link.iter().filter_map(|link| link.highest_rate()).all(|rate| rate <= FASTEST)
            };
            drawn
                .find(|scenario| scenario.as_ref().is_ok_and(is_slow))
                .with_context(|| format!("no path of class {class} is slow"))?
        };
        let scenarios = CLASSES.into_iter().map(slow).collect::<anyhow::Result<_>>()?;
        Ok(Paths { scenarios, memory: available_memory()? })
    }
}

/// The constants of some groups.
pub(super) fn constants(groups: &[&str]) -> impl Iterator<Item = &'static sensitivity::Constant> {
    sensitivity::constants().iter().filter(move |constant| groups.contains(&constant.group))
}

/// How the tables name them.
pub(super) fn named(groups: &[&str]) -> Vec<Constant> {
    let named = |constant: &sensitivity::Constant| Constant {
        name: format!("{}.{}", constant.group, constant.name),
        value: constant.value.to_owned(),
        unit: constant.unit.to_owned(),
    };
    constants(groups).map(named).collect()
}

/// Scales one of them, or none.
pub(super) fn choose(groups: &[&str], variant: Option<Variant>) {
    let chosen = variant.and_then(|variant| Some((constants(groups).nth(variant.constant)?, variant)));
    match chosen {
        Some((constant, variant)) => constant.scale(if variant.doubled { 2 } else { 0 }),
        None => sensitivity::restore(),
    }
}

impl Study for Paths {
    fn name(&self) -> &'static str {
        "Measurements by the default method"
    }

    fn columns(&self) -> [&'static str; 4] {
        ["error", "held", "MB", "s"]
    }

    fn legend(&self) -> &'static str {
        "error: of the answer, as a share of what is free, or of a quarter of the narrow link's capacity if that is more, \
         at most 100 %. held: intervals of 90 % that contain the truth. MB and s: what an answer cost."
    }

    fn constants(&self) -> Vec<Constant> {
        named(&GROUPS)
    }

    fn paths(&self) -> Vec<String> {
        CLASSES.map(str::to_owned).to_vec()
    }

    fn choose(&self, variant: Option<Variant>) {
        choose(&GROUPS, variant);
    }

    fn run(&self, path: usize, seed: u64, _: Option<Variant>) -> anyhow::Result<Outcome> {
        let scenario = &self.scenarios[path];
        let mut run = Run::new(scenario, seed, self.memory)?;
        while run.measured() == 0 && run.step()? {}
        let result =
            run.measurements().into_iter().next().context("the path was not measured in its time")?;
        let (cost, time) = (result.bytes as f64 / 1e6, (result.end_ns - result.begin_ns) as f64 / 1e9);
        let scored = Scored::of(result);
        // "At least" is wrong by what it says too much.
        let at_least = || scored.rate().map(|rate| (rate - scored.free()).max(0.0) / scored.scale());
        let error = scored.error().or_else(at_least).map_or(1.0, |error| error.abs().min(1.0));
        let right = f64::from(u8::from(scored.covered() == Some(true)));
        Ok(Outcome { error, right, cost, time })
    }
}
