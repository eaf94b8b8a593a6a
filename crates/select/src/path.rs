//! One path: what is thought of it, what it has cost, and what is wrong with it.

use std::collections::VecDeque;

use headway_estimate::question::Reply;
use headway_units::{Budget, Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

use crate::belief::Belief;
use crate::settings::Settings;
use crate::stays::Stays;
use crate::transfer::{Busy, Conditions, Losses};
use crate::wishes::Wished;

/// Time after a failure until a path is asked again; doubled with each further one, up to [`LONGEST_RETRY`].
const RETRY: Duration = Duration::from_ms(5_000);
/// The longest time between attempts at a path that does not answer, and at one that does but whose answers cannot be read.
const LONGEST_RETRY: Duration = Duration::from_ms(300_000);
const LONGEST_UNREAD: Duration = Duration::from_ms(20_000);
/// A far end counts as away after so many attempts without an answer.
const AWAY_AFTER: u32 = 2;
/// A path whose far end has never answered is dead if no own traffic has passed for so many intervals.
const NEVER_ANSWERED: i64 = 3;
/// What has not been spent is kept for this part of an hour, so that bytes are left when something changes.
const KEPT: f64 = 0.1;
/// What a full measurement costs, before the first one.
const USUAL_MEASUREMENT: Bytes = Bytes::new(2_500_000);
/// A measurement that did not come to an end, as behind large token buckets, is repeated for twice as much, so often.
const RAISES: u32 = 2;
/// The most of an hour's budget that a full measurement may cost.
const MEASUREMENT_SHARE: f64 = 0.6;
/// The same before there was an answer.
const FIRST_SHARE: f64 = 0.95;

/// After so many questions in a row without a queue a token bucket is looked for. If there is none, then after four times as many, up to
/// the most. Range 2 to 10, and 50 to 1000.
const FLAT: u32 = 5;
const MOST_FLAT: u32 = 200;
/// First one of this size is looked for, then up to the largest that it makes sense to empty; below the least there is none.
const FIRST_TRIAL: Bytes = Bytes::new(64_000);
const LARGEST_BUCKET: Bytes = Bytes::new(2_000_000);
const LEAST_BUCKET: Bytes = Bytes::new(15_000);
/// What a bucket that looks smaller than before still counts as. Range 0.9 to 1.
const FADES: f64 = 0.995;
/// A token bucket of less than this part of a question hardly matters. Range 5 to 50.
const SMALL_BUCKET: u64 = 10;

/// Own traffic is judged by so many rates of a second,
const SECONDS: usize = 5;
/// that are no older than this.
const RECENT: Duration = Duration::from_ms(10_000);
/// Own traffic goes on as in the last seconds if it has no more than so many times as much, or as little. Range 1.2 to 2.
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

/// What is wrong with a path, or with a question about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// The path is down: its interface is gone, or has no carrier, or no route.
    Down,
    /// Nobody answers at the far end.
    Away,
    /// The host at the far end answers, but not the questions: nothing listens there, or something else.
    Refused,
    /// A host was too busy to send or to stamp packets in time.
    Busy,
    /// A clock was stepped meanwhile.
    ClockStep,
    /// Packets came, but no answer can be read from them.
    Unclear,
}

impl Trouble {
    /// Returns the trouble as a clause.
    pub const fn clause(self) -> &'static str {
        match self {
            Trouble::Down => "it is down",
            Trouble::Away => "its far end does not answer",
            Trouble::Refused => "its far end refuses to measure",
            Trouble::Busy => "a host is too busy to measure",
            Trouble::ClockStep => "a clock was stepped",
            Trouble::Unclear => "its packets did not agree",
        }
    }

    /// Returns the name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Trouble::Down => "down",
            Trouble::Away => "away",
            Trouble::Refused => "refused",
            Trouble::Busy => "busy",
            Trouble::ClockStep => "clock-step",
            Trouble::Unclear => "unclear",
        }
    }
}

/// How own traffic and a reply go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Beside {
    /// There is hardly any, or it has gone on for seconds at this rate.
    Steady(Rate),
    /// It has gone on for seconds at this rate, and packets were lost: beside it less is free than was asked for. Delays say nothing then, as
    /// a queue that is full does not grow.
    Full(Rate),
    /// It has begun or ended just now, so a queue that it fills for moments may be all that was seen.
    Unknown,
}

/// A path among which is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) belief: Belief,
    /// The burst that a shaper passes before it enforces its rate.
    pub(crate) bucket: Option<Bytes>,
    /// The burst that is looked for, after so many questions in a row of which no packet met a queue.
    trial: Option<Bytes>,
    flat: u32,
    /// After so many of them it is looked for.
    patience: u32,
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
    pub(crate) trouble: Option<Trouble>,
    /// Failures in a row, and when to try again.
    failures: u32,
    retry_at: Instant,
    is_down: bool,
    /// Whether the far end has ever answered, since when it does not, and when own traffic passed last.
    has_answered: bool,
    away_at: Instant,
    /// For so long own traffic may still show that a path works whose far end has never answered.
    patient: Duration,
    passed_at: Option<Instant>,
    /// For how long it has been there each time, and from when on it may be chosen.
    stays: Stays,
    settled_at: Instant,
    /// What the user wishes of it.
    pub(crate) wished: Wished,
    pub(crate) hour: Budget,
    pub(crate) month: Option<Budget>,
    /// Bytes that may be spent now, so that an hour's are not spent at once; and when that was computed.
    saved: f64,
    saved_at: Instant,
    /// What was spent since the beginning.
    pub(crate) total: Bytes,
    measurement_cost: Bytes,
    /// How often that was raised before there was an answer.
    raises: u32,
    pub(crate) measured_at: Option<Instant>,
}

impl Path {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Path {
        Path {
            belief: Belief::new(now),
            bucket: None,
            trial: None,
            flat: 0,
            patience: FLAT,
            rtt: None,
            rtt_at: None,
            idle_rtts: VecDeque::with_capacity(RTTS),
            losses: Losses::new(now),
            own: Rate::ZERO,
            carried: VecDeque::with_capacity(SECONDS),
            busy: Busy::default(),
            carried_at: None,
            trouble: None,
            failures: 0,
            retry_at: now,
            is_down: false,
            has_answered: false,
            patient: settings.interval * NEVER_ANSWERED,
            away_at: now,
            passed_at: None,
            stays: Stays::new(now),
            settled_at: now,
            wished: Wished::default(),
            hour: Budget::hourly(settings.max_bytes_per_hour),
            month: settings.max_bytes_per_month.map(Budget::monthly),
            saved: settings.max_bytes_per_hour.get() as f64,
            saved_at: now,
            total: Bytes::ZERO,
            measurement_cost: USUAL_MEASUREMENT,
            raises: 0,
            measured_at: None,
        }
    }

    /// Whether it may be chosen.
    pub(crate) fn is_usable(&self, now: Instant) -> bool {
        self.is_up() && now >= self.settled_at
    }

    /// Whether it is up, for all that is known.
    pub(crate) fn is_up(&self) -> bool {
        !self.is_down
    }

    /// Whether nobody has answered several times.
    fn is_silent(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Away | Trouble::Refused)) && self.failures >= AWAY_AFTER
    }

    /// Whether nobody has answered several times, and no own traffic has passed since. The silence of one who has never answered is not
    /// taken for that of the path at once.
    pub(crate) fn is_dead(&self, now: Instant) -> bool {
        let is_news = self.has_answered || now - self.away_at >= self.patient;
        self.is_silent() && is_news && self.passed_at.is_none_or(|at| at < self.away_at)
    }

    /// Whether it may be asked something.
    pub(crate) fn may_be_asked(&self, now: Instant) -> bool {
        self.is_up() && now >= self.retry_at
    }

    /// Whether a token bucket passes much of so many bytes at any rate.
    pub(crate) fn hides(&self, bytes: Bytes) -> bool {
        self.bucket.is_some_and(|bucket| bucket.get() > bytes.get() / SMALL_BUCKET)
    }

    /// Returns the bucket that must be empty before a question of so many bytes tells anything.
    pub(crate) fn to_empty(&self, bytes: Bytes) -> Option<Bytes> {
        self.trial.or_else(|| self.bucket.filter(|_| self.hides(bytes)))
    }

    /// Takes what a reply says of losses by chance: streams of a rate that is free lose no packets otherwise.
    pub(crate) fn lost(&mut self, now: Instant, reply: &Reply) {
        let is_free = reply.rate <= self.belief.at(now).quantile(0.5).scale(CLEARLY_FREE);
        if is_free && self.own <= self.little(now) && reply.streams > 0 {
            let harmed = reply.lost.min(reply.streams.into()) as u32;
            self.losses.learn(now, reply.streams, reply.packets as f64 / f64::from(reply.streams), harmed);
        }
    }

    /// Takes the reply to a question before which this bucket was to be emptied, and returns whether it tells anything. Where no packet ever
    /// meets a queue, a bucket is looked for that passes them all.
    pub(crate) fn replied(&mut self, reply: &Reply, emptied: Option<Bytes>) -> bool {
        let Some(capacity) = self.belief.capacity() else { return true };
        match (emptied, reply.emptied) {
            (Some(bucket), None) => {
                self.trial = Some((bucket * 2).min(LARGEST_BUCKET));
                false
            }
            (Some(_), Some(found)) => {
                self.trial = None;
                // Others may have used a part of it.
                let before = self.bucket.unwrap_or_default().get() as f64;
                let bucket = found.max(Bytes::new((before * FADES) as u64));
                self.bucket = Some(bucket).filter(|bucket| *bucket >= LEAST_BUCKET);
                if self.bucket.is_none() {
                    self.patience = (self.patience * 4).min(MOST_FLAT);
                }
                true
            }
            (None, _) => {
                self.flat = if reply.is_flat(capacity) { self.flat + 1 } else { 0 };
                if self.flat >= self.patience {
                    (self.flat, self.trial) = (0, Some(FIRST_TRIAL));
                }
                true
            }
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

    /// Returns what makes transfers slow or fast besides what is free; the round-trip time is the usual one without own traffic.
    pub(crate) fn conditions(&self) -> Conditions {
        let mut rtts: Vec<Duration> = self.idle_rtts.iter().copied().collect();
        rtts.sort_unstable();
        Conditions {
            rtt: rtts.get(rtts.len() / 2).copied(),
            capacity: self.belief.capacity(),
            bucket: self.bucket,
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
            self.passed_at = Some(now);
        }
        self.busy.look(now, rate)
    }

    /// Returns the mean rate of own traffic in the last seconds, and whether all of them had some; none if they were not all watched.
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

    /// Returns how many bytes may be spent on it now.
    pub(crate) fn affordable(&mut self, now: Instant) -> Bytes {
        self.save(now);
        let hard = self.month.as_mut().map_or(u64::MAX, |month| month.left(now).get());
        Bytes::new((self.saved.max(0.0) as u64).min(self.hour.left(now).get()).min(hard))
    }

    /// Returns how much of what may be saved up is there, 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        let most = KEPT * self.hour.limit().get() as f64;
        (self.saved / most.max(1.0)).clamp(0.0, 1.0)
    }

    /// Returns what was spent in the last hour.
    pub(crate) fn spent(&mut self, now: Instant) -> Bytes {
        self.hour.spent(now)
    }

    /// Adds what has become available since the last time. What a first measurement did not need is kept, too.
    fn save(&mut self, now: Instant) {
        let limit = self.hour.limit().get() as f64;
        let added = self.pace(now) * (now - self.saved_at).secs_f64().max(0.0);
        let most = (KEPT * limit).max(self.measurement_cost().get() as f64);
        self.saved = if self.saved > most { self.saved } else { (self.saved + added).min(most) };
        self.saved_at = self.saved_at.max(now);
    }

    /// Returns how many bytes become available in a second: as many as make up the budget in an hour, or fewer, so that some are left until the
    /// first measurement is an hour ago.
    fn pace(&mut self, now: Instant) -> f64 {
        let period = self.hour.period().secs_f64();
        let usual = self.hour.limit().get() as f64 / period;
        let left = self.hour.left(now).get() as f64;
        let Some((oldest, _)) = self.hour.parts().next() else { return usual };
        usual.min(left / (period - (now - oldest).secs_f64()).max(1.0))
    }

    /// Counts what was sent.
    pub(crate) fn spend(&mut self, now: Instant, bytes: Bytes) {
        self.save(now);
        // After the first measurement the rest of the hour's bytes come one after the other.
        self.saved = self.saved.min(KEPT * self.hour.limit().get() as f64 + bytes.get() as f64);
        self.saved -= bytes.get() as f64;
        self.total += bytes;
        self.hour.spend(now, bytes);
        if let Some(month) = &mut self.month {
            month.spend(now, bytes);
        }
    }

    /// Returns the most that a full measurement may cost.
    pub(crate) fn measurement_cost(&self) -> Bytes {
        self.measurement_cost.min(self.most_for_measurement())
    }

    fn most_for_measurement(&self) -> Bytes {
        let share = if self.measured_at.is_some() { MEASUREMENT_SHARE } else { FIRST_SHARE };
        Bytes::new((self.hour.limit().get() as f64 * share) as u64)
    }

    /// Notes what a full measurement has cost: the next one costs about as much.
    pub(crate) fn measured(&mut self, now: Instant, bytes: Bytes) {
        self.measured_at = Some(now);
        let most = USUAL_MEASUREMENT.max(self.measurement_cost);
        self.measurement_cost = most.min(Bytes::new(bytes.get() * 5 / 4).max(Bytes::new(200_000)));
    }

    /// Notes that nothing can be read from packets for so many bytes; those of a full measurement were too few.
    pub(crate) fn unclear(&mut self, bytes: Bytes) {
        if self.measured_at.is_none() && bytes.get() >= self.measurement_cost().get() / 2 {
            self.raises += 1;
            self.measurement_cost = self.measurement_cost * 2;
        }
    }

    /// Whether questions about one rate can be asked: before a measurement nobody knows whether a token bucket passes them all.
    pub(crate) fn may_be_questioned(&self) -> bool {
        let is_most = self.measurement_cost > self.most_for_measurement();
        self.measured_at.is_some() || self.raises > RAISES || (self.raises > 0 && is_most)
    }

    pub(crate) fn answered(&mut self, now: Instant, rtt: Option<Duration>) {
        if self.is_silent() {
            self.settled_at = now + self.stays.begun(now);
        }
        self.has_answered = true;
        self.failures = 0;
        self.retry_at = now;
        self.trouble = None;
        if self.is_down {
            self.came_up(now);
        }
        if let Some(rtt) = rtt {
            self.take_rtt(now, rtt);
        }
    }

    pub(crate) fn failed(&mut self, now: Instant, trouble: Trouble) {
        self.trouble = Some(trouble);
        if trouble == Trouble::Down {
            if !self.is_down {
                self.went_down(now);
            }
            return;
        }
        let was_away = self.is_silent();
        self.failures = self.failures.saturating_add(1);
        if self.is_silent() && !was_away {
            self.away_at = now;
            self.stays.ended(now);
        }
        let longer = 1 << self.failures.saturating_sub(1).min(10);
        let is_silence = matches!(trouble, Trouble::Away | Trouble::Refused);
        let longest = if is_silence { LONGEST_RETRY } else { LONGEST_UNREAD };
        self.retry_at = now + (RETRY * longer).min(longest);
    }

    fn went_down(&mut self, now: Instant) {
        self.is_down = true;
        self.stays.ended(now);
    }

    /// It is there again. Who comes and goes must stay before he is chosen.
    pub(crate) fn came_up(&mut self, now: Instant) {
        if !self.is_down {
            return;
        }
        self.is_down = false;
        self.trouble = None;
        (self.failures, self.retry_at) = (0, now);
        self.settled_at = now + self.stays.begun(now);
    }
}
