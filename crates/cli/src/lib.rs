//! The `headway` command: only argument parsing and printing.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cc;
mod compare;
mod connection;
#[cfg(test)]
mod corpus;
mod dataset;
mod demo;
mod edge;
mod estimate;
mod flows;
mod lab;
mod limits;
mod line_writer;
mod measure;
mod metrics;
mod model_file;
mod output_file;
mod passive;
mod path;
mod proxy;
mod router;
mod run;
mod screen;
mod select;
mod serve;
mod service;
mod sweep;
mod token;
mod uml;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use headway_program::build::BUILD;
use headway_program::exit::{self, Failed};
use headway_program::helper;

/// Measures the available bandwidth of a network path from the gaps between packets.
#[derive(Debug, Parser)]
#[command(
    name = "headway",
    version = BUILD,
    after_help = "\
Start with `headway demo`, which needs no second machine. For a real path run `headway serve` on one host
and `headway measure HOST` on the other."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print JSON instead of text, with the units in the keys, and errors too; commands that go on print an object per
    /// line.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Measure(measure::MeasureArgs),
    Path(path::PathArgs),
    /// Answers measurements of other hosts.
    Serve(serve::Args),
    Demo(demo::DemoArgs),
    Estimate(estimate::EstimateArgs),
    Dataset(dataset::DatasetArgs),
    Passive(passive::PassiveArgs),
    Run(run::RunArgs),
    Sweep(sweep::SweepArgs),
    Compare(compare::CompareArgs),
    Lab(lab::Args),
    Router(router::RouterArgs),
    Cc(cc::CcArgs),
    Edge(edge::Args),
    Flows(flows::FlowsArgs),
    Select(select::Args),
    Proxy(proxy::ProxyArgs),
    Uml(uml::UmlArgs),
}

impl Command {
    /// Whether the command has a JSON form.
    fn has_json(&self) -> bool {
        match self {
            Command::Demo(_) => false,
            Command::Lab(args) => args.has_json(),
            Command::Cc(args) => args.has_json(),
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
    match exit::parse::<Cli>("headway") {
        Ok(cli) => exit::end("headway", cli.json, run(cli)),
        Err(code) => code,
    }
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
        Command::Measure(args) => measure::run(&args, json)?,
        Command::Path(args) => path::run(&args, json)?,
        Command::Serve(args) => serve::run(&args, json)?,
        Command::Demo(args) => demo::run(&args)?,
        Command::Estimate(args) => estimate::run(&args, json)?,
        Command::Dataset(args) => dataset::run(&args, json)?,
        Command::Passive(args) => passive::run(&args, json)?,
        Command::Run(args) => return run::run(&args, json),
        Command::Sweep(args) => return sweep::run(&args, json),
        Command::Compare(args) => return compare::run(&args, json),
        Command::Lab(args) => return Ok(lab::run(args, json)?),
        Command::Router(args) => return Ok(router::run(&args, json)?),
        Command::Cc(args) => cc::run(&args, json)?,
        Command::Edge(args) => edge::run(&args, json)?,
        Command::Flows(args) => flows::run(&args, json)?,
        Command::Select(args) => select::run(&args, json)?,
        Command::Proxy(args) => proxy::run(&args, json)?,
        Command::Uml(args) => uml::run(&args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}
