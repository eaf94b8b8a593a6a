//! The `headway-bench` program, for developers and readers of the papers: only argument parsing and printing.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod accuracy;
mod calc;
mod compare;
mod gaps;
mod repro;
mod select;
mod select_worlds;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use headway_program::build::BUILD;
use headway_program::exit::{self, Failed};
use headway_runs::{coded, helper};

/// Judges Headway: its accuracy, published experiments beside their numbers, and its
/// worlds beside each other.
#[derive(Debug, Parser)]
#[command(name = "headway-bench", version = BUILD)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print JSON instead of text, with the units in the keys, and errors too.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Accuracy(accuracy::AccuracyArgs),
    Compare(compare::CompareArgs),
    Repro(repro::ReproArgs),
    Calc(calc::CalcArgs),
    Gaps(gaps::GapsArgs),
    Select(select::SelectArgs),
    SelectWorlds(select_worlds::SelectWorldsArgs),
}

fn main() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    match exit::parse::<Cli>("headway-bench") {
        Ok(cli) => exit::end("headway-bench", cli.json, run(&cli.command, cli.json).map_err(coded)),
        Err(code) => code,
    }
}

fn run(command: &Command, json: bool) -> Result<ExitCode, Failed> {
    if json && matches!(command, Command::Accuracy(args) if !args.has_json()) {
        return Err(Failed::no_json());
    }
    match command {
        Command::Accuracy(args) => return accuracy::run(args, json),
        Command::Compare(args) => return compare::run(args, json),
        Command::Repro(args) => repro::run(args, json)?,
        Command::Calc(args) => return Ok(calc::run(args, json)?),
        Command::Gaps(args) => gaps::run(args, json)?,
        Command::Select(args) => select::run(args, json)?,
        Command::SelectWorlds(args) => select_worlds::run(args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
#[path = "../../cli/tests/support/documented.rs"]
mod documented;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_command_of_the_documentation_parses() {
        let found = documented::commands("headway-bench");
        assert!(found.iter().filter(|command| command.is_whole).count() > 10, "the pages have been found");
        let mistake = |command| documented::mistake(&Cli::command(), command);
        let mistakes: Vec<String> = found.iter().filter_map(mistake).collect();
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    }
}
