//! The command line of a program: one of its commands, and what all commands take.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::build::BUILD;
use crate::exit::Failed;
use crate::family::Program;

/// The commands of a program.
pub trait Commands: Subcommand {
    /// The program that has these commands.
    const PROGRAM: Program;
    /// What the program does, as the first line of its help.
    const ABOUT: &str;

    /// Whether the command has a JSON form.
    fn has_json(&self) -> bool {
        true
    }

    /// Does the work, and returns the exit code; with `json`, prints JSON instead of text.
    ///
    /// # Errors
    /// Why the program ends without a result.
    fn run(self, json: bool) -> Result<ExitCode, Failed>;
}

/// What is typed after the name of a program.
#[derive(Debug, Parser)]
#[command(name = C::PROGRAM.name, version = BUILD, about = C::ABOUT)]
pub struct CommandLine<C: Commands> {
    /// The command with its arguments.
    #[command(subcommand)]
    pub command: C,
    /// Print JSON instead of text, with the units in the keys, and errors too; commands that go on
    /// print an object per line.
    #[arg(long, global = true)]
    pub json: bool,
}
