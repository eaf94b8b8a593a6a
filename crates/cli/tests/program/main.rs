//! The program without an emulated path.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod doctor;
mod estimate;
mod flows;
mod learned;
mod metrics;
mod passive_cases;
mod serve;
#[path = "../support/mod.rs"]
mod support;
