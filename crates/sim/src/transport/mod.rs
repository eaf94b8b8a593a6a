//! TCP: a sender and a receiver per flow, good enough to be compared with the Linux stack.

mod application;
mod blocks;
mod pacer;
mod paws;
mod prr;
mod range_set;
mod rates;
mod receive_window;
pub(crate) mod receiver;
mod rtt;
mod scoreboard;
pub(crate) mod sender;
mod ticks;
