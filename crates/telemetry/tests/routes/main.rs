//! Routes of network namespaces. A program of its own: while a namespace comes and goes, packets on
//! loopback may be late.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::process::Command;

use nix::sched::{CloneFlags, unshare};

mod filters;
mod kept;
mod marked;
mod preferred;
mod timestamps;

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a pair of interfaces, whose first has the address 10.1.2.3.
fn link() {
    ip("link add eth0 type veth peer name eth1");
    ip("link set eth1 up");
    ip("link set eth0 up");
    ip("addr add 10.1.2.3/24 dev eth0");
}

/// Moves the thread of a test into a network namespace of its own, with loopback up, and tells
/// whether that can be done.
fn is_alone() -> bool {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        println!("SKIPPED: only root can make a network namespace");
        return false;
    }
    ip("link set lo up");
    true
}

/// Leaves out link-local addresses, whose routes would come some time after their interfaces.
fn without_link_local() {
    // Without IPv6 there are none.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1");
}
