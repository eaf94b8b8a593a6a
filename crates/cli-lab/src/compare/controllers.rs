//! `headway compare --controllers`: compares congestion controllers in one world.

use std::process::ExitCode;

use headway_worlds::compare::controllers::{ControllerComparison, Selection, page};
use headway_worlds::{Options, Output, World};

use super::CompareArgs;
use headway_program::build::stamped;
use headway_program::exit::{Code, Failed};
use headway_program::table::table;
use headway_program::{out, print_line};
use headway_runs::{interruption, reporter};

pub(super) fn run(args: &CompareArgs, worlds: &[World], json: bool) -> Result<ExitCode, Failed> {
    let &[world] = worlds else {
        return Err(anyhow::anyhow!("--controllers needs one world, such as `--on sim`").into());
    };
    let selection = Selection {
        file: &args.file,
        set: &args.set,
        dilation: args.dilate,
        world,
        controllers: &args.controllers,
        flows: &args.flow,
        repeat: args.repeat,
    };
    let candidates = selection.candidates()?;
    let report = reporter(candidates.len() as u64 * u64::from(args.repeat));
    let options = Options {
        jobs: u32::try_from(args.jobs()).unwrap_or(u32::MAX),
        cancellation: interruption()?,
        report: Some(&*report),
        ..Options::default()
    };
    if world == World::Uml {
        // Build the kernel once, with progress shown, before runs request it in parallel.
        headway_worlds::kernel(false, &options)?;
    }
    let compared = selection.run(&candidates, &options)?;
    drop(report);
    let Some(comparison) = compared else { return Ok(Code::Interrupted.into()) };
    let value = format!("{}\n", serde_json::to_string_pretty(&stamped(&comparison))?);
    if json {
        out::document(value.trim_end());
    } else {
        print_line!("{}", text(&comparison));
    }
    if let Some(folder) = &args.output {
        let output = Output::make(folder)?;
        output.write("report.html", &page::report(&comparison)?)?;
        output.write("controllers.svg", &page::picture(&comparison)?)?;
        output.write("compare.json", &value)?;
        if !json {
            print_line!("Figures: {}", folder.join("report.html").display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the comparison as a table with remarks.
fn text(comparison: &ControllerComparison) -> String {
    let mut text = table(comparison.columns(), comparison.rows()).to_string();
    for line in comparison.remarks() {
        text += &format!("\n{line}");
    }
    text
}
