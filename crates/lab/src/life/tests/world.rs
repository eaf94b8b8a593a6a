//! A simulated host: its processes, the folders of labs, and what the kernel does when a process ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) type Pid = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `lab up` or `lab down`.
    User,
    Daemon,
    Holder,
    /// A program that has entered a network namespace and has not checked again yet.
    Entering,
    /// A program in a network namespace.
    Program,
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) kind: Kind,
    /// Its lab: the number of the directory.
    pub(super) lab: u32,
    /// Node of a holder or a program.
    pub(super) node: usize,
    pub(super) parent: Pid,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) daemon: Pid,
    pub(super) lab: u32,
    pub(super) owner: Option<Pid>,
    pub(super) ending: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Lab {
    pub(super) number: u32,
    pub(super) state: Option<State>,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) processes: BTreeMap<Pid, Process>,
    pub(super) folders: BTreeMap<String, Lab>,
    pub(super) lock: Option<Pid>,
    /// Processes that hold the lock of a directory besides daemons and holders, and which directory.
    pub(super) starters: BTreeMap<Pid, u32>,
    /// Daemons asked to end and holders dismissed.
    pub(super) asked: Vec<Pid>,
    /// Daemons that may outlive their starter.
    pub(super) settled: Vec<Pid>,
    pub(super) ready: Vec<Pid>,
    pub(super) last: u32,
    /// Wrong results that operations reported.
    pub(super) lies: Vec<String>,
}

pub(super) type Shared = Rc<RefCell<World>>;

impl World {
    pub(super) fn number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    pub(super) fn spawn(&mut self, kind: Kind, lab: u32, node: usize, parent: Pid) -> Pid {
        let pid = self.number();
        self.processes.insert(pid, Process { kind, lab, node, parent });
        pid
    }

    pub(super) fn lives(&self, pid: Pid) -> bool {
        self.processes.contains_key(&pid)
    }

    /// What the kernel does when a process exits.
    pub(super) fn end(&mut self, pid: Pid) {
        self.processes.remove(&pid);
        self.starters.remove(&pid);
        if self.lock == Some(pid) {
            self.lock = None;
        }
    }

    pub(super) fn is_used(&self, lab: u32) -> bool {
        let mut all = self.processes.values();
        all.any(|one| one.lab == lab && matches!(one.kind, Kind::Daemon | Kind::Holder))
            || self.starters.values().any(|used| *used == lab)
    }

    pub(super) fn programs(&self, lab: u32, node: Option<usize>) -> Vec<Pid> {
        let inside = |one: &Process| {
            let kind = matches!(one.kind, Kind::Entering | Kind::Program);
            kind && one.lab == lab && node.is_none_or(|node| node == one.node)
        };
        self.processes.iter().filter(|(_, one)| inside(one)).map(|(pid, _)| *pid).collect()
    }

    pub(super) fn folder(&self, lab: u32) -> Option<&Lab> {
        self.folders.values().find(|folder| folder.number == lab)
    }

    /// Checks that every live process will be found by a later operation, or will end by itself.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(lie) = self.lies.first() {
            return Err(lie.clone());
        }
        for (pid, process) in &self.processes {
            let folder = self.folder(process.lab);
            let seen = match process.kind {
                Kind::User | Kind::Entering => true,
                Kind::Holder => folder.is_some(),
                Kind::Program => folder.is_some_and(|folder| folder.state.is_some()),
                // At its very end it has removed its directory, once nothing else of the lab was left.
                Kind::Daemon => folder.is_some() || self.programs(process.lab, None).is_empty(),
            };
            if !seen {
                return Err(format!("process {pid} is unseen: {process:?}"));
            }
        }
        Ok(())
    }
}
