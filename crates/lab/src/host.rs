//! The real [`System`]: labs on this machine.

use std::cell::Cell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::base::{Base, Folder, Lock};
use crate::error::Error;
use crate::life::System;
use crate::netns_processes::sweep;
use crate::process::Process;
use crate::spec::Spec;
use crate::start::{self, Started};
use crate::state::State;

/// Taking a lab down takes at most the second that programs in it get to exit by themselves.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks whether an ending lab is gone.
const ROUND: Duration = Duration::from_millis(10);

/// This machine, with the lab to bring up if any.
pub(crate) struct Host<'a> {
    base: Base,
    what: Option<(&'a Path, &'a Spec)>,
    deadline: Cell<Instant>,
}

impl<'a> Host<'a> {
    /// For bringing up a lab, with `program` as its daemon.
    pub(crate) fn for_up(program: &'a Path, spec: &'a Spec) -> Result<Host<'a>, Error> {
        Ok(Host { base: Base::make()?, what: Some((program, spec)), deadline: deadline() })
    }

    /// For taking labs down; `None` if there can be none.
    pub(crate) fn for_down() -> Result<Option<Host<'static>>, Error> {
        Ok(Base::open()?.map(|base| Host { base, what: None, deadline: deadline() }))
    }
}

fn deadline() -> Cell<Instant> {
    Cell::new(Instant::now() + TIMEOUT)
}

impl System for Host<'_> {
    type Lock = Lock;
    type Folder = Folder;
    type State = State;
    type Started = Started;

    async fn lock(&self) -> Result<Lock, Error> {
        self.base.lock()
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        Ok(self.base.names())
    }

    async fn find(&self, name: &str) -> Result<Option<Folder>, Error> {
        self.base.find(name)
    }

    async fn is_used(&self, folder: &Folder) -> Result<bool, Error> {
        folder.is_used()
    }

    async fn state(&self, folder: &Folder) -> Result<Option<State>, Error> {
        State::read(folder)
    }

    async fn is_ending(&self, state: &State) -> Result<bool, Error> {
        let is_dead = |process: Process| !process.alive();
        Ok(state.ending || is_dead(state.daemon) || state.owner.is_some_and(is_dead))
    }

    async fn start(&self, name: &str) -> Result<Started, Error> {
        let Some((program, spec)) = self.what else { return Err(Error::NotUp(name.to_owned())) };
        start::start(&self.base, program, spec, name)
    }

    async fn ask_to_end(&self, state: &State) -> Result<(), Error> {
        signal(state.daemon, libc::SIGTERM)
    }

    async fn wait(&self) -> bool {
        thread::sleep(ROUND);
        let late = Instant::now() > self.deadline.get();
        if late {
            self.deadline.set(Instant::now() + TIMEOUT);
        }
        !late
    }

    async fn force_to_end(&self, state: &State) -> Result<(), Error> {
        signal(state.daemon, libc::SIGKILL)
    }

    async fn sweep(&self, state: &State) -> Result<(), Error> {
        state.networks.iter().for_each(|network| sweep(*network, state.rootless));
        Ok(())
    }

    async fn remove(&self, folder: &Folder) -> Result<(), Error> {
        folder.remove()
    }
}

/// Sends a signal to a process unless its number has been reused.
fn signal(process: Process, signal: libc::c_int) -> Result<(), Error> {
    let Some(handle) = process.open() else { return Ok(()) };
    match handle.signal(signal) {
        Err(_) if handle.has_ended() => Ok(()),
        result => result.map_err(Error::system("end the lab's daemon")),
    }
}
