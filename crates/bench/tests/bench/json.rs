//! `--json`, before and after the name of a command.

use serde_json::Value;

use super::{command, run, text};

#[test]
fn json_may_stand_before_the_command() {
    let output = command(&["--json", "calc", "tbf", "--burst", "1500 B"]).output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A bucket of 1500 B per tick of 4 ms.
    assert_eq!(value["tick_highest_rate_bps"], 3_000_000);
}

#[test]
fn a_command_without_a_json_form_says_so() {
    for args in [&["idle", "--json"][..], &["simulated", "--write-paths", "none", "--json"]] {
        let output = run("accuracy", args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("no JSON form; leave out `--json`"), "{args:?}");
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&error["type"], &error["exit_code"]), (&Value::from("error"), &Value::from(2)));
    }
}
