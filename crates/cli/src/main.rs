//! The `headway` command.

mod lab;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures how much bandwidth a network path has left.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Lab(lab::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Lab(args) => lab::run(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("headway: {error:#}");
        ExitCode::FAILURE
    })
}
