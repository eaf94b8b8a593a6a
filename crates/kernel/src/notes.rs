//! The order in which notes are written, so that the default of a network namespace is never lost.
//!
//! A program may be killed between any two of these steps. So the former default is on disk before the
//! default is changed and stays there until it has been restored. The next program that changes the default
//! adopts that note and does not overwrite it.

use crate::default::{FormerDefault, Namespace};
use crate::error::Error;
use crate::note::Note;

/// Storage for notes, and access to defaults; nothing else changes either while the store is open.
pub(crate) trait Store {
    /// Returns the network namespace of this thread.
    fn here(&self) -> Result<Namespace, Error>;
    /// Returns its default controller.
    fn current(&self) -> Result<String, Error>;
    /// Changes its default controller.
    fn set(&mut self, name: &str) -> Result<(), Error>;
    /// Returns the defaults to be restored, of all namespaces.
    fn former_defaults(&self) -> Result<Vec<FormerDefault>, Error>;
    /// Stores a former default, replacing the one of the same namespace.
    fn store(&mut self, former: &FormerDefault) -> Result<(), Error>;
    /// Removes the former default of a namespace.
    fn remove(&mut self, namespace: Namespace) -> Result<(), Error>;
    /// Returns the notes of all instances, and whether their processes live.
    fn instances(&self) -> Result<Vec<(Note, bool)>, Error>;
    /// Stores the note of this process; it counts as living until the process ends.
    fn announce(&mut self, note: &Note) -> Result<(), Error>;
    /// Removes the note of an instance.
    fn withdraw(&mut self, name: &str) -> Result<(), Error>;
}

/// Registers an instance and, with `default`, makes its controller the default of this network namespace.
pub(crate) fn start(store: &mut impl Store, note: &mut Note, default: bool) -> Result<(), Error> {
    remove_killed(store, |name| *name == note.name)?;
    refuse_taken(store, &note.name, default)?;
    note.namespace = Some(store.here()?);
    if !default {
        return store.announce(note);
    }
    let mut former = remove_obsolete(store)?.map_or_else(|| former_of_now(store), Ok)?;
    if !former.names.contains(&note.name) {
        former.names.push(note.name.clone());
    }
    // Until the change has happened, the default may be the old one, which can also be one of Headway's, or
    // the new one.
    store.store(&former)?;
    note.default = Some(former.clone());
    store.announce(note)?;
    former.names = vec![note.name.clone()];
    store.set(&note.name).and_then(|()| store.store(&former)).inspect_err(|_| {
        // Report the first error; what cannot be undone now stays noted.
        let _ = end(store, note);
    })
}

/// Undoes [`start`]; the note of a default that cannot be restored stays.
pub(crate) fn end(store: &mut impl Store, note: &Note) -> Result<(), Error> {
    let restored = if note.default.is_some() { restore(store, &[&note.name]) } else { Ok(()) };
    store.withdraw(&note.name)?;
    restored
}

/// Restores the former default of this network namespace if one of `names` replaced it; an empty
/// `names` matches any.
pub(crate) fn restore(store: &mut impl Store, names: &[&str]) -> Result<(), Error> {
    let Some(former) = remove_obsolete(store)? else { return Ok(()) };
    if !names.is_empty() && !names.iter().any(|name| former.names.iter().any(|own| own == name)) {
        return Ok(());
    }
    store.set(&former.former)?;
    store.remove(former.namespace)
}

/// Removes the notes of killed processes with such names, and the note of a default in this namespace that
/// somebody else has changed since.
pub(crate) fn remove_killed(store: &mut impl Store, wanted: impl Fn(&String) -> bool) -> Result<(), Error> {
    for (note, alive) in store.instances()? {
        if !alive && wanted(&note.name) {
            store.withdraw(&note.name)?;
        }
    }
    remove_obsolete(store).map(|_| ())
}

/// Removes what is noted of network namespaces that are gone: their defaults, and killed instances whose
/// controller is not loaded any more.
pub(crate) fn remove_gone(
    store: &mut impl Store,
    is_gone: impl Fn(Namespace) -> bool,
    is_loaded: impl Fn(&Note) -> bool,
) -> Result<(), Error> {
    for (note, alive) in store.instances()? {
        if !alive && note.namespace.is_some_and(&is_gone) && !is_loaded(&note) {
            store.withdraw(&note.name)?;
        }
    }
    for former in store.former_defaults()? {
        if is_gone(former.namespace) {
            store.remove(former.namespace)?;
        }
    }
    Ok(())
}

/// Returns the former defaults that no living process will restore.
pub(crate) fn left_behind(store: &impl Store) -> Result<Vec<FormerDefault>, Error> {
    let instances = store.instances()?;
    let owned = |former: &FormerDefault| {
        let mut living = instances.iter().filter(|(_, alive)| *alive);
        living.any(|(note, _)| is_owner(note, former))
    };
    let here = store.here()?;
    let current = store.current()?;
    let obsolete = |former: &FormerDefault| former.namespace == here && !former.names.contains(&current);
    Ok(store.former_defaults()?.into_iter().filter(|former| !owned(former) && !obsolete(former)).collect())
}

/// Whether the instance has changed this default and no other instance has adopted it since.
fn is_owner(note: &Note, former: &FormerDefault) -> bool {
    let changed = note.default.as_ref().is_some_and(|own| own.namespace == former.namespace);
    changed && former.names.contains(&note.name)
}

fn refuse_taken(store: &impl Store, name: &str, default: bool) -> Result<(), Error> {
    let living = store.instances()?.into_iter().filter(|(_, alive)| *alive);
    let running: Vec<Note> = living.map(|(note, _)| note).collect();
    if let Some(other) = running.iter().find(|other| other.name == name) {
        return Err(Error::NameTaken(name.to_owned(), format!("process {}", other.pid)));
    }
    if !default {
        return Ok(());
    }
    // Two instances cannot both restore the former default.
    let (here, current) = (store.here()?, store.current()?);
    let of_here = |note: &&Note| note.default.as_ref().is_some_and(|own| own.namespace == here);
    match running.iter().filter(of_here).find(|other| other.name == current) {
        Some(other) => Err(Error::DefaultTaken { pid: other.pid, name: other.name.clone() }),
        None => Ok(()),
    }
}

/// Returns the noted default of this namespace, or removes the note if the current default is not Headway's:
/// somebody has changed it.
fn remove_obsolete(store: &mut impl Store) -> Result<Option<FormerDefault>, Error> {
    let here = store.here()?;
    let Some(former) = store.former_defaults()?.into_iter().find(|former| former.namespace == here) else {
        return Ok(None);
    };
    if former.names.contains(&store.current()?) {
        return Ok(Some(former));
    }
    store.remove(here)?;
    Ok(None)
}

fn former_of_now(store: &impl Store) -> Result<FormerDefault, Error> {
    Ok(FormerDefault { former: store.current()?, namespace: store.here()?, names: Vec::new() })
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
