//! The encoding of the congestion header, versions 2 and RCP: 20 bytes in network byte
//! order (xcp-rcp 1.4, 1.5).

use std::ops::Range;

use super::{Format, Header, VERSION_RCP, VERSION_XCP};

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 20;
/// The default number of the header as an IP protocol: for experiments (RFC 3692).
pub const PROTOCOL: u8 = 253;
/// The bytes that routers rewrite: XCP's change of throughput or RCP's rate.
pub const FEEDBACK: Range<usize> = 12..16;

const RTT: usize = 4;
const X: usize = 8;
const REVERSE: usize = 16;

/// Why bytes are not a congestion header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// They end too early.
    #[error("{0} bytes are too few for a congestion header of 20")]
    Truncated(usize),
    /// The field for the length is wrong.
    #[error("the length of a congestion header is 20, not {0}")]
    Length(u8),
    /// The version is neither that of XCP nor that of RCP.
    #[error("version {0} of the congestion header is unknown")]
    Version(u8),
    /// There is no such format.
    #[error("format {0} of the congestion header is unknown")]
    Format(u8),
}

/// Decodes the header at the beginning of `bytes`.
///
/// # Errors
///
/// Returns what is wrong first: the number of bytes, the length, the version or the format.
pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
    let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(HeaderError::Truncated(bytes.len()));
    };
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (version, format) = (bytes[2] >> 4, bytes[2] & 0xf);
    if usize::from(bytes[1]) != HEADER_BYTES {
        return Err(HeaderError::Length(bytes[1]));
    }
    if version != VERSION_XCP && version != VERSION_RCP {
        return Err(HeaderError::Version(version));
    }
    if format != Format::Standard as u8 && format != Format::Minimal as u8 {
        return Err(HeaderError::Format(format));
    }
    Ok(Header {
        rtt: word(RTT),
        x: word(X),
        feedback: word(FEEDBACK.start),
        reverse: word(REVERSE),
        protocol: bytes[0],
        version,
        format,
        unused: 0,
    })
}

/// Encodes a header; version and format have four bits each.
pub fn encode(header: &Header) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0] = header.protocol;
    bytes[1] = HEADER_BYTES as u8;
    bytes[2] = header.version << 4 | header.format & 0xf;
    let words =
        [(RTT, header.rtt), (X, header.x), (FEEDBACK.start, header.feedback), (REVERSE, header.reverse)];
    for (at, word) in words {
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    bytes
}
