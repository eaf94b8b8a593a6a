//! The strategies of the reference procedure (wan 2.20).

use headway_units::Rate;

use super::{Action, Case, Proposal, Step, Strategy, Why};
use crate::classify::Behaviour;

/// Calls and what people wait for pass before others, and classes that the policy says.
#[derive(Clone, Copy, Debug)]
pub struct Priority;

impl Strategy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let why = spared(case)?;
        Some(Proposal { action: Action::Pass { priority: true }, why, ends: true })
    }
}

/// A proxy makes up for a receiver with a small buffer on a long and fast path (rule r1).
#[derive(Clone, Copy, Debug)]
pub struct Proxied;

impl Strategy for Proxied {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let (largest, needed) = (case.largest_window()?, case.ceiling_bytes()?);
        case.share?;
        (case.means.proxy && case.flow.is_tcp && largest < needed).then_some(Proposal {
            action: Action::Proxy { buffer: needed },
            why: Why::SmallReceiver { largest, needed },
            ends: false,
        })
    }
}

/// A flow's receive window is lowered to its share (rules r2 to r4).
#[derive(Clone, Copy, Debug)]
pub struct ReceiveWindow;

impl Strategy for ReceiveWindow {
    fn name(&self) -> &'static str {
        "receive-window"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let limit = case.window()?;
        (case.flow.is_tcp && case.flow.scale.is_some()).then_some(())?;
        Some(Proposal { action: Action::Window { limit }, why: share(case)?.1, ends: true })
    }
}

/// The router marks packets of flows whose window is out of reach (wan F75).
#[derive(Clone, Copy, Debug)]
pub struct Marks;

impl Strategy for Marks {
    fn name(&self) -> &'static str {
        "ecn"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let rate = case.share?;
        (case.flow.ecn && case.means.marking).then_some(Proposal {
            action: Action::Mark { rate },
            why: Why::ReactsToMarks,
            ends: true,
        })
    }
}

/// What nothing else holds gets a shaper, unless it is unknown and slow.
#[derive(Clone, Copy, Debug)]
pub struct RateControl;

impl Strategy for RateControl {
    fn name(&self) -> &'static str {
        "rate-control"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let (rate, why) = share(case)?;
        let needs_it = case.flow.behaviour != Behaviour::Unknown || case.flow.rate > rate;
        needs_it.then_some(Proposal { action: Action::Rate { rate: case.on_wire(rate) }, why, ends: true })
    }
}

/// All else passes.
#[derive(Clone, Copy, Debug)]
pub struct Passes;

impl Strategy for Passes {
    fn name(&self) -> &'static str {
        "pass"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let why = if case.flow.class.is_none() { Why::NoClass } else { Why::NotKnown };
        Some(Proposal { action: Action::Pass { priority: false }, why, ends: true })
    }
}

/// Returns why a flow is not limited, if it is not to be.
pub(super) fn spared(case: &Case<'_>) -> Option<Why> {
    if case.is_priority {
        return Some(Why::Priority);
    }
    case.comes_first().then_some(Why::DelayHurts(case.flow.behaviour))
}

/// Returns what a flow may have, and why. Reasons count bytes on the wire of the link.
fn share(case: &Case<'_>) -> Option<(Rate, Why)> {
    let rate = case.share?;
    let wire = |rate| case.on_wire(rate);
    let basis = case.basis.map(wire);
    let why = Why::Share {
        rate: wire(rate),
        sharing: case.sharing,
        basis,
        besides: wire(case.besides),
        wider: case.wider,
    };
    Some((rate, why))
}
