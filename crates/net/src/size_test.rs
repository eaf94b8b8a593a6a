//! Which packet sizes pass: a few datagrams of each size, in both directions.

use crate::batch::{Batch, Queue};
use crate::protocol::probe::{HEADER_LEN, fill_padding};
use crate::protocol::{Header, Kind, PacketSize};
use crate::socket::{ProbeSocket, readable};
use headway_core::{Bytes, Instant};
use std::os::fd::AsFd;
use std::time::{Duration, Instant as Deadline};

/// IP packet sizes worth trying below the interface's own: Ethernet, common tunnels, the IPv6 minimum, the IPv4 minimum.
pub(crate) const CANDIDATES: [u16; 4] = [1500, 1400, 1280, 576];

/// The most sizes one test may have.
pub(crate) const MOST_SIZES: usize = 8;

/// Datagrams of each size, so that a few random losses do not make a size look too large.
const COPIES: u32 = 3;

/// Time between two datagrams, so that slow links and policers do not drop them as a burst.
const SPACING: Duration = Duration::from_millis(1);

/// The sizes to try on a path whose interface takes IP packets of `mtu` bytes, largest first.
pub(crate) fn candidates(mtu: usize) -> Vec<u16> {
    let largest = u16::try_from(mtu).unwrap_or(u16::MAX).clamp(PacketSize::MIN_IP, PacketSize::MAX_IP);
    let mut sizes = vec![largest];
    sizes.extend(CANDIDATES.into_iter().filter(|size| *size < largest));
    sizes
}

/// Sends each size a few times and returns the bytes on the wire; sizes that the own interface refuses simply do
/// not arrive.
pub(crate) fn send_sizes(socket: &ProbeSocket, session: u64, sizes: &[PacketSize]) -> Bytes {
    let count = COPIES;
    for index in 0..count {
        for size in sizes {
            let mut datagram = vec![0; size.payload(socket.family())];
            fill_padding(session ^ u64::from(size.ip()), &mut datagram);
            let header = Header { kind: Kind::Size, session, stream: 0, index, count, sent: Instant::ZERO };
            if let Some(start) = datagram.first_chunk_mut::<HEADER_LEN>() {
                header.write(start);
            }
            // A size that does not fit fails here, which is one of the answers.
            let _ = socket.send(&datagram);
            std::thread::sleep(SPACING);
        }
    }
    sizes.iter().map(|size| size.wire()).sum::<Bytes>() * u64::from(count)
}

/// The sizes that arrive until all have or `wait` is over.
pub(crate) fn receive_sizes(
    socket: &ProbeSocket,
    session: u64,
    sizes: &[PacketSize],
    wait: Duration,
) -> Vec<PacketSize> {
    let mut arrived: Vec<PacketSize> = Vec::new();
    let mut batch = Batch::new();
    let deadline = Deadline::now() + wait;
    loop {
        if batch.receive(socket.as_fd(), Queue::Data).is_ok() {
            for datagram in batch.datagrams() {
                let ours = Header::parse(datagram.start)
                    .is_ok_and(|header| header.session == session && header.kind == Kind::Size);
                let size = sizes.iter().find(|size| size.payload(socket.family()) == datagram.length);
                if let (true, Some(size)) = (ours, size)
                    && !arrived.contains(size)
                {
                    arrived.push(*size);
                }
            }
            continue;
        }
        let left = deadline.saturating_duration_since(Deadline::now());
        if arrived.len() == sizes.len() || left == Duration::ZERO {
            return arrived;
        }
        socket.discard(Queue::Errors);
        if readable([socket.as_fd()], left).is_err() {
            return arrived;
        }
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
}
