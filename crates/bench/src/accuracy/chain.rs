//! Accuracy of `headway path` on emulated chains of seven links.

use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use headway_scenario::{LinkSpec, Scenario, TrafficSpec};
use headway_traffic::Traffic;
use headway_units::{Duration, Rate};
use serde::Serialize;

use super::cells::{self, Watch};
use headway_program::exit::Failed;
use headway_program::lines::PathLine;
use headway_runs::testbed::Testbed;
use headway_units::statistics::median;

/// Capacities of the reference path in Mb/s, a tenth of those of the paper; the narrow link is the fifth.
const REFERENCE: [f64; 7] = [50.0, 50.0, 40.0, 60.0, 30.0, 80.0, 60.0];
const REFERENCE_HOP: u8 = 5;

/// Other positions: the first link, the other links, and the narrow link in Mb/s.
const FIRST: f64 = 40.0;
const OTHER: f64 = 60.0;
const NARROW: f64 = 30.0;

/// Propagation delay of each link.
const DELAY: Duration = Duration::from_ms(2);

/// A capacity is right within this share.
const RIGHT: f64 = 0.02;

/// The runs of one chain.
#[derive(Debug, Serialize)]
struct CellRuns {
    narrow_hop: u8,
    load_percent: u32,
    runs: Vec<PathLine>,
    /// Runs that the machine disturbed.
    void_runs: u32,
    failures: Vec<String>,
}

/// Runs `headway path` on chains of seven links, one of them of 30 Mb/s, with Poisson traffic on every link.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  headway-bench accuracy chain --hops 1,3,5,7 --runs 12")]
pub(super) struct ChainArgs {
    /// Hops at which the narrow link is, 1 to 7.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "5",
        value_parser = clap::value_parser!(u8).range(1..=7),
        value_name = "HOP,..."
    )]
    hops: Vec<u8>,
    /// Valid runs of each chain.
    #[arg(long, default_value_t = 10, value_name = "N")]
    runs: u32,
    /// Cross traffic on each link as percent of its capacity.
    #[arg(long, value_delimiter = ',', default_value = "20", value_name = "PERCENT,...")]
    loads: Vec<u32>,
    /// Also write every run to this JSON file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &ChainArgs, json: bool) -> Result<(), Failed> {
    let plans: Vec<(u8, u32)> =
        args.hops.iter().flat_map(|hop| args.loads.iter().map(|load| (*hop, *load))).collect();
    let what = |(hop, load): &(u8, u32)| format!("narrow link at hop {hop}, {load} % load");
    let cells = cells::all(&plans, args.runs, what, cell)?;
    Ok(cells::print(&cells, json, args.output.as_deref(), &table(&cells), &[])?)
}

/// Returns the capacities of a chain with its narrow link at `hop`.
fn capacities(hop: u8) -> [f64; 7] {
    if hop == REFERENCE_HOP {
        return REFERENCE;
    }
    let mut links = [OTHER; 7];
    links[0] = FIRST;
    links[usize::from(hop) - 1] = NARROW;
    links
}

/// Returns the chain with Poisson cross traffic of `load` percent on each link.
fn network(hop: u8, load: u32, seed: u64) -> Scenario {
    let node = |number: usize| match number {
        0 => "client".to_owned(),
        7 => "server".to_owned(),
        number => format!("r{number}"),
    };
    let (mut links, mut traffic) = (Vec::new(), Vec::new());
    for (number, mbps) in capacities(hop).into_iter().enumerate() {
        let (from, to, rate) = (node(number), node(number + 1), Rate::from_mbps(mbps));
        links.push(LinkSpec::at(&from, &to, rate, DELAY));
        if load > 0 {
            let poisson = Traffic::poisson(rate.scale(f64::from(load) / 100.0));
            traffic.push(TrafficSpec::new(&from, &to, poisson));
        }
    }
    Scenario { traffic, seed, ..Scenario::of(links) }
}

fn cell((hop, load): &(u8, u32), index: u64, watch: &Watch) -> anyhow::Result<CellRuns> {
    let testbed = Testbed::new(super::headway()?, &network(*hop, *load, index + 1), "chain")?;
    let once = |()| {
        let (line, disturbed) = testbed.path()?;
        Ok(Some(line).filter(|_| !disturbed))
    };
    let (runs, void_runs, failures) = watch.repeat(|_| Ok(()), once)?;
    Ok(CellRuns { narrow_hop: *hop, load_percent: *load, runs, void_runs, failures })
}

impl CellRuns {
    /// Returns the number of valid runs.
    fn done(&self) -> usize {
        self.runs.len() + self.failures.len()
    }

    fn count(&self, wanted: impl Fn(&PathLine) -> bool) -> usize {
        self.runs.iter().filter(|run| wanted(run)).count()
    }

    fn largest(&self, value: impl Fn(&PathLine) -> f64) -> f64 {
        self.runs.iter().map(value).fold(f64::NAN, f64::max)
    }

    fn median_of(&self, value: impl Fn(&PathLine) -> f64) -> f64 {
        median(self.runs.iter().map(value).collect()).unwrap_or(f64::NAN)
    }
}

fn table(cells: &[CellRuns]) -> Table {
    let header = [
        "narrow hop",
        "load",
        "runs",
        "right",
        "wrong",
        "no answer",
        "capacity within 2 %",
        "capacity, median",
        "MB, most",
        "s, most",
        "void",
    ];
    let truth = NARROW * 1e6;
    let row = |cell: &CellRuns| {
        let hop = Some(u32::from(cell.narrow_hop));
        let near =
            |run: &PathLine| run.capacity_bps.is_some_and(|bps| (bps as f64 / truth - 1.0).abs() <= RIGHT);
        let capacity = cell.median_of(|run| run.capacity_bps.map_or(0.0, |bps| bps as f64 / 1e6));
        vec![
            cell.narrow_hop.to_string(),
            format!("{} %", cell.load_percent),
            cell.done().to_string(),
            cell.count(|run| run.narrow_hop == hop).to_string(),
            cell.count(|run| run.narrow_hop.is_some() && run.narrow_hop != hop).to_string(),
            (cell.count(|run| run.narrow_hop.is_none()) + cell.failures.len()).to_string(),
            cell.count(near).to_string(),
            format!("{capacity:.2}"),
            format!("{:.2}", cell.largest(|run| run.probe_bytes as f64 / 1e6)),
            format!("{:.1}", cell.largest(|run| run.duration_ms / 1e3)),
            cell.void_runs.to_string(),
        ]
    };
    cells::table(header, cells.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chain_has_its_narrow_link_where_it_says() {
        for hop in 1..=7u8 {
            let links = capacities(hop);
            assert!(links.iter().all(|mbps| *mbps >= NARROW));
            let narrow: Vec<usize> = (1..=7).filter(|link| links[link - 1] == NARROW).collect();
            assert_eq!(narrow, [usize::from(hop)]);
            let loaded = network(hop, 20, 1).checked().unwrap();
            assert!(headway_lab::check_network(&loaded).is_ok_and(|warnings| warnings.is_empty()));
            assert_eq!((loaded.traffic.len(), network(hop, 0, 1).traffic.len()), (7, 0));
        }
    }
}
