//! The streams of a session.

use super::session::Session;
use crate::channel::ChannelError;
use crate::clock::monotonic;
use crate::counters::{add, count};
use crate::limits::{Request, WHOLE_PROCESSOR, rate_pause};
use crate::pacing::Wait;
use crate::protocol::{
    Announce, Carrier, Direction, Message, PacketSize, RefusedBy, Report, SentReport, TimeList,
};
use crate::receive::{Expected, drain_stale, receive_stream};
use crate::size_test::{checked, cost, receive_sizes, send_sizes};
use crate::socket::ProbeSocket;
use crate::stamp::arrival_times;
use crate::transmit::{Plan, send_stream};
use headway_units::{Bytes, Duration};
use std::net::SocketAddr;
use std::time::{Duration as Span, Instant};
use tracing::debug;

/// Longest wait for a turn to send. It is shorter than a client's default timeout of ten seconds, so that the
/// client still learns why nothing comes.
const TURN_TIMEOUT: Span = Span::from_secs(8);

/// Time between two checks whether the client of a stream is still connected, each of which takes about 1 us.
const LOOK: Duration = Duration::from_ms(20);

/// The longest wait for late packets that a client may request.
const LONGEST_GRACE: Span = Span::from_secs(2);

/// Returns the requested wait for late packets, within limits.
pub(super) fn grace(ns: u64) -> Span {
    Span::from_nanos(ns).min(LONGEST_GRACE)
}

/// Returns the socket for this carrier, if it is open.
fn carrying<'a>(
    carrier: Carrier,
    udp: &'a Option<ProbeSocket>,
    icmp: &'a Option<ProbeSocket>,
) -> Option<&'a ProbeSocket> {
    match carrier {
        Carrier::Udp => udp.as_ref(),
        Carrier::Icmp => icmp.as_ref(),
    }
}

/// An announced stream that is within the limits.
struct Admitted {
    stream: u32,
    size: PacketSize,
    gaps: Vec<Duration>,
    /// See [`Expected::hops`].
    hops: Vec<u8>,
    carrier: Carrier,
}

impl Session<'_> {
    /// Receives or sends the announced stream.
    pub(super) fn stream(&mut self, announce: &Announce) -> Result<(), ChannelError> {
        let admitted = match self.admit(announce) {
            Ok(admitted) => admitted,
            Err(reason) => return self.refuse(reason),
        };
        self.next_stream = announce.stream.saturating_add(1);
        self.streams += 1;
        if let Some(socket) = carrying(admitted.carrier, &self.socket, &self.icmp) {
            socket.grow_receive_buffer(admitted.size, admitted.gaps.len() + 1);
        }
        let result = match announce.direction {
            Direction::Forward => self.receive(&admitted),
            Direction::Reverse => self.send(&admitted),
        };
        if let Some(socket) = carrying(admitted.carrier, &self.socket, &self.icmp) {
            socket.shrink_receive_buffer();
        }
        result
    }

    /// Opens the raw socket for the Echo Replies of a client with a proved address, unless it is open.
    fn open_icmp(&mut self, client: SocketAddr) -> Result<(), RefusedBy> {
        if self.icmp.is_none() {
            let opened = ProbeSocket::icmp_receiver(self.client.local, client, self.client.id);
            self.icmp = Some(opened.map_err(|error| {
                debug!(%error, "no raw socket");
                RefusedBy::RawSocket
            })?);
        }
        Ok(())
    }

    /// Checks an announcement against the state of the session and the limits.
    fn admit(&mut self, announce: &Announce) -> Result<Admitted, RefusedBy> {
        let limits = &self.shared.limits;
        let Some(socket) = &self.socket else {
            return Err(RefusedBy::AddressNotProved);
        };
        let peer = socket.peer();
        if announce.stream < self.next_stream {
            return Err(RefusedBy::OutOfOrder);
        }
        let size = PacketSize::from_ip(announce.ip_size).ok_or(RefusedBy::PacketSize)?;
        let gaps = announce.gaps.decode(limits.stream_packets as usize).ok_or(RefusedBy::StreamPackets)?;
        let reverse = announce.direction == Direction::Reverse;
        let hops = announce.hops.decode(gaps.len() + 1).ok_or(RefusedBy::HiddenPackets)?;
        // A server that sends packets with small TTLs would make routers on the way send it ICMP messages.
        if reverse && !hops.is_empty() {
            return Err(RefusedBy::HiddenPackets);
        }
        let carrier = announce.carrier;
        if reverse && carrier == Carrier::Icmp {
            return Err(RefusedBy::SendsNoIcmp);
        }
        self.usage.admit(limits, &Request { size, gaps: &gaps, reverse })?;
        if carrier == Carrier::Icmp {
            self.open_icmp(peer)?;
        }
        Ok(Admitted { stream: announce.stream, size, gaps, hops, carrier })
    }

    /// Receives a forward stream and reports its arrival times.
    fn receive(&mut self, admitted: &Admitted) -> Result<(), ChannelError> {
        let Some(socket) = carrying(admitted.carrier, &self.socket, &self.icmp) else {
            return self.refuse(RefusedBy::AddressNotProved);
        };
        let counters = &self.shared.counters;
        let stream = admitted.stream;
        counters.add_irregular(&drain_stale(socket, self.client.id, stream));
        self.channel.send(&Message::Ready { stream })?;
        let expected = Expected {
            session: self.client.id,
            stream,
            count: admitted.gaps.len() as u32 + 1,
            size: admitted.size,
            duration: admitted.gaps.iter().copied().sum(),
            hops: &admitted.hops,
        };
        let end = |message: &Message| match message {
            Message::End { stream: ended, grace_ns } if *ended == stream => Some(grace(*grace_ns)),
            _ => None,
        };
        let (received, message) = receive_stream(socket, &mut self.channel, &mut self.clock, expected, end)?;
        counters.add_irregular(&received.irregular);
        if end(&message).is_none() {
            return self.out_of_order(&message);
        }
        count(&counters.forward_streams);
        let (times, source) = arrival_times(&received.arrivals);
        let arrived = times.iter().flatten().count();
        add(&counters.packets_received, arrived as u64);
        let hidden = |index: u32| admitted.hops.get(index as usize).is_some_and(|hops| *hops != 0);
        let lost = (0..).zip(&times).filter(|(index, time)| time.is_none() && !hidden(*index));
        let lost = lost.map(|(index, _)| index).collect();
        let seen = (0..).zip(&received.hidden_seen).filter(|(_, seen)| **seen);
        let hidden_seen: Vec<u32> = seen.map(|(index, _)| index).collect();
        add(&counters.hidden_received, hidden_seen.len() as u64);
        self.worked(arrived + hidden_seen.len());
        self.channel.send(&Message::Report(Report {
            stream,
            times: TimeList::encode(times.into_iter().flatten()),
            lost,
            hidden_seen,
            duplicates: received.duplicates,
            source,
            clock_stepped: received.clock_stepped,
        }))
    }

    /// Sends a reverse stream and reports its departure times.
    fn send(&mut self, admitted: &Admitted) -> Result<(), ChannelError> {
        let Some(socket) = &self.socket else {
            return self.refuse(RefusedBy::AddressNotProved);
        };
        let stream = admitted.stream;
        let shared = self.shared;
        let request = Request { size: admitted.size, gaps: &admitted.gaps, reverse: true };
        let work = request.work();
        let turns = if work.share == WHOLE_PROCESSOR { &shared.turns.dense } else { &shared.turns.sparse };
        let Some(turn) = turns.take(self.client.network, work, TURN_TIMEOUT, || self.is_over()) else {
            return self.refuse(RefusedBy::Busy);
        };
        self.channel.send(&Message::Ready { stream })?;
        let plan = Plan { session: self.client.id, stream, size: admitted.size, gaps: &admitted.gaps };
        let mut looked = monotonic();
        let channel = &self.channel;
        let gone = |now| {
            if now - looked < LOOK {
                return shared.stopping();
            }
            looked = now;
            shared.stopping() || channel.is_closed()
        };
        let sent = send_stream(socket, &plan, Wait::Spin, gone, &mut self.clock)?;
        drop(turn);
        let counters = &self.shared.counters;
        count(&counters.reverse_streams);
        add(&counters.streams_cut, u64::from(sent.count < request.packets()));
        add(&counters.packets_sent, sent.count);
        add(&counters.bytes_sent, (admitted.size.wire() * sent.count).get());
        self.worked(sent.count as usize);
        self.channel.send(&Message::Sent(SentReport {
            stream,
            times: TimeList::encode(sent.times),
            source: sent.source,
            gaps_kept: sent.gaps_kept,
            clock_stepped: sent.clock_stepped,
        }))?;
        self.pause(rate_pause(&self.shared.limits, request.bytes(), request.duration()));
        Ok(())
    }
}

impl Session<'_> {
    /// Finds out which packet sizes arrive here, and sends the same sizes back.
    pub(super) fn size_test(&mut self, sizes: &[u16]) -> Result<(), ChannelError> {
        let Some(socket) = &self.socket else {
            return self.refuse(RefusedBy::AddressNotProved);
        };
        let Some(wanted) = checked(sizes) else {
            return self.refuse(RefusedBy::PacketSize);
        };
        // Both directions are charged, as they are for streams.
        if let Err(reason) = self.usage.charge(&self.shared.limits, cost(&wanted) * 2) {
            return self.refuse(reason);
        }
        self.shared.counters.add_irregular(&drain_stale(socket, self.client.id, self.next_stream));
        self.channel.send(&Message::SizeReady)?;
        let grace = match self.channel.receive(self.deadline())? {
            Message::SizeEnd { grace_ns } => grace(grace_ns),
            other => return self.out_of_order(&other),
        };
        let arrived = receive_sizes(socket, self.client.id, &wanted, grace, &self.shared.stop);
        // Nothing is sent to a client whose probes did not arrive, so it cannot make the
        // server send for free.
        let start = Instant::now();
        let bytes =
            if arrived.is_empty() { Bytes::ZERO } else { send_sizes(socket, self.client.id, &wanted) };
        let pause = rate_pause(&self.shared.limits, bytes, start.elapsed().into());
        add(&self.shared.counters.bytes_sent, bytes.get());
        self.worked(arrived.len());
        let arrived = arrived.into_iter().map(PacketSize::ip).collect();
        self.channel.send(&Message::SizeReport { arrived })?;
        self.pause(pause);
        Ok(())
    }
}
