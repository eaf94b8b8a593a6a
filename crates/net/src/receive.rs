//! Receiving one probe stream.
//!
//! The kernel stamps packets when they arrive, so there is no hurry to read them: a wake-up per packet would take
//! time from the sender's pacing on a small machine and, between processors, costs more than the packet itself.
//! Hence one wait for the first packet, and then sleeps that are short enough for the receive buffer not to overflow.

use crate::batch::{BATCH, Batch, Datagram, Queue};
use crate::channel::{Channel, ChannelError};
use crate::clock::{self, Watch};
use crate::protocol::{Header, Kind, Message, PacketSize};
use crate::socket::{ProbeSocket, STOP_CHECK, readable};
use crate::stamp::ArrivalStamps;
use headway_core::Duration;
use std::os::fd::AsFd;
use std::time::{Duration as Span, Instant};

/// The longest sleep between two looks at a receive buffer: adds this much at most to the time a stream takes.
const LONGEST_NAP: Span = Span::from_millis(2);

/// The shortest one. Shorter sleeps would be a wake-up per packet again.
const SHORTEST_NAP: Span = Span::from_micros(200);

/// Slack on top of a stream's planned duration before it is given up, for a slow start and a late end.
const PATIENCE: Span = Span::from_secs(10);

/// Batches read in one go before the control connection is looked at again: more than any receive buffer holds, so
/// that only a flood meets it.
const DRAIN_BATCHES: usize = 1024;

/// What arrives is compared with this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Session id of every datagram.
    pub session: u64,
    /// Number of the stream.
    pub stream: u32,
    /// Packets in the stream.
    pub count: u32,
    /// Size of each.
    pub size: PacketSize,
    /// Planned time from first to last packet.
    pub duration: Duration,
}

/// Datagrams that were not packets of the stream, or not as they should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// Not one of our datagrams, or with a wrong field or length.
    pub malformed: u64,
    /// Of another session.
    pub wrong_session: u64,
    /// Copies of packets that had arrived, or packets of earlier streams.
    pub replayed: u64,
    /// Arrived after a packet with a higher index; counted, not dropped.
    pub reordered: u64,
    /// Of another kind or a later stream than expected.
    pub unexpected: u64,
}

/// What arrived.
#[derive(Debug)]
pub(crate) struct ReceivedStream {
    /// Stamps by index; `None` for packets that did not come.
    pub arrivals: Vec<Option<ArrivalStamps>>,
    /// Copies of packets of this stream.
    pub duplicates: u32,
    /// Everything odd.
    pub oddities: Oddities,
    /// Whether the clock was stepped meanwhile or since the stream before.
    pub clock_stepped: bool,
}

/// Sorts datagrams into the packets of one stream and the rest.
pub(crate) struct Sorter {
    expected: Expected,
    payload: usize,
    highest: Option<u32>,
    missing: u32,
    received: ReceivedStream,
}

impl Sorter {
    pub(crate) fn new(expected: Expected, payload: usize) -> Sorter {
        Sorter {
            expected,
            payload,
            highest: None,
            missing: expected.count,
            received: ReceivedStream {
                arrivals: vec![None; expected.count as usize],
                duplicates: 0,
                oddities: Oddities::default(),
                clock_stepped: false,
            },
        }
    }

    /// Takes one datagram.
    pub(crate) fn take(&mut self, datagram: &Datagram<'_>, now: headway_core::Instant) {
        let odd = &mut self.received.oddities;
        let Ok(header) = Header::parse(datagram.start) else {
            odd.malformed += 1;
            return;
        };
        let expected = &self.expected;
        if header.session != expected.session {
            odd.wrong_session += 1;
        } else if header.kind == Kind::Size {
            // Further copies from a size test whose answer is known.
        } else if header.kind != Kind::Probe || header.stream > expected.stream {
            odd.unexpected += 1;
        } else if header.stream < expected.stream {
            odd.replayed += 1;
        } else if header.count != expected.count || datagram.length != self.payload {
            odd.malformed += 1;
        } else if let Some(slot) = self.received.arrivals.get_mut(header.index as usize) {
            if slot.is_some() {
                odd.replayed += 1;
                self.received.duplicates += 1;
                return;
            }
            *slot = Some(ArrivalStamps {
                hardware: datagram.stamps.hardware,
                kernel: datagram.stamps.kernel,
                program: now,
            });
            self.missing -= 1;
            odd.reordered += u64::from(self.highest.is_some_and(|highest| header.index < highest));
            self.highest = self.highest.max(Some(header.index));
        }
    }
}

/// Counts and drops what waits in a socket before a stream is announced as ready.
pub(crate) fn drain_stale(socket: &ProbeSocket, session: u64, stream: u32) -> Oddities {
    let size = PacketSize::SMALLEST;
    // A stream without packets takes nothing, so everything that waits is odd.
    let expected = Expected { session, stream, count: 0, size, duration: Duration::ZERO };
    let mut sorter = Sorter::new(expected, 0);
    let mut batch = Batch::new();
    drain(socket, &mut batch, &mut sorter);
    sorter.received.oddities
}

/// Reads what has arrived, at most [`DRAIN_BATCHES`] batches; how many datagrams.
fn drain(socket: &ProbeSocket, batch: &mut Batch, sorter: &mut Sorter) -> usize {
    let mut total = 0;
    for _ in 0..DRAIN_BATCHES {
        match batch.receive(socket.as_fd(), Queue::Data) {
            Ok(count) => {
                let now = clock::realtime();
                batch.datagrams().for_each(|datagram| sorter.take(&datagram, now));
                total += count;
                if count < BATCH {
                    break;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(_) => break,
        }
    }
    total
}

/// Receives a stream until all packets are there and `end` accepts a control message, or the stragglers' time is over.
///
/// `end` returns the time to wait for stragglers if the message ends the stream.
///
/// # Errors
/// Any [`ChannelError`]; [`ChannelError::Timeout`] when the stream does not end long after it should have.
pub(crate) fn receive_stream(
    socket: &ProbeSocket,
    channel: &mut Channel,
    clock: &mut Watch,
    expected: Expected,
    end: impl Fn(&Message) -> Option<Span>,
) -> Result<(ReceivedStream, Message), ChannelError> {
    let mut sorter = Sorter::new(expected, expected.size.payload(socket.family()));
    let mut batch = Batch::new();
    let shortest = nap(socket, &expected);
    let mut nap = shortest;
    clock.begin();
    // In slices, so that a flag on the channel that asks to stop is seen soon.
    let slice = |left: Span| left.min(STOP_CHECK);
    let give_up = Instant::now() + expected.duration.to_std() + PATIENCE;
    let message = loop {
        let arrived = drain(socket, &mut batch, &mut sorter);
        if let Some(message) = channel.try_receive()? {
            break message;
        }
        let left = give_up.saturating_duration_since(Instant::now());
        if left == Span::ZERO {
            return Err(ChannelError::Timeout);
        }
        if sorter.missing == 0 {
            readable([channel.as_fd()], slice(left))?;
        } else if arrived == 0 && sorter.highest.is_none() {
            // A transmit stamp that came late would make the socket look readable for ever.
            socket.discard(Queue::Errors);
            readable([channel.as_fd(), socket.as_fd()], slice(left))?;
        } else {
            nap = next_nap(nap, shortest, arrived);
            std::thread::sleep(nap);
        }
    };
    if let Some(straggler) = end(&message) {
        let until = Instant::now() + straggler;
        drain(socket, &mut batch, &mut sorter);
        while sorter.missing > 0 && Instant::now() < until {
            std::thread::sleep(nap.min(until.saturating_duration_since(Instant::now())));
            drain(socket, &mut batch, &mut sorter);
        }
    }
    sorter.received.clock_stepped = clock.end();
    Ok((sorter.received, message))
}

/// The sleep after one that brought `arrived` packets: while none come there is nothing to overflow, and a sender that
/// announces close packets and sends none must not keep this side looking.
fn next_nap(nap: Span, shortest: Span, arrived: usize) -> Span {
    if arrived > 0 { shortest } else { (nap * 2).min(LONGEST_NAP) }
}

/// The sleep between two looks at the receive buffer: a quarter of the time in which the stream could fill it.
fn nap(socket: &ProbeSocket, expected: &Expected) -> Span {
    let gap = expected.duration.to_std() / expected.count.max(1);
    (socket.buffer_time(expected.size, gap) / 4).clamp(SHORTEST_NAP, LONGEST_NAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_nothing_comes() {
        let mut nap = SHORTEST_NAP;
        let naps: Vec<u128> = (0..5)
            .map(|_| {
                nap = next_nap(nap, SHORTEST_NAP, 0);
                nap.as_micros()
            })
            .collect();
        assert_eq!(naps, [400, 800, 1600, 2000, 2000]);
        assert_eq!(next_nap(nap, SHORTEST_NAP, 1), SHORTEST_NAP);
    }
}
