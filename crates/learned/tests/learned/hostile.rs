//! Model files that are cut and changed: nothing panics, and whatever is still a model
//! answers or says why not.
//!
//! `HEADWAY_CASES=1000000` runs as many cases instead of 20 000.

use crate::support::{cases, file};
use headway_learned::stream::Gaps;
use headway_learned::{Model, Scratch, Task};
use headway_units::{Bytes, Duration, Rate};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

fn count() -> u64 {
    std::env::var("HEADWAY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20_000)
}

/// Numbers that indices, counts and sums like to fail at.
const EDGES: [f64; 14] = [
    0.0,
    -1.0,
    1.0,
    -2.0,
    7.0,
    65_536.0,
    2_147_483_647.0,
    -2_147_483_648.0,
    4_294_967_295.0,
    1e-320,
    1e300,
    -1e308,
    0.5,
    1.8e19,
];

/// Changes some bytes, inserts, removes and cuts.
fn change_bytes(bytes: &mut Vec<u8>, random: &mut Pcg64Mcg) {
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.random_range(0..bytes.len());
        let other = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] = bytes[other],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + random.random_range(0..40)).min(bytes.len()))),
            _ => {
                let end = (other + random.random_range(0..40)).min(bytes.len());
                let piece = bytes[other..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
        }
    }
}

/// Changes one value somewhere in the file: JSON remains JSON.
fn change_value(value: &mut Value, random: &mut Pcg64Mcg) {
    let stops = random.random_range(0..4) == 0;
    match value {
        Value::Array(items) if !items.is_empty() && !stops => {
            let at = random.random_range(0..items.len());
            change_value(&mut items[at], random);
        }
        Value::Object(fields) if !fields.is_empty() && !stops => {
            let at = random.random_range(0..fields.len());
            if let Some(value) = fields.values_mut().nth(at) {
                change_value(value, random);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = random.random_range(0..items.len());
            if random.random() { drop(items.remove(at)) } else { items.push(items[at].clone()) }
        }
        Value::Number(number) => {
            let edge = EDGES[random.random_range(0..EDGES.len())];
            let near =
                number.as_f64().map_or(edge, |number| number + random.random_range(-2.0..3.0_f64).floor());
            *value = if random.random() { json!(edge) } else { json!(near) };
            // Indices are integers.
            if let Some(whole) = value.as_f64().filter(|one| one.fract() == 0.0 && one.abs() < 1e15) {
                *value = json!(whole as i64);
            }
        }
        other => *other = if random.random() { Value::Null } else { json!([]) },
    }
}

/// Asks a model about everything that it could be for.
fn ask(model: &Model, scratch: &mut Scratch) {
    let features: Vec<f32> = (0..model.features()).map(|k| k as f32 * 1_000.0).collect();
    if let Ok(found) = model.predict(&features, scratch) {
        assert!(found.value.is_finite());
        assert!(found.interval.is_none_or(|(low, high)| low <= found.value && found.value <= high));
    }
    let gaps: Vec<Duration> = (0..8).map(|k| Duration::from_ns(15_000 - 600 * k)).collect();
    let gaps = Gaps { send: &gaps, receive: &gaps };
    let path = (Bytes::new(9_038), Some(Rate::from_mbps(10_000.0)));
    let rates = [1e6, 2e6, 4e6, 9e7];
    let refused = match model.task() {
        Task::MultiRate => model.rate(gaps, path, scratch).err(),
        Task::SingleRate => model.above(gaps, path, scratch).err(),
        Task::SabesNn => model.good(&rates, Rate::from_mbps(100.0), scratch).err(),
        Task::SabesKde => model.density(&rates, None, scratch).err(),
    };
    let _ = refused.map(|reason| reason.to_string());
}

/// Returns the files to begin with: those of the reference, one with all there can be, and one of windows.
fn files() -> Vec<Value> {
    let mut all: Vec<Value> = cases().iter().map(|case| case["model"].clone()).collect();
    let mut full = file("GradientBoostingRegressor", "multi-rate");
    let one = full["model"].clone();
    full["interval"] = json!({"kind": "quantiles", "level": 0.9, "lower": one, "upper": one, "margin": 0.1});
    full["domain"] = json!({
        "statistics": ["log10-send-gap", "send-slope"], "low": [0, 0], "high": [9, 9], "mean": [4, 1],
        "whiten": [[1, 0], [0, 1]], "limit": 9,
    });
    all.push(full);
    all
}

#[test]
fn files_that_were_changed_are_refused_or_answer() {
    let (files, mut random, mut scratch) = (files(), Pcg64Mcg::seed_from_u64(1), Scratch::default());
    let texts: Vec<String> = files.iter().map(Value::to_string).collect();
    let (mut read, all) = (0, count());
    for case in 0..all {
        let which = random.random_range(0..files.len());
        let bytes = if case % 2 == 0 {
            let mut bytes = texts[which].clone().into_bytes();
            change_bytes(&mut bytes, &mut random);
            bytes
        } else {
            let mut file = files[which].clone();
            for _ in 0..random.random_range(1..4) {
                change_value(&mut file, &mut random);
            }
            file.to_string().into_bytes()
        };
        match Model::parse(&bytes) {
            Ok(model) => {
                read += 1;
                ask(&model, &mut scratch);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(read > all / 100, "only {read} of {all} could still be read");
}
