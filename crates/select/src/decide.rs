//! Which path is chosen.

use std::sync::Arc;

use headway_units::{Duration, Instant, Rate};

use crate::decision::{Decision, Why};
use crate::distribution::Distribution;
use crate::presence::Trouble;
use crate::selector::{LOG, Selector};
use crate::settings::Strategy;
use crate::transfer::time_of;
use crate::worth::ODDS;

/// Where a path must be found at once, this quantile of what is free counts: one of which
/// nothing is known is a risk. Range 0.05 to 0.5.
const CAUTIOUS: f64 = 0.25;

/// A path is chosen by what is free now, but the odds that are stated are about the transfers of this time to
/// come. Range 0 to 120 s.
const AHEAD: Duration = Duration::from_ms(60_000);

/// Below these odds a path is not thought of as better. Range 0.05 to 0.5.
const MAYBE: f64 = 0.1;

impl Selector {
    /// Returns the paths that may be chosen: those that are up, and answer if any does, and are
    /// near enough if any is.
    pub(crate) fn candidates(&self, now: Instant) -> Vec<usize> {
        let all = 0..self.paths.len();
        let mut found: Vec<usize> =
            all.clone().filter(|path| self.paths[*path].presence.is_usable(now)).collect();
        if found.is_empty() {
            found = all.filter(|path| self.paths[*path].presence.is_up()).collect();
        }
        // If none answers, it is rather the far end that is away than all paths.
        if found.iter().any(|path| !self.paths[*path].presence.is_dead(now)) {
            found.retain(|path| !self.paths[*path].presence.is_dead(now));
        }
        if self.settings.strategy == Strategy::AvailableWithLatencyFloor
            && found.iter().any(|path| !self.is_too_far(*path))
        {
            found.retain(|path| !self.is_too_far(*path));
        }
        found
    }

    fn is_too_far(&self, path: usize) -> bool {
        self.settings.strategy == Strategy::AvailableWithLatencyFloor
            && self.paths[path].rtt.is_some_and(|rtt| rtt > self.settings.latency_floor)
    }

    /// Decides anew; returns the decision if another path is chosen.
    pub(crate) fn decide(&mut self, now: Instant) -> Option<Decision> {
        let candidates = self.candidates(now);
        let candidates = self.wished(now, candidates);
        let (path, why) = if candidates.is_empty() {
            let trouble = self.paths[self.chosen].presence.trouble.unwrap_or(Trouble::Down);
            (self.chosen, Why::NoneUsable(trouble))
        } else if candidates.contains(&self.chosen) {
            self.compare(now, &candidates)
        } else {
            self.flee(now, &candidates)
        };
        let changes = path != self.chosen;
        let before = changes.then(|| (self.chosen, Arc::clone(&self.names[self.chosen])));
        let name = Arc::clone(&self.names[path]);
        let decision = Decision { at: now, path, name, before, why };
        if changes {
            self.hold.change(now, self.chosen, path);
            self.chosen = path;
            self.changes += 1;
        }
        self.note(decision, changes)
    }

    /// Keeps a decision: all changes, and of others those with a new reason.
    fn note(&mut self, decision: Decision, changes: bool) -> Option<Decision> {
        let is_new = decision.why.name() != self.current.why.name();
        self.current = decision.clone();
        if changes || is_new {
            if self.log.len() >= LOG {
                self.log.pop_front();
            }
            self.log.push_back(decision.clone());
        }
        changes.then_some(decision)
    }

    /// Leaves a path that cannot be used for the best of others.
    fn flee(&self, now: Instant, candidates: &[usize]) -> (usize, Why) {
        let chosen = &self.paths[self.chosen];
        let is_preferred = candidates.iter().all(|path| self.paths[*path].wished.preferred);
        let why = match chosen.rtt {
            Some(rtt) if self.is_too_far(self.chosen) => Why::TooFar(rtt),
            _ if !chosen.presence.is_usable(now) || chosen.presence.is_dead(now) => {
                Why::Left(chosen.presence.trouble.unwrap_or(Trouble::Down))
            }
            _ if chosen.wished.is_full => Why::Full,
            _ if is_preferred => Why::Preferred,
            _ => Why::Quota,
        };
        let best = match self.settings.strategy {
            Strategy::Latency => {
                let rtt = |path: &&usize| self.paths[**path].rtt.unwrap_or(Duration::MAX);
                candidates.iter().min_by_key(rtt)
            }
            _ => {
                let value = |path: &&usize| self.prospect(now, **path).value.quantile(CAUTIOUS);
                candidates.iter().max_by_key(value)
            }
        };
        (best.copied().unwrap_or(self.chosen), why)
    }

    /// Compares the chosen path with others that may be chosen.
    fn compare(&mut self, now: Instant, candidates: &[usize]) -> (usize, Why) {
        let others: Vec<usize> = candidates.iter().copied().filter(|path| *path != self.chosen).collect();
        if others.is_empty() {
            return (self.chosen, Why::Alone);
        }
        if let Some(odds) = self.is_vain(now, &others) {
            return (self.chosen, Why::Vain { odds });
        }
        match self.settings.strategy {
            Strategy::Latency => self.nearest(&others),
            _ => self.by_value(now, &others),
        }
    }

    /// Returns the odds that all other paths share the tight link of the chosen one, if that is sure, and
    /// nothing else tells them apart.
    fn is_vain(&self, now: Instant, others: &[usize]) -> Option<f64> {
        let is_vain = |other: &usize| {
            self.shared.is_sure(self.chosen, *other)
                && (self.settings.strategy != Strategy::TransferTime || self.odds(now, *other) < MAYBE)
        };
        let odds = others.iter().map(|other| self.shared.odds(self.chosen, *other));
        others.iter().all(is_vain).then(|| odds.fold(1.0, f64::min))
    }

    fn nearest(&self, others: &[usize]) -> (usize, Why) {
        let known = others.iter().filter_map(|path| Some((self.paths[*path].rtt?, *path)));
        let Some((there, path)) = known.min() else { return (self.chosen, self.no_better(others[0], 0.0)) };
        let Some(before) = self.paths[self.chosen].rtt else {
            return (self.chosen, self.no_better(path, 0.5));
        };
        if there.scale(1.0 + self.settings.tolerance) < before {
            return (path, Why::Nearer { here: there, before });
        }
        (self.chosen, self.no_better(path, 0.0))
    }

    /// Compares the chosen path with others by what is free, or by what follows from that.
    fn by_value(&mut self, now: Instant, others: &[usize]) -> (usize, Why) {
        let here = self.prospect(now, self.chosen);
        let factor = 1.0 + self.settings.tolerance;
        let is_open = |path: &&usize| {
            self.settings.strategy == Strategy::TransferTime || !self.shared.is_sure(self.chosen, **path)
        };
        let rivals = others.iter().filter(is_open).map(|path| {
            let there = self.prospect(now, *path);
            let odds = self.shared.odds_of(self.chosen, *path, (&here, &there), factor);
            (*path, odds, there.value)
        });
        let rivals: Vec<(usize, f64, Distribution)> = rivals.collect();
        let better = rivals.iter().filter(|(_, odds, _)| *odds >= ODDS);
        let best = better.max_by_key(|(_, _, there)| there.mean());
        let Some((path, odds, there)) = best else {
            let next = rivals.iter().max_by(|one, other| one.1.total_cmp(&other.1));
            let (path, odds) = next.map_or((others[0], 0.0), |(path, odds, _)| (*path, *odds));
            return (self.chosen, self.no_better(path, odds));
        };
        let left = self.hold.left(now);
        if left > Duration::ZERO {
            let better = Arc::clone(&self.names[*path]);
            return (self.chosen, Why::Holds { better, odds: *odds, for_another: left });
        }
        let odds = match self.settings.strategy {
            Strategy::TransferTime => self.odds(now + AHEAD, *path),
            _ => *odds,
        };
        (*path, self.better(odds, there, &here.value))
    }

    /// Returns that a path is better, with what both are compared by.
    fn better(&self, odds: f64, here: &Distribution, before: &Distribution) -> Why {
        let [here, before] = [here, before].map(Distribution::interval);
        match self.settings.strategy {
            Strategy::TransferTime => {
                // The faster, the less time it takes.
                let times = |[median, low, high]: [Rate; 3]| [median, high, low].map(time_of);
                Why::Sooner { odds, here: times(here), before: times(before), size: self.sizes.usual() }
            }
            _ => Why::Better { odds, here, before },
        }
    }

    fn no_better(&self, next: usize, odds: f64) -> Why {
        Why::NoBetter { next: Arc::clone(&self.names[next]), odds }
    }
}
