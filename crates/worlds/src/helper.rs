//! Processes that runs start: the ends of flows in a lab, and the program inside a kernel.

use crate::endpoint::{self, COMMAND as ENDPOINT};
use crate::error::{Error, bail};
use crate::uml::GUEST;

/// Does the work of a process that a run has started, and ends it; returns at once in any other process.
///
/// To be called first thing in `main` by programs that run scenarios in the kernel or in a lab.
pub fn assist() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [command] if command == GUEST => guest(),
        [command, plan] if command == ENDPOINT => endpoint(plan),
        _ => return,
    };
    if let Err(error) = &done {
        // There is nobody to be told when this fails, too.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{}\n", error.chain()).as_bytes());
    }
    std::process::exit(i32::from(done.is_err()));
}

/// Sends or receives the TCP flows of a run in a lab, as its plan says (JSON), and prints what it counted.
///
/// # Errors
/// When the plan is none, or a connection or a setting of the node fails.
pub fn endpoint(plan: &str) -> Result<(), Error> {
    endpoint::run(plan)
}

/// Does what a run wants done inside the kernel that it has started; returns only where there is no such kernel.
///
/// # Errors
/// Always.
pub fn guest() -> Result<(), Error> {
    headway_uml::guest::main();
    bail!("this command is only for kernels that `headway run --on uml` starts")
}
