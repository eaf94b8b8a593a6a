//! Explicit routers: single events, the edges of the specification, the same laws in double
//! precision, and closed loops.

mod air;
mod drift;
mod edges;
mod ends;
mod feedback;
mod loops;
mod network;
mod published;
mod rate;
mod reference;
mod router;
mod support;
mod wire;
