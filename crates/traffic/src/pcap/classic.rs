//! The classic pcap format of libpcap.

use headway_core::Bytes;

use super::{CONVERT, Input, ParseError, REPAIR, missing, wire};

/// Length of the file header.
const FILE_HEADER: usize = 24;
/// Length of a packet header.
const PACKET_HEADER: usize = 16;
/// Magic number of files with timestamps in microseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Magic number of files with timestamps in nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Longest packet that libpcap writes; a larger value means that the parser is out of step with the headers.
const MAX_PACKET: u32 = 262_144;

/// Reads all packets: time since the epoch in nanoseconds, and size on the wire.
pub(super) fn packets(contents: &[u8]) -> Result<Vec<(u64, Bytes)>, ParseError> {
    let (input, unit, fractions) = byte_order(contents)?;
    input.bytes(0, FILE_HEADER)?;
    let network = input.u32(20)?;
    // Bit 26 says that frames end with a check sequence; the top four bits give its length in 16-bit words.
    let check_sequence = network & 1 << 26 != 0 && network >> 28 > 0;
    let missing = missing(network as u16, check_sequence, 20)?;

    let mut packets = Vec::new();
    let mut offset = FILE_HEADER;
    while offset < contents.len() {
        input.bytes(offset, PACKET_HEADER)?;
        let [seconds, fraction] = [input.u32(offset)?, input.u32(offset + 4)?];
        let [captured, original] = [input.u32(offset + 8)?, input.u32(offset + 12)?];
        if fraction >= fractions {
            let problem = format!("{fraction} is not a fraction of a second");
            return Err(ParseError { offset: offset + 4, problem, remedy: REPAIR });
        }
        if captured > MAX_PACKET || original == 0 {
            let problem = format!("a packet of {original} bytes, {captured} of them captured, is impossible");
            return Err(ParseError { offset: offset + 8, problem, remedy: REPAIR });
        }
        input.bytes(offset + PACKET_HEADER, captured as usize)?;
        packets
            .push((u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit, wire(original, missing)));
        offset += PACKET_HEADER + captured as usize;
    }
    Ok(packets)
}

/// Returns the contents with their byte order, the nanoseconds per unit of the timestamps, and these units per second.
fn byte_order(contents: &[u8]) -> Result<(Input<'_>, u64, u32), ParseError> {
    for big_endian in [false, true] {
        let input = Input { contents, big_endian };
        match input.u32(0)? {
            MICROSECONDS => return Ok((input, 1_000, 1_000_000)),
            NANOSECONDS => return Ok((input, 1, 1_000_000_000)),
            _ => {}
        }
    }
    Err(ParseError { offset: 0, problem: "it is neither pcap nor pcapng".to_owned(), remedy: CONVERT })
}
