//! Runs on the Linux kernel in virtual time.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod packets;
#[path = "../../../cli/tests/support/mod.rs"]
mod support;
mod uml;
mod uml_card;
mod uml_edge;
mod uml_explicit;
mod uml_guests;
mod uml_home;
mod uml_programs;
mod uml_proxy;
mod uml_queue;
mod uml_rapid;
mod uml_run;
