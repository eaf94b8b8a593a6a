//! The `headway` command: only argument parsing and printing.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

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

use clap::{CommandFactory as _, Parser, Subcommand};
use headway_program::build::BUILD;
use headway_program::exit::{self, Failed};
use headway_program::family::HEADWAY;

/// Measures the available bandwidth of a network path from the gaps between packets.
#[derive(Debug, Parser)]
#[command(
    name = HEADWAY.name,
    version = BUILD,
    help_template = HEADWAY.help_with_all(),
    after_help = "\
Start with `headway demo`, which needs no second machine. For a real path run `headway serve` on one host
and `headway measure HOST` on the other."
)]
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
    Measure(measure::MeasureArgs),
    Path(path::PathArgs),
    /// Answers measurements of other hosts.
    Serve(serve::Args),
    Estimate(estimate::EstimateArgs),
    Passive(passive::PassiveArgs),
    Flows(flows::FlowsArgs),
}

/// Runs the program, and returns its exit code.
pub fn main() -> ExitCode {
    exit::run(&HEADWAY, |cli: &Cli| cli.json, run)
}

/// Returns the command line, from which man pages and completions are made.
pub fn command() -> clap::Command {
    Cli::command()
}

fn run(Cli { command, json }: Cli) -> Result<ExitCode, Failed> {
    match command {
        Command::Measure(args) => measure::run(&args, json)?,
        Command::Path(args) => path::run(&args, json)?,
        Command::Serve(args) => serve::run(&args, json)?,
        Command::Estimate(args) => estimate::run(&args, json)?,
        Command::Passive(args) => passive::run(&args, json)?,
        Command::Flows(args) => flows::run(&args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use headway_program::family::commands_of;

    use super::*;

    #[test]
    fn all_programs_know_the_commands() {
        let known = HEADWAY.commands.iter().map(|&(name, about)| (name, about.to_owned()));
        assert_eq!(commands_of(&command()), known.collect::<Vec<_>>());
    }
}
