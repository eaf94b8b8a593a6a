//! The lock of whoever sets routes and rules of a network namespace, of whom there is one at a time.
//!
//! It is a byte of one file, so that the kernel releases it however a process ends. The processes that remove
//! what was set have the file open, too, and so the lock lasts until nothing is left to remove.

use std::fmt::{self, Display, Formatter};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant as Clock;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use super::socket::{PATIENCE, PAUSE};

/// Where only root can make files.
const FOLDER: &str = "/run/headway";
const NAME: &str = "select.lock";
/// The lock, for this process and those that it starts, until all have ended.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// A process that has the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder(i32);

impl Display for Holder {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.0 <= 0 {
            return write!(out, "a `headway select` of another container");
        }
        write!(out, "process {}", self.0)?;
        let command = std::fs::read_to_string(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        let words: Vec<&str> = command.split_terminator('\0').collect();
        if words.is_empty() { Ok(()) } else { write!(out, " ({})", words.join(" ")) }
    }
}

impl Lock {
    /// Takes the lock of this network namespace, or says who has it. Waits for what is left of a
    /// process that was killed.
    ///
    /// # Errors
    /// When this user can make no file that is only theirs, or what is left of another process does not end.
    pub(super) fn take() -> Result<Result<Lock, Holder>> {
        let place =
            std::fs::metadata("/proc/thread-self/ns/net").context("cannot tell network namespaces apart")?;
        let folder = Path::new(FOLDER);
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(|own| PathBuf::from(own).join("headway"));
        let file = match (open(folder), own) {
            // In a user namespace of one's own nobody else sets routes.
            (Err(_), Some(own)) => open(&own).with_context(|| cannot(&own))?,
            (file, _) => file.with_context(|| cannot(folder))?,
        };
        take(file, place.ino())
    }
}

fn cannot(folder: &Path) -> String {
    let path = folder.join(NAME);
    format!(
        "cannot take the lock {} of those that set routes; run it as root, or leave out `route`, `balance`, `mptcp` and paths with a `next-hop` alone",
        path.display()
    )
}

fn open(folder: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    // Whoever can open a file can lock it.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(folder.join(NAME))
}

/// Takes the bytes of a place in the file: one for a process and those that it starts, and one for the
/// process alone, by which others know it.
fn take(file: File, place: u64) -> Result<Result<Lock, Holder>> {
    let start = i64::try_from(2 * place).context("the number of the network namespace is too large")?;
    let begun = Clock::now();
    loop {
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&byte(start))) {
            Ok(_) => break,
            Err(Errno::EAGAIN | Errno::EACCES) => {}
            Err(error) => return Err(error).context("cannot lock a file"),
        }
        let mut found = byte(start + 1);
        fcntl(&file, FcntlArg::F_GETLK(&mut found)).context("cannot ask for the lock of a file")?;
        if found.l_type != libc::F_UNLCK as libc::c_short {
            return Ok(Err(Holder(found.l_pid)));
        }
        anyhow::ensure!(
            begun.elapsed() < PATIENCE,
            "what a `headway select` has left that was killed still has the lock after {PATIENCE:?}; end its processes"
        );
        std::thread::sleep(PAUSE);
    }
    fcntl(&file, FcntlArg::F_SETLK(&byte(start + 1))).context("cannot lock a file")?;
    Ok(Ok(Lock { _file: file }))
}

fn byte(start: i64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use headway_privileges::Deputy;

    use super::*;

    #[test]
    fn a_place_has_one_holder_until_its_children_have_ended_and_others_have_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let lock = |place| take(open(folder.path()).unwrap(), place);
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        let first = lock(4_026_531_840).unwrap().unwrap();
        assert_eq!(mode(&folder.path().join(NAME)), 0o600);
        lock(4_026_531_841).unwrap().unwrap();
        // The kernel tells processes apart by the second byte, so this one does not know itself.
        let children = Deputy::start(&[], |socket| drop(io::copy(&mut &socket, &mut io::sink())));
        drop(first);
        let file = open(folder.path()).unwrap();
        let start = 2 * 4_026_531_840;
        assert!(fcntl(&file, FcntlArg::F_OFD_SETLK(&byte(start))).is_err(), "the child has it");
        drop(children.unwrap());
        lock(4_026_531_840).unwrap().unwrap();
    }
}
