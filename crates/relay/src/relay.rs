//! Accepts clients, and serves all connections.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{SockAddr, Socket};

use crate::leg::{self, Leg};
use crate::loops::{Loop, Loops};
use crate::pair::{Pair, State};

/// Clients that the kernel keeps waiting, each after its handshake.
const BACKLOG: i32 = 128;
/// How long the target may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// The same where another way is tried then. A SYN is repeated after one and after three seconds.
const CONNECT_FIRST: Duration = Duration::from_secs(3);
/// How long a connection may be open before its first byte in either direction. A stranger can hold a place,
/// two sockets and no buffer for so long without saying anything.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// How often connections are looked through for those that take too long.
const SWEEP: Duration = Duration::from_secs(1);
/// Events taken at once.
const EVENTS: usize = 256;
/// What marks the events of listeners; others are places of pairs.
const LISTENER: u64 = u64::MAX;
/// Descriptors besides two for each connection: standard streams, listeners, `epoll`, logs.
const OTHER_DESCRIPTORS: u64 = 32;

/// Where the connections of clients go on to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A host, whose addresses are tried in turn.
    Host(Vec<SocketAddr>),
    /// Where each client wanted to connect to, as the redirection of its packets left it. The relay has
    /// the addresses of both ends towards each other, and this mark on what it sends on. If such a connection
    /// gets no answer, one from the relay's own address is tried: a router that translates addresses sends
    /// the answer to the client. Without a place for another connection it does not listen, so that whoever
    /// redirects can let clients pass. Needs CAP_NET_RAW.
    Original {
        /// The mark.
        mark: u32,
    },
}

/// What a relay does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients connect to; one address at least.
    pub listen: Vec<SocketAddr>,
    /// Where their connections go on to.
    pub target: Target,
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
    /// Of those that ended, those that were complete, that broke, that did not reach the
    /// target, that were silent.
    pub ended: [u64; 4],
    /// Bytes from clients and from the target, of connections that have ended and of those that are open.
    pub bytes: [u64; 2],
}

/// A relay that listens.
#[derive(Debug)]
pub struct Relay {
    options: Options,
    epoll: Epoll,
    /// Where it listens, with the port that it has; no sockets while it does not.
    addresses: Vec<SocketAddr>,
    listeners: Vec<Socket>,
    /// Whether clients may be waiting.
    has_clients: bool,
    /// Whether connections from the addresses of clients get no answers.
    is_translated: bool,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// Places of pairs that have more to do.
    ready: VecDeque<usize>,
    swept: Instant,
    counts: Counts,
    ended: Vec<Ended>,
    loops: Loops,
}

impl Relay {
    /// Listens for clients.
    ///
    /// # Errors
    /// If the address, or what the options ask for, cannot be had.
    pub fn listen(options: Options) -> Result<Relay, Error> {
        allow_files(options.connections)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from)?;
        let mut relay = Relay {
            addresses: options.listen.clone(),
            options,
            epoll,
            listeners: Vec::new(),
            has_clients: false,
            is_translated: false,
            pairs: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            swept: Instant::now(),
            counts: Counts::default(),
            ended: Vec::new(),
            loops: Loops::default(),
        };
        relay.open()?;
        Ok(relay)
    }

    /// Listens where it does not yet.
    fn open(&mut self) -> Result<(), Error> {
        for address in self.addresses.iter_mut().skip(self.listeners.len()) {
            let listener =
                listener(&self.options, address).map_err(|error| Error::Listen(*address, error))?;
            *address = listener.local_addr()?.as_socket().ok_or(io::Error::from(ErrorKind::Unsupported))?;
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
            self.epoll.add(&listener, EpollEvent::new(flags, LISTENER)).map_err(io::Error::from)?;
            self.listeners.push(listener);
        }
        Ok(())
    }

    /// Tells whether connections to the target can be set up as the options say.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check(&self) -> Result<(), Error> {
        let made = match &self.options.target {
            Target::Host(addresses) => {
                addresses.iter().try_for_each(|address| self.options.legs[1].socket(address).map(drop))
            }
            Target::Original { mark } => {
                self.addresses.iter().try_for_each(|address| self.socket_of(address, *mark).map(drop))
            }
        };
        made.map_err(Error::Leg)
    }

    /// Where it listens, in the order of the options.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns how connections come back, when that was found out since this was asked last.
    pub fn take_loop(&mut self) -> Option<Loop> {
        self.loops.take()
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
                let is_from_here = pair.tried() == FROM_HERE;
                self.is_translated |= self.is_transparent() && is_from_here;
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

    const fn is_transparent(&self) -> bool {
        matches!(self.options.target, Target::Original { .. })
    }

    /// Accepts those that wait while there is a place; otherwise they go on waiting in the
    /// kernel, or come no more.
    fn accept(&mut self, now: Instant) {
        while self.has_clients && self.counts.open < self.options.connections {
            match self.next_client() {
                Ok(Some((socket, client))) => {
                    self.counts.accepted += 1;
                    // A client that has gone meanwhile is no reason to end.
                    if let Some(client) = client.as_socket() {
                        let _ = self.begin(socket, client, now);
                    }
                }
                Ok(None) => self.has_clients = false,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // No memory or no descriptor: later, when others have ended.
                Err(_) => break,
            }
        }
        if self.is_transparent() {
            if self.counts.open >= self.options.connections {
                self.listeners.clear();
            } else if self.listeners.len() < self.addresses.len() && self.open().is_ok() {
                self.has_clients = true;
            }
        }
    }

    /// Returns a client that waits, if one does.
    fn next_client(&self) -> io::Result<Option<(Socket, SockAddr)>> {
        for listener in &self.listeners {
            match listener.accept() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// Opens a connection to the target for a client.
    fn begin(&mut self, socket: Socket, client: SocketAddr, now: Instant) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        leg::prepare(&socket)?;
        if self.comes_back(&socket, client, now) {
            self.refuse(client, Reason::Broken);
            return Ok(());
        }
        let first = if self.is_translated { FROM_HERE } else { 0 };
        let Some((tried, target)) = self.connect(&socket, client, first) else {
            self.refuse(client, Reason::Unreachable);
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

    fn refuse(&mut self, client: SocketAddr, reason: Reason) {
        self.counts.ended[reason as usize] += 1;
        self.ended.push(Ended { client, bytes: [0; 2], time: Duration::ZERO, reason });
    }

    /// Whether a client is this relay itself, or has all places of those whose connections come back.
    fn comes_back(&mut self, socket: &Socket, client: SocketAddr, now: Instant) -> bool {
        let Target::Host(targets) = &self.options.target else { return false };
        let here = socket.local_addr().ok().and_then(|here| here.as_socket());
        let known = |address: &SocketAddr| (address.ip().to_canonical(), address.port());
        if let Some(here) = here.filter(|here| targets.iter().any(|target| known(target) == known(here))) {
            self.loops.came_back(here);
            return true;
        }
        let Some(most) = self.loops.most(client.ip(), self.options.connections, now) else { return false };
        self.pairs.iter().flatten().filter(|pair| pair.client().ip() == client.ip()).count() >= most
    }

    fn watch(&self, socket: &Socket, place: usize) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        Ok(self.epoll.add(socket, EpollEvent::new(flags, place as u64))?)
    }

    /// Begins to connect to the target of a client, in the first way for which that is possible, from this
    /// place in their list on.
    fn connect(&self, socket: &Socket, client: SocketAddr, from: usize) -> Option<(usize, Socket)> {
        match &self.options.target {
            Target::Host(addresses) => {
                let addresses = addresses.iter().enumerate().skip(from);
                addresses
                    .into_iter()
                    .find_map(|(place, address)| Some((place, self.connect_to(address).ok()?)))
            }
            Target::Original { mark } => {
                let wanted = socket.local_addr().ok()?.as_socket()?;
                // A client that connects to the relay itself has no target.
                let ways = if self.addresses.contains(&wanted) { 0 } else { WAYS };
                (from..ways).find_map(|way| {
                    let client = (way != FROM_HERE).then_some(client);
                    Some((way, self.connect_as(client, &wanted, *mark).ok()?))
                })
            }
        }
    }

    fn connect_to(&self, address: &SocketAddr) -> io::Result<Socket> {
        let socket = self.options.legs[1].socket(address)?;
        connect(socket, address)
    }

    /// Connects from the address of a client, but not from its port: for who follows connections at this
    /// router, both halves would be one.
    fn connect_as(&self, client: Option<SocketAddr>, wanted: &SocketAddr, mark: u32) -> io::Result<Socket> {
        let socket = self.socket_of(wanted, mark)?;
        if let Some(client) = client {
            socket.bind(&SocketAddr::new(client.ip(), 0).into())?;
        }
        connect(socket, wanted)
    }

    /// Makes a socket that may have the address of a client.
    fn socket_of(&self, address: &SocketAddr, mark: u32) -> io::Result<Socket> {
        let socket = self.options.legs[1].socket(address)?;
        leg::make_transparent(&socket, address)?;
        socket.set_mark(mark)?;
        Ok(socket)
    }

    /// Tries the next address of the target for a pair.
    fn try_another(&mut self, place: usize, now: Instant) {
        let another = self.pairs.get(place).and_then(Option::as_ref).and_then(|pair| {
            let another = self.connect(&pair.sockets()[0], pair.client(), pair.tried() + 1);
            another.filter(|(_, socket)| self.watch(socket, place).is_ok())
        });
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
                let is_first = self.is_transparent() && pair.tried() != FROM_HERE;
                if silence >= if is_first { CONNECT_FIRST } else { CONNECT } {
                    self.try_another(place, now);
                }
            } else if silence >= self.options.idle || pair.bytes() == [0, 0] && pair.age(now) >= FIRST_BYTE {
                self.end(place, Reason::Silent, now);
            }
        }
        if !self.is_transparent()
            && let Some(place) =
                self.loops.look(&self.pairs, self.options.connections, self.counts.ended.iter().sum(), now)
        {
            self.end(place, Reason::Broken, now);
        }
    }

    fn end(&mut self, place: usize, reason: Reason, now: Instant) {
        // Dropped at the end, which closes both sockets.
        let Some(pair) = self.pairs.get_mut(place).and_then(Option::take) else { return };
        if reason == Reason::Complete {
            pair.complete();
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

/// Ways to a target that the client has chosen, in the order in which they are tried: from the client's
/// address, and this one from the relay's own.
const FROM_HERE: usize = 1;
const WAYS: usize = 2;

/// Makes a socket that listens.
fn listener(options: &Options, address: &SocketAddr) -> io::Result<Socket> {
    // Accepted connections are set up as this one is, from their first packet.
    let listener = options.legs[0].socket(address)?;
    listener.set_reuse_address(true)?;
    if matches!(options.target, Target::Original { .. }) {
        leg::make_transparent(&listener, address)?;
    }
    listener.bind(&(*address).into())?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

/// Begins to connect.
fn connect(socket: Socket, address: &SocketAddr) -> io::Result<Socket> {
    leg::prepare(&socket)?;
    match socket.connect(&(*address).into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Raises the limit of open files to what this many connections need.
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
