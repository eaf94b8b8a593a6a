//! What the programs `headway` and `headway-bench` have in common: how they print and end, the build that they carry, and
//! an emulated path on which `headway` is run and its answers are scored.

// These macros panic when standard output is closed; `out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod build;
pub mod comparison;
pub mod exit;
pub mod helper;
pub mod identity;
pub mod lines;
pub mod out;
pub mod progress;
pub mod runs;
pub mod table;
pub mod testbed;
pub mod time;
