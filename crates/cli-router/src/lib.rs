//! The `headway-router` command: only argument parsing and printing.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cc;
mod edge;
mod proxy;
mod router;
mod select;

use std::process::ExitCode;

use clap::{CommandFactory as _, Subcommand};
use headway_program::command_line::{CommandLine, Commands};
use headway_program::exit::{self, Failed};
use headway_program::family::{Program, ROUTER};

#[derive(Debug, Subcommand)]
enum Command {
    Router(router::RouterArgs),
    Cc(cc::CcArgs),
    Edge(edge::Args),
    Select(select::Args),
    Proxy(proxy::ProxyArgs),
}

impl Commands for Command {
    const PROGRAM: Program = ROUTER;
    const ABOUT: &str =
        "Shares access links, chooses among paths, and brings congestion controllers for this kernel";

    fn has_json(&self) -> bool {
        match self {
            Command::Cc(args) => args.has_json(),
            _ => true,
        }
    }

    fn run(self, json: bool) -> Result<ExitCode, Failed> {
        match self {
            Command::Router(args) => return Ok(router::run(&args, json)?),
            Command::Cc(args) => cc::run(&args, json)?,
            Command::Edge(args) => edge::run(&args, json)?,
            Command::Select(args) => select::run(&args, json)?,
            Command::Proxy(args) => proxy::run(&args, json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs the program, and returns its exit code.
pub fn main() -> ExitCode {
    exit::run::<Command>()
}

/// Returns the command line, from which man pages and completions are made.
pub fn command() -> clap::Command {
    CommandLine::<Command>::command()
}
