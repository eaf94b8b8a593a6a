//! Gaps that TCP of the running kernel makes.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as Span;

use anyhow::{Context as _, Result, anyhow};
use headway_kernel::{Departures, Pace};
use headway_net::frames::{Filled, LineFiller};
use headway_units::{Duration, Rate};
use nix::sys::socket::setsockopt;
use nix::{setsockopt_impl, sockopt_impl};
use socket2::{Domain, SockAddr, Socket, Type};

use super::Mechanism;
use super::hosts::{INTERFACE, Wire};

sockopt_impl!(MaxPacingRate, SetOnly, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64);

/// Payload of a full segment, with timestamps.
const PAYLOAD: u64 = 1448;
/// What a receiver reads at once, and a sender writes.
const BLOCK: usize = 256 << 10;
/// Pause between two looks at what has arrived: a reader that every segment wakes would take a
/// processor from the sender.
const LOOK: Span = Span::from_millis(2);
/// Receive buffer in bytes: several pauses at the highest rate.
const BUFFER: usize = 4 << 20;
/// A sender that may not write for this long looks whether to stop.
const TIMEOUT: Span = Span::from_millis(200);

/// Connections that send as fast as their pace permits, until this is stopped.
pub(super) struct Flows {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    filler: Option<JoinHandle<io::Result<Filled>>>,
    _pace: Option<Pace>,
}

impl Flows {
    /// Starts `count` connections, each of which sends a segment every `gap`.
    pub(super) fn start(
        wire: &Wire,
        mechanism: Mechanism,
        line: Rate,
        count: u32,
        gap: Duration,
    ) -> Result<Flows> {
        let fills = mechanism == Mechanism::TcpPause;
        let segments = if fills || mechanism == Mechanism::TcpDevice { 1 } else { u32::from(u16::MAX) };
        wire.sender.command(format!("ip link set dev {INTERFACE} gso_max_segs {segments}"))?;
        let pace = match mechanism {
            Mechanism::TcpFq => None,
            _ => Some(Pace::load(gap, mechanism == Mechanism::TcpWindow, fills)?),
        };
        let controller = pace.as_ref().map_or("reno", Pace::name);
        let stop = Arc::new(AtomicBool::new(false));
        let filler = pace.as_ref().filter(|_| fills).map(|pace| fill(wire, line, pace, &stop)).transpose()?;
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (sender, receiver) = connect(wire, controller)?;
            if mechanism == Mechanism::TcpFq {
                limit(&sender, gap)?;
            }
            senders.push(sender);
            receivers.push(receiver);
        }
        let stopped = Arc::clone(&stop);
        let mut threads = vec![std::thread::spawn(move || receive(receivers, &stopped))];
        threads.extend(senders.into_iter().map(|sender| {
            let stopped = Arc::clone(&stop);
            std::thread::spawn(move || send(&sender, &stopped))
        }));
        Ok(Flows { stop, threads, filler, _pace: pace })
    }

    /// Ends the connections.
    ///
    /// # Errors
    /// If the line could not be filled.
    pub(super) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // They cannot panic.
            let _ = thread.join();
        }
        if let Some(filler) = self.filler {
            filler.join().map_err(|_| anyhow!("what fills the line has ended"))??;
        }
        Ok(())
    }
}

/// Starts what fills the line between the segments of all connections.
fn fill(
    wire: &Wire,
    line: Rate,
    pace: &Pace,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<io::Result<Filled>>> {
    wire.set_line(line)?;
    let times = pace.departure_times()?;
    let (filler, mut segments) = wire
        .sender
        .run(move || Ok((LineFiller::open(INTERFACE)?, Departures::take(INTERFACE, Some(&times), None)?)))?;
    let stopped = Arc::clone(stop);
    Ok(std::thread::spawn(move || filler.run(&mut segments, Departures::next, &stopped)))
}

/// Connects a sender with a congestion controller.
fn connect(wire: &Wire, controller: &'static str) -> Result<(Socket, TcpStream)> {
    let listener = wire.hop.run(|| {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.set_recv_buffer_size(BUFFER)?;
        listener.set_tcp_congestion(b"reno")?;
        listener.bind(&SockAddr::from(Wire::hop_address(0)))?;
        listener.listen(1)?;
        Ok(listener)
    })?;
    let address = listener.local_addr()?;
    let sender = wire.sender.run(move || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_tcp_congestion(controller.as_bytes())?;
        socket.connect(&address)?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(socket)
    })?;
    let (receiver, _) = listener.accept().context("no connection arrives")?;
    receiver.set_nonblocking(true)?;
    Ok((sender, receiver.into()))
}

/// Limits the rate of a connection so that a segment takes `gap`.
fn limit(socket: &Socket, gap: Duration) -> Result<()> {
    let rate = PAYLOAD * 1_000_000_000 / gap.ns() as u64;
    Ok(setsockopt(socket, MaxPacingRate, &rate)?)
}

fn send(mut socket: &Socket, stopped: &AtomicBool) {
    let block = vec![0; BLOCK];
    while !stopped.load(Ordering::Relaxed) {
        // It fails when the pace permits nothing for a while.
        let _ = socket.write(&block);
    }
}

fn receive(mut sockets: Vec<TcpStream>, stopped: &AtomicBool) {
    let mut block = vec![0; BLOCK];
    while !stopped.load(Ordering::Relaxed) {
        for socket in &mut sockets {
            while socket.read(&mut block).is_ok_and(|bytes| bytes == BLOCK) {}
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether this host has the queue discipline that keeps departure times.
pub(super) fn install_fq(wire: &Wire) -> bool {
    wire.sender.command(format!("tc qdisc replace dev {INTERFACE} root fq")).is_ok()
}
