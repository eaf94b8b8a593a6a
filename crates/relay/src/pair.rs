//! Two connections that belong together.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::leg;
use crate::ring::Ring;

/// How often both directions are served before other connections have their turn. Each time
/// moves at most a buffer.
const TURNS: usize = 4;

/// What a pair is after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for the network.
    Waiting,
    /// There is more to do at once.
    Ready,
    /// Both directions have ended.
    Over,
}

/// One direction: from the connection of this index to the other.
#[derive(Debug)]
struct Direction {
    ring: Ring,
    /// Whether all was read.
    is_read: bool,
    /// Whether the other connection has heard that nothing follows.
    is_closed: bool,
    bytes: u64,
}

/// Two connections, and what is on its way between them.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The client's, and that to the target.
    sockets: [Socket; 2],
    directions: [Direction; 2],
    /// Whether the connection to the target is there.
    is_connected: bool,
    /// The address of the target that is being tried, by its place in the list.
    tried: usize,
    client: SocketAddr,
    begun: Instant,
    /// When a byte moved last.
    moved: Instant,
}

impl Pair {
    pub(crate) fn new(
        sockets: [Socket; 2],
        client: SocketAddr,
        tried: usize,
        buffer: usize,
        now: Instant,
    ) -> Pair {
        let direction = || Direction { ring: Ring::new(buffer), is_read: false, is_closed: false, bytes: 0 };
        Pair {
            sockets,
            directions: [direction(), direction()],
            is_connected: false,
            tried,
            client,
            begun: now,
            moved: now,
        }
    }

    /// The client's connection, and that to the target.
    pub(crate) fn sockets(&self) -> &[Socket; 2] {
        &self.sockets
    }

    pub(crate) fn client(&self) -> SocketAddr {
        self.client
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    pub(crate) fn connected(&mut self, now: Instant) {
        (self.is_connected, self.moved) = (true, now);
    }

    pub(crate) fn tried(&self) -> usize {
        self.tried
    }

    /// Takes another connection to the target.
    pub(crate) fn try_another(&mut self, tried: usize, socket: Socket, now: Instant) {
        (self.sockets[1], self.tried, self.moved) = (socket, tried, now);
    }

    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.duration_since(self.begun)
    }

    /// How long no byte has moved.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.duration_since(self.moved)
    }

    /// Bytes from the client, and from the target.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [self.directions[0].bytes, self.directions[1].bytes]
    }

    /// Moves what can be moved.
    ///
    /// # Errors
    /// That of a connection; both are of no use then.
    pub(crate) fn serve(&mut self, now: Instant) -> io::Result<State> {
        for _ in 0..TURNS {
            let mut has_moved = false;
            for way in 0..2 {
                let (from, to) = (&self.sockets[way], &self.sockets[1 - way]);
                has_moved |= self.directions[way].serve(from, to)?;
            }
            if self.directions.iter().all(|direction| direction.is_closed) {
                return Ok(State::Over);
            }
            if !has_moved {
                return Ok(State::Waiting);
            }
            self.moved = now;
        }
        Ok(State::Ready)
    }

    /// Has the kernel acknowledge at once what the relay does not read yet, on connections
    /// whose windows are held.
    ///
    /// Linux waits up to 40 ms for the window to grow again before it acknowledges (`__tcp_ack_snd_check`),
    /// and the sender takes that for the round-trip time.
    pub(crate) fn acknowledge(&self, is_held: [bool; 2]) {
        for ((socket, direction), is_held) in self.sockets.iter().zip(&self.directions).zip(is_held) {
            if is_held && direction.ring.is_full() && !direction.is_read {
                leg::acknowledge(socket);
            }
        }
    }

    /// Lets both connections end as usual, and not with a reset.
    pub(crate) fn complete(&self) {
        self.sockets.iter().for_each(leg::complete);
    }
}

impl Direction {
    /// Reads and writes once; returns whether anything moved.
    fn serve(&mut self, mut from: &Socket, mut to: &Socket) -> io::Result<bool> {
        let mut has_moved = false;
        if !self.is_read && !self.ring.is_full() {
            match unless_blocked(from.read(self.ring.room()))? {
                Some(0) => (self.is_read, has_moved) = (true, true),
                Some(count) => {
                    self.ring.fill(count);
                    has_moved = true;
                }
                None => {}
            }
        }
        if !self.ring.is_empty()
            && let Some(count) = unless_blocked(to.write(self.ring.oldest()))?
        {
            self.ring.drain(count);
            self.bytes += count as u64;
            has_moved = true;
        }
        if self.is_read && self.ring.is_empty() && !self.is_closed {
            to.shutdown(Shutdown::Write)?;
            (self.is_closed, has_moved) = (true, true);
        }
        Ok(has_moved)
    }
}

/// `None` if the connection has nothing to read, or no room to write.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
