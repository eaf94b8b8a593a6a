//! Sends a stream of trains, each with one system call.

use crate::batch::{Batch, Queue};
use crate::clock::{self, Watch};
use crate::envelope::Envelope;
use crate::pacing;
use crate::protocol::probe::{HEADER_LEN, padded};
use crate::protocol::{Header, Kind, PacketSize, Role};
use crate::send_batch::{MAX_TRAIN, send_batch};
use crate::socket::ProbeSocket;
use headway_estimate::{Train, TrainSchedule};
use headway_units::{Duration, Instant};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration as Span, Instant as Deadline};

/// Time to wait after the last train for transmit timestamps that are still missing.
const STAMP_WAIT: Span = Span::from_millis(20);

/// Pause between reads of the error queue.
const STAMP_PAUSE: Span = Span::from_micros(500);

/// A router's report that a hidden packet died there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HopReply {
    /// The TTL or hop limit with which the packet was sent, which is the number of the node.
    pub hops: u8,
    /// The address that the node gave itself.
    pub from: IpAddr,
}

/// The result of sending a stream of trains.
#[derive(Debug)]
pub(crate) struct SentTrains {
    /// Departure time of each packet by the kernel, on CLOCK_REALTIME; `None` where it is unknown.
    pub times: Vec<Option<Instant>>,
    /// Routers' reports about hidden packets, without duplicates.
    pub replies: Vec<HopReply>,
    /// Whether all trains were sent.
    pub complete: bool,
    /// Whether the clock was stepped during the stream or since the one before.
    pub clock_stepped: bool,
}

/// Returns the hops of every packet of the trains, 0 for those that are not hidden.
pub(crate) fn hops(trains: &[Train]) -> Vec<u8> {
    let mut hops = Vec::new();
    for train in trains {
        hops.push(0);
        hops.resize(hops.len() + usize::from(train.hidden), train.hops);
        hops.push(0);
    }
    hops
}

/// Returns the gaps between all packets of the trains: none within a train.
pub(crate) fn packet_gaps(schedule: &TrainSchedule) -> Vec<Duration> {
    let mut gaps = Vec::new();
    for (train, after) in schedule.trains.iter().zip(schedule.gaps.iter().map(Some).chain([None])) {
        gaps.resize(gaps.len() + train.packets() - 1, Duration::ZERO);
        gaps.extend(after);
    }
    gaps
}

/// The identity of a stream.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    /// Session id of every datagram.
    pub session: u64,
    /// Number of the stream.
    pub stream: u32,
    /// Size of each packet.
    pub size: PacketSize,
}

/// Sends a stream of trains in real time, unless `stop` returns true.
///
/// # Errors
/// Only if timestamping cannot be switched on; packets that the kernel does not accept make
/// the stream incomplete.
pub(crate) fn send_trains(
    socket: &ProbeSocket,
    identity: Identity,
    schedule: &TrainSchedule,
    stop: impl FnMut(Instant) -> bool,
    clock: &mut Watch,
) -> io::Result<SentTrains> {
    let hops = hops(&schedule.trains);
    let mut datagrams = prepare(identity, socket, &schedule.trains);
    socket.stamp_from_zero()?;
    clock.begin();
    let mut errors = ErrorQueue::new(identity, &hops);
    let (mut next, mut failed) = (0, false);
    let complete = pacing::run(&schedule.gaps, pacing::Wait::Spin, stop, |number| {
        let packets = schedule.trains[number as usize].packets();
        let train = &mut datagrams[..packets];
        write_headers(train, socket.envelope(), identity, next, hops.len());
        failed |= send_batch(socket.as_fd(), socket.family(), train, &hops[next..next + packets]).is_err();
        next += packets;
        // Read now, because a small buffer holds the timestamps of only a few hundred packets.
        errors.read(socket);
    });
    let clock_stepped = clock.end();
    errors.read_until(socket, Deadline::now() + STAMP_WAIT, |queue| queue.missing == 0);
    // A packet that failed may or may not have consumed a number, so timestamps could not
    // be matched to packets.
    let complete = complete && !failed;
    Ok(SentTrains { times: errors.times, replies: errors.replies, complete, clock_stepped })
}

/// Waits for more reports about the hidden packets of a stream until `done` returns true for those there are.
pub(crate) fn more_replies(
    socket: &ProbeSocket,
    identity: Identity,
    trains: &[Train],
    replies: &mut Vec<HopReply>,
    wait: Span,
    done: impl Fn(&[HopReply]) -> bool,
) {
    let hops = hops(trains);
    let mut errors = ErrorQueue::new(identity, &hops);
    errors.replies.append(replies);
    errors.read_until(socket, Deadline::now() + wait, |queue| done(&queue.replies));
    *replies = errors.replies;
}

/// Returns datagrams with padding for the longest train; their headers are written when they are sent.
fn prepare(identity: Identity, socket: &ProbeSocket, trains: &[Train]) -> Vec<Vec<u8>> {
    let length = socket.envelope().sent() + identity.size.payload(socket.family());
    let most = trains.iter().map(|train| train.packets()).max().unwrap_or(0).min(MAX_TRAIN);
    padded(identity.session ^ (u64::from(identity.stream) << 32), length, most)
}

/// Writes the headers of one train, whose first packet has the index `first`, of a stream of `count` packets.
fn write_headers(train: &mut [Vec<u8>], envelope: Envelope, identity: Identity, first: usize, count: usize) {
    let last = train.len() - 1;
    let sent = clock::realtime();
    for (i, datagram) in train.iter_mut().enumerate() {
        let role = match i {
            0 => Role::First,
            i if i == last => Role::Last,
            _ => Role::Hidden,
        };
        let header = Header {
            kind: Kind::Probe,
            role,
            session: identity.session,
            stream: identity.stream,
            index: (first + i) as u32,
            count: count as u32,
            sent,
        };
        if let Some(start) = datagram[envelope.sent()..].first_chunk_mut::<HEADER_LEN>() {
            header.write(start);
        }
        envelope.seal(identity.session, datagram);
    }
}

/// Reads transmit timestamps and ICMP errors of one stream.
struct ErrorQueue<'a> {
    identity: Identity,
    hops: &'a [u8],
    batch: Batch,
    times: Vec<Option<Instant>>,
    missing: usize,
    replies: Vec<HopReply>,
}

impl<'a> ErrorQueue<'a> {
    fn new(identity: Identity, hops: &'a [u8]) -> ErrorQueue<'a> {
        let (times, missing) = (vec![None; hops.len()], hops.len());
        ErrorQueue { identity, hops, batch: Batch::new(), times, missing, replies: Vec::new() }
    }

    /// Reads what waits, at most two batches: trains are shorter, and a flood of errors must
    /// not stop the stream.
    fn read(&mut self, socket: &ProbeSocket) -> bool {
        let mut any = false;
        for _ in 0..2 {
            if self.batch.receive(socket.as_fd(), Queue::Errors).is_err() {
                break;
            }
            any = true;
            for message in self.batch.datagrams() {
                let message = message.skip(socket.envelope().sent());
                let stamps = message.stamps;
                if let (Some(id), Some(time)) = (stamps.transmit, stamps.kernel) {
                    if let Some(slot @ None) = self.times.get_mut(id as usize) {
                        *slot = Some(time);
                        self.missing -= 1;
                    }
                } else if let Some(from) = stamps.expired_at
                    && let Some(hops) = quoted_hops(message.start, self.identity, self.hops)
                {
                    let reply = HopReply { hops, from };
                    if !self.replies.contains(&reply) && self.replies.len() < MOST_REPLIES {
                        self.replies.push(reply);
                    }
                }
            }
        }
        any
    }

    /// Reads until `done` or the deadline.
    fn read_until(
        &mut self,
        socket: &ProbeSocket,
        deadline: Deadline,
        done: impl Fn(&ErrorQueue<'_>) -> bool,
    ) {
        loop {
            while self.read(socket) && Deadline::now() < deadline {}
            if done(self) || Deadline::now() >= deadline {
                return;
            }
            std::thread::sleep(STAMP_PAUSE);
        }
    }
}

/// Most different replies kept: a few addresses for each of the hops there can be.
const MOST_REPLIES: usize = 256;

/// Returns the hops of the hidden packet that a router quotes; `None` unless the quote has the session's
/// random number, which strangers cannot know, and is a hidden packet of this stream.
fn quoted_hops(quote: &[u8], identity: Identity, hops: &[u8]) -> Option<u8> {
    let header = Header::parse(quote).ok()?;
    let ours = header.session == identity.session && header.stream == identity.stream;
    let hidden = header.kind == Kind::Probe && header.role == Role::Hidden;
    hops.get(header.index as usize).copied().filter(|hops| ours && hidden && *hops != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Carrier, Family};
    use headway_units::Bytes;

    const TRAIN: Train = Train { hidden: 2, hops: 3 };

    #[test]
    fn trains_become_packets() {
        let schedule = TrainSchedule {
            packet: Bytes::new(1538),
            trains: vec![TRAIN, Train::PAIR],
            gaps: vec![Duration::from_ms(7)],
        };
        assert_eq!(hops(&schedule.trains), [0, 3, 3, 0, 0, 0]);
        let ns: Vec<i64> = packet_gaps(&schedule).iter().map(|gap| gap.ns()).collect();
        assert_eq!(ns, [0, 0, 0, 7_000_000, 0]);
    }

    #[test]
    fn only_quotes_of_own_hidden_packets_count() {
        let identity = Identity { session: 77, stream: 4, size: PacketSize::SMALLEST };
        let hops = hops(&[TRAIN]);
        for carrier in [Carrier::Udp, Carrier::Icmp] {
            let envelope = Envelope { carrier, family: Family::V4 };
            let mut train = vec![vec![0; 48]; 4];
            write_headers(&mut train, envelope, identity, 0, 4);
            let [first, hidden] = [0, 1].map(|at| &train[at][envelope.sent()..]);
            assert_eq!(quoted_hops(hidden, identity, &hops), Some(3));
            assert_eq!(quoted_hops(first, identity, &hops), None, "not hidden");
            assert_eq!(quoted_hops(&hidden[..20], identity, &hops), None, "a short quote");
            assert_eq!(quoted_hops(hidden, Identity { session: 78, ..identity }, &hops), None);
            assert_eq!(quoted_hops(hidden, Identity { stream: 5, ..identity }, &hops), None);
        }
    }
}
