//! The changes of a scenario during a run in the lab: of queues and of the controllers of flows.

use std::collections::VecDeque;

use headway_kernel::Attached;
use headway_lab::Lab;
use headway_scenario::{Changed, Scenario, Topology};
use headway_units::{ConfigError, Duration};

use super::controllers::{self, Controllers};
use super::translate::Lane;
use super::{Endpoint, rapid};
use crate::endpoint::Switch;
use crate::error::{Error, bail};
use anyhow::Context as _;

/// Everything that changes at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// When, from the start of the run.
    pub(super) at: Duration,
    /// The lab's network from then on, if it changes.
    pub(super) network: Option<Scenario>,
    /// The numbers of changes of controllers in the scenario, and the groups of flows that each concerns.
    pub(super) controllers: Vec<(usize, Vec<usize>)>,
}

/// Returns what changes at which times, or names the key that the lab does not support.
pub(super) fn steps(
    scenario: &Scenario,
    topology: &Topology,
    network: &Scenario,
    lanes: &[Lane],
) -> Result<Vec<Step>, Error> {
    let mut network = network.clone();
    let mut order: Vec<usize> = (0..scenario.change.len()).collect();
    order.sort_by_key(|number| scenario.change[*number].at);
    let mut steps: Vec<Step> = Vec::new();
    for number in order {
        let change = &scenario.change[number];
        if steps.last().is_none_or(|step| step.at != change.at) {
            steps.push(Step { at: change.at, ..Step::default() });
        }
        let Some(step) = steps.last_mut() else { continue };
        let wrong = |(key, what): (&str, String)| ConfigError::new(&format!("change[{number}].{key}"), &what);
        match change.resolve(scenario, topology).map_err(wrong)? {
            Changed::Controller { groups, .. } => step.controllers.push((number, groups)),
            Changed::Queue { direction, link } => {
                let name = &topology.directions()[direction].name;
                let lane = lanes.iter().position(|lane| lane.name == *name && lane.limited);
                let Some(lane) = lane.filter(|_| link.has_queue()) else {
                    bail!("the lab does not support `change[{number}].link`: `{name}` has no queue there");
                };
                let changed = &mut network.link[lane];
                if (&changed.queue, changed.buffer) != (&link.queue, link.buffer) {
                    (changed.queue, changed.buffer) = (link.queue, link.buffer);
                    headway_lab::check_network(&network).context("the lab cannot emulate this network")?;
                    step.network = Some(network.clone());
                }
            }
        }
    }
    controllers::check_alike(scenario, &steps)?;
    rapid::check_alike(scenario)?;
    Ok(steps)
}

/// Carries the changes of a run out at their times.
pub(super) struct Changes<'a> {
    steps: VecDeque<&'a Step>,
    scenario: &'a Scenario,
    controllers: &'a Controllers,
    lab: &'a Lab,
}

impl<'a> Changes<'a> {
    pub(super) fn new(
        steps: &'a [Step],
        scenario: &'a Scenario,
        controllers: &'a Controllers,
        lab: &'a Lab,
    ) -> Changes<'a> {
        Changes { steps: steps.iter().collect(), scenario, controllers, lab }
    }

    /// Makes all changes due at time `at` of the scenario, and returns the time of the next one.
    pub(super) fn run_due(
        &mut self,
        at: Duration,
        attached: &mut [Attached],
        senders: &mut [Endpoint],
    ) -> Result<Option<Duration>, Error> {
        while let Some(step) = self.steps.pop_front_if(|step| step.at <= at) {
            if let Some(network) = &step.network {
                self.lab.set_links(network)?;
            }
            for (number, groups) in &step.controllers {
                let Some(loaded) = self.controllers.of_change(*number) else { continue };
                // At the ends all flows of XCP and RCP have the same controller, so the programs
                // are those of this one.
                let switched = attached.iter_mut().try_for_each(|attached| attached.switch(loaded));
                switched.with_context(|| format!("cannot make `change[{number}].controller`"))?;
                let switch =
                    Switch { controller: loaded.name().to_owned(), flows: self.flows_of(groups).collect() };
                senders.iter_mut().try_for_each(|sender| sender.tell(&switch))?;
            }
        }
        Ok(self.steps.front().map(|step| step.at))
    }

    /// Returns the numbers of the flows of some groups.
    fn flows_of(&self, groups: &[usize]) -> impl Iterator<Item = usize> {
        let groups_of_flows = self
            .scenario
            .flow
            .iter()
            .enumerate()
            .flat_map(|(group, flow)| (0..flow.count).map(move |_| group));
        groups_of_flows.enumerate().filter(|(_, group)| groups.contains(group)).map(|(flow, _)| flow)
    }
}
