//! The congestion header as an experimental TCP option (RFC 6994), for paths that drop its IP protocol.
//!
//! The identifier behind kind and length stands for the version, and the length for the format: 20
//! bytes with all four fields (Standard), or 8 with the reverse feedback alone (Minimal). The rest of
//! the header is known.

use std::ops::Range;

use super::{Format, Header, VERSION_RCP, VERSION_XCP};

/// The default kind of the option: for experiments (RFC 4727).
pub const OPTION_KIND: u8 = 253;
/// Length of the option in the format Standard, in bytes.
pub const OPTION_BYTES: usize = 20;
/// The bytes of it that routers rewrite: XCP's change of throughput or RCP's rate.
pub const OPTION_FEEDBACK: Range<usize> = 12..16;

/// Length of the option in the format Minimal, in bytes.
const MINIMAL_BYTES: usize = 8;
/// The identifiers of the two versions, ASCII letters; they are not registered.
const EXPERIMENTS: [(u16, u8); 2] = [(0x4858, VERSION_XCP), (0x4852, VERSION_RCP)];
/// Bytes of the identifier.
const EXPERIMENT: Range<usize> = 2..4;

/// Why an option with the identifier of a congestion header is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The TCP header ends before it does.
    #[error("the TCP header has {0} bytes for an option that says to have more")]
    Truncated(usize),
    /// It has the length of neither format.
    #[error("the length of a congestion header as a TCP option is 20 or 8, not {0}")]
    Length(u8),
}

/// Decodes the option at the beginning of `bytes`, which end where the TCP header does. `None` if it has no
/// identifier of a congestion header; its kind is not looked at.
///
/// # Errors
/// Returns what is wrong with the length.
pub fn decode_option(bytes: &[u8]) -> Option<Result<Header, OptionError>> {
    let length = *bytes.get(1)?;
    let experiment = bytes.get(EXPERIMENT).map(|id| u16::from_be_bytes([id[0], id[1]]))?;
    let (_, version) = EXPERIMENTS.into_iter().find(|(id, _)| *id == experiment)?;
    if usize::from(length) < EXPERIMENT.end {
        return None;
    }
    let Some(option) = bytes.get(..usize::from(length)) else {
        return Some(Err(OptionError::Truncated(bytes.len())));
    };
    let word = |at: usize| u32::from_be_bytes([option[at], option[at + 1], option[at + 2], option[at + 3]]);
    Some(match option.len() {
        OPTION_BYTES => Ok(Header {
            rtt: word(4),
            x: word(8),
            feedback: word(OPTION_FEEDBACK.start),
            reverse: word(16),
            ..Header::new(version, Format::Standard)
        }),
        MINIMAL_BYTES => Ok(Header { reverse: word(4), ..Header::new(version, Format::Minimal) }),
        _ => Err(OptionError::Length(length)),
    })
}

/// Encodes a header as an option of this kind: returns its bytes and how many of them it has. `None` if the
/// header is neither XCP's nor RCP's.
pub fn encode_option(header: &Header, kind: u8) -> Option<([u8; OPTION_BYTES], usize)> {
    let (experiment, _) = EXPERIMENTS.into_iter().find(|(_, version)| *version == header.version)?;
    let (length, fields) = if header.format == Format::Minimal as u8 {
        (MINIMAL_BYTES, [header.reverse, 0, 0, 0])
    } else {
        (OPTION_BYTES, [header.rtt, header.x, header.feedback, header.reverse])
    };
    let mut bytes = [0; OPTION_BYTES];
    bytes[..2].copy_from_slice(&[kind, length as u8]);
    bytes[EXPERIMENT].copy_from_slice(&experiment.to_be_bytes());
    for (place, field) in bytes[EXPERIMENT.end..].chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_be_bytes());
    }
    Some((bytes, length))
}
