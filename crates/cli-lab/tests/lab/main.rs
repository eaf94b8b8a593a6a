//! Emulated paths, in real time.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod chain;
mod ends;
mod lab;
#[path = "../../../cli/tests/support/mod.rs"]
mod support;

#[test]
fn the_other_programs_are_built() {
    support::check_built(&[("headway-router", "headway-cli-router")]);
}
