//! Errors of capacities from packet pairs, over load and number of pairs (wan E10, E21, E22).

use headway_estimate::ppdd::{Pairs, Settings, first_mode_above};
use headway_figures::{Curve, Figure, Panel};
use headway_sim::sweep::ChainLink;
use headway_units::{Duration, Rate};
use serde::Deserialize;

use super::{PACKET, Sizes, chain, error, narrow, pairs, spread, trains};
use crate::context::Error;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{mean, percent};

fn never() -> Vec<u32> {
    vec![0]
}

/// Numbers of pairs whose estimates are compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capacities {
    /// Numbers of pairs.
    pairs: Vec<usize>,
    /// Shares of time in which no link has cross traffic, in per cent; at the start of every 200 ms.
    #[serde(default = "never")]
    silent: Vec<u32>,
}

/// The estimators in the order of the columns. The first weighs pairs by delay, the next two are the filter
/// of the thesis with delays at or below, and strictly below the quantiles; the fourth is what
/// `headway path` uses.
const ESTIMATORS: [&str; 7] = ["ppdd", "quantiles", "literal", "mddif", "mode", "capprobe", "pathrate"];
/// Position of the raw mode.
const MODE: usize = 4;
/// Trains, and gaps per train, that show the asymptotic dispersion rate.
const DISPERSION: (usize, usize) = (20, 47);

/// One combination of traffic and effort, run with several seeds.
struct Cell {
    sizes: Sizes,
    silent: u32,
    load: u32,
    pairs: usize,
}

/// Returns the name of a kind of traffic in tables and keys.
fn traffic(sizes: Sizes, silent: u32) -> String {
    if silent == 0 { sizes.name().to_owned() } else { format!("{}-silent-{silent}", sizes.name()) }
}

/// The estimates of one run in Mb/s, NaN for none; the confidence of the first one; and the
/// share of clean pairs.
struct Run {
    estimates: [f64; ESTIMATORS.len()],
    confidence: f64,
    clean: f64,
}

impl Capacities {
    pub(super) fn run(&self, study: &super::PacketPairs, job: &Job<'_>) -> Result<Findings, Error> {
        let mut cells = Vec::new();
        for (sizes, silent) in self.kinds(study) {
            for &load in &study.loads {
                cells.extend(self.pairs.iter().map(|&pairs| Cell { sizes, silent, load, pairs }));
            }
        }
        let done = job.each_run(&cells, job.of(study.runs), |cell, run| {
            let chain = chain(study.links(), cell.load, cell.sizes, cell.silent);
            Ok(estimate(&chain, cell.pairs, job.seed(run)))
        })?;
        let mut findings = findings(narrow(study.links()).mbps(), &cells, &done);
        let kinds = self.kinds(study);
        findings.figure = Figure::curves(kinds.flat_map(|kind| self.panels(&study.loads, kind, &findings)));
        Ok(findings)
    }

    /// Iterates over the kinds of traffic: packet sizes and share of silent time.
    fn kinds(&self, study: &super::PacketPairs) -> impl Iterator<Item = (Sizes, u32)> {
        study.sizes.iter().flat_map(|sizes| self.silent.iter().map(|silent| (*sizes, *silent)))
    }

    /// One panel for each number of pairs: the share of good estimates over the load.
    fn panels(&self, loads: &[u32], (sizes, silent): (Sizes, u32), findings: &Findings) -> Vec<Panel> {
        let traffic = traffic(sizes, silent);
        let panel = |pairs: &usize| {
            let title = format!("{traffic} packet sizes, {pairs} pairs");
            let panel = Panel::new(&title, "load of every link, %", "estimates within 6 %, %");
            ESTIMATORS.iter().fold(panel.with_y_range(0.0, 100.0), |panel, name| {
                let point = |load: &u32| {
                    let key = format!("{name}/{traffic}/{load}/{pairs}/within-6");
                    (f64::from(*load), findings.measures.get(&key).copied().unwrap_or(f64::NAN))
                };
                panel.with(Curve::line(name, loads.iter().map(point).collect()))
            })
        };
        self.pairs.iter().map(panel).collect()
    }
}

fn estimate(chain: &[ChainLink], count: usize, seed: u64) -> Run {
    let sent = pairs(count).send(chain, seed);
    let with = |settings: Settings| {
        let mut pairs = Pairs::new(PACKET, settings);
        pairs.add_stream(&sent.record);
        pairs
    };
    let default = with(Settings::default());
    let capacity = default.capacity();
    let others = [Settings::quantiles(), Settings::literal(), Settings::lowest_delays()]
        .map(|settings| with(settings).capacity().ok().map(|capacity| capacity.rate));
    let pathrate = first_mode_above(&default.modes(), dispersion_rate(chain, seed));
    let rates = [
        capacity.map(|capacity| capacity.rate).ok(),
        others[0],
        others[1],
        others[2],
        default.raw_mode(),
        default.capprobe(),
        pathrate,
    ];
    Run {
        estimates: rates.map(|rate| rate.map_or(f64::NAN, Rate::mbps)),
        confidence: capacity.map_or(0.0, |capacity| capacity.confidence),
        clean: 100.0 * sent.clean as f64 / count as f64,
    }
}

/// Returns the mean rate at which long trains arrive.
fn dispersion_rate(chain: &[ChainLink], seed: u64) -> Rate {
    let (count, gaps) = DISPERSION;
    let links = chain.len() as u32;
    let spaced = vec![Duration::from_us(12); gaps];
    let sent = trains(spaced, links, count).send(chain, seed);
    let mut whole = Pairs::of_trains(PACKET, gaps as u32 - 1, Settings::default());
    whole.add_stream(&sent.record);
    let rates: Vec<f64> = whole
        .triplets()
        .iter()
        .filter_map(|train| Rate::of(PACKET * gaps as u64, train.dispersion))
        .map(Rate::bps_f64)
        .collect();
    Rate::from_bps_f64(mean(&rates))
}

fn findings(truth: f64, cells: &[Cell], done: &[Vec<Run>]) -> Findings {
    let columns =
        "traffic,load %,pairs,estimator,within 1 %,within 6 %,p10 Mb/s,median Mb/s,p90 Mb/s,clean %";
    let mut findings = Findings::with_table(columns);
    for (cell, runs) in cells.iter().zip(done) {
        let traffic = traffic(cell.sizes, cell.silent);
        let key = format!("{traffic}/{}/{}", cell.load, cell.pairs);
        let error = |run: &Run, estimator: usize| error(run.estimates[estimator], truth);
        let clean = mean(&runs.iter().map(|run| run.clean).collect::<Vec<_>>());
        findings.measures.insert(format!("clean/{key}"), clean);
        let sure = mean(&runs.iter().map(|run| run.confidence).collect::<Vec<_>>());
        findings.measures.insert(format!("ppdd/{key}/confidence"), 100.0 * sure);
        for (index, name) in ESTIMATORS.iter().enumerate() {
            let errors: Vec<f64> = runs.iter().map(|run| error(run, index)).collect();
            let within = |most: f64| percent(&errors, |error| error <= most);
            let better = runs.iter().filter(|run| error(run, index) < error(run, MODE)).count();
            let [low, median, high] = spread(runs.iter().map(|run| run.estimates[index]));
            let numbers = [
                ("within-1", within(0.01)),
                ("within-6", within(0.06)),
                ("better-than-mode", 100.0 * better as f64 / runs.len() as f64),
                ("median", median),
            ];
            findings.add(&format!("{name}/{key}"), numbers);
            let numbers = [within(0.01), within(0.06)].map(|value| format!("{value:.0}"));
            let rates = [low, median, high].map(|value| format!("{value:.2}"));
            let mut row =
                vec![traffic.clone(), cell.load.to_string(), cell.pairs.to_string(), (*name).to_owned()];
            row.extend(numbers.into_iter().chain(rates).chain([format!("{clean:.2}")]));
            findings.table.rows.push(row);
        }
    }
    findings.remarks.push("`ppdd` weighs pairs by their delays; `quantiles` is the filter of the thesis with delays at or below the quantiles, `literal` strictly below, as printed; `mddif` is the mode next to the capacity that the lowest delays of first and second packets imply. `clean` counts pairs that met no other packet on any link, which only the simulator knows.".to_owned());
    findings
}
