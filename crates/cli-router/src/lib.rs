//! The `headway-router` command: only argument parsing and printing.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cc;
mod edge;
mod proxy;
mod router;
mod select;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use headway_program::build::BUILD;
use headway_program::exit::{self, Failed};
use headway_program::family::ROUTER;

/// Shares access links, chooses among paths, and brings congestion controllers for this kernel.
#[derive(Debug, Parser)]
#[command(name = ROUTER.name, version = BUILD)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print JSON instead of text, with the units in the keys, and errors too; commands that go on
    /// print an object per line.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Router(router::RouterArgs),
    Cc(cc::CcArgs),
    Edge(edge::Args),
    Select(select::Args),
    Proxy(proxy::ProxyArgs),
}

impl Command {
    /// Whether the command has a JSON form.
    fn has_json(&self) -> bool {
        match self {
            Command::Cc(args) => args.has_json(),
            _ => true,
        }
    }
}

/// Runs the program, and returns its exit code.
pub fn main() -> ExitCode {
    exit::run(&ROUTER, |cli: &Cli| cli.json, run)
}

/// Returns the command line, from which man pages and completions are made.
pub fn command() -> clap::Command {
    Cli::command()
}

fn run(Cli { command, json }: Cli) -> Result<ExitCode, Failed> {
    if json && !command.has_json() {
        return Err(Failed::no_json());
    }
    match command {
        Command::Router(args) => return Ok(router::run(&args, json)?),
        Command::Cc(args) => cc::run(&args, json)?,
        Command::Edge(args) => edge::run(&args, json)?,
        Command::Select(args) => select::run(&args, json)?,
        Command::Proxy(args) => proxy::run(&args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use headway_program::family::commands_of;

    use super::*;

    #[test]
    fn all_programs_know_the_commands() {
        let known = ROUTER.commands.iter().map(|&(name, about)| (name, about.to_owned()));
        assert_eq!(commands_of(&command()), known.collect::<Vec<_>>());
    }
}
