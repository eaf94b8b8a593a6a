//! Outputs that cannot be written: closed pipes and full devices.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use crate::support::{SIMULATED, headway, write};
use serde_json::Value;

/// Returns a pipe whose reader is closed.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// Runs a command with outputs that cannot be written; returns the exit code and its standard error.
fn status_of(arguments: &[&str], out: Stdio, errors: Stdio, folder: &Path) -> (Option<i32>, String) {
    let mut command = headway(arguments);
    let mut child = command.current_dir(folder).stdout(out).stderr(errors).spawn().unwrap();
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut said).unwrap();
    }
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_closed_output_is_no_failure_and_a_full_one_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "sim.toml", SIMULATED);
    let mut commands = vec![
        vec!["run", "sim.toml", "--on", "sim", "--force"],
        vec!["run", "sim.toml", "--on", "sim", "--json", "--force"],
        vec!["lab", "status", "--json"],
        vec!["lab", "status"],
        vec!["cc", "list"],
        vec!["cc", "status", "--json"],
        vec!["--help"],
        vec!["measure", "--help"],
        vec!["--version"],
    ];
    if headway(&["uml", "path"]).output().unwrap().status.success() {
        commands.push(vec!["uml", "path"]);
    }
    for arguments in commands {
        let (code, said) = status_of(&arguments, closed(), Stdio::piped(), folder.path());
        assert_eq!(code, Some(0), "{arguments:?} closed: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        let (code, said) = status_of(&arguments, full(), Stdio::piped(), folder.path());
        assert_eq!(code, Some(1), "{arguments:?} full: {said}");
        assert!(said.contains("cannot write to standard output: No space left on device"), "{said}");
        let (code, _) = status_of(&arguments, full(), full(), folder.path());
        assert_eq!(code, Some(1), "{arguments:?} with nowhere to say so");
    }
    for errors in [closed(), full()] {
        let (code, _) = status_of(&["run", "none.toml", "--on", "sim"], closed(), errors, folder.path());
        assert_eq!(code, Some(1));
    }
}

#[test]
fn a_measurement_with_a_closed_or_full_output_ends_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = headway(&["serve", "--bind", "127.0.0.1", "--port", "0", "--json"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = serde_json::from_str::<Value>(&line).unwrap()["port"].to_string();
    let measure = ["measure", "127.0.0.1", "--port", &port, "--json", "--duration", "500ms"];
    let closed = status_of(&measure, closed(), Stdio::piped(), folder.path());
    let full = status_of(&measure, full(), Stdio::piped(), folder.path());
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(closed.0, Some(0), "{}", closed.1);
    assert!(!closed.1.contains("panicked") && !full.1.contains("panicked"));
    assert_eq!(full.0, Some(1));
    assert!(full.1.contains("cannot write to standard output"), "{}", full.1);
}

#[test]
fn a_command_without_a_json_form_says_so() {
    let none: [&[&str]; 9] = [
        &["demo"],
        &["lab", "up", "x.toml"],
        &["lab", "down"],
        &["lab", "set", "x", "forward.delay=1 ms"],
        &["lab", "run", "x.toml", "--", "true"],
        &["lab", "exec", "client", "--", "true"],
        &["cc", "stop"],
        &["uml", "path"],
        &["uml", "clean"],
    ];
    for arguments in none {
        let output = headway(&[&["--json"], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("no JSON form; leave out `--json`"), "{arguments:?}: {said}");
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&error["type"], &error["exit_code"]), (&Value::from("error"), &Value::from(2)));
    }
    for other in ["--csv", "--watch"] {
        let output = headway(&["measure", "127.0.0.1", "--json", other]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{other}");
    }
    let before = headway(&["--json", "lab", "status"]).output().unwrap();
    assert!(serde_json::from_slice::<Value>(&before.stdout).unwrap().is_array());
}
