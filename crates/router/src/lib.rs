//! What runs an edge ([`edge`]) and a choice among paths ([`select`]) on Linux.
//!
//! The crates `headway-edge` and `headway-select` decide, without I/O. Here are the threads that ask and
//! look, the processes that keep a right which the rest gives up, and what is set in the kernel and removed
//! at the end. Whoever calls says what is wanted, and gets what happens; nothing is printed.

pub mod edge;
mod life;
pub mod select;
