//! Runs one scenario in the simulator and in the stack of Linux: `cargo run --example two_worlds --
//! scenarios/dumbbell-cubic.toml`.

use std::error::Error;
use std::io::{Write as _, stderr, stdout};
use std::path::PathBuf;

use headway_scenario::Scenario;
use headway_worlds::{Event, Options, World};

fn main() -> Result<(), Box<dyn Error>> {
    // The kernel's world starts this program again as a helper.
    headway_worlds::run_helper();
    let file =
        std::env::args_os().nth(1).map_or_else(|| "scenarios/dumbbell-cubic.toml".into(), PathBuf::from);
    let scenario = Scenario::load(&file, &["duration=5 s".parse()?, "warmup=1 s".parse()?])?;
    let report = |event: Event<'_>| {
        if let Event::Started(what) = event {
            let _ = writeln!(stderr(), "{what}");
        }
    };
    let options = Options { report: Some(&report), ..Options::default() };
    for world in [World::Sim, World::Uml] {
        let summary = headway_worlds::run(&scenario, world, &options)?.summary;
        writeln!(
            stdout(),
            "{world}: {} of goodput, Jain's index {:.3}, {} of {} segments retransmitted",
            summary.total.goodput(),
            summary.total.fairness,
            summary.total.retransmitted,
            summary.total.sent
        )?;
    }
    Ok(())
}
