//! The order in which labs come up and go down, so that none of their processes is ever unseen, whoever is killed when.
//!
//! - All processes of a lab hold a lock in its folder, from before the first one starts until the last one has ended.
//! - A lab says where programs can enter it only when it is complete. Who has entered looks once more, and leaves when the lab is
//!   ending; only then what is in it is ended.
//! - A folder is removed when nothing uses it and nothing lives in its networks any more.
//!
//! It is `async` for one reason: a test can stop everybody between any two operations, and let others go on. Here no operation
//! waits for another, and [`now`] does them all at once.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::error::Error;

/// What bringing labs up and down asks of the system; every operation is done as a whole or not at all.
pub(crate) trait System {
    /// The right to bring labs up and to remove folders, until dropped.
    type Lock;
    /// A lab's folder; equal only to itself, not to a later one of the same name.
    type Folder: Clone + PartialEq;
    /// What a lab says of itself.
    type State;
    /// A lab that was brought up.
    type Started;

    async fn lock(&self) -> Result<Self::Lock, Error>;
    async fn names(&self) -> Result<Vec<String>, Error>;
    async fn find(&self, name: &str) -> Result<Option<Self::Folder>, Error>;
    /// Whether a process of the lab lives, or one that brings it up.
    async fn is_used(&self, folder: &Self::Folder) -> Result<bool, Error>;
    /// `None` before the lab is complete.
    async fn state(&self, folder: &Self::Folder) -> Result<Option<Self::State>, Error>;
    /// Whether it is ending, or will because its daemon or who brought it up has died.
    async fn is_doomed(&self, state: &Self::State) -> Result<bool, Error>;
    /// Makes the folder and has a daemon bring the lab up that lives no longer than this process.
    async fn start(&self, name: &str) -> Result<Self::Started, Error>;
    /// Asks a daemon to end.
    async fn ask_to_end(&self, state: &Self::State) -> Result<(), Error>;
    /// Waits a little; false when that has been done for too long.
    async fn wait(&self) -> bool;
    /// Ends a daemon that does not end when asked.
    async fn force_to_end(&self, state: &Self::State) -> Result<(), Error>;
    /// Ends everything in the networks of a lab that nobody holds any more.
    async fn sweep(&self, state: &Self::State) -> Result<(), Error>;
    async fn remove(&self, folder: &Self::Folder) -> Result<(), Error>;
}

/// What a daemon does at its end.
pub(crate) trait Ending {
    /// Lets nobody enter any more.
    async fn close(&mut self) -> Result<(), Error>;
    /// Asks what runs in the nodes to end, and gives it some time.
    async fn ask_programs(&mut self);
    /// Has the holders end what still runs, and waits until they have ended themselves; false when they do not.
    async fn dismiss_holders(&mut self) -> bool;
    /// Ends what a holder has left alive that was killed.
    async fn sweep(&mut self);
    async fn remove(&mut self) -> Result<(), Error>;
}

/// Brings a lab up, and removes what is left of dead ones.
pub(crate) async fn up<S: System>(system: &S, name: &str) -> Result<S::Started, Error> {
    let _lock = system.lock().await?;
    for other in system.names().await? {
        if let Some(folder) = system.find(&other).await?
            && !system.is_used(&folder).await?
        {
            bury(system, &folder).await?;
        }
    }
    make_room(system, name).await?;
    system.start(name).await
}

/// Waits for the end of a lab that is ending.
async fn make_room<S: System>(system: &S, name: &str) -> Result<(), Error> {
    while let Some(folder) = system.find(name).await? {
        if !system.is_used(&folder).await? {
            return bury(system, &folder).await;
        }
        if let Some(state) = system.state(&folder).await?
            && !system.is_doomed(&state).await?
        {
            return Err(Error::AlreadyUp(name.to_owned()));
        }
        if !system.wait().await {
            return Err(Error::Endless(name.to_owned()));
        }
    }
    Ok(())
}

/// Takes a lab down, whatever is left of it, and returns when none of its processes lives; false when there is nothing.
///
/// With `only`, a later lab of the same name is left alone.
pub(crate) async fn down<S: System>(system: &S, name: &str, only: Option<&S::Folder>) -> Result<bool, Error> {
    let found = system.find(name).await?;
    let Some(folder) = found.filter(|found| only.is_none_or(|only| only == found)) else { return Ok(false) };
    loop {
        end_use(system, name, &folder).await?;
        let _lock = system.lock().await?;
        // Somebody may have brought up another one since.
        if system.find(name).await?.is_none_or(|now| now != folder) {
            return Ok(true);
        }
        // Or this one: its folder was there before the first of its processes.
        if !system.is_used(&folder).await? {
            bury(system, &folder).await?;
            return Ok(true);
        }
    }
}

/// Ends the processes of a lab, by force when they do not end in time.
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
            _ => return Err(Error::Endless(name.to_owned())),
        }
        forced = true;
    }
    Ok(())
}

/// Removes what is left of a lab without processes that hold it.
async fn bury<S: System>(system: &S, folder: &S::Folder) -> Result<(), Error> {
    if let Some(state) = system.state(folder).await? {
        system.sweep(&state).await?;
    }
    system.remove(folder).await
}

/// The end of a daemon.
pub(crate) async fn end(daemon: &mut impl Ending) -> Result<(), Error> {
    daemon.close().await?;
    daemon.ask_programs().await;
    if !daemon.dismiss_holders().await {
        return Ok(());
    }
    daemon.sweep().await;
    daemon.remove().await
}

/// Does `work` at once.
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
#[path = "life_tests.rs"]
mod tests;
