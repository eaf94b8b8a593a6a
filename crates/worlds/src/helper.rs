//! Helper processes of runs: the ends of flows in a lab, middleboxes, and the guest program inside a kernel.

use crate::endpoint::{self, COMMAND as ENDPOINT};
use crate::error::{Error, bail};
use crate::middlebox::{self, COMMAND as MIDDLEBOX};
use crate::uml::GUEST;

/// In a process that a run started, does its work and exits; in any other process, returns at once.
///
/// Programs that run scenarios in the kernel or in a lab must call this first in `main`.
pub fn run_helper() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [command] if command == GUEST => guest(),
        [command] if command == ENDPOINT => endpoint(),
        [command] if command == MIDDLEBOX => middlebox::run(),
        _ => return,
    };
    if let Err(error) = &done {
        // Nothing can be done if this write fails.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{}\n", error.chain()).as_bytes());
    }
    std::process::exit(i32::from(done.is_err()));
}

/// Sends or receives the TCP flows of a run in a lab according to the plan on standard input (JSON in one
/// line), and prints the counters.
///
/// # Errors
/// When the plan is invalid, or a connection or a setting of the node fails.
pub fn endpoint() -> Result<(), Error> {
    endpoint::run()
}

/// Runs the guest program inside a kernel that a run started; returns only outside of such a kernel.
///
/// # Errors
/// Always.
pub fn guest() -> Result<(), Error> {
    headway_uml::guest::main();
    bail!("this command is only for kernels that `headway run --on uml` starts")
}
