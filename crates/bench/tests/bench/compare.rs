//! Matrices, the simulator compared with itself.

use std::process::{Command, Output, Stdio};
use std::time::Duration as Time;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Keeps every cell below one second of virtual time.
const SHORT: [&str; 4] = ["--set", "duration=400 ms", "--set", "warmup=100 ms"];

fn command(args: &[&str]) -> Command {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/compare.toml");
    super::command(&[&["compare", file], args].concat())
}

fn compare(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

#[test]
fn a_matrix_is_an_array_with_a_verdict_at_its_end() {
    let args = [&["--on", "sim,sim", "--only", "dctcp,100Mb/s", "--jobs", "2", "--json"], &SHORT[..]];
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
    let args = ["--on", "sim,sim", "--only", "reno,1Gb/s", "--jobs", "1"];
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
    let cases: [(&[&str], &str); 4] = [
        (&["--on", "sim"], "--on needs two or three worlds"),
        (&["--quick"], "are for worlds in virtual time"),
        (&["--on", "sim,sim", "--only", "vegas"], "unknown property `vegas`; known: reno, cubic"),
        (&["--only", "cubic,1Gb/s"], "known: reno, cubic, 10 Mb/s, 100 Mb/s, 20 ms"),
    ];
    for (args, words) in cases {
        let output = compare(args);
        let errors = super::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}
