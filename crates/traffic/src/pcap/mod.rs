//! Packet captures: times and wire sizes of the packets in a pcap or pcapng file.

mod classic;
mod pcapng;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headway_core::{Bytes, Duration};
use serde::{Deserialize, Serialize};

use super::Emission;

/// Bytes on the wire that captures lack besides the frame check sequence: preamble and inter-frame gap.
const PREAMBLE_AND_GAP: u64 = 20;
/// Frame check sequence of Ethernet, which captures usually lack.
const CHECK_SEQUENCE: u64 = 4;
/// Ethernet header, for link types that lack it.
const ETHERNET_HEADER: u64 = 14;
/// Smallest size of an Ethernet frame on the wire; captures at the sender lack the padding.
const MIN_FRAME: u64 = 84;

/// The packets of a capture in order of time, starting at zero. Clones share them.
#[derive(Clone, Deserialize, Serialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct Capture {
    path: PathBuf,
    packets: Arc<[Emission]>,
}

/// Why a capture cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be read.
    #[error("cannot read the capture {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is corrupt or not supported.
    #[error("the capture {path} is corrupt at byte {offset}: {problem}; {remedy}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Offset of the error in the file.
        offset: usize,
        /// The error.
        problem: String,
        /// What the user can do.
        remedy: &'static str,
    },
}

/// An error at an offset of a file.
#[derive(Debug)]
struct ParseError {
    offset: usize,
    problem: String,
    remedy: &'static str,
}

/// Remedy for truncated or inconsistent files.
const REPAIR: &str = "capture it again, or keep the part before with `editcap FILE NEW`";
/// Remedy for files that could be converted.
const CONVERT: &str = "convert it with `editcap -F pcap FILE NEW`, or capture on an Ethernet interface";

impl Capture {
    /// Reads a pcap file (timestamps in micro- or nanoseconds, either byte order) or a pcapng file.
    ///
    /// # Errors
    /// [`CaptureError`] if the file is missing, corrupt, without packets, or of a link layer other than Ethernet, IP
    /// and Linux cooked capture.
    pub fn read(path: &Path) -> Result<Capture, CaptureError> {
        let unreadable = |source| CaptureError::Unreadable { path: path.to_owned(), source };
        let contents = headway_input::bytes(path, headway_input::CAPTURE).map_err(unreadable)?;
        Capture::parse(path, &contents)
    }

    /// Parses contents that are already in memory; `path` is only used in errors.
    ///
    /// # Errors
    /// As [`Capture::read`], except for missing files.
    pub fn parse(path: &Path, contents: &[u8]) -> Result<Capture, CaptureError> {
        let packets = parse(contents).map_err(|ParseError { offset, problem, remedy }| {
            CaptureError::Corrupt { path: path.to_owned(), offset, problem, remedy }
        })?;
        Ok(Capture { path: path.to_owned(), packets: packets.into() })
    }

    /// Reads the file named in the description; a relative path is relative to `folder`.
    ///
    /// # Errors
    /// As [`Capture::read`].
    pub fn load(&mut self, folder: &Path) -> Result<(), CaptureError> {
        self.packets = Capture::read(&folder.join(&self.path))?.packets;
        Ok(())
    }

    /// Returns all packets; at least one after the file has been read.
    pub fn packets(&self) -> &[Emission] {
        &self.packets
    }
}

impl From<PathBuf> for Capture {
    /// A capture that has not been read yet.
    fn from(path: PathBuf) -> Capture {
        Capture { path, packets: Arc::new([]) }
    }
}

impl From<Capture> for PathBuf {
    fn from(capture: Capture) -> PathBuf {
        capture.path
    }
}

impl PartialEq for Capture {
    fn eq(&self, other: &Capture) -> bool {
        self.packets == other.packets
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} packets)", self.path.display(), self.packets.len())
    }
}

/// Parses a file. Returns packets sorted by time, with the first at zero.
fn parse(contents: &[u8]) -> Result<Vec<Emission>, ParseError> {
    let input = Input { contents, big_endian: false };
    let mut packets = match input.u32(0)? {
        pcapng::SECTION => pcapng::packets(contents)?,
        _ => classic::packets(contents)?,
    };
    // Captures from several queues may be slightly out of order.
    packets.sort_by_key(|(at, _)| *at);
    let Some((start, _)) = packets.first().copied() else {
        let problem = "the capture contains no packets".to_owned();
        return Err(ParseError { offset: contents.len(), problem, remedy: "capture some traffic" });
    };
    let at = |at: u64| Duration::from_ns(i64::try_from(at - start).unwrap_or(i64::MAX));
    Ok(packets.into_iter().map(|(time, size)| Emission { at: at(time), size }).collect())
}

/// Reads integers at offsets of the contents.
#[derive(Clone, Copy)]
struct Input<'a> {
    contents: &'a [u8],
    big_endian: bool,
}

impl<'a> Input<'a> {
    fn bytes(self, offset: usize, count: usize) -> Result<&'a [u8], ParseError> {
        let end = offset.checked_add(count);
        end.and_then(|end| self.contents.get(offset..end)).ok_or_else(|| ParseError {
            offset,
            problem: format!(
                "{count} bytes are expected, {} are left",
                self.contents.len().saturating_sub(offset)
            ),
            remedy: REPAIR,
        })
    }

    fn u16(self, offset: usize) -> Result<u16, ParseError> {
        let bytes = self.bytes(offset, 2)?;
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u16::from(*byte));
        Ok(if self.big_endian { value } else { value.swap_bytes() })
    }

    fn u32(self, offset: usize) -> Result<u32, ParseError> {
        let bytes = self.bytes(offset, 4)?;
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        Ok(if self.big_endian { value } else { value.swap_bytes() })
    }
}

/// Returns the bytes that captured frames of a link layer lack compared to their size on the wire; negative if the link
/// layer's header is longer than Ethernet's.
fn missing(link_type: u16, check_sequence: bool, offset: usize) -> Result<i64, ParseError> {
    /// LINKTYPE numbers of tcpdump.org.
    const ETHERNET: u16 = 1;
    const RAW: u16 = 101;
    const COOKED: u16 = 113;
    const IPV4: u16 = 228;
    const IPV6: u16 = 229;
    const COOKED_2: u16 = 276;
    let header = match link_type {
        ETHERNET => ETHERNET_HEADER,
        RAW | IPV4 | IPV6 => 0,
        COOKED => 16,
        COOKED_2 => 20,
        _ => {
            let problem = format!(
                "link type {link_type} is neither Ethernet (1), IP (101, 228, 229) nor cooked (113, 276)"
            );
            return Err(ParseError { offset, problem, remedy: CONVERT });
        }
    };
    let check_sequence = if check_sequence { 0 } else { CHECK_SEQUENCE };
    Ok((ETHERNET_HEADER + check_sequence + PREAMBLE_AND_GAP) as i64 - header as i64)
}

/// Returns the size on the wire of a frame of `length` bytes.
fn wire(length: u32, missing: i64) -> Bytes {
    Bytes::new(u64::from(length).saturating_add_signed(missing).max(MIN_FRAME))
}

/// Replays the packets of a capture.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    capture: Capture,
    /// Index of the next packet.
    next: usize,
    /// When the current repetition began.
    start: Duration,
    /// Duration of a repetition: that of the capture plus one mean gap. `None` if the capture is not repeated.
    round: Option<Duration>,
}

impl Replay {
    /// Creates a replay from the start; `repeat` repeats it for ever.
    pub(super) fn new(capture: Capture, repeat: bool) -> Replay {
        let length = capture.packets.last().map_or(Duration::ZERO, |packet| packet.at);
        let gaps = capture.packets.len() as i64 - 1;
        // A capture whose packets all have the same time cannot be repeated.
        let round = (repeat && length > Duration::ZERO).then(|| length + length / gaps);
        Replay { capture, next: 0, start: Duration::ZERO, round }
    }

    pub(super) fn next(&mut self) -> Option<Emission> {
        if self.next == self.capture.packets.len() {
            self.start += self.round?;
            self.next = 0;
        }
        let packet = self.capture.packets[self.next];
        self.next += 1;
        Some(Emission { at: self.start + packet.at, ..packet })
    }
}

#[cfg(test)]
mod tests;
