//! Middleboxes: a process each, which is at work before any flow begins.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use headway_scenario::{MiddleboxEnd, MiddleboxPlan};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Failure, PROGRAM};
use crate::plan::{Plan, PlannedMiddlebox};

/// A middlebox that works.
pub(super) struct Middlebox {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// Starts all middleboxes of a plan, and waits until each works.
pub(super) fn start(plan: &Plan, place: &Path, nodes: &[File]) -> Result<Vec<Middlebox>, Failure> {
    let one = |planned: &PlannedMiddlebox| {
        let mut command = Command::new(place.join(PROGRAM));
        command.args(&plan.middlebox_arguments);
        Middlebox::start(command, &nodes[planned.node], &planned.plan)
    };
    plan.middleboxes.iter().map(one).collect()
}

impl Middlebox {
    /// Starts the program in a namespace. It reads its plan as a line of JSON, and answers with
    /// a line when it works.
    fn start(mut command: Command, node: &File, plan: &MiddleboxPlan) -> Result<Middlebox, Failure> {
        let failed = |error: io::Error| Failure::of("cannot start a middlebox".to_owned(), error);
        let namespace = node.try_clone().map_err(failed)?;
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: the closure makes one system call, which touches no memory of others.
        unsafe { command.pre_exec(move || Ok(setns(&namespace, CloneFlags::CLONE_NEWNET)?)) };
        let mut child = command.spawn().map_err(failed)?;
        let text = serde_json::to_string(plan).map_err(|error| failed(error.into()))?;
        if let Some(input) = &mut child.stdin {
            // One that ended says why on its standard error.
            let _ = writeln!(input, "{text}");
        }
        let output = child.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let mut middlebox = Middlebox { child, output: BufReader::new(output) };
        middlebox.line("cannot start")?;
        Ok(middlebox)
    }

    /// Ends it, and returns what has passed.
    pub(super) fn end(mut self) -> Result<MiddleboxEnd, Failure> {
        // Fails if it has ended too early, which its missing answer shows.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let line = self.line("ended early")?;
        serde_json::from_str(&line)
            .map_err(|error| Failure(format!("a middlebox answers `{line}` ({error})")))
    }

    /// Waits for a line of its output.
    fn line(&mut self, what: &str) -> Result<String, Failure> {
        let mut line = String::new();
        let failed = |error| Failure::of("cannot read what a middlebox says".to_owned(), error);
        if self.output.read_line(&mut line).map_err(failed)? > 0 {
            return Ok(line.trim_end().to_owned());
        }
        let mut words = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors.read_to_string(&mut words).map_err(failed)?;
        }
        Err(Failure(format!("a middlebox {what}: {}", words.trim())))
    }
}
