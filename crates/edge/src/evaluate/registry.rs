//! Strategies in the order in which they are asked.

use std::fmt;

use super::{
    Action, Case, Marks, Passes, Priority, Proxied, RateControl, ReceiveWindow, Shaped, Smoothed, Spared,
    Splits, Step, Unheld, Why,
};

/// A way to treat a flow.
pub trait Strategy: fmt::Debug + Send {
    /// Returns its name in results, which no other strategy has.
    fn name(&self) -> &'static str;

    /// Returns what it would do with a flow after these steps, or `None` if it does not suit.
    fn propose(&self, case: &Case<'_>, before: &[Step]) -> Option<Proposal>;
}

/// What a strategy would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// What.
    pub action: Action,
    /// Why.
    pub why: Why,
    /// Whether no other strategy is to be chained behind it.
    pub ends: bool,
}

/// The strategies in the order in which they are asked.
#[derive(Debug)]
pub struct Registry {
    strategies: Vec<Box<dyn Strategy>>,
}

impl Default for Registry {
    /// Returns those of the reference procedure (wan 2.20), and at the end one that lets all pass.
    fn default() -> Registry {
        Registry {
            strategies: vec![
                Box::new(Priority),
                Box::new(Proxied),
                Box::new(ReceiveWindow),
                Box::new(Marks),
                Box::new(RateControl),
                Box::new(Passes),
            ],
        }
    }
}

impl Registry {
    /// Returns those of a router whose programs at an interface lower windows and mark packets, and which may
    /// split connections and have a token bucket.
    pub fn of_edge() -> Registry {
        Registry {
            strategies: vec![
                Box::new(Spared),
                Box::new(Smoothed),
                Box::new(Splits),
                Box::new(ReceiveWindow),
                Box::new(Marks),
                Box::new(Shaped),
                Box::new(Unheld),
            ],
        }
    }

    /// Adds a strategy that is asked before all others.
    pub fn put_first(&mut self, strategy: Box<dyn Strategy>) {
        self.strategies.insert(0, strategy);
    }

    /// Returns the chain of a flow without a history.
    pub(super) fn chain(&self, case: &Case<'_>) -> Vec<Step> {
        let mut chain = Vec::new();
        for strategy in &self.strategies {
            if let Some((step, ends)) = step(&**strategy, case, &chain) {
                chain.push(step);
                if ends {
                    break;
                }
            }
        }
        chain
    }

    /// Returns the chain of these strategies as it would be now, or `None` if one of them does not suit.
    pub(super) fn again(&self, case: &Case<'_>, names: &[&'static str]) -> Option<Vec<Step>> {
        let mut chain = Vec::new();
        for name in names {
            let strategy = self.strategies.iter().find(|strategy| strategy.name() == *name)?;
            chain.push(step(&**strategy, case, &chain)?.0);
        }
        Some(chain)
    }
}

/// Returns the step of a strategy within what the narrow link carries, and whether it is the last one.
fn step(strategy: &dyn Strategy, case: &Case<'_>, before: &[Step]) -> Option<(Step, bool)> {
    let Proposal { action, why, ends } = strategy.propose(case, before)?;
    let bounded = case.bounded(&action)?;
    let is_lowered = bounded != action;
    Some((Step { strategy: strategy.name(), action: bounded, why, is_lowered }, ends))
}
