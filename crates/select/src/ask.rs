//! What is asked next: only what decides, and only where it pays.

use headway_estimate::question::QuestionConfig;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::distribution::Distribution;
use crate::selector::{Action, Pair, Pending, Selector};
use crate::settings::Strategy;
use crate::transfer::Prospect;
use crate::worth::{Outlook, Worth, pays};

/// The capacity of a path is measured anew after so long, if bytes are left: it changes with the route. Range
/// 1 to 24 h.
const CAPACITY_EVERY: Duration = Duration::from_ms(6 * 3_600_000);
/// What asking for a round-trip time costs: some small packets with their headers.
const PING: Bytes = Bytes::new(1_000);
/// Two paths are asked whether they share if the free rate of one is at least this part of the other's:
/// where they differ more, each has a tight link of its own, or it hardly matters. Range 0.5 to 1.
const ALIKE: f64 = 0.7;
/// The rate of both streams then, as a part of the lower free rate: together they do not have
/// room if the paths share. Range 0.5, where they just have, to 0.9.
const TOGETHER: f64 = 0.75;
/// They are asked only while this is known about both: a 90 % interval whose ends differ by no
/// more than this factor. Range 1.2 to 4.
const NARROW: f64 = 2.0;

/// The 90 % interval of the path in use is wide if its ends differ by more than this factor. Range 1.2 to 3.
const WIDE: f64 = 1.2;
/// It is asked for so many times what is thought to be free: then less and more are told apart equally
/// well. Range 1.1 to 1.4.
const ABOVE: f64 = 1.3;
/// The highest rate that is asked for, as a part of the capacity: faster streams have no room beside a few
/// packets of others, and this one shows all that may be free. Range 0.85 to 0.98.
pub(crate) const MOST_ASKED: f64 = 0.9;

/// What may be asked, and what that is worth for each byte.
struct Offer {
    action: Action,
    per_byte: f64,
}

impl Selector {
    /// Returns what is to be asked now, and notes that it is under way.
    pub(crate) fn wanted(&mut self, now: Instant) -> Option<Action> {
        let action = match self.settings.strategy {
            Strategy::Latency => self.ping(now),
            _ => self.first(now).or_else(|| self.pair(now)).or_else(|| self.best(now)),
        }?;
        let (open, pair) = match &action {
            Action::Ask { path, .. } | Action::Measure { path, .. } | Action::Ping { path } => {
                (vec![*path], None)
            }
            Action::Together { paths, rate, .. } => {
                self.shared.begin(now, paths[0], paths[1]);
                (paths.to_vec(), Some(Pair { paths: *paths, rate: *rate, ln_ratio: 0.0 }))
            }
            Action::Choose(_) => return Some(action),
        };
        match action {
            Action::Ask { .. } | Action::Together { .. } => self.asked[0] += 1,
            Action::Measure { .. } => self.asked[1] += 1,
            Action::Ping { .. } | Action::Choose(_) => {}
        }
        let bucket = if let Action::Ask { bucket, .. } = action { bucket } else { None };
        self.pending = Some(Pending { since: now, open, bucket, pair });
        Some(action)
    }

    /// Returns a path whose round-trip time is not known, or no longer.
    fn ping(&mut self, now: Instant) -> Option<Action> {
        let interval = self.settings.interval;
        let is_due = |at: Option<Instant>| at.is_none_or(|at| now - at >= interval);
        let due = (0..self.paths.len()).filter(|path| self.paths[*path].presence.may_be_asked(now));
        let mut due: Vec<usize> = due.filter(|path| is_due(self.paths[*path].rtt_at)).collect();
        due.sort_by_key(|path| self.paths[*path].rtt_at);
        let path = due.into_iter().find(|path| self.paths[*path].purse.affordable(now) >= PING)?;
        Some(Action::Ping { path })
    }

    /// Returns the first measurement of a path, or one whose capacity is out of date.
    fn first(&mut self, now: Instant) -> Option<Action> {
        for path in 0..self.paths.len() {
            let state = &mut self.paths[path];
            let is_due = state.purse.measured_at.is_none_or(|at| now - at >= CAPACITY_EVERY);
            let most = state.purse.measurement_cost();
            if is_due && state.presence.may_be_asked(now) && state.purse.affordable(now) >= most {
                return Some(Action::Measure { path, most });
            }
        }
        None
    }

    /// Returns two paths of which it is not known whether they share their tight link.
    fn pair(&mut self, now: Instant) -> Option<Action> {
        let chosen = self.chosen;
        let others: Vec<usize> = self.candidates(now).into_iter().filter(|path| *path != chosen).collect();
        let known = |free: &Distribution| {
            let [_, low, high] = free.interval();
            high.bps_f64() < NARROW * low.bps_f64()
        };
        let here = self.paths[chosen].belief.at(now);
        if !known(&here) {
            return None;
        }
        for other in others {
            let there = self.paths[other].belief.at(now);
            let (one, two) = (here.quantile(0.5), there.quantile(0.5));
            let is_alike = one.min(two).bps_f64() >= ALIKE * one.max(two).bps_f64();
            if !is_alike || !known(&there) || !self.shared.is_open(now, chosen, other) {
                continue;
            }
            let rate = one.min(two).scale(TOGETHER);
            let most = QuestionConfig::usual_cost(rate, self.settings.packet, None);
            let paths = [chosen, other];
            // Streams that fit into token buckets do not meet.
            let may = |path: &usize, paths: &mut [crate::path::Path]| {
                let state = &mut paths[*path];
                state.presence.may_be_asked(now)
                    && state.purse.affordable(now) >= most
                    && !state.bucket.hides(most)
            };
            if paths.iter().all(|path| may(path, &mut self.paths)) {
                let capacities = paths.map(|path| self.paths[path].belief.capacity());
                return Some(Action::Together { paths, rate, capacities, most });
            }
        }
        None
    }

    /// Returns the question whose answer is worth most for each byte, if it pays.
    fn best(&mut self, now: Instant) -> Option<Action> {
        let mut candidates = self.candidates(now);
        // Where choosing is vain, so is asking.
        candidates.retain(|path| *path == self.chosen || !self.shared.is_sure(self.chosen, *path));
        let chosen = candidates.iter().position(|path| *path == self.chosen)?;
        let paths: Vec<(usize, Prospect)> =
            candidates.iter().map(|path| (*path, self.prospect(now, *path))).collect();
        let outlook = Outlook::new(&paths, chosen, self.settings.tolerance);
        let mut offers: Vec<Offer> = Vec::new();
        for (place, path) in candidates.iter().enumerate() {
            if candidates.len() > 1 && self.paths[*path].presence.may_be_asked(now) {
                offers.extend(self.question(now, &outlook, place));
                offers.extend(self.measurement(now, &outlook, place));
            }
        }
        let best = offers.into_iter().max_by(|one, other| one.per_byte.total_cmp(&other.per_byte));
        best.map(|offer| offer.action).or_else(|| self.spare(now))
    }

    /// Returns a question about the path in use where little is known of it and bytes are left: a
    /// change there is met first.
    fn spare(&mut self, now: Instant) -> Option<Action> {
        let path = self.chosen;
        let [free, low, high] = self.paths[path].belief.at(now).interval();
        let state = &mut self.paths[path];
        let is_wide = high.bps_f64() > WIDE * low.bps_f64();
        if !is_wide
            || state.purse.fill() < 1.0
            || !state.presence.may_be_asked(now)
            || !state.purse.may_be_questioned()
        {
            return None;
        }
        let capacity = state.belief.capacity();
        let rate = free.scale(ABOVE);
        let rate = capacity.map_or(rate, |capacity| rate.min(capacity.scale(MOST_ASKED)));
        self.ask(now, path, rate)
    }

    /// Returns a question about a rate of a path, with what must come before it, if it can be paid.
    fn ask(&mut self, now: Instant, path: usize, rate: Rate) -> Option<Action> {
        let state = &mut self.paths[path];
        let packet = self.settings.packet;
        // A stream that fits into a bucket passes at any rate.
        let bucket = state.bucket.to_empty(QuestionConfig::usual_cost(rate, packet, None));
        if bucket.is_some_and(|bucket| !QuestionConfig::fits(rate, packet, bucket)) {
            return None;
        }
        let most = QuestionConfig::usual_cost(rate, packet, bucket);
        let capacity = state.belief.capacity();
        (state.purse.affordable(now) >= most).then_some(Action::Ask { path, rate, capacity, bucket, most })
    }

    fn question(&mut self, now: Instant, outlook: &Outlook<'_>, place: usize) -> Option<Offer> {
        let path = outlook.paths[place].0;
        let state = &self.paths[path];
        if !state.purse.may_be_questioned() {
            return None;
        }
        let capacity = state.belief.capacity();
        let Worth { rate, gain, .. } = outlook.best_question(place, capacity)?;
        let action = self.ask(now, path, rate)?;
        let Action::Ask { most, .. } = action else { return None };
        let per_byte = gain / most.get().max(1) as f64;
        pays(gain, most, self.paths[path].purse.fill()).then_some(Offer { action, per_byte })
    }

    fn measurement(&mut self, now: Instant, outlook: &Outlook<'_>, place: usize) -> Option<Offer> {
        let path = outlook.paths[place].0;
        let state = &mut self.paths[path];
        let most = state.purse.measurement_cost();
        if state.purse.affordable(now) < most {
            return None;
        }
        let gain = outlook.measurement(place);
        let per_byte = gain / most.get().max(1) as f64;
        pays(gain, most, state.purse.fill())
            .then_some(Offer { action: Action::Measure { path, most }, per_byte })
    }
}
