//! The evaluation of a run.

use headway_record::{Histogram, Results};
use serde::{Deserialize, Serialize};

use super::{BOTTLENECK, Tracking};

/// Name of the test flows' group in the scenario.
const TEST: &str = "test";

/// Statistics over the measured time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Statistics {
    /// Goodput of the test flow in Gb/s.
    pub(crate) goodput: f64,
    /// Segments of the test flow that were sent again, in percent of those sent.
    pub(crate) loss: f64,
    /// Mean queueing delay at the bottleneck in us.
    pub(crate) delay: f64,
    /// Fraction of the bottleneck in use.
    pub(crate) utilisation: f64,
    /// Completion times of web flows; absent without web traffic.
    pub(crate) web: Option<Web>,
    /// How closely the test flow follows the free capacity; absent where the study does not ask.
    pub(crate) tracking: Option<Tracking>,
}

/// Completion times of web flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Web {
    /// Number of flows that completed.
    pub(crate) flows: u64,
    /// Median in ms.
    pub(crate) median: f64,
    /// 95th percentile in ms.
    pub(crate) p95: f64,
    /// 99th percentile in ms.
    pub(crate) p99: f64,
    /// Mean in ms; unlike the quantiles it is exact.
    pub(crate) mean: f64,
}

/// Evaluates the results of a run.
pub(crate) fn statistics(results: &Results) -> Statistics {
    let summary = &results.summary;
    let test = summary.groups.iter().find(|group| group.name == TEST).map(|group| &group.total);
    let link = &summary.links[BOTTLENECK];
    Statistics {
        goodput: test.map_or(0.0, |total| total.goodput_bps as f64 / 1e9),
        loss: test.map_or(0.0, |total| 100.0 * total.retransmitted_share()),
        delay: link.delay_mean_ns as f64 / 1e3,
        utilisation: link.utilisation.unwrap_or_default(),
        web: web(results),
        tracking: None,
    }
}

/// Returns the completion times of all web flows together.
fn web(results: &Results) -> Option<Web> {
    let mut all = Histogram::default();
    for (_, times) in &results.completion_times {
        all.merge(times);
    }
    let quantile = |part| all.quantile(part).ms();
    (all.count() > 0).then(|| Web {
        flows: all.count(),
        median: quantile(0.5),
        p95: quantile(0.95),
        p99: quantile(0.99),
        mean: all.mean().ms(),
    })
}
