//! What all programs have in common: how they print and end, the build that they carry, which of them has
//! which command, and the arguments and files that more than one of them takes.

// These macros panic when standard output is closed; `out` has replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod arguments;
pub mod command_line;
pub mod connection;
pub mod exit;
pub mod family;
pub mod line_writer;
pub mod lines;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod names;
pub mod out;
pub mod progress;
pub mod screen;
pub mod service;
pub mod table;
pub mod time;
pub mod token;

pub use headway_build as build;
