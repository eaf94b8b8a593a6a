//! Labs on a simulated system: processes are stopped, killed and resumed in random order between any two operations.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 2] = ["one", "two"];
/// Waits until the deadline of [`System::wait`] passes.
const PATIENCE: u32 = 40;
/// The most processes that act at the same time.
const CROWD: usize = 12;

type Pid = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
struct Process {
    kind: Kind,
    /// Its lab: the number of the directory.
    lab: u32,
    /// Node of a holder or a program.
    node: usize,
    parent: Pid,
}

#[derive(Clone, Debug)]
struct State {
    daemon: Pid,
    lab: u32,
    owner: Option<Pid>,
    ending: bool,
}

#[derive(Clone, Debug)]
struct Lab {
    number: u32,
    state: Option<State>,
}

#[derive(Default)]
struct World {
    processes: BTreeMap<Pid, Process>,
    folders: BTreeMap<String, Lab>,
    lock: Option<Pid>,
    /// Processes that hold the lock of a directory besides daemons and holders, and which directory.
    starters: BTreeMap<Pid, u32>,
    /// Daemons asked to end and holders dismissed.
    asked: Vec<Pid>,
    /// Daemons that may outlive their starter.
    settled: Vec<Pid>,
    ready: Vec<Pid>,
    last: u32,
    /// Wrong results that operations reported.
    lies: Vec<String>,
}

type Shared = Rc<RefCell<World>>;

impl World {
    fn number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn spawn(&mut self, kind: Kind, lab: u32, node: usize, parent: Pid) -> Pid {
        let pid = self.number();
        self.processes.insert(pid, Process { kind, lab, node, parent });
        pid
    }

    fn lives(&self, pid: Pid) -> bool {
        self.processes.contains_key(&pid)
    }

    /// What the kernel does when a process exits.
    fn end(&mut self, pid: Pid) {
        self.processes.remove(&pid);
        self.starters.remove(&pid);
        if self.lock == Some(pid) {
            self.lock = None;
        }
    }

    fn is_used(&self, lab: u32) -> bool {
        let mut all = self.processes.values();
        all.any(|one| one.lab == lab && matches!(one.kind, Kind::Daemon | Kind::Holder))
            || self.starters.values().any(|used| *used == lab)
    }

    fn programs(&self, lab: u32, node: Option<usize>) -> Vec<Pid> {
        let inside = |one: &Process| {
            let kind = matches!(one.kind, Kind::Entering | Kind::Program);
            kind && one.lab == lab && node.is_none_or(|node| node == one.node)
        };
        self.processes.iter().filter(|(_, one)| inside(one)).map(|(pid, _)| *pid).collect()
    }

    fn folder(&self, lab: u32) -> Option<&Lab> {
        self.folders.values().find(|folder| folder.number == lab)
    }

    /// Checks that every live process will be found by a later operation, or will end by itself.
    fn check(&self) -> Result<(), String> {
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

/// Yields to the other processes before an operation.
async fn step() {
    let mut before = true;
    poll_fn(|_| if std::mem::take(&mut before) { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// The system as seen by one process.
struct Here {
    world: Shared,
    me: Pid,
    waited: Cell<u32>,
}

struct Locked(Shared, Pid);

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

    async fn is_doomed(&self, state: &State) -> Result<bool, Error> {
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
struct Daemon {
    world: Shared,
    lab: u32,
    holders: Vec<Pid>,
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

async fn daemon(world: Shared, me: Pid, lab: u32, owner: Pid) {
    let mut holders = Vec::new();
    for node in 0..2 {
        step().await;
        holders.push(world.borrow_mut().spawn(Kind::Holder, lab, node, me));
    }
    step().await;
    let state = State { daemon: me, lab, owner: Some(owner), ending: false };
    let folder = world
        .borrow_mut()
        .folders
        .values_mut()
        .find(|one| one.number == lab)
        .map(|one| one.state = Some(state));
    if folder.is_some() {
        step().await;
        world.borrow_mut().ready.push(me);
        let settled = |world: &World| world.settled.contains(&me);
        let mut known = false;
        loop {
            step().await;
            let mut world = world.borrow_mut();
            if settled(&world) && !known {
                known = true;
                let own = world.folders.values_mut().find(|one| one.number == lab);
                own.and_then(|one| one.state.as_mut()).into_iter().for_each(|state| state.owner = None);
            }
            if world.asked.contains(&me) || (!settled(&world) && !world.lives(owner)) {
                break;
            }
        }
    }
    let _ = end(&mut Daemon { world: Rc::clone(&world), lab, holders }).await;
}

async fn holder(world: Shared, me: Pid, lab: u32, node: usize, daemon: Pid) {
    loop {
        step().await;
        if world.borrow().asked.contains(&me) || !world.borrow().lives(daemon) {
            break;
        }
    }
    loop {
        step().await;
        let mut world = world.borrow_mut();
        let Some(pid) = world.programs(lab, Some(node)).pop() else { return };
        world.end(pid);
    }
}

/// `lab exec`: finds a lab, enters it, and checks again.
async fn enter(world: Shared, me: Pid, name: &'static str, node: usize) {
    step().await;
    let found = world.borrow().folders.get(name).and_then(|folder| folder.state.clone());
    let Some(state) = found.filter(|state| !state.ending) else { return };
    step().await;
    if let Some(process) = world.borrow_mut().processes.get_mut(&me) {
        *process = Process { kind: Kind::Entering, lab: state.lab, node, parent: 0 };
    }
    step().await;
    let mut world = world.borrow_mut();
    let now = world.folder(state.lab).and_then(|folder| folder.state.clone());
    let open = now.is_some_and(|state| !state.ending) && world.lives(state.daemon);
    if let Some(process) = world.processes.get_mut(&me).filter(|_| open) {
        process.kind = Kind::Program;
    }
}

async fn bring_up(world: Shared, me: Pid, name: &'static str, stays: bool) {
    let here = Here { world: Rc::clone(&world), me, waited: Cell::new(0) };
    let Ok(daemon) = up(&here, name).await else { return };
    step().await;
    if stays {
        world.borrow_mut().settled.push(daemon);
        return;
    }
    // `--foreground`, until a signal.
    for _ in 0..PATIENCE {
        step().await;
    }
    let lab = world.borrow().processes.get(&daemon).map(|process| process.lab);
    let _ = down(&here, name, lab.as_ref()).await;
}

async fn take_down(world: Shared, me: Pid, name: &'static str) {
    let lab = world.borrow().folders.get(name).map(|folder| folder.number);
    let here = Here { world: Rc::clone(&world), me, waited: Cell::new(0) };
    if !down(&here, name, None).await.unwrap_or(false) {
        return;
    }
    let kinds = [Kind::Daemon, Kind::Holder, Kind::Program];
    let mut world = world.borrow_mut();
    let left = world.processes.values().find(|one| Some(one.lab) == lab && kinds.contains(&one.kind));
    if let Some(left) = left.cloned() {
        world.lies.push(format!("{name} is said to be down, but this lives: {left:?}"));
    }
}

/// All acting processes, each with the rest of its work.
struct Crowd {
    world: Shared,
    acting: BTreeMap<Pid, Pin<Box<dyn Future<Output = ()>>>>,
}

impl Crowd {
    fn new() -> Crowd {
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

    fn event(&mut self, choice: u16) {
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
    fn settle(&mut self) {
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

proptest! {
    // 10^6 events in all.
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_process_is_ever_unseen(choices in prop::collection::vec(0u16.., 1_000)) {
        let mut crowd = Crowd::new();
        for choice in choices {
            crowd.event(choice);
            prop_assert_eq!(crowd.world.borrow().check(), Ok(()));
        }
        crowd.settle();
        for name in NAMES {
            let me = crowd.world.borrow_mut().spawn(Kind::User, 0, 0, 0);
            crowd.acting.insert(me, Box::pin(take_down(Rc::clone(&crowd.world), me, name)));
            crowd.settle();
        }
        let world = crowd.world.borrow();
        prop_assert_eq!(world.check(), Ok(()));
        prop_assert!(world.folders.is_empty(), "left: {:?}", world.folders);
        let left: Vec<_> = world.processes.values().filter(|one| one.kind != Kind::User).collect();
        prop_assert!(left.is_empty(), "left: {left:?}");
    }
}
