//! Models that answer with a rate.

use headway_estimate::MultiRate;
use headway_figures::{BoxMark, Figure};
use headway_learned::Model;

use super::{Numbers, Others, Seen, answers};
use crate::outcome::Findings;
use crate::statistics::{mean, percent, quantile, sorted};

/// What is said of the errors of one answerer, in percent of the truth.
const QUANTILES: [(&str, f64); 5] =
    [("p5", 0.05), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("p95", 0.95)];

/// Scores a model on the streams whose probing rates cover the truth (rapid 2.16).
pub(super) fn score(numbers: &mut Numbers, who: &str, model: &Model, streams: &[Seen]) {
    let covered = answers(model, streams).filter(|(stream, _)| stream.is_covered());
    let errors = covered.map(|(stream, gbps)| 100.0 * (gbps * 1e9 / stream.available.bps_f64() - 1.0));
    add(numbers, who, errors.collect());
}

/// Scores BASS, the null estimator, and a guess that is the same for all streams: the median of the truth.
pub(super) fn score_others(
    numbers: &mut Numbers,
    who: &dyn Fn(&str) -> String,
    streams: &[Seen],
    others: &mut Others,
) {
    let all = sorted(streams.iter().map(|seen| seen.stream.available.bps_f64()).collect());
    let usual = quantile(&all, 0.5);
    let covered: Vec<&Seen> = streams.iter().filter(|seen| seen.stream.is_covered()).collect();
    let error = |seen: &Seen, bps: f64| 100.0 * (bps / seen.stream.available.bps_f64() - 1.0);
    let bass = |seen: &&Seen| {
        let answer = MultiRate::Bass.estimate(&seen.stream.record, &others.settings, &mut others.scratch);
        answer.ok().map(|answer| error(seen, answer.rate.bps_f64()))
    };
    add(numbers, &who("multi-pass-bass"), covered.iter().filter_map(bass).collect());
    let null = |seen: &&Seen| error(seen, seen.stream.record.average.bps_f64());
    add(numbers, &who("null"), covered.iter().map(null).collect());
    add(numbers, &who("constant"), covered.iter().map(|seen| error(seen, usual)).collect());
}

fn add(numbers: &mut Numbers, who: &str, errors: Vec<f64>) {
    let errors = sorted(errors);
    let mut insert = |what, value| numbers.insert((who.to_owned(), what), value);
    for (what, part) in QUANTILES {
        insert(what, quantile(&errors, part));
    }
    insert("within-10", percent(&errors, |error| error.abs() <= 10.0));
    insert("over-10", percent(&errors, |error| error > 10.0));
    insert("mean-error", mean(&errors.iter().map(|error| error.abs()).collect::<Vec<_>>()));
}

/// Draws the quantiles of all.
pub(super) fn figure(findings: &Findings) -> Figure {
    let names = findings.measures.keys().filter_map(|key| key.strip_suffix("/within-10"));
    let mark = |name: &str| {
        let quantiles = QUANTILES.map(|(what, _)| findings.measures[&format!("{name}/{what}")]);
        let null = name.starts_with("null") || name.starts_with("constant");
        BoxMark { name: name.to_owned(), quantiles, null }
    };
    Figure::Boxes { axis: "relative error of the estimate, %".to_owned(), marks: names.map(mark).collect() }
}
