//! Strategies of a router without queues of its own.

use std::borrow::Cow;

use headway_units::Side;

use super::strategies::spared;
use super::{Action, Case, Proposal, Step, Strategy, Why};
use crate::classify::Behaviour;

/// What delay hurts passes as it is, and classes that the policy says. There is no queue in which
/// it could come first.
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

/// What leaves for the link while bulk comes down goes through a token bucket with fair queues.
///
/// A window is sent at once where its ACKs came at once, and in a plain queue at the link the ACKs of what
/// comes down wait behind it: so that leaves its server at once, too, and each direction has a queue though
/// neither is full (Zhang, Shenker and Clark, 1991).
#[derive(Clone, Copy, Debug)]
pub struct Smoothed;

impl Strategy for Smoothed {
    fn name(&self) -> &'static str {
        "smoothing"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let is_held = case.window().is_some() || case.flow.ecn && case.means.marking;
        let leaves = case.flow.side == Side::Wan && case.flow.behaviour == Behaviour::Bulk;
        let rate = case.bucket.filter(|_| case.means.smoothing && leaves && is_held && case.meets_bulk)?;
        Some(Proposal {
            action: Action::Rate { rate },
            why: Why::Other(Cow::Borrowed("ACKs of what comes down would wait behind what it sends at once")),
            ends: false,
        })
    }
}

/// Bulk that neither windows nor marks hold gets a token bucket, through which all else for its side
/// goes, too (wan F75).
#[derive(Clone, Copy, Debug)]
pub struct Shaped;

impl Strategy for Shaped {
    fn name(&self) -> &'static str {
        "rate-control"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let behaviour = case.flow.behaviour;
        // Of a constant rate is what fills the link, or is held already: else it would have been spared.
        let is_bulk = matches!(behaviour, Behaviour::Bulk | Behaviour::Cbr);
        // What has no window has a share only if it is bulk, and the rate of the link is known: what is found
        // is for those with windows.
        let has_none = !case.flow.is_tcp && (behaviour == Behaviour::Cbr || !case.means.shaping);
        let is_to_be_held = is_bulk && (case.share.is_some() || has_none);
        let rate = case.bucket.filter(|_| case.means.smoothing && is_to_be_held)?;
        Some(Proposal {
            action: Action::Rate { rate },
            why: Why::Other(Cow::Borrowed(
                "it is bulk that neither its window nor marks hold; all else on its way is in the same token bucket",
            )),
            ends: true,
        })
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
