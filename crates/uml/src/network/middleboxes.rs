//! Middleboxes in the network: programs that know their devices.

use headway_scenario::MiddleboxPlan;
use headway_units::ConfigError;

use super::{Network, receiver};
use crate::plan::PlannedMiddlebox;

impl Network<'_> {
    /// Adds all middleboxes, with the devices at which they work.
    pub(super) fn add_middleboxes(&mut self) -> Result<(), ConfigError> {
        for (index, spec) in self.scenario.middlebox.iter().enumerate() {
            let [lan, wan] =
                spec.interfaces(index, self.scenario, &self.topology)?.map(|way| &self.hops[way]);
            let plan = MiddleboxPlan {
                lan: lan.device.clone(),
                wan: wan.arrival.clone(),
                rates: spec.rates(),
                policy: spec.policy_by_address(self.scenario, receiver),
            };
            self.plan.middleboxes.push(PlannedMiddlebox { node: lan.node, plan });
        }
        Ok(())
    }
}
