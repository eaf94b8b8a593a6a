//! How well this host paces and stamps packets, tried over the loopback interface by what sends every stream.

use crate::batch::{Batch, Queue};
use crate::clock::Watch;
use crate::pacing::Wait;
use crate::protocol::{PacketSize, StampSource};
use crate::socket::{ProbeSocket, share_port};
use crate::transmit::{Plan, send_stream};
use headway_units::statistics::{quantile, sorted};
use headway_units::{Bytes, Duration, Rate};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

/// Size of the packets on the wire: those of most paths.
const PACKET: Bytes = Bytes::new(1_538);
/// Streams at each rate. Range 5 to 15: a busy host spoils some of them.
const STREAMS: u32 = 7;
/// Duration of a stream, unless that would be fewer packets than the shortest streams of a measurement have, or
/// more than these: 100 us each would not fit into a second.
const LENGTH: Duration = Duration::from_ms(8);
const PACKETS: (usize, usize) = (24, 1_000);

/// How streams of one rate were sent.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// The rate, on an Ethernet wire.
    pub rate: Rate,
    /// The intended gap.
    pub gap: Duration,
    /// By how much gaps differed from that, as a median.
    pub error: Duration,
    /// What 95 of 100 of these differences did not exceed.
    pub error_95: Duration,
    /// Streams whose gaps a measurement would have accepted, ...
    pub kept: u32,
    /// ... of this number.
    pub streams: u32,
    /// The source of departure times.
    pub send_stamps: StampSource,
    /// Whether the kernel stamps what arrives.
    pub receive_stamps: bool,
}

impl Paced {
    /// Whether a measurement gets along with streams of this rate: it repeats some that are refused.
    pub fn suffices(&self) -> bool {
        self.kept * 3 >= self.streams
    }
}

/// Sends streams of a rate over the loopback interface; takes some 50 ms.
///
/// # Errors
/// The system's error, for example where the loopback interface is down.
pub fn pace(rate: Rate) -> io::Result<Paced> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // Each end has to know the port of the other, so one is reserved before.
    let reserved = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    share_port(&reserved)?;
    reserved.bind(&any.into())?;
    let local = reserved.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let receiver = ProbeSocket::connect(any, local)?;
    let sender = ProbeSocket::connect(local, receiver.local()?)?;
    sender.grow_receive_buffer(PacketSize::LARGEST, PACKETS.1);
    let size = PacketSize::from_wire(PACKET).ok_or(io::ErrorKind::InvalidInput)?;
    let gap = rate.time_for(PACKET);
    let count = (LENGTH.ns() / gap.ns().max(1)) as usize;
    let gaps = vec![gap; count.clamp(PACKETS.0, PACKETS.1)];
    let (mut clock, mut errors) = (Watch::default(), Vec::new());
    let (mut kept, mut source) = (0, StampSource::Kernel);
    for stream in 0..STREAMS {
        let plan = Plan { session: 0, stream, size, gaps: &gaps };
        let sent = send_stream(&sender, &plan, Wait::Spin, |_| false, &mut clock)?;
        kept += u32::from(sent.gaps_kept);
        source = if sent.source == StampSource::Kernel { source } else { sent.source };
        errors.extend(sent.times.windows(2).map(|two| ((two[1] - two[0]) - gap).ns().abs() as f64));
    }
    let mut batch = Batch::new();
    // Nothing arrives where the interface is down.
    batch.receive(receiver.as_fd(), Queue::Data).map_err(|_| io::ErrorKind::NetworkDown)?;
    let receive_stamps = batch.datagrams().all(|datagram| datagram.stamps.kernel.is_some());
    let errors = sorted(errors);
    let error = |part| Duration::from_ns(quantile(&errors, part).unwrap_or_default() as i64);
    Ok(Paced {
        rate,
        gap,
        error: error(0.5),
        error_95: error(0.95),
        kept,
        streams: STREAMS,
        send_stamps: source,
        receive_stamps,
    })
}
