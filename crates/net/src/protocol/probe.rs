//! The header at the start of every UDP datagram, and of the data of every ICMP probe.
//!
//! ```text
//! 0      magic "HdwP"
//! 4      version, u16
//! 6      kind, u8
//! 7      role, u8: 0 ordinary or first of a train, 1 hidden, 2 last of a train; 0 in other datagrams than probes
//! 8      session, u64 (random, known only to the two ends)
//! 16     stream, u32
//! 20     index in the stream, u32
//! 24     number of packets in the stream, u32
//! 28     time of sending, u64 ns on the sender's clock
//! ```
//! All fields are big-endian. In a hello or cookie, [`super::COOKIE_LEN`] bytes follow; in a probe,
//! pseudo-random padding, which links with compression cannot shorten.

use super::{COOKIE_LEN, VERSION};
use headway_units::Instant;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 36;

/// Length of a hello and of its answer in bytes. They are equal, so that there is no amplification.
pub const HELLO_LEN: usize = HEADER_LEN + COOKIE_LEN;

const MAGIC: [u8; 4] = *b"HdwP";

/// The type of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the client, to show its UDP address.
    Hello = 1,
    /// The server's answer to a hello, with a cookie.
    Cookie = 2,
    /// A packet of a probe stream.
    Probe = 3,
    /// A packet that tests whether its size passes.
    Size = 4,
}

/// The role of a probe in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A packet of a stream without trains, or the first of a train.
    #[default]
    First = 0,
    /// A packet whose TTL or hop limit ends on the way. It arrives only where the path is shorter than that.
    Hidden = 1,
    /// The last packet of a train.
    Last = 2,
}

/// The fields of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the datagram.
    pub kind: Kind,
    /// The role of a probe; [`Role::First`] in other datagrams.
    pub role: Role,
    /// The session it belongs to.
    pub session: u64,
    /// The stream it belongs to.
    pub stream: u32,
    /// Its position in the stream, below `count`.
    pub index: u32,
    /// Packets in the stream.
    pub count: u32,
    /// The time it was sent, on the sender's clock.
    pub sent: Instant,
}

/// The reason why a datagram was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// Shorter than a header.
    #[error("datagram is too short")]
    Short,
    /// Without the magic.
    #[error("datagram is not a Headway probe")]
    NotHeadway,
    /// Of another version.
    #[error("datagram is of version {0}")]
    Version(u16),
    /// A field has an invalid value.
    #[error("datagram has a bad field")]
    Field,
}

impl Header {
    /// Writes the header to the start of a datagram.
    pub fn write(&self, datagram: &mut [u8; HEADER_LEN]) {
        datagram[..4].copy_from_slice(&MAGIC);
        datagram[4..6].copy_from_slice(&VERSION.to_be_bytes());
        datagram[6] = self.kind as u8;
        datagram[7] = self.role as u8;
        datagram[8..16].copy_from_slice(&self.session.to_be_bytes());
        datagram[16..20].copy_from_slice(&self.stream.to_be_bytes());
        datagram[20..24].copy_from_slice(&self.index.to_be_bytes());
        datagram[24..28].copy_from_slice(&self.count.to_be_bytes());
        datagram[28..].copy_from_slice(&self.sent.ns().to_be_bytes());
    }

    /// Parses the header of a datagram.
    ///
    /// # Errors
    /// Any [`ProbeError`].
    pub fn parse(datagram: &[u8]) -> Result<Header, ProbeError> {
        let (header, _) = datagram.split_first_chunk::<HEADER_LEN>().ok_or(ProbeError::Short)?;
        if header[..4] != MAGIC {
            return Err(ProbeError::NotHeadway);
        }
        let version = u16::from_be_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(ProbeError::Version(version));
        }
        let kind = match header[6] {
            1 => Kind::Hello,
            2 => Kind::Cookie,
            3 => Kind::Probe,
            4 => Kind::Size,
            _ => return Err(ProbeError::Field),
        };
        let role = match header[7] {
            0 => Role::First,
            1 => Role::Hidden,
            2 => Role::Last,
            _ => return Err(ProbeError::Field),
        };
        let parsed = Header {
            kind,
            role,
            session: u64_at(header, 8),
            stream: u32_at(header, 16),
            index: u32_at(header, 20),
            count: u32_at(header, 24),
            sent: Instant::from_ns(u64_at(header, 28)),
        };
        if role != Role::First && kind != Kind::Probe || parsed.index >= parsed.count {
            return Err(ProbeError::Field);
        }
        Ok(parsed)
    }
}

fn u32_at(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    u32::from_be_bytes(bytes)
}

fn u64_at(header: &[u8; HEADER_LEN], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_be_bytes(bytes)
}

/// Returns a hello or its answer: a header and a cookie.
pub fn hello(kind: Kind, session: u64, cookie: &[u8; COOKIE_LEN]) -> [u8; HELLO_LEN] {
    let role = Role::First;
    let header = Header { kind, role, session, stream: 0, index: 0, count: 1, sent: Instant::ZERO };
    let mut datagram = [0; HELLO_LEN];
    let mut start = [0; HEADER_LEN];
    header.write(&mut start);
    datagram[..HEADER_LEN].copy_from_slice(&start);
    datagram[HEADER_LEN..].copy_from_slice(cookie);
    datagram
}

/// Returns the cookie in a datagram of kind [`Kind::Cookie`]; `None` if its length is not [`HELLO_LEN`].
pub fn cookie(datagram: &[u8]) -> Option<[u8; COOKIE_LEN]> {
    let datagram: &[u8; HELLO_LEN] = datagram.try_into().ok()?;
    datagram.last_chunk::<COOKIE_LEN>().copied()
}

/// Fills padding with a small generator: incompressible, cheap, and the same for the same seed.
pub(crate) fn fill_padding(mut seed: u64, padding: &mut [u8]) {
    for chunk in padding.chunks_mut(8) {
        // The SplitMix64 generator: one addition and three mixing steps per eight bytes.
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let bytes = mixed.to_ne_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// Returns this many datagrams of padding, of this length.
pub(crate) fn padded(seed: u64, length: usize, count: usize) -> Vec<Vec<u8>> {
    let datagram = |number: usize| {
        let mut datagram = vec![0; length];
        // The generator uses consecutive seeds itself, so these are far apart.
        fill_padding(seed.wrapping_add((number as u64) << 40), &mut datagram);
        datagram
    };
    (0..count).map(datagram).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_wire() {
        let header = Header {
            kind: Kind::Probe,
            role: Role::Last,
            session: 0x0123_4567_89ab_cdef,
            stream: 7,
            index: 3,
            count: 64,
            sent: Instant::from_ns(u64::MAX),
        };
        let mut bytes = [0; HEADER_LEN];
        header.write(&mut bytes);
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(Header::parse(&bytes[..HEADER_LEN - 1]), Err(ProbeError::Short));
        bytes[23] = 64;
        assert_eq!(Header::parse(&bytes), Err(ProbeError::Field));
    }

    #[test]
    fn only_probes_have_roles() {
        let mut datagram = hello(Kind::Hello, 9, &[0; COOKIE_LEN]);
        assert!(Header::parse(&datagram).is_ok());
        datagram[7] = Role::Hidden as u8;
        assert_eq!(Header::parse(&datagram), Err(ProbeError::Field));
        datagram[6] = Kind::Probe as u8;
        assert_eq!(Header::parse(&datagram).map(|header| header.role), Ok(Role::Hidden));
        datagram[7] = 3;
        assert_eq!(Header::parse(&datagram), Err(ProbeError::Field));
    }

    #[test]
    fn a_cookie_survives_the_wire() {
        let datagram = hello(Kind::Cookie, 9, &[5; COOKIE_LEN]);
        assert_eq!(cookie(&datagram), Some([5; COOKIE_LEN]));
        assert_eq!(cookie(&datagram[1..]), None);
        assert_eq!(Header::parse(&datagram).unwrap().kind, Kind::Cookie);
    }

    #[test]
    fn padding_does_not_repeat() {
        let mut padding = [0; 1472];
        fill_padding(1, &mut padding);
        let mut words: Vec<&[u8]> = padding.chunks(4).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 368);
    }
}
