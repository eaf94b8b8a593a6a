//! Gaps that PAUSE frames fill (rapid 2.3): packets and PAUSE frames follow one another without a pause, so
//! that the bytes between two packets are the time between them, whatever this host's timers do.
//!
//! The first switch drops PAUSE frames. Their time is zero, so they stop no host. They need a line that takes
//! its time for each frame and whose rate is known, and the right `CAP_NET_RAW`.

mod filler;
mod packet;
mod station;

use crate::clock::monotonic;
use crate::error::NetError;
use crate::pacing::sleep_until;
pub use filler::{Filled, LATENCY, LineFiller};
use headway_host::gap::{ByteClock, Frame};
use headway_units::{Bytes, Duration, Instant};
use station::Station;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration as Span, Instant as Deadline};

/// Frames are handed over at most this long before they leave. Time slices of other programs last 4 ms, and a
/// busy host has several in a row (5 to 50 ms is sensible: shorter, and the line runs dry; longer, and other
/// packets of this host wait behind).
const AHEAD: Duration = Duration::from_ms(20);
/// Frames are handed over for this time at once: 83 frames of 1538 bytes at 1 Gb/s, while a host queues 1000
/// that arrive (0.2 to 5 ms is sensible: shorter costs more wake-ups).
const STEP: Duration = Duration::from_ms(1);
/// Frames handed over with one system call.
const BATCH: usize = 64;
/// Pause when the queue of the interface is full.
const FULL: Span = Span::from_micros(100);
/// A queue that stays full for this long has no line behind it, as when the cable is gone; 20 ms of
/// frames leave sooner.
const PATIENCE: Span = Span::from_secs(1);

/// Sends packets to a peer with PAUSE frames between them.
#[derive(Debug)]
pub struct FrameSender {
    port: Port,
    station: Station,
    from: SocketAddr,
    to: SocketAddr,
}

/// Hands frames to an interface.
#[derive(Debug)]
struct Port {
    fd: OwnedFd,
    pause: Vec<u8>,
}

/// Frames to be handed over together.
struct Batch {
    /// Lengths of PAUSE frames, and places of packets in `packets`, in the order of sending.
    frames: Vec<Result<usize, usize>>,
    packets: Vec<Vec<u8>>,
    used: usize,
}

impl FrameSender {
    /// Opens a socket at the interface that leads to `to`, with which this host has a connection; `from` is
    /// this host's end of the packets.
    ///
    /// # Errors
    /// [`NetError::Frames`] if the interface has no line whose rate is known, such as a veth;
    /// [`NetError::FrameSocket`] without `CAP_NET_RAW`.
    pub fn open(from: SocketAddr, to: SocketAddr) -> Result<FrameSender, NetError> {
        let station = Station::towards(to)?;
        let port = Port::open(station.interface, station.macs[0], station.largest)?;
        Ok(FrameSender { port, station, from, to })
    }

    /// Returns a clock for the line, by which packets are scheduled from time zero on.
    pub fn clock(&self) -> ByteClock {
        ByteClock::new(self.station.line, self.station.largest)
    }

    /// Sends all packets that are scheduled. For each, `data` writes the payload of UDP, told its flow, which
    /// is added to the source port, and when it will leave on CLOCK_MONOTONIC. Passes that clock to `stop`
    /// repeatedly and stops early when it returns true. Returns whether all packets were sent.
    ///
    /// If this host is too slow and the line runs dry, all later packets are late by that time (rapid 2.3).
    ///
    /// # Errors
    /// Same as `sendmmsg`.
    pub fn run(
        &self,
        clock: &mut ByteClock,
        mut stop: impl FnMut(Instant) -> bool,
        mut data: impl FnMut(u32, Instant, &mut Vec<u8>),
    ) -> io::Result<bool> {
        let mut batch = Batch { frames: Vec::with_capacity(BATCH), packets: Vec::new(), used: 0 };
        let mut payload = Vec::new();
        // When the clock was zero; the time for which the line ran dry moves it.
        let mut start = monotonic();
        let begin = start;
        loop {
            let now = monotonic();
            if stop(now) {
                return Ok(false);
            }
            let free = start + (clock.now() - Instant::ZERO);
            if free < now {
                clock.slip(now - free);
                start += now - free;
            } else if free - now > AHEAD {
                sleep_until(free - AHEAD + STEP);
                continue;
            }
            let mut write = |flow: u32, departure: Instant, frame: &mut Vec<u8>| {
                // Departures have the time that the line ran dry in them.
                payload.clear();
                data(flow, begin + (departure - Instant::ZERO), &mut payload);
                let mut from = self.from;
                from.set_port(from.port().wrapping_add(flow as u16));
                packet::udp(frame, self.station.macs, from, self.to, &payload);
            };
            batch.fill(clock, now + AHEAD - (start - Instant::ZERO), &mut write);
            if batch.frames.is_empty() {
                return Ok(true);
            }
            self.port.send(&batch)?;
        }
    }
}

impl Port {
    /// Opens a socket at the interface with this number and address.
    fn open(interface: u32, address: [u8; 6], largest: Bytes) -> Result<Port, NetError> {
        let fd = open(interface).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => NetError::FrameSocket,
            _ => NetError::System(error),
        })?;
        Ok(Port { fd, pause: packet::pause(address, largest) })
    }

    /// Hands over frames, in order.
    fn send(&self, batch: &Batch) -> io::Result<()> {
        // SAFETY: all-zero is a valid value of these plain C structures.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) = unsafe { zeroed() };
        for (k, frame) in batch.frames.iter().enumerate() {
            let bytes: &[u8] = match *frame {
                Ok(packet) => &batch.packets[packet],
                Err(length) => &self.pause[..length],
            };
            vectors[k] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            messages[k].msg_hdr.msg_iov = &raw mut vectors[k];
            messages[k].msg_hdr.msg_iovlen = 1;
        }
        let (mut sent, count) = (0, batch.frames.len());
        let deadline = Deadline::now() + PATIENCE;
        while sent < count {
            // SAFETY: each message from `sent` to `count` has one vector, and what it points to is only read.
            let result = unsafe {
                let rest = (count - sent) as libc::c_uint;
                libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr().add(sent), rest, 0)
            };
            match usize::try_from(result) {
                Ok(more) => sent += more,
                Err(_) => match io::Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::ENOBUFS) && Deadline::now() < deadline => {
                        std::thread::sleep(FULL);
                    }
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }
}

impl Batch {
    /// Adds a packet, and returns the buffer in whose place it is.
    fn push(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        self.frames.push(Ok(self.used));
        self.used += 1;
        match self.packets.get_mut(self.used - 1) {
            Some(place) => Some(std::mem::replace(place, frame)),
            None => {
                self.packets.push(frame);
                None
            }
        }
    }

    /// Takes frames that start before `until` on the clock, as many as fit.
    fn fill(
        &mut self,
        clock: &mut ByteClock,
        until: Instant,
        write: &mut impl FnMut(u32, Instant, &mut Vec<u8>),
    ) {
        self.frames.clear();
        self.used = 0;
        while self.frames.len() < BATCH && clock.now() < until {
            match clock.dequeue() {
                None => return,
                Some(Frame::Pause(size)) => self.frames.push(Err(packet::length(size))),
                Some(Frame::Packet { flow, departure, .. }) => {
                    if self.packets.len() == self.used {
                        self.packets.push(Vec::new());
                    }
                    write(flow, departure, &mut self.packets[self.used]);
                    self.frames.push(Ok(self.used));
                    self.used += 1;
                }
            }
        }
    }
}

/// Opens a socket that receives nothing and hands frames to an interface, past the queue discipline: one that
/// looks at flows would change their order.
fn open(interface: u32) -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the result is checked before it is used.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is an open descriptor that nothing else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let on: libc::c_int = 1;
    // SAFETY: all-zero is a valid sockaddr_ll; the option is an int, and both pointers outlive the
    // calls with their lengths.
    let result = unsafe {
        let mut address: libc::sockaddr_ll = zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = interface as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let int = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(raw, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, (&raw const on).cast(), int)
            | libc::bind(raw, (&raw const address).cast(), length)
    };
    if result == 0 { Ok(fd) } else { Err(io::Error::last_os_error()) }
}
