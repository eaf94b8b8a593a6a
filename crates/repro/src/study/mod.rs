//! The kinds of studies, one file each.

mod ack_stamps;
mod capacities;
mod chain;
mod closed_loop;
mod compensation;
mod crowds;
mod decisions;
mod errors;
mod gap_bursts;
mod gap_errors;
mod gap_estimates;
mod gap_flows;
mod gap_series;
mod groups;
mod lengths;
mod narrow_links;
mod pair_delays;
mod passive;
mod path;
mod prefixes;
mod procedure;
mod rivals;
mod scores;
mod sender;
mod series;
mod shapers;
mod shared_link;
mod sharing;
mod staggered;
mod windows;

pub(crate) use closed_loop::count as cells_of;
pub(crate) use crowds::packets as packets_of_crowds;
pub(crate) use groups::packets as packets_of_groups;
pub(crate) use rivals::packets as packets_of_rivals;

use headway_units::Duration;
use headway_worlds::{Options, World};

use crate::closed_loop::Place;
use crate::context::{Context, Error};
use crate::experiment::{Count, Evidence, Experiment, Study};
use crate::outcome::{Outcome, SCENARIO, SIMULATOR};

/// Carries out an experiment in the simulator and checks the published claims against it.
///
/// # Errors
/// [`Error::Interrupted`] when the context is cancelled, and [`Error::World`] when a run fails.
pub fn run(experiment: &Experiment, context: &Context<'_>) -> Result<Outcome, Error> {
    let options = Options { cancellation: context.stop.clone(), ..Options::default() };
    let here = Place { world: World::Sim, options: &options };
    let findings = match &experiment.study {
        Study::ClosedLoop(study) => closed_loop::run(here, study, study.milliseconds, experiment, context),
        Study::Staggered(study) => staggered::run(here, study, study.milliseconds, experiment, context),
        Study::Shapers(study) => shapers::run(here, study, study.milliseconds, experiment, context),
        Study::GapErrors(study) => gap_errors::run(study, experiment, context),
        Study::GapSeries(study) => gap_series::run(study, experiment, context),
        Study::GapEstimates(study) => gap_estimates::run(study, experiment, context),
        Study::GapBursts(study) => gap_bursts::run(study, experiment, context),
        Study::Lengths(study) => lengths::run(study, experiment, context),
        Study::Decisions(study) => decisions::run(study, experiment, context),
        Study::Errors(study) => errors::run(study, experiment, context),
        Study::Series(study) => series::run(study, experiment, context),
        Study::Windows(study) => windows::run(study, experiment, context),
        Study::SharedLink(study) => shared_link::run(study, experiment, context),
        Study::GapFlows(study) => gap_flows::run(study, experiment, context),
        Study::Procedure(study) => procedure::run(study, experiment, context),
        Study::Rivals(study) => rivals::run(here, study, experiment, context),
        Study::Groups(study) => groups::run(here, study, experiment, context),
        Study::Passive(study) => passive::run(study, experiment, context),
        Study::AckStamps(study) => ack_stamps::run(study, experiment, context),
        Study::Capacities(study) => capacities::run(study, experiment, context),
        Study::PairDelays(study) => pair_delays::run(study, experiment, context),
        Study::NarrowLinks(study) => narrow_links::run(study, experiment, context),
        Study::Prefixes(study) => prefixes::run(study, experiment, context),
        Study::Compensation(study) => Ok(compensation::run(study)),
        Study::Crowds(study) => crowds::run(study, experiment, context),
    }?;
    Ok(Outcome::new(experiment, context, SIMULATOR, findings))
}

/// Returns the time scale of an experiment on the Linux stack in virtual time; `None` if it does not run there.
fn kernel_time(study: &Study) -> Option<Count> {
    match study {
        Study::SharedLink(study) => study.kernel_milliseconds,
        Study::ClosedLoop(study) => study.kernel_milliseconds,
        Study::Staggered(study) => study.kernel_milliseconds,
        Study::Shapers(study) => study.kernel_milliseconds,
        _ => None,
    }
}

/// Whether an experiment runs in a world.
pub fn runs_in(experiment: &Experiment, world: World) -> bool {
    match world {
        World::Sim => true,
        World::Uml => kernel_time(&experiment.study).is_some(),
        World::Lab => matches!(&experiment.study, Study::Procedure(study) if study.lab_runs.is_some()),
    }
}

/// Carries out an experiment as a scenario in a world, and judges the claims about numbers measured there; `None`
/// for an experiment that does not run there.
///
/// # Errors
/// [`Error::Interrupted`] when the context or the options are cancelled, and [`Error::World`] when a run fails.
pub fn run_in(
    world: World,
    options: &Options<'_>,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Option<Outcome>, Error> {
    let there = Place { world, options };
    let findings = match (&experiment.study, kernel_time(&experiment.study)) {
        (Study::Procedure(study), _) => {
            let Some(runs) = study.lab_runs else { return Ok(None) };
            procedure::run_in(there, study, runs, experiment, context)?
        }
        (Study::ClosedLoop(study), Some(time)) => closed_loop::run(there, study, time, experiment, context)?,
        (Study::Staggered(study), Some(time)) => staggered::run(there, study, time, experiment, context)?,
        (Study::Shapers(study), Some(time)) => shapers::run(there, study, time, experiment, context)?,
        (Study::SharedLink(study), Some(time)) => {
            let second = Duration::from_ms(context.size.of(time) as i64);
            shared_link::run_in(there, study, second, experiment, context)?
        }
        _ => return Ok(None),
    };
    let evidence = match world {
        World::Sim => return Ok(Some(Outcome::new(experiment, context, SCENARIO, findings))),
        World::Uml => Evidence::Kernel,
        World::Lab => Evidence::Emulation,
    };
    Ok(Some(Outcome { evidence, ..Outcome::new(experiment, context, world.name(), findings) }))
}
