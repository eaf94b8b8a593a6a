//! What users wish of a path besides speed: to be used first, or to be spared.

use headway_units::{Budget, Bytes, Instant};

use crate::selector::Selector;

/// A preferred path is full if own traffic has this part of what is free, which TCP rarely exceeds (range 0.8
/// to 1),
const FULL: f64 = 0.9;
/// and has room again when it has no more than this part. Range 0.3 to 0.8.
const ROOM: f64 = 0.7;
/// A path is full, too, if others leave less than this part of its capacity. Range 0.01 to 0.2.
const NOTHING: f64 = 0.05;

/// What a user wishes of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// It is used before others until it is full.
    pub preferred: bool,
    /// The most that it may carry within any 30 days, in both directions, with all traffic of its interface;
    /// then it is used only if no other path can be.
    pub quota: Option<Bytes>,
}

/// The wishes for a path, and what came of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wished {
    pub(crate) preferred: bool,
    pub(crate) is_full: bool,
    pub(crate) quota: Option<Budget>,
}

impl Wished {
    /// Returns what is left of the quota, if there is one.
    pub(crate) fn left(&mut self, now: Instant) -> Option<Bytes> {
        self.quota.as_mut().map(|quota| quota.left(now))
    }
}

impl Selector {
    /// Takes what the user wishes of a path; to be called before anything else.
    pub fn wish(&mut self, path: usize, wishes: Wishes) {
        if let Some(state) = self.paths.get_mut(path) {
            let quota = wishes.quota.map(Budget::monthly);
            state.wished = Wished { preferred: wishes.preferred, is_full: false, quota };
        }
    }

    /// Takes how many bytes have passed the interface of a path since the last call, in both directions.
    pub fn passed(&mut self, now: Instant, path: usize, bytes: Bytes) {
        let now = self.advance(now);
        if let Some(quota) = self.paths.get_mut(path).and_then(|state| state.wished.quota.as_mut()) {
            quota.spend(now, bytes);
        }
    }

    /// Notes which preferred paths are full.
    fn note_full(&mut self, now: Instant) {
        for state in self.paths.iter_mut().filter(|state| state.wished.preferred) {
            let free = state.belief.at(now).quantile(0.5);
            let used = state.lately(now).map_or(state.own, |(mean, _)| mean);
            let part = if state.wished.is_full { ROOM } else { FULL };
            let capacity = state.belief.capacity().unwrap_or_default();
            let is_known = state.belief.is_known();
            state.wished.is_full = is_known && (used > free.scale(part) || free < capacity.scale(NOTHING));
        }
    }

    /// Keeps of the paths that may be chosen those that the user wishes: first preferred ones with room, then
    /// any with room, and none that has used up its quota, as long as there are others.
    pub(crate) fn wished(&mut self, now: Instant, candidates: Vec<usize>) -> Vec<usize> {
        self.note_full(now);
        let mut is_spent = |path: &usize| self.paths[*path].wished.left(now) == Some(Bytes::ZERO);
        let (spent, left): (Vec<usize>, Vec<usize>) = candidates.into_iter().partition(|path| is_spent(path));
        let candidates = if left.is_empty() { spent } else { left };
        let kept = |keep: &dyn Fn(&Wished) -> bool| -> Vec<usize> {
            candidates.iter().copied().filter(|path| keep(&self.paths[*path].wished)).collect()
        };
        let preferred = kept(&|wished| wished.preferred && !wished.is_full);
        let with_room = kept(&|wished| !wished.is_full);
        [preferred, with_room].into_iter().find(|kept| !kept.is_empty()).unwrap_or(candidates)
    }
}
