//! `headway edge history`: what was kept comes out as text, CSV and JSON, and what is no history is refused.

use std::path::Path;
use std::process::{Command, Output};

use headway_edge::snapshot::{DecisionState, LinkState, RateState, Snapshot};
use headway_history::{SIZE, Store, Writer};

use crate::support::PROGRAM;

/// Seconds from 1970 to 2026-11-25 21:35:00 UTC (`date -u -d '2026-11-25 21:35' +%s`).
const BEGIN: u64 = 1_795_642_500;

fn snapshot(second: u64) -> Snapshot {
    let time_ms = (BEGIN + second) * 1_000;
    let available = RateState {
        rate_bps: 30_000_000,
        low_bps: 28_000_000,
        high_bps: 33_000_000,
        age_ms: 0,
        source: "passive".to_owned(),
    };
    let down = LinkState {
        capacity_bps: 50_000_000,
        rate_bps: 20_000_000,
        available: vec![available],
        narrow: Vec::new(),
        ..LinkState::default()
    };
    let decision = DecisionState {
        time_ms,
        flow: 7,
        client: "192.168.1.2:40000".parse().unwrap(),
        server: "192.0.2.1:443".parse().unwrap(),
        behaviour: "bulk".to_owned(),
        strategies: vec!["receive-window".to_owned()],
        sentence: "has a window of 117.8 kB at most, because \u{1b}[2J, its share".to_owned(),
    };
    Snapshot {
        time_ms,
        links: [down, LinkState::default()],
        flows_in_all: 3,
        decisions: vec![decision],
        ..Snapshot::default()
    }
}

fn history(file: &Path, arguments: &[&str]) -> Output {
    let file = file.to_str().unwrap();
    let times = ["--since", "2026-11-25", "--until", "2026-11-25 21:36:00"];
    let mut command = Command::new(PROGRAM);
    command.args(["edge", "history", "--file", file]).args(times).args(arguments);
    command.output().unwrap()
}

fn text(file: &Path, arguments: &[&str]) -> String {
    let output = history(file, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_history_is_read_as_text_csv_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.history");
    let writer = Writer::start(Store::open(&file, SIZE).unwrap()).unwrap();
    (0..3).for_each(|second| writer.push(&snapshot(second)));
    drop(writer);

    // More than an hour is shown in minutes.
    let minutes = text(&file, &[]);
    let last = minutes.lines().last().unwrap();
    assert!(
        last.starts_with("2026-11-25T21:35:02Z   20.0 Mb/s   30.0 Mb/s (28.0 Mb/s to 33.0 Mb/s)"),
        "{minutes}"
    );
    assert_eq!(minutes.lines().count(), 2);

    let csv = text(&file, &["--step", "second", "--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("time_ms,down_bps,up_bps,down_capacity_bps"), "{csv}");
    assert!(
        lines[1].starts_with("1795642500000,20000000,0,50000000,0,30000000,28000000,33000000,,,"),
        "{csv}"
    );

    let decisions = text(&file, &["--decisions"]);
    assert!(
        decisions.starts_with("2026-11-25T21:35:00Z  192.168.1.2:40000 192.0.2.1:443 (bulk) has a window")
    );
    assert!(!decisions.contains('\u{1b}'), "a terminal obeys it: {decisions}");
    let json = text(&file, &["--decisions", "--json"]);
    let first: DecisionState = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first, snapshot(0).decisions[0]);
}

#[test]
fn what_is_no_history_is_said_with_a_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let output = history(&folder.path().join("none"), &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("writes one") && error.contains("No such file"), "{error}");
}
