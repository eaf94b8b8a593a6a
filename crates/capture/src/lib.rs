//! Packet captures: a streaming reader of pcap and pcapng files.

pub mod file;
mod link;

pub use file::{Next, Packet, ReadError, Reader};
pub use link::Link;
