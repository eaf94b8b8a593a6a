//! The program without an emulated path.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod cc;
mod compare;
mod dataset;
mod documented;
mod estimate;
mod flows;
mod history;
mod learned;
#[cfg(feature = "web")]
mod metrics;
mod outputs;
mod passive_cases;
mod privileges;
mod proxy;
#[cfg(feature = "web")]
mod running;
#[cfg(feature = "web")]
mod select;
mod select_hooks;
mod serve;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod untrusted;
