//! Policies, what they allot, and a middlebox that sees to it.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod allotments;
mod behaviours;
mod captured;
mod evaluations;
mod floods;
mod handshakes;
mod link_rates;
mod monitoring;
mod policies;
mod probes;
mod properties;
mod signals;
mod support;
mod synthetic;
mod windows;
