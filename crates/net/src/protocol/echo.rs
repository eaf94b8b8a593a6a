//! Probes as ICMP Echo Replies (RFC 792, RFC 4443).
//!
//! ```text
//! 0      type, u8: 0 in ICMP, 129 in ICMPv6
//! 1      code, u8: 0
//! 2      checksum, u16
//! 4      identifier, u16: the low 16 bits of the session
//! 6      sequence number, u16
//! 8      the header in [`super::probe`], and padding
//! ```
//! All fields are big-endian. No host answers an Echo Reply, but a router reports one that expires there,
//! as it does for UDP. The header is as long as that of UDP, so packets of one [`super::PacketSize`]
//! have the same length.
//!
//! A load balancer that takes the first four bytes of any packet for ports must not spread the packets of
//! a session over several paths. Therefore they all have the same checksum: the sequence number is chosen
//! so that it is right.

use super::Family;

/// Length of the ICMP header in bytes.
pub const ECHO_HEADER_LEN: usize = 8;

/// Type and code of an Echo Reply as one number.
pub(crate) const ECHO_REPLY: u16 = 0;

/// Type and code of an ICMPv6 Echo Reply as one number.
pub(crate) const ECHO_REPLY_V6: u16 = 129 << 8;

/// The checksum of every ICMP probe; any number would do.
const CHECKSUM: u16 = 0x4864;

/// Returns the identifier of all probes of a session.
pub(crate) const fn identifier(session: u64) -> u16 {
    session as u16
}

/// Writes the ICMP header to the start of a message, whose other bytes must be final.
///
/// The checksum of ICMPv6 covers the addresses, too; the kernel writes it.
pub fn write_echo_header(family: Family, session: u64, message: &mut [u8]) {
    let Some(header) = message.first_chunk_mut::<ECHO_HEADER_LEN>() else { return };
    let (kind, checksum) = match family {
        Family::V4 => (ECHO_REPLY, CHECKSUM),
        Family::V6 => (ECHO_REPLY_V6, 0),
    };
    header[..2].copy_from_slice(&kind.to_be_bytes());
    header[2..4].copy_from_slice(&checksum.to_be_bytes());
    header[4..6].copy_from_slice(&identifier(session).to_be_bytes());
    header[6..].fill(0);
    // The checksum of ICMPv6 also covers the length, which differs between streams.
    let length = match family {
        Family::V4 => 0,
        Family::V6 => message.len(),
    };
    let sequence = !fold(sum(message) + length as u64);
    message[6..ECHO_HEADER_LEN].copy_from_slice(&sequence.to_be_bytes());
}

/// Adds up big-endian words of 16 bits (RFC 1071), the last one padded with a zero.
fn sum(message: &[u8]) -> u64 {
    let (words, rest) = message.as_chunks::<2>();
    let whole: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    whole + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// Reduces a sum to 16 bits in one's complement.
fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of `length` bytes whose probe starts with the given bytes.
    fn message(family: Family, length: usize, probe: &[u8]) -> Vec<u8> {
        let mut message = vec![0xa5; length];
        message[ECHO_HEADER_LEN..][..probe.len()].copy_from_slice(probe);
        write_echo_header(family, 0x0123_4567_89ab_cdef, &mut message);
        message
    }

    #[test]
    fn a_message_has_these_bytes() {
        // One's complement sum without the sequence number: 4864 + cdef + 4864 + 7750 + 0003 = d60b.
        let probe = *b"HdwP\0\x03";
        let mut message = [0; 14];
        message[8..].copy_from_slice(&probe);
        write_echo_header(Family::V4, 0xcdef, &mut message);
        assert_eq!(message, *b"\x00\x00\x48\x64\xcd\xef\x29\xf4HdwP\0\x03");
        // 8100 + cdef + 4864 + 7750 + 0003 + 000e = 0eb6.
        write_echo_header(Family::V6, 0xcdef, &mut message);
        assert_eq!(message, *b"\x81\x00\x00\x00\xcd\xef\xf1\x49HdwP\0\x03");
    }

    #[test]
    fn the_checksum_is_right_and_always_the_same() {
        for length in [44, 56, 57, 1480, 8980] {
            for probe in [&[][..], &[0; 36], &[0xff; 36], &[1, 2, 3]] {
                let v4 = message(Family::V4, length, probe);
                assert_eq!(v4[..6], [0, 0, 0x48, 0x64, 0xcd, 0xef]);
                assert_eq!(fold(sum(&v4)), 0xffff, "{length} bytes");
                let v6 = message(Family::V6, length, probe);
                assert_eq!(v6[..6], [129, 0, 0, 0, 0xcd, 0xef]);
                // Addresses and next header, the rest of what the kernel adds, are the same
                // for the whole session.
                assert_eq!(fold(sum(&v6) + length as u64), 0xffff, "{length} bytes");
            }
        }
    }

    #[test]
    fn messages_without_room_for_a_header_stay_as_they_are() {
        for length in 0..ECHO_HEADER_LEN {
            let mut message = vec![7; length];
            write_echo_header(Family::V4, 1, &mut message);
            assert_eq!(message, vec![7; length]);
        }
    }
}
