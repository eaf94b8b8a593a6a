//! The kinds of studies, one file each: what its experiments say, and how it is carried out.

mod ack_stamps;
mod closed_loop;
mod compensation;
mod crowds;
mod decisions;
mod downloads;
mod errors;
mod gap_estimates;
mod gaps;
mod groups;
mod learned_streams;
mod learned_windows;
mod lengths;
mod pairs;
mod passive;
mod procedure;
mod rivals;
mod scores;
mod series;
mod shapers;
mod shared_link;
mod sharing;
mod spikes;
mod staggered;
mod wifi;
mod window_cost;
mod window_runs;
mod windows;

use std::fmt;

use headway_worlds::{Options, World};
use serde::{Deserialize, Deserializer};

use crate::context::{Context, Error};
use crate::experiment::{Evidence, Experiment};
use crate::job::Job;
use crate::outcome::{Findings, Outcome, SCENARIO, SIMULATOR};

pub(crate) use procedure::Router;

/// A kind of study with its parameters. Rates in experiment files are in Gb/s on the wire.
pub(crate) trait Study: fmt::Debug + Send + Sync {
    /// Carries the study out.
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error>;

    /// Returns the worlds besides the simulator in which it runs, as scenarios.
    fn other_worlds(&self) -> &'static [World] {
        &[]
    }
}

/// Declares the kinds of studies. An experiment file names one in kebab case: `[study.closed-loop]`.
macro_rules! studies {
    ($($kind:ident in $file:ident,)*) => {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Kind {
            $($kind($file::$kind)),*
        }

        impl From<Kind> for Box<dyn Study> {
            fn from(kind: Kind) -> Box<dyn Study> {
                match kind {
                    $(Kind::$kind(study) => Box::new(study)),*
                }
            }
        }
    };
}

studies! {
    AckStamps in ack_stamps,
    ClosedLoop in closed_loop,
    Compensation in compensation,
    Crowds in crowds,
    Decisions in decisions,
    Downloads in downloads,
    Errors in errors,
    GapEstimates in gap_estimates,
    Gaps in gaps,
    Groups in groups,
    LearnedStreams in learned_streams,
    LearnedWindows in learned_windows,
    Lengths in lengths,
    PacketPairs in pairs,
    Passive in passive,
    Procedure in procedure,
    Rivals in rivals,
    Series in series,
    Shapers in shapers,
    SharedLink in shared_link,
    Spikes in spikes,
    Staggered in staggered,
    Wifi in wifi,
    Windows in windows,
}

/// Reads the study of an experiment file.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<dyn Study>, D::Error> {
    Kind::deserialize(deserializer).map(Box::from)
}

/// Carries out an experiment in the simulator and checks the published claims against it.
///
/// # Errors
/// [`Error::Interrupted`] when the context is cancelled, and [`Error::World`] when a run fails.
pub fn run(experiment: &Experiment, context: &Context<'_>) -> Result<Outcome, Error> {
    let options = Options { cancellation: context.stop.clone(), ..Options::default() };
    let job = Job { experiment, context, world: World::Sim, as_scenarios: false, options: &options };
    Ok(Outcome::new(experiment, context, SIMULATOR, experiment.study.run(&job)?))
}

/// Whether an experiment runs in a world.
pub fn runs_in(experiment: &Experiment, world: World) -> bool {
    world == World::Sim || experiment.study.other_worlds().contains(&world)
}

/// Carries out an experiment as a scenario in a world, and judges the claims about numbers measured there;
/// `None` for an experiment that does not run there.
///
/// # Errors
/// [`Error::Interrupted`] when the context or the options are cancelled, and
/// [`Error::World`] when a run fails.
pub fn run_in(
    world: World,
    options: &Options<'_>,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Option<Outcome>, Error> {
    if experiment.study.other_worlds().is_empty() || !runs_in(experiment, world) {
        return Ok(None);
    }
    let job = Job { experiment, context, world, as_scenarios: true, options };
    let findings = experiment.study.run(&job)?;
    let evidence = match world {
        World::Sim => return Ok(Some(Outcome::new(experiment, context, SCENARIO, findings))),
        World::Uml => Evidence::Kernel,
        World::Lab => Evidence::Emulation,
    };
    Ok(Some(Outcome { evidence, ..Outcome::new(experiment, context, world.name(), findings) }))
}
