//! The evaluation of a run.

use headway_record::{Histogram, Results};
use serde::{Deserialize, Serialize};

use super::BOTTLENECK;
use crate::outcome::{Measures, named};

/// Name of the test flows' group in the scenario.
const TEST: &str = "test";

/// What was seen during the measured time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Statistics {
    /// Goodput of the test flow in Gb/s; its segments that were sent again, in percent of those sent
    /// (`loss`); mean queueing delay at the bottleneck in us; fraction of the bottleneck in use; number and
    /// completion times in ms of the web flows that completed, if any.
    pub(crate) numbers: Measures,
    /// What a figure shows of the first second: end of an interval in ms, throughput and
    /// free capacity in Gb/s.
    pub(crate) drawn: Vec<[f64; 3]>,
}

/// Evaluates the results of a run.
pub(crate) fn statistics(results: &Results) -> Statistics {
    let summary = &results.summary;
    let test = summary.groups.iter().find(|group| group.name == TEST).map(|group| &group.total);
    let link = &summary.links[BOTTLENECK];
    let mut numbers = named([
        ("goodput", test.map_or(0.0, |total| total.goodput_bps as f64 / 1e9)),
        ("loss", test.map_or(0.0, |total| 100.0 * total.retransmitted_share())),
        ("delay", link.delay_mean_ns as f64 / 1e3),
        ("utilisation", link.utilisation.unwrap_or_default()),
    ]);
    numbers.extend(web(results));
    Statistics { numbers, drawn: Vec::new() }
}

/// Returns the completion times of all web flows together. Unlike the quantiles, their mean is exact.
fn web(results: &Results) -> Measures {
    let mut all = Histogram::default();
    for (_, times) in &results.completion_times {
        all.merge(times);
    }
    if all.count() == 0 {
        return Measures::new();
    }
    let quantile = |part| all.quantile(part).ms();
    named([
        ("web-flows", all.count() as f64),
        ("web-median", quantile(0.5)),
        ("web-p95", quantile(0.95)),
        ("web-p99", quantile(0.99)),
        ("web-mean", all.mean().ms()),
    ])
}
