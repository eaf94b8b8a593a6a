//! A TCP flow: both ends, each in its own namespace.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _};

use headway_telemetry::TcpInfo;
use headway_units::{Bytes, Duration, Rate};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use super::events::{Endpoint, Event, Events};
use super::{Failure, ZEROES, option, system};
use crate::plan::PlannedFlow;
use crate::report::FlowCounters;

/// Port on which flow 0 listens; the other flows use the following ports.
const FIRST_PORT: u16 = 5001;
/// Most unread bytes before the reader wakes; every wake-up costs context switches between host processes.
const LOW: u64 = 1 << 18;
/// Most bytes that a reader takes at the same time. A repaired loss may leave tens of megabytes, whose
/// thousands of segments take time, since the kernel looks at its clock for each: then links stand
/// still and ACKs are late.
const AT_ONCE: u64 = 1 << 20;
/// How long a reader rests before it takes more.
const REST: Duration = Duration::from_us(1);
/// How often a rate-limited application reads or writes.
const TICK: Duration = Duration::from_ms(1);
/// The kernel's value for "no slow-start threshold yet".
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// A running flow.
#[derive(Debug)]
pub(super) struct Flow {
    plan: PlannedFlow,
    number: usize,
    listener: TcpListener,
    sender: Option<TcpStream>,
    receiver: Option<TcpStream>,
    /// Payload bytes written.
    written: u64,
    read: u64,
    /// Whether the reader lets time pass before it takes more.
    rests: bool,
    started: bool,
    closed: bool,
    finished: Option<Duration>,
}

impl Flow {
    /// Creates a flow whose receiver listens.
    pub(super) fn listen(
        number: usize,
        plan: &PlannedFlow,
        nodes: &[File],
        events: &mut Events,
    ) -> Result<Flow, Failure> {
        system::enter(&nodes[plan.to])?;
        let socket = endpoint(&plan.opening).map_err(|error| failed(number, "listen", error))?;
        let listen = || -> io::Result<TcpListener> {
            let buffer =
                usize::try_from(plan.receive_buffer).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
            setsockopt(&socket, sockopt::RcvBufForce, &buffer)?;
            let clamp = i32::try_from(plan.receive_buffer).unwrap_or(i32::MAX);
            option::set(&socket, option::WINDOW_CLAMP, clamp)?;
            socket.bind(&SocketAddrV4::new(plan.destination, port(number)).into())?;
            socket.listen(1)?;
            Ok(socket.into())
        };
        let listener = listen().map_err(|error| failed(number, "listen", error))?;
        events.watch(listener.as_fd(), Event::Flow(number, Endpoint::Listener), false)?;
        Ok(Flow {
            plan: plan.clone(),
            number,
            listener,
            sender: None,
            receiver: None,
            written: 0,
            read: 0,
            rests: false,
            started: false,
            closed: false,
            finished: None,
        })
    }

    /// Opens the connection.
    pub(super) fn connect(&mut self, nodes: &[File], events: &mut Events) -> Result<(), Failure> {
        system::enter(&nodes[self.plan.from])?;
        let connect = || -> io::Result<TcpStream> {
            let socket = endpoint(&self.plan.opening)?;
            if self.plan.pacing {
                // Any limit makes the kernel pace; this one is higher than every rate.
                option::set(&socket, option::MAX_PACING_RATE, u64::MAX - 1)?;
            }
            socket.bind(&SocketAddrV4::new(self.plan.source, 0).into())?;
            socket.set_nonblocking(true)?;
            let address = SocketAddrV4::new(self.plan.destination, port(self.number));
            match socket.connect(&address.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
                _ => Ok(socket.into()),
            }
        };
        let sender = connect().map_err(|error| failed(self.number, "connect", error))?;
        // Watched for writing only from the start of the flow.
        events.watch(sender.as_fd(), Event::Flow(self.number, Endpoint::Sender), false)?;
        self.sender = Some(sender);
        Ok(())
    }

    /// Accepts the incoming connection.
    pub(super) fn accept(&mut self, events: &mut Events) -> Result<(), Failure> {
        let (receiver, _) = self.listener.accept().map_err(|error| failed(self.number, "accept", error))?;
        receiver.set_nonblocking(true).map_err(|error| failed(self.number, "accept", error))?;
        self.set_low(&receiver).map_err(|error| failed(self.number, "accept", error))?;
        if self.plan.read_rate.is_none() {
            events.watch(receiver.as_fd(), Event::Flow(self.number, Endpoint::Receiver), false)?;
        }
        self.receiver = Some(receiver);
        Ok(())
    }

    /// Sets how many unread bytes wake the reader: no more than are left of the flow.
    fn set_low(&self, receiver: &TcpStream) -> io::Result<()> {
        let left = self.plan.size.unwrap_or(u64::MAX).saturating_sub(self.read);
        let low = LOW.min(self.plan.receive_buffer / 16).min(left).max(1) as i32;
        option::set(receiver, option::RECEIVE_LOW, low)
    }

    /// Starts the application's writing.
    pub(super) fn start(&mut self, now: Duration, events: &mut Events) -> Result<(), Failure> {
        self.started = true;
        if let (false, Some(sender)) = (self.plan.parameters.is_empty(), &self.sender) {
            for (file, value) in &self.plan.parameters {
                system::write(file, value)?;
            }
            choose(sender, &self.plan.controller).map_err(|error| failed(self.number, "start", error))?;
        }
        if self.plan.application_rate.is_none() {
            let Some(sender) = &self.sender else { return Ok(()) };
            events.change(sender.as_fd(), Event::Flow(self.number, Endpoint::Sender), true)?;
        }
        self.write(now, events)
    }

    /// Lets the rate-limited application at one end write or read.
    pub(super) fn tick(&mut self, now: Duration, end: Endpoint, events: &mut Events) -> Result<(), Failure> {
        match end {
            Endpoint::Sender => self.write(now, events),
            _ => self.read(now, events),
        }
    }

    /// Writes as much as the socket and the application's rate allow now.
    pub(super) fn write(&mut self, now: Duration, events: &mut Events) -> Result<(), Failure> {
        if !self.started || self.closed {
            return self.await_end(now, events);
        }
        let Some(sender) = &mut self.sender else { return Ok(()) };
        let stopped = self.plan.stop.is_some_and(|stop| now >= stop);
        let due = self.plan.application_rate.map_or(u64::MAX, |rate| offered(rate, now - self.plan.start));
        let end = self.plan.size.unwrap_or(u64::MAX);
        while !stopped && self.written < due.min(end) {
            let left = due.min(end) - self.written;
            let part = ZEROES.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match sender.write(&ZEROES[..part]) {
                Ok(written) => {
                    self.written += written as u64;
                    if written < part {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(failed(self.number, "send", error)),
            }
        }
        if stopped || self.written == end {
            self.closed = true;
            // A FIN would be one more packet in the queues. The receiver knows the size of a
            // flow and closes first.
            if self.written < end {
                sender
                    .shutdown(std::net::Shutdown::Write)
                    .map_err(|error| failed(self.number, "end", error))?;
            }
            events.change(sender.as_fd(), Event::Flow(self.number, Endpoint::Sender), false)?;
        } else if self.plan.application_rate.is_some() {
            events.at(now + TICK, Event::Tick(self.number, Endpoint::Sender));
        }
        Ok(())
    }

    /// Notes the end of the flow: the receiver closes once it has received everything.
    fn await_end(&mut self, now: Duration, events: &mut Events) -> Result<(), Failure> {
        let (true, Some(sender)) = (self.closed, &self.sender) else { return Ok(()) };
        let mut byte = [0];
        // An error means that the receiver has gone, like end of stream.
        if !matches!(io::Read::read(&mut &*sender, &mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        {
            self.finished.get_or_insert(now);
            events.forget(sender.as_fd())?;
        }
        Ok(())
    }

    /// Reads and discards as much as is available and the application's rate allows.
    pub(super) fn read(&mut self, now: Duration, events: &mut Events) -> Result<(), Failure> {
        let Some(receiver) = &self.receiver else { return Ok(()) };
        let full = self.read + AT_ONCE;
        let due = self.plan.read_rate.map_or(full, |rate| offered(rate, now - self.plan.start));
        let mut ended = false;
        while self.read < due {
            let most = (due - self.read) as usize;
            match discard(receiver, most) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(read) => {
                    self.read += read as u64;
                    if read < most {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(failed(self.number, "receive", error)),
            }
        }
        if self.plan.size.is_some() {
            self.set_low(receiver).map_err(|error| failed(self.number, "receive", error))?;
        }
        if ended || self.plan.size.is_some_and(|size| self.read >= size) {
            // Close the sending direction only, so that the counters stay readable.
            receiver
                .shutdown(std::net::Shutdown::Write)
                .map_err(|error| failed(self.number, "end", error))?;
            if self.plan.read_rate.is_none() {
                events.forget(receiver.as_fd())?;
            }
        } else if self.plan.read_rate.is_some() {
            events.at(now + TICK, Event::Tick(self.number, Endpoint::Receiver));
        } else if self.read >= full || self.rests {
            self.rests = self.read >= full;
            events.let_read(receiver.as_fd(), Event::Flow(self.number, Endpoint::Receiver), !self.rests)?;
            if self.rests {
                events.at(now + REST, Event::Tick(self.number, Endpoint::Receiver));
            }
        }
        Ok(())
    }

    /// Returns the kernel's counters.
    pub(super) fn counters(&self) -> FlowCounters {
        let (Some(sender), Some(receiver)) = (&self.sender, &self.receiver) else {
            return FlowCounters::default();
        };
        let (sent, received) = (TcpInfo::of(sender), TcpInfo::of(receiver));
        let us = |us: u32| Duration::from_us(i64::from(us));
        FlowCounters {
            received: received.bytes_received(),
            sent: sent.data_segments_out().into(),
            retransmitted: sent.retransmitted().into(),
            timeouts: sent.timeouts().into(),
            marks: sent.delivered_marked().into(),
            cwnd: sent.cwnd(),
            ssthresh: Some(sent.ssthresh()).filter(|ssthresh| *ssthresh < NO_THRESHOLD),
            srtt: us(sent.rtt()),
            min_rtt: us(Some(sent.min_rtt()).filter(|us| *us < u32::MAX).unwrap_or(0)),
            pacing: Rate::of(Bytes::new(sent.pacing_rate()), Duration::from_ms(1000)).unwrap_or_default(),
            finished: self.finished,
            // Before, another one keeps the connection open.
            controller: if self.started { TcpInfo::of_controller(sender) } else { Default::default() },
        }
    }
}

fn port(number: usize) -> u16 {
    // Flows that share a port because numbers wrap around have different addresses.
    FIRST_PORT + (number % 60_000) as u16
}

/// Bytes that an application of this rate has handled after `time`.
fn offered(rate: Rate, time: Duration) -> u64 {
    if time > Duration::ZERO { rate.bytes_in(time).get() } else { 0 }
}

fn endpoint(controller: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.cloexec(), None)?;
    choose(&socket, controller)?;
    Ok(socket)
}

/// Sets the congestion control of a socket.
fn choose(socket: &impl AsFd, controller: &str) -> io::Result<()> {
    setsockopt(socket, sockopt::TcpCongestion, &OsString::from(controller)).map_err(|error| match error {
        Errno::ENOENT => system::missing(controller),
        other => io::Error::from(other),
    })
}

/// Removes bytes from the receive buffer without copying them.
fn discard(stream: &TcpStream, most: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket does not write to the buffer, so the pointer may be null.
    let got = unsafe {
        libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC | libc::MSG_DONTWAIT)
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

fn failed(number: usize, verb: &str, error: io::Error) -> Failure {
    Failure::of(format!("flow {number} cannot {verb}"), error)
}
