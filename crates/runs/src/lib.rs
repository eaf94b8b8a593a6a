//! Runs of scenarios on the command line: which world, how far they are, and how they are interrupted;
//! comparisons of worlds; and an emulated path on which `headway` is run and its answers are scored.

// These macros panic when standard output is closed; `headway_program::out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod comparison;
pub mod helper;
pub mod testbed;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use headway_uml::kernel::{self, Phase};
use headway_worlds::{Cancellation, Event, Report, STEPS, World};

use headway_program::exit::{Code, Failed};
use headway_program::print_error;
use headway_program::progress::Progress;

/// Parses the name of a world.
pub fn world() -> impl TypedValueParser<Value = World> {
    PossibleValuesParser::new(World::ALL.map(World::name)).try_map(|name| name.parse::<World>())
}

/// Shows the progress of `runs` runs, and of the kernel's build if one is necessary.
pub fn reporter(runs: u64) -> Box<Report<'static>> {
    let progress = Progress::new(STEPS * runs);
    let building = Building::default();
    Box::new(move |event| match event {
        Event::Started(what) => progress.show_activity(what.to_owned()),
        Event::Advanced(steps) => progress.advance(steps),
        Event::Building(now) => building.show(now),
        Event::Retrying(reason) => print_error!("repeated, because {reason}"),
        _ => {}
    })
}

/// Shows the progress of a number of runs as one task, and of the kernel's build if one is necessary; `items`
/// is what the runs are called.
pub fn reporter_of_many(runs: u64, items: &'static str) -> Box<Report<'static>> {
    let progress = Progress::new(STEPS * runs);
    let building = Building::default();
    let done = AtomicU64::new(0);
    Box::new(move |event| match event {
        Event::Advanced(steps) => {
            let done = done.fetch_add(steps, Ordering::Relaxed) + steps;
            progress.reach_items(done, STEPS, runs, items);
        }
        Event::Building(now) => building.show(now),
        _ => {}
    })
}

/// Returns a token that SIGINT or SIGTERM cancels; a second signal ends the program at once.
///
/// # Errors
/// If no handler can be installed.
pub fn interruption() -> anyhow::Result<Cancellation> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let code = Code::Interrupted as i32;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted.into())
}

/// Gives the error of a cancelled run its exit code.
pub fn coded(failed: Failed) -> Failed {
    let cancelled = failed.error.downcast_ref().is_some_and(headway_worlds::Error::is_cancelled);
    if cancelled { Failed { code: Code::Interrupted, ..failed } } else { failed }
}

/// Shows the progress of a kernel build, from its first report on.
#[derive(Debug, Default)]
pub struct Building(Mutex<Option<(Progress, Phase)>>);

impl Building {
    /// Shows how far the build is.
    pub fn show(&self, now: kernel::Progress) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = shown.as_ref().is_none_or(|(_, phase)| *phase != now.phase);
        let (bar, phase) = shown.get_or_insert_with(|| (Progress::new(0), now.phase));
        if fresh {
            *phase = now.phase;
            bar.begin(title(now.phase), now.total);
        }
        bar.reach(now.done, now.total);
    }
}

fn title(phase: Phase) -> &'static str {
    match phase {
        Phase::Wait => "waiting for another build in the same cache",
        Phase::Fetch => "fetching the kernel's source from Debian (MB)",
        Phase::Unpack => "unpacking and patching (MB)",
        Phase::Configure => "configuring (steps)",
        Phase::Compile => "compiling (objects)",
    }
}
