//! Changes during a run: of the queue of a link, or of the controller of flows.

use headway_control::Kind;
use headway_queue::QueueSpec;
use headway_units::config_error::check;
use headway_units::{ConfigError, Duration};
use serde::Deserialize;

use crate::controller::FlowController;
use crate::model::{FlowSpec, LinkSpec, Scenario};
use crate::route::Topology;

/// Another queue of a link, or another controller of flows, from a given time on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeSpec {
    /// When, from the start of the run.
    pub at: Duration,
    /// One direction of a link by its name in results, such as `a->b`, with `queue`.
    pub link: Option<String>,
    /// The queue discipline from then on, which takes over the packets that wait.
    pub queue: Option<QueueSpec>,
    /// The name of a group of flows, with `controller`.
    pub flow: Option<String>,
    /// The controller from then on: `xcp` or `rcp`, as before.
    pub controller: Option<FlowController>,
}

/// What a change concerns.
#[derive(Clone, Debug)]
pub enum Changed {
    /// The direction of a link with this number, and the link with its new queue.
    Queue {
        /// The number of the direction.
        direction: usize,
        /// The link.
        link: Box<LinkSpec>,
    },
    /// The `[[flow]]`s with these numbers.
    Controller {
        /// Their numbers.
        groups: Vec<usize>,
        /// Their new controller.
        kind: Kind,
    },
}

impl ChangeSpec {
    /// Returns what changes in a scenario that has been checked, or the key that is wrong and why.
    pub fn resolve(
        &self,
        scenario: &Scenario,
        topology: &Topology,
    ) -> Result<Changed, (&'static str, String)> {
        let wrong = |key, what: &str| Err((key, what.to_owned()));
        match (&self.link, &self.queue, &self.flow, &self.controller) {
            (Some(name), Some(queue), None, None) => {
                let found = topology.directions().iter().position(|direction| direction.name == *name);
                let Some(direction) = found else {
                    return wrong(
                        "link",
                        &format!("`{name}` is not one direction of a link, such as `a->b`"),
                    );
                };
                let mut link = scenario.link[topology.directions()[direction].link].clone();
                if link.kernel_queue.is_some() {
                    return wrong("link", "has a `kernel-queue`, which cannot change");
                }
                if queue.limits() != (None, None) {
                    link.buffer = None;
                }
                link.queue = Some(queue.clone());
                Ok(Changed::Queue { direction, link: Box::new(link) })
            }
            (None, None, Some(name), Some(controller)) => {
                let groups: Vec<usize> = scenario.groups_named(name).collect();
                if groups.is_empty() {
                    return wrong("flow", &format!("`{name}` is not the name of a [[flow]]"));
                }
                let explicit = |controller: &FlowController| controller.known().filter(Kind::is_explicit);
                let Some(kind) = explicit(controller) else {
                    return wrong("controller", "must be `xcp` or `rcp`; others cannot take over");
                };
                let fits =
                    |flow: &FlowSpec| explicit(&flow.controller).is_some() && flow.arrival_sizes().is_none();
                if !groups.iter().all(|group| fits(&scenario.flow[*group])) {
                    return wrong(
                        "flow",
                        "must have the controller `xcp` or `rcp` and flows that do not come and go",
                    );
                }
                Ok(Changed::Controller { groups, kind })
            }
            _ => wrong("at", "needs `link` and `queue`, or `flow` and `controller`"),
        }
    }
}

impl Scenario {
    /// Returns the numbers of the `[[flow]]`s with this name in results.
    fn groups_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        let groups = self.flow.iter().enumerate();
        groups.filter(move |(_, flow)| flow.group_name() == *name).map(|(number, _)| number)
    }

    /// Checks the changes during the run.
    pub(crate) fn check_changes(&self, topology: &Topology) -> Result<(), ConfigError> {
        for (number, change) in self.change.iter().enumerate() {
            let table = format!("change[{number}]");
            check(
                &format!("{table}.at"),
                change.at < self.duration,
                "must be earlier than the end of the run",
            )?;
            let changed = change.resolve(self, topology);
            let changed =
                changed.map_err(|(key, what)| ConfigError::new(&format!("{table}.{key}"), &what))?;
            if let Changed::Queue { link, .. } = changed {
                self.check_queue(&table, &link)?;
            }
        }
        Ok(())
    }
}
