//! One path: what is thought of it, and of the traffic over it.

use std::collections::VecDeque;

use headway_estimate::question::Reply;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::belief::Belief;
use crate::bucket::BucketSearch;
use crate::multipath::Trial;
use crate::presence::Presence;
use crate::purse::Purse;
use crate::settings::Settings;
use crate::transfer::{Busy, Conditions, Losses};
use crate::wishes::Wished;

/// Own traffic is judged by so many rates of a second (range 2 to 10),
const SECONDS: usize = 5;
/// that are no older than this: some may be missing, as a look may be late. Range from [`SECONDS`].
const RECENT: Duration = Duration::from_ms(10_000);
/// Own traffic goes on as in the last seconds if it has no more than so many times as much, or as
/// little. Range 1.2 to 2.
const STEADY: f64 = 1.5;
/// A queue is full if a stream loses more than this share of its packets. Range 0.01 to 0.1.
const FULL_LOSES: f64 = 0.03;
/// Own traffic of up to this part of what is free does not disturb a question. Range 0 to 0.2.
const LITTLE: f64 = 0.1;

/// Traffic of this rate passes, and is not only sent again and again. Range 50 kb/s to 1 Mb/s.
const PASSES: Rate = Rate::from_bps(200_000);
/// The median of so many round-trip times is the usual one. Range 3 to 20.
const RTTS: usize = 7;
/// Up to this part of what is free, streams of a question find no full queue. Range 0.5 to 0.9.
const CLEARLY_FREE: f64 = 0.85;

/// How own traffic and a reply go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Beside {
    /// There is hardly any, or it has gone on for seconds at this rate.
    Steady(Rate),
    /// It has gone on for seconds at this rate, and packets were lost: beside it less is free than was asked
    /// for. Delays say nothing then, as a queue that is full does not grow.
    Full(Rate),
    /// It has begun or ended just now, so a queue that it fills for moments may be all that was seen.
    Unknown,
}

/// A path among which is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) belief: Belief,
    pub(crate) bucket: BucketSearch,
    pub(crate) rtt: Option<Duration>,
    pub(crate) rtt_at: Option<Instant>,
    /// The last round-trip times without much own traffic, whose queue they would show.
    idle_rtts: VecDeque<Duration>,
    pub(crate) losses: Losses,
    /// What own traffic uses, the rates of the last seconds, and when they told something last.
    pub(crate) own: Rate,
    carried: VecDeque<(Instant, Rate)>,
    busy: Busy,
    pub(crate) carried_at: Option<Instant>,
    pub(crate) presence: Presence,
    pub(crate) purse: Purse,
    /// What the user wishes of it.
    pub(crate) wished: Wished,
    /// How connections that use several paths together fared on it.
    pub(crate) trial: Trial,
}

impl Path {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Path {
        Path {
            belief: Belief::new(now),
            bucket: BucketSearch::default(),
            rtt: None,
            rtt_at: None,
            idle_rtts: VecDeque::with_capacity(RTTS),
            losses: Losses::new(now),
            own: Rate::ZERO,
            carried: VecDeque::with_capacity(SECONDS),
            busy: Busy::default(),
            carried_at: None,
            presence: Presence::new(settings, now),
            purse: Purse::new(settings, now),
            wished: Wished::default(),
            trial: Trial::default(),
        }
    }

    /// Takes what a reply says of losses by chance: streams of a rate that is free lose no packets otherwise.
    pub(crate) fn lost(&mut self, now: Instant, reply: &Reply) {
        let is_free = reply.rate <= self.belief.at(now).quantile(0.5).scale(CLEARLY_FREE);
        if is_free && self.own <= self.little(now) && reply.streams > 0 {
            let harmed = reply.lost.min(reply.streams.into()) as u32;
            self.losses.learn(now, reply.streams, reply.packets as f64 / f64::from(reply.streams), harmed);
        }
    }

    /// Takes a round-trip time.
    pub(crate) fn take_rtt(&mut self, now: Instant, rtt: Duration) {
        (self.rtt, self.rtt_at) = (Some(rtt), Some(now));
        if self.own <= self.little(now) || self.idle_rtts.is_empty() {
            if self.idle_rtts.len() >= RTTS {
                self.idle_rtts.pop_front();
            }
            self.idle_rtts.push_back(rtt);
        }
    }

    /// Returns what makes transfers slow or fast besides what is free; the round-trip time is the usual one
    /// without own traffic.
    pub(crate) fn conditions(&self) -> Conditions {
        let mut rtts: Vec<Duration> = self.idle_rtts.iter().copied().collect();
        rtts.sort_unstable();
        Conditions {
            rtt: rtts.get(rtts.len() / 2).copied(),
            capacity: self.belief.capacity(),
            bucket: self.bucket.found,
        }
    }

    /// Returns how much own traffic does not matter.
    fn little(&self, now: Instant) -> Rate {
        self.belief.at(now).quantile(0.5).scale(LITTLE)
    }

    /// Takes the rate of own traffic in the last second; returns the size of a transfer that has ended.
    pub(crate) fn carry(&mut self, now: Instant, rate: Rate) -> Option<Bytes> {
        self.own = rate;
        while self.carried.len() >= SECONDS || self.carried.front().is_some_and(|(at, _)| now - *at > RECENT)
        {
            self.carried.pop_front();
        }
        self.carried.push_back((now, rate));
        if rate >= PASSES {
            self.presence.passed(now);
        }
        self.busy.look(now, rate)
    }

    /// Returns the mean rate of own traffic in the last seconds, and whether all of them had some; none if
    /// they were not all watched.
    pub(crate) fn lately(&self, now: Instant) -> Option<(Rate, bool)> {
        let rates = || self.carried.iter().filter(|(at, _)| now - *at <= RECENT).map(|(_, rate)| *rate);
        let mean = Rate::from_bps_f64(rates().map(Rate::bps_f64).sum::<f64>() / SECONDS as f64);
        let little = self.little(now);
        (rates().count() == SECONDS).then(|| (mean, rates().all(|rate| rate > little)))
    }

    /// Returns what a reply says besides own traffic.
    pub(crate) fn beside(&self, now: Instant, reply: &Reply) -> Beside {
        if self.own <= self.little(now) {
            return Beside::Steady(self.own);
        }
        let same = |mean: Rate| self.own <= mean.scale(STEADY) && mean <= self.own.scale(STEADY);
        match self.lately(now) {
            Some((mean, true)) if !same(mean) => Beside::Unknown,
            Some((mean, true)) if reply.lost as f64 > FULL_LOSES * reply.packets as f64 => Beside::Full(mean),
            Some((mean, true)) => Beside::Steady(mean),
            _ => Beside::Unknown,
        }
    }

    /// Takes that there is an answer, with its round-trip time.
    pub(crate) fn answered(&mut self, now: Instant, rtt: Option<Duration>) {
        self.presence.answered(now);
        if let Some(rtt) = rtt {
            self.take_rtt(now, rtt);
        }
    }
}
