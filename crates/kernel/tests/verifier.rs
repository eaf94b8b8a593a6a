//! How many instructions the verifier of this kernel reads for each program: it gives up at a million.
//!
//! The number grows with the paths through a program, and differs between kernels: a program that this
//! one takes with little room may be refused by another. Where the machine does not allow BPF, the
//! test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::process::Command;

use headway_arithmetic::flow::{Rule, Rules};
use headway_kernel::{
    Controller, Edge, EdgeInterface, EdgeOptions, Error, Loaded, Loader, Namespace, StampOptions,
    StampReceiver,
};
use libbpf_rs::ObjectBuilder;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use nix::sched::{CloneFlags, unshare};

/// Of the million that the kernel allows (`BPF_COMPLEXITY_LIMIT_INSNS`), a fifth is left for changes.
const MOST: u32 = 800_000;

/// Prints what the verifier has read for loaded programs, and fails if that is too much, or if it refused
/// them. A kernel without a place for controllers says so.
fn report<T>(name: &str, loaded: Result<T, Error>, programs: fn(&T) -> Result<Vec<u32>, Error>) {
    let loaded = match loaded {
        Err(reason @ Error::Refused { .. }) => panic!("{name}: {reason}"),
        Err(reason) => return println!("SKIPPED: {name}: {reason}"),
        Ok(loaded) => loaded,
    };
    let ids = programs(&loaded).unwrap();
    let all = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default());
    let mut programs: Vec<_> = all.filter(|info| ids.contains(&info.id)).collect();
    programs.sort_by_key(|info| info.verified_insns);
    for info in &programs {
        println!("INSTRUCTIONS {name} {}: {}", info.name.to_string_lossy(), info.verified_insns);
    }
    let most = programs.last().unwrap();
    assert!(
        most.verified_insns <= MOST,
        "{name}: {} needs {}",
        most.name.to_string_lossy(),
        most.verified_insns
    );
}

#[test]
fn the_verifier_allows_each_program_with_room_for_changes() {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        return println!("SKIPPED: only root can make a network namespace");
    }
    for controller in Controller::ALL {
        let loader = Loader::new(controller).name("verified");
        report(controller.name(), loader.load(), Loaded::programs);
    }
    let receiver = StampOptions { namespace: Namespace::here().unwrap(), port: None, to: None };
    report("rapid-receiver", StampReceiver::load(&receiver), StampReceiver::programs);

    let made = Command::new("ip").args("link add lan type veth peer name wan".split(' ')).status();
    assert!(made.unwrap().success());
    let sides = ["lan", "wan"].map(|name| EdgeInterface::find(name).unwrap());
    let options =
        EdgeOptions { no_shrink: false, dry_run: false, follow_rtt: true, splits: true, connections: 64 };
    let mut rules = Rules::default();
    assert!(rules.push(Rule::any(0)));
    report("edge", Edge::start([&sides[0], &sides[1]], &options, &rules), Edge::programs);
}

/// A controller in BPF sets how long after a departure the next one is, but cannot move one that is
/// set: why `ls-dctcp` makes smaller cuts below two segments (`LS_LATE_CUT_SHIFT`). Where a kernel
/// allows it, that may go.
#[test]
fn the_verifier_lets_no_program_move_a_departure() {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/departure.bpf.o"));
    let load = |moves: u32| {
        let mut open = ObjectBuilder::default().open_memory(object).unwrap();
        let mut options = open.maps_mut().find(|map| map.name() == ".rodata.options").unwrap();
        options.set_initial_value(&moves.to_ne_bytes()).unwrap();
        open.load().is_ok()
    };
    if !load(0) {
        return println!("SKIPPED: this machine takes no controllers as programs");
    }
    assert!(!load(1));
}
