//! The cost of trained models beside BASS: a stream of 48 gaps from record to estimate, and a
//! window of TCP samples.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use headway_estimate::{MultiRate, Scratch, Settings, StreamRecord};
use headway_learned::stream::{Features, Gaps, Kind};
use headway_learned::{Model, window};
use headway_units::Rate;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

#[path = "../tests/estimate/support/mod.rs"]
mod support;

use support::{PACKET, Path, random_averages, send};

/// Three of the four rates of a stream of 64 gaps.
const GAPS: usize = 48;

fn file(task: &str, input: Value, shape: Value, model: Value) -> Model {
    let file = json!({
        "format": "headway-model", "version": 1, "name": "bench", "task": task, "input": input, "shape": shape,
        "scaler": null, "interval": null, "domain": null, "model": model,
        "training": {"data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": null},
    });
    Model::parse(file.to_string().as_bytes()).expect("a model")
}

/// Returns a complete tree whose nodes compare features with those of random streams, so
/// that every way is taken.
fn tree(depth: u32, seen: &[Vec<f32>], random: &mut Pcg64Mcg) -> Value {
    let (inner, all) = (2_usize.pow(depth) - 1, 2_usize.pow(depth + 1) - 1);
    let (mut feature, mut threshold) = (vec![-1_i64; all], vec![0.0; all]);
    let (mut left, mut right) = (vec![-1_i64; all], vec![-1_i64; all]);
    for node in 0..inner {
        let one = random.random_range(0..seen[0].len());
        feature[node] = one as i64;
        threshold[node] = f64::from(seen[random.random_range(0..seen.len())][one]);
        (left[node], right[node]) = (2 * node as i64 + 1, 2 * node as i64 + 2);
    }
    let value: Vec<f64> = (0..all).map(|_| random.random_range(-1.0..1.0)).collect();
    json!({
        "weight": 0.1, "feature": feature, "threshold": threshold, "left": left, "right": right, "value": value,
    })
}

/// Returns an ensemble of 100 trees as gradient boosting makes it.
fn boosted(depth: u32, seen: &[Vec<f32>]) -> Model {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let trees: Vec<Value> = (0..100).map(|_| tree(depth, seen, &mut random)).collect();
    file(
        "multi-rate",
        json!({"kind": "fft", "gaps": GAPS, "unit": "ns"}),
        json!({"rates": 3, "packets-per-rate": 16, "range": 0.3225, "packet-wire-bytes": PACKET.get()}),
        json!({"type": "trees", "combine": "sum", "base": 5.0, "link": "identity", "trees": trees}),
    )
}

/// Returns the Fourier transforms of streams.
fn features(streams: &[StreamRecord]) -> Vec<Vec<f32>> {
    let plan = Features::new(Kind::Fft, GAPS).expect("a length");
    let (mut gaps, mut scratch) = (headway_estimate::Gaps::default(), Default::default());
    let transform = |stream: &StreamRecord| {
        let mut out = Vec::new();
        stream.gaps(&mut gaps).expect("nothing is lost");
        let both = Gaps { send: &gaps.send, receive: &gaps.receive };
        plan.compute(both, 1.0, &mut scratch, &mut out).expect("48 gaps");
        out
    };
    streams.iter().map(transform).collect()
}

fn streams(criterion: &mut Criterion) {
    // Many different streams, so that branch prediction cannot learn a single one.
    let sent = send(Path::usual(1), &random_averages(1_024, 5.0, 9.0, 1), None);
    let streams: Vec<StreamRecord> = sent.iter().flat_map(|stream| stream.record.split(GAPS)).collect();
    let seen = features(&streams);
    let settings = Settings::default();
    let mut run = |name: &str, method: MultiRate, mut scratch: Scratch| {
        let mut next = streams.iter().cycle();
        let first = method.estimate(&streams[0], &settings, &mut scratch);
        assert!(first.is_ok(), "{name}: {first:?}");
        criterion.bench_function(name, |bench| {
            bench.iter(|| {
                let stream = next.next().expect("the cycle does not end");
                black_box(method.estimate(stream, &settings, &mut scratch))
            });
        });
    };
    run("48 gaps: BASS", MultiRate::Bass, Scratch::default());
    for depth in [3, 5] {
        let model = Arc::new(boosted(depth, &seen));
        run(
            &format!("48 gaps: 100 boosted trees of depth {depth}"),
            MultiRate::Learned,
            Scratch::with_model(model),
        );
    }
}

/// A classifier of windows as published: 10 inputs, twice 32 units, two outputs.
fn classifier() -> Model {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut layer = |inputs: usize, outputs: usize, activation: &str| {
        let mut row = |_| (0..inputs).map(|_| random.random_range(-1.0..1.0)).collect::<Vec<f64>>();
        let weights: Vec<Vec<f64>> = (0..outputs).map(&mut row).collect();
        json!({"weights": weights, "bias": vec![0.1; outputs], "activation": activation})
    };
    let layers = [layer(10, 32, "relu"), layer(32, 32, "relu"), layer(32, 2, "softmax")];
    let input = json!({"kind": "histogram", "bins": 10, "unit": "capacity"});
    file("sabes-nn", input, Value::Null, json!({"type": "network", "layers": layers}))
}

fn windows(criterion: &mut Criterion) {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let windows: Vec<Vec<f32>> = (0..256)
        .map(|_| {
            let mut rates: Vec<f32> = (0..50).map(|_| random.random_range(5e6..1e8)).collect();
            rates.sort_unstable_by(f32::total_cmp);
            rates
        })
        .collect();
    let (model, mut scratch) = (classifier(), headway_learned::Scratch::default());
    let mut next = windows.iter().cycle();
    criterion.bench_function("50 samples: histogram and network 10-32-32-2", |bench| {
        bench.iter(|| {
            let rates = next.next().expect("the cycle does not end");
            black_box(model.good(rates, Rate::from_mbps(100.0), &mut scratch))
        });
    });
    let (mut memory, mut out) = (window::Scratch::default(), Vec::new());
    criterion.bench_function("50 samples: ten values drawn from the density", |bench| {
        bench.iter(|| {
            let rates = next.next().expect("the cycle does not end");
            window::density_draws(rates, 1e9, 0.2, &mut memory, &mut out);
            black_box(out.len())
        });
    });
}

criterion_group!(benches, streams, windows);
criterion_main!(benches);
