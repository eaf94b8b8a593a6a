//! The program without an emulated path.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod compare;
mod dataset;
mod documented;
mod outputs;
#[path = "../../../cli/tests/support/documented.rs"]
mod pages;
#[path = "../../../cli/tests/support/mod.rs"]
mod support;
mod sweep;
mod untrusted;

#[test]
fn the_other_programs_are_built() {
    support::check_built(&[("headway-router", "headway-cli-router")]);
}
