//! The most that may be in flight towards a side before a standing queue builds: the knee,
//! found by experiments.
//!
//! A delay does not say whose it is. A path that became longer, jitter, and the queue of others look like
//! one's own queue. So what decides is whether the path answers: less in flight makes one's own queue shorter
//! and as much is delivered; more in flight delivers more as long as the link is not full. An experiment that
//! does not answer is taken back at once, and not repeated for a time that doubles.
//!
//! What is tried is a rate: a flow's window is its share of that times the RTT without a queue. What was
//! delivered is what is believed.
//!
//! | rule | begins | ends |
//! |---|---|---|
//! | [`hold`] | | when a queue shows, or it is time to try more |
//! | [`probe_up`] | where flows use what they may have | kept if more was delivered; taken back if only delays grew |
//! | [`both`] | where both directions have bulk, in place of the others | when one has none any more |
//! | [`back_off`] | where a queue shows, and now and then without one, so that the RTT without it is known | kept if as much was delivered or the queue became shorter |

mod back_off;
mod both;
mod hold;
mod probe_up;

use headway_units::{Duration, Instant};

use crate::load::Passed;
use back_off::BackOff;
pub(crate) use both::Both;
use hold::Hold;
use probe_up::ProbeUp;

/// What an experiment must see: so many RTTs. Range 2 to 8: bursts keep their order for some.
const RTTS: f64 = 4.0;
/// The same in segments. Range 20 to 100.
const SEGMENTS: f64 = 30.0;
/// It sees no more than so many seconds, whatever the RTT. Range 2 to 10.
const LONGEST: f64 = 4.0;
/// What is seen so long after a change, in RTTs, is still of the time before it. Range 1 to 2.
const SETTLES: f64 = 1.25;
/// Flows that have this part of what they may have would take more. Range 0.6 to 0.9:
/// windows are whole segments.
pub(super) const USES: f64 = 0.7;
/// With less than this part of what was delivered before, the link is silent, and nothing is
/// concluded. Range 0.01 to 0.05.
const SILENT: f64 = 0.02;
/// But not for so many RTTs: windows are sent at once. Range 1 to 2.
const PAUSES: f64 = 1.5;
/// What is seen so long after a silence, in s and beside an RTT, still contains it. Range 0.2 to 1.
const RECOVERS: f64 = 0.4;
/// A link that is silent for longer has become slower. Range 1 to 4 s.
const LONGEST_SILENCE: f64 = 2.5;

/// What is left in a second of the highest rate, if flows have less. Range 0.9 to 0.99.
const KEPT: f64 = 0.97;

/// What is done.
#[derive(Clone, Debug)]
enum Phase {
    Hold(Hold),
    ProbeUp(ProbeUp),
    BackOff(BackOff),
}

/// What is known of the other direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    /// Whether an experiment is under way there. Only one is at a time, because an RTT is
    /// that of both directions.
    pub(crate) tries: bool,
    /// Whether a queue shows there, in data of its own.
    pub(crate) queues: bool,
}

/// What may be in flight towards a side.
#[derive(Clone, Debug)]
pub(crate) struct Knee {
    /// What is tried, in bit/s; none while nothing is limited.
    tried: Option<f64>,
    phase: Phase,
    /// What was seen before this is of the time before the last change.
    settled: Instant,
    /// What was seen since.
    seen: Seen,
    /// What was delivered and how long it took when nothing was tried.
    normal: Option<Seen>,
    silent: Duration,
    /// The most that was delivered, which is forgotten slowly.
    highest: f64,
    memory: Memory,
    /// How often the RTT without a queue is to be found anew.
    renewals: u32,
    /// When it is to be found anew once more.
    renews: Option<Instant>,
}

/// What experiments have shown.
#[derive(Clone, Debug, Default)]
struct Memory {
    up: probe_up::Memory,
    back: back_off::Memory,
}

/// Means over some looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    time: f64,
    rate: f64,
    asks: f64,
    rtt: f64,
    least: f64,
    queue: f64,
    segment: f64,
    step: f64,
}

impl Seen {
    /// Returns means of what passed in one look.
    pub(crate) fn of(passed: &Passed) -> Seen {
        let mut seen = Seen::default();
        seen.add(passed);
        seen
    }

    fn add(&mut self, passed: &Passed) {
        let part = passed.time / (self.time + passed.time).max(1e-9);
        let mix = |mean: &mut f64, now: f64| *mean += part * (now - *mean);
        mix(&mut self.rate, passed.rate);
        mix(&mut self.asks, passed.asks);
        mix(&mut self.rtt, passed.rtt);
        mix(&mut self.least, passed.least);
        mix(&mut self.queue, passed.queue);
        mix(&mut self.segment, passed.segment);
        mix(&mut self.step, passed.step);
        self.time += passed.time;
    }

    /// Whether an experiment has seen enough.
    fn is_enough(&self) -> bool {
        self.has_seen(RTTS)
    }

    /// Whether so many RTTs, and segments enough, were seen.
    fn has_seen(&self, rtts: f64) -> bool {
        let segments = SEGMENTS * self.segment / self.rate.max(1.0);
        self.time >= (rtts * self.rtt).max(segments).min(LONGEST)
    }
}

impl Default for Knee {
    fn default() -> Knee {
        Knee {
            tried: None,
            phase: Phase::Hold(Hold::default()),
            settled: Instant::ZERO,
            seen: Seen::default(),
            normal: None,
            silent: Duration::ZERO,
            highest: 0.0,
            memory: Memory::default(),
            renewals: 0,
            renews: None,
        }
    }
}

impl Knee {
    /// Returns what is tried, in bit/s.
    pub(crate) fn tried(&self) -> Option<f64> {
        self.tried
    }

    /// Sets what is tried, for lack of anything better, or as what is known of the link has changed.
    pub(crate) fn set_tried(&mut self, tried: Option<f64>) {
        self.tried = tried;
    }

    /// Returns how often the RTT without a queue is to be found anew.
    pub(crate) fn renewals(&self) -> u32 {
        self.renewals
    }

    /// Whether something is tried whose result is not known yet.
    pub(crate) fn is_trying(&self) -> bool {
        !matches!(self.phase, Phase::Hold(_))
    }

    /// Takes what somebody measured, to be tried next.
    pub(crate) fn measured(&mut self, rate: f64) {
        self.memory.up.measured = Some(rate);
    }

    /// Whether less is tried, as a queue showed.
    pub(crate) fn is_backing_off(&self) -> bool {
        matches!(&self.phase, Phase::BackOff(probe) if probe.showed())
    }

    /// Returns what was delivered when nothing was tried, in bit/s.
    pub(crate) fn delivered(&self) -> Option<f64> {
        self.normal.map(|seen| seen.rate)
    }

    /// Tries this rate, and sees nothing.
    pub(crate) fn follow(&mut self, now: Instant, rate: f64) {
        self.tried = Some(rate);
        self.rest(now, Duration::ZERO);
    }

    /// Takes what passed since the last look, and `goal`, what the link carries if that is known, in bit/s;
    /// and what is known of the `other` direction.
    pub(crate) fn look(&mut self, now: Instant, passed: &Passed, goal: Option<f64>, other: Other) {
        if self.renews.is_some_and(|at| now >= at) {
            (self.renewals, self.renews) = (self.renewals.wrapping_add(1), None);
            // What windows were multiplied with made up for the RTT that is known now.
            self.tried = goal.or(self.tried);
        }
        if self.is_silent(now, passed) || now - Duration::from_secs_f64(passed.time) < self.settled {
            return;
        }
        self.seen.add(passed);
        self.highest = (self.highest * KEPT.powf(passed.time)).max(self.seen.rate);
        match self.phase.clone() {
            Phase::Hold(hold) => self.hold(hold, now, passed, goal, !other.tries),
            Phase::ProbeUp(probe) if self.seen.is_enough() || probe.is_clear(&self.seen) => {
                self.judge_more(&probe, now, goal);
            }
            Phase::BackOff(probe) if self.seen.is_enough() || probe.is_clear(&self.seen) => {
                self.judge_less(&probe, now, goal, other);
            }
            Phase::ProbeUp(_) | Phase::BackOff(_) => {}
        }
    }

    /// Whether nothing can be concluded because the link is silent, or nobody sends. What was
    /// tried is taken back.
    fn is_silent(&mut self, now: Instant, passed: &Passed) -> bool {
        let (rate, rtt) = self.normal.map_or((0.0, 0.0), |seen| (seen.rate, seen.rtt));
        if passed.rate > SILENT * rate {
            let was_silent = std::mem::take(&mut self.silent).secs_f64() >= (PAUSES * rtt).max(passed.time);
            if was_silent && rate > 0.0 {
                // RTTs that contain the silence come for some time yet.
                self.rest(now, Duration::ZERO);
                self.settled = now + Duration::from_secs_f64(RECOVERS + SETTLES * rtt);
            }
            return was_silent || passed.rtt == 0.0;
        }
        self.silent += Duration::from_secs_f64(passed.time);
        let silent = self.silent.secs_f64();
        if rate > 0.0 && silent < PAUSES * rtt || silent > LONGEST_SILENCE && passed.rate > 0.0 {
            return passed.rtt == 0.0;
        }
        self.pause(now);
        true
    }

    /// Ends what is tried, as nothing can be concluded.
    pub(crate) fn pause(&mut self, now: Instant) {
        match &self.phase {
            Phase::ProbeUp(probe) => self.tried = Some(probe.from),
            Phase::BackOff(probe) => self.tried = probe.from,
            Phase::Hold(_) => {}
        }
        self.rest(now, Duration::ZERO);
    }

    /// Changes what is tried, and looks at what comes of it.
    fn change(&mut self, now: Instant, tried: Option<f64>, phase: Phase) {
        let rtt = self.seen.rtt.max(self.normal.map_or(0.0, |seen| seen.least));
        self.tried = tried;
        self.phase = phase;
        self.settled = now + Duration::from_secs_f64(SETTLES * rtt);
        self.seen = Seen::default();
    }

    /// Holds what is tried for a time at least.
    fn rest(&mut self, now: Instant, time: Duration) {
        self.change(now, self.tried, Phase::Hold(Hold { until: now + time }));
    }
}
