//! Labs as seen by their users.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Clock};

use headway_core::Instant;

pub use crate::control::Live;
use crate::control::{Answer, Request, ask};
use crate::daemon::{READY, Start, log};
use crate::error::Error;
use crate::interface;
use crate::namespace::{self, INTERFACE};
use crate::process::{Process, readable};
use crate::spec::{Cross, Direction, PathSpec, Spec};
use crate::state::{self, LOG, Node, OLD_TRUTH, State, TRUTH};
use crate::truth::Truth;

/// Bringing a lab up takes about 0.1 s; this much longer means that it never will.
const UP_PATIENCE: Duration = Duration::from_secs(30);
/// Taking a lab down takes at most the second that processes in it get to end by themselves.
const DOWN_PATIENCE: Duration = Duration::from_secs(10);

/// How long a lab lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until it is dropped or the process that brought it up ends in any way.
    Owned,
    /// Until somebody takes it down.
    Detached,
}

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    state: State,
    folder: PathBuf,
    /// The daemon, when it is our child.
    child: Option<Child>,
    life: Life,
}

impl Lab {
    /// Brings a lab up with the daemon of this very program, which must be `headway`.
    ///
    /// # Errors
    /// When the scenario is not valid, the name is taken, or the host allows no namespaces.
    pub fn up(spec: &Spec, name: &str, life: Life) -> Result<Lab, Error> {
        let program = std::env::current_exe().map_err(Error::system("find this program's file"))?;
        Lab::up_with(&program, spec, name, life)
    }

    /// Brings a lab up with the daemon of the `headway` binary at `program`.
    ///
    /// # Errors
    /// As for [`Lab::up`].
    pub fn up_with(program: &Path, spec: &Spec, name: &str, life: Life) -> Result<Lab, Error> {
        spec.validate()?;
        let folder = state::folder(name)?;
        let _lock = state::lock()?;
        if let Some(state) = State::read(&folder)
            && state.daemon.alive()
        {
            return Err(Error::AlreadyUp(name.to_owned()));
        }
        state::remove(&folder)?;
        DirBuilder::new().mode(0o700).create(&folder).map_err(|e| Error::file("make", &folder, e))?;
        let started = start(program, spec, name, &folder, life);
        if started.is_err() {
            // The first error is the one to report.
            let _ = state::remove(&folder);
        }
        started
    }

    /// A lab that somebody brought up.
    ///
    /// # Errors
    /// When no lab of this name is up.
    pub fn attach(name: &str) -> Result<Lab, Error> {
        let folder = state::folder(name)?;
        match State::read(&folder) {
            Some(state) if state.daemon.alive() => {
                Ok(Lab { state, folder, child: None, life: Life::Detached })
            }
            _ => Err(Error::NotUp(name.to_owned())),
        }
    }

    /// All labs of this user that are up, in order of their names.
    pub fn list() -> Vec<Lab> {
        state::names().iter().filter_map(|name| Lab::attach(name).ok()).collect()
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The scenario with which it was brought up.
    pub fn spec(&self) -> &Spec {
        &self.state.spec
    }

    /// The two ends of the path.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.state.nodes.iter().map(|(node, _)| node)
    }

    /// The process of the emulator.
    pub fn daemon(&self) -> Process {
        self.state.daemon
    }

    /// The processes that hold the nodes.
    pub fn holders(&self) -> Vec<Process> {
        self.state.nodes.iter().map(|(_, process)| *process).collect()
    }

    /// The IPv4 address of a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn v4(&self, node: &str) -> Result<Ipv4Addr, Error> {
        Ok(self.node(node)?.0.v4)
    }

    /// The IPv6 address of a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn v6(&self, node: &str) -> Result<Ipv6Addr, Error> {
        Ok(self.node(node)?.0.v6)
    }

    /// A command that will run in a node: only its network differs, files and processes are the host's.
    ///
    /// # Errors
    /// When there is no such node, or the lab has gone.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        node: &str,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Command, Error> {
        let (_, holder) = self.node(node)?;
        let mut command = Command::new(program);
        command.args(args);
        namespace::enter(&mut command, *holder, self.state.rootless)?;
        Ok(command)
    }

    /// Makes the receivers of a node's IPv4 connections acknowledge every segment at once.
    ///
    /// # Errors
    /// When there is no such node, or the lab has gone.
    pub fn acknowledge_at_once(&self, node: &str) -> Result<(), Error> {
        let (node, _) = self.node(node)?;
        let [a, b, c, _] = node.v4.octets();
        let route = format!("{a}.{b}.{c}.0/24");
        let line = format!(
            "route change {route} dev {INTERFACE} proto kernel scope link src {} quickack 1\n",
            node.v4
        );
        interface::ip_with(|program| self.command(&node.name, program, ["-batch", "-"]), &node.name, &line)
    }

    /// Replaces all cross traffic and returns since when; start and stop of the sources count from then.
    ///
    /// # Errors
    /// When a source is not valid or the lab has gone.
    pub fn set_cross(&self, cross: &[Cross]) -> Result<Instant, Error> {
        self.since(&Request::SetCross(cross.to_vec()))
    }

    /// Replaces rate, delay, buffer, loss and coalescing and returns since when; what is queued leaves as promised.
    ///
    /// # Errors
    /// When a value is out of its range or the lab has gone.
    pub fn set_path(&self, path: &PathSpec) -> Result<Instant, Error> {
        self.since(&Request::SetPath(Box::new(path.clone())))
    }

    /// What the lab does at present.
    ///
    /// # Errors
    /// When the lab has gone.
    pub fn live(&self) -> Result<Live, Error> {
        match ask(&self.folder, &Request::Status)? {
            Answer::Status(live) => Ok(*live),
            other => Err(unexpected(&other)),
        }
    }

    /// The truth file, which goes when the lab goes.
    pub fn truth_path(&self) -> PathBuf {
        self.folder.join(TRUTH)
    }

    /// All of the truth up to `until` at least, waiting for it; at most a minute ahead.
    ///
    /// After an hour or so a lab forgets the oldest part. For one window of a lab that has been up for long
    /// [`Lab::truth_between`] is much faster.
    ///
    /// # Errors
    /// When the lab has gone or its file cannot be read.
    pub fn truth_until(&self, until: Instant) -> Result<Truth, Error> {
        self.truth_between(Instant::ZERO, until)
    }

    /// The truth of a window at least, waiting for its end; at most a minute ahead.
    ///
    /// # Errors
    /// When the lab has gone or its file cannot be read.
    pub fn truth_between(&self, from: Instant, to: Instant) -> Result<Truth, Error> {
        ask(&self.folder, &Request::Sync(to))?;
        let mut truth = Truth::load_since(&self.truth_path(), from)?;
        let old = self.folder.join(OLD_TRUTH);
        let short = truth.intervals(Direction::Forward).first().is_none_or(|first| first.start > from);
        if short && old.exists() {
            truth.prepend(Truth::load_since(&old, from)?);
        }
        Ok(truth)
    }

    /// Waits until the lab has ended, at most `timeout`; false when it has not.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.state.daemon.wait_gone(timeout)
    }

    /// Takes the lab down: ends what runs in its nodes, then the nodes, and removes its files.
    ///
    /// # Errors
    /// When it does not end or its files cannot be removed.
    pub fn down(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        if let Some(handle) = self.state.daemon.open() {
            let deadline = Clock::now() + DOWN_PATIENCE;
            let asked = handle.signal(libc::SIGTERM);
            if asked.is_err() || !handle.wait_until(deadline) {
                handle.signal(libc::SIGKILL).map_err(Error::system("end the lab's daemon"))?;
                handle.wait_until(Clock::now() + DOWN_PATIENCE);
            }
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
        for holder in self.holders() {
            holder.wait_gone(DOWN_PATIENCE);
        }
        self.life = Life::Detached;
        // A lab of the same name may have come up since.
        let _lock = state::lock()?;
        match State::read(&self.folder) {
            Some(state) if state.daemon.alive() => Ok(()),
            _ => state::remove(&self.folder),
        }
    }

    fn since(&self, request: &Request) -> Result<Instant, Error> {
        match ask(&self.folder, request)? {
            Answer::Since(instant) => Ok(instant),
            other => Err(unexpected(&other)),
        }
    }

    fn node(&self, name: &str) -> Result<&(Node, Process), Error> {
        self.state
            .nodes
            .iter()
            .find(|(node, _)| node.name == name)
            .ok_or_else(|| Error::Node(name.to_owned()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.life == Life::Owned {
            // Whoever wants to know calls `down`.
            let _ = self.end();
        }
    }
}

/// Takes down what is left of a lab, alive or dead; false when there is nothing.
///
/// # Errors
/// As for [`Lab::down`].
pub fn down(name: &str) -> Result<bool, Error> {
    if let Ok(lab) = Lab::attach(name) {
        lab.down()?;
        return Ok(true);
    }
    let folder = state::folder(name)?;
    let there = folder.exists();
    let _lock = state::lock()?;
    state::remove(&folder)?;
    Ok(there)
}

/// The names of all labs of this user, alive or dead.
pub fn names() -> Vec<String> {
    state::names()
}

fn unexpected(answer: &Answer) -> Error {
    Error::Daemon(format!("the lab answered something else: {answer:?}"))
}

fn start(program: &Path, spec: &Spec, name: &str, folder: &Path, life: Life) -> Result<Lab, Error> {
    let mut child = Command::new(program)
        .args(["lab", "daemon"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log(folder)?)
        .spawn()
        .map_err(|e| Error::file("run", program, e))?;
    let owned = life == Life::Owned;
    let line = Start { name: name.to_owned(), folder: folder.to_owned(), owned, spec: spec.clone() };
    let told = tell(&mut child, &line).and_then(|()| hear(&mut child, folder));
    let answer = match told {
        Ok(answer) => answer,
        Err(error) => {
            // It did not get far enough to have made anything that outlives it.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    if answer != READY {
        let _ = child.wait();
        return Err(Error::Daemon(answer));
    }
    if !owned {
        child.stdin = None;
    }
    let state = State::read(folder).ok_or_else(|| Error::NotUp(name.to_owned()))?;
    Ok(Lab { state, folder: folder.to_owned(), child: Some(child), life })
}

fn tell(child: &mut Child, start: &Start) -> Result<(), Error> {
    let mut line = serde_json::to_string(start).unwrap_or_default();
    line.push('\n');
    let Some(input) = &mut child.stdin else { return Ok(()) };
    input.write_all(line.as_bytes()).map_err(Error::system("talk to the lab's daemon"))
}

fn hear(child: &mut Child, folder: &Path) -> Result<String, Error> {
    let silent = || {
        let log = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
        Error::Daemon(format!("the lab's daemon ended during set-up: {}", log.trim()))
    };
    let output = child.stdout.take().ok_or_else(silent)?;
    if !readable(&output, UP_PATIENCE) {
        return Err(Error::Daemon("the lab's daemon does not say that it is ready".to_owned()));
    }
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).map_err(Error::system("hear from the lab's daemon"))?;
    if line.is_empty() { Err(silent()) } else { Ok(line.trim_end().to_owned()) }
}
