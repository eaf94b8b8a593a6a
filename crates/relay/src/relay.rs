//! Accepts clients, and serves all connections.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::Socket;

use crate::leg::{self, Leg};
use crate::pair::{Pair, State};

/// Clients that the kernel keeps waiting, each after its handshake.
const BACKLOG: i32 = 128;
/// How long the target may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be open before its first byte in either direction. A stranger can hold a place, two sockets and no
/// buffer for so long without saying anything.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// How often connections are looked through for those that take too long.
const SWEEP: Duration = Duration::from_secs(1);
/// Events taken at once.
const EVENTS: usize = 256;
/// What marks the events of the listener; others are places of pairs.
const LISTENER: u64 = u64::MAX;
/// Descriptors besides two for each connection: standard streams, listener, `epoll`, logs.
const OTHER_DESCRIPTORS: u64 = 32;

/// What a relay does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients connect to.
    pub listen: SocketAddr,
    /// Addresses of the target, tried in turn.
    pub target: Vec<SocketAddr>,
    /// How connections of clients and of the target are set up.
    pub legs: [Leg; 2],
    /// Bytes that a connection holds in each direction, at least one, besides the kernel's buffers.
    pub buffer: usize,
    /// Most connections of clients at a time; others wait until one has ended.
    pub connections: usize,
    /// How long a connection may be silent.
    pub idle: Duration,
}

/// Why there is no relay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// A controller or window cannot be set.
    #[error("cannot set up connections to the target: {0}")]
    Leg(io::Error),
    /// There may not be enough files.
    #[error(
        "{0} connections need {1} open files, and this process may have {2}; raise its limit (`ulimit -n`)"
    )]
    Files(usize, u64, u64),
    /// Something else that the system refused.
    #[error("cannot wait for connections: {0}")]
    System(#[from] io::Error),
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Both ends have said all.
    Complete,
    /// One of its two connections broke.
    Broken,
    /// The target does not answer.
    Unreachable,
    /// It was silent for too long.
    Silent,
}

/// A connection that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The client.
    pub client: SocketAddr,
    /// Bytes from the client, and from the target.
    pub bytes: [u64; 2],
    /// How long it lasted.
    pub time: Duration,
    /// Why it ended.
    pub reason: Reason,
}

/// What a relay has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections of clients.
    pub accepted: u64,
    /// Those that are open.
    pub open: usize,
    /// Of those that ended, those that were complete, that broke, that did not reach the target, that were silent.
    pub ended: [u64; 4],
    /// Bytes from clients and from the target, of connections that have ended and of those that are open.
    pub bytes: [u64; 2],
}

/// A relay that listens.
#[derive(Debug)]
pub struct Relay {
    options: Options,
    epoll: Epoll,
    listener: Socket,
    /// Whether clients may be waiting.
    has_clients: bool,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// Places of pairs that have more to do.
    ready: VecDeque<usize>,
    swept: Instant,
    counts: Counts,
    ended: Vec<Ended>,
}

impl Relay {
    /// Listens for clients.
    ///
    /// # Errors
    /// If the address, or what the options ask for, cannot be had.
    pub fn listen(options: Options) -> Result<Relay, Error> {
        allow_files(options.connections)?;
        let failed = |error| Error::Listen(options.listen, error);
        // Accepted connections are set up as this one is, from their first packet.
        let listener = options.legs[0].socket(&options.listen).map_err(failed)?;
        listener.set_reuse_address(true).map_err(failed)?;
        listener.bind(&options.listen.into()).map_err(failed)?;
        listener.listen(BACKLOG).map_err(failed)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from)?;
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        epoll.add(&listener, EpollEvent::new(flags, LISTENER)).map_err(io::Error::from)?;
        Ok(Relay {
            options,
            epoll,
            listener,
            has_clients: false,
            pairs: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            swept: Instant::now(),
            counts: Counts::default(),
            ended: Vec::new(),
        })
    }

    /// Tells whether connections to the target can be set up as the options say.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check(&self) -> Result<(), Error> {
        self.options
            .target
            .iter()
            .try_for_each(|address| self.options.legs[1].socket(address).map(drop))
            .map_err(Error::Leg)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()?.as_socket().ok_or_else(|| io::Error::from(ErrorKind::Unsupported))
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        let open = self.pairs.iter().flatten().map(Pair::bytes);
        let bytes = open.fold(self.counts.bytes, |sum, bytes| [0, 1].map(|way| sum[way] + bytes[way]));
        Counts { bytes, ..self.counts }
    }

    /// Serves connections until something has happened, at most for `wait`; returns those that have ended.
    ///
    /// # Errors
    /// The system's error of waiting.
    pub fn work(&mut self, wait: Duration) -> io::Result<Vec<Ended>> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let wait = if self.ready.is_empty() { wait } else { Duration::ZERO };
        let timeout = EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::MAX);
        let count = match self.epoll.wait(&mut events, timeout) {
            Err(nix::errno::Errno::EINTR) => 0,
            result => result?,
        };
        let now = Instant::now();
        for event in &events[..count] {
            match event.data() {
                LISTENER => self.has_clients = true,
                place => self.on_event(place as usize, now),
            }
        }
        for _ in 0..self.ready.len() {
            let Some(place) = self.ready.pop_front() else { break };
            self.serve(place, now);
        }
        self.accept(now);
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.sweep(now);
        }
        Ok(std::mem::take(&mut self.ended))
    }

    fn on_event(&mut self, place: usize, now: Instant) {
        // An event of a pair that has ended since, whose place another may have: it is served without need.
        let Some(pair) = self.pairs.get_mut(place).and_then(Option::as_mut) else { return };
        if pair.is_connected() {
            return self.serve(place, now);
        }
        let [client, target] = pair.sockets().each_ref().map(Socket::take_error);
        match (client, target) {
            (Ok(None), Ok(None)) if pair.sockets()[1].peer_addr().is_ok() => {
                pair.connected(now);
                self.serve(place, now);
            }
            // The client spoke, and the target has not answered yet.
            (Ok(None), Ok(None)) => {}
            (Ok(None), _) => self.try_another(place, now),
            _ => self.end(place, Reason::Broken, now),
        }
    }

    fn serve(&mut self, place: usize, now: Instant) {
        let is_held = self.options.legs.each_ref().map(|leg| leg.window.is_some());
        let Some(pair) = self.pairs.get_mut(place).and_then(Option::as_mut) else { return };
        match pair.serve(now) {
            Ok(State::Waiting) => pair.acknowledge(is_held),
            Ok(State::Ready) => self.ready.push_back(place),
            Ok(State::Over) => self.end(place, Reason::Complete, now),
            Err(_) => self.end(place, Reason::Broken, now),
        }
    }

    /// Accepts those that wait while there is a place; otherwise they go on waiting in the kernel.
    fn accept(&mut self, now: Instant) {
        while self.has_clients && self.counts.open < self.options.connections {
            match self.listener.accept() {
                Ok((socket, client)) => {
                    self.counts.accepted += 1;
                    // A client that has gone meanwhile is no reason to end.
                    if let Some(client) = client.as_socket() {
                        let _ = self.begin(socket, client, now);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.has_clients = false,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // No memory or no descriptor: later, when others have ended.
                Err(_) => break,
            }
        }
    }

    /// Opens a connection to the target for a client.
    fn begin(&mut self, socket: Socket, client: SocketAddr, now: Instant) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        leg::prepare(&socket)?;
        let Some((tried, target)) = self.connect(0) else {
            leg::reset(&socket);
            self.counts.ended[Reason::Unreachable as usize] += 1;
            self.ended.push(Ended {
                client,
                bytes: [0; 2],
                time: Duration::ZERO,
                reason: Reason::Unreachable,
            });
            return Ok(());
        };
        let place = self.free.pop().unwrap_or(self.pairs.len());
        let pair = Pair::new([socket, target], client, tried, self.options.buffer, now);
        let watched = pair.sockets().iter().try_for_each(|socket| self.watch(socket, place));
        if place == self.pairs.len() {
            self.pairs.push(Some(pair));
        } else {
            self.pairs[place] = Some(pair);
        }
        self.counts.open += 1;
        if watched.is_err() {
            self.end(place, Reason::Broken, now);
        }
        Ok(())
    }

    fn watch(&self, socket: &Socket, place: usize) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        Ok(self.epoll.add(socket, EpollEvent::new(flags, place as u64))?)
    }

    /// Begins to connect to the first address of the target, from this place in the list on, for which that is possible.
    fn connect(&self, from: usize) -> Option<(usize, Socket)> {
        let addresses = self.options.target.iter().enumerate().skip(from);
        addresses.into_iter().find_map(|(place, address)| Some((place, self.connect_to(address).ok()?)))
    }

    fn connect_to(&self, address: &SocketAddr) -> io::Result<Socket> {
        let socket = self.options.legs[1].socket(address)?;
        leg::prepare(&socket)?;
        match socket.connect(&(*address).into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }

    /// Tries the next address of the target for a pair.
    fn try_another(&mut self, place: usize, now: Instant) {
        let tried = self.pairs.get(place).and_then(Option::as_ref).map_or(0, |pair| pair.tried());
        let another = self.connect(tried + 1).filter(|(_, socket)| self.watch(socket, place).is_ok());
        match (another, self.pairs.get_mut(place).and_then(Option::as_mut)) {
            (Some((tried, socket)), Some(pair)) => pair.try_another(tried, socket, now),
            _ => self.end(place, Reason::Unreachable, now),
        }
    }

    /// Ends what takes too long.
    fn sweep(&mut self, now: Instant) {
        for place in 0..self.pairs.len() {
            let Some(pair) = &self.pairs[place] else { continue };
            let silence = pair.silence(now);
            if !pair.is_connected() {
                if silence >= CONNECT {
                    self.try_another(place, now);
                }
            } else if silence >= self.options.idle || pair.bytes() == [0, 0] && pair.age(now) >= FIRST_BYTE {
                self.end(place, Reason::Silent, now);
            }
        }
    }

    fn end(&mut self, place: usize, reason: Reason, now: Instant) {
        // Dropped at the end, which closes both sockets.
        let Some(pair) = self.pairs.get_mut(place).and_then(Option::take) else { return };
        if reason != Reason::Complete {
            pair.reset();
        }
        self.free.push(place);
        self.counts.open -= 1;
        self.counts.ended[reason as usize] += 1;
        let bytes = pair.bytes();
        self.counts.bytes = [0, 1].map(|way| self.counts.bytes[way] + bytes[way]);
        let time = pair.age(now);
        self.ended.push(Ended { client: pair.client(), bytes, time, reason });
    }
}

/// Raises the limit of open files to what so many connections need.
fn allow_files(connections: usize) -> Result<(), Error> {
    let needed = 2 * connections as u64 + OTHER_DESCRIPTORS;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for writing.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    if limit.rlim_cur >= needed {
        return Ok(());
    }
    if limit.rlim_max < needed {
        return Err(Error::Files(connections, needed, limit.rlim_max));
    }
    limit.rlim_cur = needed;
    // SAFETY: the structure is valid.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(())
}
