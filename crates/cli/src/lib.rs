//! The `headway` command: only argument parsing and printing.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod doctor;
mod estimate;
mod flows;
mod limits;
mod measure;
mod metrics;
mod model_file;
mod output_file;
mod passive;
mod path;
mod serve;

use std::process::ExitCode;

use clap::{CommandFactory as _, Subcommand};
use headway_program::command_line::{CommandLine, Commands};
use headway_program::exit::{self, Failed};
use headway_program::family::{HEADWAY, Program};

#[derive(Debug, Subcommand)]
#[command(
    help_template = HEADWAY.help_with_all(),
    after_help = "\
Start with `headway demo`, which needs no second machine. For a real path run `headway serve` on one host
and `headway measure HOST` on the other."
)]
enum Command {
    Measure(measure::MeasureArgs),
    Path(path::PathArgs),
    /// Answers measurements of other hosts.
    Serve(serve::Args),
    Estimate(estimate::EstimateArgs),
    Passive(passive::PassiveArgs),
    Doctor(doctor::DoctorArgs),
    Flows(flows::FlowsArgs),
}

impl Commands for Command {
    const PROGRAM: Program = HEADWAY;
    const ABOUT: &str = "Measures the available bandwidth of a network path from the gaps between packets";

    fn run(self, json: bool) -> Result<ExitCode, Failed> {
        match self {
            Command::Measure(args) => measure::run(&args, json)?,
            Command::Path(args) => path::run(&args, json)?,
            Command::Serve(args) => serve::run(&args, json)?,
            Command::Estimate(args) => estimate::run(&args, json)?,
            Command::Passive(args) => passive::run(&args, json)?,
            Command::Doctor(args) => return doctor::run(&args, json),
            Command::Flows(args) => flows::run(&args, json)?,
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
