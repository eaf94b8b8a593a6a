//! Who on this host has a controller on, and what those left behind that were killed.
//!
//! Each has a file that it keeps locked. The kernel releases the lock whatever ends the process, so a file without a lock is of one
//! that could not clean up. Only root may open them: a lock of somebody else's would make a dead process look alive.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::controller::{Controller, LsOptions};
use crate::default::{self, FormerDefault};
use crate::error::Error;

/// Only root can load controllers, so only root can write here.
const FOLDER: &str = "/run/headway/cc";

/// What others may know of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its process.
    pub pid: u32,
    /// What it has loaded, and under which name.
    pub controller: Controller,
    /// The name to choose it by.
    pub name: String,
    /// How LS-AIMD was set.
    pub options: LsOptions,
    /// The default it has changed.
    pub default: Option<FormerDefault>,
    /// The number of the map with its counters.
    pub counters_map: u32,
    /// The numbers of its programs.
    pub programs: Vec<u32>,
}

/// The file of this process, there for as long as this value is.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Instance {
    /// Tells others of this process.
    ///
    /// # Errors
    /// When the file cannot be written or another instance has the name.
    pub fn announce(note: &Note) -> Result<Instance, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(FOLDER);
        made.map_err(Error::file("make", FOLDER))?;
        let path = Path::new(FOLDER).join(format!("{}.json", note.name));
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let file = file.map_err(Error::file("write", &path))?;
        let mut lock =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, reason)| match reason {
                Errno::EWOULDBLOCK => Error::NameTaken(note.name.clone(), holder(&note.name)),
                reason => Error::File { action: "lock", path: path.clone(), reason: reason.into() },
            })?;
        let text = serde_json::to_string(note).map_err(io::Error::from);
        let written = text.and_then(|text| {
            lock.set_len(0)?;
            lock.write_all(text.as_bytes())
        });
        written.map_err(Error::file("write", &path))?;
        Ok(Instance { path, _lock: lock })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What remains of it would only be reported as that of a killed instance.
        let _ = fs::remove_file(&self.path);
    }
}

/// An instance that was killed before it could clean up.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it had said.
    pub note: Note,
    path: PathBuf,
}

impl Ended {
    /// The default that is still its controller, in this network namespace.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn default(&self) -> Result<Option<&FormerDefault>, Error> {
        let Some(default) = &self.note.default else { return Ok(None) };
        Ok(default.holds(&self.note.name)?.then_some(default))
    }

    /// Whether the default it changed is one of another network namespace.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn is_elsewhere(&self) -> Result<bool, Error> {
        let here = default::namespace()?;
        Ok(self.note.default.as_ref().is_some_and(|default| default.namespace != here))
    }

    /// Restores what it changed in this network namespace, and forgets it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn clean(&self) -> Result<(), Error> {
        if let Some(default) = &self.note.default {
            default.restore(&self.note.name)?;
        }
        self.forget()
    }

    /// Forgets it, without restoring anything.
    ///
    /// # Errors
    /// When its file cannot be removed.
    pub fn forget(&self) -> Result<(), Error> {
        match fs::remove_file(&self.path) {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { action: "remove", path: self.path.clone(), reason })
            }
            _ => Ok(()),
        }
    }
}

/// The instances that run, by name.
pub fn running() -> Vec<Note> {
    files().into_iter().filter(|(_, _, locked)| *locked).map(|(_, note, _)| note).collect()
}

/// Those that were killed, by name.
pub fn ended() -> Vec<Ended> {
    let unlocked = files().into_iter().filter(|(_, _, locked)| !*locked);
    unlocked.map(|(path, note, _)| Ended { note, path }).collect()
}

/// Who has the controller of this name, in words.
fn holder(name: &str) -> String {
    let other = running().into_iter().find(|note| note.name == name);
    other.map_or_else(|| "another program".to_owned(), |note| format!("process {}", note.pid))
}

/// All notes, with their files and whether their authors live.
fn files() -> Vec<(PathBuf, Note, bool)> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        paths.filter_map(|path| read(&path).map(|(note, locked)| (path, note, locked))).collect();
    files.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    files
}

fn read(path: &Path) -> Option<(Note, bool)> {
    let mut file = File::open(path).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let note = serde_json::from_str(&text).ok()?;
    // A shared lock does not disturb others who look at the same time; it is gone with `file`.
    let locked = Flock::lock(file, FlockArg::LockSharedNonblock).is_err();
    Some((note, locked))
}
