//! Choices among parallel paths.

use headway_select::{Settings, Strategy};
use headway_traffic::Traffic;
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Rate, share};
use serde::Deserialize;

use crate::check::check_path;
use crate::model::Scenario;
use crate::route::Topology;
use crate::world::check_whole;

/// A choice among paths with cross traffic that moves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SelectSpec {
    /// The host that chooses.
    pub from: String,
    /// The host at the other end of all paths.
    pub to: String,
    /// The paths, two at least.
    pub path: Vec<SelectPath>,
    /// By what a path is chosen; default `transfer-time`.
    #[serde(default)]
    pub strategy: Strategy,
    /// The size of the transfers that matter, for `transfer-time`; default learned from own traffic.
    pub transfer: Option<Bytes>,
    /// The longest round-trip time of a path, for the strategy with such a floor; default 200 ms.
    pub latency_floor: Option<Duration>,
    /// A path replaces another if it is better by more than this share; default 10 %.
    #[serde(default = "tolerance", deserialize_with = "share::deserialize")]
    pub tolerance: f64,
    /// Time between decisions; default 10 s.
    pub interval: Option<Duration>,
    /// The most that measuring may send over a path within any hour; default 20 MB.
    pub max_bytes_per_hour: Option<Bytes>,
    /// The most that measuring may send over a path within any 30 days; default no limit.
    pub max_bytes_per_month: Option<Bytes>,
    /// Other ways to choose among the same paths, to compare with; default none.
    #[serde(default)]
    pub rivals: Vec<SelectRival>,
    /// The least and the most that cross traffic takes of the tight link of a path, as shares of its rate;
    /// default none to 95 %.
    #[serde(default = "load")]
    pub load: [f64; 2],
    /// The shortest and the longest time that cross traffic stays as it is; default 2 and 8 minutes.
    #[serde(default = "stays")]
    pub stays: [Duration; 2],
    /// The model of the cross traffic's packets; default `pareto`.
    #[serde(default)]
    pub cross: SelectCross,
}

/// One of the paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SelectPath {
    /// The name; default the nodes of `via`.
    pub name: Option<String>,
    /// Nodes to pass in this order.
    pub via: Vec<String>,
    /// When the path is down, each time from and to, in order; default never.
    #[serde(default)]
    pub down: Vec<[Duration; 2]>,
}

/// Another way to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum SelectRival {
    /// The lowest round-trip time.
    LowestPing,
    /// A GET of 1 MB every 3 minutes over each path.
    Get,
    /// A transfer of 3 s every 5 minutes over each path, as by iperf3.
    Iperf,
    /// The largest capacity.
    LargestCapacity,
    /// What is free at the time, known without asking.
    Oracle,
}

impl SelectRival {
    /// Returns the name in files and results.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// When packets of cross traffic come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectCross {
    /// With exponential gaps.
    Poisson,
    /// From 16 sources with Pareto-distributed gaps.
    #[default]
    Pareto,
    /// In batches of four on average.
    Batches,
}

impl SelectCross {
    /// Returns the traffic at a mean rate.
    pub fn traffic(self, rate: Rate) -> Traffic {
        /// A full packet on the wire.
        const SIZE: Bytes = Bytes::new(1_538);
        match self {
            SelectCross::Poisson => Traffic::Poisson { rate, size: SIZE },
            SelectCross::Batches => Traffic::Batches { rate, size: SIZE, batch: 4.0 },
            SelectCross::Pareto => Traffic::Pareto {
                rate,
                sources: 16,
                shape: 1.9,
                size: SIZE,
                least_size: None,
                silence: Duration::ZERO,
                period: Duration::ZERO,
            },
        }
    }
}

headway_units::defaults! {
    tolerance: f64 = Settings::default().tolerance;
    load: [f64; 2] = [0.0, 0.95];
    stays: [Duration; 2] = [Duration::from_ms(120_000), Duration::from_ms(480_000)];
}

impl SelectSpec {
    /// Returns what the selector needs to know.
    pub fn settings(&self) -> Settings {
        let usual = Settings::default();
        Settings {
            strategy: self.strategy,
            transfer: self.transfer,
            latency_floor: self.latency_floor.unwrap_or(usual.latency_floor),
            tolerance: self.tolerance,
            interval: self.interval.unwrap_or(usual.interval),
            max_bytes_per_hour: self.max_bytes_per_hour.unwrap_or(usual.max_bytes_per_hour),
            max_bytes_per_month: self.max_bytes_per_month,
            packet: usual.packet,
        }
    }

    /// Returns which links the packets of each path pass.
    ///
    /// # Errors
    /// Names the key of a path without a way back, a rate or a delay.
    pub fn routes(
        &self,
        index: usize,
        scenario: &Scenario,
        topology: &Topology,
    ) -> Result<Vec<SelectRoute>, ConfigError> {
        let route = |(number, path): (usize, &SelectPath)| {
            let key = format!("select[{index}].path[{number}].via");
            let wrong = |reason: String| ConfigError::new(&key, &reason);
            let (there, back) = self.hops(path, topology);
            let there = there.map_err(wrong)?;
            let back = back.map_err(|reason| wrong(format!("no way back: {reason}")))?;
            let link = |hop: &usize| &scenario.link[topology.directions()[*hop].link];
            let rated = there.iter().filter_map(|hop| Some((link(hop).lowest_rate()?, *hop)));
            let narrowest = rated.min_by_key(|(rate, _)| *rate);
            let (_, tight) = narrowest.ok_or_else(|| wrong("none of its links has a `rate`".to_owned()))?;
            let has_delay = there.iter().any(|hop| link(hop).delay > Duration::ZERO);
            check(&key, has_delay, "none of its links has a `delay`")?;
            Ok(SelectRoute { there, back, tight })
        };
        self.path.iter().enumerate().map(route).collect()
    }

    /// Returns the directions of links on a path there and back, or why there are none.
    fn hops(
        &self,
        path: &SelectPath,
        topology: &Topology,
    ) -> (Result<Vec<usize>, String>, Result<Vec<usize>, String>) {
        let back: Vec<String> = path.via.iter().rev().cloned().collect();
        (topology.route(&self.from, &self.to, &path.via), topology.route(&self.to, &self.from, &back))
    }
}

/// The links of a path, as directions of the [`Topology`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectRoute {
    /// From the host that chooses to the other, in order.
    pub there: Vec<usize>,
    /// Back, in order.
    pub back: Vec<usize>,
    /// The one with the lowest rate of those there, which has the cross traffic.
    pub tight: usize,
}

impl SelectPath {
    /// Returns the name, or what stands for it.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.via.join(" "))
    }
}

/// Checks all choices.
pub(crate) fn check_selects(topology: &Topology, scenario: &Scenario) -> Result<(), ConfigError> {
    let others = [
        ("flow", scenario.flow.is_empty()),
        ("traffic", scenario.traffic.is_empty()),
        ("measure", scenario.measure.is_empty()),
        ("program", scenario.program.is_empty()),
    ];
    if !scenario.select.is_empty() {
        check_whole(scenario)?;
    }
    for (index, select) in scenario.select.iter().enumerate() {
        let key = |key: &str| format!("select[{index}].{key}");
        for (other, is_absent) in others {
            let rule = format!("cannot be combined with [[{other}]]: its packets would not meet those");
            check(&format!("select[{index}].from"), is_absent, &rule)?;
        }
        check(&key("path"), (2..=64).contains(&select.path.len()), "needs 2 to 64 paths")?;
        for (number, path) in select.path.iter().enumerate() {
            let table = format!("select[{index}].path[{number}]");
            check_path(topology, &table, &select.from, &select.to, &path.via)?;
            let (there, back) = select.hops(path, topology);
            for hop in there.iter().chain(&back).flatten() {
                let link = topology.directions()[*hop].link;
                scenario.link[link].check_path(link)?;
            }
            let times: Vec<Duration> = path.down.iter().flatten().copied().collect();
            let rule = "must be times in ascending order";
            check(&format!("{table}.down"), times.windows(2).all(|pair| pair[0] < pair[1]), rule)?;
        }
        select.routes(index, scenario, topology)?;
        check(&key("tolerance"), (0.0..=1.0).contains(&select.tolerance), "must lie between 0 and 100 %")?;
        let interval = select.settings().interval;
        let rule = "must lie between 1 s and 1 h";
        check(&key("interval"), (1_000..=3_600_000).contains(&(interval.ns() / 1_000_000)), rule)?;
        let [least, most] = select.load;
        let rule = "must be two shares from 0 to 1, the first no larger than the second";
        check(&key("load"), 0.0 <= least && least <= most && most <= 1.0, rule)?;
        let [shortest, longest] = select.stays;
        let rule = "must be two times of at least 1 s, the first no longer than the second";
        check(&key("stays"), Duration::from_ms(1_000) <= shortest && shortest <= longest, rule)?;
    }
    Ok(())
}
