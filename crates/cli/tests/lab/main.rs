//! Commands on emulated paths, in real time.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod carriers;
mod chain;
mod edge;
mod edge_life;
mod edge_policy;
mod edge_shares;
mod edge_split;
mod ends;
mod flows;
mod lab;
mod passive;
mod router;
mod select;
mod select_sing_box;
mod select_single;
#[path = "../support/mod.rs"]
mod support;
