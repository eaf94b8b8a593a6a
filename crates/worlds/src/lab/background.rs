//! TCP flows between nodes of a lab that is already up, as long as something else is measured there.

use headway_lab::Lab;
use headway_units::Duration;

use super::{Endpoint, START_DELAY};
use crate::endpoint::{Demand, Plan, PlannedFlow, Role, now};
use crate::error::Error;
use crate::options::Options;

/// Time between the starts of flows that are alike, so that they do not all lose at the same time.
const STAGGER: Duration = Duration::from_ms(100);
/// When the ends give up: nobody measures for longer. They end before that with the
/// process that started them.
const LONGEST: Duration = Duration::from_ms(86_400_000);

/// TCP flows that are alike, with the stack of this host.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpFlows {
    /// Nodes of sender and receiver.
    pub nodes: [String; 2],
    /// A congestion controller of the running kernel.
    pub controller: String,
    /// Number of flows, at least 1.
    pub count: u32,
    /// What each has to send.
    pub demand: Demand,
}

/// TCP flows that run until this is dropped.
#[derive(Debug)]
pub struct Background {
    _ends: Vec<Endpoint>,
}

impl Background {
    /// Starts flows between nodes of a lab, each to the receiver's main address.
    ///
    /// Their ends are helper processes of this program, which must call
    /// [`run_helper`](crate::run_helper) first in `main`.
    ///
    /// # Errors
    /// If a node or a controller does not exist, or an end fails to start.
    pub fn start(lab: &Lab, groups: &[TcpFlows]) -> Result<Background, Error> {
        let flows = flows(lab, groups)?;
        let program = Options::default().program()?;
        let mut ends = Vec::new();
        // Receivers first: senders open their connections before they are ready.
        for role in [Role::Receive, Role::Send] {
            let mut nodes: Vec<&String> = flows.iter().map(|flow| flow.node(role)).collect();
            nodes.sort();
            nodes.dedup();
            for node in nodes {
                let plan = Plan {
                    role,
                    node: node.clone(),
                    samples: vec![LONGEST],
                    ecn: false,
                    flows: flows.clone(),
                };
                ends.push(Endpoint::start(lab, node, plan, &program)?);
            }
        }
        let begin = now() + START_DELAY;
        ends.iter_mut().try_for_each(|end| end.begin(begin))?;
        Ok(Background { _ends: ends })
    }
}

fn flows(lab: &Lab, groups: &[TcpFlows]) -> Result<Vec<PlannedFlow>, Error> {
    let mut flows = Vec::new();
    for group in groups {
        let destination = lab.v4(&group.nodes[1])?;
        flows.extend((0..group.count).map(|index| PlannedFlow {
            controller: group.controller.clone(),
            nodes: group.nodes.clone(),
            source: None,
            destination,
            start: STAGGER * i64::from(index),
            stop: None,
            size: None,
            demand: group.demand,
            marked: false,
        }));
    }
    Ok(flows)
}
