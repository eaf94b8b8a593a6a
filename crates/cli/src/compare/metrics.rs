//! The numbers that worlds are compared by.

use headway_core::{Duration, Rate};
use headway_sim::record::{LinkResult, Summary};
use serde::Serialize;

use crate::run::table::percent;

pub(super) const GOODPUT: &str = "goodput";
pub(super) const FAIRNESS: &str = "Jain's index";
pub(super) const MEAN_DELAY: &str = "mean queueing delay";
pub(super) const RETRANSMITTED: &str = "retransmitted packets";

/// The name of a metric where there is little room.
pub(super) fn short(name: &str) -> &str {
    match name {
        MEAN_DELAY => "mean delay",
        RETRANSMITTED => "retransmitted",
        _ => name,
    }
}

/// What a number counts.
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
    /// A number with its unit, as a reader wants it.
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

/// One number in every world.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// In the order of the worlds; `None` where a world does not tell.
    pub(super) values: Vec<Option<f64>>,
    /// Value less that of the reference, as a share of the latter; `None` when that is zero, and for the reference itself.
    pub(super) differences: Vec<Option<f64>>,
}

impl Metric {
    fn new(name: &'static str, unit: Unit, values: Vec<Option<f64>>, reference: usize) -> Metric {
        let base = values[reference];
        let difference = |(index, value): (usize, &Option<f64>)| {
            if index == reference { None } else { difference((*value)?, base?) }
        };
        let differences = values.iter().enumerate().map(difference).collect();
        Metric { name, unit, values, differences }
    }

    /// The value in a world as text; empty where the world does not tell.
    pub(super) fn text(&self, world: usize) -> String {
        self.values[world].map(|value| self.unit.text(value)).unwrap_or_default()
    }

    /// The difference of a world from the reference as text; empty where there is none.
    pub(super) fn difference_text(&self, world: usize) -> String {
        self.differences[world].map(|share| format!("{:+.1} %", share * 100.0)).unwrap_or_default()
    }
}

/// Relative difference; two zeros are equal.
fn difference(value: f64, reference: f64) -> Option<f64> {
    if value == reference { Some(0.0) } else { (reference != 0.0).then(|| value / reference - 1.0) }
}

/// All metrics of runs, of which `links` are the bottlenecks.
pub(super) fn metrics(runs: &[&Summary], links: &[&LinkResult], reference: usize) -> Vec<Metric> {
    let flows = |name, unit, value: &dyn Fn(&Summary) -> Option<f64>| {
        Metric::new(name, unit, runs.iter().map(|run| value(run)).collect(), reference)
    };
    let queue = |name, unit, value: &dyn Fn(&LinkResult) -> Option<f64>| {
        Metric::new(name, unit, links.iter().map(|link| value(link)).collect(), reference)
    };
    let marked = |link: &LinkResult| Some(link.marked as f64 / link.arrived.max(1) as f64);
    vec![
        flows(GOODPUT, Unit::BitsPerSecond, &|run| Some(run.total.goodput_bps as f64)),
        flows("slowest flow", Unit::BitsPerSecond, &|run| Some(run.total.goodput_min_bps as f64)),
        flows("fastest flow", Unit::BitsPerSecond, &|run| Some(run.total.goodput_max_bps as f64)),
        flows(FAIRNESS, Unit::Index, &|run| Some(run.total.fairness)),
        queue("utilisation", Unit::Share, &|link| link.utilisation),
        queue(MEAN_DELAY, Unit::Nanoseconds, &|link| Some(link.delay_mean_ns as f64)),
        queue("99 % queueing delay", Unit::Nanoseconds, &|link| Some(link.delay_p99_ns as f64)),
        queue("loss", Unit::Share, &|link| Some(link.loss)),
        queue("marked", Unit::Share, &marked),
        flows(RETRANSMITTED, Unit::Count, &|run| Some(run.total.retransmitted as f64)),
        flows("timeouts", Unit::Count, &|run| run.total.timeouts.map(|count| count as f64)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_to_the_reference() {
        let values = vec![Some(99.0), Some(100.0), Some(110.0)];
        let metric = Metric::new(GOODPUT, Unit::Count, values, 1);
        assert_eq!([0, 1, 2].map(|world| metric.difference_text(world)), ["-1.0 %", "", "+10.0 %"]);
        assert_eq!(difference(0.0, 0.0), Some(0.0));
        assert_eq!(difference(1.0, 0.0), None);
    }

    #[test]
    fn what_a_world_does_not_tell_is_left_empty() {
        let metric = Metric::new("timeouts", Unit::Count, vec![Some(3.0), None], 1);
        assert_eq!((metric.text(0), metric.text(1)), ("3".to_owned(), String::new()));
        assert_eq!(metric.differences, [None, None]);
    }
}
