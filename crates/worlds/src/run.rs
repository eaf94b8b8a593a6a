//! Runs a scenario in a world.

use headway_record::Results;
use headway_scenario::{Scenario, World};

use crate::error::Error;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::{lab, sim, uml};

/// Runs a scenario with its own seed.
///
/// # Errors
/// When the world does not support the scenario, a run fails, or it is cancelled before it produces results.
pub fn run(scenario: &Scenario, world: World, options: &Options<'_>) -> Result<Results, Error> {
    let outcomes = run_all(scenario, world, &[scenario.seed], options)?;
    outcomes.into_iter().next().map(|outcome| outcome.results).ok_or(Error::Cancelled)
}

/// Runs a scenario with every seed, several at a time in virtual time. Outcomes are in the order of the
/// seeds; seeds not started before a cancellation have none.
///
/// # Errors
/// As for [`run`], except for cancellation.
pub fn run_all(
    scenario: &Scenario,
    world: World,
    seeds: &[u64],
    options: &Options<'_>,
) -> Result<Vec<Outcome>, Error> {
    // Each world checks this, too; here the error gets its place in the file, before anything is prepared.
    scenario.check_world(world).map_err(|mistake| scenario.locate(mistake))?;
    match world {
        World::Sim => sim::run(scenario, seeds, options),
        World::Uml => uml::Prepared::new(scenario, options)?.run(seeds),
        World::Lab => lab::run(scenario, seeds, options),
    }
}
