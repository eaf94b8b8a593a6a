//! Connections and their windows as a middlebox sees them (`c/flow_track.h`, `c/rwm.h`).

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod classes;
mod handshake;
mod properties;
mod reading;
mod round_trips;
mod support;
mod virtual_queues;
mod windows;
