//! Comparisons of worlds: what the command line says about them.

use std::path::Path;
use std::process::ExitCode;

use headway_worlds::compare::Tally;
use headway_worlds::{Output, World};
use serde_json::Value;

use headway_program::exit::Code;
use headway_program::print_line;

/// Refuses too few worlds, and too many.
///
/// # Errors
/// If there are not two or three.
pub fn check_worlds(worlds: &[World]) -> anyhow::Result<()> {
    anyhow::ensure!((2..=3).contains(&worlds.len()), "--on needs two or three worlds, such as `sim,uml`");
    Ok(())
}

/// Writes the report and the numbers into a folder, and says where unless results are printed as JSON.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, page: &str, numbers: &Value, json: bool) -> anyhow::Result<()> {
    let output = Output::make(folder)?;
    output.write("report.html", page)?;
    output.write("compare.json", &format!("{}\n", serde_json::to_string_pretty(numbers)?))?;
    if !json {
        print_line!("Figures: {}", folder.join("report.html").display());
    }
    Ok(())
}

/// Returns the exit code of a comparison that is complete, or `partial` because it was interrupted; with
/// `check` it fails if a group of cells misses its goal.
pub fn ending(check: bool, tallies: &[Tally], partial: bool) -> ExitCode {
    let missed = tallies.iter().any(|tally| !tally.reached());
    match (partial, check && missed) {
        (true, _) => Code::Interrupted.into(),
        (false, true) => Code::Other.into(),
        (false, false) => ExitCode::SUCCESS,
    }
}
