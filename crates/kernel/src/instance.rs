//! Who on this host has a controller on, and what those left behind that were killed.
//!
//! Each has a file that it keeps locked. The kernel releases the lock whatever ends the process, so a file without a lock is of one
//! that could not clean up. Only root may open them: a lock of somebody else's would make a dead process look alive. The former
//! default of a network namespace has a file of its own, which stays until it is restored (see `notes.rs`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::controller::{Controller, LsOptions};
use crate::default::{FormerDefault, Namespace, current_default, set_default};
use crate::error::Error;
use crate::notes::{self, Store};

/// Only root can load controllers, so only root can write here.
const FOLDER: &str = "/run/headway/cc";
/// Held by whoever changes notes or defaults.
const LOCK: &str = ".lock";
/// What is written, before it takes the place of a file.
const NEW: &str = ".new";
/// How files of former defaults begin; no controller's name has this dash.
const FORMER: &str = "default-";

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

/// This process among those that have controllers on, until [`Instance::end`].
#[derive(Debug)]
pub struct Instance {
    note: Note,
    /// Tells others that this process lives.
    _lock: Flock<File>,
}

impl Instance {
    /// What others know of it.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Restores the default that this process has changed, and removes its file.
    ///
    /// # Errors
    /// When the kernel or the disk refuses; what could not be restored stays noted.
    pub fn end(self) -> Result<(), Error> {
        notes::end(&mut Notes::lock()?, &self.note)
    }
}

/// The notes of this host. While this value lives, no other process changes notes or defaults.
#[derive(Debug)]
pub struct Notes {
    _lock: Flock<File>,
    /// The file of this process, once it is there.
    own: Option<Flock<File>>,
}

impl Notes {
    /// Waits for its turn, which takes as long as another process needs to load a controller.
    ///
    /// # Errors
    /// When the folder cannot be made, or somebody else than root can write there.
    pub fn lock() -> Result<Notes, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(FOLDER);
        made.map_err(Error::file("make", FOLDER))?;
        check_folder(Path::new(FOLDER))?;
        let path = Path::new(FOLDER).join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(Error::file("open", &path))?;
        let lock = lock(file, &path)?;
        // Of a program that was killed while it wrote.
        remove(&Path::new(FOLDER).join(NEW))?;
        Ok(Notes { _lock: lock, own: None })
    }

    /// Tells others of this process and, with `default`, makes its controller the default of this network namespace.
    ///
    /// # Errors
    /// When another instance has the name or the default, or the kernel or the disk refuses.
    pub fn start(mut self, mut note: Note, default: bool) -> Result<Instance, Error> {
        notes::start(&mut self, &mut note, default)?;
        let own = self.own.take().ok_or_else(|| Error::BadName(note.name.clone()))?;
        Ok(Instance { note, _lock: own })
    }

    /// Restores the former default of this network namespace if one of these names, or of any when there are none, took its place.
    ///
    /// # Errors
    /// When the kernel refuses; the note stays then.
    pub fn restore(&mut self, names: &[&str]) -> Result<(), Error> {
        notes::restore(self, names)
    }

    /// Forgets a former default without restoring it.
    ///
    /// # Errors
    /// When its file cannot be removed.
    pub fn forget_default(&mut self, former: &FormerDefault) -> Result<(), Error> {
        self.forget(former.namespace)
    }

    /// Forgets those that were killed; defaults that they changed stay noted.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn forget_ended(&mut self) -> Result<(), Error> {
        notes::forget_ended(self)
    }

    /// The former defaults that no living program will restore.
    ///
    /// # Errors
    /// When the kernel does not tell, or a note cannot be read.
    pub fn left_behind(&self) -> Result<Vec<FormerDefault>, Error> {
        notes::left_behind(self)
    }
}

/// Whoever can write there could name other defaults, or make the dead look alive.
fn check_folder(path: &Path) -> Result<(), Error> {
    let is = fs::symlink_metadata(path).map_err(Error::file("look at", path))?;
    if is.is_dir() && is.uid() == nix::unistd::geteuid().as_raw() && is.permissions().mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Error::Folder(path.to_owned()))
}

fn lock(file: File, path: &Path) -> Result<Flock<File>, Error> {
    let locked = Flock::lock(file, FlockArg::LockExclusive);
    locked.map_err(|(_, reason)| Error::File { action: "lock", path: path.to_owned(), reason: reason.into() })
}

fn file_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}.json"))
}

fn file_of_former(namespace: Namespace) -> PathBuf {
    file_of(&format!("{FORMER}{}", namespace.cookie))
}

/// Writes a file so that a reader sees all of it or what was before, whatever happens to this process, and returns it locked.
fn replace(path: &Path, value: &impl Serialize) -> Result<Flock<File>, Error> {
    let new = Path::new(FOLDER).join(NEW);
    let written = || {
        let mut file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&new)?;
        file.write_all(serde_json::to_string(value)?.as_bytes())?;
        io::Result::Ok(file)
    };
    let file = written().map_err(Error::file("write", &new))?;
    let lock = lock(file, &new)?;
    fs::rename(&new, path).map_err(Error::file("write", path))?;
    Ok(lock)
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { action: "remove", path: path.to_owned(), reason })
        }
        _ => Ok(()),
    }
}

impl Store for Notes {
    fn here(&self) -> Result<Namespace, Error> {
        Namespace::here()
    }

    fn current(&self) -> Result<String, Error> {
        current_default()
    }

    fn set(&mut self, name: &str) -> Result<(), Error> {
        set_default(name)
    }

    fn formers(&self) -> Result<Vec<FormerDefault>, Error> {
        let mut formers = Vec::new();
        for path in files(true) {
            let former = read(&path).map_err(Error::file("understand", &path))?;
            formers.extend(former.map(|(former, _)| former));
        }
        Ok(formers)
    }

    fn keep(&mut self, former: &FormerDefault) -> Result<(), Error> {
        replace(&file_of_former(former.namespace), former).map(|_| ())
    }

    fn forget(&mut self, namespace: Namespace) -> Result<(), Error> {
        remove(&file_of_former(namespace))
    }

    fn instances(&self) -> Result<Vec<(Note, bool)>, Error> {
        Ok(instances())
    }

    fn announce(&mut self, note: &Note) -> Result<(), Error> {
        self.own = Some(replace(&file_of(&note.name), note)?);
        Ok(())
    }

    fn withdraw(&mut self, name: &str) -> Result<(), Error> {
        remove(&file_of(name))
    }
}

/// The instances that run, by name.
pub fn running() -> Vec<Note> {
    instances().into_iter().filter(|(_, lives)| *lives).map(|(note, _)| note).collect()
}

/// Those that were killed, by name.
pub fn ended() -> Vec<Note> {
    instances().into_iter().filter(|(_, lives)| !*lives).map(|(note, _)| note).collect()
}

/// All that can be read, by name, and whether their authors live.
fn instances() -> Vec<(Note, bool)> {
    files(false).iter().filter_map(|path| read(path).ok().flatten()).collect()
}

/// The files of former defaults, or those of instances, in order.
fn files(formers: bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".json") && name.starts_with(FORMER) == formers
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_wanted).collect();
    files.sort();
    files
}

/// What a file says and whether it is locked; `None` when it is gone.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<(T, bool)>> {
    let mut file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) {
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let value = serde_json::from_str(&text)?;
    // A shared lock does not disturb others who look at the same time; it is gone with `file`.
    let locked = Flock::lock(file, FlockArg::LockSharedNonblock).is_err();
    Ok(Some((value, locked)))
}
