//! Cells of a matrix: overrides of the scenario, with a label for each property.

use std::fmt;

use crate::error::{Error, bail};
use headway_scenario::Change;

use super::verdict::Group;

/// One cell of a matrix.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Controller, rate, RTT, buffer and number of flows; in the wide matrix controller, class, rate, RTT and
    /// further features.
    pub(super) labels: [String; 5],
    pub(super) changes: Vec<Change>,
    /// Further overrides of each run; metrics are medians over the runs. Empty when there is only one.
    pub(super) runs: Vec<Vec<Change>>,
    /// The group whose bands apply; `None` derives it from the flows.
    pub(super) group: Option<Group>,
}

impl Cell {
    /// Creates a cell from all its overrides, each in the syntax of `--set`.
    pub(super) fn new(labels: [String; 5], changes: &[String]) -> Result<Cell, Error> {
        Ok(Cell { labels, changes: parsed(changes)?, runs: Vec::new(), group: None })
    }

    /// Returns the overrides of every run.
    pub(super) fn each_run(&self) -> Vec<Vec<Change>> {
        let with = |more: &Vec<Change>| [&self.changes[..], more].concat();
        if self.runs.is_empty() { vec![self.changes.clone()] } else { self.runs.iter().map(with).collect() }
    }
}

/// Parses overrides in the syntax of `--set`.
pub(super) fn parsed(changes: &[String]) -> Result<Vec<Change>, Error> {
    changes.iter().map(|text| text.parse().map_err(Error::other)).collect()
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.labels.join(", "))
    }
}

/// Describes a number of flows.
pub(super) fn flows(count: u64) -> String {
    if count == 1 { "1 flow".to_owned() } else { format!("{count} flows") }
}

/// Keeps the cells that match `text`, such as `reno,cubic,1Gb/s`: terms for the same property are
/// alternatives, and all properties named must match.
pub(super) fn only(cells: Vec<Cell>, text: &str) -> Result<Vec<Cell>, Error> {
    let mut wanted: [Vec<String>; 5] = Default::default();
    for term in text.split(',').map(plain).filter(|term| !term.is_empty()) {
        let kind = (0..wanted.len()).find(|kind| cells.iter().any(|cell| plain(&cell.labels[*kind]) == term));
        let Some(kind) = kind else {
            bail!("--only: unknown property `{term}`; known: {}", properties(&cells));
        };
        wanted[kind].push(term);
    }
    let fits = |cell: &Cell| {
        let mut pairs = cell.labels.iter().zip(&wanted);
        pairs.all(|(label, terms)| terms.is_empty() || terms.contains(&plain(label)))
    };
    let kept: Vec<Cell> = cells.into_iter().filter(fits).collect();
    if kept.is_empty() {
        bail!("--only: no cell has all of `{text}`");
    }
    Ok(kept)
}

/// Normalises a property as users type it: lower case, no spaces.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>().to_lowercase()
}

/// Lists all properties of the cells.
fn properties(cells: &[Cell]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for kind in 0..5 {
        for cell in cells {
            if !all.contains(&cell.labels[kind].as_str()) {
                all.push(&cell.labels[kind]);
            }
        }
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> Vec<Cell> {
        let mut cells = Vec::new();
        for controller in ["reno", "cubic"] {
            for rate in ["100 Mb/s", "1 Gb/s"] {
                let labels = [controller, rate, "10 ms", "1 BDP", "1 flow"].map(str::to_owned);
                cells.push(Cell::new(labels, &[]).unwrap());
            }
        }
        cells
    }

    #[test]
    fn terms_of_a_kind_are_alternatives_and_kinds_add_up() {
        let count = |text: &str| only(cells(), text).map(|kept| kept.len()).ok();
        assert_eq!(count("reno"), Some(2));
        assert_eq!(count("reno,1Gb/s"), Some(1));
        assert_eq!(count("Reno, cubic, 1 GB/s"), Some(2));
        assert_eq!(count(""), Some(4));
    }

    #[test]
    fn a_term_that_fits_nothing_is_answered_with_what_there_is() {
        let error = only(cells(), "reno,2Gb/s").map(|kept| kept.len()).unwrap_err().to_string();
        assert!(error.contains("`2gb/s`") && error.contains("reno, cubic, 100 Mb/s, 1 Gb/s"), "{error}");
    }
}
