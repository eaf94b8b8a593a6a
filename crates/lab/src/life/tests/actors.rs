//! What the processes of labs and their users do.

use std::cell::Cell;
use std::rc::Rc;

use super::super::{down, end, up};
use super::system::{Daemon, Here, PATIENCE, step};
use super::world::{Kind, Pid, Process, Shared, State, World};

pub(super) async fn daemon(world: Shared, me: Pid, lab: u32, owner: Pid) {
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

pub(super) async fn holder(world: Shared, me: Pid, lab: u32, node: usize, daemon: Pid) {
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
pub(super) async fn enter(world: Shared, me: Pid, name: &'static str, node: usize) {
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

pub(super) async fn bring_up(world: Shared, me: Pid, name: &'static str, stays: bool) {
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

pub(super) async fn take_down(world: Shared, me: Pid, name: &'static str) {
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
