//! The `headway` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    headway::main()
}
