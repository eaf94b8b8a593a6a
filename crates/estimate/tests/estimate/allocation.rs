//! Estimation does not allocate once its memory has grown to the size of a stream.

use std::sync::Arc;

use crate::counting::allocations;
use crate::support::{Path, random_averages, send};
use headway_estimate::Gaps;
use headway_estimate::stream::DelayedAcks;
use headway_estimate::{MultiRate, Scratch, Settings, SingleRate};
use headway_learned::Model;
use headway_learned::stream::Kind;
use headway_units::Duration;
use serde_json::json;

/// A model of the streams of these tests, whose answer is the mean of their features.
fn mean_of_features() -> Arc<Model> {
    let features = Kind::Fft.features(64);
    let file = json!({
        "format": "headway-model", "version": 1, "name": "mean", "task": "multi-rate",
        "input": {"kind": "fft", "gaps": 64, "unit": "ns"},
        "shape": {"rates": 4, "packets-per-rate": 16, "range": 0.5, "packet-wire-bytes": 9038},
        "scaler": null, "interval": null, "domain": null,
        "model": {"type": "linear", "coefficients": vec![1.0 / features as f64; features], "intercept": 0},
        "training": {"data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": null},
    });
    Arc::new(Model::parse(file.to_string().as_bytes()).expect("a model"))
}

#[test]
fn no_estimator_allocates_in_steady_state() {
    let streams = send(Path::usual(1), &random_averages(50, 5.0, 9.0, 1), None);
    let (settings, mut scratch) = (Settings::default(), Scratch::with_model(mean_of_features()));
    let learned = MultiRate::Learned.estimate(&streams[0].record, &settings, &mut scratch);
    assert!(learned.is_ok(), "{learned:?}");
    let mut all = || {
        for stream in &streams {
            for method in MultiRate::ALL.into_iter().chain([MultiRate::Learned]) {
                let _ = method.estimate(&stream.record, &settings, &mut scratch);
            }
            for method in SingleRate::ALL {
                let _ = method.decide(&stream.record, &settings, &mut scratch);
            }
        }
    };
    assert!(allocations(&mut all) > 0, "the first round allocates its memory");
    assert_eq!(allocations(&mut all), 0);
}

#[test]
fn delayed_acknowledgements_do_not_allocate_in_steady_state() {
    let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
    let mut now = 0u32;
    let mut round = || {
        for i in 0..6_400u32 {
            now = now.wrapping_add(10);
            acks.push(Duration::from_us(10), (i % 2 == 0).then_some(now));
            acks.take(64, &mut gaps);
        }
    };
    allocations(&mut round);
    assert_eq!(allocations(&mut round), 0);
}
