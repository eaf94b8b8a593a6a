//! Commands on emulated paths, in real time.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod carriers;
mod edge;
mod edge_life;
mod edge_peer;
mod edge_policy;
mod edge_shares;
mod edge_split;
mod flows;
mod router;
mod select;
mod select_mptcp;
mod select_sing_box;
mod select_single;
#[path = "../../../cli/tests/support/mod.rs"]
mod support;

#[test]
fn the_other_programs_are_built() {
    support::check_built(&[("headway", "headway"), ("headway-lab", "headway-cli-lab")]);
}
