//! `headway doctor` says the same as what happens when commands run.

use std::os::unix::process::CommandExt as _;

use crate::support::{headway, output, text};
use serde_json::Value;

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// Runs it, and returns its report and exit code.
fn report(arguments: &[&str], as_nobody: bool) -> (Value, Option<i32>) {
    let mut command = headway(&[&["--json", "doctor"], arguments].concat());
    if as_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    let ran = output(&mut command);
    let said = text(&ran.stdout);
    (serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{}", text(&ran.stderr))), ran.status.code())
}

fn row<'a>(report: &'a Value, command: &str) -> &'a Value {
    report["commands"].as_array().unwrap().iter().find(|row| row["command"] == command).unwrap()
}

#[test]
fn every_command_has_a_row_and_the_exit_code_says_whether_one_fails() {
    let (report, code) = report(&[], false);
    let rows = report["commands"].as_array().unwrap();
    assert!(rows.len() >= 18 && rows.iter().all(|row| row["command"] != "doctor"), "{report}");
    let fails = rows.iter().any(|row| row["grade"] == "fails");
    assert_eq!(code, Some(i32::from(fails)));
    for row in rows {
        let has_reason = row["reasons"].as_array().unwrap().iter().any(|reason| reason != "");
        assert_eq!(has_reason, !row["grade"].is_null(), "{row}");
    }
    assert_eq!(row(&report, "estimate")["grade"], Value::Null);
}

#[test]
fn who_asks_about_one_command_hears_of_that_only() {
    let (report, code) = report(&["estimate"], false);
    assert_eq!((report["commands"].as_array().unwrap().len(), code), (1, Some(0)));
    let facts = report["facts"].as_array().unwrap();
    assert!(facts.iter().all(|fact| fact["effects"].as_array().unwrap().is_empty()), "{report}");
    for wrong in ["doctor", "nothing"] {
        assert_eq!(output(&mut headway(&["doctor", wrong])).status.code(), Some(2), "{wrong}");
    }
    let missing = output(&mut headway(&["doctor", "--interface", "no-such-one"]));
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot look at the interface no-such-one"));
}

#[test]
fn a_user_without_privileges_hears_which_are_missing() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can become another user");
        return;
    }
    let (report, code) = report(&["edge", "passive", "measure"], true);
    assert_eq!((row(&report, "edge")["grade"].as_str(), code), (Some("fails"), Some(1)));
    let said = report.to_string();
    for capability in ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"] {
        assert!(said.contains(capability), "{said}");
    }
    let passive = row(&report, "passive");
    assert_eq!(passive["grade"], "limits", "{passive}");
}
