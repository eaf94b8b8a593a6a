//! The instances that have a controller loaded on this host, and the leftovers of killed ones.
//!
//! Each instance keeps a file locked (see `folder.rs`). The former default of a network namespace has a file
//! of its own, which stays until that default is restored (see `notes.rs`).

use std::fs::File;
use std::path::PathBuf;

use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};

use crate::default::{FormerDefault, Namespace, current_default, set_default};
use crate::device::Interface;
use crate::error::Error;
use crate::folder::{Folder, read, remove};
use crate::is_loaded;
use crate::note::Note;
use crate::notes::{self, Store};
use crate::query::unregister;
use crate::routes::ChangedRoutes;

/// Writable by root only, because only root can load controllers.
const FOLDER: Folder = Folder::new("/run/headway/cc");
/// The prefix of files of former defaults; the dash cannot occur in a controller's name.
const FORMER: &str = "default-";
/// The prefix of files of interfaces as they were.
const INTERFACE: &str = "interface-";

/// The prefix of files of routes.
const ROUTES: &str = "routes-";

/// An interface that an instance of XCP, RCP or TCP Rapid changed, as it was before.
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
        Ok(Notes { _lock: FOLDER.lock()?, own: None })
    }

    /// Registers this process and, with `default`, makes its controller the default of
    /// this network namespace.
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

    /// Removes what is noted of network namespaces that are gone, where nothing can be restored; killed
    /// instances stay while the kernel has their controller loaded, as for connections of other namespaces.
    ///
    /// # Errors
    /// When a file cannot be read or removed.
    pub fn remove_gone(&mut self) -> Result<(), Error> {
        let is_gone = |namespace: Namespace| !namespace.may_be_kept();
        notes::remove_gone(self, is_gone, |note| is_loaded(note.counters_map))?;
        let interfaces = self.interfaces_left_behind().into_iter().map(|changed| changed.interface);
        for interface in interfaces.filter(|interface| is_gone(interface.namespace)) {
            self.forget_interface(&interface)?;
        }
        for routes in self.routes_left_behind().iter().filter(|routes| is_gone(routes.namespace)) {
            self.forget_routes(routes)?;
        }
        Ok(())
    }

    /// Notes an interface as it is, before it is changed: it can then be restored whatever
    /// becomes of this process.
    ///
    /// # Errors
    /// When another instance has changed it, or the note cannot be written.
    pub fn keep_interface(&mut self, changed: &Changed) -> Result<(), Error> {
        if let Some(other) = running().into_iter().find(|note| uses(note, &changed.interface)) {
            let reason = format!("{} (process {}) is on there; end that first", other.name, other.pid);
            return Err(Error::Device { interface: changed.interface.name.clone(), reason });
        }
        FOLDER.replace(&file_of_interface(&changed.interface), changed).map(|_| ())
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

    /// Notes routes before they are changed.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub fn keep_routes(&mut self, changed: &ChangedRoutes) -> Result<(), Error> {
        FOLDER.replace(&file_of_routes(changed.namespace), changed).map(|_| ())
    }

    /// Removes the note of routes that have been restored, or whose network namespace
    /// does not exist any more.
    ///
    /// # Errors
    /// When the note cannot be removed.
    pub fn forget_routes(&mut self, changed: &ChangedRoutes) -> Result<(), Error> {
        remove(&file_of_routes(changed.namespace))
    }

    /// Restores routes that a killed process left changed, if they are of this network namespace; returns
    /// whether they were. Their note goes then, and if their namespace does not exist any more.
    ///
    /// # Errors
    /// When the kernel refuses, or the note cannot be removed.
    pub fn restore_routes(&mut self, changed: &ChangedRoutes) -> Result<bool, Error> {
        let here = changed.namespace == Namespace::here()?;
        if here {
            changed.restore()?;
        }
        if here || !changed.namespace.may_be_kept() {
            self.forget_routes(changed)?;
        }
        Ok(here)
    }

    /// Returns the routes that killed processes left changed.
    pub fn routes_left_behind(&self) -> Vec<ChangedRoutes> {
        let running = running();
        let is_used = |changed: &ChangedRoutes| {
            let is_here =
                |note: &Note| note.stamps.is_some_and(|stamps| stamps.namespace == changed.namespace);
            running.iter().any(|note| note.name == changed.by && is_here(note))
        };
        let changed =
            files(ROUTES).into_iter().filter_map(|path| read::<ChangedRoutes>(&path).ok().flatten());
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

fn file_of_former(namespace: Namespace) -> PathBuf {
    FOLDER.file(&format!("{FORMER}{}", namespace.cookie))
}

fn file_of_interface(interface: &Interface) -> PathBuf {
    FOLDER.file(&format!("{INTERFACE}{}-{}", interface.namespace.cookie, interface.index))
}

fn file_of_routes(namespace: Namespace) -> PathBuf {
    FOLDER.file(&format!("{ROUTES}{}", namespace.cookie))
}

/// Whether an instance has its programs at this interface.
fn uses(note: &Note, interface: &Interface) -> bool {
    let is_it = |other: &Interface| file_of_interface(other) == file_of_interface(interface);
    note.interfaces().iter().any(is_it)
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
        FOLDER.replace(&file_of_former(former.namespace), former).map(|_| ())
    }

    fn remove(&mut self, namespace: Namespace) -> Result<(), Error> {
        remove(&file_of_former(namespace))
    }

    fn instances(&self) -> Result<Vec<(Note, bool)>, Error> {
        Ok(instances())
    }

    fn announce(&mut self, note: &Note) -> Result<(), Error> {
        self.own = Some(FOLDER.replace(&FOLDER.file(&note.name), note)?);
        Ok(())
    }

    fn withdraw(&mut self, name: &str) -> Result<(), Error> {
        let path = FOLDER.file(name);
        if let Ok(Some((Note { registered: Some(map), .. }, _))) = read(&path) {
            unregister(map);
        }
        remove(&path)
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
    FOLDER.files(|name| {
        let own =
            [FORMER, INTERFACE, ROUTES].into_iter().find(|own| name.starts_with(own)).unwrap_or_default();
        own == prefix
    })
}
