//! Packet captures: times and wire sizes of the packets in a pcap or pcapng file.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headway_capture::file::{CONVERT, REPAIR};
use headway_capture::{Next, Packet, ReadError, Reader};
use headway_units::{Bytes, Duration};
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
        offset: u64,
        /// The error.
        problem: String,
        /// What the user can do.
        remedy: &'static str,
    },
}

impl Capture {
    /// Reads a pcap file (timestamps in micro- or nanoseconds, either byte order) or a pcapng file.
    ///
    /// # Errors
    /// [`CaptureError`] if the file is missing, corrupt, without packets, or of a link layer other than Ethernet, IP
    /// and Linux cooked capture.
    pub(crate) fn read(path: &Path) -> Result<Capture, CaptureError> {
        let unreadable = |source| CaptureError::Unreadable { path: path.to_owned(), source };
        let file = headway_input::open(path, headway_input::CAPTURE).map_err(unreadable)?;
        Capture::parse(path, file)
    }

    /// Parses a stream; `path` is only used in errors.
    ///
    /// # Errors
    /// As [`Capture::read`], except for missing files.
    pub fn parse(path: &Path, contents: impl Read) -> Result<Capture, CaptureError> {
        let packets = parse(contents).map_err(|error| {
            let (offset, problem, remedy) = match error {
                ReadError::Io(source) => return CaptureError::Unreadable { path: path.to_owned(), source },
                ReadError::Cut { offset, expected, left } => {
                    (offset, format!("{expected} bytes are expected, {left} are left"), REPAIR)
                }
                ReadError::Corrupt { offset, problem, remedy } => (offset, problem, remedy),
            };
            CaptureError::Corrupt { path: path.to_owned(), offset, problem, remedy }
        })?;
        Ok(Capture { path: path.to_owned(), packets: packets.into() })
    }

    /// Reads the file named in the description, unless it has been read; a relative path is relative to `folder`, and becomes
    /// absolute.
    ///
    /// # Errors
    /// As [`Capture::read`].
    pub fn load(&mut self, folder: &Path) -> Result<(), CaptureError> {
        if self.packets.is_empty() {
            let path = folder.join(&self.path);
            self.packets = Capture::read(&path)?.packets;
            self.path = std::path::absolute(&path).unwrap_or(path);
        }
        Ok(())
    }

    /// Returns the file, as named until it is read.
    pub fn path(&self) -> &Path {
        &self.path
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

/// Reads all packets. Returns them sorted by time, with the first at zero.
fn parse(contents: impl Read) -> Result<Vec<Emission>, ReadError> {
    let mut reader = Reader::new(contents);
    let mut packets = Vec::new();
    loop {
        match reader.next()? {
            Next::Packet(packet) => packets.push((packet.at, wire(&packet)?)),
            Next::OddRecord => {}
            // Streams that can be pending are not read here; one would end like a file.
            Next::Pending | Next::End => break,
        }
    }
    // Captures from several queues may be slightly out of order.
    packets.sort_by_key(|(at, _)| *at);
    let corrupt = |problem: &str, remedy| {
        let (offset, problem) = (reader.position(), problem.to_owned());
        Err(ReadError::Corrupt { offset, problem, remedy })
    };
    let [(start, _), ..] = packets[..] else {
        return corrupt("the capture contains no packets", "capture some traffic");
    };
    // The time between two stamps is counted in 63 bits.
    if packets.last().is_some_and(|(end, _)| end.ns() - start.ns() > i64::MAX as u64) {
        return corrupt("its time stamps lie more than 292 years apart", REPAIR);
    }
    Ok(packets.into_iter().map(|(time, size)| Emission { at: time - start, size }).collect())
}

/// Returns the size of a packet on the wire.
fn wire(packet: &Packet<'_>) -> Result<Bytes, ReadError> {
    let Some(header) = packet.link.header() else {
        let problem = format!(
            "{} is neither Ethernet (1), IP (101, 228, 229), loopback (0, 108) nor cooked (113, 276)",
            packet.link
        );
        return Err(ReadError::Corrupt { offset: packet.declared, problem, remedy: CONVERT });
    };
    let check_sequence = if packet.check_sequence { 0 } else { CHECK_SEQUENCE };
    let complete = u64::from(packet.length) + ETHERNET_HEADER + check_sequence + PREAMBLE_AND_GAP;
    Ok(Bytes::new(complete.saturating_sub(header as u64).max(MIN_FRAME)))
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
