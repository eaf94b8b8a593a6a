//! The `headway-lab` command: only argument parsing and printing.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod compare;
mod dataset;
mod demo;
mod lab;
mod run;
mod sweep;
mod uml;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use headway_program::build::BUILD;
use headway_program::exit::{self, Failed};
use headway_program::family::{HEADWAY, LAB};
use headway_runs::{coded, helper};

/// Simulates and emulates networks with known available bandwidth.
#[derive(Debug, Parser)]
#[command(name = LAB.name, version = BUILD)]
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
    Demo(demo::DemoArgs),
    Dataset(dataset::DatasetArgs),
    Run(run::RunArgs),
    Sweep(sweep::SweepArgs),
    Compare(compare::CompareArgs),
    Lab(lab::Args),
    Uml(uml::UmlArgs),
}

impl Command {
    /// Whether the command has a JSON form.
    fn has_json(&self) -> bool {
        match self {
            Command::Demo(_) => false,
            Command::Lab(args) => args.has_json(),
            Command::Uml(args) => args.has_json(),
            _ => true,
        }
    }
}

/// Runs the program, and returns its exit code.
pub fn main() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    // Measurements are in this program, too, so that the demo needs no other one.
    if LAB.other() == Some(&HEADWAY) {
        return headway::main();
    }
    exit::run(&LAB, |cli: &Cli| cli.json, |cli| run(cli).map_err(coded))
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
        Command::Demo(args) => demo::run(&args)?,
        Command::Dataset(args) => dataset::run(&args, json)?,
        Command::Run(args) => return run::run(&args, json),
        Command::Sweep(args) => return sweep::run(&args, json),
        Command::Compare(args) => return compare::run(&args, json),
        Command::Lab(args) => return Ok(lab::run(args, json)?),
        Command::Uml(args) => uml::run(&args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use headway_program::family::commands_of;

    use super::*;

    #[test]
    fn all_programs_know_the_commands() {
        let known = LAB.commands.iter().map(|&(name, about)| (name, about.to_owned()));
        assert_eq!(commands_of(&command()), known.collect::<Vec<_>>());
    }
}
