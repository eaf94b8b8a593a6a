//! Who is connected: slots for handshakes and sessions, and the sessions whose UDP address is not proved yet.

use crate::auth::random;
use crate::limits::Limits;
use crate::protocol::{COOKIE_LEN, RefusedBy};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq;

/// UDP addresses remembered per session. A client has one, unless a NAT changes it between two hellos.
const MOST_CANDIDATES: usize = 4;

/// The shared book of connections.
#[derive(Debug)]
pub(super) struct Registry {
    handshakes: Slots,
    sessions: Slots,
    waiting: Mutex<HashMap<u64, Waiting>>,
    connections: Arc<Mutex<Connections>>,
}

/// Connections that are to be closed when the server stops.
#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: HashMap<u64, TcpStream>,
}

/// A session whose UDP address is not proved yet.
#[derive(Debug)]
struct Waiting {
    peer: IpAddr,
    /// Hellos from the right and from other addresses.
    seen: u32,
    elsewhere: u32,
    candidates: Vec<(SocketAddr, [u8; COOKIE_LEN])>,
}

/// A lock that a panicking thread left behind is still good: all changes here are single steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    pub(super) fn new(limits: &Limits) -> Registry {
        Registry {
            handshakes: Slots::new(limits.handshakes, limits.handshakes_per_address),
            sessions: Slots::new(limits.sessions, limits.sessions_per_address),
            waiting: Mutex::default(),
            connections: Arc::default(),
        }
    }

    /// A slot for a handshake, given back when dropped; `None` when there are too many.
    pub(super) fn begin_handshake(&self, peer: IpAddr) -> Option<Slot> {
        self.handshakes.take(peer).ok()
    }

    /// A slot for a session, given back when dropped.
    ///
    /// # Errors
    /// The limit that is against it.
    pub(super) fn begin_session(&self, peer: IpAddr) -> Result<Slot, RefusedBy> {
        self.sessions.take(peer)
    }

    /// The number of sessions.
    pub(super) fn open_sessions(&self) -> usize {
        lock(&self.sessions.taken).values().sum()
    }

    /// Opens the address proof of a new session and returns the session's id.
    pub(super) fn await_proof(&self, peer: IpAddr) -> io::Result<u64> {
        let mut waiting = lock(&self.waiting);
        loop {
            let id = u64::from_ne_bytes(random()?);
            if let std::collections::hash_map::Entry::Vacant(entry) = waiting.entry(id) {
                entry.insert(Waiting { peer, seen: 0, elsewhere: 0, candidates: Vec::new() });
                return Ok(id);
            }
        }
    }

    /// Notes a UDP hello and returns the cookie to answer with; `None` when it is not to be answered.
    pub(super) fn hello(&self, session: u64, sender: SocketAddr) -> Option<[u8; COOKIE_LEN]> {
        let mut sessions = lock(&self.waiting);
        let waiting = sessions.get_mut(&session)?;
        if sender.ip() != waiting.peer {
            waiting.elsewhere = waiting.elsewhere.saturating_add(1);
            return None;
        }
        waiting.seen = waiting.seen.saturating_add(1);
        if let Some((_, cookie)) = waiting.candidates.iter().find(|(address, _)| *address == sender) {
            return Some(*cookie);
        }
        if waiting.candidates.len() >= MOST_CANDIDATES {
            return None;
        }
        let cookie = random().ok()?;
        waiting.candidates.push((sender, cookie));
        Some(cookie)
    }

    /// The hellos noted for a session: from its own address, and from others.
    pub(super) fn hellos(&self, session: u64) -> (u32, u32) {
        lock(&self.waiting).get(&session).map_or((0, 0), |waiting| (waiting.seen, waiting.elsewhere))
    }

    /// The address that `cookie` was sent to, which ends the proof; `None` for a wrong cookie.
    pub(super) fn prove(&self, session: u64, cookie: &[u8; COOKIE_LEN]) -> Option<SocketAddr> {
        let mut sessions = lock(&self.waiting);
        let waiting = sessions.get(&session)?;
        let (address, _) =
            waiting.candidates.iter().find(|(_, expected)| bool::from(expected.ct_eq(cookie)))?;
        let address = *address;
        sessions.remove(&session);
        Some(address)
    }

    /// Forgets a session that ended before its proof.
    pub(super) fn forget(&self, session: u64) {
        lock(&self.waiting).remove(&session);
    }

    /// Notes a connection, so that stopping can close it; forgotten when the result is dropped.
    pub(super) fn note_connection(&self, tcp: &TcpStream) -> io::Result<Noted> {
        let tcp = tcp.try_clone()?;
        let mut connections = lock(&self.connections);
        let id = connections.next;
        connections.next += 1;
        connections.open.insert(id, tcp);
        Ok(Noted { connections: Arc::clone(&self.connections), id })
    }

    /// Ends the reads of all noted connections; their sessions can still say why.
    pub(super) fn end_connections(&self) {
        for tcp in lock(&self.connections).open.values() {
            let _ = tcp.shutdown(Shutdown::Read);
        }
    }
}

/// A connection that stopping closes.
#[derive(Debug)]
pub(super) struct Noted {
    connections: Arc<Mutex<Connections>>,
    id: u64,
}

impl Drop for Noted {
    fn drop(&mut self) {
        lock(&self.connections).open.remove(&self.id);
    }
}

/// Whom an address counts as: itself, or for IPv6 its /64 prefix.
///
/// Networks hand out whole /64 prefixes, so one customer has 2^64 addresses and could take every place with them.
fn holder(address: IpAddr) -> IpAddr {
    const PREFIX: u128 = !0 << 64;
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & PREFIX)),
        v4 => v4,
    }
}

/// A number of places, of which one address (IPv6: one /64 prefix) may have only some.
#[derive(Debug)]
struct Slots {
    /// Places taken by each [`holder`].
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
    most_per_address: usize,
}

impl Slots {
    fn new(most: usize, most_per_address: usize) -> Slots {
        Slots { taken: Arc::default(), most, most_per_address }
    }

    fn take(&self, address: IpAddr) -> Result<Slot, RefusedBy> {
        let address = holder(address);
        let mut taken = lock(&self.taken);
        if taken.values().sum::<usize>() >= self.most {
            return Err(RefusedBy::Sessions);
        }
        let mine = taken.entry(address).or_default();
        if *mine >= self.most_per_address {
            return Err(RefusedBy::SessionsPerAddress);
        }
        *mine += 1;
        Ok(Slot { taken: Arc::clone(&self.taken), address })
    }
}

/// One place, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        Registry::new(&Limits { sessions: 2, sessions_per_address: 1, ..Limits::default() })
    }

    #[test]
    fn slots_are_limited_and_come_back() {
        let registry = registry();
        let [a, b, c] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let first = registry.begin_session(a).unwrap();
        assert_eq!(registry.begin_session(a).unwrap_err(), RefusedBy::SessionsPerAddress);
        let _second = registry.begin_session(b).unwrap();
        assert_eq!(registry.begin_session(c).unwrap_err(), RefusedBy::Sessions);
        drop(first);
        assert_eq!(registry.open_sessions(), 1);
        assert!(registry.begin_session(c).is_ok());
    }

    #[test]
    fn addresses_of_one_v6_prefix_count_together() {
        let limits = Limits { sessions: 10, sessions_per_address: 1, ..Limits::default() };
        let registry = Registry::new(&limits);
        let take = |address: &str| registry.begin_session(address.parse().unwrap());
        let first = take("2001:db8:1:2::1").unwrap();
        assert_eq!(take("2001:db8:1:2:ffff::9").unwrap_err(), RefusedBy::SessionsPerAddress);
        let _other_prefix = take("2001:db8:1:3::1").unwrap();
        let _v4 = take("192.0.2.1").unwrap();
        let _other_v4 = take("192.0.2.2").unwrap();
        assert_eq!(take("::ffff:192.0.2.1").unwrap_err(), RefusedBy::SessionsPerAddress);
        drop(first);
        assert!(take("2001:db8:1:2:ffff::9").is_ok());
    }

    #[test]
    fn only_the_session_s_address_gets_a_cookie() {
        let registry = registry();
        let peer: SocketAddr = "10.0.0.1:5000".parse().unwrap();
        let session = registry.await_proof(peer.ip()).unwrap();
        assert_eq!(registry.hello(session, "10.0.0.2:5000".parse().unwrap()), None);
        assert_eq!(registry.hello(!session, peer), None);
        let cookie = registry.hello(session, peer).unwrap();
        assert_eq!(registry.hello(session, peer), Some(cookie), "a repeated hello gets the same cookie");
        assert_eq!(registry.hellos(session), (2, 1));
        assert_eq!(registry.prove(session, &[0; COOKIE_LEN]), None);
        assert_eq!(registry.prove(session, &cookie), Some(peer));
        assert_eq!(registry.hello(session, peer), None, "the proof is over");
    }
}
