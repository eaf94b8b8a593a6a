//! What was free, from a capture of the link (rapid 2.16).

use std::path::Path;

use anyhow::Context as _;
use headway_capture::{FileError, Next, Packet, Several, layers};
use headway_estimate::stream::{Passage, TableStream, Truth};
use headway_units::{Bytes, Rate};

/// Bytes of Ethernet around an IP packet: header, frame check sequence, preamble and gap.
const OVERHEAD: u32 = 38;
/// The protocol of the streams.
const UDP: u8 = 17;

/// Reads the capture `path`, in which the packets of `streams` are those to the UDP port `port`.
pub(super) fn read(path: &Path, port: u16, streams: &[TableStream], capacity: Rate) -> anyhow::Result<Truth> {
    let said = || format!("cannot take the truth from {}", path.display());
    let failed = |FileError { error, .. }| error;
    let mut capture = Several::open(&[path.to_owned()]).map_err(failed).with_context(said)?;
    let mut passages = Vec::new();
    loop {
        match capture.next().map_err(failed).with_context(said)? {
            Next::Packet(packet) => passages.push(passage(&packet, port)),
            Next::OddRecord => {}
            Next::Pending | Next::End => break,
        }
    }
    passages.sort_by_key(|passage| passage.at);
    Truth::new(streams, &passages, capacity).with_context(|| format!("{}, with --probe-port {port}", said()))
}

/// A packet that is not IP counts as cross traffic of the length that it had.
fn passage(packet: &Packet<'_>, port: u16) -> Passage {
    /// Header of Ethernet, which captures have.
    const HEADER: u32 = 14;
    let length = layers::ip_length(packet).unwrap_or_else(|_| packet.length.saturating_sub(HEADER));
    let size = Bytes::new((length + OVERHEAD).into());
    Passage { at: packet.at, size, is_probe: destination(packet) == Some(port) }
}

/// The destination port of a UDP packet.
fn destination(packet: &Packet<'_>) -> Option<u16> {
    let (start, _) = layers::network(packet).ok()?;
    let ip = packet.data.get(start..)?;
    let (protocol, header) = match ip.first()? >> 4 {
        4 => (*ip.get(9)?, 4 * usize::from(ip[0] & 15)),
        6 => (*ip.get(6)?, 40),
        _ => return None,
    };
    let port = ip.get(header + 2..header + 4)?;
    (protocol == UDP).then(|| u16::from_be_bytes([port[0], port[1]]))
}
