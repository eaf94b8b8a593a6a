//! A day of choices as a figure.

use std::path::Path;

use anyhow::Context as _;
use headway_figures::{Curve, Figure, Panel};
use headway_program::exit::Failed;
use headway_scenario::SelectRival;
use headway_select::Strategy;
use headway_sim::select::{Contestant, PathsWorld};
use headway_units::{Duration, Instant};

/// Distance of the points.
const STEP: Duration = Duration::from_ms(60_000);

/// Draws what was free on the paths in use beside the most that was.
pub(super) fn draw(
    file: &Path,
    world: &PathsWorld,
    contestants: &[(String, Contestant)],
) -> Result<(), Failed> {
    let free = |path: usize, at: Instant| world.free(path, at).mbps();
    let best = |at: Instant| (0..world.paths.len()).map(|path| free(path, at)).fold(0.0, f64::max);
    let panel = |(name, one): &(String, Contestant)| {
        let timeline = one.run(world);
        let own = points(world, &|at| free(timeline.at(at), at));
        let most = points(world, &best);
        Panel::new(name, "time (h)", "free (Mb/s)")
            .with(Curve::line("on the path in use", own))
            .with(Curve::reference("on the best", most))
    };
    // What chooses by the time of transfers has another aim, and the oracle is the other curve.
    let aims_at_free = |one: &Contestant| match one {
        Contestant::Selector(settings) => settings.strategy != Strategy::TransferTime,
        one => *one != Contestant::Rival(SelectRival::Oracle),
    };
    let shown = contestants.iter().filter(|(_, one)| aims_at_free(one));
    let svg = Figure::curves(shown.map(panel)).svg().context("cannot draw the figure")?;
    std::fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

fn points(world: &PathsWorld, value: &dyn Fn(Instant) -> f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut at = Instant::ZERO;
    while at < world.end {
        points.push(((at - Instant::ZERO).secs_f64() / 3_600.0, value(at)));
        at += STEP;
    }
    points
}
