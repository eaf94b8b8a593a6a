//! Packet captures: times and wire sizes of the packets in a pcap or pcapng file.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headway_capture::file::REPAIR;
use headway_capture::layers::{self, Stop};
use headway_capture::{Next, Packet, ReadError, Reader, Timing, Unpacked};
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
    /// What of the file is not among them, in sentences.
    left_out: Arc<[String]>,
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
    /// Reads a capture of any format that [`Reader`] knows, packed with gzip or not.
    ///
    /// # Errors
    /// [`CaptureError`] if the file is missing, corrupt, or without packets that can be read.
    pub(crate) fn read(path: &Path) -> Result<Capture, CaptureError> {
        let unreadable = |source| CaptureError::Unreadable { path: path.to_owned(), source };
        let file = headway_input::open(path, headway_input::CAPTURE).map_err(unreadable)?;
        Capture::parse(path, Unpacked::new(file).take(headway_input::CAPTURE))
    }

    /// Parses a stream; `path` is only used in errors.
    ///
    /// # Errors
    /// As [`Capture::read`], except for missing files.
    pub fn parse(path: &Path, contents: impl Read) -> Result<Capture, CaptureError> {
        let (packets, left_out) = parse(contents).map_err(|error| {
            let (offset, problem, remedy) = match error {
                ReadError::Io(source) => return CaptureError::Unreadable { path: path.to_owned(), source },
                ReadError::Cut { offset, expected, left } => {
                    (offset, format!("{expected} bytes are expected, {left} are left"), REPAIR)
                }
                ReadError::Corrupt { offset, problem, remedy } => (offset, problem, remedy),
            };
            CaptureError::Corrupt { path: path.to_owned(), offset, problem, remedy }
        })?;
        Ok(Capture { path: path.to_owned(), packets: packets.into(), left_out: left_out.into() })
    }

    /// Reads the file named in the description, unless it has been read; a relative path is relative to
    /// `folder`, and becomes absolute.
    ///
    /// # Errors
    /// As [`Capture::read`].
    pub fn load(&mut self, folder: &Path) -> Result<(), CaptureError> {
        if self.packets.is_empty() {
            let path = folder.join(&self.path);
            let Capture { packets, left_out, .. } = Capture::read(&path)?;
            (self.packets, self.left_out) = (packets, left_out);
            self.path = std::path::absolute(&path).unwrap_or(path);
        }
        Ok(())
    }

    /// Returns the file, as named until it is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns sentences about what of the file is left out, such as packets with a wrong time stamp.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns all packets; at least one after the file has been read.
    pub fn packets(&self) -> &[Emission] {
        &self.packets
    }
}

impl From<PathBuf> for Capture {
    /// A capture that has not been read yet.
    fn from(path: PathBuf) -> Capture {
        Capture { path, packets: Arc::new([]), left_out: Arc::new([]) }
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

/// What is left out of a capture, in packets, and where it is cut off.
#[derive(Default)]
struct LeftOut {
    odd: u64,
    wrong: u64,
    unread: u64,
    cut: Option<ReadError>,
}

impl LeftOut {
    fn sentences(self) -> Vec<String> {
        let counts = [
            (self.odd, "records have no time stamp, no bytes, or numbers that make no sense"),
            (self.wrong, "packets have time stamps that those before and after them contradict"),
            (
                self.unread,
                "packets have a link layer that is not read, or one without IP whose length is unknown",
            ),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let sentences = counts.map(|(count, what)| format!("{count} {what}"));
        sentences.chain(self.cut.map(|error| format!("the file is cut off: {error}"))).collect()
    }
}

/// Reads all packets. Returns them sorted by time, with the first at zero, and what was left out.
fn parse(contents: impl Read) -> Result<(Vec<Emission>, Vec<String>), ReadError> {
    let mut reader = Reader::new(contents);
    let (mut packets, mut left_out, mut timing) = (Vec::new(), LeftOut::default(), Timing::default());
    let mut ended = false;
    while !ended {
        match reader.next() {
            Ok(Next::Packet(packet)) => match wire(&packet) {
                Ok(size) => timing.push(packet.interface, packet.at, size),
                Err(_) => left_out.unread += 1,
            },
            Ok(Next::OddRecord) => left_out.odd += 1,
            // Streams that can be pending are not read here; one would end like a file.
            Ok(Next::Pending | Next::End) => ended = true,
            Err(error @ ReadError::Cut { .. }) => {
                left_out.cut = Some(error);
                ended = true;
            }
            Err(error) => return Err(error),
        }
        while let Some((_, at, size)) = timing.pop(ended) {
            match at {
                Some(at) => packets.push((at, size)),
                None => left_out.wrong += 1,
            }
        }
    }
    // Captures from several queues may be out of order.
    packets.sort_by_key(|(at, _)| *at);
    let [(start, _), ..] = packets[..] else {
        if let Some(error) = left_out.cut {
            return Err(error);
        }
        let found = left_out.sentences().join("; ");
        let but = if found.is_empty() { found } else { format!(" that can be read: {found}") };
        let problem = format!("the capture contains no packets{but}");
        return Err(ReadError::Corrupt {
            offset: reader.position(),
            problem,
            remedy: "capture some traffic",
        });
    };
    let packets = packets.into_iter().map(|(time, size)| Emission { at: time - start, size });
    Ok((packets.collect(), left_out.sentences()))
}

/// Returns the size of a packet on the wire of an Ethernet.
fn wire(packet: &Packet<'_>) -> Result<Bytes, Stop> {
    let missing = if packet.check_sequence { 0 } else { CHECK_SEQUENCE };
    let frame = match packet.link.header() {
        Some(header) => u64::from(packet.length).saturating_sub(header as u64) + ETHERNET_HEADER + missing,
        None => u64::from(layers::ip_length(packet)?) + ETHERNET_HEADER + CHECK_SEQUENCE,
    };
    Ok(Bytes::new((frame + PREAMBLE_AND_GAP).max(MIN_FRAME)))
}

/// Replays the packets of a capture.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    capture: Capture,
    /// Index of the next packet.
    next: usize,
    /// When the current repetition began.
    start: Duration,
    /// Duration of a repetition: that of the capture plus one mean gap. `None` if the
    /// capture is not repeated.
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
