//! `headway compare` as users run it: real processes, the simulator compared with itself.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::PROGRAM;
use serde_json::Value;
use tempfile::TempDir;

/// Keeps every cell below one second of virtual time.
const SHORT: [&str; 4] = ["--set", "duration=400 ms", "--set", "warmup=100 ms"];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("compare").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/compare.toml"));
    command.args(args);
    command
}

fn compare(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

#[test]
fn a_world_equals_itself() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("new").join("folder");
    let args = [&["--on", "sim,sim,sim", "--check", "--output", out.to_str().unwrap()], &SHORT[..]].concat();
    let printed = compare(&args);
    assert!(printed.status.success(), "{printed:?}");
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    for words in ["client->server", "Jain's index", "+0.0 %", "sim is within its bands.", "times as fast"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
    let json: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("compare.json")).unwrap()).unwrap();
    assert_eq!(json["worlds"].as_array().unwrap().len(), 3);
    assert_eq!((&json["reference"], &json["within"]), (&Value::from("sim"), &Value::from(true)));
    assert_eq!(json["metrics"][0]["differences"], serde_json::json!([0.0, 0.0, null]));
}

#[test]
fn mistakes_are_sentences() {
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--on", "sim"], 1, "--on needs two or three worlds"),
        (&["--on", "sim,sim,sim,sim"], 1, "--on needs two or three worlds"),
        (&["--on", "sim,sim", "--matrix"], 2, "--matrix"),
        (&["--on", "sim,sim", "--jobs", "2"], 2, "--controllers"),
    ];
    for (args, code, words) in cases {
        let output = compare(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}

#[test]
fn controllers_are_compared_in_one_world() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let args = [
        "--on",
        "sim",
        "--controllers",
        "cubic,bbr,reno",
        "--repeat",
        "2",
        "--output",
        out.to_str().unwrap(),
    ];
    let printed = compare(&[&args, &SHORT[..]].concat());
    assert!(printed.status.success(), "{printed:?}");
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    for words in ["goodput", "95 % delay", "bbr", "- highest", "Medians over seeds 1 to 2.", "client->server"]
    {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(read("controllers.svg").starts_with("<svg") && read("report.html").contains("<svg"));
    let json: Value = serde_json::from_str(&read("compare.json")).unwrap();
    assert_eq!(json["controllers"].as_array().unwrap().len(), 3);
    assert_eq!(json["controllers"][2]["controller"], "reno");
}

#[test]
fn a_comparison_of_controllers_says_what_it_cannot_do() {
    let cases: [(&[&str], &str); 6] = [
        (&["--controllers", "cubic,copa"], "--controllers: `copa` is not `reno`"),
        (&["--controllers", "cubic"], "--controllers needs two to 8 names"),
        (&["--controllers", "cubic,reno", "--on", "sim,lab"], "--controllers needs one world"),
        (
            &["--controllers", "cubic,reno", "--flow", "3"],
            "--flow: the scenario has 1 [[flow]], counted from 0",
        ),
        (&["--controllers", "cubic,reno", "--check"], "cannot be used with"),
        (&["--flow", "0"], "required"),
    ];
    for (args, words) in cases {
        let output = compare(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{words} is not in\n{said}");
    }
}
