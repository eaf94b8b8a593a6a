//! Sends one probe stream.

use crate::clock::{self, Watch};
use crate::pacing;
use crate::protocol::probe::{HEADER_LEN, fill_padding};
use crate::protocol::{Header, Kind, PacketSize, Role, StampSource};
use crate::socket::ProbeSocket;
use crate::stamp::transmit_times;
use headway_units::{Duration, Instant};
use std::io;

/// Number of different paddings prepared for a stream and used in turn.
///
/// They are prepared in advance to keep the sending loop short. 64 of them (92 kB at 1500 bytes) exceed the window
/// of any link with compression, and fit into the L2 cache.
const PADDINGS: usize = 64;

/// The stream to send.
pub(crate) struct Plan<'a> {
    /// Session id of every datagram.
    pub session: u64,
    /// Number of the stream.
    pub stream: u32,
    /// Size of each packet.
    pub size: PacketSize,
    /// Gaps between the packets.
    pub gaps: &'a [Duration],
}

/// The result of sending a stream.
#[derive(Debug)]
pub(crate) struct SentStream {
    /// Departure time of each packet, on CLOCK_REALTIME.
    pub times: Vec<Instant>,
    /// Packets sent, fewer than planned if the stream was cut short.
    pub count: u64,
    /// The source of the times.
    pub source: StampSource,
    /// Whether the gaps were kept.
    pub gaps_kept: bool,
    /// Whether the clock was stepped during the stream or since the one before.
    pub clock_stepped: bool,
}

/// Sends a stream in real time. When `stop`, which is passed CLOCK_MONOTONIC, returns true, the stream is cut
/// short, which counts as gaps not kept.
///
/// # Errors
/// Only if timestamping cannot be switched on; packets that the kernel does not accept count as gaps not kept.
pub(crate) fn send_stream(
    socket: &ProbeSocket,
    plan: &Plan<'_>,
    stop: impl FnMut(Instant) -> bool,
    clock: &mut Watch,
) -> io::Result<SentStream> {
    let count = plan.gaps.len() + 1;
    let mut datagrams = prepare(plan, socket);
    socket.stamp_from_zero()?;
    clock.begin();
    let mut times = Vec::with_capacity(count);
    let mut failed = 0u32;
    let complete = pacing::run(plan.gaps, stop, |index| {
        let datagram = &mut datagrams[index as usize % PADDINGS];
        let sent = clock::realtime();
        let header = Header {
            kind: Kind::Probe,
            role: Role::First,
            session: plan.session,
            stream: plan.stream,
            index,
            count: count as u32,
            sent,
        };
        if let Some(start) = datagram.first_chunk_mut::<HEADER_LEN>() {
            header.write(start);
        }
        times.push(sent);
        failed += u32::from(socket.send(datagram).is_err());
    });
    let clock_stepped = clock.end();
    // A packet that failed may or may not have consumed a number, so timestamps could not be matched to packets.
    let kernel = if complete && failed == 0 { transmit_times(socket, count) } else { None };
    let (mut times, source) = match kernel {
        Some(kernel) => (kernel, StampSource::Kernel),
        None => (times, StampSource::Program),
    };
    let sent = times.len() as u64;
    let gaps_kept = complete && failed == 0 && pacing::gaps_kept(plan.gaps, &times);
    // A stream cut short still reports one time per packet.
    let last = times.last().copied().unwrap_or_default();
    times.resize(count, last);
    Ok(SentStream { times, count: sent, source, gaps_kept, clock_stepped })
}

/// Returns datagrams with padding; their headers are written when they are sent.
fn prepare(plan: &Plan<'_>, socket: &ProbeSocket) -> Vec<Vec<u8>> {
    let length = plan.size.payload(socket.family());
    let seed = plan.session ^ (u64::from(plan.stream) << 32);
    (0..PADDINGS.min(plan.gaps.len() + 1))
        .map(|i| {
            let mut datagram = vec![0; length];
            // The generator uses consecutive seeds itself, so these are far apart.
            fill_padding(seed.wrapping_add((i as u64) << 40), &mut datagram);
            datagram
        })
        .collect()
}
