//! The targets of `cargo fuzz`, which `make fuzz` runs: see [`parsers`].

// Without the rest of its crate, which needs much.
#[path = "../../crates/program/src/token.rs"]
#[allow(dead_code, reason = "only what parses is called")]
mod token;

pub mod parsers;
