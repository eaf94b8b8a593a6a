//! The cost of passive estimation per ACK, with the segments that it acknowledges.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headway_estimate::sabes::{Form, Segment, Settings, Transfer, Way, Windows};
use headway_learned::Model;
use headway_units::{Duration, Instant};
use serde_json::json;

const MSS: u32 = 1_448;
/// ACKs in an iteration: a second of 100 Mb/s.
const ACKS: u64 = 4_065;
/// Segments in flight.
const FLIGHT: u64 = 200;

fn segment(way: Way, us: u64) -> Segment {
    Segment {
        at: Instant::from_ns(us * 1_000),
        way,
        sequence: 1,
        acknowledgement: Some(1),
        payload: 0,
        headers: 52,
        window: 60_000,
        ..Segment::default()
    }
}

/// Gaps as with cross traffic, us.
fn usual_gap(ack: u64) -> u64 {
    150 + ack * 7_919 % 190
}

/// Gaps whose rates are as wide and symmetric as the published rules want them, us.
fn wide_gap(ack: u64) -> u64 {
    15_000 / (20 + ack * 7_919 % 80)
}

/// Returns the segments and ACKs of a full link, an ACK for two segments, with these gaps.
fn trace(acks: u64, gap: fn(u64) -> u64) -> Vec<Segment> {
    let mut trace = Vec::new();
    let mut at = 50_000;
    for ack in 0..acks {
        at += gap(ack);
        for half in 0..2 {
            let number = 2 * ack + half;
            let sequence = (number * u64::from(MSS)) as u32;
            let sent = at - 25_000 + half * 12;
            trace.push(Segment { sequence, payload: MSS, ..segment(Way::Data, sent) });
        }
        let number = ((2 * ack + 2) * u64::from(MSS)) as u32;
        trace.push(Segment { acknowledgement: Some(number), ..segment(Way::Acks, at) });
    }
    trace.sort_by_key(|segment| segment.at);
    trace
}

fn acks_per_second(criterion: &mut Criterion) {
    let trace = trace(ACKS + FLIGHT, usual_gap);
    let mut group = criterion.benchmark_group("ACKs with two segments each");
    group.throughput(Throughput::Elements(ACKS + FLIGHT));
    let tumbling = Windows::Tumbling(Duration::from_ms(200));
    for (name, form, windows) in [
        ("guarded, tumbling", Form::Guarded, tumbling),
        ("literal, tumbling", Form::Literal, tumbling),
        ("guarded, sliding", Form::Guarded, Windows::Sliding),
        ("literal, sliding", Form::Literal, Windows::Sliding),
    ] {
        let settings = Settings { form, windows, ..Settings::default() };
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let mut transfer = Transfer::new(&settings);
                for segment in &trace {
                    black_box(transfer.observe(black_box(segment)));
                }
            });
        });
    }
    group.finish();
}

/// The published rules alone, and with a classifier behind them, where many windows pass.
fn with_a_classifier(criterion: &mut Criterion) {
    let trace = trace(ACKS + FLIGHT, wide_gap);
    let mut group = criterion.benchmark_group("ACKs whose windows pass the rules");
    group.throughput(Throughput::Elements(ACKS + FLIGHT));
    for (name, windows) in
        [("tumbling", Windows::Tumbling(Duration::from_ms(200))), ("sliding", Windows::Sliding)]
    {
        let settings = Settings { form: Form::Literal, windows, ..Settings::default() };
        for (form, model) in [("rules", None), ("rules and network 10-32-32-2", Some(classifier()))] {
            let run = || {
                let mut transfer = Transfer::new(&settings);
                model.iter().for_each(|model| transfer.set_model(Arc::clone(model)));
                for segment in &trace {
                    black_box(transfer.observe(black_box(segment)));
                }
                transfer
            };
            let transfer = run();
            let (used, all) = (transfer.windows().used(), transfer.windows().total());
            assert!(used * 4 > all, "{used} of {all} windows passed");
            group.bench_function(format!("{name}, {form}: {used} of {all}"), |bench| bench.iter(run));
        }
    }
    group.finish();
}

/// A classifier of the published size that takes every mean to be right (wan 2.11).
fn classifier() -> Arc<Model> {
    let layer = |inputs: usize, outputs: usize, activation: &str| {
        let weights: Vec<Vec<f64>> = (0..outputs)
            .map(|unit| (0..inputs).map(|k| ((unit * 7 + k * 3) % 11) as f64 / 5.0 - 1.0).collect())
            .collect();
        // The second class wins.
        let bias = if outputs == 2 { vec![0.0, 1e6] } else { vec![0.1; outputs] };
        json!({"weights": weights, "bias": bias, "activation": activation})
    };
    let file = json!({
        "format": "headway-model", "version": 1, "name": "bench", "task": "sabes-nn",
        "input": {"kind": "histogram", "bins": 10, "unit": "capacity"},
        "shape": null, "scaler": null, "interval": null, "domain": null,
        "model": {"type": "network", "layers": [layer(10, 32, "relu"), layer(32, 32, "relu"), layer(32, 2, "softmax")]},
        "training": {"data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": null},
    });
    Arc::new(Model::parse(file.to_string().as_bytes()).expect("a model"))
}

criterion_group!(benches, acks_per_second, with_a_classifier);
criterion_main!(benches);
