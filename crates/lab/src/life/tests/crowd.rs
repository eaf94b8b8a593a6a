//! All acting processes, and what happens to them in random order.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use super::actors::{bring_up, daemon, enter, holder, take_down};
use super::system::PATIENCE;
use super::world::{Kind, Pid, Process, Shared};

/// The names of labs.
pub(super) const NAMES: [&str; 2] = ["one", "two"];
/// The most processes that act at the same time.
const CROWD: usize = 12;

/// All acting processes, each with the rest of its work.
pub(super) struct Crowd {
    pub(super) world: Shared,
    pub(super) acting: BTreeMap<Pid, Pin<Box<dyn Future<Output = ()>>>>,
}

impl Crowd {
    pub(super) fn new() -> Crowd {
        Crowd { world: Shared::default(), acting: BTreeMap::new() }
    }

    fn begin(&mut self, what: u16) {
        let name = NAMES[usize::from(what >> 8) % NAMES.len()];
        let me = self.world.borrow_mut().spawn(Kind::User, 0, 0, 0);
        let world = Rc::clone(&self.world);
        let work: Pin<Box<dyn Future<Output = ()>>> = match what % 8 {
            0..=2 => Box::pin(bring_up(world, me, name, !what.is_multiple_of(8))),
            3..=5 => Box::pin(enter(world, me, name, usize::from(what >> 4) % 2)),
            _ => Box::pin(take_down(world, me, name)),
        };
        self.acting.insert(me, work);
    }

    /// Starts newly spawned daemons and holders, and stops dead processes.
    fn gather(&mut self) {
        let world = Rc::clone(&self.world);
        self.acting.retain(|pid, _| world.borrow().lives(*pid));
        let processes: Vec<_> =
            world.borrow().processes.iter().map(|(pid, one)| (*pid, one.clone())).collect();
        for (pid, one) in processes {
            if self.acting.contains_key(&pid) {
                continue;
            }
            let world = Rc::clone(&self.world);
            match one.kind {
                Kind::Daemon => {
                    drop(self.acting.insert(pid, Box::pin(daemon(world, pid, one.lab, one.parent))))
                }
                Kind::Holder => {
                    drop(
                        self.acting.insert(pid, Box::pin(holder(world, pid, one.lab, one.node, one.parent))),
                    );
                }
                _ => {}
            }
        }
    }

    fn go_on(&mut self, pid: Pid) {
        if !self.world.borrow().lives(pid) {
            self.acting.remove(&pid);
        }
        let Some(work) = self.acting.get_mut(&pid) else { return };
        let mut context = Context::from_waker(Waker::noop());
        if work.as_mut().poll(&mut context).is_ready() {
            self.acting.remove(&pid);
            let mut world = self.world.borrow_mut();
            // Programs stay alive.
            if world.processes.get(&pid).is_none_or(|one| one.kind != Kind::Program) {
                world.end(pid);
            }
        }
    }

    fn kill(&mut self, pid: Pid) {
        self.acting.remove(&pid);
        self.world.borrow_mut().end(pid);
    }

    pub(super) fn event(&mut self, choice: u16) {
        self.gather();
        let (what, which) = (choice % 64, usize::from(choice / 64));
        let nth = |count: usize| which % count.max(1);
        match what {
            0..=2 if self.acting.len() < CROWD => self.begin(choice / 64),
            3 => {
                let all: Vec<Pid> = self.world.borrow().processes.keys().copied().collect();
                all.get(nth(all.len())).into_iter().for_each(|pid| self.kill(*pid));
            }
            4 => self.fork(which),
            _ => {
                let pid = self.acting.keys().nth(nth(self.acting.len())).copied();
                pid.into_iter().for_each(|pid| self.go_on(pid));
            }
        }
    }

    /// Lets a program fork another one.
    fn fork(&mut self, which: usize) {
        let mut world = self.world.borrow_mut();
        let programs: Vec<Process> =
            world.processes.values().filter(|one| one.kind == Kind::Program).cloned().collect();
        if let Some(one) = programs.get(which % programs.len().max(1)).filter(|_| programs.len() < 4) {
            world.spawn(Kind::Program, one.lab, one.node, 0);
        }
    }

    /// Runs all processes in turn until users have nothing left to do and daemons have had the time to end.
    pub(super) fn settle(&mut self) {
        let mut left = 2 * PATIENCE;
        while left > 0 {
            self.gather();
            let all: Vec<Pid> = self.acting.keys().copied().collect();
            all.into_iter().for_each(|pid| self.go_on(pid));
            let is_user =
                |pid: &Pid| self.world.borrow().processes.get(pid).is_some_and(|one| one.kind == Kind::User);
            left = if self.acting.keys().any(is_user) { 2 * PATIENCE } else { left - 1 };
        }
    }
}
