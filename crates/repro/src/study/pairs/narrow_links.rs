//! How often trains with hidden packets find the narrow link (wan E24).

use headway_estimate::hire::{Location, Rule, Search, Settings, Step, Unlocated};
use headway_figures::{Curve, Figure, Panel};
use headway_sim::sweep::ChainLink;
use headway_traffic::random::generator;
use rand::RngExt as _;
use serde::Deserialize;

use super::{PACKET, Sizes, chain, narrow, trains};
use crate::context::Error;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::mean;

/// Rules by which searches recognise a step; the first link with the smallest capacity is the narrow one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NarrowLinks {
    /// The rules: `step`, `ratio` or `deviation`.
    rules: Vec<StepRule>,
}

/// Rules of [`headway_estimate::hire::Rule`] with the published threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
enum StepRule {
    /// In comparison with the two previous groups.
    Step,
    /// In comparison with the mean of all previous groups; at most the published number of trains.
    Ratio,
    /// By the growth of the standard deviation in Mb/s, as printed.
    Deviation,
}

impl StepRule {
    /// Returns the name in tables and keys.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

/// The published threshold.
const GAMMA: f64 = 0.2;

/// One rule under one load; runs over all paths.
struct Cell {
    rule: StepRule,
    sizes: Sizes,
    load: u32,
}

impl Cell {
    /// Returns the name with which its measures begin.
    fn name(&self) -> String {
        format!("{}/{}/{}", self.rule.name(), self.sizes.name(), self.load)
    }
}

/// What a search found, and the trains that it sent.
struct Found {
    path: usize,
    answer: Result<Location, Unlocated>,
    trains: usize,
}

impl NarrowLinks {
    pub(super) fn run(&self, study: &super::PacketPairs, job: &Job<'_>) -> Result<Findings, Error> {
        let of_rule = |rule: &StepRule| {
            let rule = *rule;
            study.traffics().map(move |(sizes, load)| Cell { rule, sizes, load })
        };
        let cells: Vec<Cell> = self.rules.iter().flat_map(of_rule).collect();
        let paths = study.paths.len();
        let found = job.each_run(&cells, job.of(study.runs) * paths, |cell, run| {
            let path = run % paths;
            let chain = chain(&study.paths[path], cell.load, cell.sizes, 0);
            let (answer, trains) = search(cell.rule, &study.paths[path], &chain, job.seed(run));
            Ok(Found { path, answer, trains })
        })?;
        let hops: Vec<u32> = study.paths.iter().map(|links| narrow_hop(links)).collect();
        let mut findings = findings(&hops, &cells, &found);
        findings.figure = figure(&self.rules, &study.loads, &cells, &found, &hops);
        Ok(findings)
    }
}

fn settings(rule: StepRule, hops: u32) -> Settings {
    let usual = Settings::for_hops(hops);
    let literal = |rule: Rule| Settings { rule, most_trains: usual.trains, sure: 0.0, ..usual };
    match rule {
        StepRule::Step => usual,
        StepRule::Ratio => literal(Rule::Ratio(GAMMA)),
        StepRule::Deviation => literal(Rule::Deviation(GAMMA)),
    }
}

/// Searches the narrow link; also returns the number of trains.
fn search(
    rule: StepRule,
    links: &[u64],
    chain: &[ChainLink],
    seed: u64,
) -> (Result<Location, Unlocated>, usize) {
    let mut search = Search::new(PACKET, narrow(links), settings(rule, links.len() as u32));
    let (mut seeds, mut sent) = (generator(seed, "search", 0), 0);
    loop {
        match search.next_step() {
            Step::Done(answer) => return (answer, sent),
            Step::Send { ttl, trains: count } => {
                let found = trains(search.train().gaps, ttl, count).send(chain, seeds.random());
                search.observe(ttl, &found.record);
                sent += count;
            }
        }
    }
}

fn findings(hops: &[u32], cells: &[Cell], found: &[Vec<Found>]) -> Findings {
    let columns = "rule,sizes,load %,narrow hop,right,wrong,refused,trains";
    let mut findings = Findings::with_table(columns);
    for (cell, found) in cells.iter().zip(found) {
        let key = cell.name();
        let mut least = f64::INFINITY;
        for (path, hop) in hops.iter().enumerate() {
            let here: Vec<&Found> = found.iter().filter(|found| found.path == path).collect();
            let [right, wrong, refused] = shares(&here, hops);
            let sent = mean(&here.iter().map(|found| found.trains as f64).collect::<Vec<_>>());
            let name = format!("{key}/path-{}", path + 1);
            findings.add(&name, [("right", right), ("wrong", wrong), ("refused", refused), ("trains", sent)]);
            let mut row = vec![
                cell.rule.name().to_owned(),
                cell.sizes.name().to_owned(),
                cell.load.to_string(),
                hop.to_string(),
            ];
            row.extend([right, wrong, refused, sent].map(|value| format!("{value:.0}")));
            findings.table.rows.push(row);
            least = least.min(right);
        }
        let all: Vec<&Found> = found.iter().collect();
        let [right, wrong, refused] = shares(&all, hops);
        let sure: Vec<f64> = all
            .iter()
            .filter_map(|found| found.answer.ok())
            .map(|answer| 100.0 * answer.confidence)
            .collect();
        let numbers = [
            ("right", right),
            ("right-least", least),
            ("wrong", wrong),
            ("refused", refused),
            ("confidence", mean(&sure)),
            ("right-of-answers", 100.0 * right / (right + wrong)),
        ];
        findings.add(&key, numbers);
    }
    findings.remarks.push("Right, wrong and refused are shares of the searches in per cent. `step` compares neighbouring groups, asks for up to 60 trains a group and refuses answers that fewer than 95 % of resampled trains give; `ratio` and `deviation` always answer from 20 trains a group.".to_owned());
    findings
}

/// Draws a panel for every load with a curve for every rule, over all packet sizes and paths with
/// the same narrow hop.
fn figure(rules: &[StepRule], loads: &[u32], cells: &[Cell], found: &[Vec<Found>], hops: &[u32]) -> Figure {
    let mut positions = hops.to_vec();
    positions.sort_unstable();
    positions.dedup();
    let panel = |load: &u32| {
        let title = format!("{load} % load on every link");
        let panel = Panel::new(&title, "hop of the narrow link", "right, %").with_y_range(0.0, 100.0);
        rules.iter().fold(panel, |panel, rule| {
            let point = |hop: &u32| {
                let runs = cells.iter().zip(found);
                let of_rule = runs.filter(|(cell, _)| cell.rule == *rule && cell.load == *load);
                let here: Vec<&Found> =
                    of_rule.flat_map(|(_, found)| found).filter(|found| hops[found.path] == *hop).collect();
                (f64::from(*hop), shares(&here, hops)[0])
            };
            panel.with(Curve::line(rule.name(), positions.iter().map(point).collect()))
        })
    };
    Figure::curves(loads.iter().map(panel))
}

/// Returns the position of the narrow link, from 1.
fn narrow_hop(links: &[u64]) -> u32 {
    let least = links.iter().min();
    links.iter().position(|link| Some(link) == least).unwrap_or(0) as u32 + 1
}

/// Returns the shares of right, wrong and refused answers in per cent; `hops` are the
/// narrow links of the paths.
fn shares(found: &[&Found], hops: &[u32]) -> [f64; 3] {
    let count = |is: &dyn Fn(&Found) -> bool| {
        100.0 * found.iter().filter(|found| is(found)).count() as f64 / found.len() as f64
    };
    let right = |found: &Found| found.answer.is_ok_and(|answer| answer.hop == hops[found.path]);
    [
        count(&right),
        count(&|found| found.answer.is_ok() && !right(found)),
        count(&|found| found.answer.is_err()),
    ]
}
