//! The client: opens a session with a server and runs streams in either direction.

mod connect;
mod handshake;
mod options;
mod outcome;
mod train_outcome;

pub use options::{ConnectOptions, FamilyChoice, Gaps, Sockets, Via};
pub use outcome::StreamOutcome;
pub use train_outcome::TrainOutcome;

use crate::channel::{Channel, ChannelError};
use crate::clock::Watch;
use crate::error::NetError;
use crate::frames::FrameSender;
use crate::pacing::{self, Wait};
use crate::protocol::{
    Announce, Carrier, Direction, GapRuns, HopRuns, MAX_HOPS, Message, PacketSize, Report, SentReport,
};
use crate::receive::{Expected, receive_stream};
use crate::size_test;
use crate::socket::ProbeSocket;
use crate::stamp::arrival_times;
use crate::trains::{self, HopReply, Identity};
use crate::transmit::{Plan, send_frames, send_stream};
use headway_estimate::measure::wait_for_late;
use headway_estimate::{Schedule, Train, TrainSchedule};
use headway_units::{Bytes, Duration, Rate};
use outcome::{BothEnds, expand, longest_span, span};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Span, Instant as Deadline};
use train_outcome::Received;

/// The shortest and the longest wait for the reports of routers after a stream.
const SHORTEST_REPLY_WAIT: Span = Span::from_millis(50);
const LONGEST_REPLY_WAIT: Span = Span::from_millis(300);

/// An open session; dropping it ends the session.
pub struct Session {
    channel: Channel,
    socket: ProbeSocket,
    /// The raw socket for trains, if ICMP carries them.
    icmp: Option<ProbeSocket>,
    gaps: Gaps,
    /// What sends streams whose gaps PAUSE frames fill.
    frames: Option<FrameSender>,
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
struct Announced {
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
    /// [`NetError::Interrupted`], after which the session is unusable; [`NetError::BadStream`],
    /// [`NetError::Refused`], [`NetError::ConnectionLost`], [`NetError::Timeout`], [`NetError::Protocol`] or
    /// [`NetError::System`]. Lost packets are not an error.
    pub fn send_stream(&mut self, schedule: &Schedule) -> Result<StreamOutcome, NetError> {
        let began = Deadline::now();
        let announced = self.announce(schedule, Direction::Forward)?;
        let stream = announced.stream;
        let plan = Plan { session: self.id, stream, size: announced.size, gaps: &schedule.gaps };
        let stop = |_| self.stop.load(Ordering::Relaxed);
        let wait = if self.gaps == Gaps::Timer { Wait::Sleep } else { Wait::Spin };
        let sent = match &self.frames {
            Some(frames) => send_frames(frames, self.socket.family(), &plan, stop, &mut self.clock)?,
            None => send_stream(&self.socket, &plan, wait, stop, &mut self.clock)?,
        };
        self.check_stop()?;
        let report = self.end_stream(stream, self.grace_after(schedule))?;
        let received = expand(&report, schedule.packets())
            .ok_or_else(|| NetError::Protocol("a report does not fit its stream".to_owned()))?;
        if !report.clock_stepped && span(&received) > longest_span(began.elapsed()) {
            return Err(NetError::Protocol("a report spans more time than has passed".to_owned()));
        }
        let both_ends = BothEnds {
            sent: sent.times,
            received,
            send_stamps: sent.source,
            receive_stamps: report.source,
            gaps_kept: sent.gaps_kept,
            clock_stepped: sent.clock_stepped || report.clock_stepped,
            duplicates: report.duplicates,
        };
        Ok(both_ends.join(stream, schedule))
    }

    /// Sends a stream of trains to the server, which reports the arrivals of their first and last packets,
    /// and which hidden packets arrived. With `wait_for_replies`, also collects the reports of routers at
    /// which hidden packets died.
    ///
    /// # Errors
    /// Same as [`Session::send_stream`].
    pub fn send_trains(
        &mut self,
        schedule: &TrainSchedule,
        wait_for_replies: bool,
    ) -> Result<TrainOutcome, NetError> {
        let began = Deadline::now();
        let size = self.check_trains(schedule)?;
        let hops = trains::hops(&schedule.trains);
        let gaps = trains::packet_gaps(schedule);
        let carrier = if self.icmp.is_some() { Carrier::Icmp } else { Carrier::Udp };
        let stream = self.announce_stream(Direction::Forward, carrier, size, &gaps, &hops)?;
        let identity = Identity { session: self.id, stream, size };
        let socket = self.icmp.as_ref().unwrap_or(&self.socket);
        socket.report_errors(wait_for_replies)?;
        let stop = |_| self.stop.load(Ordering::Relaxed);
        let mut sent = trains::send_trains(socket, identity, schedule, stop, &mut self.clock)?;
        self.check_stop()?;
        let report = self.end_stream(stream, self.grace())?;
        let received = Received::expand(&report, &hops)
            .ok_or_else(|| NetError::Protocol("a report does not fit its stream".to_owned()))?;
        if !report.clock_stepped && span(&received.times) > longest_span(began.elapsed()) {
            return Err(NetError::Protocol("a report spans more time than has passed".to_owned()));
        }
        if wait_for_replies {
            let socket = self.icmp.as_ref().unwrap_or(&self.socket);
            let silent = |replies: &[HopReply]| received.silent_hops(&hops, replies) > 0;
            let replies = &mut sent.replies;
            let wait = self.grace().clamp(SHORTEST_REPLY_WAIT, LONGEST_REPLY_WAIT);
            trains::more_replies(socket, identity, &schedule.trains, replies, wait, |r| !silent(r));
            socket.report_errors(false)?;
            socket.discard(crate::batch::Queue::Errors);
        }
        Ok(TrainOutcome::join(schedule, identity, sent, &received, &report))
    }

    /// Requests a stream from the server and receives it.
    ///
    /// # Errors
    /// Same as [`Session::send_stream`].
    pub fn receive_stream(&mut self, schedule: &Schedule) -> Result<StreamOutcome, NetError> {
        // Datagrams waiting in the socket belong to earlier streams.
        self.socket.discard(crate::batch::Queue::Data);
        let announced = self.announce(schedule, Direction::Reverse)?;
        let stream = announced.stream;
        let expected = Expected {
            session: self.id,
            stream,
            count: schedule.packets() as u32,
            size: announced.size,
            duration: schedule.duration(),
            hops: &[],
        };
        let grace = self.grace_after(schedule);
        let end = |message: &Message| matches!(message, Message::Sent(_)).then_some(grace);
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
        let (arrivals, receive_stamps) = arrival_times(&received.arrivals);
        let both_ends = BothEnds {
            // Checked here as well: rates are computed from these times, whatever the server claims.
            gaps_kept: gaps_kept && pacing::gaps_kept(&schedule.gaps, &sent),
            sent,
            received: arrivals,
            send_stamps: source,
            receive_stamps,
            clock_stepped: clock_stepped || received.clock_stepped,
            duplicates: received.duplicates,
        };
        Ok(both_ends.join(stream, schedule))
    }

    /// Measures the RTT of the control connection again, and keeps the session from becoming idle.
    ///
    /// # Errors
    /// Same as [`Session::send_stream`].
    pub fn ping(&mut self) -> Result<Duration, NetError> {
        self.next_ping = self.next_ping.wrapping_add(1);
        let number = self.next_ping;
        let start = Deadline::now();
        match self.request(&Message::Ping { number }, "ping")? {
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
    fn announce(&mut self, schedule: &Schedule, direction: Direction) -> Result<Announced, NetError> {
        let size = self.check(schedule)?;
        let stream = self.announce_stream(direction, Carrier::Udp, size, &schedule.gaps, &[])?;
        Ok(Announced { stream, size })
    }

    /// Announces a stream, waits until the server is ready and returns the stream's number.
    fn announce_stream(
        &mut self,
        direction: Direction,
        carrier: Carrier,
        size: PacketSize,
        gaps: &[Duration],
        hops: &[u8],
    ) -> Result<u32, NetError> {
        let stream = self.next_stream;
        self.next_stream += 1;
        let start = Deadline::now();
        let bytes = size.wire() * (gaps.len() as u64 + 1);
        let (gaps, hops) = (GapRuns::encode(gaps), HopRuns::encode(hops));
        let announce = Announce { stream, direction, carrier, ip_size: size.ip(), gaps, hops };
        match self.request(&Message::Announce(announce), "announcement of a stream")? {
            Message::Ready { stream: ready } if ready == stream => {}
            other => return Err(unexpected(&other)),
        }
        self.rtt = self.rtt.min(start.elapsed());
        self.probe_bytes += bytes;
        Ok(stream)
    }

    /// Tells the server that a forward stream has ended and returns its report.
    fn end_stream(&mut self, stream: u32, grace: Span) -> Result<Report, NetError> {
        self.channel
            .send(&Message::End { stream, grace_ns: grace.as_nanos() as u64 })
            .map_err(|error| self.lost(error, "end of a stream"))?;
        match self.receive("report of a stream", grace)? {
            Message::Report(report) if report.stream == stream => Ok(report),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the packet size of a schedule of trains, if it can be sent.
    fn check_trains(&self, schedule: &TrainSchedule) -> Result<PacketSize, NetError> {
        if schedule.trains.is_empty() || schedule.trains.len() != schedule.gaps.len() + 1 {
            return Err(NetError::BadStream("its gaps do not fit its trains"));
        }
        let possible = |train: &Train| {
            train.hidden == 0 || train.hidden <= Train::MAX_HIDDEN && (1..=MAX_HOPS).contains(&train.hops)
        };
        if !schedule.trains.iter().all(possible) {
            return Err(NetError::BadStream("its hidden packets are too many or have an impossible TTL"));
        }
        self.check_packets(schedule.packets(), &schedule.gaps, schedule.packet)
    }

    /// Returns the packet size of a schedule, if the schedule can be sent.
    fn check(&self, schedule: &Schedule) -> Result<PacketSize, NetError> {
        if schedule.gaps.is_empty() {
            return Err(NetError::BadStream("it has fewer than two packets"));
        }
        self.check_packets(schedule.packets(), &schedule.gaps, schedule.packet)
    }

    /// Returns the packet size of a stream, if its packets can be sent.
    fn check_packets(
        &self,
        packets: usize,
        gaps: &[Duration],
        packet: Bytes,
    ) -> Result<PacketSize, NetError> {
        if packets > self.max_packets as usize {
            return Err(NetError::BadStream("it has more packets than the server allows"));
        }
        if gaps.iter().any(|gap| *gap < Duration::ZERO) {
            return Err(NetError::BadStream("it has a negative gap"));
        }
        let size = PacketSize::from_wire(packet)
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
        match self.request(&Message::SizeTest { sizes: candidates.clone() }, "size test")? {
            Message::SizeReady => {}
            other => return Err(unexpected(&other)),
        }
        let sent = size_test::send_sizes(&self.socket, self.id, &sizes);
        let grace = self.grace();
        let end = Message::SizeEnd { grace_ns: grace.as_nanos() as u64 };
        self.channel.send(&end).map_err(|error| self.lost(error, "size test"))?;
        let forward = match self.receive("size test", grace)? {
            Message::SizeReport { arrived } => arrived,
            other => return Err(unexpected(&other)),
        };
        let reverse = size_test::receive_sizes(&self.socket, self.id, &sizes, grace, &self.stop);
        // A test cut short says nothing about the path.
        self.check_stop()?;
        self.probe_bytes += sent * 2;
        let both = reverse.into_iter().filter(|size| forward.contains(&size.ip()));
        let smallest = candidates.last().copied().unwrap_or_default();
        self.largest = both.max().ok_or(NetError::MtuTooSmall { smallest })?;
        Ok(())
    }

    /// Returns how long to wait for late packets.
    fn grace(&self) -> Span {
        wait_for_late(self.rtt.into(), None).to_std()
    }

    /// The same after the packets of a stream.
    fn grace_after(&self, schedule: &Schedule) -> Span {
        wait_for_late(self.rtt.into(), Some(schedule.average)).to_std()
    }

    /// Sends a request and waits for its answer; a refusal is an error.
    fn request(&mut self, request: &Message, what: &'static str) -> Result<Message, NetError> {
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
    fn check_stop(&self) -> Result<(), NetError> {
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
