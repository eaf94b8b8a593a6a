//! Estimators and complete measurements on modelled paths.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod allocation;
#[path = "../../../learned/tests/learned/counting.rs"]
mod counting;
mod learned;
mod measure;
mod multi_rate;
mod passes;
mod path;
mod rapid;
mod single_rate;
mod support;
