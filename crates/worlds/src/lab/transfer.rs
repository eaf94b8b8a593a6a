//! A TCP flow between two nodes of a lab that is already up, for what is measured beside it.

use std::thread;

use headway_lab::Lab;
use headway_units::Duration;

use super::{Endpoint, START_DELAY};
use crate::endpoint::{Demand, Plan, PlannedFlow, Role, now};
use crate::error::Error;
use crate::options::Options;

/// Time for what is in queues and buffers to arrive after the sender stopped.
const REST: Duration = Duration::from_ms(1_000);

/// Sends as much as TCP allows from one node to another for `length`, and returns a second later, when what
/// was in queues has arrived.
///
/// The ends are helper processes of this program, which must call
/// [`run_helper`](crate::run_helper) first in `main`.
///
/// # Errors
/// If a node or the controller does not exist, or an end fails.
pub fn transfer(lab: &Lab, [from, to]: [&str; 2], controller: &str, length: Duration) -> Result<(), Error> {
    let flow = PlannedFlow {
        controller: controller.to_owned(),
        nodes: [from, to].map(str::to_owned),
        source: None,
        destination: lab.v4(to)?,
        start: Duration::ZERO,
        stop: Some(length),
        size: None,
        demand: Demand::Greedy,
        marked: false,
    };
    let program = Options::default().program()?;
    let start = |role, node: &str| {
        let plan = Plan {
            role,
            node: node.to_owned(),
            samples: vec![length + REST],
            ecn: false,
            flows: vec![flow.clone()],
        };
        Endpoint::start(lab, node, plan, &program)
    };
    let mut ends = [start(Role::Receive, to)?, start(Role::Send, from)?];
    let begin = now() + START_DELAY;
    ends.iter_mut().try_for_each(|end| end.begin(begin))?;
    thread::sleep((begin + length - now()).to_std());
    ends.iter_mut().try_for_each(|end| end.samples().map(|_| ()))
}
