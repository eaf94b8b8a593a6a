//! The targets of `cargo fuzz`, which `make fuzz` runs: see [`parsers`].

// A module of the program, which is no library.
#[path = "../../crates/cli/src/token.rs"]
#[allow(dead_code, reason = "only what parses is called")]
mod token;

pub mod parsers;
