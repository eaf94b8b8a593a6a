//! Where a guest's files are while it runs.

use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tempfile::TempDir;

/// How folders of guests begin; the number of the host's program follows.
const PREFIX: &str = "run-";

/// A folder in the cache that goes away with the value.
///
/// What a program that was killed left behind is removed by the next.
///
/// # Errors
/// When the cache cannot be written.
pub fn folder(cache: &Path) -> io::Result<TempDir> {
    std::fs::create_dir_all(cache)?;
    for entry in std::fs::read_dir(cache)?.flatten() {
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        if number.is_some_and(is_gone) {
            // Another program may be removing it, too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", std::process::id())).tempdir_in(cache)
}

fn is_gone(process: i32) -> bool {
    kill(Pid::from_raw(process), None) == Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_removed_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let old = cache.path().join(format!("run-{}-x", ended.id()));
        let other = cache.path().join("kernel");
        std::fs::create_dir(&old).unwrap();
        std::fs::create_dir(&other).unwrap();
        let own = folder(cache.path()).unwrap();
        let another = folder(cache.path()).unwrap();
        assert!(!old.exists() && other.exists() && own.path().exists() && another.path().exists());
        let path = own.path().to_owned();
        drop(own);
        assert!(!path.exists());
    }
}
