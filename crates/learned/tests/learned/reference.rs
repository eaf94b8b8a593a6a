//! The answers of scikit-learn.

use crate::support::{REFERENCE, cases, read};
use headway_learned::Scratch;
use headway_learned::stream::{Features, Gaps, Kind};
use headway_units::Duration;
use serde_json::Value;

/// The largest difference, relative to the answer where that is above 1.
const TOLERANCE: f64 = 1e-9;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|one| one.as_f64().expect("a number")).collect()
}

/// Returns the features of every test input for a model file.
fn inputs(file: &Value) -> Vec<Vec<f32>> {
    let kind = file["input"]["kind"].as_str().expect("text");
    let Ok(kind) = kind.parse::<Kind>() else {
        let rows = REFERENCE["windows"][kind].as_array().expect("a list").iter();
        return rows.map(|row| numbers(row).into_iter().map(|one| one as f32).collect()).collect();
    };
    let rows = REFERENCE["gaps"].as_array().expect("a list").iter();
    let features = |row: &Value| {
        let gaps: Vec<Duration> = numbers(row).into_iter().map(|ns| Duration::from_ns(ns as i64)).collect();
        let (send, receive) = gaps.split_at(gaps.len() / 2);
        let features = Features::new(kind, send.len()).expect("a few gaps");
        let mut out = Vec::new();
        let gaps = Gaps { send, receive };
        features.compute(gaps, 1.0, &mut Default::default(), &mut out).expect("the right length");
        out
    };
    rows.map(features).collect()
}

#[test]
fn every_kind_of_model_answers_as_scikit_learn_does() {
    let mut scratch = Scratch::default();
    let mut worst = 0_f64;
    for case in cases() {
        let model = read(&case["model"]);
        let answers = numbers(&case["answers"]);
        assert!(answers.windows(2).any(|pair| pair[0] != pair[1]), "{} answers always alike", model.name());
        for (input, expected) in inputs(&case["model"]).iter().zip(answers) {
            let found = model.predict(input, &mut scratch).expect("a number").value;
            let error = (found - expected).abs() / expected.abs().max(1.0);
            worst = worst.max(error);
            assert!(error < TOLERANCE, "{}: {found} instead of {expected}", model.name());
        }
    }
    println!("the largest difference is {worst:.1e}");
}
