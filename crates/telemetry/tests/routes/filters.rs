//! Programs of BPF as filters at an interface.

use std::io;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;

use headway_telemetry::qdisc::{Direction, Filters};
use nix::net::if_::if_nametoindex;

use crate::{is_alone, link};

/// Loads a program that leaves every packet to the next one, or says why it cannot.
fn program() -> io::Result<OwnedFd> {
    // r0 = -1; exit (`Documentation/bpf/standardization/instruction-set.rst`).
    let instructions = [0xffff_ffff_0000_00b7_u64, 0x95];
    let license = c"MIT";
    let mut attributes = [0_u64; 15];
    // BPF_PROG_TYPE_SCHED_CLS, and how many instructions.
    attributes[0] = 3 | (instructions.len() as u64) << 32;
    attributes[1] = instructions.as_ptr() as u64;
    attributes[2] = license.as_ptr() as u64;
    // SAFETY: BPF_PROG_LOAD (5) reads what the attributes point to, which outlives the call.
    let loaded = unsafe { libc::syscall(libc::SYS_bpf, 5, attributes.as_ptr(), size_of_val(&attributes)) };
    if loaded < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened for this process just now.
    Ok(unsafe { OwnedFd::from_raw_fd(loaded as i32) })
}

fn tc(arguments: &str) -> String {
    let output = Command::new("tc").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "tc {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns how many programs there are in each direction.
fn count() -> [usize; 2] {
    let lines = |direction| tc(&format!("filter show dev eth0 {direction}"));
    ["ingress", "egress"].map(|direction| lines(direction).matches("direct-action").count())
}

#[test]
fn an_owner_removes_its_programs_and_those_of_others_stay() {
    if !is_alone() {
        return;
    }
    let program = match program() {
        Ok(program) => program,
        Err(error) => return println!("SKIPPED: this kernel loads no programs ({error}); run as root"),
    };
    link();
    let eth0 = if_nametoindex("eth0").unwrap();
    let has_clsact = || tc("qdisc show dev eth0").contains("clsact");
    let mut owners = [7, 8].map(|owner| Filters::open(owner).unwrap());
    assert!(!owners[0].remove(eth0).unwrap(), "there is nothing yet");

    for direction in [Direction::Ingress, Direction::Egress, Direction::Egress] {
        owners[0].set(eth0, direction, program.as_fd()).unwrap();
    }
    assert_eq!(count(), [1, 1], "the second one replaced the first");
    owners[1].set(eth0, Direction::Ingress, program.as_fd()).unwrap();
    assert_eq!(count(), [2, 1]);
    assert!(owners[0].remove(eth0).unwrap());
    assert_eq!((count(), has_clsact()), ([1, 0], true), "somebody else uses it");
    assert!(owners[1].remove(eth0).unwrap() && !owners[1].remove(eth0).unwrap());
    assert!(has_clsact(), "its owner left first");

    tc("qdisc del dev eth0 clsact");
    owners[0].set(eth0, Direction::Egress, program.as_fd()).unwrap();
    assert!(owners[0].remove(eth0).unwrap() && !has_clsact(), "what was made for it goes with it");

    tc("qdisc add dev eth0 ingress");
    let reason = owners[0].set(eth0, Direction::Egress, program.as_fd()).unwrap_err().to_string();
    assert!(reason.contains("`ingress`"), "{reason}");
}
