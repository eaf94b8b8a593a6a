//! One-way delays of packet pairs over the rates between them (wan E23).

use headway_estimate::ppdd::{Pairs, Settings, Triplet};
use headway_figures::{Curve, Figure, Panel};
use serde::Deserialize;

use super::{PACKET, chain, narrow, pairs};
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::{Findings, Table};
use crate::statistics::{largest, smallest};

/// Pairs whose delays are drawn.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delays {
    /// Number of pairs.
    pairs: Count,
}

/// Delays within this of the lowest ones are on their line, in microseconds.
const ON_LINE: f64 = 0.5;
/// Width of the classes of rates in the table, in Mb/s.
const CLASS: f64 = 50.0;

impl Delays {
    pub(super) fn run(&self, study: &super::PacketPairs, job: &Job<'_>) -> Result<Findings, Error> {
        job.check()?;
        let chain = chain(study.links(), study.loads[0], study.sizes[0], 0);
        let sent = pairs(job.of(self.pairs)).send(&chain, job.seed(0));
        let mut pairs = Pairs::new(PACKET, Settings::default());
        pairs.add_stream(&sent.record);
        let rate = |triplet: &Triplet| PACKET.get() as f64 * 8e3 / triplet.dispersion.ns() as f64;
        let points = |delay: fn(&Triplet) -> f64| -> Vec<(f64, f64)> {
            pairs.triplets().iter().map(|triplet| (rate(triplet), delay(triplet))).collect()
        };
        let (first, second) = (points(|triplet| triplet.first.us()), points(|triplet| triplet.second.us()));
        let floor = |points: &[(f64, f64)]| smallest(points.iter().map(|point| point.1));
        let floors = [floor(&first), floor(&second)];
        let on_line = |points: &[(f64, f64)], floor: f64| -> Vec<f64> {
            points.iter().filter(|point| point.1 <= floor + ON_LINE).map(|point| point.0).collect()
        };
        let mut findings = Findings { table: table(&first, &second, floors[0]), ..Findings::default() };
        let numbers = [
            ("buffering", floors[1] - floors[0]),
            ("first-line/end", largest(on_line(&first, floors[0]))),
            ("second-line/start", smallest(on_line(&second, floors[1]))),
            ("identity/violations", pairs.identity_violations(2) as f64),
            ("clean", sent.clean as f64),
        ];
        findings.add("", numbers);
        let above = |points: Vec<(f64, f64)>| {
            points.into_iter().map(|(rate, delay)| (rate, delay - floors[0])).collect()
        };
        let narrow = narrow(study.links()).mbps();
        let panel = Panel::new("", "rate of the pair, Mb/s", "delay above the lowest first packet's, us")
            .with(Curve::dots("first packets", above(first)))
            .with(Curve::dots("second packets", above(second)))
            .with(Curve::reference("capacity", vec![(narrow, 0.0), (narrow, 300.0)]));
        findings.figure = Figure::curves([panel]);
        Ok(findings)
    }
}

/// The lowest delays of both packets in classes of rates.
fn table(first: &[(f64, f64)], second: &[(f64, f64)], floor: f64) -> Table {
    let mut table = Table::new("rate Mb/s,pairs,lowest first us,lowest second us");
    let top = largest(first.iter().map(|point| point.0));
    for class in 0..=(top / CLASS) as usize {
        let from = class as f64 * CLASS;
        let within = |points: &[(f64, f64)]| -> Vec<f64> {
            let here = points.iter().filter(|point| (from..from + CLASS).contains(&point.0));
            here.map(|point| point.1 - floor).collect()
        };
        let (first, second) = (within(first), within(second));
        if !first.is_empty() {
            let lowest =
                [smallest(first.iter().copied()), smallest(second)].map(|delay| format!("{delay:.1}"));
            let [one, other] = lowest;
            table.rows.push(vec![
                format!("{from:.0} to {:.0}", from + CLASS),
                first.len().to_string(),
                one,
                other,
            ]);
        }
    }
    table
}
