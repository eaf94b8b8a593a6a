//! `headway calc` as users run it.

mod support;

use std::process::{Command, Output};

use support::PROGRAM;

fn calc(args: &[&str]) -> Output {
    Command::new(PROGRAM).arg("calc").args(args).output().expect("the binary runs")
}

fn printed(args: &[&str]) -> String {
    let output = calc(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&printed(args)).expect("JSON")
}

/// The queue of DCTCP in the experiment with the smallest windows, and the windows that LS-AIMD can reach
/// there (ls-aimd 2.19).
#[test]
fn windows_come_with_the_queue_of_those_that_keep_two_segments() {
    let link = ["window", "--rate", "600 Mb/s", "--rtt", "250 us", "--flows", "16", "--mtu", "9000"];
    let text = printed(&link);
    for part in ["0.1299 segments", "queue 3598 us, round trip 3848 us", "down to 0.4903 segments"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let value = json(&[&link[..], &["--scale", "1/128", "--json"]].concat());
    assert_eq!(value["below_floor"], true);
    assert!((value["ls_least_window"].as_f64().expect("a number") - 0.0056).abs() < 1e-4, "{value}");
}

#[test]
fn what_is_required_is_answered_for_what_is_given() {
    let flows = ["required", "--flows", "4", "--mtu", "9000"];
    let text = printed(&[&flows[..], &["--rtt", "10 us", "--segments", "16"]].concat());
    assert!(text.contains("rate 462 Gb/s"), "{text}");
    let value = json(&[&flows[..], &["--rate", "40 Gb/s", "--json"]].concat());
    assert_eq!((value["rtt_ns"].as_i64(), value["rate_bps"].as_u64()), (Some(14_429), None));
    assert_eq!(calc(&flows).status.code(), Some(2));
}

#[test]
fn increases_and_gaps_are_those_of_the_specification() {
    let value = json(&["increase", "--k0", "256", "--ssthresh", "10000", "--json"]);
    assert_eq!(value["fixed_point_q9"], 571_440);
    assert!((value["increase_bytes"].as_f64().expect("a number") - 1116.1).abs() < 0.05, "{value}");
    let text = printed(&["gap", "--window", "724", "--mss", "1448", "--rtt", "100 us"]);
    assert!(text.contains("every       200.0 us"), "{text}");
}

#[test]
fn tables_are_printed_and_counted() {
    let text = printed(&["tables", "q1"]);
    assert!(text.contains("55.44") && !text.contains("Q2"), "{text}");
    let cells = json(&["tables", "--json"]);
    assert_eq!(cells.as_array().map(Vec::len), Some(3 * 3 * 4 + 3 * 7 * 7));
    assert_eq!(cells[0]["printed"], "0.41");
}

#[test]
fn what_would_divide_by_zero_is_a_wrong_argument() {
    let link = |rate, rtt, flows| {
        let output = calc(&["window", "--rate", rate, "--rtt", rtt, "--flows", flows]);
        output.status.code()
    };
    assert_eq!(link("1 Gb/s", "1 ms", "1"), Some(0));
    for (rate, rtt, flows) in [("0", "1 ms", "1"), ("1 Gb/s", "0", "1"), ("1 Gb/s", "1 ms", "0")] {
        assert_eq!(link(rate, rtt, flows), Some(2));
    }
}

/// The vectors of wan-measurements 2.6 and 7, and the gap of a pair behind a bucket of 1600 B (6.3).
#[test]
fn a_token_bucket_comes_with_its_limits() {
    let text = printed(&["tbf", "--burst", "1500 B", "--tick", "250"]);
    assert!(text.contains("3.00 Mb/s at most"), "{text}");
    let value = json(&["tbf", "--rate", "100 Mb/s", "--burst", "1600 B", "--latency", "50 ms", "--json"]);
    assert_eq!(value["tick_least_burst_bytes"], 50_000);
    assert_eq!(value["shaper"]["pair_gap_ns"], 1428 * 80);
    assert_eq!(value["shaper"]["limit_bytes"], 625_000 + 1_600);
    assert_eq!(calc(&["tbf", "--tick", "250"]).status.code(), Some(2));
}
