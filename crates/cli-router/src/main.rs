//! The `headway-router` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    headway_cli_router::main()
}
