//! The simulated host as one process sees it: before every operation the others may go on.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::super::{Ending, System};
use super::world::{Kind, Lab, Pid, Shared, State};
use crate::error::Error;

/// Waits until the deadline of [`System::wait`] passes.
pub(super) const PATIENCE: u32 = 40;

/// Yields to the other processes before an operation.
pub(super) async fn step() {
    let mut before = true;
    poll_fn(|_| if std::mem::take(&mut before) { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// The system as seen by one process.
pub(super) struct Here {
    pub(super) world: Shared,
    pub(super) me: Pid,
    pub(super) waited: Cell<u32>,
}

pub(super) struct Locked(Shared, Pid);

impl Drop for Locked {
    fn drop(&mut self) {
        let mut world = self.0.borrow_mut();
        if world.lock == Some(self.1) {
            world.lock = None;
        }
    }
}

impl System for Here {
    type Lock = Locked;
    type Folder = u32;
    type State = State;
    type Started = Pid;

    async fn lock(&self) -> Result<Locked, Error> {
        loop {
            step().await;
            let mut world = self.world.borrow_mut();
            if world.lock.is_none() {
                world.lock = Some(self.me);
                return Ok(Locked(Rc::clone(&self.world), self.me));
            }
        }
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        step().await;
        Ok(self.world.borrow().folders.keys().cloned().collect())
    }

    async fn find(&self, name: &str) -> Result<Option<u32>, Error> {
        step().await;
        Ok(self.world.borrow().folders.get(name).map(|folder| folder.number))
    }

    async fn is_used(&self, folder: &u32) -> Result<bool, Error> {
        step().await;
        Ok(self.world.borrow().is_used(*folder))
    }

    async fn state(&self, folder: &u32) -> Result<Option<State>, Error> {
        step().await;
        Ok(self.world.borrow().folder(*folder).and_then(|folder| folder.state.clone()))
    }

    async fn is_ending(&self, state: &State) -> Result<bool, Error> {
        step().await;
        let is_dead = |pid: Pid| !self.world.borrow().lives(pid);
        Ok(state.ending || is_dead(state.daemon) || state.owner.is_some_and(is_dead))
    }

    async fn start(&self, name: &str) -> Result<Pid, Error> {
        step().await;
        let number = self.world.borrow_mut().number();
        let before = self.world.borrow_mut().folders.insert(name.to_owned(), Lab { number, state: None });
        if let Some(before) = before {
            self.world.borrow_mut().lies.push(format!("{before:?} was overwritten"));
        }
        step().await;
        self.world.borrow_mut().starters.insert(self.me, number);
        step().await;
        let daemon = self.world.borrow_mut().spawn(Kind::Daemon, number, 0, self.me);
        step().await;
        self.world.borrow_mut().starters.remove(&self.me);
        loop {
            step().await;
            let world = self.world.borrow();
            if world.ready.contains(&daemon) {
                return Ok(daemon);
            }
            if !world.lives(daemon) {
                return Err(Error::NotUp(name.to_owned()));
            }
        }
    }

    async fn ask_to_end(&self, state: &State) -> Result<(), Error> {
        step().await;
        self.world.borrow_mut().asked.push(state.daemon);
        Ok(())
    }

    async fn wait(&self) -> bool {
        step().await;
        self.waited.set((self.waited.get() + 1) % PATIENCE);
        self.waited.get() != 0
    }

    async fn force_to_end(&self, state: &State) -> Result<(), Error> {
        step().await;
        self.world.borrow_mut().end(state.daemon);
        Ok(())
    }

    async fn sweep(&self, state: &State) -> Result<(), Error> {
        sweep(&self.world, state.lab).await;
        Ok(())
    }

    async fn remove(&self, folder: &u32) -> Result<(), Error> {
        remove(&self.world, *folder).await;
        Ok(())
    }
}

async fn sweep(world: &Shared, lab: u32) {
    loop {
        step().await;
        let mut world = world.borrow_mut();
        let Some(pid) = world.programs(lab, None).pop() else { return };
        world.end(pid);
    }
}

/// Removes file by file.
async fn remove(world: &Shared, lab: u32) {
    step().await;
    for folder in world.borrow_mut().folders.values_mut().filter(|folder| folder.number == lab) {
        folder.state = None;
    }
    step().await;
    world.borrow_mut().folders.retain(|_, folder| folder.number != lab);
}

/// A daemon's own memory.
pub(super) struct Daemon {
    pub(super) world: Shared,
    pub(super) lab: u32,
    pub(super) holders: Vec<Pid>,
}

impl Ending for Daemon {
    async fn close(&mut self) -> Result<(), Error> {
        step().await;
        for folder in self.world.borrow_mut().folders.values_mut().filter(|one| one.number == self.lab) {
            folder.state.iter_mut().for_each(|state| state.ending = true);
        }
        Ok(())
    }

    async fn ask_programs(&mut self) {
        step().await;
        let mut world = self.world.borrow_mut();
        // Not all programs obey: those of node 1 do not.
        for pid in world.programs(self.lab, Some(0)) {
            world.end(pid);
        }
    }

    async fn dismiss_holders(&mut self) -> bool {
        for holder in &self.holders {
            step().await;
            self.world.borrow_mut().asked.push(*holder);
        }
        for _ in 0..PATIENCE {
            step().await;
            if self.holders.iter().all(|holder| !self.world.borrow().lives(*holder)) {
                return true;
            }
        }
        false
    }

    async fn sweep(&mut self) {
        sweep(&self.world, self.lab).await;
    }

    async fn remove(&mut self) -> Result<(), Error> {
        remove(&self.world, self.lab).await;
        Ok(())
    }
}
