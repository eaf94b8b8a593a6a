//! The client: opens a session with a server and runs streams in either direction.

mod connect;
mod handshake;

use crate::auth::Token;
use crate::channel::{Channel, ChannelError};
use crate::clock::Watch;
use crate::error::NetError;
use crate::pacing;
use crate::protocol::{
    Announce, DEFAULT_PORT, Direction, GapRuns, Message, PacketSize, Report, SentReport, StampSource,
};
use crate::receive::{Expected, receive_stream};
use crate::size_test;
use crate::socket::ProbeSocket;
use crate::stamp::arrival_times;
use crate::tls::TlsClient;
use crate::transmit::{Plan, send_stream};
use headway_core::{Arrival, Bytes, Duration, Instant, Rate, Refusal, Schedule, StreamRecord};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Span, Instant as Deadline};

/// The IP versions a client may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FamilyChoice {
    /// The first one the resolver returns.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// Options for connecting to a server.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name or address.
    pub host: String,
    /// The port for TCP and UDP.
    pub port: u16,
    /// IP versions to use.
    pub family: FamilyChoice,
    /// The shared token, if the server requires one.
    pub token: Option<Token>,
    /// The trusted certificates, to encrypt the control connection.
    pub tls: Option<TlsClient>,
    /// Time limit for each answer of the server.
    pub timeout: Span,
    /// When set, makes every operation fail soon with [`NetError::Interrupted`], except name resolution.
    pub stop: Option<Arc<AtomicBool>>,
}

impl ConnectOptions {
    /// Returns options with the default port, any IP version, no token, no TLS, a timeout of ten seconds and
    /// no stop flag.
    pub fn new(host: impl Into<String>) -> ConnectOptions {
        ConnectOptions {
            host: host.into(),
            port: DEFAULT_PORT,
            family: FamilyChoice::Any,
            token: None,
            tls: None,
            timeout: Span::from_secs(10),
            stop: None,
        }
    }
}

/// The shortest wait for late packets: the peer may be descheduled for a few time slices.
const STRAGGLER_FLOOR: Span = Span::from_millis(20);

/// The longest wait for late packets: one that is delayed by a second counts as lost.
const STRAGGLER_CEILING: Span = Span::from_secs(1);

/// The result of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamOutcome {
    /// All packets with their times; lost ones have no arrival time.
    pub record: StreamRecord,
    /// A reason to discard the stream that its record cannot show: [`Refusal::SenderGaps`] or [`Refusal::ClockStep`].
    pub refusal: Option<Refusal>,
    /// Departure of the first packet, on the sender's CLOCK_REALTIME.
    pub started: Instant,
    /// Departure of the last packet, on the sender's CLOCK_REALTIME.
    pub finished: Instant,
    /// The source of the departure times.
    pub sent_by: StampSource,
    /// The source of the arrival times.
    pub received_by: StampSource,
    /// Duplicate packets that arrived.
    pub duplicates: u32,
}

/// An open session; dropping it ends the session.
pub struct Session {
    channel: Channel,
    socket: ProbeSocket,
    id: u64,
    max_packets: u32,
    reverse_rate: Rate,
    largest: PacketSize,
    timeout: Span,
    rtt: Span,
    next_stream: u32,
    next_ping: u32,
    probe_bytes: Bytes,
    clock: Watch,
    /// The caller's flag, or one that is never set.
    stop: Arc<AtomicBool>,
}

/// A stream that passed the checks on this side.
struct Wanted {
    stream: u32,
    size: PacketSize,
}

impl Session {
    /// Connects, proves token and UDP address, and finds the largest packet that passes in both directions.
    ///
    /// # Errors
    /// Any [`NetError`] except [`NetError::BadStream`].
    pub fn connect(options: &ConnectOptions) -> Result<Session, NetError> {
        connect::connect(options)
    }

    /// Sends a stream to the server, which reports the arrival times of its packets.
    ///
    /// # Errors
    /// [`NetError::Interrupted`], after which the session is unusable; [`NetError::BadStream`], [`NetError::Refused`],
    /// [`NetError::ConnectionLost`], [`NetError::Timeout`], [`NetError::Protocol`] or [`NetError::System`].
    /// Lost packets are not an error.
    pub fn send_stream(&mut self, schedule: &Schedule) -> Result<StreamOutcome, NetError> {
        let began = Deadline::now();
        let wanted = self.announce(schedule, Direction::Forward)?;
        let stream = wanted.stream;
        let plan = Plan { session: self.id, stream, size: wanted.size, gaps: &schedule.gaps };
        let sent = send_stream(&self.socket, &plan, |_| self.stop.load(Ordering::Relaxed), &mut self.clock)?;
        self.go_on()?;
        let straggler = self.straggler();
        self.channel
            .send(&Message::End { stream, straggler_ns: straggler.as_nanos() as u64 })
            .map_err(|error| self.lost(error, "end of a stream"))?;
        let report = match self.receive("report of a stream", straggler)? {
            Message::Report(report) if report.stream == stream => report,
            other => return Err(unexpected(&other)),
        };
        let received = expand(&report, schedule.packets())
            .ok_or_else(|| NetError::Protocol("a report does not fit its stream".to_owned()))?;
        if !report.clock_stepped && span(&received) > longest_span(began.elapsed()) {
            return Err(NetError::Protocol("a report spans more time than has passed".to_owned()));
        }
        let halves = Halves {
            sent: sent.times,
            received,
            sent_by: sent.source,
            received_by: report.source,
            gaps_kept: sent.gaps_kept,
            clock_stepped: sent.clock_stepped || report.clock_stepped,
            duplicates: report.duplicates,
        };
        Ok(halves.join(&wanted, schedule))
    }

    /// Requests a stream from the server and receives it.
    ///
    /// # Errors
    /// Same as [`Session::send_stream`].
    pub fn receive_stream(&mut self, schedule: &Schedule) -> Result<StreamOutcome, NetError> {
        // Datagrams waiting in the socket belong to earlier streams.
        self.socket.discard(crate::batch::Queue::Data);
        let wanted = self.announce(schedule, Direction::Reverse)?;
        let stream = wanted.stream;
        let expected = Expected {
            session: self.id,
            stream,
            count: schedule.packets() as u32,
            size: wanted.size,
            duration: schedule.duration(),
        };
        let straggler = self.straggler();
        let end = |message: &Message| matches!(message, Message::Sent(_)).then_some(straggler);
        let (received, message) =
            receive_stream(&self.socket, &mut self.channel, &mut self.clock, expected, end)
                .map_err(|error| self.lost(error, "reverse stream"))?;
        let report = match message {
            Message::Sent(report) if report.stream == stream => report,
            Message::Refused(reason) => return Err(reason.into()),
            other => return Err(unexpected(&other)),
        };
        let SentReport { times, source, gaps_kept, clock_stepped, .. } = report;
        let sent = times
            .decode(schedule.packets())
            .ok_or_else(|| NetError::Protocol("a report does not fit its stream".to_owned()))?;
        let (arrivals, received_by) = arrival_times(&received.arrivals);
        let halves = Halves {
            // Checked here as well: rates are computed from these times, whatever the server claims.
            gaps_kept: gaps_kept && pacing::gaps_kept(&schedule.gaps, &sent),
            sent,
            received: arrivals,
            sent_by: source,
            received_by,
            clock_stepped: clock_stepped || received.clock_stepped,
            duplicates: received.duplicates,
        };
        Ok(halves.join(&wanted, schedule))
    }

    /// Measures the RTT of the control connection again, and keeps the session from becoming idle.
    ///
    /// # Errors
    /// Same as [`Session::send_stream`].
    pub fn ping(&mut self) -> Result<Duration, NetError> {
        self.next_ping = self.next_ping.wrapping_add(1);
        let number = self.next_ping;
        let start = Deadline::now();
        match self.ask(&Message::Ping { number }, "ping")? {
            Message::Pong { number: returned } if returned == number => {}
            other => return Err(unexpected(&other)),
        }
        let round = start.elapsed();
        self.rtt = self.rtt.min(round);
        Ok(round.into())
    }

    /// Returns the wire size of the largest packet that passes in both directions.
    pub fn packet_size(&self) -> Bytes {
        self.largest.wire()
    }

    /// Returns the maximum number of packets in a stream.
    pub fn max_packets(&self) -> u32 {
        self.max_packets
    }

    /// Returns the highest rate of a stream that the server sends to this side.
    pub fn reverse_rate(&self) -> Rate {
        self.reverse_rate
    }

    /// Returns the bytes sent and received on the control connection, without TCP and IP headers.
    pub fn control_bytes(&self) -> Bytes {
        Bytes::new(self.channel.bytes())
    }

    /// Returns the wire bytes of all probe packets in both directions.
    pub fn probe_bytes(&self) -> Bytes {
        self.probe_bytes
    }

    /// Returns the server's address and port.
    pub fn peer(&self) -> SocketAddr {
        self.socket.peer()
    }

    /// Returns the shortest RTT seen on the control connection.
    pub fn rtt(&self) -> Duration {
        self.rtt.into()
    }

    /// Checks a schedule, announces it and waits until the server is ready.
    fn announce(&mut self, schedule: &Schedule, direction: Direction) -> Result<Wanted, NetError> {
        let size = self.check(schedule)?;
        let stream = self.next_stream;
        self.next_stream += 1;
        let start = Deadline::now();
        let gaps = GapRuns::encode(&schedule.gaps);
        let announce = Message::Announce(Announce { stream, direction, ip_size: size.ip(), gaps });
        match self.ask(&announce, "announcement of a stream")? {
            Message::Ready { stream: ready } if ready == stream => {}
            other => return Err(unexpected(&other)),
        }
        self.rtt = self.rtt.min(start.elapsed());
        self.probe_bytes += schedule.bytes();
        Ok(Wanted { stream, size })
    }

    /// Returns the packet size of a schedule, if the schedule can be sent.
    fn check(&self, schedule: &Schedule) -> Result<PacketSize, NetError> {
        if schedule.gaps.is_empty() {
            return Err(NetError::BadStream("it has fewer than two packets"));
        }
        if schedule.packets() > self.max_packets as usize {
            return Err(NetError::BadStream("it has more packets than the server allows"));
        }
        if schedule.gaps.iter().any(|gap| *gap < Duration::ZERO) {
            return Err(NetError::BadStream("it has a negative gap"));
        }
        let size = PacketSize::from_wire(schedule.packet)
            .ok_or(NetError::BadStream("its packets are too small or too large"))?;
        if size > self.largest {
            return Err(NetError::BadStream("its packets are larger than what passes on this path"));
        }
        Ok(size)
    }

    /// Finds the largest packet size that passes in both directions.
    fn probe_packet_size(&mut self) -> Result<(), NetError> {
        let candidates = size_test::candidates(self.socket.interface_mtu()?);
        let sizes: Vec<PacketSize> = candidates.iter().filter_map(|ip| PacketSize::from_ip(*ip)).collect();
        match self.ask(&Message::SizeTest { sizes: candidates.clone() }, "size test")? {
            Message::SizeReady => {}
            other => return Err(unexpected(&other)),
        }
        let sent = size_test::send_sizes(&self.socket, self.id, &sizes);
        let straggler = self.straggler();
        let end = Message::SizeEnd { straggler_ns: straggler.as_nanos() as u64 };
        self.channel.send(&end).map_err(|error| self.lost(error, "size test"))?;
        let forward = match self.receive("size test", straggler)? {
            Message::SizeReport { arrived } => arrived,
            other => return Err(unexpected(&other)),
        };
        let reverse = size_test::receive_sizes(&self.socket, self.id, &sizes, straggler, &self.stop);
        // A test cut short says nothing about the path.
        self.go_on()?;
        self.probe_bytes += sent * 2;
        let both = reverse.into_iter().filter(|size| forward.contains(&size.ip()));
        let smallest = candidates.last().copied().unwrap_or_default();
        self.largest = both.max().ok_or(NetError::MtuTooSmall { smallest })?;
        Ok(())
    }

    /// Returns how long to wait for late packets: another RTT, within limits.
    fn straggler(&self) -> Span {
        self.rtt.clamp(STRAGGLER_FLOOR, STRAGGLER_CEILING)
    }

    /// Sends a request and waits for its answer; a refusal is an error.
    fn ask(&mut self, request: &Message, what: &'static str) -> Result<Message, NetError> {
        if let Err(error) = self.channel.send(request) {
            // A server that ended the session has sent its reason before closing the connection.
            return match self.channel.try_receive() {
                Ok(Some(Message::Refused(reason))) => Err(reason.into()),
                _ => Err(self.lost(error, what)),
            };
        }
        self.receive(what, Span::ZERO)
    }

    /// Waits for an answer, `extra` longer than the usual timeout; a refusal is an error.
    fn receive(&mut self, what: &'static str, extra: Span) -> Result<Message, NetError> {
        match self.channel.receive(Deadline::now() + self.timeout + extra) {
            Ok(Message::Refused(reason)) => Err(reason.into()),
            Ok(message) => Ok(message),
            Err(error) => Err(self.lost(error, what)),
        }
    }

    /// Returns an error if the caller has set the stop flag.
    fn go_on(&self) -> Result<(), NetError> {
        if self.stop.load(Ordering::Relaxed) { Err(NetError::Interrupted) } else { Ok(()) }
    }

    fn lost(&self, error: ChannelError, what: &'static str) -> NetError {
        channel_error(error, self.timeout, what)
    }
}

/// Converts a failure of the control connection to the caller's error.
fn channel_error(error: ChannelError, timeout: Span, what: &'static str) -> NetError {
    match error {
        ChannelError::Interrupted => NetError::Interrupted,
        ChannelError::Timeout => NetError::Timeout(timeout, what),
        ChannelError::Frame(error) => NetError::Protocol(error.to_string()),
        other => NetError::ConnectionLost(other.to_string()),
    }
}

/// Returns the error for a message that does not answer the request.
fn unexpected(message: &Message) -> NetError {
    NetError::Protocol(format!("unexpected {}", message.name()))
}

/// Returns arrival times by index from a report; `None` if it does not fit a stream of `count` packets.
fn expand(report: &Report, count: usize) -> Option<Vec<Option<Instant>>> {
    let arrived = report.times.decode(count.checked_sub(report.lost.len())?)?;
    let mut arrived = arrived.into_iter();
    let mut lost = report.lost.iter().copied().peekable();
    let times = (0..count as u32)
        .map(|index| if lost.next_if_eq(&index).is_some() { Some(None) } else { arrived.next().map(Some) })
        .collect::<Option<Vec<_>>>()?;
    // Indices that repeat, decrease or are out of range are left over.
    lost.peek().is_none().then_some(times)
}

/// Returns the time between the earliest and the latest arrival.
fn span(times: &[Option<Instant>]) -> Span {
    let known = || times.iter().flatten().map(|time| time.ns());
    Span::from_nanos(known().max().unwrap_or(0) - known().min().unwrap_or(0))
}

/// Returns the most time the server's clock can show for `elapsed` on this side: clocks differ by about 500
/// ppm at most.
fn longest_span(elapsed: Span) -> Span {
    elapsed + elapsed / 1000 + Span::from_millis(1)
}

/// The data of one stream from both ends.
struct Halves {
    sent: Vec<Instant>,
    received: Vec<Option<Instant>>,
    sent_by: StampSource,
    received_by: StampSource,
    gaps_kept: bool,
    clock_stepped: bool,
    duplicates: u32,
}

impl Halves {
    /// Combines the data of both ends.
    fn join(self, wanted: &Wanted, schedule: &Schedule) -> StreamOutcome {
        let refusal = if self.clock_stepped {
            Some(Refusal::ClockStep)
        } else if !self.gaps_kept {
            Some(Refusal::SenderGaps)
        } else {
            None
        };
        let started = self.sent.first().copied().unwrap_or_default();
        let finished = self.sent.last().copied().unwrap_or_default();
        let arrivals = self
            .sent
            .iter()
            .zip(&self.received)
            .zip(0..)
            .map(|((sent, received), index)| Arrival {
                index,
                size: schedule.packet,
                sent: *sent,
                received: *received,
            })
            .collect();
        let record = StreamRecord {
            id: wanted.stream,
            packet: schedule.packet,
            average: schedule.average,
            intended: schedule.gaps.clone(),
            arrivals,
        };
        StreamOutcome {
            record,
            refusal,
            started,
            finished,
            sent_by: self.sent_by,
            received_by: self.received_by,
            duplicates: self.duplicates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TimeList;

    #[test]
    fn no_report_spans_more_time_than_has_passed() {
        let at = |ns| Some(Instant::from_ns(ns));
        let second = Span::from_secs(1);
        assert_eq!(span(&[at(5_000_000_000), None, at(4_000_000_000)]), second, "in any order");
        assert_eq!((span(&[]), span(&[None, None]), span(&[at(7)])), (Span::ZERO, Span::ZERO, Span::ZERO));
        assert!(span(&[at(0), at(1_000_500_000)]) < longest_span(second), "the clocks differ a little");
        assert!(span(&[at(0), at(1_010_000_000)]) > longest_span(second));
        assert!(span(&[at(0), at(u64::MAX)]) > longest_span(Span::from_secs(86_400)));
    }

    #[test]
    fn reports_expand_or_are_refused() {
        let report = |times: &[u64], lost: &[u32]| Report {
            stream: 1,
            times: TimeList::encode(times.iter().map(|ns| Instant::from_ns(*ns))),
            lost: lost.to_vec(),
            duplicates: 0,
            source: StampSource::Kernel,
            clock_stepped: false,
        };
        let at = |ns| Some(Instant::from_ns(ns));
        assert_eq!(expand(&report(&[5, 9], &[1]), 3), Some(vec![at(5), None, at(9)]));
        assert_eq!(expand(&report(&[], &[0, 1]), 2), Some(vec![None, None]));
        assert_eq!(expand(&report(&[5, 9], &[3]), 3), None, "outside");
        assert_eq!(expand(&report(&[5], &[1, 1]), 3), None, "repeated");
        assert_eq!(expand(&report(&[5], &[2, 1]), 3), None, "falling");
        assert_eq!(expand(&report(&[5, 6, 7, 8], &[]), 3), None, "too many");
        assert_eq!(expand(&report(&[5], &[0, 1, 2, 3]), 3), None, "too many lost");
    }
}
