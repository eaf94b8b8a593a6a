//! Where files of a run are while it lasts.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// How folders of runs begin.
const PREFIX: &str = "run-";

/// A folder in the cache that goes away with the value.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    /// Held as long as the folder is needed; the kernel releases it whatever ends this program.
    _lock: File,
}

impl Place {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes a folder in the cache.
///
/// What a program that was killed left behind is removed by the next.
///
/// # Errors
/// When the cache cannot be written.
pub fn folder(cache: &Path) -> io::Result<Place> {
    fs::create_dir_all(cache)?;
    // Nobody takes a folder for left behind that is made, but not locked yet.
    let turn = File::open(cache)?;
    turn.lock()?;
    for entry in fs::read_dir(cache)?.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && entry.file_type()?.is_dir() && File::open(entry.path())?.try_lock().is_ok() {
            // What cannot be removed now is tried again by the next.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(cache)?;
    let lock = File::open(folder.path())?;
    lock.lock()?;
    Ok(Place { folder, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_removed_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        // Its number may be that of another program by now.
        let old = cache.path().join(format!("run-{}-x", std::process::id()));
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
}
