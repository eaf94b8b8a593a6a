//! The pcapng format (draft-ietf-opsawg-pcapng).

use headway_core::Bytes;

use super::{CONVERT, Input, ParseError, REPAIR, missing, wire};

/// Type of a section header block, the same in either byte order.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
/// Type of an interface description block.
const INTERFACE: u32 = 1;
/// Type of a simple packet block, which has no timestamp.
const SIMPLE_PACKET: u32 = 3;
/// Type of an enhanced packet block.
const PACKET: u32 = 6;
/// Magic number that tells the byte order of a section.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Interface options: timestamp resolution, and length of the frame check sequence.
const RESOLUTION: u16 = 9;
const CHECK_SEQUENCE: u16 = 13;
/// Bytes of a block besides its body: type and length before it, the length again after it.
const FRAMING: usize = 12;

/// The properties of an interface that its packets need.
struct Interface {
    missing: i64,
    /// Timestamp units per second.
    per_second: u128,
}

/// Reads all packets: time since the epoch in nanoseconds, and size on the wire.
pub(super) fn packets(contents: &[u8]) -> Result<Vec<(u64, Bytes)>, ParseError> {
    let mut input = Input { contents, big_endian: false };
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    let mut offset = 0;
    while offset < contents.len() {
        let kind = input.u32(offset)?;
        if kind == SECTION {
            input = section(input, offset)?;
            interfaces.clear();
        }
        let length = length(input, offset)?;
        match kind {
            INTERFACE => interfaces.push(interface(input, offset, length)?),
            PACKET => packets.push(packet(input, offset, &interfaces)?),
            SIMPLE_PACKET => {
                let problem = "simple packet blocks have no timestamps".to_owned();
                return Err(ParseError { offset, problem, remedy: "capture it again with timestamps" });
            }
            _ => {}
        }
        offset += length;
    }
    Ok(packets)
}

/// Returns the input with the byte order of the section that starts at `offset`.
fn section(input: Input<'_>, offset: usize) -> Result<Input<'_>, ParseError> {
    for big_endian in [false, true] {
        let input = Input { big_endian, ..input };
        if input.u32(offset + 8)? == BYTE_ORDER {
            return Ok(input);
        }
    }
    let problem = "the byte order of the section is unknown".to_owned();
    Err(ParseError { offset: offset + 8, problem, remedy: REPAIR })
}

/// Returns the length of the block at `offset`, after checking that the block is complete.
fn length(input: Input<'_>, offset: usize) -> Result<usize, ParseError> {
    let length = input.u32(offset + 4)? as usize;
    let body = match input.u32(offset)? {
        SECTION => 16,
        INTERFACE => 8,
        PACKET => 20,
        _ => 0,
    };
    if length < FRAMING + body || !length.is_multiple_of(4) {
        let problem = format!("a block of {length} bytes is impossible");
        return Err(ParseError { offset: offset + 4, problem, remedy: REPAIR });
    }
    input.bytes(offset, length)?;
    let again = input.u32(offset + length - 4)? as usize;
    if again != length {
        let problem = format!("the two lengths of a block differ: {length} and {again}");
        return Err(ParseError { offset: offset + length - 4, problem, remedy: REPAIR });
    }
    Ok(length)
}

fn interface(input: Input<'_>, offset: usize, length: usize) -> Result<Interface, ParseError> {
    let link_type = input.u16(offset + 8)?;
    let (mut per_second, mut check_sequence) = (1_000_000, false);
    let mut option = offset + 16;
    while option + 4 <= offset + length - 4 {
        let [code, size] = [input.u16(option)?, input.u16(option + 2)?];
        match code {
            0 => break,
            RESOLUTION => per_second = resolution(input.bytes(option + 4, 1)?[0], option + 4)?,
            CHECK_SEQUENCE => check_sequence = input.bytes(option + 4, 1)?[0] > 0,
            _ => {}
        }
        option += 4 + usize::from(size).next_multiple_of(4);
    }
    Ok(Interface { missing: missing(link_type, check_sequence, offset + 8)?, per_second })
}

/// Returns timestamp units per second: 10, or 2 if the top bit is set, to the power of the other bits.
fn resolution(exponent: u8, offset: usize) -> Result<u128, ParseError> {
    let base: u128 = if exponent & 0x80 == 0 { 10 } else { 2 };
    // With a finer resolution, 64-bit timestamps would span less than a second.
    base.checked_pow(u32::from(exponent & 0x7f)).filter(|units| *units <= 1 << 64).ok_or_else(|| ParseError {
        offset,
        problem: "the resolution of the times is impossible".to_owned(),
        remedy: CONVERT,
    })
}

fn packet(input: Input<'_>, offset: usize, interfaces: &[Interface]) -> Result<(u64, Bytes), ParseError> {
    let number = input.u32(offset + 8)?;
    let Some(interface) = interfaces.get(number as usize) else {
        let problem = format!("a packet belongs to interface {number} of {}", interfaces.len());
        return Err(ParseError { offset: offset + 8, problem, remedy: REPAIR });
    };
    let stamp = u128::from(input.u32(offset + 12)?) << 32 | u128::from(input.u32(offset + 16)?);
    let ns = stamp * 1_000_000_000 / interface.per_second;
    let at = u64::try_from(ns).map_err(|_| ParseError {
        offset: offset + 12,
        problem: "a packet's timestamp is out of range".to_owned(),
        remedy: REPAIR,
    })?;
    Ok((at, wire(input.u32(offset + 24)?, interface.missing)))
}
