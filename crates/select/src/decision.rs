//! Decisions, and why they were made.

use std::fmt;
use std::sync::Arc;

use headway_units::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

use crate::presence::Trouble;

/// Why a path is chosen, or stays chosen.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Why {
    /// It is the first, and nothing is known yet.
    First,
    /// It is better than the one before by more than the tolerance, with these odds.
    Better {
        /// The probability.
        odds: f64,
        /// What is free here, with the ends of the 90 % interval.
        here: [Rate; 3],
        /// The same of the path before.
        before: [Rate; 3],
    },
    /// Transfers take less time than over the one before by more than the tolerance, with these odds.
    Sooner {
        /// The probability.
        odds: f64,
        /// The time that one of the usual size takes here, with the ends of the 90 % interval.
        here: [Duration; 3],
        /// The same over the path before.
        before: [Duration; 3],
        /// The usual size.
        size: Bytes,
    },
    /// Its round-trip time is shorter than that of the one before by more than the tolerance.
    Nearer {
        /// The time here.
        here: Duration,
        /// The time on the path before.
        before: Duration,
    },
    /// The path before cannot be used.
    Left(Trouble),
    /// It is preferred, and has room again.
    Preferred,
    /// The path before is preferred until it is full, which it is.
    Full,
    /// What the path before may carry in a month has been used up.
    Quota,
    /// The path before is above the latency floor.
    TooFar(Duration),
    /// No other path is better by more than the tolerance; the next one is with these odds.
    NoBetter {
        /// The path that comes nearest to it.
        next: Arc<str>,
        /// The probability.
        odds: f64,
    },
    /// Another one is better, but the choice has changed not long ago.
    Holds {
        /// The better path.
        better: Arc<str>,
        /// The probability.
        odds: f64,
        /// For so long it stays as it is.
        for_another: Duration,
    },
    /// There is no other path that can be used.
    Alone,
    /// No path can be used, so it stays as it is.
    NoneUsable(Trouble),
    /// All paths share their tight link, so that choosing is vain.
    Vain {
        /// The probability.
        odds: f64,
    },
}

impl Why {
    /// Returns a name for programs, in kebab-case.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// Which path is chosen from a time on, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// The number of the path.
    pub path: usize,
    /// Its name.
    pub name: Arc<str>,
    /// The number and name of the path before, if it is another one.
    pub before: Option<(usize, Arc<str>)>,
    /// Why.
    pub why: Why,
}

impl Decision {
    /// Whether the choice changes.
    pub const fn changes(&self) -> bool {
        self.before.is_some()
    }
}

impl fmt::Display for Decision {
    /// Says it in a sentence, without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.before {
            Some((_, before)) => write!(f, "{} replaces {before}: ", self.name)?,
            None => write!(f, "{} stays: ", self.name)?,
        }
        match &self.why {
            Why::First => f.write_str("nothing is known of any path yet"),
            Why::Better { odds, here: [here, low, high], before: [before, below, above] } => write!(
                f,
                "{here} are free ({low} to {high}) instead of {before} ({below} to {above}), better with odds of {}",
                Percent(*odds)
            ),
            Why::Sooner { odds, here: [here, low, high], before: [before, below, above], size } => write!(
                f,
                "{size} take {here} ({low} to {high}) instead of {before} ({below} to {above}), better with odds of {}",
                Percent(*odds)
            ),
            Why::Nearer { here, before } => write!(f, "its round trips take {here} instead of {before}"),
            Why::Left(trouble) => write!(f, "the path before cannot be used, {}", trouble.clause()),
            Why::Preferred => f.write_str("it is preferred, and has room"),
            Why::Full => f.write_str("the path before is preferred, but full"),
            Why::Quota => f.write_str("the path before has carried what it may in a month"),
            Why::TooFar(rtt) => {
                write!(f, "round trips of the path before take {rtt}, more than the latency floor")
            }
            Why::NoBetter { next, odds } => {
                write!(f, "{next} is better by more than the tolerance with odds of only {}", Percent(*odds))
            }
            Why::Holds { better, odds, for_another } => write!(
                f,
                "{better} is better with odds of {}, but the choice has changed not long ago; it stays for another \
                 {for_another}",
                Percent(*odds)
            ),
            Why::Alone => f.write_str("no other path can be used"),
            Why::NoneUsable(trouble) => {
                write!(f, "no path can be used, and of this one {}", trouble.clause())
            }
            Why::Vain { odds } => {
                write!(
                    f,
                    "all paths share their tight link with odds of {}, so choosing is vain",
                    Percent(*odds)
                )
            }
        }
    }
}

/// Odds in percent, never rounded to certainty.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} %", (self.0 * 100.0).clamp(1.0, 99.0))
    }
}

/// A decision as programs read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DecisionState {
    /// When it was made, by the clock of the selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// How long ago it was made, for those who do not know that clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// The name of the path.
    pub path: String,
    /// The name of the path before, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The name of the reason.
    pub why: String,
    /// The odds of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub odds: Option<f64>,
    /// What is free, with the ends of the 90 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bps: Option<[u64; 3]>,
    /// The same of the path before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_before_bps: Option<[u64; 3]>,
    /// The size of a usual transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_bytes: Option<u64>,
    /// How long it takes, with the ends of the 90 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<[i64; 3]>,
    /// The same over the path before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_before_ns: Option<[i64; 3]>,
    /// What is wrong with a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// The decision as a sentence.
    pub sentence: String,
}

impl DecisionState {
    /// Says how long ago it was, at this time by the clock of the selector, in place of when.
    pub fn aged(self, now: Instant) -> DecisionState {
        let age = self.at_ns.map(|at| now.ns().saturating_sub(at) / 1_000_000);
        DecisionState { at_ns: None, age_ms: age, ..self }
    }
}

impl From<&Decision> for DecisionState {
    fn from(decision: &Decision) -> DecisionState {
        let mut state = DecisionState {
            at_ns: Some(decision.at.ns()),
            path: decision.name.to_string(),
            before: decision.before.as_ref().map(|(_, before)| before.to_string()),
            why: decision.why.name().to_owned(),
            sentence: decision.to_string(),
            ..DecisionState::default()
        };
        match &decision.why {
            Why::Better { odds, here, before } => {
                state.odds = Some(*odds);
                state.free_bps = Some(here.map(Rate::bps));
                state.free_before_bps = Some(before.map(Rate::bps));
            }
            Why::Sooner { odds, here, before, size } => {
                state.odds = Some(*odds);
                state.transfer_bytes = Some(size.get());
                state.time_ns = Some(here.map(Duration::ns));
                state.time_before_ns = Some(before.map(Duration::ns));
            }
            Why::NoBetter { odds, .. } | Why::Holds { odds, .. } | Why::Vain { odds } => {
                state.odds = Some(*odds);
            }
            Why::Left(trouble) | Why::NoneUsable(trouble) => state.trouble = Some(*trouble),
            _ => {}
        }
        state
    }
}
