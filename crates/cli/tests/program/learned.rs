//! `--model FILE` of the commands that ask a trained model.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::support::{headway, output, text, write};
use serde_json::{Value, json};

/// A model file of `task` that sees `input` and whose answer is `value`, whatever it sees.
fn model(folder: &Path, task: &str, input: Value, value: f64, change: impl Fn(&mut Value)) -> PathBuf {
    let streams = input["gaps"].as_u64();
    let features = streams.map_or(10, |gaps| 2 * gaps as usize);
    let rates = if task == "multi-rate" { 4 } else { 1 };
    let shape = streams.map(|gaps| {
        json!({"rates": rates, "packets-per-rate": gaps / rates, "range": 0.5, "packet-wire-bytes": 9038})
    });
    let mut file = json!({
        "format": "headway-model", "version": 1, "name": "constant", "task": task, "input": input, "shape": shape,
        "scaler": null, "domain": null,
        "interval": {"kind": "residual", "level": 0.9, "low": -0.25, "high": 0.5},
        "model": {"type": "linear", "coefficients": vec![0; features], "intercept": value},
        "training": {"data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": null},
    });
    if task == "single-rate" {
        file["interval"] = Value::Null;
    }
    change(&mut file);
    write(folder, "model.json", &file.to_string());
    folder.join("model.json")
}

fn raw(unit: &str) -> Value {
    json!({"kind": "raw", "gaps": 64, "unit": unit})
}

fn density() -> Value {
    json!({"kind": "density-draws", "values": 10, "unit": "gigabit", "bandwidth": 0.2})
}

/// A stream of 64 gaps at 5.7, 6.6, 7.6 and 8.7 Gb/s, received as sent.
fn streams(folder: &Path) -> PathBuf {
    let mut table = "stream,index,packet_wire_bytes,average_bps,sent_ns,received_ns\n".to_owned();
    let mut sent = 0.0;
    for index in 0..=64_usize {
        if let Some(sample) = index.checked_sub(1) {
            sent += 9038.0 * 8.0 / [5.7, 6.6, 7.6, 8.7][sample / 16];
        }
        let _ = writeln!(table, "0,{index},9038,6976000000,{sent:.0},{:.0}", sent + 1e6);
    }
    write(folder, "streams.csv", &table);
    folder.join("streams.csv")
}

/// Runs a command that prints JSON.
fn result(arguments: &[&str], model: &Path) -> Value {
    let model = model.to_str().unwrap();
    let output = output(&mut headway(&[arguments, &["--model", model, "--json"]].concat()));
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fails(arguments: &[&str], words: &str) {
    let output = output(&mut headway(arguments));
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{words} is not in\n{said}");
}

#[test]
fn recorded_streams_get_the_answer_of_the_model_and_its_interval() {
    let folder = tempfile::tempdir().unwrap();
    let file = streams(folder.path());
    let file = file.to_str().unwrap();
    let ask = ["estimate", file, "--method", "learned", "--capacity", "8 Gb/s", "--each"];
    let relative = model(folder.path(), "multi-rate", raw("packet-times"), 0.5, |_| {});
    let answer = &result(&ask, &relative)["each"][0]["answers"]["learned"];
    let expected = json!({"bps": 4_000_000_000_u64, "bound": "within", "low_bps": 3_000_000_000_u64, "high_bps": 6_000_000_000_u64});
    assert_eq!(answer, &expected);
    let judge = model(folder.path(), "single-rate", raw("ns"), 0.7, |_| {});
    let answer = &result(&ask, &judge)["each"][0]["answers"]["learned"];
    assert_eq!(answer["verdict"], "above");
    // Without names of methods, the model is one of those that run.
    let all = result(&["estimate", file], &judge);
    assert!(all["methods"].as_array().unwrap().iter().any(|one| one["method"] == "learned"));
}

#[test]
fn streams_unlike_those_of_the_training_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = streams(folder.path());
    let narrow = |file: &mut Value| {
        file["domain"] = json!({
            "statistics": ["log10-send-gap"], "low": [2.0], "high": [3.0], "mean": [2.5], "whiten": [[1]], "limit": 9,
        });
    };
    let model = model(folder.path(), "multi-rate", raw("ns"), 5.0, narrow);
    let ask = ["estimate", file.to_str().unwrap(), "--method", "learned"];
    let found = &result(&ask, &model)["methods"][0];
    assert_eq!(found["refused"]["unlike what the model has seen: the send gaps"], 1);
    let reason = "packets are sent every 10 us on average; the model has seen 100 ns to 1 us";
    assert_eq!(found["unlike_training"], reason);
    let printed = output(&mut headway(&[&ask[..], &["--model", model.to_str().unwrap()]].concat()));
    assert!(text(&printed.stdout).contains(&format!("Refused by learned: {reason}.")), "{printed:?}");
}

#[test]
fn a_simulated_measurement_reads_the_model_beside_its_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let half = |file: &mut Value| file["shape"]["packet-wire-bytes"] = json!(1538);
    model(folder.path(), "multi-rate", raw("packet-times"), 0.5, half);
    let scenario = "duration = \"3 s\"\nwarmup = \"100 ms\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"100 Mb/s\"\n\
                    delay = \"5 ms\"\n[[measure]]\nfrom = \"a\"\nto = \"b\"\nmethod = \"learned\"\nmodel = \"model.json\"\n\
                    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"poisson\"\nrate = \"50 Mb/s\"\n";
    write(folder.path(), "x.toml", scenario);
    let path = folder.path().join("x.toml");
    let output =
        output(headway(&["run", path.to_str().unwrap(), "--on", "sim", "--json"]).current_dir(&folder));
    assert!(output.status.success(), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = &value.pointer("/runs/0/measurements/0").or(value.pointer("/measurements/0")).unwrap();
    assert_eq!(measured["method"], "learned", "{measured}");
    let mbps = |key: &str| measured[key].as_f64().unwrap() / 1e6;
    assert!((mbps("available_bps") - 50.0).abs() < 2.0, "{measured}");
    assert!((mbps("low_bps") / mbps("available_bps") - 0.75).abs() < 1e-3, "{measured}");
    for (wrong, words) in [
        (scenario.replace("method = \"learned\"\n", ""), "`measure[0].model`: is for `method = \"learned\"`"),
        (scenario.replace("model = \"model.json\"\n", ""), "`measure[0].method`: needs the key `model`"),
        (scenario.replace("model.json", "none.json"), "none.json: No such file"),
    ] {
        write(folder.path(), "x.toml", &wrong);
        fails(&["run", path.to_str().unwrap(), "--on", "sim"], words);
    }
}

#[test]
fn a_regression_on_densities_answers_for_all_windows_of_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/limits-cubic-window-receiver.pcap");
    let constant = model(folder.path(), "sabes-kde", density(), 0.005, |_| {});
    let found = &result(&["passive", capture], &constant)["paths"][0];
    assert_eq!(
        (&found["free_bps"], &found["free_low_bps"]),
        (&json!(5_000_000), &json!(3_750_000)),
        "{found}"
    );
    assert!(found["windows_used"].as_u64().unwrap() > 3, "{found}");
    let narrow = |file: &mut Value| {
        file["domain"] = json!({
            "statistics": ["log10-samples"], "low": [5.0], "high": [6.0], "mean": [5.5], "whiten": [[1]], "limit": 9,
        });
    };
    let narrow = model(folder.path(), "sabes-kde", density(), 0.005, narrow);
    let found = result(&["passive", capture], &narrow);
    assert!(found["paths"][0]["windows_refused"]["unseen"].as_u64().unwrap() > 3, "{found}");
    let note = found["notes"].as_array().unwrap().iter().find_map(|note| {
        note.as_str().filter(|note| note.contains("unlike those that the model was trained on"))
    });
    assert!(note.is_some_and(|note| note.ends_with("the model has seen 100000 to 1000000.")), "{found}");
}

#[test]
fn a_model_for_something_else_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let streams = streams(folder.path());
    let streams = streams.to_str().unwrap();
    let path = model(folder.path(), "sabes-kde", density(), 0.5, |_| {});
    let path = path.to_str().unwrap();
    fails(&["measure", "192.0.2.1", "--method", "learned"], "--method learned needs --model FILE");
    fails(&["measure", "192.0.2.1", "--model", path], "--model is for --method learned, not for response");
    let windows = "is a model of TCP samples (sabes-kde)";
    fails(&["measure", "192.0.2.1", "--method", "learned", "--model", path], windows);
    fails(&["estimate", streams, "--method", "learned", "--model", path], windows);
    fails(&["estimate", streams, "--method", "learned"], "--method learned needs --model FILE");
    let stream = model(folder.path(), "multi-rate", raw("ns"), 5.0, |_| {});
    let stream = stream.to_str().unwrap();
    fails(&["passive", streams, "--model", stream], "is a model of probe streams (multi-rate)");
    fails(&["passive", streams, "--model", streams], "no model file: ");
    fails(&["passive", streams, "--model", "/dev/zero"], "cannot read /dev/zero");
}
