//! Holds what is tried, and sees what is normal.

use headway_units::{Duration, Instant};

use super::{Knee, Seen, USES};
use crate::load::Passed;

/// A queue shows if the RTT is longer by this than that without a queue, and by [`SHOWS_PART`] of it. It is
/// only a reason to look whether it answers. Range 3 to 10 ms.
const SHOWS: f64 = 0.005;
/// See [`SHOWS`]. Range 0.1 to 0.5.
const SHOWS_PART: f64 = 0.2;
/// And by so many segments at the rate: on a slow link one that leaves makes the next one wait. Range 1 to 3.
const SHOWS_SEGMENTS: f64 = 1.5;
/// A queue of so much shows on any path. Range 20 to 60 ms.
const SHOWS_ALWAYS: f64 = 0.040;
/// If so much less is delivered, and with a longer queue, the link or the path has changed. Flows that have
/// only begun do while this part of what they have is what they had. Range 0.5 to 0.8.
pub(super) const CHANGED: f64 = 0.7;
/// How fast what is normal follows what is seen, in parts of what an experiment sees. Range 1 to 4.
const FOLLOWS: f64 = 2.0;
/// A link whose rate is known is full with this part of it. Range 0.95 to 0.99: pauses of windows.
const FULL: f64 = 0.985;
/// What is left in a second of what is tried, while such a link is full and packets wait. Range 0.5 to 0.95:
/// what is delivered tells at once if it was too much.
const NARROWER: f64 = 0.93;
/// Packets wait there if flows would have so much more without that. Range 1.05 to 1.2.
const WAITS: f64 = 1.2;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hold {
    /// Until then nothing more is tried.
    pub(super) until: Instant,
}

impl Seen {
    /// Whether a queue shows.
    pub(crate) fn shows_queue(&self) -> bool {
        let segments = SHOWS_SEGMENTS * self.segment / self.rate.max(1.0);
        self.queue > SHOWS.max((SHOWS_PART * self.least).max(segments).min(SHOWS_ALWAYS))
    }
}

/// Whether a link that carries this, if it is known, has all that it can carry.
pub(super) fn is_full(rate: f64, goal: Option<f64>) -> bool {
    goal.is_some_and(|goal| rate >= FULL * goal)
}

impl Knee {
    pub(super) fn hold(&mut self, hold: Hold, now: Instant, passed: &Passed, goal: Option<f64>, may: bool) {
        let is_slower = passed.rate < CHANGED * self.seen.rate && passed.queue > self.seen.queue;
        let begins = (self.tried.is_none() || goal.is_some()) && passed.rate > self.seen.rate / CHANGED;
        if is_slower || begins {
            // What was seen before is no measure of what comes of an experiment.
            self.seen = Seen::of(passed);
        }
        let seen = self.seen;
        if !seen.has_seen(1.0) {
            return;
        }
        // What is delivered is no less than what flows may have: the least window is two segments.
        self.tried = self.tried.map(|tried| tried.max(seen.rate));
        if self.tried.is_some_and(|tried| seen.asks < USES * tried) {
            self.normal = Some(seen);
            return;
        }
        if may && self.is_to_back_off(now, &seen) {
            return self.back_off(now, &seen);
        }
        if !seen.is_enough() {
            return;
        }
        self.normal = Some(seen);
        // Means of about what an experiment sees, so that both have the same spread.
        self.seen.time /= FOLLOWS;
        let is_full = is_full(seen.rate, goal);
        if is_full && seen.asks > WAITS * seen.rate {
            let narrower = |tried: f64| (tried * NARROWER.powf(passed.time)).max(seen.rate.min(tried));
            self.tried = self.tried.map(narrower);
        }
        if self.tried.is_some() && may && !is_full && now >= hold.until {
            self.probe_up(now, &seen, goal);
        }
    }

    /// Holds for a time, with what an experiment saw as normal.
    pub(super) fn settle(&mut self, now: Instant, time: Duration, normal: Option<Seen>) {
        self.normal = normal.or(self.normal);
        self.rest(now, time);
    }
}
