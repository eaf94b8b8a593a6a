//! The `headway` command.

mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures how much bandwidth a network path has left.
#[derive(Debug, Parser)]
#[command(name = "headway", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answers the measurements of other hosts.
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headway: {error:#}");
            ExitCode::FAILURE
        }
    }
}
