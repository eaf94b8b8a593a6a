//! Capacities of the links before the narrow one, from trains with hidden packets (wan E25).

use headway_estimate::StreamRecord;
use headway_estimate::hire::{prefix_capacity, train};
use headway_estimate::ppdd::{Pairs, Settings};
use headway_figures::{Curve, Figure, Panel};
use headway_units::Rate;
use serde::Deserialize;

use super::{PACKET, Sizes, chain, error, narrow, spread, trains};
use crate::context::Error;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{largest, mean};

/// Trains with hidden packets that cross the first links of a path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefixes {
    /// Numbers of links that hidden packets cross.
    prefixes: Vec<u32>,
    /// Hidden packets per train.
    hidden: u32,
    /// Trains per prefix.
    trains: usize,
}

/// The estimators in the order of the columns.
const ESTIMATORS: [&str; 4] = ["ppdd", "quantiles", "mode", "mean"];

impl Prefixes {
    pub(super) fn run(&self, study: &super::PacketPairs, job: &Job<'_>) -> Result<Findings, Error> {
        let traffics = study.traffics();
        let cells: Vec<(Sizes, u32, u32)> = traffics
            .flat_map(|(sizes, load)| self.prefixes.iter().map(move |prefix| (sizes, load, *prefix)))
            .collect();
        let narrow = narrow(study.links());
        let done = job.each_run(&cells, job.of(study.runs), |&(sizes, load, prefix), run| {
            let gaps = train(PACKET, narrow, self.hidden).gaps;
            let chain = chain(study.links(), load, sizes, 0);
            let sent = trains(gaps, prefix, self.trains).send(&chain, job.seed(run));
            Ok(estimates(&sent.record, self.hidden, narrow))
        })?;
        let mut findings =
            Findings::with_table("sizes,hops,estimator,p10 Mb/s,median Mb/s,p90 Mb/s,largest error %");
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); ESTIMATORS.len()];
        for (&(sizes, _, prefix), runs) in cells.iter().zip(&done) {
            let truth = study.links()[..prefix as usize].iter().min().copied().unwrap_or_default() as f64;
            for (index, name) in ESTIMATORS.iter().enumerate() {
                let estimates = || runs.iter().map(|run| run[index]);
                let error = 100.0 * largest(estimates().map(|estimate| error(estimate, truth)));
                let [low, median, high] = spread(estimates());
                let key = format!("{name}/{}/{prefix}", sizes.name());
                findings.add(&key, [("median", median), ("error-most", error)]);
                let mut row = vec![sizes.name().to_owned(), prefix.to_string(), (*name).to_owned()];
                row.extend([low, median, high, error].map(|value| format!("{value:.2}")));
                findings.table.rows.push(row);
                curves[index].push((f64::from(prefix), median));
            }
        }
        let panel = Panel::new("", "links that hidden packets cross", "median estimate, Mb/s");
        let panel = ESTIMATORS
            .iter()
            .zip(curves)
            .fold(panel, |panel, (name, points)| panel.with(Curve::dots(name, points)));
        findings.figure = Figure::curves([panel]);
        Ok(findings)
    }
}

/// Returns the estimates of one run in Mb/s, NaN for none.
fn estimates(record: &StreamRecord, hidden: u32, narrow: Rate) -> [f64; ESTIMATORS.len()] {
    let with = |settings: Settings| {
        let mut trains = Pairs::of_trains(PACKET, hidden, settings);
        trains.add_stream(record);
        trains
    };
    let default = with(Settings::default());
    let prefix = |trains: &Pairs| prefix_capacity(trains, narrow).map_or(f64::NAN, Rate::mbps);
    let each: Vec<f64> = default
        .triplets()
        .iter()
        .filter_map(|train| Rate::of(PACKET * (u64::from(hidden) + 1), train.dispersion))
        .map(Rate::mbps)
        .collect();
    let mode = default.raw_mode().map_or(f64::NAN, Rate::mbps);
    [prefix(&default), prefix(&with(Settings::quantiles())), mode, mean(&each)]
}
