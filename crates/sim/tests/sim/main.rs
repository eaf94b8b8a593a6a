//! The simulator as its users see it.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod access;
mod ack_filter;
mod arrivals;
mod available;
mod bbr;
mod building;
mod chain;
mod channel;
mod closed_forms;
mod conservation;
mod decisions;
mod determinism;
mod explicit;
mod fast;
mod fast_links;
mod find_rate;
mod gap_creation;
mod hosts;
mod limits;
mod locate;
mod ls_aimd;
mod marks;
mod measurement;
mod middlebox;
mod pairs;
mod pauses;
mod policer;
mod rapid;
mod rates;
mod recovery;
mod scenarios;
mod select;
mod several_queues;
mod shaper;
mod short_flows;
mod snapshots;
mod spraying;
mod stalls;
mod support;
mod taps;
mod traffic;
mod transport;
mod truth;
mod wire;
