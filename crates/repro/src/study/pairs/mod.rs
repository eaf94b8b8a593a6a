//! Packet pairs and trains over chains of links with Pareto traffic on every link (wan 4.7).

mod capacities;
mod delays;
mod narrow_links;
mod prefixes;

use headway_sim::sweep::ChainLink;
use headway_sim::trains::Trains;
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{quantile, sorted};

/// Chains of loaded links, and what is sent over them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PacketPairs {
    /// Capacities of the links in Mb/s, for each path; only searches for the narrow link use more
    /// than the first path.
    paths: Vec<Vec<u64>>,
    /// Packet sizes of the cross traffic.
    sizes: Vec<Sizes>,
    /// Loads of every link in per cent.
    loads: Vec<u32>,
    /// Runs with different seeds.
    runs: Count,
    /// What is sent and estimated.
    view: View,
}

/// What is sent and estimated.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum View {
    /// Pairs, for the capacity of the path.
    Capacities(capacities::Capacities),
    /// Pairs, for their one-way delays; one run at the first load.
    Delays(delays::Delays),
    /// Trains with hidden packets, for the narrow link.
    NarrowLinks(narrow_links::NarrowLinks),
    /// Trains with hidden packets, for the capacities of the links before the narrow one.
    Prefixes(prefixes::Prefixes),
}

/// Packet sizes of the cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
enum Sizes {
    /// All of 1500 bytes.
    Fixed,
    /// Uniform between 40 and 1500 bytes.
    Random,
}

impl Sizes {
    /// Returns the name in tables and keys.
    fn name(self) -> &'static str {
        self.into()
    }
}

/// Size of probes and of the largest cross packet.
const PACKET: Bytes = Bytes::new(1_500);
/// Mean time between trains. It is not published; with 20 ms results are the same, and runs take
/// three times as long.
const APART: Duration = Duration::from_ms(6);
/// Time that queues have to fill before the first train.
const WARMUP: Instant = Instant::from_ns(100_000_000);
/// Length of a period of which part is silent.
const PERIOD: Duration = Duration::from_ms(200);

impl Study for PacketPairs {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        match &self.view {
            View::Capacities(view) => view.run(self, job),
            View::Delays(view) => view.run(self, job),
            View::NarrowLinks(view) => view.run(self, job),
            View::Prefixes(view) => view.run(self, job),
        }
    }
}

impl PacketPairs {
    /// Returns the links of the first path.
    fn links(&self) -> &[u64] {
        &self.paths[0]
    }

    /// Iterates over the kinds of cross traffic: packet sizes and load.
    fn traffics(&self) -> impl Iterator<Item = (Sizes, u32)> {
        self.sizes.iter().flat_map(|sizes| self.loads.iter().map(|load| (*sizes, *load)))
    }
}

/// Returns the relative error of an estimate; infinite if there is none.
fn error(estimate: f64, truth: f64) -> f64 {
    let error = (estimate / truth - 1.0).abs();
    if error.is_nan() { f64::INFINITY } else { error }
}

/// Returns the 10th, 50th and 90th percentile of estimates, without those that are NaN.
fn spread(estimates: impl Iterator<Item = f64>) -> [f64; 3] {
    let estimates = sorted(estimates.filter(|estimate| !estimate.is_nan()).collect());
    [0.1, 0.5, 0.9].map(|part| quantile(&estimates, part))
}

/// Returns links with these capacities in Mb/s, loaded to `load` per cent each by 16 Pareto sources, except
/// during `silent` per cent of the time.
fn chain(links: &[u64], load: u32, sizes: Sizes, silent: u32) -> Vec<ChainLink> {
    let link = |mbps: &u64| {
        let rate = Rate::from_bps(mbps * 1_000_000);
        let traffic = Traffic::Pareto {
            rate: rate.scale(f64::from(load) / 100.0),
            sources: 16,
            shape: 1.9,
            size: PACKET,
            least_size: (sizes == Sizes::Random).then_some(Bytes::new(40)),
            silence: PERIOD.scale(f64::from(silent) / 100.0),
            period: PERIOD,
        };
        // Propagation only shifts all delays; without it, probes meet the silence of all links at once.
        ChainLink { rate, delay: Duration::ZERO, buffer: None, cross: vec![traffic] }
    };
    links.iter().map(link).collect()
}

/// Returns trains with the timing of these studies.
fn trains(gaps: Vec<Duration>, hidden_links: u32, count: usize) -> Trains {
    Trains { start: WARMUP, apart: APART, ..Trains::of(PACKET, gaps, hidden_links, count) }
}

/// Returns pairs that leave at 1 Gb/s.
fn pairs(count: usize) -> Trains {
    trains(vec![Duration::from_us(12)], 0, count)
}

/// Returns the capacity of the narrow link.
fn narrow(links: &[u64]) -> Rate {
    Rate::from_bps(links.iter().min().copied().unwrap_or_default() * 1_000_000)
}
