//! The pcapng format (draft-ietf-opsawg-pcapng).

use pcap_parser::{
    Block, EPB_MAGIC, IDB_MAGIC, InterfaceDescriptionBlock, OptionCode, PcapNGOption, SHB_MAGIC, SPB_MAGIC,
    parse_block_be, parse_block_le,
};

use super::{Found, MAX_PACKET, Medium, REPAIR, Step, Wrong};
use crate::Link;

/// Byte-order magic of a section header, as little-endian.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Type of the obsolete packet block, which differs from the enhanced one in that its interface has 16 bits.
const OBSOLETE_PACKET: u32 = 2;
/// Where the data of a packet begins in its block.
const PACKET_DATA: usize = 28;
/// Option of an interface: length of the frame check sequence.
const CHECK_SEQUENCE: OptionCode = OptionCode(13);
/// Bytes of a block besides its body: type and length before it, the length again after it.
const FRAMING: usize = 12;
/// Longest block that is read as a whole: the longest packet with generous options.
const MAX_BLOCK: usize = MAX_PACKET as usize + (64 << 10);
/// Most interfaces of a section; Linux counts them in a file with 32 bits, but memory is finite.
const MAX_INTERFACES: usize = 65_536;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// The state of a reader of pcapng files.
#[derive(Debug, Default)]
pub(super) struct Sections {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Rest of a block that is skipped: the bytes before its second length, and that length.
    skip: Option<(usize, u32)>,
}

/// The properties of an interface that its packets need.
#[derive(Clone, Copy, Debug)]
struct Interface {
    medium: Medium,
    /// Timestamp units per second; `None` if the file says something impossible.
    per_second: Option<u128>,
    /// Seconds to add to timestamps.
    offset: i64,
}

impl Sections {
    /// Reads the next block; `offset` is the position of `data` in the stream.
    pub(super) fn step(&mut self, data: &[u8], offset: u64) -> Result<Step, Wrong> {
        if let Some((left, length)) = self.skip {
            return self.skip_rest(data, left, length);
        }
        let Some(start) = data.first_chunk::<FRAMING>() else {
            return Ok(Step::Need { from: 0, length: FRAMING });
        };
        let little = |at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        // The type of a section header reads the same in either byte order.
        if little(0) == SHB_MAGIC {
            self.big_endian = match little(8) {
                BYTE_ORDER => false,
                order if order.swap_bytes() == BYTE_ORDER => true,
                _ => {
                    let problem = "the byte order of the section is unknown".to_owned();
                    return Err(Wrong { at: 8, problem, remedy: REPAIR });
                }
            };
        }
        let word = |at: usize| if self.big_endian { little(at).swap_bytes() } else { little(at) };
        let (kind, length) = (word(0), word(4));
        let body = match kind {
            SHB_MAGIC => 16,
            IDB_MAGIC => 8,
            _ => 0,
        };
        let read = body > 0 || matches!(kind, EPB_MAGIC | OBSOLETE_PACKET | SPB_MAGIC);
        if (length as usize) < FRAMING + body
            || !length.is_multiple_of(4)
            || read && length as usize > MAX_BLOCK
        {
            let problem = format!("a block of {length} bytes is impossible");
            return Err(Wrong { at: 4, problem, remedy: REPAIR });
        }
        match kind {
            SHB_MAGIC | IDB_MAGIC | EPB_MAGIC | OBSOLETE_PACKET | SPB_MAGIC => {
                self.block(data, kind, length as usize, offset)
            }
            _ => {
                self.skip = Some((length as usize - 12, length));
                Ok(Step::Skip(8))
            }
        }
    }

    /// Skips a block without holding it in memory: names, statistics, secrets, or of an unknown type.
    fn skip_rest(&mut self, data: &[u8], left: usize, length: u32) -> Result<Step, Wrong> {
        if left > 0 {
            let part = left.min(data.len());
            if part == 0 {
                return Ok(Step::Need { from: 0, length: left.min(FRAMING) });
            }
            self.skip = Some((left - part, length));
            return Ok(Step::Skip(part));
        }
        let Some(bytes) = data.first_chunk::<4>() else { return Ok(Step::Need { from: 0, length: 4 }) };
        self.repeats(*bytes, length, 0)?;
        self.skip = None;
        Ok(Step::Skip(4))
    }

    /// Checks that a block ends with its length.
    fn repeats(&self, bytes: [u8; 4], length: u32, at: usize) -> Result<(), Wrong> {
        let again = if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        if again == length {
            return Ok(());
        }
        let problem = format!("the two lengths of a block differ: {length} and {again}");
        Err(Wrong { at, problem, remedy: REPAIR })
    }

    /// Reads a block that is needed as a whole.
    fn block(&mut self, data: &[u8], kind: u32, length: usize, offset: u64) -> Result<Step, Wrong> {
        let Some(bytes) = data.get(..length) else { return Ok(Step::Need { from: 0, length }) };
        let last = [bytes[length - 4], bytes[length - 3], bytes[length - 2], bytes[length - 1]];
        self.repeats(last, length as u32, length - 4)?;
        if matches!(kind, EPB_MAGIC | OBSOLETE_PACKET) {
            return Ok(self
                .packet(bytes, kind)
                .map_or(Step::Odd(length), |found| Step::Packet(found, length)));
        }
        if kind == SPB_MAGIC {
            // It has no time.
            return Ok(Step::Odd(length));
        }
        let parse = if self.big_endian { parse_block_be } else { parse_block_le };
        let Ok((_, block)) = parse(bytes) else {
            let problem = "a block's contents do not fit its length".to_owned();
            return Err(Wrong { at: 0, problem, remedy: REPAIR });
        };
        match block {
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(description) => {
                if self.interfaces.len() == MAX_INTERFACES {
                    let problem = format!("it has more than {MAX_INTERFACES} interfaces");
                    return Err(Wrong { at: 0, problem, remedy: REPAIR });
                }
                self.interfaces.push(interface(&description, self.big_endian, offset));
            }
            _ => {}
        }
        Ok(Step::Skip(length))
    }

    /// Reads a packet block; `None` if its numbers make no sense.
    fn packet(&self, block: &[u8], kind: u32) -> Option<Found> {
        let word = |at: usize| {
            let bytes = *block.get(at..)?.first_chunk()?;
            Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
        };
        let interface = match (kind, self.big_endian) {
            (EPB_MAGIC, _) => word(8)?,
            (_, true) => word(8)? >> 16,
            (_, false) => word(8)? & 0xffff,
        };
        let (stamp, captured, length) =
            (u64::from(word(12)?) << 32 | u64::from(word(16)?), word(20)?, word(24)?);
        // Before the second length.
        let room = block.len().checked_sub(PACKET_DATA + 4)?;
        let fits = captured <= MAX_PACKET && captured as usize <= room && length > 0;
        let known = self.interfaces.get(interface as usize).filter(|_| fits)?;
        let data = PACKET_DATA..PACKET_DATA + captured as usize;
        Some(Found { at: known.time(stamp)?, data, length, interface, medium: known.medium })
    }
}

fn interface(block: &InterfaceDescriptionBlock<'_>, big_endian: bool, offset: u64) -> Interface {
    let option = |code: OptionCode| block.options.iter().find(|option| option.code == code);
    let value = |code| option(code).and_then(|option: &PcapNGOption<'_>| option.value.first().copied());
    let check_sequence = value(CHECK_SEQUENCE).is_some_and(|length| length > 0);
    // The parser reads the offset as little-endian in all sections.
    let seconds = option(OptionCode::IfTsoffset).and_then(|option| option.value.first_chunk::<8>());
    let seconds = seconds
        .map_or(0, |bytes| if big_endian { i64::from_be_bytes(*bytes) } else { i64::from_le_bytes(*bytes) });
    Interface {
        medium: Medium {
            link: Link::from_number(block.linktype.0 as u16),
            check_sequence,
            declared: offset + 8,
        },
        per_second: resolution(value(OptionCode::IfTsresol).unwrap_or(6)),
        offset: seconds,
    }
}

/// Returns timestamp units per second: 10, or 2 if the top bit is set, to the power of the other bits; `None`
/// if 64-bit timestamps would span less than a second.
fn resolution(exponent: u8) -> Option<u128> {
    let base: u128 = if exponent & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(exponent & 0x7f)).filter(|units| *units <= 1 << 64)
}

impl Interface {
    /// Returns a timestamp in nanoseconds since 1970; `None` if it is out of range.
    fn time(&self, stamp: u64) -> Option<u64> {
        const NANOSECONDS: u128 = NS_PER_SECOND as u128;
        let ns = match self.per_second? {
            NANOSECONDS => stamp,
            1_000_000 => stamp.checked_mul(1_000)?,
            units => u64::try_from(u128::from(stamp) * NANOSECONDS / units).ok()?,
        };
        ns.checked_add_signed(self.offset.checked_mul(NS_PER_SECOND as i64)?)
    }
}
