//! Tries less, and keeps it if as much was delivered or the queue became shorter.

use headway_units::{Duration, Instant};

use super::hold::is_full;
use super::{Knee, Other, Phase, SETTLES, Seen};

/// The least part that is left of what is in flight. Range 0.4 to 0.8: what is not one's own queue costs
/// as much for some RTTs.
const LEAST: f64 = 0.5;
/// This part of what is delivered is left in any case. Range 0.8 to 0.95.
const DELIVERED: f64 = 0.9;
/// All was delivered if this part was. Range 0.95 to 0.99.
const ALL: f64 = 0.985;
/// What is left where nothing shows, so that the RTT without a queue is known. Range 0.6 to 0.9.
const DRAINS: f64 = 0.8;
/// As much was delivered if it fell by less than this part of what was taken. Range 0.3 to 0.7.
const FELL: f64 = 0.5;
/// A queue has become shorter if this is left of it. Range 0.5 to 0.8.
const SHORTER: f64 = 0.7;
/// It is clear after the first look if twice as much was lost as that. Range 1.5 to 3.
const CLEARLY: f64 = 1.7;
/// A delay is the path's if what was delivered has fallen by what was taken, within this part of
/// it. Range 0.2 to 0.5.
const PROPORTION: f64 = 0.35;
/// And if nearly as much is delivered with a shorter queue. Range 0.85 to 1.
const NEARLY: f64 = 0.9;
/// What did not help is not tried again for so long, twice as long each time. Range 0.25 to 10 s.
const PAUSE: Duration = Duration::from_ms(1_000);
/// The longest such time: within a minute other traffic may have ended. Range 10 s to 10 minutes.
const LONGEST: Duration = Duration::from_ms(64_000);
/// A link that delivers this part of what it did is looked at nevertheless. Range 0.5 to 0.8.
const SLOWER: f64 = 0.7;
/// Before anything is limited, a queue counts while flows have this part of the most that they
/// had. Range 0.3 to 0.7.
const BEGUN: f64 = 0.5;
/// A queue that shows for less, in s, is that of a burst or of a short silence. Range 0.3 to 1.
const STANDS: f64 = 0.4;
/// The RTT without a queue is looked for so often. Range 10 to 30 s.
const EVERY: Duration = Duration::from_ms(15_000);

#[derive(Clone, Debug)]
pub(super) struct BackOff {
    /// What was tried before.
    pub(super) from: Option<f64>,
    was: Seen,
    /// The part of what was in flight that was taken.
    taken: f64,
}

/// What was tried last.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pause: Duration,
    /// Until then no delay is a reason.
    deaf_until: Instant,
    /// What was delivered when it became so.
    delivered: f64,
    /// When the RTT without a queue was looked for last.
    drained: Instant,
}

impl BackOff {
    /// Whether a queue was the reason.
    pub(super) fn showed(&self) -> bool {
        self.was.shows_queue()
    }

    /// Whether the delay is the path's, or the queue of others: it has stayed, and what was delivered has
    /// fallen by what was taken, or a little more.
    fn is_of_path(&self, seen: &Seen) -> bool {
        let fell = 1.0 - seen.rate / self.was.rate;
        let stays = (seen.queue / self.was.queue.max(1e-6) - 1.0).abs() < PROPORTION;
        stays && (self.taken * (1.0 - PROPORTION)..self.taken * (1.0 + 2.0 * PROPORTION)).contains(&fell)
    }

    /// Whether it is clear before enough was seen: what was delivered has fallen with what was taken, or the
    /// queue alone has, and the link still has one.
    pub(super) fn is_clear(&self, seen: &Seen) -> bool {
        let falls = seen.rate < self.was.rate * (1.0 - CLEARLY * FELL * self.taken).max(0.0);
        let helps =
            self.showed() && seen.queue < SHORTER * self.was.queue && seen.rate > NEARLY * self.was.rate;
        falls || helps && seen.shows_queue() && seen.has_seen(1.0)
    }
}

impl Knee {
    /// Whether it is time to try less.
    pub(super) fn is_to_back_off(&self, now: Instant, seen: &Seen) -> bool {
        let memory = &self.memory.back;
        // Flows that have only begun, or pause, say nothing of the link.
        if self.tried.is_none() && seen.rate < BEGUN * self.highest {
            return false;
        }
        if seen.shows_queue() {
            if seen.time < STANDS {
                return false;
            }
            return now >= memory.deaf_until || seen.rate < SLOWER * memory.delivered;
        }
        self.tried.is_some() && now - memory.drained >= EVERY && seen.is_enough()
    }

    pub(super) fn back_off(&mut self, now: Instant, seen: &Seen) {
        // The queue of the other direction is a part of the RTT.
        let without = 1.0 - seen.queue / seen.rtt.max(1e-6);
        let left = if seen.shows_queue() { without.clamp(LEAST, 0.9) } else { DRAINS };
        // What is in flight now, which is less than what is tried where cwnd is.
        let flight = self.tried.map_or(seen.asks, |tried| tried.min(seen.asks));
        if now - self.memory.back.drained >= EVERY {
            self.renewals = self.renewals.wrapping_add(1);
        }
        self.memory.back.drained = now;
        let probe = BackOff { from: self.tried, was: *seen, taken: 1.0 - left };
        // What is delivered does not stand in a queue.
        let least = if seen.shows_queue() { DELIVERED * seen.rate } else { 0.0 };
        self.change(now, Some((left * flight).max(least)), Phase::BackOff(probe));
    }

    pub(super) fn judge_less(&mut self, probe: &BackOff, now: Instant, goal: Option<f64>, other: Other) {
        let seen = self.seen;
        let keeps = seen.rate >= probe.was.rate * (1.0 - FELL * probe.taken);
        let showed = probe.was.shows_queue();
        let falls = showed && seen.queue <= SHORTER * probe.was.queue;
        let memory = &mut self.memory.back;
        if keeps || falls {
            memory.pause = Duration::ZERO;
            memory.deaf_until = now;
            self.normal = Some(seen);
            // If all was delivered with less, there was a queue though none showed.
            let was_hidden = !showed && seen.rate >= ALL * probe.was.rate;
            match seen.shows_queue() || was_hidden {
                true => self.back_off(now, &seen),
                false => {
                    // What was lost of what was delivered had not stood in a queue.
                    let fell = (1.0 - seen.rate / probe.was.rate.max(1.0)).clamp(0.0, probe.taken);
                    self.tried = self.tried.map(|tried| tried * (1.0 + fell / (1.0 - probe.taken)));
                    self.settle(now, Duration::ZERO, Some(seen));
                }
            }
            return;
        }
        self.tried = probe.from;
        if showed {
            memory.pause = (memory.pause * 2).clamp(PAUSE, LONGEST);
            memory.deaf_until = now + memory.pause;
            memory.delivered = probe.was.rate;
            // A link that was full had a queue of its own.
            if probe.is_of_path(&seen) && !other.queues && !is_full(probe.was.rate, goal) {
                // What was least before the present RTT does not count any more.
                self.renewals = self.renewals.wrapping_add(1);
                self.renews = Some(now + Duration::from_secs_f64(SETTLES * seen.rtt));
            }
        }
        self.settle(now, Duration::ZERO, None);
    }
}
