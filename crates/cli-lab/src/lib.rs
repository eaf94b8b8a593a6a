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

use clap::{CommandFactory as _, Subcommand};
use headway_program::command_line::{CommandLine, Commands};
use headway_program::exit::{self, Failed};
use headway_program::family::{HEADWAY, LAB, Program};
use headway_runs::{coded, helper};

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

impl Commands for Command {
    const PROGRAM: Program = LAB;
    const ABOUT: &str = "Simulates and emulates networks with known available bandwidth";

    fn has_json(&self) -> bool {
        match self {
            Command::Demo(_) => false,
            Command::Lab(args) => args.has_json(),
            Command::Uml(args) => args.has_json(),
            _ => true,
        }
    }

    fn run(self, json: bool) -> Result<ExitCode, Failed> {
        run(self, json).map_err(coded)
    }
}

fn run(command: Command, json: bool) -> Result<ExitCode, Failed> {
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

/// Runs the program, and returns its exit code.
pub fn main() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    // Measurements are in this program, too, so that the demo needs no other one.
    if LAB.other() == Some(&HEADWAY) {
        return headway::main();
    }
    exit::run::<Command>()
}

/// Returns the command line, from which man pages and completions are made.
pub fn command() -> clap::Command {
    CommandLine::<Command>::command()
}
