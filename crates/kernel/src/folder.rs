//! Folders in which the processes of a host see each other.
//!
//! Each process keeps a file locked. The kernel releases the lock however the process ends, so an unlocked
//! file belongs to one that could not clean up. Only root may open these files: a lock held by anyone else
//! would make a dead process look alive.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Locked by a process while it changes files.
const LOCK: &str = ".lock";
/// The temporary file that is renamed to replace another.
const NEW: &str = ".new";

/// A folder that only root can write to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folder(&'static str);

impl Folder {
    pub(crate) const fn new(path: &'static str) -> Folder {
        Folder(path)
    }

    /// Waits until no other process changes files in the folder, which is made if there is none; until
    /// the lock is dropped.
    pub(crate) fn lock(&self) -> Result<Flock<File>, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(self.0);
        made.map_err(Error::file("create", self.0))?;
        self.check()?;
        let path = Path::new(self.0).join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock(file.map_err(Error::file("open", &path))?, &path)?;
        // Left by a program that was killed while writing.
        remove(&Path::new(self.0).join(NEW))?;
        Ok(lock)
    }

    /// Checks that only root can write there; anyone else could inject other notes or make dead
    /// processes look alive.
    fn check(&self) -> Result<(), Error> {
        let path = Path::new(self.0);
        let is = fs::symlink_metadata(path).map_err(Error::file("inspect", path))?;
        if is.is_dir() && is.uid() == nix::unistd::geteuid().as_raw() && is.permissions().mode() & 0o022 == 0
        {
            return Ok(());
        }
        Err(Error::Folder(path.to_owned()))
    }

    /// Returns the path of the file of this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        Path::new(self.0).join(format!("{name}.json"))
    }

    /// Replaces a file atomically, so that readers see the old or the new content even if this process dies,
    /// and returns it locked.
    pub(crate) fn replace(&self, path: &Path, value: &impl Serialize) -> Result<Flock<File>, Error> {
        let new = Path::new(self.0).join(NEW);
        let written = || {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(serde_json::to_string(value)?.as_bytes())?;
            io::Result::Ok(file)
        };
        let file = written().map_err(Error::file("write", &new))?;
        let lock = lock(file, &new)?;
        fs::rename(&new, path).map_err(Error::file("write", path))?;
        Ok(lock)
    }

    /// Returns the files whose names meet a condition, sorted.
    pub(crate) fn files(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.0) else { return Vec::new() };
        let is_wanted = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(".json") && is_wanted(name)
        };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_wanted).collect();
        files.sort();
        files
    }
}

fn lock(file: File, path: &Path) -> Result<Flock<File>, Error> {
    let locked = Flock::lock(file, FlockArg::LockExclusive);
    locked.map_err(|(_, reason)| Error::File { action: "lock", path: path.to_owned(), reason: reason.into() })
}

/// Removes a file, which may be gone.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { action: "remove", path: path.to_owned(), reason })
        }
        _ => Ok(()),
    }
}

/// Reads a file and whether it is locked; `None` if it is gone.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<(T, bool)>> {
    let mut file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) {
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let value = serde_json::from_str(&text)?;
    // A shared lock does not disturb concurrent readers; it is released with `file`.
    let locked = Flock::lock(file, FlockArg::LockSharedNonblock).is_err();
    Ok(Some((value, locked)))
}
