//! Connections in captures.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod agreement;
mod headers;
mod hostile;
mod several;
mod support;
mod tracker;
