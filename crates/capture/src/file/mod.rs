//! Reads pcap and pcapng files as they arrive, packet by packet and in bounded memory.
//!
//! Our code frames the stream and checks lengths, so that errors name their place in the file; `pcap-parser`
//! decodes what the frames contain.

mod buffer;
mod classic;
mod pcapng;
mod several;
mod unpack;

use std::io::{self, Read};

use headway_units::Instant;

use crate::Link;
use buffer::Buffer;
use classic::Classic;
use pcapng::Sections;
pub use several::{FileError, Several};
pub use unpack::Unpacked;

/// Longest packet that libpcap writes; a larger value means that the reader is out of step with the headers.
const MAX_PACKET: u32 = 262_144;

/// Why a capture cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system could not read the stream.
    #[error("{0}")]
    Io(io::Error),
    /// The stream ends within a header, packet or block, as happens when a capture is interrupted.
    #[error("it ends at byte {offset}: {expected} bytes are expected, {left} are left")]
    Cut {
        /// Where the incomplete part begins.
        offset: u64,
        /// Its length in bytes.
        expected: u64,
        /// The bytes of it that are there.
        left: u64,
    },
    /// The contents are wrong or not supported.
    #[error("it is corrupt at byte {offset}: {problem}; {remedy}")]
    Corrupt {
        /// Where the error is.
        offset: u64,
        /// The error.
        problem: String,
        /// What the user can do.
        remedy: &'static str,
    },
}

/// What to do about files that are inconsistent.
pub const REPAIR: &str = "capture it again, or keep the part before with `editcap FILE NEW`";
/// What to do about files that another program could convert.
const CONVERT: &str = "convert it with `editcap -F pcap FILE NEW`, or capture on an Ethernet interface";
/// What to do about compressed files.
const UNPACK: &str = "unpack it first, for example with `zcat FILE | headway passive -`";

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured, since 1970-01-01.
    pub at: Instant,
    /// The bytes kept of it, from the link layer's header on.
    pub data: &'a [u8],
    /// Its original length in bytes.
    pub length: u32,
    /// The interface it was captured on, counted from 0; always 0 in pcap files.
    pub interface: u32,
    /// The interface's link layer.
    pub link: Link,
    /// Whether `length` includes the frame check sequence of Ethernet.
    pub check_sequence: bool,
    /// Where the file declares the link layer, for errors.
    pub declared: u64,
}

/// The next item of a capture.
#[derive(Debug)]
pub enum Next<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// A record that makes no sense, or has no time stamp: those after it can be read.
    OddRecord,
    /// No packet now: the stream said [`io::ErrorKind::WouldBlock`]. A later call continues.
    Pending,
    /// The end of the capture.
    End,
}

/// Reads the packets of a capture from a stream: pcap with microseconds or nanoseconds, of old versions or
/// with the longer headers of a patch, or pcapng, in either byte order.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    buffer: Buffer,
    format: Format,
}

/// The format of a stream and the state of its reader.
#[derive(Debug)]
enum Format {
    /// Not enough bytes have arrived to tell.
    Unknown,
    Classic(Classic),
    Sections(Sections),
}

/// What a format's reader needs or found; positions are relative to the first available byte.
enum Step {
    /// The available bytes end too early: this many, from the given position on, are needed.
    Need { from: usize, length: usize },
    /// Bytes without a packet, to consume.
    Skip(usize),
    /// A record that cannot be used, to consume.
    Odd(usize),
    /// A packet, and the bytes to consume after it has been used.
    Packet(Found, usize),
}

/// What a reader comes to.
enum Ahead {
    /// A packet, and the bytes that were consumed with it.
    Packet(Found, usize),
    Odd,
    Pending,
    End,
}

/// A packet's properties; its bytes are `data` of the available ones.
#[derive(Debug, Default)]
struct Found {
    at: u64,
    data: std::ops::Range<usize>,
    length: u32,
    interface: u32,
    medium: Medium,
}

/// The link layer of an interface.
#[derive(Clone, Copy, Debug, Default)]
struct Medium {
    link: Link,
    check_sequence: bool,
    declared: u64,
}

/// An error at a position relative to the first available byte.
struct Wrong {
    at: usize,
    problem: String,
    remedy: &'static str,
}

impl<R: Read> Reader<R> {
    /// Creates a reader; nothing is read until the first call of [`Reader::next`].
    pub fn new(input: R) -> Reader<R> {
        Reader { input, buffer: Buffer::new(), format: Format::Unknown }
    }

    /// Returns the number of bytes consumed so far.
    pub fn position(&self) -> u64 {
        self.buffer.offset()
    }

    /// Returns the next packet in the order of the file.
    ///
    /// # Errors
    /// [`ReadError`] if the stream cannot be read, is cut off, or is corrupt. There is no next
    /// packet after an error.
    #[expect(clippy::should_implement_trait, reason = "a packet borrows from the reader")]
    pub fn next(&mut self) -> Result<Next<'_>, ReadError> {
        Ok(match self.advance()? {
            Ahead::Packet(found, used) => Next::Packet(self.packet(&found, used)),
            Ahead::Odd => Next::OddRecord,
            Ahead::Pending => Next::Pending,
            Ahead::End => Next::End,
        })
    }

    /// Goes to the next packet, whose bytes are consumed and stay in place until the next call.
    fn advance(&mut self) -> Result<Ahead, ReadError> {
        loop {
            let data = self.buffer.data();
            let step = match &mut self.format {
                Format::Unknown => identify(data).map(|found| match found {
                    Some(format) => {
                        self.format = format;
                        Step::Skip(0)
                    }
                    None => Step::Need { from: 0, length: 4 },
                }),
                Format::Classic(classic) => classic.step(data, self.buffer.offset(), self.buffer.ended()),
                Format::Sections(sections) => sections.step(data, self.buffer.offset()),
            };
            let wrong = |Wrong { at, problem, remedy }| ReadError::Corrupt {
                offset: self.buffer.offset() + at as u64,
                problem,
                remedy,
            };
            match step.map_err(wrong)? {
                Step::Packet(found, used) => {
                    self.buffer.consume(used);
                    return Ok(Ahead::Packet(found, used));
                }
                Step::Skip(used) => self.buffer.consume(used),
                Step::Odd(used) => {
                    self.buffer.consume(used);
                    return Ok(Ahead::Odd);
                }
                Step::Need { from, length } => {
                    if !self.buffer.ended() {
                        match self.buffer.fill(&mut self.input, from + length) {
                            Ok(()) => continue,
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                                return Ok(Ahead::Pending);
                            }
                            Err(error) => return Err(ReadError::Io(error)),
                        }
                    }
                    let available = self.buffer.data().len();
                    if available == 0 && !matches!(self.format, Format::Unknown) {
                        return Ok(Ahead::End);
                    }
                    return Err(ReadError::Cut {
                        offset: self.buffer.offset() + from as u64,
                        expected: length as u64,
                        left: available.saturating_sub(from) as u64,
                    });
                }
            }
        }
    }

    /// Returns the packet that was found last.
    fn packet(&self, found: &Found, used: usize) -> Packet<'_> {
        let Medium { link, check_sequence, declared } = found.medium;
        Packet {
            at: Instant::from_ns(found.at),
            data: self.buffer.consumed(used, found.data.clone()),
            length: found.length,
            interface: found.interface,
            link,
            check_sequence,
            declared,
        }
    }
}

/// Tells the format from the first bytes; `None` if there are too few of them.
fn identify(data: &[u8]) -> Result<Option<Format>, Wrong> {
    let Some(first) = data.first_chunk() else { return Ok(None) };
    let magic = u32::from_le_bytes(*first);
    if magic == pcap_parser::SHB_MAGIC {
        return Ok(Some(Format::Sections(Sections::default())));
    }
    if classic::is_magic(magic) {
        return Ok(Some(Format::Classic(Classic::default())));
    }
    /// gzip, zstd, xz and bzip2.
    const COMPRESSED: [&[u8]; 4] =
        [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], &[0xfd, b'7', b'z', b'X'], b"BZh"];
    let compressed = COMPRESSED.iter().any(|start| data.starts_with(start));
    let (problem, remedy) =
        if compressed { ("it is compressed", UNPACK) } else { ("it is neither pcap nor pcapng", CONVERT) };
    Err(Wrong { at: 0, problem: problem.to_owned(), remedy })
}

#[cfg(test)]
mod tests;
