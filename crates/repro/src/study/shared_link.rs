//! Queues of links that long flows with a short round trip share (ls-aimd 4.4, 4.7).

use std::collections::BTreeMap;

use headway_core::Duration;
use headway_core::control::Kind;

use crate::context::{Context, Interrupted};
use crate::experiment::{Experiment, SharedLink};
use crate::figure::{Curve, Figure, Panel};
use crate::outcome::{Findings, Measures, Table};
use crate::shared_link::{SETTINGS, Seen, Setting, run as simulate};
use crate::statistics::{largest, quantile, smallest, sorted};

/// A controller in a setting, and which run of it.
struct Part<'a> {
    variant: &'a str,
    controller: Kind,
    setting: &'static Setting,
}

/// All runs of one controller in one setting.
struct Cell<'a> {
    variant: &'a str,
    setting: &'static Setting,
    runs: Vec<Seen>,
}

impl Cell<'_> {
    fn values(&self, what: impl Fn(&Seen) -> f64) -> Vec<f64> {
        sorted(self.runs.iter().map(what).collect())
    }

    fn median(&self, what: impl Fn(&Seen) -> f64) -> f64 {
        quantile(&self.values(what), 0.5)
    }
}

/// What is measured of a run, by name; the table shows the first nine in this order.
const MEASURES: [(&str, fn(&Seen) -> f64); 12] = [
    ("mean", |seen| seen.mean),
    ("deviation", |seen| seen.deviation),
    ("p95", |seen| seen.p95),
    ("p99", |seen| seen.p99),
    ("max", |seen| seen.max),
    ("utilisation", |seen| seen.utilisation),
    ("least-utilisation", |seen| seen.least_utilisation),
    ("marked", |seen| seen.marked),
    ("spread", |seen| seen.spread),
    ("unsteadiness", |seen| seen.unsteadiness),
    ("at-two", |seen| seen.at_two),
    ("correlation", |seen| seen.correlation),
];

pub(super) fn run(
    study: &SharedLink,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Interrupted> {
    let runs = context.size.of(study.runs);
    let second = Duration::from_ms(context.size.of(study.milliseconds) as i64);
    let named = |setting: &&Setting| study.settings.iter().any(|name| name == setting.name);
    let mut parts = Vec::new();
    for (variant, controller) in &study.variants {
        for setting in SETTINGS.iter().filter(named) {
            parts.extend((0..runs).map(|_| Part { variant, controller: *controller, setting }));
        }
    }
    let seen = context.map(&parts, |index, part| {
        let seed = context.seed_of(&experiment.id, index);
        Ok(simulate(part.setting, study.marking, part.controller, seed, second))
    })?;
    let cells: Vec<Cell<'_>> = parts
        .chunks(runs)
        .zip(seen.chunks(runs))
        .map(|(parts, seen)| Cell {
            variant: parts[0].variant,
            setting: parts[0].setting,
            runs: seen.to_vec(),
        })
        .collect();
    let mut measures = Measures::new();
    for cell in &cells {
        for (name, what) in MEASURES {
            measures.insert(format!("{}/{}/{name}", cell.variant, cell.setting.name), cell.median(what));
        }
    }
    let losses: u64 = cells.iter().flat_map(|cell| &cell.runs).map(|seen| seen.losses).sum();
    measures.insert("losses".to_owned(), losses as f64);
    derive(&mut measures, &cells);
    Ok(Findings { measures, table: table(&cells), figure: figure(&cells), ..Findings::default() })
}

/// Numbers that are about several settings or variants.
fn derive(measures: &mut Measures, cells: &[Cell<'_>]) {
    let mut mean: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for cell in cells {
        mean.insert((cell.variant, cell.setting.name), cell.median(|seen| seen.mean));
    }
    for cell in cells {
        let here = mean[&(cell.variant, cell.setting.name)];
        if let Some(baseline) = mean.get(&("aimd", cell.setting.name)).filter(|_| cell.variant != "aimd") {
            let name = format!("{}/{}", cell.variant, cell.setting.name);
            measures.insert(format!("{name}/ratio"), baseline / here);
            measures.insert(format!("{name}/saving"), baseline - here);
        }
    }
    // How much longer the queue gets when the round trip gets shorter by as much (H2).
    if let (Some(short), Some(long)) = (mean.get(&("aimd", "4E")), mean.get(&("aimd", "4H"))) {
        measures.insert("aimd/slope".to_owned(), (long - short) / 750.0);
    }
    for (variant, settings) in [("1500", "ABCD"), ("9000", "EFGH")] {
        let of = |cell: &&Cell<'_>| {
            cell.setting.name.strip_prefix('4').is_some_and(|letter| settings.contains(letter))
        };
        let names: std::collections::BTreeSet<&str> = cells.iter().map(|cell| cell.variant).collect();
        for name in names {
            let here: Vec<&Cell<'_>> = cells.iter().filter(of).filter(|cell| cell.variant == name).collect();
            let means = || here.iter().map(|cell| mean[&(cell.variant, cell.setting.name)]);
            let mut insert = |what: &str, value| measures.insert(format!("{name}/{variant}/{what}"), value);
            insert("mean-least", smallest(means()));
            insert("mean-most", largest(means()));
            insert(
                "utilisation-least",
                smallest(here.iter().map(|cell| cell.median(|seen| seen.utilisation))),
            );
            insert("marked-least", smallest(here.iter().map(|cell| cell.median(|seen| seen.marked))));
            insert("marked-most", largest(here.iter().map(|cell| cell.median(|seen| seen.marked))));
            insert("spread-most", largest(here.iter().map(|cell| cell.median(|seen| seen.spread))));
        }
    }
}

fn table(cells: &[Cell<'_>]) -> Table {
    let mut table = Table::new([
        "variant",
        "setting",
        "mean us",
        "lowest mean",
        "highest mean",
        "deviation us",
        "p95 us",
        "p99 us",
        "max us",
        "utilisation",
        "least of 10 ms",
        "marked",
        "spread of throughputs",
    ]);
    for cell in cells {
        let means = cell.values(|seen| seen.mean);
        let mut row = vec![cell.variant.to_owned(), cell.setting.name.to_owned()];
        row.push(format!("{:.0}", cell.median(|seen| seen.mean)));
        row.extend(means.first().iter().chain(&means.last()).map(|mean| format!("{mean:.0}")));
        row.extend(MEASURES[1..5].iter().map(|(_, what)| format!("{:.0}", cell.median(what))));
        row.extend(MEASURES[5..9].iter().map(|(_, what)| format!("{:.3}", cell.median(what))));
        table.rows.push(row);
    }
    table
}

fn figure(cells: &[Cell<'_>]) -> Figure {
    let mut panels = Vec::new();
    for (mtu, what) in [(1500, "MTU 1500"), (9000, "MTU 9000")] {
        let here: Vec<&Cell<'_>> =
            cells.iter().filter(|cell| cell.setting.mtu == mtu && cell.setting.flows == 16).collect();
        if here.is_empty() {
            continue;
        }
        let mut delay = Panel::new(
            &format!("16 flows, 600 Mb/s, {what}"),
            "round trip without queue, us",
            "mean queueing delay, us",
        )
        .logarithmic();
        let mut use_of_link = Panel::new("", "round trip without queue, us", "utilisation");
        let names: std::collections::BTreeSet<&str> = here.iter().map(|cell| cell.variant).collect();
        for name in names {
            let points = |what: fn(&Seen) -> f64| {
                let of = here.iter().filter(|cell| cell.variant == name);
                of.map(|cell| (cell.setting.base as f64, cell.median(what))).collect()
            };
            delay = delay.with(Curve::line(name, points(|seen| seen.mean)));
            use_of_link = use_of_link.with(Curve::line(name, points(|seen| seen.utilisation)));
        }
        panels.extend([delay, use_of_link]);
    }
    Figure::curves(panels)
}
