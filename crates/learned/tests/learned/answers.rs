//! What models answer to streams and windows, and when they do not.

use crate::support::{file, read, refusal};
use headway_learned::stream::Gaps;
use headway_learned::{Model, NoAnswer, Outside, Scratch, Task};
use headway_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

const PACKET: Bytes = Bytes::new(9_038);

fn us(gaps: &[i64]) -> Vec<Duration> {
    gaps.iter().copied().map(Duration::from_us).collect()
}

/// A model of streams of 4 gaps, whose answer is the mean receive gap minus `less`.
fn mean_receive_gap(unit: &str, less: f64) -> Value {
    let mut file = file("ElasticNet", "multi-rate");
    file["input"] = json!({"kind": "raw", "gaps": 4, "unit": unit});
    file["shape"] = json!({"rates": 2, "packets-per-rate": 2, "range": 0.5, "packet-wire-bytes": 9038});
    file["scaler"] = Value::Null;
    file["model"] =
        json!({"type": "linear", "coefficients": [0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25], "intercept": -less});
    file
}

/// Asks about a stream of 15 and 10 us gaps with these receive gaps.
fn ask(
    model: &Model,
    receive: &[i64],
    capacity: Option<Rate>,
) -> Result<(Rate, Option<(Rate, Rate)>), NoAnswer> {
    let (send, receive) = (us(&[15, 15, 10, 10]), us(receive));
    let gaps = Gaps { send: &send, receive: &receive };
    model.rate(gaps, (PACKET, capacity), &mut Scratch::default()).map(|found| (found.value, found.interval))
}

#[test]
fn an_answer_in_nanoseconds_is_a_rate_in_gigabits() {
    let model = read(&mean_receive_gap("ns", 9_998.0));
    assert_eq!(ask(&model, &[10; 4], None), Ok((Rate::from_mbps(2_000.0), None)));
    assert_eq!(ask(&model, &[9; 4], None), Ok((Rate::ZERO, None)), "no rate is negative");
}

#[test]
fn an_answer_in_packet_times_is_a_share_of_the_capacity() {
    let model = read(&mean_receive_gap("packet-times", 0.0));
    // A packet takes 20 us.
    let capacity = Rate::from_bps(9_038 * 8 * 50_000);
    assert_eq!(ask(&model, &[10; 4], Some(capacity)), Ok((capacity.scale(0.5), None)));
    assert_eq!(ask(&model, &[10; 4], None), Err(NoAnswer::NoCapacity));
}

#[test]
fn an_answer_in_send_gaps_is_a_share_of_the_rate_and_needs_no_capacity() {
    let model = read(&mean_receive_gap("send-gaps", 0.0));
    // The mean of 15, 15, 10 and 10 us is 12.5.
    let average = Rate::from_bps(9_038 * 8 * 80_000);
    for (receive, share) in [(10, 0.8), (25, 2.0)] {
        let (rate, _) = ask(&model, &[receive; 4], None).expect("it needs no capacity");
        assert!((rate.bps_f64() / average.scale(share).bps_f64() - 1.0).abs() < 1e-6, "{rate:?}");
    }
}

#[test]
fn streams_of_another_shape_are_refused() {
    let model = read(&mean_receive_gap("ns", 0.0));
    let mut scratch = Scratch::default();
    let mut ask = |send: &[i64], packet| {
        let (send, receive) = (us(send), us(&vec![10; send.len()]));
        model.rate(Gaps { send: &send, receive: &receive }, (packet, None), &mut scratch).map(|_| ())
    };
    assert_eq!(ask(&[15, 15, 10, 10], PACKET), Ok(()));
    assert_eq!(ask(&[15, 15, 12, 10, 10], PACKET), Err(NoAnswer::OtherLength(5, 4)));
    assert_eq!(ask(&[10, 10, 10, 10], PACKET), Err(NoAnswer::OtherShape));
    assert_eq!(ask(&[15, 15, 10, 10], Bytes::new(1_538)), Err(NoAnswer::OtherShape));
}

#[test]
fn a_model_of_another_task_says_so() {
    let (send, receive) = (us(&[15, 15, 10, 10]), us(&[10; 4]));
    let gaps = Gaps { send: &send, receive: &receive };
    let (multi, windows) = (read(&mean_receive_gap("ns", 0.0)), read(&file("MLPClassifier", "sabes-nn")));
    let mut scratch = Scratch::default();
    assert_eq!(multi.above(gaps, (PACKET, None), &mut scratch), Err(NoAnswer::OtherTask("multi-rate")));
    let refused = multi.good(&[1.0], Rate::ZERO, &mut scratch);
    assert_eq!(refused, Err(NoAnswer::OtherTask("multi-rate")));
    let refused = windows.rate(gaps, (PACKET, None), &mut scratch);
    assert_eq!(refused, Err(NoAnswer::OtherTask("sabes-nn")));
    let refused = windows.density(&[1.0], None, &mut scratch);
    assert_eq!(refused, Err(NoAnswer::OtherTask("sabes-nn")));
}

#[test]
fn an_interval_of_residuals_is_a_share_of_the_answer() {
    let mut file = mean_receive_gap("ns", 9_998.0);
    file["interval"] = json!({"kind": "residual", "level": 0.9, "low": -0.5, "high": 0.25});
    let expected = (Rate::from_mbps(1_000.0), Rate::from_mbps(2_500.0));
    assert_eq!(ask(&read(&file), &[10; 4], None), Ok((Rate::from_mbps(2_000.0), Some(expected))));
}

#[test]
fn an_interval_of_quantiles_is_widened_by_its_margin_and_holds_the_answer() {
    let mut file = mean_receive_gap("ns", 9_998.0);
    let constant =
        |value: f64| json!({"type": "linear", "coefficients": [0, 0, 0, 0, 0, 0, 0, 0], "intercept": value});
    file["interval"] = json!({"kind": "quantiles", "level": 0.9, "lower": constant(1.5), "upper": constant(1.75), "margin": 0.125});
    let expected = (Rate::from_mbps(1_375.0), Rate::from_mbps(2_000.0));
    assert_eq!(ask(&read(&file), &[10; 4], None), Ok((Rate::from_mbps(2_000.0), Some(expected))));
}

#[test]
fn a_stream_unlike_those_of_the_training_is_refused_with_the_reason() {
    let mut file = mean_receive_gap("ns", 0.0);
    file["domain"] = json!({
        "statistics": ["log10-batch-gap"], "low": [3.0], "high": [4.5], "mean": [4.0], "whiten": [[2.0]], "limit": 0.5,
    });
    let model = read(&file);
    assert!(ask(&model, &[10; 4], None).is_ok());
    let outside = |receive: &[i64]| match ask(&model, receive, None) {
        Err(NoAnswer::Unseen(outside)) => outside,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        outside(&[400, 0, 0, 0]).to_string(),
        "packets arrive in batches every 400 us; the model has seen 1 us to 32 us"
    );
    assert!(matches!(outside(&[30; 4]), Outside::Distance { .. }), "twice 0.48 from the mean");
}

#[test]
fn an_answer_that_is_no_number_is_refused() {
    let mut file = mean_receive_gap("ns", 0.0);
    file["model"]["coefficients"] = json!([0, 0, 0, 0, 1e308, 1e308, 0, 0]);
    assert_eq!(ask(&read(&file), &[10; 4], None), Err(NoAnswer::NotFinite));
}

#[test]
fn a_classifier_of_windows_gives_a_probability_and_knows_where_it_was_trained() {
    let mut file = file("MLPClassifier", "sabes-nn");
    let rates: Vec<f32> = (0..20).map(|k| 5e6 * k as f32).collect();
    let mut scratch = Scratch::default();
    let capacity = Rate::from_mbps(100.0);
    let found = read(&file).good(&rates, capacity, &mut scratch).expect("an answer");
    assert!((0.0..=1.0).contains(&found));
    file["domain"] = json!({
        "statistics": ["log10-capacity-gbps"], "low": [-1.1], "high": [-0.9], "mean": [-1.0], "whiten": [[1.0]], "limit": 1,
    });
    let model = read(&file);
    assert_eq!(model.good(&rates, capacity, &mut scratch), Ok(found));
    let refused = model.good(&rates, Rate::from_mbps(500.0), &mut scratch).expect_err("never seen");
    assert_eq!(refused.to_string(), "the capacity is 500 Mb/s; the model has seen 79.4 Mb/s to 126 Mb/s");
}

#[test]
fn a_regression_on_densities_needs_the_capacity_only_where_it_counts_in_it() {
    let mut file = file("MLPRegressor", "sabes-kde");
    let rates: Vec<f32> = (0..20).map(|k| 500e6 + 1e6 * k as f32).collect();
    let mut scratch = Scratch::default();
    let found = read(&file).density(&rates, None, &mut scratch).expect("an answer").value;
    assert!(found <= Rate::from_mbps(5_000.0));
    file["input"] = json!({"kind": "density-heights", "values": 10, "unit": "capacity", "bandwidth": 0.2});
    let model = read(&file);
    assert_eq!(model.density(&rates, None, &mut scratch), Err(NoAnswer::NoCapacity));
    assert!(model.density(&rates, Some(Rate::from_mbps(1_000.0)), &mut scratch).is_ok());
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let forest = || file("RandomForestRegressor", "multi-rate");
    let changed = |path: &str, value: Value| {
        let mut file = forest();
        *file.pointer_mut(path).expect("a value of the file") = value;
        refusal(&file)
    };
    let cases = [
        ("/format", json!("onnx"), "`format` is not `headway-model`"),
        ("/version", json!(2), "`version` is 2; this program reads version 1"),
        ("/name", json!("two\nlines"), "`name` must be one line of at most 200 bytes"),
        ("/input/gaps", json!(0), "`input.gaps` must be 1 to 1024"),
        ("/input/gaps", json!(9), "`shape` has 8 gaps, and `input.gaps` is 9"),
        ("/shape", Value::Null, "`shape` is missing; streams have one"),
        ("/shape/range", json!(-1), "`shape.range` must be 0 to 100"),
        ("/task", json!("sabes-nn"), "`input` does not suit the task sabes-nn"),
        ("/task", json!("single-rate"), "`shape.rates` must be 1 for the task single-rate"),
        ("/model/trees", json!([]), "`model.trees` has 0 trees; 1 to 10000 are possible"),
        (
            "/model/trees/1/feature/0",
            json!(18),
            "`model.trees[1].feature[0]` is 18; there are 18 features, and -1 for leaves",
        ),
        (
            "/model/trees/1/feature/0",
            json!(-2),
            "`model.trees[1].feature[0]` is -2; there are 18 features, and -1 for leaves",
        ),
        ("/model/trees/1/weight", json!(-1), "`model.trees[1].weight` is negative"),
        (
            "/interval",
            json!({"kind": "residual", "level": 0.8, "low": 0, "high": 0}),
            "`interval.level` must be 0.9, as that of all intervals",
        ),
        (
            "/interval",
            json!({"kind": "residual", "level": 0.9, "low": 1, "high": 0}),
            "`interval.low` must be at least -1 and at most `high`",
        ),
        (
            "/domain",
            json!({"statistics": ["luck"], "low": [0], "high": [1], "mean": [0], "whiten": [[1]], "limit": 1}),
            "`domain.statistics[0]` is none of log10-send-gap, ",
        ),
        (
            "/domain",
            json!({"statistics": ["send-slope"], "low": [0], "high": [1], "mean": [0], "whiten": [[1, 2]], "limit": 1}),
            "`domain.whiten[0]` has 2 entries, and there are 1 statistics",
        ),
        (
            "/scaler",
            json!({"mean": [0], "scale": [1]}),
            "`scaler.mean` has 1 entries, and there are 18 features",
        ),
    ];
    for (path, value, expected) in cases {
        let found = changed(path, value);
        assert!(found.starts_with(expected), "{path}: {found}");
    }
}

#[test]
fn a_tree_with_a_cycle_is_refused() {
    let mut file = file("RandomForestRegressor", "multi-rate");
    let count = file["model"]["trees"][0]["left"].as_array().map_or(0, Vec::len);
    for child in [json!(0), json!(-1), json!(count), json!(-5)] {
        file["model"]["trees"][0]["left"][0] = child;
        let found = refusal(&file);
        assert!(
            found.starts_with("`model.trees[0].left[0]` is ") && found.contains("children come after"),
            "{found}"
        );
    }
}

#[test]
fn what_is_no_json_of_this_form_is_said_with_its_line() {
    let whole = file("ElasticNet", "multi-rate").to_string();
    let fails = |text: &str| Model::parse(text.as_bytes()).expect_err("it is wrong").to_string();
    assert!(fails(&whole[..whole.len() / 2]).contains("EOF while parsing"));
    assert!(
        fails(&whole.replacen("\"intercept\":", "\"intercept\":NaN,\"x\":", 1)).contains("line 1 column")
    );
    assert!(fails(&whole.replacen("\"intercept\"", "\"intercepts\"", 1)).contains("intercepts"));
    assert!(
        fails(&whole.replacen("\"intercept\":", "\"intercept\":1e999,\"x\":", 1)).contains("out of range")
    );
    let long = " ".repeat(Model::MOST_BYTES + 1);
    assert!(fails(&long).contains("a model file has at most"));
    assert_eq!(read(&file("ElasticNet", "multi-rate")).task(), Task::MultiRate);
}
