//! The metrics by which worlds are compared.

use headway_record::{LinkResult, Results, Total};
use headway_units::{Duration, Rate, statistics};
use serde::Serialize;

use crate::rows::percent;

pub(super) const GOODPUT: &str = "goodput";
pub(super) const FAIRNESS: &str = "Jain's index";
pub(super) const MEAN_DELAY: &str = "mean queueing delay";
pub(super) const RETRANSMITTED: &str = "retransmitted packets";
pub(super) const SLOWEST: &str = "slowest flow";
pub(super) const SLOWEST_SHARE: &str = "slowest flow's share";
pub(super) const TIMEOUTS: &str = "timeouts";
pub(super) const COMPLETION: &str = "median completion";

/// Returns a short name of the metric, for narrow columns.
pub(super) fn short(name: &str) -> &str {
    match name {
        MEAN_DELAY => "mean delay",
        RETRANSMITTED => "retransmitted",
        COMPLETION => "completion",
        _ => name,
    }
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "share")]
    Share,
    #[serde(rename = "index")]
    Index,
    #[serde(rename = "count")]
    Count,
}

impl Unit {
    /// Formats a value with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Unit::BitsPerSecond => Rate::from_bps_f64(value).to_string(),
            Unit::Nanoseconds => Duration::from_ns(value as i64).to_string(),
            Unit::Share => percent(value),
            Unit::Index => format!("{value:.3}"),
            Unit::Count => format!("{value:.0}"),
        }
    }
}

/// One metric in every world.
#[derive(Clone, Debug, Serialize)]
pub struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// Values, in the order of the worlds; `None` in worlds that do not report the metric.
    pub(super) values: Vec<Option<f64>>,
    /// The values of single runs whose medians `values` holds, per world; empty with a single run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) runs: Vec<Vec<Option<f64>>>,
    /// Differences relative to the reference; `None` for the reference itself, and where its value is zero.
    pub(super) differences: Vec<Option<f64>>,
}

impl Metric {
    /// Creates a metric from the values of each run in every world.
    pub(super) fn new(
        name: &'static str,
        unit: Unit,
        mut runs: Vec<Vec<Option<f64>>>,
        reference: usize,
    ) -> Metric {
        let values: Vec<Option<f64>> = runs.iter().map(|runs| median(runs)).collect();
        let base = values[reference];
        let difference = |(index, value): (usize, &Option<f64>)| {
            if index == reference { None } else { difference((*value)?, base?) }
        };
        let differences = values.iter().enumerate().map(difference).collect();
        if runs.iter().all(|runs| runs.len() == 1) {
            runs.clear();
        }
        Metric { name, unit, values, runs, differences }
    }

    /// Formats the value in a world; empty where the world does not report it.
    pub(super) fn text(&self, world: usize) -> String {
        self.values[world].map(|value| self.unit.text(value)).unwrap_or_default()
    }

    /// Formats the relative difference from the reference; empty without one.
    pub(super) fn difference_text(&self, world: usize) -> String {
        self.differences[world].map(|share| format!("{:+.1} %", share * 100.0)).unwrap_or_default()
    }
}

/// Returns the relative difference; two zeros are equal.
fn difference(value: f64, reference: f64) -> Option<f64> {
    if value == reference { Some(0.0) } else { (reference != 0.0).then(|| value / reference - 1.0) }
}

/// Returns all metrics, as medians over the runs of each world; `link` is the bottleneck.
pub(super) fn metrics(worlds: &[Vec<&Results>], link: &str, reference: usize) -> Vec<Metric> {
    let all = |name, unit, value: &dyn Fn(&Results) -> Option<f64>| {
        let runs = worlds.iter().map(|runs| runs.iter().map(|run| value(run)).collect());
        Metric::new(name, unit, runs.collect(), reference)
    };
    let flows = |name, unit, value: fn(&Total) -> Option<f64>| {
        all(name, unit, &|run: &Results| value(&run.summary.total))
    };
    let queue = |name, unit, value: fn(&LinkResult) -> Option<f64>| {
        all(name, unit, &|run: &Results| value(run.summary.links.iter().find(|one| one.link == link)?))
    };
    let ended = |name, share: f64| all(name, Unit::Nanoseconds, &|run: &Results| completion(run, share));
    vec![
        flows(GOODPUT, Unit::BitsPerSecond, |total| Some(total.goodput_bps as f64)),
        flows(SLOWEST, Unit::BitsPerSecond, |total| Some(total.goodput_min_bps as f64)),
        flows(SLOWEST_SHARE, Unit::Index, slowest_share),
        flows("fastest flow", Unit::BitsPerSecond, |total| Some(total.goodput_max_bps as f64)),
        flows(FAIRNESS, Unit::Index, |total| Some(total.fairness)),
        queue("utilisation", Unit::Share, |link| link.utilisation),
        queue(MEAN_DELAY, Unit::Nanoseconds, |link| Some(link.delay_mean_ns as f64)),
        queue("99 % queueing delay", Unit::Nanoseconds, |link| Some(link.delay_p99_ns as f64)),
        queue("loss", Unit::Share, |link| Some(link.loss)),
        queue("marked", Unit::Share, |link| Some(link.marked as f64 / link.arrived.max(1) as f64)),
        flows(RETRANSMITTED, Unit::Count, |total| Some(total.retransmitted as f64)),
        flows(TIMEOUTS, Unit::Count, |total| total.timeouts.map(|count| count as f64)),
        ended(COMPLETION, 0.5),
        ended("99 % completion", 0.99),
        ended("longest completion", 1.0),
    ]
}

/// Returns the goodput of the slowest flow relative to a fair share; `None` without any goodput.
fn slowest_share(total: &Total) -> Option<f64> {
    (total.goodput_bps > 0).then(|| (total.goodput_min_bps * total.flows) as f64 / total.goodput_bps as f64)
}

/// Returns the median, for an even number of runs the mean of the middle two; `None` unless every run has a
/// value.
pub(super) fn median(values: &[Option<f64>]) -> Option<f64> {
    statistics::median(values.iter().copied().collect::<Option<_>>()?)
}

/// Returns the given quantile of the completion times (ns) of flows with a size; `None` without such flows. A
/// flow that has not finished counts with its age.
fn completion(run: &Results, share: f64) -> Option<f64> {
    let end = run.summary.warmup_ns + run.summary.measured_ns;
    let ends = |group: &str| run.flows.iter().any(|flow| flow.group == group && flow.finished_ns.is_some());
    let sized = run.flows.iter().filter(|flow| ends(&flow.group));
    let took = sized.map(|flow| flow.finished_ns.unwrap_or(end).saturating_sub(flow.start_ns));
    let mut times: Vec<u64> = took.collect();
    times.sort_unstable();
    let place = (share * times.len() as f64).ceil() as usize;
    times.get(place.saturating_sub(1)).map(|time| *time as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_to_the_reference() {
        let values = [99.0, 100.0, 110.0].map(|value| vec![Some(value)]).to_vec();
        let metric = Metric::new(GOODPUT, Unit::Count, values, 1);
        assert_eq!([0, 1, 2].map(|world| metric.difference_text(world)), ["-1.0 %", "", "+10.0 %"]);
        assert_eq!(difference(0.0, 0.0), Some(0.0));
        assert_eq!(difference(1.0, 0.0), None);
    }

    #[test]
    fn several_runs_count_by_their_median() {
        let runs = vec![vec![Some(3.0), Some(1.0), Some(2.0)], vec![Some(3.0), Some(1.0), None]];
        let metric = Metric::new(GOODPUT, Unit::Count, runs.clone(), 0);
        assert_eq!((metric.values, metric.runs), (vec![Some(2.0), None], runs));
        assert_eq!(median(&[3.0, 1.0].map(Some)), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn what_a_world_does_not_tell_is_left_empty() {
        let metric = Metric::new("timeouts", Unit::Count, vec![vec![Some(3.0)], vec![None]], 1);
        assert_eq!((metric.text(0), metric.text(1)), ("3".to_owned(), String::new()));
        assert_eq!(metric.differences, [None, None]);
    }
}
