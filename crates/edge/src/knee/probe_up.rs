//! Tries more, and keeps it if more was delivered.

use headway_units::{Duration, Instant};

use super::hold::{CHANGED, is_full};
use super::{Knee, Phase, Seen, USES};

/// By what is tried grows at first, and each time that helped. Range 1.05 to 1.25 for the first: what is too
/// much stands in the queue for some RTTs.
const GAINS: [f64; 5] = [1.15, 1.25, 1.5, 2.0, 2.0];
/// This part of what is tried more must be delivered. Range 0.3 to 0.6.
const DELIVERED: f64 = 0.4;
/// If less is, and the RTT has grown by this part, it stands in a queue. Range 0.3 to 0.7. If neither has,
/// flows had no more to send.
const QUEUED: f64 = 0.5;
/// It is clear soon if a queue has grown by this part of the RTT. Range 0.5 to 2.
const CLEARLY: f64 = 1.0;
/// After what did not help, nothing is tried for so long, and up to [`LONGEST`] after the next
/// ones. Range 0.5 to 2 s.
const PAUSE: Duration = Duration::from_ms(700);
/// See [`PAUSE`]. Range 2 to 8 s: a link that became faster waits for it.
const LONGEST: Duration = Duration::from_ms(2_800);
/// What flows may have more than they have: their cwnd may be below it for a while. Range 1.2 to 2.
const MOST_ABOVE: f64 = 1.4;
/// The same where the rate of the link is known: windows stand still where segments are lost. Range 2 to 4.
const MOST_ABOVE_KNOWN: f64 = 3.0;

#[derive(Clone, Debug)]
pub(super) struct ProbeUp {
    /// What was tried before.
    pub(super) from: f64,
    was: Seen,
}

/// What was tried last.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// How often more has helped, one after the other.
    helped: usize,
    pause: Duration,
    /// What somebody measured, which is to be tried.
    pub(super) measured: Option<f64>,
}

impl ProbeUp {
    /// Whether a queue has grown by far more than what is tried can make, or the link or
    /// the path has changed.
    pub(super) fn is_clear(&self, seen: &Seen) -> bool {
        let longer = seen.queue > self.was.queue + CLEARLY * self.was.rtt;
        let slower = seen.rate < CHANGED * self.was.rate && seen.queue > self.was.queue;
        (longer || slower) && seen.has_seen(1.0) && seen.shows_queue()
    }
}

impl Knee {
    pub(super) fn probe_up(&mut self, now: Instant, seen: &Seen, goal: Option<f64>) {
        let Some(from) = self.tried else { return };
        let memory = &mut self.memory.up;
        let measured = memory.measured.take().filter(|measured| *measured > from);
        let gain_after = |helped: usize| GAINS[helped.min(GAINS.len() - 1)];
        let gain = gain_after(memory.helped);
        // Where the rate is known, what that needs if windows give in proportion, but less after what
        // has only made a queue.
        let most = gain_after(if memory.pause == Duration::ZERO { GAINS.len() } else { memory.helped + 1 });
        let gain = goal.map_or(gain, |goal| (goal / seen.rate.max(1.0)).clamp(1.03, most));
        // A window is whole segments.
        let least = 1.0 + seen.step / seen.asks.max(1.0);
        let tried = measured.unwrap_or(from * gain.max(least));
        self.change(now, Some(tried), Phase::ProbeUp(ProbeUp { from, was: *seen }));
    }

    pub(super) fn judge_more(&mut self, probe: &ProbeUp, now: Instant, goal: Option<f64>) {
        let (seen, tried) = (self.seen, self.tried.unwrap_or(probe.from));
        let gain = tried / probe.from;
        let more = seen.rate / probe.was.rate.max(1.0) - 1.0;
        let longer = (seen.queue - probe.was.queue) / probe.was.rtt.max(1e-6);
        if more >= DELIVERED * (gain - 1.0) {
            self.memory.up.helped += 1;
            self.memory.up.pause = Duration::ZERO;
            self.normal = Some(seen);
            match seen.asks >= USES * tried && !is_full(seen.rate, goal) {
                true => self.probe_up(now, &seen, goal),
                false => self.settle(now, Duration::ZERO, Some(seen)),
            }
            return;
        }
        if longer >= QUEUED * (gain - 1.0) {
            self.memory.up.helped = 0;
            self.memory.up.pause = (self.memory.up.pause * 2).clamp(PAUSE, LONGEST);
            self.tried = Some(probe.from);
            // The link has become slower meanwhile.
            return match probe.is_clear(&seen) {
                true => self.back_off(now, &seen),
                false => self.settle(now, self.memory.up.pause, None),
            };
        }
        // Their cwnd is below their windows, or those have not become larger by a segment.
        let most = seen.asks * if goal.is_some() { MOST_ABOVE_KNOWN } else { MOST_ABOVE };
        self.tried = Some(tried.min(most).max(probe.from));
        self.settle(now, if tried < most { Duration::ZERO } else { PAUSE }, Some(seen));
    }
}
