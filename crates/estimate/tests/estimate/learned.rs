//! Measurements with trained models: which streams they send, and what they answer.

use std::sync::Arc;

use crate::path::{Cross, Path};
use headway_estimate::measure::{Answer, Config, Failure, Measurement, Method, Step};
use headway_estimate::{Refusal, Schedule};
use headway_learned::Model;
use headway_units::{Bytes, Duration, Instant, Rate};
use serde_json::{Value, json};

const PACKET: Bytes = Bytes::new(1_538);
const CAPACITY: Rate = Rate::from_bps(100_000_000);

/// A model file of streams of `rates` times 8 gaps, whose answer is `scale` times the mean receive gap less
/// the mean send gap, plus `intercept`; in packet times and with a range of 50 %.
pub(crate) fn file(task: &str, rates: usize, (scale, intercept): (f64, f64)) -> Value {
    let gaps = rates * 8;
    let each = scale / gaps as f64;
    let weights = [vec![-each; gaps], vec![each; gaps]].concat();
    let activation = if task == "single-rate" { "logistic" } else { "identity" };
    json!({
        "format": "headway-model", "version": 1, "name": "growth of gaps", "task": task,
        "input": {"kind": "raw", "gaps": gaps, "unit": "packet-times"},
        "shape": {"rates": rates, "packets-per-rate": 8, "range": 0.5, "packet-wire-bytes": 1538},
        "scaler": null, "interval": null, "domain": null,
        "model": {"type": "network", "layers": [{"weights": [weights], "bias": [intercept], "activation": activation}]},
        "training": {"data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": null},
    })
}

/// Returns the model of a file.
pub(crate) fn model(file: &Value) -> Arc<Model> {
    Arc::new(Model::parse(file.to_string().as_bytes()).expect("a model file"))
}

/// Measures a path of 100 Mb/s with 40 % of cross traffic; returns the last schedule, too.
fn measure(method: Method, model: Option<Arc<Model>>) -> (Answer, Schedule) {
    let config = Config { method, ..crate::measure::config() };
    let mut path = Path::new(CAPACITY, Cross::Poisson, 0.4, Duration::ZERO, 5);
    let mut now = Instant::from_ns(1_000_000_000);
    let mut measurement = Measurement::new(config, now).with_model(model);
    let mut last = None;
    for id in 0.. {
        match measurement.next_step(now) {
            Step::Send(schedule) => {
                let record = path.send(id, now, &schedule);
                now = path.finished(&record) + Duration::from_ms(10);
                measurement.observe(now, &record, None);
                last = Some(schedule);
            }
            Step::Wait(time) => now += time,
            Step::Done => break,
        }
    }
    (measurement.answer(), last.expect("it sends streams"))
}

#[test]
fn a_measurement_sends_the_streams_of_its_model_and_has_its_interval() {
    let mut file = file("multi-rate", 3, (0.0, 0.5));
    file["interval"] = json!({"kind": "residual", "level": 0.9, "low": -0.2, "high": 0.1});
    let (answer, last) = measure(Method::LEARNED, Some(model(&file)));
    let interval = answer.available.expect("an answer");
    let capacity = answer.capacity.expect("trains showed it").mbps();
    assert!((interval.rate.mbps() / capacity - 0.5).abs() < 1e-6);
    assert!((interval.low.mbps() / capacity - 0.4).abs() < 1e-6);
    assert!((interval.high.map_or(0.0, Rate::mbps) / capacity - 0.55).abs() < 1e-6);
    // Four streams of three rates in a row, of which the first does not count.
    assert_eq!((last.gaps.len(), last.packet), (4 * 24, PACKET));
    assert!((last.gaps[0].us() / last.gaps[23].us() - 1.5).abs() < 0.01);
}

#[test]
fn an_answer_is_not_above_the_capacity() {
    let mut file = file("multi-rate", 3, (0.0, 1.3));
    file["interval"] = json!({"kind": "residual", "level": 0.9, "low": -0.1, "high": 0.1});
    let (answer, _) = measure(Method::LEARNED, Some(model(&file)));
    let interval = answer.available.expect("an answer");
    let capacity = answer.capacity.expect("trains showed it");
    assert_eq!((interval.rate, interval.low), (capacity, capacity));
}

#[test]
fn a_model_of_single_rates_drives_a_binary_search() {
    // Ten packets behind a queue that is full grow by less than this share of a packet time.
    let file = file("single-rate", 1, (100.0, -10.0));
    let method = Method::of_model(&model(&file)).expect("a model of streams");
    assert_ne!(method, Method::LEARNED);
    let (answer, last) = measure(method, Some(model(&file)));
    assert_eq!(last.gaps.len(), 8);
    let interval = answer.available.expect("an answer");
    assert!((40.0..80.0).contains(&interval.rate.mbps()), "{interval:?}");
}

#[test]
fn a_path_unlike_those_of_the_training_is_refused_with_the_reason() {
    let mut file = file("multi-rate", 3, (0.0, 0.5));
    file["domain"] = json!({
        "statistics": ["log10-batch-gap"], "low": [2.0], "high": [3.0], "mean": [2.5], "whiten": [[1.0]], "limit": 9.0,
    });
    let (answer, _) = measure(Method::LEARNED, Some(model(&file)));
    let failure = answer.available.expect_err("never seen");
    assert!(matches!(failure, Failure::Unseen(_)));
    let said = failure.to_string();
    assert!(
        said.starts_with("the model has never seen such a path: packets arrive in batches every "),
        "{said}"
    );
    assert!(
        said.contains(" packet times; the model has seen 100.000 packet times to 1000.000 packet times"),
        "{said}"
    );
}

#[test]
fn an_answer_that_no_path_of_the_training_had_is_refused() {
    let mut file = file("multi-rate", 3, (0.0, 0.5));
    let mut measured = |low: f64, high: f64| {
        file["domain"] = json!({
            "statistics": [], "low": [], "high": [], "mean": [], "whiten": [], "limit": 9.0, "free": [low, high],
        });
        measure(Method::LEARNED, Some(model(&file))).0.available
    };
    assert!(measured(0.4, 0.6).is_ok());
    let failure = measured(0.7, 0.8).expect_err("a load of 50 %").to_string();
    assert!(
        failure.contains("50 % of the capacity would be free; the model has seen 70 % to 80 %"),
        "{failure}"
    );
}

#[test]
fn streams_stay_within_the_rates_that_a_model_has_seen() {
    // Between 80 and 90 % of the capacity, where start-up finds less available.
    let mut limited = file("multi-rate", 3, (0.0, 0.5));
    let domain = json!({
        "statistics": ["log10-send-gap"], "low": [-0.9f64.log10()], "high": [-0.8f64.log10()], "mean": [0], "whiten": [[0]],
        "limit": 1,
    });
    limited["domain"] = domain.clone();
    let (answer, last) = measure(Method::LEARNED, Some(model(&limited)));
    let capacity = answer.capacity.expect("trains showed it").mbps();
    assert!((0.8..0.9).contains(&(last.average.mbps() / capacity)), "{}", last.average);
    assert!(answer.available.is_ok(), "{answer:?}");
    let mut limited = file("single-rate", 1, (100.0, -10.0));
    limited["domain"] = domain;
    let method = Method::of_model(&model(&limited)).expect("a model of streams");
    let (answer, last) = measure(method, Some(model(&limited)));
    assert!((0.79..0.91).contains(&(last.average.mbps() / capacity)), "{}", last.average);
    assert!(answer.available.is_ok(), "{answer:?}");
}

#[test]
fn without_a_model_or_with_packets_of_another_size_there_is_no_answer() {
    let (answer, _) = measure(Method::LEARNED, None);
    assert_eq!(answer.available, Err(Failure::Model(Refusal::NoModel)));
    let mut file = file("multi-rate", 3, (0.0, 0.5));
    file["input"]["unit"] = json!("ns");
    file["shape"]["packet-wire-bytes"] = json!(9_038);
    let (answer, _) = measure(Method::LEARNED, Some(model(&file)));
    assert_eq!(answer.available, Err(Failure::Model(Refusal::OtherShape)));
}

#[test]
fn a_model_of_smaller_packets_gets_them() {
    let mut file = file("multi-rate", 3, (0.0, 0.05));
    file["input"]["unit"] = json!("ns");
    file["shape"]["packet-wire-bytes"] = json!(538);
    let (answer, last) = measure(Method::LEARNED, Some(model(&file)));
    assert_eq!(last.packet, Bytes::new(538));
    assert_eq!(answer.available.map(|interval| interval.rate), Ok(Rate::from_mbps(50.0)));
}
