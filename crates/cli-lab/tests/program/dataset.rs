//! `headway dataset` as users run it.

use std::path::Path;
use std::process::Output;

use crate::support::{headway, text, write};
use serde_json::Value;

const STREAMS: &str = r#"
rates = 4
packets-per-rate = 8
range = 0.5
averages = { from = 0.3, to = 0.9 }
[[path]]
traffic = [{ model = "bct" }]
coalescing = ["120 us", "2 us"]
runs = 3
test-runs = 1
streams = 20
"#;

const WINDOWS: &str = r#"
windows = { tumbling = "200 ms" }
[[path]]
capacity = "100 Mb/s"
rtts = ["20 ms"]
loads = [0.5]
sources = 30
flows = 4
size = "1 MB"
end = "30 s"
runs = 2
test-runs = 1
"#;

fn dataset(folder: &Path, arguments: &[&str]) -> Output {
    headway(&[&["dataset"], arguments].concat()).current_dir(folder).output().unwrap()
}

/// Returns the columns and the rows of a table.
fn table(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn streams_have_their_gaps_features_and_the_truth_whatever_made_them() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "plan.toml", STREAMS);
    let make = |jobs: &str, output: &str| {
        let made = dataset(
            folder.path(),
            &["p-streams", "plan.toml", "--features", "fft", "--jobs", jobs, "--output", output, "--json"],
        );
        assert!(made.status.success(), "{made:?}");
        serde_json::from_slice::<Value>(&made.stdout).unwrap()
    };
    let (one, three) = (make("1", "one"), make("3", "three"));
    assert_eq!(one["data_sha256"], three["data_sha256"]);
    assert_eq!((one["rows_train"].as_u64(), one["rows_test"].as_u64()), (Some(80), Some(40)));
    let (names, rows) = table(&folder.path().join("one/plan.csv"));
    // What it is, statistics, 2 (N + 1) features, and two gaps a packet.
    assert_eq!(names.len(), 15 + 9 + 2 * 33 + 2 * 32);
    let column = |name: &str| names.iter().position(|one| one == name).unwrap();
    for row in &rows {
        assert_eq!(row.len(), names.len());
        let number = |name: &str| row[column(name)].parse::<f64>().unwrap();
        assert_eq!(row[column("part")], if number("run") % 3.0 == 2.0 { "test" } else { "train" });
        assert_eq!(number("above") == 1.0, number("average_bps") > number("free_bps"));
        // The first feature is the sum of all gaps.
        let first = column("send_gap_ns_0");
        let sum: f64 = row[first..].iter().map(|gap| gap.parse::<f64>().unwrap()).sum();
        assert!((number("x_0") / sum - 1.0).abs() < 1e-6);
    }
    let card = std::fs::read_to_string(folder.path().join("one/plan.md")).unwrap();
    assert!(card.contains(one["data_sha256"].as_str().unwrap()) && card.contains("packets-per-rate = 8"));
}

#[test]
fn windows_have_their_histograms_and_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "plan.toml", WINDOWS);
    let made = dataset(folder.path(), &["sabes", "plan.toml"]);
    assert!(made.status.success(), "{made:?}");
    let (names, rows) = table(&folder.path().join("plan.csv"));
    let first = names.iter().position(|name| name == "histogram_0").unwrap();
    assert!(rows.len() > 10, "{}", rows.len());
    for row in rows {
        let sum: f64 = row[first..first + 10].iter().map(|share| share.parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    }
}

#[test]
fn a_plan_that_is_wrong_is_shown_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let complaint = |plan: &str| {
        write(folder.path(), "plan.toml", plan);
        let made = dataset(folder.path(), &["p-streams", "plan.toml"]);
        assert_eq!(made.status.code(), Some(1), "{made:?}");
        text(&made.stderr)
    };
    let said = complaint(&STREAMS.replace("range = 0.5", "range = 0"));
    assert!(said.contains("plan.toml, line 4") && said.contains("range"), "{said}");
    let said = complaint(&STREAMS.replace("test-runs = 1", "test-runs = 4"));
    assert!(said.contains("line 10") && said.contains("at most `runs`"), "{said}");
    let said = complaint(&STREAMS.replace("streams = 20", "stream = 20"));
    assert!(said.contains("unknown field `stream`"), "{said}");
    assert!(!folder.path().join("plan.csv").exists());
    // The card of a plan that is called `plan.md` would replace it.
    std::fs::rename(folder.path().join("plan.toml"), folder.path().join("plan.md")).unwrap();
    write(folder.path(), "plan.md", STREAMS);
    let made = dataset(folder.path(), &["p-streams", "plan.md"]);
    assert!(text(&made.stderr).contains("would replace the plan"), "{made:?}");
    assert!(std::fs::read_to_string(folder.path().join("plan.md")).unwrap().contains("packets-per-rate"));
    assert!(!folder.path().join("plan.csv").exists());
}
