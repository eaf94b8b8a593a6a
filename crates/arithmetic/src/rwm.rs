//! Receive window modulation (`c/rwm.h`): limits of windows (wan 2.2, 2.3), and checksums of what changes.

/// Fraction bits of a share of a rate, in bytes per ns.
pub const SHARE_BITS: u32 = 40;
/// A limit that is none, in bytes.
pub const UNLIMITED: u64 = u64::MAX;

unsafe extern "C" {
    safe fn rwm_weighed(share: u64, parts: u32) -> u64;
    safe fn rwm_rounded(bytes: u64, scale: u32, number: u64, now: u64) -> u64;
    safe fn rwm_field(bytes: u64, scale: u32, segment: u32) -> u32;
    /// Returns the limit in bytes of a connection with a share in bytes per ns, with [`SHARE_BITS`], and an RTT
    /// in ns; [`UNLIMITED`] if either is 0.
    #[link_name = "rwm_bytes"]
    pub safe fn bytes(share: u64, rtt: u64) -> u64;
    /// Returns a limit beside bytes that SACKs say have arrived: after a loss they are no longer under way.
    #[link_name = "rwm_beside"]
    pub safe fn beside(bytes: u64, sacked: u32) -> u64;
    safe fn hw_word_at(place: u32, word: u16) -> u16;
    safe fn hw_checksum_after(checksum: u16, old: u16, word: u16) -> u16;
}

/// How many parts of a share are the whole.
pub const WHOLE: u16 = 64;

/// Returns so many parts, [`WHOLE`] of which are the whole, of a share: 0, which is no limit, stays so, and
/// nothing else becomes that.
pub fn weighed(share: u64, parts: u16) -> u64 {
    rwm_weighed(share, parts.into())
}

/// Returns a limit and up to one unit more of the window field of an end with this scale, at a time in ns:
/// what is rounded down to `bytes` in the mean. `number` is that of the connection.
pub fn rounded(bytes: u64, scale: u8, number: u64, now: u64) -> u64 {
    rwm_rounded(bytes, scale.into(), number, now)
}

/// Returns a checksum after a word that begins at `place` of what it covers became another one (RFC 1624).
pub fn checksum_after(checksum: u16, place: u32, old: u16, word: u16) -> u16 {
    hw_checksum_after(checksum, hw_word_at(place, old), hw_word_at(place, word))
}

/// Returns the limit of a window field, 1 to 65535, of an end with this scale, 0 to 14:
/// two segments at least.
pub fn field(bytes: u64, scale: u8, segment: u16) -> u16 {
    // The function never returns more than 65535.
    rwm_field(bytes, u32::from(scale.min(14)), u32::from(segment)) as u16
}
