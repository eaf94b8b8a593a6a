//! Sends one probe stream.

use crate::clock::{self, Watch};
use crate::frames::FrameSender;
use crate::pacing::{self, Wait};
use crate::protocol::probe::{HEADER_LEN, padded};
use crate::protocol::{Family, Header, Kind, PacketSize, Role, StampSource};
use crate::socket::ProbeSocket;
use crate::stamp::transmit_times;
use headway_units::{Duration, Instant};
use std::io;

/// Number of different paddings prepared for a stream and used in turn.
///
/// They are prepared in advance to keep the sending loop short. 64 of them (92 kB at 1500 bytes) exceed the
/// window of any link with compression, and fit into the L2 cache.
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
/// Only if timestamping cannot be switched on; packets that the kernel does not accept
/// count as gaps not kept.
pub(crate) fn send_stream(
    socket: &ProbeSocket,
    plan: &Plan<'_>,
    wait: Wait,
    stop: impl FnMut(Instant) -> bool,
    clock: &mut Watch,
) -> io::Result<SentStream> {
    let count = plan.gaps.len() + 1;
    let mut datagrams = prepare(plan, socket.family());
    socket.stamp_from_zero()?;
    clock.begin();
    let mut times = Vec::with_capacity(count);
    let mut failed = 0u32;
    let complete = pacing::run(plan.gaps, wait, stop, |index| {
        let datagram = &mut datagrams[index as usize % PADDINGS];
        let sent = clock::realtime();
        plan.write_header(index, sent, datagram);
        times.push(sent);
        failed += u32::from(socket.send(datagram).is_err());
    });
    let clock_stepped = clock.end();
    // A packet that failed may or may not have consumed a number, so timestamps could not
    // be matched to packets.
    let kernel = if complete && failed == 0 { transmit_times(socket, count) } else { None };
    let (times, source) = match kernel {
        Some(kernel) => (kernel, StampSource::Kernel),
        None => (times, StampSource::Program),
    };
    Ok(plan.sent(times, source, complete && failed == 0, clock_stepped))
}

/// Sends a stream as [`send_stream`] does, with PAUSE frames between its packets. Departures are those on
/// the line, which this program computes: stamps would say when the driver got a packet, up to
/// milliseconds before.
///
/// # Errors
/// Same as `sendmmsg`.
pub(crate) fn send_frames(
    frames: &FrameSender,
    family: Family,
    plan: &Plan<'_>,
    stop: impl FnMut(Instant) -> bool,
    clock: &mut Watch,
) -> io::Result<SentStream> {
    let mut datagrams = prepare(plan, family);
    let mut departures = frames.clock();
    let mut due = Instant::ZERO;
    departures.schedule(0, due, plan.size.wire());
    for gap in plan.gaps {
        due += *gap;
        departures.schedule(0, due, plan.size.wire());
    }
    clock.begin();
    let offset = clock::wall_offset();
    let mut times = Vec::with_capacity(plan.gaps.len() + 1);
    let complete = frames.run(&mut departures, stop, |_, departure, payload| {
        let index = times.len();
        let datagram = &mut datagrams[index % PADDINGS];
        plan.write_header(index as u32, departure + offset, datagram);
        payload.extend_from_slice(datagram);
        times.push(departure + offset);
    })?;
    let clock_stepped = clock.end();
    Ok(plan.sent(times, StampSource::Program, complete, clock_stepped))
}

impl Plan<'_> {
    /// Writes the header of a packet.
    fn write_header(&self, index: u32, sent: Instant, datagram: &mut [u8]) {
        let header = Header {
            kind: Kind::Probe,
            role: Role::First,
            session: self.session,
            stream: self.stream,
            index,
            count: self.gaps.len() as u32 + 1,
            sent,
        };
        if let Some(start) = datagram.first_chunk_mut::<HEADER_LEN>() {
            header.write(start);
        }
    }

    /// Returns what came of sending, with the departures so far.
    fn sent(
        &self,
        mut times: Vec<Instant>,
        source: StampSource,
        complete: bool,
        clock_stepped: bool,
    ) -> SentStream {
        let count = times.len() as u64;
        let gaps_kept = complete && pacing::gaps_kept(self.gaps, &times);
        // A stream cut short still reports one time per packet.
        let last = times.last().copied().unwrap_or_default();
        times.resize(self.gaps.len() + 1, last);
        SentStream { times, count, source, gaps_kept, clock_stepped }
    }
}

/// Returns datagrams with padding; their headers are written when they are sent.
fn prepare(plan: &Plan<'_>, family: Family) -> Vec<Vec<u8>> {
    let seed = plan.session ^ (u64::from(plan.stream) << 32);
    padded(seed, plan.size.payload(family), PADDINGS.min(plan.gaps.len() + 1))
}
