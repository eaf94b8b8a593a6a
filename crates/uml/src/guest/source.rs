//! A source of datagrams: packets of a traffic model, released at their departure times by the kernel's `fq`.

use std::fs::File;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd as _;

use headway_traffic::{Emission, Generator};
use headway_units::{Duration, WIRE_OVERHEAD};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use super::events::{Event, Events};
use super::{Failure, ZEROES, option, system};
use crate::plan::PlannedSource;
use crate::report::SourceCounters;

/// Packets are passed to the kernel this long before they leave, in batches that cover this much time.
const AHEAD: Duration = Duration::from_ms(5);
/// IP and UDP headers, in bytes.
const HEADERS: u64 = 28;
/// The smallest packet on the wire: headers without payload.
const MIN_SIZE: u64 = HEADERS + 38;
/// Most datagrams passed to the kernel by one call.
const MAX_BATCH: usize = 64;
/// Port of all sources, at which nothing listens.
const PORT: u16 = 9;

/// `struct sock_txtime`: selects the clock of departure times.
#[derive(Clone, Copy)]
#[repr(C)]
struct TransmitTime {
    clock: i32,
    flags: u32,
}

/// A running source.
pub(super) struct Source {
    plan: PlannedSource,
    number: usize,
    socket: UdpSocket,
    generator: Generator,
    /// The next emission.
    next: Option<Emission>,
    sent: u64,
    sent_bytes: u64,
    /// Counters of the device at which packets arrive.
    arrived: [File; 2],
}

impl Source {
    /// Creates a source that has not started.
    pub(super) fn new(number: usize, plan: &PlannedSource, nodes: &[File]) -> Result<Source, Failure> {
        system::enter(&nodes[plan.from])?;
        let open = || -> io::Result<UdpSocket> {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM.cloexec(), None)?;
            setsockopt(&socket, sockopt::SndBufForce, &(i32::MAX as usize / 2))?;
            let clock = TransmitTime { clock: libc::CLOCK_MONOTONIC, flags: 0 };
            option::set(&socket, option::TXTIME, clock)?;
            socket.bind(&SocketAddrV4::new(plan.source, PORT).into())?;
            socket.connect(&SocketAddrV4::new(plan.destination, PORT).into())?;
            Ok(socket.into())
        };
        let socket = open().map_err(|error| failed(number, error))?;
        let counters = system::device_counters(&nodes[plan.to], &plan.sink)?;
        let mut generator = plan.traffic.generator(plan.seed, plan.number);
        let next = generator.next();
        Ok(Source {
            plan: plan.clone(),
            number,
            socket,
            generator,
            next,
            sent: 0,
            sent_bytes: 0,
            arrived: counters,
        })
    }

    /// Passes the packets of the next few milliseconds to the kernel.
    pub(super) fn work(&mut self, now: Duration, events: &mut Events) -> Result<(), Failure> {
        let until = now + AHEAD * 2;
        let mut batch: Vec<(i64, u64)> = Vec::with_capacity(MAX_BATCH);
        while let Some(emission) = self.next {
            let at = self.plan.start + emission.at;
            if self.plan.stop.is_some_and(|stop| at >= stop) {
                self.next = None;
                break;
            }
            if at > until {
                events.at(at - AHEAD, Event::Source(self.number));
                break;
            }
            let size = emission.size.get().max(MIN_SIZE);
            batch.push((events.zero() + at.ns(), size - MIN_SIZE));
            self.sent += 1;
            self.sent_bytes += size;
            self.next = self.generator.next();
            if batch.len() == MAX_BATCH {
                self.hand_over(&batch)?;
                batch.clear();
            }
        }
        self.hand_over(&batch)
    }

    /// Sends datagrams, given as departure times and payload sizes.
    fn hand_over(&self, batch: &[(i64, u64)]) -> Result<(), Failure> {
        let mut parts: Vec<libc::iovec> = batch
            .iter()
            .map(|(_, size)| libc::iovec {
                iov_base: ZEROES.as_ptr().cast_mut().cast(),
                iov_len: *size as usize,
            })
            .collect();
        let mut times: Vec<Control> = batch.iter().map(|(at, _)| Control::at(*at)).collect();
        let mut headers: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .zip(&mut times)
            .map(|(part, time)| {
                // SAFETY: all bit patterns of this plain structure are valid; zero means absent.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = std::ptr::from_mut(time).cast();
                header.msg_hdr.msg_controllen = size_of::<Control>();
                header
            })
            .collect();
        let mut done = 0;
        while done < headers.len() {
            let rest = &mut headers[done..];
            // SAFETY: the headers point to parts and times, which outlive the call; the kernel
            // only reads the payload.
            let sent =
                unsafe { libc::sendmmsg(self.socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0) };
            if sent <= 0 {
                return Err(failed(self.number, io::Error::last_os_error()));
            }
            done += sent as usize;
        }
        Ok(())
    }

    /// Returns the counters of packets sent and delivered.
    pub(super) fn counters(&self) -> Result<SourceCounters, Failure> {
        let [delivered, bytes] = [&self.arrived[0], &self.arrived[1]].map(system::number);
        let delivered = delivered?;
        // The device counts IP bytes.
        let bytes = bytes? + delivered * WIRE_OVERHEAD.get();
        Ok(SourceCounters { sent: self.sent, sent_bytes: self.sent_bytes, delivered, delivered_bytes: bytes })
    }
}

/// An `SCM_TXTIME` control message with a departure time.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    at: u64,
}

impl Control {
    fn at(time: i64) -> Control {
        let header = libc::cmsghdr {
            cmsg_len: size_of::<Control>(),
            cmsg_level: libc::SOL_SOCKET,
            // SCM_TXTIME is SO_TXTIME.
            cmsg_type: option::TXTIME.1,
        };
        Control { header, at: time.unsigned_abs() }
    }
}

fn failed(number: usize, error: io::Error) -> Failure {
    Failure::of(format!("source {number} cannot send"), error)
}
