//! The state of a choice, as programs read it.

use std::time::{SystemTime, UNIX_EPOCH};

use headway_select::{Decision, Snapshot};
use headway_units::Instant;
use serde_json::{Map, Value};

/// Returns an object with the time at which it is made, and what it is about.
pub fn event(name: &str, what: Value) -> Value {
    let now = SystemTime::now();
    let mut object = Map::new();
    object.insert("event".to_owned(), name.into());
    object.insert("at_unix_ns".to_owned(), since_1970(now).ns().into());
    object.insert("at_rfc3339".to_owned(), humantime::format_rfc3339_nanos(now).to_string().into());
    if let Value::Object(rest) = what {
        // By the clock of the program, which means nothing to others.
        object.extend(rest.into_iter().filter(|(key, _)| key != "at_ns"));
    }
    Value::Object(object)
}

/// Returns the time since 1970.
pub(super) fn since_1970(time: SystemTime) -> Instant {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns a state, with the last decisions, the newest first.
pub(super) fn state<'a>(snapshot: &Snapshot, decisions: impl Iterator<Item = &'a Decision>) -> Value {
    let told = |decision: &Decision| {
        let mut told = serde_json::to_value(decision).unwrap_or_default();
        if let Value::Object(told) = &mut told {
            told.remove("at_ns");
            let age = snapshot.at_ns.saturating_sub(decision.at.ns());
            told.insert("age_ms".to_owned(), (age / 1_000_000).into());
        }
        told
    };
    let mut state = serde_json::to_value(snapshot).unwrap_or_default();
    state["decision"] = told(&snapshot.decision);
    state["decisions"] = decisions.map(told).collect();
    event("state", state)
}
