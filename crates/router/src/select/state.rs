//! The state of a choice, as programs and people see it.

use std::time::{SystemTime, UNIX_EPOCH};

use headway_select::{DecisionState, Snapshot};
use headway_units::Instant;
use serde::{Deserialize, Serialize};

/// Something that is reported, with the time at which it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timed<T> {
    /// The name of its kind.
    pub event: String,
    /// The time since 1970.
    pub at_unix_ns: u64,
    /// The same as in RFC 3339, in UTC.
    pub at_rfc3339: String,
    /// What it is about.
    #[serde(flatten)]
    pub what: T,
}

impl<T> Timed<T> {
    /// Tells it now.
    pub fn now(event: &str, what: T) -> Timed<T> {
        let now = SystemTime::now();
        Timed {
            event: event.to_owned(),
            at_unix_ns: since_1970(now).ns(),
            at_rfc3339: humantime::format_rfc3339_nanos(now).to_string(),
            what,
        }
    }
}

/// The state of a choice.
pub type State = Timed<Known>;

/// What is known of a choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// The choice and the paths.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// The last decisions, the newest first.
    pub decisions: Vec<DecisionState>,
}

/// Returns the time since 1970.
pub(super) fn since_1970(time: SystemTime) -> Instant {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
