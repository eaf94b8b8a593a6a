//! Ends programs that have controllers on.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use headway_kernel::{Ended, available, ended, running};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::service::print_line;

/// How long a program may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(20);

pub(super) fn run(names: &[String]) -> Result<()> {
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted.replace('-', "_") == name);
    let mut found = 0;
    for note in running().into_iter().filter(|note| wanted(&note.name)) {
        // The file's lock says that the process lives.
        kill(Pid::from_raw(note.pid as i32), Signal::SIGTERM)
            .with_context(|| format!("cannot end process {}; run this with sudo", note.pid))?;
        let deadline = Instant::now() + PATIENCE;
        // The kernel takes a controller off a moment after its program has ended.
        while running().iter().any(|other| other.pid == note.pid) || available()?.contains(&note.name) {
            if Instant::now() > deadline {
                bail!("process {} with {} does not end; end it with: kill -9 {0}", note.pid, note.name);
            }
            sleep(ROUND);
        }
        print_line(format_args!("{} is off", note.name));
        found += 1;
    }
    for ended in ended().into_iter().filter(|ended| wanted(&ended.note.name)) {
        print_line(describe_ended(&ended)?);
        if !ended.is_elsewhere()? {
            ended.clean().context("it cannot be removed; run this with sudo")?;
            print_line("removed");
        } else if !names.is_empty() {
            // Whoever names it may know that there is no such namespace any more.
            ended.forget().context("it cannot be forgotten; run this with sudo")?;
            print_line("forgotten");
        }
        found += 1;
    }
    if found == 0 && !names.is_empty() {
        bail!(
            "no controller of Headway named {} is on; `headway cc status` shows those that are",
            names.join(" or ")
        );
    }
    Ok(())
}

/// What a killed program left behind, and what to do about it.
pub(super) fn describe_ended(ended: &Ended) -> Result<String> {
    let note = &ended.note;
    let killed = format!("process {} was killed while {} was on", note.pid, note.name);
    let Some(default) = &note.default else {
        return Ok(format!("{killed}; the kernel has taken it off, nothing is left"));
    };
    Ok(if ended.is_elsewhere()? {
        format!(
            "{killed} and was the default of another network namespace; `headway cc stop {}` run there restores {}",
            note.name, default.former
        )
    } else if ended.default()?.is_some() {
        format!(
            "{killed}; it is still the default here, `headway cc stop {}` restores {}",
            note.name, default.former
        )
    } else {
        format!("{killed}; somebody has changed the default since, nothing is left")
    })
}
