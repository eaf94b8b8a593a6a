//! Captures of the kernel in virtual time, read without the library that Headway reads captures with.

use std::path::Path;

/// A packet of a capture.
pub(crate) struct Packet {
    /// When it passed, in ns.
    pub(crate) at: i64,
    /// Its length, of which the capture may have less.
    pub(crate) length: u32,
    /// What the capture has of it, from its Ethernet header.
    pub(crate) bytes: Vec<u8>,
}

/// Returns every packet of a capture with nanosecond timestamps.
pub(crate) fn packets(file: &Path) -> Vec<Packet> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_3c4d, "nanoseconds");
    let mut packets = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let (time, end) =
            (i64::from(word(at)) * 1_000_000_000 + i64::from(word(at + 4)), at + 16 + word(at + 8) as usize);
        packets.push(Packet { at: time, length: word(at + 12), bytes: bytes[at + 16..end].to_vec() });
        at = end;
    }
    packets
}
