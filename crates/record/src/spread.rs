//! The spread of results over several seeds.

use headway_units::statistics::{median, sorted};
use serde::Serialize;

use crate::summary::{SelectResult, Summary};

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
    if first.total.flows > 0 {
        add("goodput_bps".to_owned(), &|run| Some(run.total.goodput_bps as f64));
        add("goodput_min_bps".to_owned(), &|run| Some(run.total.goodput_min_bps as f64));
        add("goodput_max_bps".to_owned(), &|run| Some(run.total.goodput_max_bps as f64));
        add("fairness".to_owned(), &|run| Some(run.total.fairness));
        add("retransmitted_share".to_owned(), &|run| Some(run.total.retransmitted_share()));
    }
    for (index, link) in first.links.iter().enumerate() {
        let name = &link.link;
        add(format!("{name} utilisation"), &|run| run.links.get(index)?.utilisation);
        add(format!("{name} delay_mean_ns"), &|run| Some(run.links.get(index)?.delay_mean_ns as f64));
        add(format!("{name} delay_p99_ns"), &|run| Some(run.links.get(index)?.delay_p99_ns as f64));
        add(format!("{name} loss"), &|run| Some(run.links.get(index)?.loss));
    }
    for (index, choice) in first.selections.iter().enumerate() {
        let name = &choice.strategy;
        let mut add = |metric: &str, value: &dyn Fn(&SelectResult) -> Option<f64>| {
            add(format!("{name} {metric}"), &|run| value(run.selections.get(index)?));
        };
        add("on_good", &|one| Some(one.on_good));
        add("on_best", &|one| Some(one.on_best));
        add("free_bps", &|one| Some(one.free_bps as f64));
        add("bulk_bps", &|one| Some(one.bulk_bps? as f64));
        add("fetch_p50_ns", &|one| Some(one.fetch_p50_ns as f64));
        add("fetch_p95_ns", &|one| Some(one.fetch_p95_ns as f64));
        add("bytes_per_path_hour", &|one| Some(one.bytes_per_path_hour as f64));
        add("changes_per_hour", &|one| Some(one.changes_per_hour));
        add("reaction_ns", &|one| Some(one.reaction_ns as f64));
        add("others_lost_per_hour", &|one| Some(one.others_lost_per_hour));
    }
    spreads
}
