//! The kinds of experiments, one file each.

mod decisions;
mod errors;
mod gap_bursts;
mod gap_errors;
mod gap_estimates;
mod gap_flows;
mod gap_series;
mod lengths;
mod path;
mod sender;
mod series;
mod shared_link;
mod windows;

use crate::context::{Context, Interrupted};
use crate::experiment::{Experiment, Study};
use crate::outcome::Outcome;

/// Carries an experiment out and holds what was published against it.
///
/// # Errors
/// [`Interrupted`] when the context says to stop.
pub fn run(experiment: &Experiment, context: &Context<'_>) -> Result<Outcome, Interrupted> {
    let findings = match &experiment.study {
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
    }?;
    Ok(Outcome::new(experiment, context, findings))
}
