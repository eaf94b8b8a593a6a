//! The instances that have a controller loaded on this host, and the leftovers of killed ones.
//!
//! Each instance keeps a file locked. The kernel releases the lock however the process ends, so an unlocked file
//! belongs to a process that could not clean up. Only root may open these files: a lock held by anyone else would
//! make a dead process look alive. The former default of a network namespace has a file of its own, which stays
//! until that default is restored (see `notes.rs`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::default::{FormerDefault, Namespace, current_default, set_default};
use crate::device::Interface;
use crate::error::Error;
use crate::note::Note;
use crate::notes::{self, Store};

/// Writable by root only, because only root can load controllers.
const FOLDER: &str = "/run/headway/cc";
/// Locked by a process while it changes notes or defaults.
const LOCK: &str = ".lock";
/// The temporary file that is renamed to replace another.
const NEW: &str = ".new";
/// The prefix of files of former defaults; the dash cannot occur in a controller's name.
const FORMER: &str = "default-";
/// The prefix of files of interfaces as they were.
const INTERFACE: &str = "interface-";

/// An interface that an instance of XCP or RCP changed, as it was before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The interface as it was.
    pub interface: Interface,
    /// The name of the instance.
    pub by: String,
}

/// This process as a registered instance, until [`Instance::end`].
#[derive(Debug)]
pub struct Instance {
    note: Note,
    /// Shows other processes that this one is alive.
    _lock: Flock<File>,
}

impl Instance {
    /// Returns its public data.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Restores the default that this process has changed, and removes its file.
    ///
    /// # Errors
    /// When the kernel or the file system refuses; the note of a default that could not be restored stays.
    pub fn end(self) -> Result<(), Error> {
        notes::end(&mut Notes::lock()?, &self.note)
    }
}

/// The notes of this host, locked: no other process changes notes or defaults while this value exists.
#[derive(Debug)]
pub struct Notes {
    _lock: Flock<File>,
    /// The locked file of this process, once it exists.
    own: Option<Flock<File>>,
}

impl Notes {
    /// Waits for the lock, for as long as another process needs to load a controller.
    ///
    /// # Errors
    /// When the folder cannot be created, or others than root can write to it.
    pub fn lock() -> Result<Notes, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(FOLDER);
        made.map_err(Error::file("create", FOLDER))?;
        check_folder(Path::new(FOLDER))?;
        let path = Path::new(FOLDER).join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(Error::file("open", &path))?;
        let lock = lock(file, &path)?;
        // Left by a program that was killed while writing.
        remove(&Path::new(FOLDER).join(NEW))?;
        Ok(Notes { _lock: lock, own: None })
    }

    /// Registers this process and, with `default`, makes its controller the default of this network namespace.
    ///
    /// # Errors
    /// When another instance has the name or the default, or the kernel or the file system refuses.
    pub fn start(mut self, mut note: Note, default: bool) -> Result<Instance, Error> {
        notes::start(&mut self, &mut note, default)?;
        let own = self.own.take().ok_or_else(|| Error::Internal(format!("{} has no note", note.name)))?;
        Ok(Instance { note, _lock: own })
    }

    /// Restores the former default of this network namespace if one of `names` replaced it; an empty `names`
    /// matches any.
    ///
    /// # Errors
    /// When the kernel refuses; the note then stays.
    pub fn restore(&mut self, names: &[&str]) -> Result<(), Error> {
        notes::restore(self, names)
    }

    /// Removes the note of a former default without restoring it.
    ///
    /// # Errors
    /// When its file cannot be removed.
    pub fn remove_default(&mut self, former: &FormerDefault) -> Result<(), Error> {
        self.remove(former.namespace)
    }

    /// Removes the notes of killed instances with such names; notes of defaults that they changed stay.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_killed(&mut self, wanted: impl Fn(&String) -> bool) -> Result<(), Error> {
        notes::remove_killed(self, wanted)
    }

    /// Notes an interface as it is, before it is changed: it can then be restored whatever becomes of this process.
    ///
    /// # Errors
    /// When another instance has changed it, or the note cannot be written.
    pub fn keep_interface(&mut self, changed: &Changed) -> Result<(), Error> {
        if let Some(other) = running().into_iter().find(|note| uses(note, &changed.interface)) {
            let reason = format!("{} (process {}) is on there; end that first", other.name, other.pid);
            return Err(Error::Device { interface: changed.interface.name.clone(), reason });
        }
        replace(&file_of_interface(&changed.interface), changed).map(|_| ())
    }

    /// Removes the note of an interface that has been restored, or does not exist any more.
    ///
    /// # Errors
    /// When the note cannot be removed.
    pub fn forget_interface(&mut self, interface: &Interface) -> Result<(), Error> {
        remove(&file_of_interface(interface))
    }

    /// Restores an interface of this network namespace that a killed process left changed.
    ///
    /// # Errors
    /// When the kernel refuses; the note then stays, unless the interface is gone.
    pub fn restore_interface(&mut self, changed: &Changed) -> Result<(), Error> {
        let is_same = |now: Interface| now.index == changed.interface.index;
        if Interface::here(&changed.interface.name).is_ok_and(is_same) {
            changed.interface.restore()?;
        }
        self.forget_interface(&changed.interface)
    }

    /// Returns the interfaces that killed processes left changed.
    pub fn interfaces_left_behind(&self) -> Vec<Changed> {
        // An instance of the same name may be that of another network namespace.
        let running = running();
        let is_used = |changed: &Changed| running.iter().any(|note| uses(note, &changed.interface));
        let changed = files(INTERFACE).into_iter().filter_map(|path| read::<Changed>(&path).ok().flatten());
        changed.map(|(changed, _)| changed).filter(|changed| !is_used(changed)).collect()
    }

    /// Returns the former defaults that no living process will restore.
    ///
    /// # Errors
    /// When the kernel does not report the default, or a note cannot be read.
    pub fn left_behind(&self) -> Result<Vec<FormerDefault>, Error> {
        notes::left_behind(self)
    }
}

/// Checks that only root can write there; anyone else could inject other defaults or make dead processes look alive.
fn check_folder(path: &Path) -> Result<(), Error> {
    let is = fs::symlink_metadata(path).map_err(Error::file("inspect", path))?;
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

fn file_of_interface(interface: &Interface) -> PathBuf {
    file_of(&format!("{INTERFACE}{}-{}", interface.namespace.cookie, interface.index))
}

/// Whether an instance has its programs at this interface.
fn uses(note: &Note, interface: &Interface) -> bool {
    let is_it = |other: &Interface| file_of_interface(other) == file_of_interface(interface);
    note.ends.as_ref().is_some_and(|ends| ends.interfaces.iter().any(is_it))
}

/// Replaces a file atomically, so that readers see the old or the new content even if this process dies, and
/// returns it locked.
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

    fn former_defaults(&self) -> Result<Vec<FormerDefault>, Error> {
        let mut former_defaults = Vec::new();
        for path in files(FORMER) {
            let former = read(&path).map_err(Error::file("understand", &path))?;
            former_defaults.extend(former.map(|(former, _)| former));
        }
        Ok(former_defaults)
    }

    fn store(&mut self, former: &FormerDefault) -> Result<(), Error> {
        replace(&file_of_former(former.namespace), former).map(|_| ())
    }

    fn remove(&mut self, namespace: Namespace) -> Result<(), Error> {
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

/// Returns the living instances, by name.
pub fn running() -> Vec<Note> {
    instances().into_iter().filter(|(_, alive)| *alive).map(|(note, _)| note).collect()
}

/// Returns the killed instances, by name.
pub fn killed() -> Vec<Note> {
    instances().into_iter().filter(|(_, alive)| !*alive).map(|(note, _)| note).collect()
}

/// Returns all readable notes, by name, and whether their processes live.
fn instances() -> Vec<(Note, bool)> {
    files("").iter().filter_map(|path| read(path).ok().flatten()).collect()
}

/// Returns the files with a prefix, or those of instances, which have none, sorted.
fn files(prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let own = [FORMER, INTERFACE].into_iter().find(|own| name.starts_with(own)).unwrap_or_default();
        name.ends_with(".json") && own == prefix
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_wanted).collect();
    files.sort();
    files
}

/// Reads a file and whether it is locked; `None` if it is gone.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<(T, bool)>> {
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
