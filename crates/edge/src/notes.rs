//! Which decisions are news.

use crate::classify::Behaviour;
use crate::evaluate::{Action, Decision};

/// Changes of a limit below this part of it are no news.
const NOTED: f64 = 0.1;

/// How a decision differs from the one that was noted before about the same flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// Not at all.
    None,
    /// It allows more or less.
    Amount,
    /// It is the first, or the flow is taken for something else, or other strategies are chosen.
    Kind,
}

/// As which a flow was judged, and what was to be done with it, when that was news.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Option<(Behaviour, Vec<Action>)>);

impl Note {
    /// Compares a decision with what is noted, and notes it if it is news.
    pub(crate) fn take(&mut self, behaviour: Behaviour, decision: &Decision) -> News {
        let news = self.news(behaviour, decision);
        if news > News::None {
            self.0 = Some((behaviour, actions(decision).collect()));
        }
        news
    }

    fn news(&self, behaviour: Behaviour, decision: &Decision) -> News {
        match &self.0 {
            Some((noted, before)) if *noted == behaviour && !decision.changed => {
                if are_alike(before, decision) { News::None } else { News::Amount }
            }
            _ => News::Kind,
        }
    }
}

fn actions(decision: &Decision) -> impl Iterator<Item = Action> {
    decision.chain.iter().map(|step| step.action)
}

/// Whether a decision allows about as much as another one with the same strategies.
fn are_alike(before: &[Action], decision: &Decision) -> bool {
    let amount = |action| match action {
        Action::Window { limit: bytes } | Action::Proxy { buffer: bytes } => bytes.get() as f64,
        Action::Mark { rate } | Action::Rate { rate } => rate.bps_f64(),
        Action::Pass { .. } | Action::SplitNext | Action::Other => 0.0,
    };
    before.iter().zip(actions(decision)).all(|(old, new)| {
        let (old, new) = (amount(*old), amount(new));
        (old - new).abs() <= NOTED * old.max(new)
    })
}
