//! Whether a path is there, and when to try it again.

use headway_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::stays::Stays;

/// Time after a failure until a path is asked again; doubled with each further one, up to [`LONGEST_RETRY`].
/// Range 1 to 30 s.
const RETRY: Duration = Duration::from_ms(5_000);
/// The longest time between attempts at a path that does not answer. Range 1 to 60 minutes.
const LONGEST_RETRY: Duration = Duration::from_ms(300_000);
/// The same at one that does, but whose answers cannot be read. Range 5 to 60 s.
const LONGEST_UNREAD: Duration = Duration::from_ms(20_000);
/// A far end counts as away after so many attempts without an answer: one may be lost. Range 2 to 5.
const AWAY_AFTER: u32 = 2;
/// A path whose far end has never answered is dead if no own traffic has passed for so many intervals.
/// Range 1 to 10.
const NEVER_ANSWERED: i64 = 3;

/// What is wrong with a path, or with a question about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
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
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether nobody answers.
    const fn is_silence(self) -> bool {
        matches!(self, Trouble::Away | Trouble::Refused)
    }
}

/// When to try again.
#[derive(Clone, Copy, Debug)]
struct Retry {
    /// Failures in a row.
    failures: u32,
    at: Instant,
}

impl Retry {
    /// After no failure.
    const fn at(now: Instant) -> Retry {
        Retry { failures: 0, at: now }
    }

    fn failed(&mut self, now: Instant, trouble: Trouble) {
        let longer = 1 << self.failures.min(10);
        let longest = if trouble.is_silence() { LONGEST_RETRY } else { LONGEST_UNREAD };
        self.failures = self.failures.saturating_add(1);
        self.at = now + (RETRY * longer).min(longest);
    }
}

/// What is known of whether a path is there.
#[derive(Clone, Debug)]
pub(crate) struct Presence {
    pub(crate) trouble: Option<Trouble>,
    retry: Retry,
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
}

impl Presence {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Presence {
        Presence {
            trouble: None,
            retry: Retry::at(now),
            is_down: false,
            has_answered: false,
            patient: settings.interval * NEVER_ANSWERED,
            away_at: now,
            passed_at: None,
            stays: Stays::new(now),
            settled_at: now,
        }
    }

    /// Takes that own traffic passes.
    pub(crate) fn passed(&mut self, now: Instant) {
        self.passed_at = Some(now);
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
        self.trouble.is_some_and(Trouble::is_silence) && self.retry.failures >= AWAY_AFTER
    }

    /// Whether nobody has answered several times, and no own traffic has passed since. The silence of one who
    /// has never answered is not taken for that of the path at once.
    pub(crate) fn is_dead(&self, now: Instant) -> bool {
        let is_news = self.has_answered || now - self.away_at >= self.patient;
        self.is_silent() && is_news && self.passed_at.is_none_or(|at| at < self.away_at)
    }

    /// Whether it may be asked something.
    pub(crate) fn may_be_asked(&self, now: Instant) -> bool {
        self.is_up() && now >= self.retry.at
    }

    /// Takes that the far end answers.
    pub(crate) fn answered(&mut self, now: Instant) {
        if self.is_silent() {
            self.settled_at = now + self.stays.begun(now);
        }
        self.has_answered = true;
        self.retry = Retry::at(now);
        self.trouble = None;
        if self.is_down {
            self.came_up(now);
        }
    }

    /// Takes that there is no answer, or that it is down.
    pub(crate) fn failed(&mut self, now: Instant, trouble: Trouble) {
        self.trouble = Some(trouble);
        if trouble == Trouble::Down {
            if !self.is_down {
                self.went_down(now);
            }
            return;
        }
        let was_away = self.is_silent();
        self.retry.failed(now, trouble);
        if self.is_silent() && !was_away {
            self.away_at = now;
            self.stays.ended(now);
        }
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
        self.retry = Retry::at(now);
        self.settled_at = now + self.stays.begun(now);
    }
}
