//! The helper processes that runs, labs and kernels in virtual time start from the same program.

use std::process::ExitCode;

/// In a process that a run or a lab started, does its work and returns the exit code; in any other process,
/// returns `None` at once. Programs call this first in `main`.
pub fn run() -> Option<ExitCode> {
    headway_worlds::run_helper();
    if !std::env::args().skip(1).eq(["lab", "daemon"]) {
        return None;
    }
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    // The error was already sent to the process that waits for the daemon.
    Some(if headway_lab::daemon::run().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
