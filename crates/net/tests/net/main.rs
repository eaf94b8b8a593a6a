//! Probe streams over real sockets, and the server that answers them.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod access;
mod admission;
mod common;
mod hostile;
mod interrupt;
mod parsers;
mod paths;
mod resources;
mod streams;
mod trains;
mod turns;
mod wire;
