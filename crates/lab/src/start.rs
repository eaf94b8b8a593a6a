//! Starting the daemon of a lab and waiting until the lab is up.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use serde::{Deserialize, Serialize};

use crate::base::{Base, Folder, Lock};
use crate::error::Error;
use crate::process::{Process, readable};
use crate::spec::Spec;
use crate::state::{LOG, State};

/// Bringing a lab up takes about 0.1 s; a daemon that takes longer than this has hung.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The start line: what the starter writes to the daemon's standard input, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) name: String,
    /// The descriptor of the lock that marks the lab as in use; the daemon inherits it.
    pub(crate) lock: RawFd,
    /// The starter's process.
    pub(crate) owner: Option<Process>,
    pub(crate) spec: Spec,
}

/// The line on the daemon's standard output that reports that the lab is up.
pub(crate) const READY: &str = "ready";
/// The line on the daemon's standard input that lets the lab outlive its starter.
pub(crate) const STAY: &str = "stay";

/// A lab that is up, whose daemon is our child and ends when we do.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) folder: Folder,
    pub(crate) state: State,
    pub(crate) child: Child,
}

/// Creates the directory of a lab and has `program` bring the lab up.
pub(crate) fn start(base: &Base, program: &Path, spec: &Spec, name: &str) -> Result<Started, Error> {
    let (folder, lock) = base.create(name)?;
    let started = bring_up(&folder, &lock, program, spec, name);
    if started.is_err() {
        // Report the first error. If removal fails, the next `lab up` removes the directory.
        let _ = folder.remove();
    }
    started
}

fn bring_up(folder: &Folder, lock: &Lock, program: &Path, spec: &Spec, name: &str) -> Result<Started, Error> {
    let log = folder.file(LOG, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC)?;
    let mut command = Command::new(program);
    command.args(["lab", "daemon"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let inherited = lock.0.as_raw_fd();
    let inherit = move || {
        // SAFETY: the lock is open: the caller holds it until the daemon has started.
        let lock = unsafe { std::os::fd::BorrowedFd::borrow_raw(inherited) };
        fcntl(lock, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(())
    };
    // SAFETY: one plain system call between fork and exec.
    unsafe { command.pre_exec(inherit) };
    let mut child = command.spawn().map_err(|e| Error::file("run", program, e))?;
    let start = Start { name: name.to_owned(), lock: inherited, owner: Process::this(), spec: spec.clone() };
    let heard = tell(&mut child, &start).and_then(|()| hear(&mut child, folder));
    let state = heard.and_then(|answer| match answer.as_str() {
        READY => State::read(folder)?.ok_or_else(|| Error::NotUp(name.to_owned())),
        _ => Err(Error::Daemon(answer)),
    });
    match state {
        Ok(state) => Ok(Started { folder: folder.clone(), state, child }),
        Err(error) => {
            // Everything the daemon has created ends with it.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn tell(child: &mut Child, start: &Start) -> Result<(), Error> {
    let mut line = serde_json::to_string(start).unwrap_or_default();
    line.push('\n');
    say(child, &line)
}

/// Lets the lab outlive this process.
pub(crate) fn stay(child: &mut Child) -> Result<(), Error> {
    say(child, &format!("{STAY}\n"))?;
    child.stdin = None;
    Ok(())
}

fn say(child: &mut Child, line: &str) -> Result<(), Error> {
    let Some(input) = &mut child.stdin else { return Ok(()) };
    input.write_all(line.as_bytes()).map_err(Error::system("write to the lab's daemon"))
}

fn hear(child: &mut Child, folder: &Folder) -> Result<String, Error> {
    let silent = || {
        let mut log = String::new();
        // If the log cannot be read, the message is still true without it.
        let _ = folder.file(LOG, OFlag::O_RDONLY).map(|mut file| file.read_to_string(&mut log));
        Error::Daemon(format!("the lab's daemon ended during set-up: {}", log.trim()))
    };
    let output = child.stdout.take().ok_or_else(silent)?;
    if !readable(&output, START_TIMEOUT) {
        return Err(Error::Daemon("the lab's daemon does not say that it is ready".to_owned()));
    }
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).map_err(Error::system("read from the lab's daemon"))?;
    if line.is_empty() { Err(silent()) } else { Ok(line.trim_end().to_owned()) }
}
