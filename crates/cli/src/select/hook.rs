//! Runs a program of the user whenever another path is chosen.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration as Span, Instant as Clock};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// What a run is told, as variables of its environment; no shell reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The path before; empty in the beginning.
    pub(super) old: String,
    pub(super) new: String,
    /// The number of the new path, from 0.
    pub(super) number: usize,
    /// The name of the reason, and the reason as a sentence.
    pub(super) why: &'static str,
    pub(super) reason: String,
    pub(super) interface: String,
    pub(super) next_hop: String,
}

/// A program that is run once for each change, one run at a time.
#[derive(Debug)]
pub(super) struct Hook {
    /// The program and its arguments.
    command: Vec<String>,
    limit: Span,
    running: Option<(Child, Clock, Change)>,
    /// What is to be told next; a newer change takes the place of an older one that was not told.
    next: Option<Change>,
    /// When a run that has failed is repeated.
    again: Option<(Clock, Change)>,
    retry: Span,
}

impl Hook {
    /// One whose runs end after `limit`; those that fail are repeated after `retry`.
    pub(super) fn new(command: Vec<String>, limit: Span, retry: Span) -> Hook {
        Hook { command, limit, running: None, next: None, again: None, retry }
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
        failed.or_else(|| change.and_then(|change| self.start(change)))
    }

    /// Takes the end of a run, or ends one that takes too long.
    fn end(&mut self) -> Option<String> {
        let (child, since, change) = self.running.as_mut()?;
        let why = match child.try_wait() {
            Ok(None) if since.elapsed() < self.limit => return None,
            Ok(None) => {
                // It leads a group of its own, with what it has started.
                let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                let _ = child.wait();
                Some(format!("it took longer than {:?} and was killed", self.limit))
            }
            Ok(Some(status)) if status.success() => None,
            Ok(Some(status)) => Some(format!("it ended with {status}")),
            Err(error) => Some(error.to_string()),
        };
        let change = change.clone();
        self.running = None;
        self.failed(change, why?)
    }

    fn start(&mut self, change: Change) -> Option<String> {
        let (program, arguments) = self.command.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let number = change.number.to_string();
        for (name, value) in [
            ("HEADWAY_OLD", &change.old),
            ("HEADWAY_NEW", &change.new),
            ("HEADWAY_NUMBER", &number),
            ("HEADWAY_WHY", &change.why.to_owned()),
            ("HEADWAY_REASON", &change.reason),
            ("HEADWAY_INTERFACE", &change.interface),
            ("HEADWAY_NEXT_HOP", &change.next_hop),
        ] {
            command.env(name, value);
        }
        command.env_remove("HEADWAY_TOKEN");
        match command.spawn() {
            Ok(child) => {
                self.running = Some((child, Clock::now(), change));
                None
            }
            Err(error) => self.failed(change, format!("it cannot be started: {error}")),
        }
    }

    /// Has a run repeated later, unless there is something newer to tell.
    fn failed(&mut self, change: Change, why: String) -> Option<String> {
        let sentence = format!("the hook has failed for {}: {why}", change.new);
        if self.next.is_none() {
            self.again = Some((Clock::now() + self.retry, change));
        }
        Some(sentence)
    }
}

impl Drop for Hook {
    /// A run that goes on is ended.
    fn drop(&mut self) {
        if let Some((child, _, _)) = &mut self.running {
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(new: &str) -> Change {
        Change {
            old: "a; exit 3".to_owned(),
            new: new.to_owned(),
            number: 1,
            why: "better",
            reason: "$(exit 4)".to_owned(),
            interface: String::new(),
            next_hop: String::new(),
        }
    }

    fn hook(script: &str, limit: u64) -> Hook {
        let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        Hook::new(command, Span::from_millis(limit), Span::from_millis(10))
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
        let mut missing = Hook::new(vec!["/nothing".to_owned()], Span::from_secs(1), Span::from_secs(1));
        missing.tell(change("b"));
        assert!(until_idle(&mut missing).is_some_and(|said| said.contains("cannot be started")));
    }
}
