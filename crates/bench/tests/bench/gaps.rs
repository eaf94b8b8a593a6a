//! `headway-bench gaps`. Real gaps need real time, and are only made here, not judged.

use serde_json::Value;

use super::{run, text};

#[test]
fn the_clock_of_bytes_and_the_process_that_spins_meet_what_the_thesis_demands_of_them() {
    let args = ["--mechanisms", "model-pause,model-spin", "--flows", "1", "--runs", "1", "--time", "100 ms"];
    let output = run("gaps", &args);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        out.contains("reached: model-pause: |mean| below 0.4 us and std below 0.5 us (rapid F12) in 4 of 4"),
        "{out}"
    );
    assert!(out.contains("reached: model-spin: mean within (-2 us, 0) (rapid F10) in 4 of 4"), "{out}");
    assert!(!out.contains("NOT"), "{out}");
}

#[test]
fn a_rate_above_the_line_is_refused() {
    let output = run("gaps", &["--mechanisms", "pause", "--line", "100 Mb/s", "--rates", "200 Mb/s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("pause cannot send 200 Mb/s over 100 Mb/s"));
}

#[test]
fn real_mechanisms_send_what_they_are_told() {
    let mechanisms = "tcp-device,timer,spin,pause";
    let args = ["--mechanisms", mechanisms, "--rates", "20 Mb/s", "--flows", "2", "--loads", "quiet"];
    let output = run("gaps", &[&args[..], &["--runs", "1", "--time", "100 ms", "--json"]].concat());
    let stderr = text(&output.stderr);
    if !output.status.success() {
        let reasons = ["run this as root", "capabilit", "kernel", "BPF", "Operation not permitted"];
        assert!(reasons.iter().any(|reason| stderr.contains(reason)), "{stderr}");
        println!("SKIPPED: {stderr}");
        return;
    }
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in rows.as_array().unwrap() {
        // Runs that other programs disturbed are void. How many packets the others send
        // depends on the machine.
        for run in row["runs"].as_array().unwrap() {
            assert!(run["gaps"].as_u64().unwrap() > 0, "{row}");
        }
    }
    assert_eq!(rows.as_array().unwrap().len(), 4);
}
