//! The classic pcap format of libpcap.

use pcap_parser::{PcapHeader, parse_pcap_header};

use super::{CONVERT, Found, MAX_PACKET, Medium, REPAIR, Step, Wrong};
use crate::Link;

/// Length of the file header.
const FILE_HEADER: usize = 24;
/// Length of a packet header.
const PACKET_HEADER: usize = 16;
/// Magic number of files with timestamps in microseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Magic number of files with timestamps in nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Position of the link type in the file header.
const LINK_TYPE: usize = 20;

/// Whether a file that starts with these bytes, read as little-endian, is a pcap file.
pub(super) fn is_magic(number: u32) -> bool {
    [MICROSECONDS, NANOSECONDS].iter().any(|magic| number == *magic || number == magic.swap_bytes())
}

/// The state of a reader of pcap files.
#[derive(Debug, Default)]
pub(super) struct Classic {
    file: Option<File>,
}

/// What the file header says.
#[derive(Debug)]
struct File {
    big_endian: bool,
    /// Nanoseconds per unit of the timestamps' fraction.
    unit: u64,
    medium: Medium,
}

impl Classic {
    /// Reads the file header or the next packet; `offset` is the position of `data` in the stream.
    #[inline]
    pub(super) fn step(&mut self, data: &[u8], offset: u64) -> Result<Step, Wrong> {
        let Some(file) = &self.file else {
            let Some(bytes) = data.get(..FILE_HEADER) else {
                return Ok(Step::Need { from: 0, length: FILE_HEADER });
            };
            self.file = Some(header(bytes, offset)?);
            return Ok(Step::Skip(FILE_HEADER));
        };
        packet(file, data)
    }
}

#[cold]
fn header(bytes: &[u8], offset: u64) -> Result<File, Wrong> {
    let Ok((_, header)) = parse_pcap_header(bytes) else {
        return Err(Wrong { at: 0, problem: "its header is not that of pcap".to_owned(), remedy: CONVERT });
    };
    // Bit 26 says that frames end with a check sequence; the top four bits give its length in 16-bit words.
    let PcapHeader { network, .. } = header;
    let network = network.0 as u32;
    let check_sequence = network & 1 << 26 != 0 && network >> 28 > 0;
    let link = Link::from_number(network as u16);
    Ok(File {
        big_endian: header.is_bigendian(),
        unit: if header.is_nanosecond_precision() { 1 } else { 1_000 },
        medium: Medium { link, check_sequence, declared: offset + LINK_TYPE as u64 },
    })
}

#[inline]
fn packet(file: &File, data: &[u8]) -> Result<Step, Wrong> {
    let Some(header) = data.first_chunk::<PACKET_HEADER>() else {
        return Ok(Step::Need { from: 0, length: PACKET_HEADER });
    };
    let words = [0, 4, 8, 12]
        .map(|at| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    let [seconds, fraction, captured, original] =
        if file.big_endian { words.map(u32::swap_bytes) } else { words };
    if captured > MAX_PACKET {
        let problem = format!("a packet of {original} bytes, {captured} of them captured, is impossible");
        return Err(Wrong { at: 8, problem, remedy: REPAIR });
    }
    let end = PACKET_HEADER + captured as usize;
    if data.len() < end {
        return Ok(Step::Need { from: PACKET_HEADER, length: captured as usize });
    }
    if original == 0 || u64::from(fraction) * file.unit >= 1_000_000_000 {
        return Ok(Step::Odd(end));
    }
    let at = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * file.unit;
    let found = Found { at, data: PACKET_HEADER..end, length: original, interface: 0, medium: file.medium };
    Ok(Step::Packet(found, end))
}
