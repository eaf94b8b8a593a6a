//! The answers of estimators as tables and as JSON.

use headway_estimate::Bound;
use headway_estimate::offline::{Answer, Answers, QUANTILES, null_verdicts};
use headway_estimate::stream::TableStream;
use headway_units::Rate;
use headway_units::statistics::closest;
use serde_json::{Map, Value, json};

use super::Scored;
use headway_program::table::table;

/// Formats the scores, and with `each` the answers to every stream.
pub(super) fn text(streams: &[TableStream], scored: &[Scored], overall: Option<Rate>, each: bool) -> String {
    let mut parts = Vec::new();
    if each {
        parts.push(answers(streams, scored));
    }
    let known = streams.iter().filter(|stream| stream.free.is_some()).count();
    parts.extend(rates(scored, known));
    parts.extend(verdicts(streams, scored, known));
    let unlike = |one: &Scored| Some(format!("Refused by {}: {}.", one.estimator.name(), one.outside?));
    parts.extend(scored.iter().filter_map(unlike));
    parts.push(match known {
        0 => format!("{} streams, without the truth (column free_bps).", streams.len()),
        known => format!("{} streams, {known} of them with the truth.", streams.len()),
    });
    parts.extend(overall.map(|free| format!("From the first to the last packet {free} was free.")));
    parts.join("\n")
}

/// Formats the scores of methods that answer with a rate; `None` without them.
fn rates(scored: &[Scored], known: usize) -> Option<String> {
    let mut header: Vec<String> = ["method", "answered", "refused", "median"].map(str::to_owned).to_vec();
    if known > 0 {
        header.push("covering".to_owned());
        header.extend(QUANTILES.map(|percent| format!("p{percent} %")));
    }
    let row = |one: &Scored| {
        let Answers::Rates { median, errors } = &one.score.answers else { return None };
        let mut row = row(one);
        row.push(median.map(|rate| rate.to_string()).unwrap_or_default());
        if known > 0 {
            row.push(errors.len().to_string());
            row.extend(QUANTILES.map(|percent| {
                let error = closest(errors, f64::from(percent) / 100.0);
                error.map(|error| format!("{:+.1}", error * 100.0)).unwrap_or_default()
            }));
        }
        Some(row)
    };
    let rows: Vec<Vec<String>> = scored.iter().filter_map(row).collect();
    let note = "Relative errors of the answers to streams whose rates cover the truth.";
    let note = if known > 0 { format!("\n{note}") } else { String::new() };
    (!rows.is_empty()).then(|| format!("{}{note}", table(header, rows)))
}

/// Formats the scores of methods that judge the rates of streams; `None` without them.
fn verdicts(streams: &[TableStream], scored: &[Scored], known: usize) -> Option<String> {
    let mut header: Vec<String> =
        ["method", "answered", "refused", "above", "not above", "ambiguous"].map(str::to_owned).to_vec();
    if known > 0 {
        header.extend(["judged", "wrong %"].map(str::to_owned));
    }
    let row = |one: &Scored| {
        let Answers::Verdicts { counts, wrong } = &one.score.answers else { return None };
        let mut row = row(one);
        row.extend(counts.map(|count| count.to_string()));
        if known > 0 {
            row.push(wrong.1.to_string());
            row.push(share(*wrong).map(|share| format!("{:.1}", share * 100.0)).unwrap_or_default());
        }
        Some(row)
    };
    let mut rows: Vec<Vec<String>> = scored.iter().filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    if let Some(share) = null_verdicts(streams) {
        let mut null = vec!["null (one verdict for all)".to_owned()];
        null.extend(["", "", "", "", ""].map(str::to_owned));
        null.extend([known.to_string(), format!("{:.1}", share * 100.0)]);
        rows.push(null);
    }
    Some(table(header, rows).to_string())
}

/// Returns the cells that both kinds of methods have.
fn row(one: &Scored) -> Vec<String> {
    let refused: usize = one.score.refused.values().sum();
    vec![one.estimator.name().to_owned(), one.score.answered.to_string(), refused.to_string()]
}

/// Returns the share of wrong verdicts; `None` without any.
fn share((wrong, judged): (usize, usize)) -> Option<f64> {
    (judged > 0).then(|| wrong as f64 / judged as f64)
}

/// Formats the answers to every stream.
fn answers(streams: &[TableStream], scored: &[Scored]) -> String {
    let first = ["stream", "average", "free"].map(str::to_owned);
    let header = first.into_iter().chain(scored.iter().map(|one| one.estimator.name().to_owned()));
    let rows = streams.iter().enumerate().map(|(index, stream)| {
        let free = stream.free.map(|free| free.to_string()).unwrap_or_default();
        let known = [stream.record.id.to_string(), stream.record.average.to_string(), free];
        let answers = scored.iter().map(|one| answer_text(one.answers[index]));
        known.into_iter().chain(answers).collect::<Vec<String>>()
    });
    table(header, rows).to_string()
}

fn answer_text(answer: Answer) -> String {
    match answer {
        Answer::Rate(estimate) => match estimate.bound {
            Bound::AtLeast => format!("at least {}", estimate.rate),
            Bound::AtMost => format!("at most {}", estimate.rate),
            Bound::Within => match estimate.interval {
                Some((low, high)) => format!("{} ({low} to {high})", estimate.rate),
                None => estimate.rate.to_string(),
            },
        },
        Answer::Verdict(decision) => <&str>::from(decision).replace('_', " "),
        Answer::Refused(reason) => reason.to_string(),
    }
}

/// Returns scores and answers as a JSON object.
pub(super) fn value(streams: &[TableStream], scored: &[Scored], overall: Option<Rate>) -> Value {
    let methods: Vec<Value> = scored.iter().map(|one| method_value(streams, one)).collect();
    let answer = |(index, stream): (usize, &TableStream)| {
        let of = |one: &Scored| (one.estimator.name().to_owned(), answer_value(one.answers[index]));
        let answers: Map<String, Value> = scored.iter().map(of).collect();
        json!({
            "stream": stream.record.id,
            "average_bps": stream.record.average.bps(),
            "free_bps": stream.free.map(|free| free.bps()),
            "answers": answers,
        })
    };
    let each: Vec<Value> = streams.iter().enumerate().map(answer).collect();
    let mut value = json!({ "type": "estimates", "build": headway_program::build::BUILD, "streams": streams.len(), "methods": methods, "each": each });
    if let Some(free) = overall {
        value["free_bps"] = json!(free.bps());
    }
    value
}

fn method_value(streams: &[TableStream], one: &Scored) -> Value {
    let reasons = one.score.refused.iter();
    let refused: Map<String, Value> =
        reasons.map(|(reason, count)| (reason.to_string(), json!(count))).collect();
    let mut value = json!({
        "method": one.estimator.name(),
        "answered": one.score.answered,
        "refused": refused,
        "unlike_training": one.outside.map(|outside| outside.to_string()),
    });
    let more = match &one.score.answers {
        Answers::Rates { median, errors } => {
            let at = |percent: u32| {
                Some((format!("p{percent}"), json!(closest(errors, f64::from(percent) / 100.0)?)))
            };
            let quantiles: Option<Map<String, Value>> = QUANTILES.into_iter().map(at).collect();
            json!({
                "median_bps": median.map(|rate| rate.bps()),
                "covering": errors.len(),
                "relative_error": quantiles,
            })
        }
        Answers::Verdicts { counts: [above, not_above, ambiguous], wrong } => json!({
            "above": above,
            "not_above": not_above,
            "ambiguous": ambiguous,
            "judged": wrong.1,
            "wrong_share": share(*wrong),
            "null_wrong_share": null_verdicts(streams),
        }),
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

fn answer_value(answer: Answer) -> Value {
    match answer {
        Answer::Rate(estimate) => {
            let bound = match estimate.bound {
                Bound::AtLeast => "at_least",
                Bound::Within => "within",
                Bound::AtMost => "at_most",
            };
            let mut value = json!({ "bps": estimate.rate.bps(), "bound": bound });
            if let (Value::Object(value), Some((low, high))) = (&mut value, estimate.interval) {
                value.insert("low_bps".to_owned(), json!(low.bps()));
                value.insert("high_bps".to_owned(), json!(high.bps()));
            }
            value
        }
        Answer::Verdict(decision) => json!({ "verdict": <&str>::from(decision) }),
        Answer::Refused(reason) => json!({ "refused": reason.to_string() }),
    }
}
