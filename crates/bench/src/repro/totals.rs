//! How many claims hold, by paper.

use comfy_table::{Cell, CellAlignment, Table, presets};
use headway_repro::Outcome;

/// The claims of a paper, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    claims: usize,
    hold: usize,
    /// Those that fail and say why.
    explained: usize,
}

impl Totals {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Totals {
        let checks = outcomes.flat_map(|outcome| &outcome.checks);
        checks.fold(Totals::default(), |totals, check| Totals {
            claims: totals.claims + 1,
            hold: totals.hold + usize::from(check.passed),
            explained: totals.explained + usize::from(!check.passed && check.claim.deviation.is_some()),
        })
    }

    fn row(self, name: &str) -> Vec<Cell> {
        let failed = self.claims - self.hold;
        let numbers = [self.claims, self.hold, failed, failed - self.explained];
        let number = |value: usize| Cell::new(value).set_alignment(CellAlignment::Right);
        [Cell::new(name)].into_iter().chain(numbers.map(number)).collect()
    }
}

/// Returns the paper of an experiment, and the world if it is not the simulator.
fn group(outcome: &Outcome) -> String {
    let paper = outcome.id.split_once('/').map_or(outcome.id.as_str(), |(paper, _)| paper);
    match outcome.world {
        headway_repro::SIMULATOR => paper.to_owned(),
        world => format!("{paper}@{world}"),
    }
}

/// Returns the number of claims of every paper, and how many hold.
pub(super) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["claims of", "all", "hold", "fail", "without a reason"]);
    let mut groups: Vec<String> = Vec::new();
    for name in outcomes.iter().map(group) {
        if !groups.contains(&name) {
            groups.push(name);
        }
    }
    for name in &groups {
        table.add_row(Totals::of(outcomes.iter().filter(|outcome| group(outcome) == *name)).row(name));
    }
    if groups.len() > 1 {
        table.add_row(Totals::of(outcomes.iter()).row("all"));
    }
    table
}
