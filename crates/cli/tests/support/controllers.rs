//! Tests that load congestion controllers into this kernel.

// Each test file uses a different part of this module.
#![allow(dead_code, unreachable_pub)]

use nix::sched::{CloneFlags, unshare};

/// Whether controllers can be loaded here; says so if not.
pub fn can_load_controllers() -> bool {
    headway_kernel::check().inspect_err(|error| println!("SKIPPED: {error}")).is_ok()
}

/// Enters a new network namespace to load controllers in; says so and returns `false` if that cannot be here.
pub fn enter_network() -> bool {
    if !can_load_controllers() {
        return false;
    }
    let entered = unshare(CloneFlags::CLONE_NEWNET);
    if let Err(error) = &entered {
        println!("SKIPPED: this host does not allow network namespaces ({error}); run as root");
    }
    entered.is_ok()
}
