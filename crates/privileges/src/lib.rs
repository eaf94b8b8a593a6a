//! Gives up what a process may do beyond its work, once everything that needs it is open.
//!
//! Commands that read what strangers send are often started as root, because opening an interface or a raw
//! socket takes it. An attacker who finds a mistake in the code that reads then has the rights of `nobody`,
//! and not those of root.
//!
//! # Decisions
//!
//! - **A right that is needed later is in a process of its own** ([`Deputy`]), which knows a few messages: a
//!   token bucket or a route can be wanted at any time, but the process that reads what strangers send gives
//!   its rights up at the beginning. Opening sockets, writing files, running hooks and setting routes are
//!   deputies with the rights for that only.
//! - **A deputy restores what it has changed,** however its parent ends.

mod deputy;
mod family;
mod filter;
pub mod rights;
mod talk;

use std::fs;
use std::io;
use std::os::fd::AsFd;

pub use caps::Capability;
use caps::{CapSet, CapsHashSet};
pub use deputy::{Deputy, answer, framed, read_framed, serve, serve_files};
pub use family::{adopt, end_descendants, end_with, reap};
use filter::Beyond;
use nix::unistd::{Gid, Uid, User, fchown, geteuid, setgroups, setresgid, setresuid};

/// The number of the user `nobody` where the host has no such name.
const NOBODY: u32 = 65_534;

/// Why a privilege could not be given up.
#[derive(Debug, thiserror::Error)]
#[error("cannot give up {what}: {reason}; nothing was sent or received")]
pub struct Error {
    what: &'static str,
    reason: io::Error,
}

fn failed<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |reason| Error { what, reason: reason.into() }
}

/// Gives up everything but some capabilities, for the calling thread and those that it will start; other
/// threads keep what they have, so call it before there are any.
///
/// Root becomes the user `nobody`, without other groups; any other user stays. Of `keep`,
/// what the process does not have it does not get. From then on no program that it starts gets more, and
/// system calls that only administrators and debuggers use fail, as does starting programs. May be
/// called again to keep less.
///
/// # Errors
/// If a privilege could not be given up: the process should end then.
pub fn drop_all_but(keep: &[Capability]) -> Result<(), Error> {
    drop(keep, &Beyond::Nothing)
}

/// Gives up everything but the use of maps of BPF that are open, as [`drop_all_but`] does. Linux lets whoever
/// has a map open use it since 5.19.
///
/// # Errors
/// If a privilege could not be given up: the process should end then.
pub fn drop_all_but_maps() -> Result<(), Error> {
    drop(&[], &Beyond::Maps)
}

/// Gives up everything but some capabilities and the right to enter network namespaces, as
/// [`drop_all_but`] does.
///
/// # Errors
/// If a privilege could not be given up: the process should end then.
pub fn drop_all_but_namespaces(keep: &[Capability]) -> Result<(), Error> {
    drop(keep, &Beyond::Namespaces)
}

/// Gives up everything, as [`drop_all_but`] does, and all system calls that a process does not need which
/// only talks over sockets, starts threads and reads files.
///
/// # Errors
/// If a privilege could not be given up: the process should end then.
pub fn drop_all_but_talk() -> Result<(), Error> {
    drop(&[], &Beyond::Nothing)?;
    talk::install();
    Ok(())
}

fn drop(keep: &[Capability], beyond: &Beyond) -> Result<(), Error> {
    let had = caps::read(None, CapSet::Permitted).map_err(|e| failed("capabilities")(io::Error::other(e)))?;
    let kept: CapsHashSet = keep.iter().copied().filter(|capability| had.contains(capability)).collect();
    // Root of a container may have been given neither of them.
    if had.contains(&Capability::CAP_SETUID) && had.contains(&Capability::CAP_SETGID) {
        become_nobody(!kept.is_empty())?;
    }
    let capabilities = |set, wanted: &CapsHashSet| {
        caps::set(None, set, wanted).map_err(|e| failed("capabilities")(io::Error::other(e)))
    };
    // The kernel keeps ambient ones only while they are inheritable. The effective ones follow after a change
    // of the user, which clears them.
    capabilities(CapSet::Inheritable, &CapsHashSet::new())?;
    capabilities(CapSet::Effective, &kept)?;
    capabilities(CapSet::Permitted, &kept)?;
    nix::sys::prctl::set_no_new_privs().map_err(failed("the right to gain privileges"))?;
    filter::install(beyond);
    Ok(())
}

/// Becomes the user `nobody`, if this is root; the permitted capabilities stay if `keep` says so.
fn become_nobody(keep: bool) -> Result<(), Error> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let nobody = User::from_name("nobody").ok().flatten();
    let (uid, gid) =
        nobody.map_or((Uid::from_raw(NOBODY), Gid::from_raw(NOBODY)), |nobody| (nobody.uid, nobody.gid));
    // In the user namespace of an ordinary user there may be no other user to become.
    if !is_mapped("/proc/self/uid_map", uid.as_raw()) || !is_mapped("/proc/self/gid_map", gid.as_raw()) {
        return Ok(());
    }
    // The kernel forgets at a change of the user that this process is to end with its parent.
    let ends_with_parent = nix::sys::prctl::get_pdeathsig().ok().flatten();
    let parent = nix::unistd::getppid();
    if fs::read_to_string("/proc/self/setgroups").map_or(true, |text| text.trim() != "deny") {
        setgroups(&[]).map_err(failed("groups"))?;
    }
    setresgid(gid, gid, gid).map_err(failed("the group of root"))?;
    nix::sys::prctl::set_keepcaps(keep).map_err(failed("capabilities"))?;
    setresuid(uid, uid, uid).map_err(failed("the user root"))?;
    if let Some(signal) = ends_with_parent {
        nix::sys::prctl::set_pdeathsig(signal).map_err(failed("the user root"))?;
        if nix::unistd::getppid() != parent {
            // It ended in between.
            std::process::exit(1);
        }
    }
    Ok(())
}

/// Whether a user or group has a number in this user namespace: each line has the first number, its number
/// outside, and how many there are.
fn is_mapped(map: &str, number: u32) -> bool {
    let Ok(text) = fs::read_to_string(map) else { return true };
    text.lines().any(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u64>);
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Ok(first)), _, Some(Ok(count))) => {
                (first..first.saturating_add(count)).contains(&u64::from(number))
            }
            _ => false,
        }
    })
}

/// Gives a file that root has just made to the user who called `sudo`; does nothing otherwise.
///
/// # Errors
/// The system's error.
pub fn give_to_caller(file: &impl AsFd) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok().filter(|number| *number > 0);
    let Some(uid) = number("SUDO_UID") else { return Ok(()) };
    Ok(fchown(file.as_fd(), Some(Uid::from_raw(uid)), number("SUDO_GID").map(Gid::from_raw))?)
}
