//! Reproductions.

use std::process::Output;

use super::{run, text};

fn repro(args: &[&str]) -> Output {
    run("repro", args)
}

#[test]
fn the_list_names_every_experiment_with_what_it_is_about() {
    let output = repro(&["--list"]);
    assert!(output.status.success());
    let list = text(&output.stdout);
    for id in ["rapid/G1", "rapid/G6", "rapid/B13", "rapid/A2", "bass/P1", "bass/P11"] {
        assert!(list.contains(id), "{id} is missing in\n{list}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&repro(&["--list", "--json", "bass"]).stdout).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(11));
    assert!(json[0]["last_run"].is_null(), "nothing has run");
}

#[test]
fn an_experiment_prints_its_claims_and_writes_its_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let output = repro(&["rapid/B4", "--output", path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("holds") && printed.contains("Evidence: simulation"), "{printed}");
    for name in ["index.html", "rapid/B4/results.json", "rapid/B4/table.csv", "rapid/B4/figure.svg"] {
        assert!(std::fs::metadata(folder.path().join(name)).expect(name).len() > 200, "{name}");
    }
    let list = repro(&["--list", "--json", "rapid/B4", "--output", path]);
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).expect("JSON");
    assert!(list[0]["last_run"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{list}");
    let again = tempfile::tempdir().expect("a folder");
    let path = again.path().to_str().expect("UTF-8");
    repro(&["rapid/b4", "--jobs", "1", "--json", "--output", path]);
    for name in ["index.html", "rapid/B4/results.json", "rapid/B4/figure.svg"] {
        let read = |folder: &tempfile::TempDir| std::fs::read(folder.path().join(name)).expect(name);
        assert_eq!(read(&folder), read(&again), "{name}");
    }
}

/// The only claim of bass/P5 that fails is explained as a known deviation.
#[test]
fn json_is_one_document_also_when_a_claim_fails() {
    let output = repro(&["bass/P5", "rapid/B4", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    let outcomes = document.as_array().unwrap();
    let all = |outcome: &serde_json::Value| {
        let checks = outcome["checks"].as_array().unwrap();
        checks.iter().all(|check| check["passed"] == true)
    };
    let mut hold: Vec<_> =
        outcomes.iter().map(|outcome| (outcome["id"].as_str().unwrap(), all(outcome))).collect();
    hold.sort_unstable();
    assert_eq!(hold, [("bass/P5", false), ("rapid/B4", true)]);
    assert!(text(&output.stderr).contains("claims failed"));
    let unknown = repro(&["rapid/G99", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&unknown.stdout).expect("one document");
    assert_eq!(error["type"], "error");
}

#[test]
fn an_unknown_name_is_an_error_that_says_where_the_names_are() {
    let output = repro(&["rapid/G99"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--list"));
    assert_eq!(repro(&[]).status.code(), Some(2));
}

#[test]
fn what_only_the_simulator_can_do_is_refused_elsewhere() {
    for world in ["uml", "lab"] {
        let output = repro(&["rapid/B4", "--on", world]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains("rapid/B4 does not run there; try --on sim"), "{said}");
    }
    assert_eq!(repro(&["rapid/B4", "--on", "moon"]).status.code(), Some(2));
}
