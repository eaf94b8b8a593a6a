//! Flows that share the 10 Gb/s bottleneck of the thesis on Rapid with cross traffic: what runs, and what was published.

use std::collections::BTreeMap;

use headway_scenario::FlowController;
use headway_units::{Bytes, Duration};
use serde::Deserialize;

use super::amount::Count;
use crate::closed_loop::Cross;

/// Parameters of [`Study::ClosedLoop`](super::Study::ClosedLoop).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// Buffer of the bottleneck, the same in all cells.
    pub buffer: Bytes,
    /// Controllers of the test flow, by the name with which their measures begin.
    pub controllers: BTreeMap<String, FlowController>,
    /// Further keys of the test flow by the name of its controller, as a scenario file has them: `stamp = "ack"`.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// The cells to run.
    pub cells: Vec<Cells>,
    /// Runs per cell, with different seeds; the median is reported.
    pub runs: Count,
    /// Measured time.
    pub milliseconds: Count,
    /// Time before it.
    pub warmup: Count,
    /// Interval in which the throughput is compared with the free capacity; absent where it is not.
    pub interval: Option<Duration>,
    /// The measured time on the Linux stack; absent where that has no such traffic.
    pub kernel_milliseconds: Option<Count>,
    /// The published table, for comparison.
    #[serde(default)]
    pub published: Published,
}

/// Goodputs that differ from the published ones by less than this share count as near.
const NEAR: f64 = 0.1;

/// All combinations of some controllers, kinds of cross traffic, RTTs and loss ratios.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    /// Whether only the full size includes them.
    #[serde(default)]
    pub only_full: bool,
    /// Names of controllers; by default all.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// Kinds of cross traffic.
    pub traffics: Vec<Cross>,
    /// RTTs without queueing.
    pub rtts: Vec<Duration>,
    /// Ratios of independent losses; by default zero only.
    #[serde(default = "lossless")]
    pub losses: Vec<f64>,
}

fn lossless() -> Vec<f64> {
    vec![0.0]
}

/// A published table: a row per controller, a column per setting.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Names of the columns: `bct/30`, or `idle/30/1e-5` with a loss ratio.
    pub columns: Vec<String>,
    /// Goodputs in Gb/s.
    pub goodput: BTreeMap<String, Vec<f64>>,
    /// Losses in percent; empty if they were not published.
    #[serde(default)]
    pub loss: BTreeMap<String, Vec<f64>>,
    /// Medians of the completion times of web flows, ms; empty if they were not published.
    #[serde(default)]
    pub web_median: BTreeMap<String, Vec<f64>>,
    /// By how much of the published goodput ours may differ to count as near it, by column; a tenth if absent.
    #[serde(default)]
    pub tolerance: Vec<f64>,
}

impl Published {
    /// Returns goodput in Gb/s and loss in percent of a cell; NaN where nothing was published.
    pub fn get(&self, controller: &str, column: &str) -> (f64, f64) {
        (self.of(&self.goodput, controller, column), self.of(&self.loss, controller, column))
    }

    /// Returns the median completion time of web flows in ms beside a controller; NaN where nothing was published.
    pub fn web_median(&self, controller: &str, column: &str) -> f64 {
        self.of(&self.web_median, controller, column)
    }

    fn of(&self, rows: &BTreeMap<String, Vec<f64>>, controller: &str, column: &str) -> f64 {
        let index = self.columns.iter().position(|name| name == column);
        let cell = rows.get(controller).zip(index).and_then(|(row, index)| row.get(index));
        cell.copied().unwrap_or(f64::NAN)
    }

    /// Returns whether a goodput in Gb/s is near the published one; `None` where nothing was published.
    pub fn is_near(&self, controller: &str, column: &str, goodput: f64) -> Option<bool> {
        let (print, _) = self.get(controller, column);
        let index = self.columns.iter().position(|name| name == column)?;
        let tolerance = self.tolerance.get(index).copied().unwrap_or(NEAR);
        (!print.is_nan()).then(|| (goodput - print).abs() <= tolerance * print)
    }
}

/// Parameters of [`Study::Staggered`](super::Study::Staggered).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Staggered {
    /// Buffer of the bottleneck.
    pub buffer: Bytes,
    /// RTT of all flows without queueing.
    pub rtt: Duration,
    /// Start and end of each flow, in seconds of the thesis.
    pub flows: Vec<(f64, f64)>,
    /// Times between which shares are measured, in seconds of the thesis, by the name of their measures.
    pub phases: BTreeMap<String, (f64, f64)>,
    /// Controllers of all flows, by the name with which their measures begin.
    pub controllers: BTreeMap<String, FlowController>,
    /// The controllers in the quick size.
    pub quick_controllers: Vec<String>,
    /// Runs per controller, with different seeds; the median is reported.
    pub runs: Count,
    /// Simulated duration of what lasts one second in the thesis.
    pub milliseconds: Count,
    /// The same duration on the Linux stack.
    pub kernel_milliseconds: Option<Count>,
}
