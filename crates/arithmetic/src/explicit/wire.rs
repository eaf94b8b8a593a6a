//! The congestion header in packets of IP, as kernel modules read and write it (`c/explicit_wire.h`).

use super::{Format, Header};

/// Length of the header, in bytes.
pub const BYTES: usize = 20;

unsafe extern "C" {
    unsafe fn explicit_find(packet: *const u8, length: u32, header: &mut Header, at: &mut u32) -> u32;
    safe fn explicit_write(header: &Header, bytes: &mut [u8; BYTES]);
}

/// What a packet has behind its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No congestion header.
    Nothing,
    /// One, at this offset; version and format may be unknown.
    Header(Header, u32),
    /// One that ends too early.
    Truncated,
    /// One with another length than 20.
    BadLength,
    /// A part of one, in a fragment.
    Fragment,
}

/// Finds the congestion header of a packet that begins with its IP header.
pub fn find(packet: &[u8]) -> Found {
    let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    let (mut header, mut at) = (Header::new(0, Format::Standard), 0);
    // SAFETY: the function reads no more than `length` bytes.
    match unsafe { explicit_find(packet.as_ptr(), length, &mut header, &mut at) } {
        1 => Found::Header(header, at),
        2 => Found::Truncated,
        3 => Found::BadLength,
        4 => Found::Fragment,
        _ => Found::Nothing,
    }
}

/// Writes a header as it travels.
pub fn write(header: &Header) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    explicit_write(header, &mut bytes);
    bytes
}
