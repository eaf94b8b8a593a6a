//! Internet checksums.

/// Returns the checksum after the word `old` that it covers became `new` (RFC 1624, equation 3).
pub(crate) fn update(sum: u16, old: u16, new: u16) -> u16 {
    let wide = u32::from(!sum) + u32::from(!old) + u32::from(new);
    let folded = (wide & 0xffff) + (wide >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}
