//! The `headway` command: only argument parsing and printing.

// These macros panic when standard output is closed; `out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod accuracy;
mod build;
mod calc;
mod cc;
mod compare;
mod connection;
#[cfg(test)]
mod corpus;
mod demo;
mod estimate;
mod exit;
mod generate;
mod host;
mod lab;
mod limits;
mod line_writer;
mod measure;
mod out;
mod output_file;
mod passive;
mod path;
mod progress;
mod repro;
mod router;
mod run;
mod serve;
mod service;
mod testbed;
mod time;
mod token;
mod uml;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Failed;
use out::{print_error, print_line};

/// Measures the available bandwidth of a network path from the gaps between packets.
#[derive(Debug, Parser)]
#[command(
    name = "headway",
    version = build::BUILD,
    after_help = "\
Start with `headway demo`, which needs no second machine. For a real path run `headway serve` on one host
and `headway measure HOST` on the other."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Measure(measure::MeasureArgs),
    Path(path::PathArgs),
    /// Answers measurements of other hosts.
    Serve(serve::Args),
    Demo(demo::DemoArgs),
    Estimate(estimate::EstimateArgs),
    Passive(passive::PassiveArgs),
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    Lab(lab::Args),
    Router(router::RouterArgs),
    Cc(cc::CcArgs),
    #[command(hide = true)]
    Endpoint(run::EndpointArgs),
    #[command(hide = true)]
    Guest(run::GuestArgs),
    Accuracy(accuracy::AccuracyArgs),
    Repro(repro::ReproArgs),
    Calc(calc::CalcArgs),
    Uml(uml::UmlArgs),
    Generate(generate::GenerateArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(asked) => return explain(&asked),
    };
    let (json, result) = match cli.command {
        Command::Measure(args) => (args.json(), measure::run(&args).map(|()| ExitCode::SUCCESS)),
        Command::Path(args) => (args.json(), path::run(&args).map(|()| ExitCode::SUCCESS)),
        Command::Serve(args) => (args.json(), finished(serve::run(&args))),
        Command::Demo(args) => (false, demo::run(&args).map(|()| ExitCode::SUCCESS)),
        Command::Estimate(args) => (args.json(), finished(estimate::run(&args))),
        Command::Passive(args) => (args.json(), passive::run(&args).map(|()| ExitCode::SUCCESS)),
        Command::Run(args) => (args.json(), run::run(&args)),
        Command::Compare(args) => (args.json(), compare::run(&args)),
        Command::Endpoint(args) => (false, run::endpoint(&args).map(|()| ExitCode::SUCCESS)),
        Command::Guest(args) => (false, run::guest(&args).map(|()| ExitCode::SUCCESS)),
        Command::Lab(args) => (false, lab::run(args).map_err(Failed::from)),
        Command::Router(args) => (args.json(), router::run(&args).map_err(Failed::from)),
        Command::Cc(args) => (args.json(), finished(cc::run(&args))),
        Command::Accuracy(args) => (args.json(), accuracy::run(&args)),
        Command::Calc(args) => (args.json(), calc::run(&args)),
        Command::Repro(args) => (args.json(), repro::run(&args).map(|()| ExitCode::SUCCESS)),
        Command::Uml(args) => (args.json(), uml::run(&args)),
        Command::Generate(args) => (false, generate::run(&args).map(|()| ExitCode::SUCCESS)),
    };
    // A command is not successful if its result could not be printed.
    let result = result.and_then(|code| Ok(out::check().map(|()| code)?));
    result.unwrap_or_else(|failed| {
        if json {
            print_line!("{}", failed.to_json());
        }
        print_error!("headway: {failed}");
        failed.code.into()
    })
}

/// Prints the requested help, or the error in the arguments.
fn explain(asked: &clap::Error) -> ExitCode {
    let code = u8::try_from(asked.exit_code()).unwrap_or(1);
    match asked.print() {
        Err(reason) if !asked.use_stderr() && !out::is_broken_pipe(&reason) => {
            print_error!("headway: cannot write to standard output: {reason}");
            exit::Code::Other.into()
        }
        _ => code.into(),
    }
}

fn finished(result: anyhow::Result<()>) -> Result<ExitCode, Failed> {
    Ok(result.map(|()| ExitCode::SUCCESS)?)
}
