//! The constants of the default method, on drawn paths.

use anyhow::Context as _;
use headway_estimate::sensitivity;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;
use headway_worlds::available_memory;

use super::super::simulated::{Scored, drawn_path};
use super::compare::Outcome;
use super::study::{Constant, Study, Variant};

/// Rates of the links of a path, in Mb/s: faster ones take longer to simulate.
type Range = std::ops::RangeInclusive<f64>;
const SLOW: Range = 0.0..=100.0;
const FAST: Range = 100.0..=2_000.0;

/// Classes of `accuracy simulated`: all kinds of traffic, queues, hosts and token buckets.
const CLASSES: [(&str, Range); 32] = [
    ("constant-rate", SLOW),
    ("poisson", SLOW),
    ("batches", SLOW),
    ("narrow-then-tight", SLOW),
    ("equally-tight", SLOW),
    ("several-queues", SLOW),
    ("coalescing", SLOW),
    ("few-packets", SLOW),
    ("shallow-bursty", SLOW),
    ("jitter", SLOW),
    ("random-loss", SLOW),
    ("token-bucket", SLOW),
    ("policer", SLOW),
    ("load-steps", SLOW),
    ("tcp", SLOW),
    ("tcp-many-greedy", SLOW),
    ("tcp-several-links", SLOW),
    ("managed-queue", SLOW),
    ("bursts-in-step", SLOW),
    ("varying-rate", SLOW),
    ("stalls", SLOW),
    ("radio-jitter", SLOW),
    ("peak-rate", SLOW),
    ("packet-sizes", SLOW),
    ("reordering", SLOW),
    ("slow", SLOW),
    ("poisson", FAST),
    ("batches", FAST),
    ("several-queues", FAST),
    ("coalescing", FAST),
    ("jitter", FAST),
    ("token-bucket", FAST),
];

/// Most paths drawn of a class before one has rates of the range.
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
        let path = |(class, range): (&str, Range)| {
            let mut drawn = (seed..seed.saturating_add(DRAWN)).map(|seed| drawn_path(class, seed));
            let is_in = |scenario: &Scenario| {
                let mut rates = scenario.link.iter().filter_map(|link| link.highest_rate());
                rates.all(|rate| range.contains(&(rate.bps_f64() / 1e6)))
            };
            drawn
                .find(|scenario| scenario.as_ref().is_ok_and(is_in))
                .with_context(|| format!("no path of class {class} has {range:?} Mb/s"))?
        };
        let scenarios = CLASSES.into_iter().map(path).collect::<anyhow::Result<_>>()?;
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
        CLASSES
            .map(|(class, range)| if range == FAST { format!("{class}, fast") } else { class.to_owned() })
            .to_vec()
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
