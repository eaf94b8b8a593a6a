//! What was published of flows beside cross traffic.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Goodputs that differ from the published ones by less than this share count as near.
const NEAR: f64 = 0.1;

/// A published table: a row per controller, a column per setting.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// Names of the columns: `bct/30`, or `idle/30/1e-5` with a loss ratio.
    pub(crate) columns: Vec<String>,
    /// Goodputs in Gb/s.
    pub(crate) goodput: BTreeMap<String, Vec<f64>>,
    /// Losses in percent; empty if they were not published.
    #[serde(default)]
    pub(crate) loss: BTreeMap<String, Vec<f64>>,
    /// Medians of the completion times of web flows, ms; empty if they were not published.
    #[serde(default)]
    pub(crate) web_median: BTreeMap<String, Vec<f64>>,
    /// By how much of the published goodput ours may differ to count as near it, by
    /// column; a tenth if absent.
    #[serde(default)]
    pub(crate) tolerance: Vec<f64>,
}

impl Published {
    /// Returns the number of a cell in `rows`, which are of this table; NaN where nothing was published.
    pub(crate) fn cell(&self, rows: &BTreeMap<String, Vec<f64>>, controller: &str, column: &str) -> f64 {
        let index = self.columns.iter().position(|name| name == column);
        let cell = rows.get(controller).zip(index).and_then(|(row, index)| row.get(index));
        cell.copied().unwrap_or(f64::NAN)
    }

    /// Returns the goodput of a cell in Gb/s; NaN where nothing was published.
    pub(crate) fn goodput(&self, controller: &str, column: &str) -> f64 {
        self.cell(&self.goodput, controller, column)
    }

    /// Returns whether a goodput in Gb/s is near the published one; `None` where nothing was published.
    pub(crate) fn is_near(&self, controller: &str, column: &str, goodput: f64) -> Option<bool> {
        let print = self.goodput(controller, column);
        let index = self.columns.iter().position(|name| name == column)?;
        let tolerance = self.tolerance.get(index).copied().unwrap_or(NEAR);
        (!print.is_nan()).then(|| (goodput - print).abs() <= tolerance * print)
    }
}
