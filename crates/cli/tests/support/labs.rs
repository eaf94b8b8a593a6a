//! Labs that tests bring up, and the processes of labs.
//!
//! Where the machine allows no namespaces, the tests that need them say so and pass.

use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::SystemTime;

use headway_lab::{Direction, Life, Process};
use headway_scenario::Scenario;
use headway_units::Instant;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{PROGRAM, headway, headway_lab, output, text, write};

/// A path to emulate.
pub const PATH: &str = "[forward]\nrate = \"10 Mb/s\"\n";

/// What a machine says that cannot run labs.
const IMPOSSIBLE: [&str; 2] = ["this host allows neither", "install the package"];

/// Set in a child of a test: its role in its node, which its test `a_role` plays.
pub const ROLE: &str = "HEADWAY_TEST_ROLE";

/// Starts a copy of this test that plays `role` of the caller's file in a node, and waits until it is ready.
#[track_caller]
pub fn play(lab: &headway_lab::Lab, node: &str, role: &str) -> (Child, BufReader<ChildStdout>) {
    let me = std::env::current_exe().unwrap();
    let file = Path::new(Location::caller().file()).with_extension("");
    // A file of its own is a program, and the others are modules of one.
    let module = file.parent().unwrap().file_name().is_some_and(|folder| folder != "tests");
    let module = module.then(|| format!("{}::", file.file_name().unwrap().to_str().unwrap()));
    let role_of = format!("{}a_role", module.unwrap_or_default());
    let mut command = lab.command(node, me, [&role_of, "--exact", "--nocapture"]).unwrap();
    let mut child = command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // The harness prints before it runs the test.
    while !line.ends_with("ready\n") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "{role} ended before it was ready");
    }
    (child, lines)
}

/// A name for a lab that no other test process gives.
pub fn name(what: &str) -> String {
    format!("c{}-{what}", std::process::id())
}

/// Brings up a lab that lasts as long as the value; `None` if this machine cannot run labs.
pub fn bring_up(network: &Scenario, name: &str) -> Option<headway_lab::Lab> {
    match headway_lab::Lab::up_with(&headway_lab(), network, name, Life::Owned) {
        Ok(lab) => Some(lab),
        Err(error) => {
            let sentence = error.to_string();
            assert!(IMPOSSIBLE.iter().any(|reason| sentence.contains(reason)), "{sentence}");
            println!("SKIPPED: {sentence}");
            None
        }
    }
}

/// Does the same with the text of a scenario.
pub fn bring_up_text(scenario: &str, name: &str) -> Option<headway_lab::Lab> {
    bring_up(&Scenario::parse_network(scenario, Path::new("x.toml")).unwrap(), name)
}

/// A command such as `headway cc` in a node, until it is asked to end.
pub struct On {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl On {
    /// Returns the reason if this host does not allow it.
    pub fn new(lab: &headway_lab::Lab, node: &str, arguments: &[&str]) -> Result<On, String> {
        let mut command: Command = lab.command(node, PROGRAM, [arguments, &["--json"]].concat()).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let on = line(&mut lines);
        if on.contains("\"on\"") {
            return Ok(On { child, lines });
        }
        child.wait().unwrap();
        Err(on)
    }

    /// Ends it and returns its counters.
    pub fn end(mut self) -> Value {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        // It may have said something in between.
        let off = loop {
            let said: Value = serde_json::from_str(&line(&mut self.lines)).unwrap();
            if said["event"] == "off" {
                break said;
            }
        };
        assert!(self.child.wait().unwrap().success());
        off["counters"].clone()
    }
}

/// Reads a line without its end.
pub fn line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// A lab as shown by `headway lab status`.
pub struct Lab {
    pub daemon: Process,
    pub holders: Vec<Process>,
    pub folder: PathBuf,
}

/// Returns the lab of this name if it is up.
pub fn find(name: &str) -> Option<Lab> {
    let shown = output(&mut headway(&["lab", "status", "--json"]));
    let labs: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let lab = labs.as_array().unwrap().iter().find(|lab| lab["name"] == name)?;
    let process = |value: &Value| serde_json::from_value::<Process>(value.clone()).unwrap();
    let truth = Path::new(lab["truth"].as_str().unwrap());
    Some(Lab {
        daemon: process(&lab["daemon"]),
        holders: lab["holders"].as_array().unwrap().iter().map(process).collect(),
        folder: truth.parent().unwrap().to_owned(),
    })
}

/// The time as the truth of a lab knows it.
pub fn now() -> Instant {
    Instant::from_ns(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64)
}

/// Whether the emulator was late since `from`, so that numbers are not valid; says so.
pub fn was_late(lab: &headway_lab::Lab, from: Instant) -> bool {
    let to = now();
    let Ok(truths) = lab.truths_between(from, to) else { return true };
    let late = truths.iter().any(|(_, truth)| {
        Direction::BOTH.iter().any(|way| {
            let late = truth.lateness_between(*way, from, to);
            late.very_late_share > 0.01 || late.missed > 0
        })
    });
    if late {
        println!("INVALID: the emulator was late");
    }
    late
}

/// Brings up a detached lab with its scenario in `folder`; `None` if this machine cannot run labs.
pub fn up(folder: &Path, name: &str) -> Option<Lab> {
    let file = write(folder, "path.toml", PATH);
    let made = output(&mut headway(&["lab", "up", &file, "--name", name]));
    let said = text(&made.stderr);
    if IMPOSSIBLE.iter().any(|reason| said.contains(reason)) {
        println!("SKIPPED: {said}");
        return None;
    }
    assert!(made.status.success(), "{said}");
    find(name)
}

pub fn down(name: &str) -> Output {
    output(&mut headway(&["lab", "down", name]))
}

/// Returns the processes that have `mark` in their environment.
pub fn marked(mark: &str) -> Vec<Process> {
    marked_if(mark, |_| true)
}

/// Returns those among them of which something else is true, which is asked first.
pub fn marked_if(mark: &str, is_chosen: impl Fn(i32) -> bool) -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_mark = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    pids.filter(|pid| is_chosen(*pid)).filter(has_mark).filter_map(Process::of).collect()
}
