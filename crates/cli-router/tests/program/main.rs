//! The program without an emulated path.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod cc;
#[path = "../../../cli/tests/support/controllers.rs"]
mod controllers;
mod history;
mod page;
mod privileges;
mod proxy;
mod select;
mod select_hooks;
#[path = "../../../cli/tests/support/mod.rs"]
mod support;

#[test]
fn the_other_programs_are_built() {
    support::check_built(&[("headway", "headway"), ("headway-lab", "headway-cli-lab")]);
}
