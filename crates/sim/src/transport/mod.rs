//! TCP: a sender and a receiver per flow, good enough to be compared with the Linux stack.

mod application;
mod blocks;
mod pacer;
mod range_set;
mod rates;
pub(crate) mod receiver;
mod reduction;
mod room;
mod rtt;
mod scoreboard;
pub(crate) mod sender;
mod stamps;
mod ticks;
