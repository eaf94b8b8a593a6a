//! `headway-bench accuracy`: the errors of `headway` on paths whose available bandwidth is known.

pub(crate) mod cells;
mod chain;
mod emulated;
mod hard;
mod idle;
mod observed;
mod passive;
mod sensitivity;
mod simulated;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use headway_program::exit::Failed;

/// Runs `headway` on paths whose available bandwidth is known, repeatedly, and prints
/// error, coverage and cost.
///
/// All but `simulated` and `sensitivity` send real packets through emulated paths, and need the program
/// `headway` beside this one. Runs that the machine disturbed are void and repeated.
#[derive(Args, Debug)]
pub(crate) struct AccuracyArgs {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand, Debug)]
enum Job {
    Emulated(emulated::EmulatedArgs),
    Simulated(simulated::SimulatedArgs),
    Hard(hard::HardArgs),
    Chain(chain::ChainArgs),
    Passive(passive::PassiveArgs),
    Sensitivity(sensitivity::SensitivityArgs),
    /// Measures the CPU usage of idle programs while a session is open.
    Idle,
}

impl AccuracyArgs {
    /// Whether the command has a JSON form.
    pub(crate) fn has_json(&self) -> bool {
        match &self.job {
            Job::Simulated(args) => !args.only_writes_paths(),
            Job::Idle => false,
            _ => true,
        }
    }
}

pub(crate) fn run(args: &AccuracyArgs, json: bool) -> Result<ExitCode, Failed> {
    match &args.job {
        Job::Emulated(args) => emulated::run(args, json)?,
        Job::Simulated(args) => return simulated::run(args, json),
        Job::Hard(args) => hard::run(args, json)?,
        Job::Chain(args) => chain::run(args, json)?,
        Job::Passive(args) => passive::run(args, json)?,
        Job::Sensitivity(args) => return sensitivity::run(args, json),
        Job::Idle => idle::run()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the file of the program `headway`, which is built into the folder of this one.
fn headway() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let headway = own.with_file_name("headway");
    ensure!(
        headway.is_file(),
        "there is no program {}; build it like this one, with `cargo build --bin headway`",
        headway.display()
    );
    Ok(headway)
}
