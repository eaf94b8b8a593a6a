//! Formulas.

use std::process::Output;

use super::{command, run, text};

fn calc(args: &[&str]) -> Output {
    run("calc", args)
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

/// Four flows whose receivers acknowledge 16 segments at once need 462 Gb/s over 10 us (ls-aimd F59).
#[test]
fn what_is_required_is_answered_for_what_is_given() {
    let flows = ["required", "--flows", "4", "--mtu", "9000"];
    for segments in ["--segments", "--delta"] {
        let text = printed(&[&flows[..], &["--rtt", "10 us", segments, "16"]].concat());
        assert!(text.contains("rate 462 Gb/s"), "{text}");
    }
    let value = json(&[&flows[..], &["--rate", "40 Gb/s", "--json"]].concat());
    assert_eq!((value["rtt_ns"].as_i64(), value["rate_bps"].as_u64()), (Some(14_429), None));
    assert_eq!(calc(&flows).status.code(), Some(2), "neither RTT nor rate is given");
}

/// ls-aimd F58.
#[test]
fn tables_are_those_of_the_thesis() {
    let text = printed(&["tables", "q0", "Q1"]);
    for part in ["5 kb, 0.41", "20 kb, 1.64", "55.44"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(!text.contains("Q2"), "{text}");
    let cells = json(&["tables", "--json"]);
    assert_eq!(cells.as_array().map(Vec::len), Some(3 * 3 * 4 + 3 * 7 * 7));
    assert_eq!((&cells[0]["table"], &cells[0]["printed"]), (&"Q0".into(), &"0.41".into()));
    assert_eq!(calc(&["tables", "Q4"]).status.code(), Some(2));
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

/// The vectors of wan 2.6 and 7, and the gap of a pair behind a bucket of 1600 B (6.3).
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

/// Cells of a JSON array.
fn cells(args: &[&str]) -> Vec<serde_json::Value> {
    json(&[&["explicit"], args, &["--json"]].concat()).as_array().expect("an array").clone()
}

/// The limits and queues of xcp-rcp 2.13: C d0 is 1.25 MB.
#[test]
fn limits_and_queues_of_rcp_are_those_of_the_specification() {
    let limits = cells(&["limits"]);
    assert_eq!(limits.len(), 7);
    let usual = limits.iter().find(|limits| limits["beta"] == 0.226).expect("the usual beta");
    assert!((usual["growth"].as_f64().expect("a number") - 0.0618).abs() < 0.0003, "{usual}");
    assert!(usual["queue_bytes"].as_u64().expect("bytes").abs_diff(1_330_625) < 1_300, "{usual}");
    let queues = cells(&["queue", "--beta", "0.1,0.226", "--growth", "0.01,0.03"]);
    let bytes: Vec<Option<u64>> = queues.iter().map(|cell| cell["queue_bytes"].as_u64()).collect();
    for (bytes, expected) in bytes.iter().zip([Some(156_622), None, Some(60_144), Some(223_167)]) {
        assert_eq!(bytes.is_some(), expected.is_some());
        assert!(bytes.unwrap_or(0).abs_diff(expected.unwrap_or(0)) < 20, "{bytes:?}, not {expected:?}");
    }
    let text = printed(&["explicit", "queue"]);
    assert!(text.contains("none") && text.contains("942661"), "{text}");
}

#[test]
fn recovery_is_calculated_in_both_directions() {
    let growth = cells(&["recovery"]).iter().map(|cell| cell["growth"].as_f64()).collect::<Vec<_>>();
    assert!((growth[0].expect("a number") - 0.0559).abs() < 0.0001, "{growth:?}");
    let longest = json(&["explicit", "recovery", "--growth", "0.0559", "--json"]);
    let bytes = longest["longest_shrinking_queue_bytes"].as_u64().expect("bytes");
    assert!(bytes.abs_diff(2_500_000) < 10_000, "{longest}");
}

/// xcp-rcp 2.14.
#[test]
fn a_wrong_capacity_leaves_a_queue_or_wastes_bandwidth() {
    let believed = "1.2 Mb/s,1.65 Mb/s,3 Mb/s";
    let answers = cells(&["capacity", "--rate", "1.5 Mb/s", "--believed", believed]);
    let queues: Vec<Option<u64>> = answers.iter().map(|answer| answer["queue_bytes"].as_u64()).collect();
    assert_eq!(queues, [Some(0), Some(4032), None]);
    assert_eq!(answers[0]["throughput_bps"], 1_200_000);
}

/// xcp-rcp 2.13: a Normal crowd of 5000 with a deviation of 2 s.
#[test]
fn crowds_are_followed_over_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = folder.path().join("growth.csv");
    let crowd = ["explicit", "crowd", "--arrivals", "normal:peak=10s,sigma=2s", "--json", "--csv"];
    let answer = json(&[&crowd[..], &[csv.to_str().expect("a path")]].concat());
    let seconds = |key: &str| answer[key].as_f64().expect("a time") / 1e9;
    assert!((answer["fastest_growth"].as_f64().expect("a number") - 0.155).abs() < 0.001, "{answer}");
    assert!((seconds("above_limit_from_ns") - 2.6).abs() < 0.1, "{answer}");
    assert!((seconds("above_limit_until_ns") - 8.9).abs() < 0.1, "{answer}");
    let rows = std::fs::read_to_string(csv).expect("rows");
    assert_eq!((rows.lines().next(), rows.lines().count()), (Some("time_ns,flows,growth"), 1 + 221));
}

#[test]
fn the_fluid_settles_and_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let [csv, svg] = ["fluid.csv", "fluid.svg"].map(|name| folder.path().join(name));
    let files = ["--csv", csv.to_str().expect("a path"), "--report", svg.to_str().expect("a path")];
    let fluid = ["explicit", "fluid", "--growth", "0.04", "--json"];
    let answer = json(&[&fluid[..], &files].concat());
    let expected = answer["compensation_queue_bytes"].as_f64().expect("bytes");
    for last in answer["last_queue_bytes"].as_array().expect("two queues") {
        assert!((last.as_f64().expect("bytes") / expected - 1.0).abs() < 0.02, "{answer}");
    }
    assert_eq!(std::fs::read_to_string(csv).expect("rows").lines().count(), 1 + 301);
    assert!(std::fs::read_to_string(svg).expect("a figure").contains("closed form"));
    let crowd = ["explicit", "fluid", "--arrivals", "laplace:peak=20s,b=2s", "--json"];
    let longest = json(&crowd)["longest_queue_bytes"].as_u64().expect("bytes");
    assert!((100_000..1_000_000).contains(&longest), "{longest}");
}

#[test]
fn explicit_numbers_out_of_range_are_refused_with_their_option() {
    let refused: [(&[&str], &str, i32); 9] = [
        (&["limits", "--beta", "1"], "--beta", 2),
        (&["queue", "--growth", "0"], "--growth", 2),
        (&["queue", "--rtt", "0 ms"], "--rtt", 2),
        (&["recovery", "--relative-rtt", "0.5"], "--relative-rtt", 2),
        (&["capacity", "--rate", "1 Mb/s", "--believed", "0 Mb/s"], "--believed", 2),
        (&["crowd", "--arrivals", "erlang:k=0,lambda=1"], "--arrivals", 2),
        (&["crowd"], "--arrivals", 2),
        (&["fluid", "--growth", "0.05", "--alpha", "3"], "--alpha", 2),
        (&["fluid", "--growth", "0.05", "--rtt", "1 us", "--duration", "1 s"], "--duration", 1),
    ];
    for (args, option, code) in refused {
        let output = calc(&[&["explicit"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(option), "{args:?}: {said}");
    }
}

#[test]
fn the_pages_show_what_formulas_print() {
    for page in [include_str!("../../../../docs/explicit.md"), include_str!("../../../../docs/ls-aimd.md")] {
        let shown: Vec<&str> = page.split("```console\n$ headway-bench ").skip(1).collect();
        assert!(!shown.is_empty());
        for shown in shown {
            let (line, rest) = shown.split_once('\n').unwrap();
            let words = shlex::split(line).unwrap();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let printed = command(&words).output().unwrap().stdout;
            assert_eq!(text(&printed), rest.split("```").next().unwrap());
        }
    }
}
