//! The classic pcap format of libpcap.

use super::{Found, MAX_PACKET, Medium, REPAIR, Step, Wrong};
use crate::Link;

/// Length of the file header.
const FILE_HEADER: usize = 24;
/// Length of a packet header.
const PACKET_HEADER: usize = 16;
/// Bytes behind it in modified files: interface, protocol and kind of the packet.
const MODIFIED_HEADER: usize = 8;
/// Magic number of files with timestamps in microseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Magic number of files with timestamps in nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Magic number of files with longer packet headers, as an old patch of libpcap and some routers write them.
const MODIFIED: u32 = 0xa1b2_cd34;
/// Position of the link type in the file header.
const LINK_TYPE: usize = 20;
/// Minor version since which the length captured comes before the original one; just before it,
/// either may come first.
const LENGTHS_IN_ORDER: u16 = 4;
/// Packets whose fractions of a second must all be nanoseconds before they are read as such in a file of
/// microseconds. Range 2 to 100: of real nanoseconds, one in a thousand could be microseconds.
const VOTES: usize = 8;

/// Whether a file that starts with these bytes, read as little-endian, is a pcap file.
pub(super) fn is_magic(number: u32) -> bool {
    [MICROSECONDS, NANOSECONDS, MODIFIED].iter().any(|magic| number == *magic || number == magic.swap_bytes())
}

/// The state of a reader of pcap files.
#[derive(Debug, Default)]
pub(super) struct Classic {
    file: Option<File>,
}

/// In which order the two lengths of a packet come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    OriginalFirst,
    /// The smaller one is that of what was captured.
    Either,
}

/// What the file header says.
#[derive(Debug)]
struct File {
    big_endian: bool,
    /// Nanoseconds per unit of the timestamps' fraction.
    unit: u64,
    /// Whether it is known that the fractions are what the header says.
    unit_known: bool,
    lengths: Lengths,
    /// Length of a packet header.
    header: usize,
    medium: Medium,
}

/// The header of a packet.
struct Record {
    seconds: u32,
    fraction: u32,
    captured: u32,
    original: u32,
}

impl Classic {
    /// Reads the file header or the next packet; `offset` is the position of `data` in the stream, of which
    /// no more comes if it has `ended`.
    pub(super) fn step(&mut self, data: &[u8], offset: u64, ended: bool) -> Result<Step, Wrong> {
        let Some(file) = &mut self.file else {
            let Some(bytes) = data.first_chunk() else {
                return Ok(Step::Need { from: 0, length: FILE_HEADER });
            };
            self.file = Some(header(bytes, offset));
            return Ok(Step::Skip(FILE_HEADER));
        };
        if !file.unit_known
            && let Some(length) = file.look_at_units(data, ended)
        {
            return Ok(Step::Need { from: 0, length });
        }
        file.packet(data)
    }
}

#[cold]
fn header(bytes: &[u8; FILE_HEADER], offset: u64) -> File {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let big_endian = ![MICROSECONDS, NANOSECONDS, MODIFIED].contains(&word(0));
    let word = |at: usize| if big_endian { word(at).swap_bytes() } else { word(at) };
    let half = |at: usize| {
        let half = [bytes[at], bytes[at + 1]];
        if big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) }
    };
    let (magic, major, minor, network) = (word(0), half(4), half(6), word(LINK_TYPE));
    // Bit 26 says that frames end with a check sequence; the top four bits give its length in 16-bit words.
    let check_sequence = network & 1 << 26 != 0 && network >> 28 > 0;
    let link = Link::from_number(network as u16);
    File {
        big_endian,
        unit: if magic == NANOSECONDS { 1 } else { 1_000 },
        unit_known: magic == NANOSECONDS,
        lengths: match (major, minor) {
            (0..=2, LENGTHS_IN_ORDER..) => Lengths::CapturedFirst,
            (0..=2, 3) => Lengths::Either,
            // DG/UX wrote version 543.0.
            (0..=2 | 543, _) => Lengths::OriginalFirst,
            _ => Lengths::CapturedFirst,
        },
        header: PACKET_HEADER + if magic == MODIFIED { MODIFIED_HEADER } else { 0 },
        medium: Medium { link, check_sequence, declared: offset + LINK_TYPE as u64 },
    }
}

impl File {
    /// Reads a packet's header.
    fn record(&self, data: &[u8]) -> Option<Record> {
        let header = data.first_chunk::<PACKET_HEADER>()?;
        let words = [0, 4, 8, 12]
            .map(|at| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
        let [seconds, fraction, mut captured, mut original] =
            if self.big_endian { words.map(u32::swap_bytes) } else { words };
        if match self.lengths {
            Lengths::CapturedFirst => false,
            Lengths::OriginalFirst => true,
            Lengths::Either => captured > original,
        } {
            std::mem::swap(&mut captured, &mut original);
        }
        Some(Record { seconds, fraction, captured, original })
    }

    /// Tells by the first packets whether the fractions of a file of microseconds are nanoseconds, as some
    /// programs write them; returns how many bytes that needs if they are not there.
    #[cold]
    fn look_at_units(&mut self, data: &[u8], ended: bool) -> Option<usize> {
        let (mut at, mut votes) = (0, 0);
        while votes < VOTES {
            let record = data.get(at..).and_then(|data| self.record(data));
            let Some(Record { fraction, captured, .. }) = record else {
                if ended {
                    break;
                }
                return Some(at + self.header);
            };
            if !(1_000_000..1_000_000_000).contains(&fraction) || captured > MAX_PACKET {
                votes = 0;
                break;
            }
            votes += 1;
            at += self.header + captured as usize;
        }
        self.unit = if votes > 0 { 1 } else { self.unit };
        self.unit_known = true;
        None
    }

    fn packet(&self, data: &[u8]) -> Result<Step, Wrong> {
        let start = self.header;
        let record = if data.len() < start { None } else { self.record(data) };
        let Some(Record { seconds, fraction, captured, original }) = record else {
            return Ok(Step::Need { from: 0, length: start });
        };
        if captured > MAX_PACKET {
            let problem = format!("a packet of {original} bytes, {captured} of them captured, is impossible");
            return Err(Wrong { at: 8, problem, remedy: REPAIR });
        }
        let end = start + captured as usize;
        if data.len() < end {
            return Ok(Step::Need { from: start, length: captured as usize });
        }
        if original == 0 || u64::from(fraction) * self.unit >= 1_000_000_000 {
            return Ok(Step::Odd(end));
        }
        let at = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit;
        let found = Found { at, data: start..end, length: original, interface: 0, medium: self.medium };
        Ok(Step::Packet(found, end))
    }
}
