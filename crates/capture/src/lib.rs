//! Packet captures: a streaming reader of pcap and pcapng files, and packets of live interfaces.
//!
//! [`Reader`] yields the packets of a file or pipe, [`Several`] those of several files in order of time, and [`Live`] those
//! of an interface.

pub mod file;
mod link;
pub mod live;

pub use file::{FileError, Next, Packet, ReadError, Reader, Several, Unpacked};
pub use link::Link;
pub use live::{Live, LiveError};
