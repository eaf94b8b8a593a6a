//! Runs a program of the user whenever another path is chosen, by a child process with the rights of
//! whoever has started this.
//!
//! What it runs ends with this process, however that ends, and so never beside what the next one runs.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Context as _, Result};
use headway_privileges::{Deputy, adopt, answer, end_descendants, end_with, framed, read_framed, reap};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// Most bytes of what a run gets: a name, a sentence and an address have some hundred.
const LARGEST: usize = 1 << 16;
/// Time between two looks at a run, in ms.
const LOOK: u16 = 10;

/// What a run gets, as variables of its environment; no shell reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    /// The path before; empty in the beginning.
    pub(super) old: String,
    pub(super) new: String,
    /// The number of the new path, from 0.
    pub(super) number: usize,
    /// The name of the reason, and the reason as a sentence.
    pub(super) why: String,
    pub(super) reason: String,
    pub(super) interface: String,
    pub(super) next_hop: String,
}

/// A program that is run once for each change, one run at a time.
#[derive(Debug)]
pub(super) struct Hook {
    deputy: Deputy,
    running: Option<Change>,
    /// What is to be reported next; a newer change takes the place of an older one that was not reported.
    next: Option<Change>,
    /// When a run that has failed is repeated.
    again: Option<(Clock, Change)>,
    retry: Span,
}

impl Hook {
    /// Starts the process that runs a program with its arguments. Runs end after `limit`; those that fail are
    /// repeated after `retry`. This process must have one thread.
    ///
    /// # Errors
    /// When the system makes no process.
    pub(super) fn start(command: &[String], limit: Span, retry: Span) -> Result<Hook> {
        let deputy = Deputy::start_whole(|socket| work(&socket, command, limit));
        let deputy = deputy.context("cannot start the process that runs hooks")?;
        Ok(Hook { deputy, running: None, next: None, again: None, retry })
    }

    /// Tells a change as soon as the run before has ended.
    pub(super) fn tell(&mut self, change: Change) {
        self.again = None;
        self.next = Some(change);
    }

    /// Does what is due. To be called often; returns a sentence when a run has failed.
    pub(super) fn look(&mut self) -> Option<String> {
        let failed = self.end();
        if self.again.as_ref().is_some_and(|(at, _)| *at <= Clock::now()) {
            self.next = self.again.take().map(|(_, change)| change);
        }
        let change = if self.running.is_none() { self.next.take() } else { None };
        failed.or_else(|| change.and_then(|change| self.run(change)))
    }

    /// Takes the end of a run.
    fn end(&mut self) -> Option<String> {
        let change = self.running.take_if(|_| self.deputy.has_answered())?;
        match self.deputy.answer() {
            Ok(Ok(())) => None,
            Ok(Err(why)) => self.failed(change, &why),
            Err(_) => self.failed(change, ENDED),
        }
    }

    fn run(&mut self, change: Change) -> Option<String> {
        let request = serde_json::to_vec(&change).unwrap_or_default();
        if self.deputy.tell(&framed(&request)).is_err() {
            return self.failed(change, ENDED);
        }
        self.running = Some(change);
        None
    }

    /// Has a run repeated later, unless there is something newer to tell.
    fn failed(&mut self, change: Change, why: &str) -> Option<String> {
        let sentence = format!("the hook has failed for {}: {why}", change.new);
        if self.next.is_none() {
            self.again = Some((Clock::now() + self.retry, change));
        }
        Some(sentence)
    }
}

/// What is said, and what to do, when the process of [`work`] is gone.
const ENDED: &str = "the process that runs hooks has ended; start `headway select` again";

/// Runs what it is asked to until the other end of the socket is closed, and ends what is left then. A program
/// that a hook has left running when it ended by itself goes on until then, too.
fn work(socket: &UnixStream, command: &[String], limit: Span) {
    // Without it what a hook leaves behind is not found; everything else works.
    let _ = adopt();
    while let Some(request) = read_framed(socket, LARGEST) {
        reap();
        let Ok(change) = serde_json::from_slice(&request) else { break };
        let Some(done) = run(socket, command, &change, limit) else { break };
        if answer(socket, &done).is_err() {
            break;
        }
    }
    end_descendants(None);
}

/// Runs the program once; none when the other end of the socket was closed meanwhile.
fn run(socket: &UnixStream, command: &[String], change: &Change, limit: Span) -> Option<Result<(), String>> {
    let begun = Clock::now();
    let mut child = match start(command, change) {
        Ok(child) => child,
        Err(error) => return Some(Err(format!("it cannot be started: {error}"))),
    };
    loop {
        match child.try_wait() {
            Ok(None) if begun.elapsed() < limit => {}
            Ok(None) => {
                end_descendants(Some(Pid::from_raw(child.id() as i32)));
                return Some(Err(format!("it took longer than {limit:?} and was killed")));
            }
            Ok(Some(status)) if status.success() => return Some(Ok(())),
            Ok(Some(status)) => return Some(Err(format!("it ended with {status}"))),
            Err(error) => return Some(Err(error.to_string())),
        }
        // Nothing comes before it is answered.
        let mut files = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut files, PollTimeout::from(LOOK)).is_ok_and(|ready| ready > 0) {
            return None;
        }
    }
}

fn start(command: &[String], change: &Change) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let number = change.number.to_string();
    for (name, value) in [
        ("HEADWAY_OLD", &change.old),
        ("HEADWAY_NEW", &change.new),
        ("HEADWAY_NUMBER", &number),
        ("HEADWAY_WHY", &change.why),
        ("HEADWAY_REASON", &change.reason),
        ("HEADWAY_INTERFACE", &change.interface),
        ("HEADWAY_NEXT_HOP", &change.next_hop),
    ] {
        command.env(name, value);
    }
    command.env_remove("HEADWAY_TOKEN");
    let parent = Pid::this();
    // SAFETY: it makes system calls only.
    unsafe { command.pre_exec(move || end_with(parent)) };
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(new: &str) -> Change {
        Change {
            old: "a; exit 3".to_owned(),
            new: new.to_owned(),
            number: 1,
            why: "better".to_owned(),
            reason: "$(exit 4)".to_owned(),
            interface: String::new(),
            next_hop: String::new(),
        }
    }

    fn hook(script: &str, limit: u64) -> Hook {
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        Hook::start(&command, Span::from_millis(limit), Span::from_millis(10)).unwrap()
    }

    fn is_idle(hook: &Hook) -> bool {
        hook.running.is_none() && hook.next.is_none()
    }

    /// Looks until a run fails, or there is nothing more to do.
    fn until_idle(hook: &mut Hook) -> Option<String> {
        loop {
            let failed = hook.look();
            if failed.is_some() || is_idle(hook) {
                return failed;
            }
            std::thread::sleep(Span::from_millis(5));
        }
    }

    #[test]
    fn what_a_run_is_told_is_in_its_environment_and_not_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let script = format!("echo \"$HEADWAY_OLD|$HEADWAY_NEW|$HEADWAY_REASON\" >> {}", told.display());
        let mut hook = hook(&script, 10_000);
        hook.tell(change("`exit 5`"));
        assert_eq!(until_idle(&mut hook), None);
        assert_eq!(std::fs::read_to_string(&told).unwrap(), "a; exit 3|`exit 5`|$(exit 4)\n");
    }

    #[test]
    fn a_run_that_fails_or_hangs_is_told_and_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let been = folder.path().join("been");
        let mut failing = hook(&format!("test -e {0} || {{ touch {0}; exit 7; }}", been.display()), 10_000);
        failing.tell(change("b"));
        assert!(until_idle(&mut failing).is_some_and(|said| said.contains("exit status: 7")));
        std::thread::sleep(Span::from_millis(20));
        assert_eq!((failing.look(), is_idle(&failing)), (None, false), "it is tried again");
        assert_eq!(until_idle(&mut failing), None);
        let mut hanging = hook("sleep 1000", 50);
        hanging.tell(change("b"));
        assert!(until_idle(&mut hanging).is_some_and(|said| said.contains("was killed")));
        let nothing = ["/nothing".to_owned()];
        let mut missing = Hook::start(&nothing, Span::from_secs(1), Span::from_secs(1)).unwrap();
        missing.tell(change("b"));
        assert!(until_idle(&mut missing).is_some_and(|said| said.contains("cannot be started")));
    }
}
