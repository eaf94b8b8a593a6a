//! The order of steps in which labs come up and go down. At every moment each process of a lab can be found,
//! whichever process is killed.
//!
//! - All processes of a lab hold a lock in its directory, from before the first one starts until the
//!   last one has exited.
//! - A lab publishes how programs can enter it only when it is complete. A program that has entered
//!   checks again and leaves if the lab is ending. Only after the lab has been closed are the
//!   programs inside it ended.
//! - A directory is removed only when nobody uses it and no process runs in its network namespaces any more.
//!
//! The code is `async` for one reason: a test can stop every process between any two operations and
//! let the others go on. In production no operation ever returns `Pending`, and [`now`] runs
//! everything to completion.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::error::Error;

/// The system operations for bringing labs up and down; each happens completely or not at all.
pub(crate) trait System {
    /// The lock that allows bringing labs up and removing directories, held until dropped.
    type Lock;
    /// A lab's directory; equal only to itself, not to a later one of the same name.
    type Folder: Clone + PartialEq;
    /// The published state of a lab.
    type State;
    /// A lab that was brought up.
    type Started;

    async fn lock(&self) -> Result<Self::Lock, Error>;
    async fn names(&self) -> Result<Vec<String>, Error>;
    async fn find(&self, name: &str) -> Result<Option<Self::Folder>, Error>;
    /// Whether a process of the lab is alive, or one that is bringing it up.
    async fn is_used(&self, folder: &Self::Folder) -> Result<bool, Error>;
    /// `None` before the lab is complete.
    async fn state(&self, folder: &Self::Folder) -> Result<Option<Self::State>, Error>;
    /// Whether the lab is ending, or will end because its daemon or its owner has died.
    async fn is_ending(&self, state: &Self::State) -> Result<bool, Error>;
    /// Creates the directory and starts a daemon that brings the lab up and lives no
    /// longer than this process.
    async fn start(&self, name: &str) -> Result<Self::Started, Error>;
    /// Asks a daemon to end.
    async fn ask_to_end(&self, state: &Self::State) -> Result<(), Error>;
    /// Waits a little; returns false once the deadline has passed.
    async fn wait(&self) -> bool;
    /// Kills a daemon that does not end when asked.
    async fn force_to_end(&self, state: &Self::State) -> Result<(), Error>;
    /// Kills everything in the network namespaces of a lab whose holders have all exited.
    async fn sweep(&self, state: &Self::State) -> Result<(), Error>;
    async fn remove(&self, folder: &Self::Folder) -> Result<(), Error>;
}

/// The steps of a daemon's shutdown.
pub(crate) trait Ending {
    /// Prevents programs from entering.
    async fn close(&mut self) -> Result<(), Error>;
    /// Asks the programs in the nodes to end, and waits a limited time for them.
    async fn ask_programs(&mut self);
    /// Has the holders kill the remaining programs, and waits until the holders have exited; returns
    /// false if they do not.
    async fn dismiss_holders(&mut self) -> bool;
    /// Kills programs left over by a holder that was itself killed.
    async fn sweep(&mut self);
    async fn remove(&mut self) -> Result<(), Error>;
}

/// Brings a lab up, after removing what is left of dead ones.
pub(crate) async fn up<S: System>(system: &S, name: &str) -> Result<S::Started, Error> {
    let _lock = system.lock().await?;
    for other in system.names().await? {
        if let Some(folder) = system.find(&other).await?
            && !system.is_used(&folder).await?
        {
            remove_remains(system, &folder).await?;
        }
    }
    wait_for_ending(system, name).await?;
    system.start(name).await
}

/// Waits until a lab of this name that is ending has gone; fails if it is up.
async fn wait_for_ending<S: System>(system: &S, name: &str) -> Result<(), Error> {
    while let Some(folder) = system.find(name).await? {
        if !system.is_used(&folder).await? {
            return remove_remains(system, &folder).await;
        }
        if let Some(state) = system.state(&folder).await?
            && !system.is_ending(&state).await?
        {
            return Err(Error::AlreadyUp(name.to_owned()));
        }
        if !system.wait().await {
            return Err(Error::DoesNotExit(name.to_owned()));
        }
    }
    Ok(())
}

/// Takes a lab down in whatever state it is, and returns when none of its processes is alive; false
/// if there is nothing.
///
/// With `only`, a later lab of the same name is left alone.
pub(crate) async fn down<S: System>(system: &S, name: &str, only: Option<&S::Folder>) -> Result<bool, Error> {
    let found = system.find(name).await?;
    let Some(folder) = found.filter(|found| only.is_none_or(|only| only == found)) else { return Ok(false) };
    loop {
        end_use(system, name, &folder).await?;
        let _lock = system.lock().await?;
        // Another lab of this name may have come up since.
        if system.find(name).await?.is_none_or(|now| now != folder) {
            return Ok(true);
        }
        // Or this one: its directory existed before its first process.
        if !system.is_used(&folder).await? {
            remove_remains(system, &folder).await?;
            return Ok(true);
        }
    }
}

/// Ends the processes of a lab, by force if they do not exit in time.
async fn end_use<S: System>(system: &S, name: &str, folder: &S::Folder) -> Result<(), Error> {
    let mut asked = false;
    let mut forced = false;
    while system.is_used(folder).await? {
        if !asked && let Some(state) = system.state(folder).await? {
            system.ask_to_end(&state).await?;
            asked = true;
        }
        if system.wait().await {
            continue;
        }
        match system.state(folder).await? {
            Some(state) if !forced => system.force_to_end(&state).await?,
            _ => return Err(Error::DoesNotExit(name.to_owned())),
        }
        forced = true;
    }
    Ok(())
}

/// Removes what is left of a lab whose processes have all exited.
async fn remove_remains<S: System>(system: &S, folder: &S::Folder) -> Result<(), Error> {
    if let Some(state) = system.state(folder).await? {
        system.sweep(&state).await?;
    }
    system.remove(folder).await
}

/// Shuts a daemon down.
pub(crate) async fn end(daemon: &mut impl Ending) -> Result<(), Error> {
    daemon.close().await?;
    daemon.ask_programs().await;
    if !daemon.dismiss_holders().await {
        return Ok(());
    }
    daemon.sweep().await;
    daemon.remove().await
}

/// Runs `work` to completion.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
    }
}

#[cfg(test)]
mod tests;
