//! Runs of scenarios on the command line: which world, how far they are, and how they are interrupted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use headway_uml::kernel::{self, Phase};
use headway_worlds::{Cancellation, Event, Report, STEPS, World};

use crate::exit::Code;
use crate::print_error;
use crate::progress::Progress;

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

/// Shows the progress of a number of runs as one task, and of the kernel's build if one is necessary; `items` is what
/// the runs are called.
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
        let code = i32::from(Code::Interrupted.number());
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted.into())
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
