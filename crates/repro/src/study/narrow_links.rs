//! How often trains with hidden packets find the narrow link (wan E24).

use headway_estimate::hire::{Location, Rule, Search, Settings, Step, Unlocated};
use headway_figures::{Curve, Figure, Panel};
use headway_sim::sweep::ChainLink;
use headway_traffic::random::generator;
use rand::RngExt as _;

use super::chain::{PACKET, chain, narrow, trains};
use crate::context::{Context, Error};
use crate::experiment::{Experiment, NarrowLinks, Sizes, StepRule};
use crate::outcome::{Findings, Table};
use crate::statistics::mean;

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

pub(super) fn run(
    study: &NarrowLinks,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let mut cells = Vec::new();
    for rule in &study.rules {
        for sizes in &study.sizes {
            cells.extend(study.loads.iter().map(|load| Cell { rule: *rule, sizes: *sizes, load: *load }));
        }
    }
    let runs = context.size.of(study.runs);
    let paths = study.paths.len();
    let parts: Vec<(usize, usize)> =
        (0..cells.len()).flat_map(|cell| (0..runs * paths).map(move |run| (cell, run))).collect();
    let found = context.map(&parts, |_, &(cell, run)| {
        let Cell { rule, sizes, load } = cells[cell];
        let links = &study.paths[run % paths];
        let (answer, trains) =
            search(rule, links, &chain(links, load, sizes, 0), context.seed_of(&experiment.id, run));
        Ok(Found { path: run % paths, answer, trains })
    })?;
    Ok(findings(study, &cells, &found, runs * paths))
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

fn findings(study: &NarrowLinks, cells: &[Cell], found: &[Found], each: usize) -> Findings {
    let columns = ["rule", "sizes", "load %", "narrow hop", "right", "wrong", "refused", "trains"];
    let mut findings = Findings { table: Table::new(columns), ..Findings::default() };
    let hops: Vec<u32> = study.paths.iter().map(|links| narrow_hop(links)).collect();
    for (cell, found) in cells.iter().zip(found.chunks(each)) {
        let key = cell.name();
        let mut least = f64::INFINITY;
        for (path, hop) in hops.iter().enumerate() {
            let here: Vec<&Found> = found.iter().filter(|found| found.path == path).collect();
            let [right, wrong, refused] = shares(&here, &hops);
            let sent = mean(&here.iter().map(|found| found.trains as f64).collect::<Vec<_>>());
            let name = format!("{key}/path-{}", path + 1);
            for (what, value) in [("right", right), ("wrong", wrong), ("refused", refused), ("trains", sent)]
            {
                findings.measures.insert(format!("{name}/{what}"), value);
            }
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
        let [right, wrong, refused] = shares(&all, &hops);
        let sure: Vec<f64> = all
            .iter()
            .filter_map(|found| found.answer.ok())
            .map(|answer| 100.0 * answer.confidence)
            .collect();
        for (what, value) in [
            ("right", right),
            ("right-least", least),
            ("wrong", wrong),
            ("refused", refused),
            ("confidence", mean(&sure)),
            ("right-of-answers", 100.0 * right / (right + wrong)),
        ] {
            findings.measures.insert(format!("{key}/{what}"), value);
        }
    }
    findings.remarks.push("Right, wrong and refused are shares of the searches in per cent. `step` compares neighbouring groups, asks for up to 60 trains a group and refuses answers that fewer than 95 % of resampled trains give; `ratio` and `deviation` always answer from 20 trains a group.".to_owned());
    findings.figure = figure(study, cells, found, each, &hops);
    findings
}

/// Draws a panel for every load with a curve for every rule, over all packet sizes and paths with the same narrow hop.
fn figure(study: &NarrowLinks, cells: &[Cell], found: &[Found], each: usize, hops: &[u32]) -> Figure {
    let mut positions = hops.to_vec();
    positions.sort_unstable();
    positions.dedup();
    let panel = |load: &u32| {
        let title = format!("{load} % load on every link");
        let panel = Panel::new(&title, "hop of the narrow link", "right, %").with_y_range(0.0, 100.0);
        study.rules.iter().fold(panel, |panel, rule| {
            let point = |hop: &u32| {
                let runs = cells.iter().zip(found.chunks(each));
                let of_rule = runs.filter(|(cell, _)| cell.rule == *rule && cell.load == *load);
                let here: Vec<&Found> =
                    of_rule.flat_map(|(_, found)| found).filter(|found| hops[found.path] == *hop).collect();
                (f64::from(*hop), shares(&here, hops)[0])
            };
            panel.with(Curve::line(rule.name(), positions.iter().map(point).collect()))
        })
    };
    Figure::curves(study.loads.iter().map(panel))
}

/// Returns the position of the narrow link, from 1.
fn narrow_hop(links: &[u64]) -> u32 {
    let least = links.iter().min();
    links.iter().position(|link| Some(link) == least).unwrap_or(0) as u32 + 1
}

/// Returns the shares of right, wrong and refused answers in per cent; `hops` are the narrow links of the paths.
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
