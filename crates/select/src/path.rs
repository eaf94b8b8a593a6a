//! One path: what is thought of it, what it has cost, and what is wrong with it.

use headway_units::{Budget, Bytes, Duration, Instant, Rate};

use crate::belief::Belief;
use crate::settings::Settings;

/// Time after a failure until a path is asked again; doubled with each further one, up to [`LONGEST_RETRY`].
const RETRY: Duration = Duration::from_ms(5_000);
/// The longest time between attempts at a path that does not answer.
const LONGEST_RETRY: Duration = Duration::from_ms(300_000);
/// A far end counts as away after so many attempts without an answer.
const AWAY_AFTER: u32 = 2;
/// A path that was down is not chosen before it has been up for so long, doubled with each time that it went down within [`CALM`].
const SETTLE: Duration = Duration::from_ms(5_000);
/// The longest such time.
const LONGEST_SETTLE: Duration = Duration::from_ms(600_000);
/// After so long without going down a path counts as one that never did.
const CALM: Duration = Duration::from_ms(1_800_000);
/// What has not been spent is kept for this part of an hour, so that bytes are left when something changes.
const KEPT: f64 = 0.1;
/// What a full measurement costs, before the first one.
const USUAL_MEASUREMENT: Bytes = Bytes::new(2_500_000);
/// The most of an hour's budget that a full measurement may cost.
const MEASUREMENT_SHARE: f64 = 0.6;

/// What is wrong with a path, or with a question about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// The path is down: its interface is gone, or has no carrier, or no route.
    Down,
    /// Nobody answers at the far end.
    Away,
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
            Trouble::Busy => "busy",
            Trouble::ClockStep => "clock-step",
            Trouble::Unclear => "unclear",
        }
    }
}

/// A path among which is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) belief: Belief,
    /// The burst that a shaper passes before it enforces its rate.
    pub(crate) bucket: Option<Bytes>,
    pub(crate) rtt: Option<Duration>,
    pub(crate) rtt_at: Option<Instant>,
    /// What own traffic uses, and when that told something last.
    pub(crate) own: Rate,
    pub(crate) carried_at: Option<Instant>,
    pub(crate) trouble: Option<Trouble>,
    /// Failures in a row, and when to try again.
    failures: u32,
    retry_at: Instant,
    is_down: bool,
    /// How often it went down of late, when it did so last, and from when on it may be chosen.
    downs: u32,
    down_at: Instant,
    settled_at: Instant,
    hour: Budget,
    month: Option<Budget>,
    /// Bytes that may be spent now, so that an hour's are not spent at once; and when that was computed.
    saved: f64,
    saved_at: Instant,
    /// What was spent since the beginning.
    pub(crate) total: Bytes,
    measurement_cost: Bytes,
    pub(crate) measured_at: Option<Instant>,
}

impl Path {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Path {
        Path {
            belief: Belief::new(now),
            bucket: None,
            rtt: None,
            rtt_at: None,
            own: Rate::ZERO,
            carried_at: None,
            trouble: None,
            failures: 0,
            retry_at: now,
            is_down: false,
            downs: 0,
            down_at: now,
            settled_at: now,
            hour: Budget::hourly(settings.max_bytes_per_hour),
            month: settings.max_bytes_per_month.map(Budget::monthly),
            saved: settings.max_bytes_per_hour.get() as f64,
            saved_at: now,
            total: Bytes::ZERO,
            measurement_cost: USUAL_MEASUREMENT,
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
    pub(crate) fn is_away(&self) -> bool {
        self.trouble == Some(Trouble::Away) && self.failures >= AWAY_AFTER
    }

    /// Whether it may be asked something.
    pub(crate) fn may_be_asked(&self, now: Instant) -> bool {
        self.is_up() && now >= self.retry_at
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
        let added = limit * (now - self.saved_at).secs_f64().max(0.0) / self.hour.period().secs_f64();
        let most = (KEPT * limit).max(self.measurement_cost().get() as f64);
        self.saved = if self.saved > most { self.saved } else { (self.saved + added).min(most) };
        self.saved_at = self.saved_at.max(now);
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
        let share = self.hour.limit().get() as f64 * MEASUREMENT_SHARE;
        self.measurement_cost.min(Bytes::new(share as u64))
    }

    /// Notes what a full measurement has cost: the next one costs about as much.
    pub(crate) fn measured(&mut self, now: Instant, bytes: Bytes) {
        self.measured_at = Some(now);
        self.measurement_cost =
            USUAL_MEASUREMENT.min(Bytes::new(bytes.get() * 5 / 4).max(Bytes::new(200_000)));
    }

    pub(crate) fn answered(&mut self, now: Instant, rtt: Option<Duration>) {
        self.failures = 0;
        self.retry_at = now;
        self.trouble = None;
        if self.is_down {
            self.came_up(now);
        }
        if let Some(rtt) = rtt {
            (self.rtt, self.rtt_at) = (Some(rtt), Some(now));
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
        self.failures = self.failures.saturating_add(1);
        let longer = 1 << self.failures.saturating_sub(1).min(10);
        self.retry_at = now + (RETRY * longer).min(LONGEST_RETRY);
    }

    fn went_down(&mut self, now: Instant) {
        self.downs = if now - self.down_at > CALM { 1 } else { self.downs + 1 };
        (self.is_down, self.down_at) = (true, now);
    }

    /// It is there again. Who comes and goes must stay before he is chosen.
    pub(crate) fn came_up(&mut self, now: Instant) {
        if !self.is_down {
            return;
        }
        self.is_down = false;
        self.trouble = None;
        (self.failures, self.retry_at) = (0, now);
        let longer = 1 << self.downs.saturating_sub(1).min(10);
        self.settled_at = now + (SETTLE * longer).min(LONGEST_SETTLE);
    }
}
