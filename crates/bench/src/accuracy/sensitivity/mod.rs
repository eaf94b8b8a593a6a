//! What depends on the constants that no formula gives: every one at half and at double its value.

#[cfg(any(test, feature = "sensitivity"))]
mod compare;
#[cfg(feature = "sensitivity")]
mod locate;
#[cfg(feature = "sensitivity")]
mod measure;
#[cfg(feature = "sensitivity")]
mod rapid;
#[cfg(feature = "sensitivity")]
mod study;
#[cfg(feature = "sensitivity")]
mod sweep;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use headway_program::exit::Failed;

/// Runs every constant of the estimators at half and at double its value, beside the unchanged one.
///
/// The paths are simulated, and fixed but for the seed: for the constants of the default method (PACE,
/// EVIDENCE, RESPONSE, BELIEF) paths of 26 classes of `accuracy simulated`, six of them fast ones, too, for those of `headway path`
/// (LOCATE, TIGHT, SURVEY) chains of loaded links, for TCP Rapid flows beside traffic that does not respond.
/// Each run is compared with that of the same path and seed with nothing changed. The table has the median
/// change over seeds, and the least and the largest one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench accuracy sensitivity --output report/sensitivity.json
  headway-bench accuracy sensitivity --only PACE.factor,BELIEF --seeds 16

It needs a program whose constants can be changed while it runs:
  cargo build --release --bin headway-bench --features headway-bench/sensitivity")]
pub(super) struct SensitivityArgs {
    /// Only these constants or groups of them, such as `PACE.factor` or `BELIEF`; default: all.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// Seeds of each path.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000), value_name = "N")]
    seeds: u16,
    /// The first seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u32,
    /// Also write the tables to this JSON file, with what came of each seed.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[cfg(feature = "sensitivity")]
pub(super) fn run(args: &SensitivityArgs, json: bool) -> Result<ExitCode, Failed> {
    sweep::run(args, json)
}

#[cfg(not(feature = "sensitivity"))]
pub(super) fn run(_: &SensitivityArgs, _: bool) -> Result<ExitCode, Failed> {
    Err(anyhow::anyhow!(
        "the constants of this program cannot be changed; build one where they can: cargo build --release \
         --bin headway-bench --features headway-bench/sensitivity"
    )
    .into())
}

#[cfg(all(test, not(feature = "sensitivity")))]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_fixed_constants_says_how_to_build_another() {
        let args = SensitivityArgs { only: Vec::new(), seeds: 1, seed: 1, output: None };
        let error = run(&args, false).unwrap_err().error.to_string();
        let (_, command) = error.split_once("cargo ").unwrap();
        assert_eq!(command, "build --release --bin headway-bench --features headway-bench/sensitivity");
    }
}
