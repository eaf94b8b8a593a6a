//! The packet size test: a few datagrams of each size, in both directions.

use crate::batch::{Batch, Datagram, Queue};
use crate::protocol::probe::{HEADER_LEN, fill_padding};
use crate::protocol::{Header, Kind, PacketSize, Role};
use crate::socket::{ProbeSocket, STOP_CHECK, readable};
use headway_units::{Bytes, Instant};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Deadline};

/// IP packet sizes to try below the interface's MTU: Ethernet, common tunnels, the IPv6
/// minimum, the IPv4 minimum.
pub(crate) const CANDIDATES: [u16; 4] = [1500, 1400, 1280, 576];

/// Maximum number of sizes in one test.
pub(crate) const MAX_SIZES: usize = 8;

/// Datagrams per size, so that a few random losses do not make a size seem too large.
const COPIES: u32 = 3;

/// Time between datagrams, so that slow links and policers do not drop them as a burst.
const SPACING: Duration = Duration::from_millis(1);

/// Returns the sizes to try on a path whose interface has an MTU of `mtu` bytes, largest first.
pub(crate) fn candidates(mtu: usize) -> Vec<u16> {
    let largest = u16::try_from(mtu).unwrap_or(u16::MAX).clamp(PacketSize::MIN_IP, PacketSize::MAX_IP);
    let mut sizes = vec![largest];
    sizes.extend(CANDIDATES.into_iter().filter(|size| *size < largest));
    sizes
}

/// Checks the sizes requested by a client: at least one, not too many, no duplicates, all
/// in the allowed range.
pub(crate) fn checked(sizes: &[u16]) -> Option<Vec<PacketSize>> {
    if sizes.is_empty() || sizes.len() > MAX_SIZES {
        return None;
    }
    let repeated = (1..sizes.len()).any(|at| sizes[..at].contains(&sizes[at]));
    if repeated { None } else { sizes.iter().map(|size| PacketSize::from_ip(*size)).collect() }
}

/// Returns the maximum number of wire bytes that a test sends in each direction.
pub(crate) fn cost(sizes: &[PacketSize]) -> Bytes {
    sizes.iter().map(|size| size.wire()).sum::<Bytes>() * u64::from(COPIES)
}

/// Sends each size a few times and returns the wire bytes. Sizes that this host's interface refuses simply do
/// not arrive.
pub(crate) fn send_sizes(socket: &ProbeSocket, session: u64, sizes: &[PacketSize]) -> Bytes {
    let count = COPIES;
    for index in 0..count {
        for size in sizes {
            let mut datagram = vec![0; size.payload(socket.family())];
            fill_padding(session ^ u64::from(size.ip()), &mut datagram);
            let (kind, role) = (Kind::Size, Role::First);
            let header = Header { kind, role, session, stream: 0, index, count, sent: Instant::ZERO };
            if let Some(start) = datagram.first_chunk_mut::<HEADER_LEN>() {
                header.write(start);
            }
            // A size above the MTU fails here, which is one of the possible results.
            let _ = socket.send(&datagram);
            std::thread::sleep(SPACING);
        }
    }
    cost(sizes)
}

/// Returns the sizes that arrive. Ends when all have, `wait` is over or `stop` is set,
/// however much else arrives.
pub(crate) fn receive_sizes(
    socket: &ProbeSocket,
    session: u64,
    sizes: &[PacketSize],
    wait: Duration,
    stop: &AtomicBool,
) -> Vec<PacketSize> {
    let mut arrived: Vec<PacketSize> = Vec::new();
    let mut batch = Batch::new();
    let deadline = Deadline::now() + wait;
    loop {
        let received = batch.receive(socket.as_fd(), Queue::Data).is_ok();
        if received {
            batch.datagrams().for_each(|datagram| note(&datagram, socket, session, sizes, &mut arrived));
        }
        // Checked after every batch: a peer that keeps sending must not keep this loop going.
        let left = deadline.saturating_duration_since(Deadline::now());
        if arrived.len() == sizes.len() || left == Duration::ZERO || stop.load(Ordering::Relaxed) {
            return arrived;
        }
        if !received {
            socket.discard(Queue::Errors);
            if readable([socket.as_fd()], left.min(STOP_CHECK)).is_err() {
                return arrived;
            }
        }
    }
}

/// Records the size of a datagram if it belongs to the test.
fn note(
    datagram: &Datagram<'_>,
    socket: &ProbeSocket,
    session: u64,
    sizes: &[PacketSize],
    arrived: &mut Vec<PacketSize>,
) {
    let ours = Header::parse(datagram.start)
        .is_ok_and(|header| header.session == session && header.kind == Kind::Size);
    let size = sizes.iter().find(|size| size.payload(socket.family()) == datagram.length);
    if let (true, Some(size)) = (ours, size)
        && !arrived.contains(size)
    {
        arrived.push(*size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_start_with_the_interface() {
        assert_eq!(candidates(65_536), [9000, 1500, 1400, 1280, 576]);
        assert_eq!(candidates(1500), [1500, 1400, 1280, 576]);
        assert_eq!(candidates(1420), [1420, 1400, 1280, 576]);
        assert_eq!(candidates(300), [300]);
        assert_eq!(candidates(10), [PacketSize::MIN_IP]);
    }

    #[test]
    fn repeated_and_too_many_sizes_are_refused() {
        assert_eq!(checked(&[1500, 1400]).map(|sizes| sizes.len()), Some(2));
        assert_eq!(checked(&candidates(65_536)).map(|sizes| sizes.len()), Some(5));
        assert_eq!(checked(&[]), None);
        assert_eq!(checked(&[1500, 1400, 1500]), None);
        assert_eq!(checked(&[1500, 10]), None);
        assert_eq!(checked(&[1500, 1499, 1498, 1497, 1496, 1495, 1494, 1493, 1492]), None);
    }

    #[test]
    fn all_datagrams_of_a_test_fit_one_batch() {
        // So that a test whose wait is zero still sees everything that has arrived.
        assert!(MAX_SIZES * COPIES as usize <= crate::batch::BATCH);
    }

    #[test]
    fn the_deadline_holds_while_datagrams_wait() {
        let flood = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let socket = ProbeSocket::connect(local, flood.local_addr().unwrap()).unwrap();
        socket.send(&[0]).unwrap();
        let (_, address) = flood.recv_from(&mut [0]).unwrap();
        for _ in 0..=crate::batch::BATCH {
            flood.send_to(&[1; 30], address).unwrap();
        }
        let sizes = [PacketSize::SMALLEST];
        let arrived = receive_sizes(&socket, 1, &sizes, Duration::ZERO, &AtomicBool::new(false));
        assert_eq!(arrived, []);
        let left = Batch::new().receive(socket.as_fd(), Queue::Data);
        assert_eq!(left.ok(), Some(1), "it gave up with a datagram still waiting");
    }
}
