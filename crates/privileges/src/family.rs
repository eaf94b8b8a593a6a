//! The processes that a process has started, and those that they have started.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};

/// How long those that were killed may take to end: one that waits for a disk, or has become another user,
/// ends later or never.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks meanwhile.
const PAUSE: Duration = Duration::from_millis(2);
/// The deepest tree of processes that is looked through.
const DEEPEST: usize = 64;

/// Has this process become the parent of all that its children leave behind, so that
/// [`end_descendants`] finds them.
///
/// # Errors
/// The system's error.
pub fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(true)?)
}

/// Has the calling process, which is about to become another program, be killed when its parent `parent`
/// ends, and signals of a terminal have their usual effect. For what runs between fork and exec.
///
/// # Errors
/// The system's error, or that the parent has ended.
pub fn end_with(parent: Pid) -> io::Result<()> {
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the usual effect of a signal runs no code of this process.
        unsafe { signal(number, SigHandler::SigDfl) }?;
    }
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
}

/// Kills all descendants of this process, or those of one of its children with that, and waits until they
/// have ended, for two seconds at most. What a killed one leaves behind is killed, too, if this process
/// has called [`adopt`].
pub fn end_descendants(of: Option<Pid>) {
    let begun = Instant::now();
    loop {
        let found = match of {
            None => children(Pid::this()),
            Some(child) => tree(child, DEEPEST),
        };
        for process in &found {
            let _ = kill(*process, Signal::SIGKILL);
        }
        let has_children = reap();
        let is_over = match of {
            None => !has_children,
            Some(child) => kill(child, None) == Err(Errno::ESRCH),
        };
        if is_over || begun.elapsed() >= PATIENCE {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes the ends of all children that have ended; returns whether there are others.
pub fn reap() -> bool {
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Returns a process and its descendants.
fn tree(process: Pid, depth: usize) -> Vec<Pid> {
    let below = if depth == 0 { Vec::new() } else { children(process) };
    let below = below.into_iter().flat_map(|child| tree(child, depth - 1));
    std::iter::once(process).chain(below).collect()
}

/// Returns the children of a process. Not every kernel has a list of them.
fn children(of: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw));
    processes.filter(|process| parent(*process) == Some(of)).collect()
}

/// Returns the parent of a process: what follows its name, which may have any character, and its state.
fn parent(process: Pid) -> Option<Pid> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let number = line.rsplit_once(')')?.1.split_whitespace().nth(1)?;
    Some(Pid::from_raw(number.parse().ok()?))
}
