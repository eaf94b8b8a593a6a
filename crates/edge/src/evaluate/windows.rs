//! Strategies of a router without queues of its own.

use std::borrow::Cow;

use super::strategies::spared;
use super::{Action, Case, Proposal, Step, Strategy, Why};

/// What delay hurts passes as it is, and classes that the policy says. There is no queue in which it could come first.
#[derive(Clone, Copy, Debug)]
pub struct Spared;

impl Strategy for Spared {
    fn name(&self) -> &'static str {
        "spared"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        Some(pass(spared(case)?))
    }
}

/// What has no window that can be lowered, and is not marked, passes.
#[derive(Clone, Copy, Debug)]
pub struct Unheld;

impl Strategy for Unheld {
    fn name(&self) -> &'static str {
        "pass"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let flow = case.flow;
        let other = |reason| Why::Other(Cow::Borrowed(reason));
        Some(pass(if !flow.is_tcp {
            other("it has no window that could be lowered, and its ends do not react to marks")
        } else if flow.class.is_none() {
            Why::NoClass
        } else if flow.scale.is_none() {
            other("its ends did not agree on a scale of windows")
        } else {
            other("its RTT is not known")
        }))
    }
}

fn pass(why: Why) -> Proposal {
    Proposal { action: Action::Pass { priority: false }, why, ends: true }
}
