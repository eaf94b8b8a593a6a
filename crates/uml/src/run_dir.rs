//! The temporary folder of a run.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tempfile::TempDir;

use crate::own_lock;

/// Prefix of the folders of runs.
const PREFIX: &str = "running-";
/// The file that is locked while folders are made and removed.
const LOCK: &str = "running.lock";
/// How long a killed process may take to exit.
const EXIT_TIMEOUT_MS: u16 = 2000;
/// How often to retry the lock of a killed owner.
const ROUND: Duration = Duration::from_millis(10);

/// A folder in the cache, removed on drop.
#[derive(Debug)]
pub struct RunDir {
    folder: TempDir,
    /// Held as long as the folder is needed; the kernel releases it when this program exits in any way.
    _lock: File,
}

impl RunDir {
    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Creates a folder in the cache, after removing those that killed programs left behind.
///
/// # Errors
/// If the cache cannot be written.
pub fn folder(cache: &Path) -> io::Result<RunDir> {
    fs::create_dir_all(cache)?;
    // Without this lock, a folder that exists but is not locked yet would look left behind.
    let turn = own_lock::open(&cache.join(LOCK))?;
    turn.lock()?;
    for entry in fs::read_dir(cache)?.flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        // A run that ends at this moment removes its folder itself.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let Some(folder) = File::open(entry.path()).ok().filter(|_| is_dir) else { continue };
        if is_left(&folder, number) {
            end_guest(cache, &entry.path());
            // What cannot be removed now is tried again next time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(cache)?;
    let lock = File::open(folder.path())?;
    lock.lock()?;
    Ok(RunDir { folder, _lock: lock })
}

/// Whether nobody holds the lock of a folder; `number` begins with the process number of the creator.
fn is_left(folder: &File, number: &str) -> bool {
    let has_ended = || {
        let number = number.split('-').next().unwrap_or_default();
        !Path::new("/proc").join(number).exists()
    };
    let deadline = Instant::now() + Duration::from_millis(EXIT_TIMEOUT_MS.into());
    // A program that was killed while forking leaves a copy of the lock with its child, until the child has
    // called exec or exited.
    while folder.try_lock().is_err() {
        if !has_ended() || Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(ROUND);
    }
    true
}

/// Kills kernels that still run in a folder left behind.
///
/// A kernel ends with the program that runs it. But a starting kernel has a child that waits to be traced,
/// and that child keeps waiting if the kernel is killed.
fn end_guest(cache: &Path, folder: &Path) {
    let Ok(kernels) = fs::canonicalize(cache.join("kernel")) else { return };
    let Ok(folder) = fs::canonicalize(folder) else { return };
    let is_guest = |process: &Path| {
        let link = |name: &str| fs::read_link(process.join(name)).unwrap_or_default();
        link("exe").starts_with(&kernels) && link("cwd") == folder
    };
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if is_guest(&process.path()) {
            end(number, || is_guest(&process.path()));
        }
    }
}

/// Kills a process and waits for its exit. Checks `is_meant` once the descriptor guarantees that the
/// number is not reused.
fn end(number: i32, is_meant: impl Fn() -> bool) {
    // SAFETY: plain system call; the result is checked before it is used.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
    let Ok(raw) = i32::try_from(raw) else { return };
    if raw < 0 {
        return;
    }
    // SAFETY: `raw` is an open descriptor that nothing else owns.
    let process = unsafe { OwnedFd::from_raw_fd(raw) };
    if is_meant() {
        let nothing = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: no memory of ours is touched. A failure means that the process has exited.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, raw, libc::SIGKILL, nothing, 0) };
        let _ =
            poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::from(EXIT_TIMEOUT_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_removed_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        // The number may have been reused by another program.
        let old = cache.path().join(format!("running-{}-x", std::process::id()));
        let other = cache.path().join("kernel");
        fs::create_dir(&old).unwrap();
        fs::create_dir(&other).unwrap();
        let own = folder(cache.path()).unwrap();
        let another = folder(cache.path()).unwrap();
        assert!(!old.exists() && other.exists() && own.path().exists() && another.path().exists());
        let path = own.path().to_owned();
        drop(own);
        assert!(!path.exists());
    }

    #[test]
    fn runs_that_begin_and_end_at_the_same_time_do_not_disturb_each_other() {
        let cache = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let own = folder(cache.path()).unwrap();
                        assert!(own.path().exists());
                    }
                });
            }
        });
    }
}
