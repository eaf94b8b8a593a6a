//! Packet captures: a streaming reader of pcap and pcapng files, and packets of live interfaces.
//!
//! [`Reader`] yields the packets of a file or pipe, [`Several`] those of several files in order of
//! time, and [`Live`] those of an interface. [`Timing`] tells time stamps that are wrong, and
//! [`layers`] what stands before IP.

mod clock;
pub mod file;
pub mod layers;
mod link;
pub mod live;
mod wireless;

pub use clock::{ClockCounts, DISORDER, Timing};
pub use file::{FileError, Next, Packet, ReadError, Reader, Several, Unpacked};
pub use link::Link;
pub use live::{Live, LiveError};
