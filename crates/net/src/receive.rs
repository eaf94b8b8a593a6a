//! Receives one probe stream.
//!
//! The kernel timestamps packets on arrival, so there is no hurry to read them. A wake-up per packet would
//! take time from the sender's pacing on a small machine, and between processors it costs more than the
//! packet itself. So this code waits once, for the first packet, and then sleeps for intervals short enough
//! that the receive buffer cannot overflow.

use crate::batch::{BATCH, Batch, Datagram, Queue};
use crate::channel::{Channel, ChannelError};
use crate::clock::{self, Watch};
use crate::protocol::{Header, Kind, Message, PacketSize, Role};
use crate::socket::{ProbeSocket, STOP_CHECK, readable};
use crate::stamp::ArrivalStamps;
use headway_units::Duration;
use std::os::fd::AsFd;
use std::time::{Duration as Span, Instant};

/// The longest sleep between two reads of the receive buffer: delays the end of a stream
/// by at most this much.
const LONGEST_POLL_INTERVAL: Span = Span::from_millis(2);

/// The shortest sleep. Even shorter ones would amount to a wake-up per packet again.
const SHORTEST_POLL_INTERVAL: Span = Span::from_micros(200);

/// Time beyond a stream's planned duration after which it is given up, to allow for a slow
/// start and a late end.
const GIVE_UP_AFTER: Span = Span::from_secs(10);

/// Batches read in a row before the control connection is checked again: more than any receive buffer holds,
/// so only a flood reaches it.
const DRAIN_BATCHES: usize = 1024;

/// The properties that arriving packets must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// Session id of every datagram.
    pub session: u64,
    /// Number of the stream.
    pub stream: u32,
    /// Packets in the stream.
    pub count: u32,
    /// Size of each packet.
    pub size: PacketSize,
    /// Planned time from first to last packet.
    pub duration: Duration,
    /// Hops after which each packet is dropped, 0 for packets that must arrive; empty if all must.
    pub hops: &'a [u8],
}

impl Expected<'_> {
    /// Whether the packet with this index is hidden.
    fn is_hidden(&self, index: usize) -> bool {
        self.hops.get(index).is_some_and(|hops| *hops != 0)
    }

    /// Returns the number of packets that must arrive.
    fn ordinary(&self) -> u32 {
        self.count - self.hops.iter().filter(|hops| **hops != 0).count() as u32
    }
}

/// Counts of datagrams that did not belong to the stream or were irregular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Irregular {
    /// Not one of Headway's datagrams, or with a wrong field or length.
    pub malformed: u64,
    /// Of another session.
    pub wrong_session: u64,
    /// Duplicates of packets, and packets of earlier streams.
    pub replayed: u64,
    /// Arrived after a packet with a higher index; counted but not dropped.
    pub reordered: u64,
    /// Of another kind or a later stream than expected.
    pub unexpected: u64,
}

/// The received packets of a stream.
#[derive(Debug)]
pub(crate) struct ReceivedStream {
    /// Timestamps by index; `None` for packets that did not arrive.
    pub arrivals: Vec<Option<ArrivalStamps>>,
    /// Whether each hidden packet arrived, by index; empty if the stream has none.
    pub hidden_seen: Vec<bool>,
    /// Duplicate packets of this stream.
    pub duplicates: u32,
    /// Counts of irregular datagrams.
    pub irregular: Irregular,
    /// Whether the clock was stepped during the stream or since the one before.
    pub clock_stepped: bool,
}

/// Separates the packets of one stream from other datagrams.
pub(crate) struct Sorter<'a> {
    expected: Expected<'a>,
    payload: usize,
    highest: Option<u32>,
    missing: u32,
    received: ReceivedStream,
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(expected: Expected<'a>, payload: usize) -> Sorter<'a> {
        Sorter {
            expected,
            payload,
            highest: None,
            missing: expected.ordinary(),
            received: ReceivedStream {
                arrivals: vec![None; expected.count as usize],
                hidden_seen: vec![false; expected.hops.len()],
                duplicates: 0,
                irregular: Irregular::default(),
                clock_stepped: false,
            },
        }
    }

    /// Processes one datagram.
    pub(crate) fn take(&mut self, datagram: &Datagram<'_>, now: headway_units::Instant) {
        let irregular = &mut self.received.irregular;
        let Ok(header) = Header::parse(datagram.start) else {
            irregular.malformed += 1;
            return;
        };
        let expected = &self.expected;
        if header.session != expected.session {
            irregular.wrong_session += 1;
        } else if header.kind == Kind::Size {
            // A late duplicate of a size test that has already been answered.
        } else if header.kind != Kind::Probe || header.stream > expected.stream {
            irregular.unexpected += 1;
        } else if header.stream < expected.stream {
            irregular.replayed += 1;
        } else if header.count != expected.count
            || datagram.length != self.payload
            || expected.is_hidden(header.index as usize) != (header.role == Role::Hidden)
        {
            irregular.malformed += 1;
        } else if header.role == Role::Hidden {
            let Some(seen) = self.received.hidden_seen.get_mut(header.index as usize) else { return };
            irregular.replayed += u64::from(std::mem::replace(seen, true));
        } else if let Some(slot) = self.received.arrivals.get_mut(header.index as usize) {
            if slot.is_some() {
                irregular.replayed += 1;
                self.received.duplicates += 1;
                return;
            }
            *slot = Some(ArrivalStamps {
                hardware: datagram.stamps.hardware,
                kernel: datagram.stamps.kernel,
                program: now,
            });
            self.missing -= 1;
            irregular.reordered += u64::from(self.highest.is_some_and(|highest| header.index < highest));
            self.highest = self.highest.max(Some(header.index));
        }
    }
}

/// Counts and drops the datagrams waiting in a socket before a stream is announced as ready.
pub(crate) fn drain_stale(socket: &ProbeSocket, session: u64, stream: u32) -> Irregular {
    let size = PacketSize::SMALLEST;
    // A stream without packets accepts none, so everything that waits is counted as irregular.
    let expected = Expected { session, stream, count: 0, size, duration: Duration::ZERO, hops: &[] };
    let mut sorter = Sorter::new(expected, 0);
    let mut batch = Batch::new();
    drain(socket, &mut batch, &mut sorter);
    sorter.received.irregular
}

/// Reads waiting datagrams, at most [`DRAIN_BATCHES`] batches, and returns their number.
fn drain(socket: &ProbeSocket, batch: &mut Batch, sorter: &mut Sorter<'_>) -> usize {
    let before = socket.envelope().received();
    let mut total = 0;
    for _ in 0..DRAIN_BATCHES {
        match batch.receive(socket.as_fd(), Queue::Data) {
            Ok(count) => {
                let now = clock::realtime();
                batch.datagrams().for_each(|datagram| sorter.take(&datagram.skip(before), now));
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

/// Receives a stream until a control message arrives that ends it and then all packets have arrived or the
/// time for late ones is over.
///
/// `end` returns the time to wait for late packets if the message ends the stream.
///
/// # Errors
/// Any [`ChannelError`]; [`ChannelError::Timeout`] if the stream does not end within [`GIVE_UP_AFTER`] after
/// its planned duration.
pub(crate) fn receive_stream(
    socket: &ProbeSocket,
    channel: &mut Channel,
    clock: &mut Watch,
    expected: Expected<'_>,
    end: impl Fn(&Message) -> Option<Span>,
) -> Result<(ReceivedStream, Message), ChannelError> {
    let mut sorter = Sorter::new(expected, expected.size.payload(socket.family()));
    let mut batch = Batch::new();
    let shortest = poll_interval(socket, &expected);
    let mut interval = shortest;
    clock.begin();
    // In slices, so that the stop flag of the channel is checked often.
    let slice = |left: Span| left.min(STOP_CHECK);
    let give_up = Instant::now() + expected.duration.to_std() + GIVE_UP_AFTER;
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
            // A late transmit timestamp would keep the socket readable forever.
            socket.discard(Queue::Errors);
            readable([channel.as_fd(), socket.as_fd()], slice(left))?;
        } else {
            interval = next_poll_interval(interval, shortest, arrived);
            std::thread::sleep(interval);
        }
    };
    if let Some(grace) = end(&message) {
        let until = Instant::now() + grace;
        drain(socket, &mut batch, &mut sorter);
        while sorter.missing > 0 && Instant::now() < until {
            std::thread::sleep(interval.min(until.saturating_duration_since(Instant::now())));
            drain(socket, &mut batch, &mut sorter);
        }
    }
    sorter.received.clock_stepped = clock.end();
    Ok((sorter.received, message))
}

/// Returns the next sleep, given that the last one brought `arrived` packets. While none arrive the buffer
/// cannot overflow, and a sender that announces close packets but sends none must not keep this side polling.
fn next_poll_interval(interval: Span, shortest: Span, arrived: usize) -> Span {
    if arrived > 0 { shortest } else { (interval * 2).min(LONGEST_POLL_INTERVAL) }
}

/// Returns the sleep between two reads of the receive buffer: a quarter of the time in which the
/// stream could fill it.
fn poll_interval(socket: &ProbeSocket, expected: &Expected<'_>) -> Span {
    let gap = expected.duration.to_std() / expected.count.max(1);
    (socket.buffer_time(expected.size, gap) / 4).clamp(SHORTEST_POLL_INTERVAL, LONGEST_POLL_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_nothing_comes() {
        let mut interval = SHORTEST_POLL_INTERVAL;
        let intervals: Vec<u128> = (0..5)
            .map(|_| {
                interval = next_poll_interval(interval, SHORTEST_POLL_INTERVAL, 0);
                interval.as_micros()
            })
            .collect();
        assert_eq!(intervals, [400, 800, 1600, 2000, 2000]);
        assert_eq!(next_poll_interval(interval, SHORTEST_POLL_INTERVAL, 1), SHORTEST_POLL_INTERVAL);
    }
}
