//! The `headway-lab` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    headway_cli_lab::main()
}
