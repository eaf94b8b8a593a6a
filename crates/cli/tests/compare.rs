//! `headway compare` as users run it: real processes, the simulator compared with itself.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration as Time;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::PROGRAM;
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
fn a_matrix_is_an_array_with_a_verdict_at_its_end() {
    let args =
        [&["--on", "sim,sim", "--matrix", "--only", "dctcp,100Mb/s", "--jobs", "2", "--json"], &SHORT[..]];
    let printed = compare(&args.concat());
    assert!(printed.status.success(), "{printed:?}");
    let all: Vec<Value> = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(all.len(), 4 * 3 * 2 + 1);
    assert_eq!(all[0]["cell"], serde_json::json!(["dctcp", "100 Mb/s", "1 ms", "0.25 BDP", "1 flow"]));
    assert_eq!(all[24]["reached"], true);
    assert!(all[24]["build"].is_string());
    let errors = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert_eq!(errors.lines().count(), 24, "{errors}");
    assert!(errors.contains("24 of 24: dctcp, 100 Mb/s"), "{errors}");
}

#[test]
fn an_interrupted_matrix_prints_what_it_has() {
    // The cells at 1 Gb/s take long enough that some are not done yet.
    let args = ["--on", "sim,sim", "--matrix", "--only", "reno,1Gb/s", "--jobs", "1"];
    let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("1 of 24: ") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut errors, &mut line).unwrap(), 0, "it ended");
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    std::thread::sleep(Time::from_millis(50));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("reno, 1 Gb/s, 1 ms") && text.contains("of 24 cells."), "{text}");
}

#[test]
fn mistakes_are_sentences() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--on", "sim"], 1, "--on needs two or three worlds"),
        (&["--on", "sim,sim,sim,sim"], 1, "--on needs two or three worlds"),
        (&["--matrix", "--quick"], 1, "are for worlds in virtual time"),
        (&["--on", "sim,sim", "--quick"], 2, "--matrix"),
        (
            &["--on", "sim,sim", "--matrix", "--only", "vegas"],
            1,
            "unknown property `vegas`; known: reno, cubic",
        ),
        (&["--matrix", "--only", "cubic,1Gb/s"], 1, "known: reno, cubic, 10 Mb/s, 100 Mb/s, 20 ms"),
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
        (&["--controllers", "cubic,reno", "--matrix"], "cannot be used with"),
        (&["--flow", "0"], "required"),
    ];
    for (args, words) in cases {
        let output = compare(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{words} is not in\n{said}");
    }
}
