//! Statistics over many answers.

use std::collections::BTreeMap;

use headway_units::statistics;
use serde::Serialize;

use super::reliability::{Reliability, reliability};
use super::scored::Scored;

/// Statistics over the answers of one class or of all classes. Shares are of one; values that cannot be
/// computed are `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Tally {
    /// The class.
    pub(super) class: String,
    /// Completed measurements.
    pub(super) measurements: usize,
    /// Measurements with an answer, including bounds.
    pub(super) answers: usize,
    /// Answers that are only lower bounds.
    pub(super) at_least: usize,
    /// Measurements without an answer, by reason.
    pub(super) refusals: BTreeMap<String, usize>,
    /// Answers whose 90 % interval contains the truth.
    #[serde(rename = "held")]
    pub(super) covered: usize,
    /// Whether intervals contain the truth as often as they claim.
    pub(super) reliability: Vec<Reliability>,
    /// Median error, median absolute error, and 95th percentile of the absolute error.
    pub(super) bias: Option<f64>,
    /// See `bias`.
    pub(super) error_median: Option<f64>,
    /// See `bias`.
    pub(super) error_p95: Option<f64>,
    /// Median half width of the intervals.
    pub(super) half_width: Option<f64>,
    /// Answers with an interval narrower than 15 % of the answer to either side, followed by their errors.
    pub(super) narrow: usize,
    /// See `narrow`.
    pub(super) narrow_error_median: Option<f64>,
    /// See `narrow`.
    pub(super) narrow_error_p95: Option<f64>,
    /// Median absolute error of always answering the narrow link's capacity.
    pub(super) null_error_median: Option<f64>,
    /// Median cost: bytes and seconds.
    pub(super) bytes: Option<f64>,
    /// See `bytes`.
    pub(super) seconds: Option<f64>,
    /// Mean number of cross-traffic packets lost because of a measurement.
    pub(super) others_lost: f64,
    /// Longest time that a cross-traffic packet waited because of the median stream;
    /// median over measurements.
    pub(super) waited_median_ms: Option<f64>,
    /// Longest time that a cross-traffic packet waited because of any stream; 95th
    /// percentile over measurements.
    pub(super) waited_p95_ms: Option<f64>,
}

impl Tally {
    /// Computes the statistics of one or several classes, labelled `name`.
    pub(super) fn new(name: &str, scored: &[&Scored]) -> Tally {
        let values = |value: &dyn Fn(&Scored) -> Option<f64>| -> Vec<f64> {
            scored.iter().filter_map(|one| value(one)).collect()
        };
        let absolute = |one: &Scored| one.error().map(f64::abs);
        let narrow = |one: &Scored| absolute(one).filter(|_| one.is_narrow());
        let null = |one: &Scored| Some((one.result.narrow_bps? as f64 - one.free()).abs() / one.scale());
        let count = |is: &dyn Fn(&Scored) -> bool| scored.iter().filter(|one| is(one)).count();
        let mut refusals = BTreeMap::new();
        for reason in scored.iter().filter_map(|one| one.result.failure.as_ref()) {
            *refusals.entry(reason.clone()).or_default() += 1;
        }
        let lost: f64 = scored.iter().map(|one| one.lost).sum();
        let ms = |ns: u64| Some(ns as f64 / 1e6);
        Tally {
            class: name.to_owned(),
            measurements: scored.len(),
            answers: count(&|one| one.rate().is_some()),
            at_least: count(&Scored::is_at_least),
            refusals,
            covered: count(&|one| one.covered() == Some(true)),
            reliability: reliability(scored),
            bias: quantile(values(&Scored::error), 0.5),
            error_median: quantile(values(&absolute), 0.5),
            error_p95: quantile(values(&absolute), 0.95),
            half_width: quantile(values(&|one| Some(one.half()? / one.scale())), 0.5),
            narrow: count(&|one| narrow(one).is_some()),
            narrow_error_median: quantile(values(&narrow), 0.5),
            narrow_error_p95: quantile(values(&narrow), 0.95),
            null_error_median: quantile(values(&null), 0.5),
            bytes: quantile(values(&|one| Some(one.result.bytes as f64)), 0.5),
            seconds: quantile(
                values(&|one| Some((one.result.end_ns - one.result.begin_ns) as f64 / 1e9)),
                0.5,
            ),
            others_lost: lost / scored.len().max(1) as f64,
            waited_median_ms: quantile(values(&|one| ms(one.result.added_delay_ns)), 0.5),
            waited_p95_ms: quantile(values(&|one| ms(one.result.added_delay_max_ns)), 0.95),
        }
    }

    /// Returns the share of answers whose interval contains the truth.
    pub(super) fn coverage(&self) -> Option<f64> {
        (self.answers > 0).then(|| self.covered as f64 / self.answers as f64)
    }

    /// Returns the share of measurements without an answer.
    pub(super) fn refused(&self) -> f64 {
        (self.measurements - self.answers) as f64 / self.measurements.max(1) as f64
    }
}

/// Returns one tally per class, in order of first appearance, and one of all.
pub(super) fn tallies(scored: &[Scored]) -> (Vec<Tally>, Tally) {
    let mut names: Vec<&str> = Vec::new();
    for one in scored {
        if !names.contains(&one.class.as_str()) {
            names.push(&one.class);
        }
    }
    let class = |name: &&str| {
        let members: Vec<&Scored> = scored.iter().filter(|one| one.class == *name).collect();
        Tally::new(name, &members)
    };
    (names.iter().map(class).collect(), Tally::new("all", &scored.iter().collect::<Vec<_>>()))
}

fn quantile(values: Vec<f64>, share: f64) -> Option<f64> {
    statistics::quantile(&statistics::sorted(values), share)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]
    use super::*;
    use serde_json::json;

    /// Returns an answer with its interval in Mb/s on a path with `free` of 100 Mb/s available, or a failure
    /// without one.
    fn scored(class: &str, free: u64, answer: Option<(u64, u64, Option<u64>)>) -> Scored {
        let bps = |mbps: u64| mbps * 1_000_000;
        let claims: Vec<_> = answer
            .iter()
            .map(|(rate, low, high)| {
                let high = high.map(|high| bps((rate + high) / 2));
                json!({ "percent": 50, "low_bps": bps((rate + low) / 2), "high_bps": high })
            })
            .collect();
        let result = json!({
            "measure": 0, "method": "response", "begin_ns": 1_000_000_000u64, "end_ns": 3_000_000_000u64,
            "available_bps": answer.map(|(rate, ..)| bps(rate)),
            "low_bps": answer.map(|(_, low, _)| bps(low)),
            "high_bps": answer.and_then(|(.., high)| high.map(bps)),
            "claims": claims,
            "failure": answer.is_none().then_some("no luck"),
            "capacity_bps": null, "free_bps": bps(free), "tight_link": "a->b",
            "free_without_tcp_bps": bps(free), "narrow_bps": bps(100),
            "streams_used": 3, "streams_refused": 0, "bytes": 2_000_000,
            "added_delay_ns": 1_000_000, "added_delay_max_ns": 4_000_000, "others_lost": 2,
        });
        let result = serde_json::from_value(result).unwrap();
        Scored { class: class.to_owned(), path: "p".to_owned(), least_buffer_packets: 50, lost: 2.0, result }
    }

    #[test]
    fn errors_are_shares_of_what_was_free_or_of_a_quarter_of_the_narrow_link() {
        let all = [
            scored("a", 50, Some((60, 45, Some(65)))),
            scored("a", 50, Some((40, 38, Some(42)))),
            scored("b", 5, Some((10, 4, Some(16)))),
            scored("b", 50, Some((40, 40, None))),
            scored("b", 50, None),
        ];
        let (classes, whole) = tallies(&all);
        let shares = |tally: &Tally| (tally.error_median.unwrap() * 1e3).round();
        assert_eq!(classes.iter().map(shares).collect::<Vec<_>>(), [200.0, 200.0]);
        assert_eq!((whole.measurements, whole.answers, whole.at_least, whole.covered), (5, 4, 1, 3));
        assert_eq!(whole.refusals, BTreeMap::from([("no luck".to_owned(), 1)]));
        assert_eq!((classes[0].bias, classes[0].narrow), (Some(0.0), 1));
        // 10 and 2 relative to 50, and 6 relative to a quarter of 100.
        assert_eq!(whole.half_width, Some(0.2));
        assert_eq!(whole.null_error_median, Some(1.0));
        assert_eq!((whole.others_lost, whole.seconds), (2.0, Some(2.0)));
        assert_eq!((whole.waited_median_ms, whole.waited_p95_ms), (Some(1.0), Some(4.0)));
    }

    #[test]
    fn every_level_is_counted_by_itself() {
        let all = [
            scored("a", 50, Some((50, 30, Some(70)))),
            scored("a", 50, Some((30, 20, Some(60)))),
            scored("a", 50, Some((60, 60, None))),
            scored("a", 50, None),
        ];
        let (_, whole) = tallies(&all);
        assert_eq!(whole.reliability, [Reliability { percent: 50, intervals: 3, covered: 1 }]);
        assert_eq!(whole.coverage(), Some(2.0 / 3.0));
    }
}
