//! The spread of results over several seeds.

use headway_units::statistics::{median, sorted};
use serde::Serialize;

use crate::summary::Summary;

/// Median, minimum and maximum of a metric over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Name of the metric, with its unit: `goodput_bps`, `left->right delay_mean_ns`.
    pub metric: String,
    /// The median; for an even number of values, the mean of the middle two.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

/// Returns the spread of the main metrics over several runs of one scenario.
pub fn spread(runs: &[Summary]) -> Vec<Spread> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut spreads = Vec::new();
    let mut add = |metric: String, value: &dyn Fn(&Summary) -> Option<f64>| {
        let values = sorted(runs.iter().filter_map(value).collect());
        if let (Some(&min), Some(&max), Some(median)) =
            (values.first(), values.last(), median(values.clone()))
        {
            spreads.push(Spread { metric, median, min, max });
        }
    };
    add("goodput_bps".to_owned(), &|run| Some(run.total.goodput_bps as f64));
    add("goodput_min_bps".to_owned(), &|run| Some(run.total.goodput_min_bps as f64));
    add("goodput_max_bps".to_owned(), &|run| Some(run.total.goodput_max_bps as f64));
    add("fairness".to_owned(), &|run| Some(run.total.fairness));
    add("retransmitted_share".to_owned(), &|run| Some(run.total.retransmitted_share()));
    for (index, link) in first.links.iter().enumerate() {
        let name = &link.link;
        add(format!("{name} utilisation"), &|run| run.links.get(index)?.utilisation);
        add(format!("{name} delay_mean_ns"), &|run| Some(run.links.get(index)?.delay_mean_ns as f64));
        add(format!("{name} delay_p99_ns"), &|run| Some(run.links.get(index)?.delay_p99_ns as f64));
        add(format!("{name} loss"), &|run| Some(run.links.get(index)?.loss));
    }
    spreads
}
