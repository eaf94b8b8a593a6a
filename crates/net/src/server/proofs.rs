//! Sessions whose UDP address has not been proved yet.

use crate::auth::random;
use crate::protocol::COOKIE_LEN;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq;

/// UDP addresses kept per session. A client has one, unless a NAT changes it between two hellos.
const MAX_CANDIDATES: usize = 4;

/// The sessions whose address proof is in progress.
#[derive(Debug, Default)]
pub(super) struct Proofs(Mutex<HashMap<u64, Waiting>>);

/// A session whose UDP address has not been proved yet.
#[derive(Debug)]
struct Waiting {
    peer: IpAddr,
    /// Hellos from the right address, and from others.
    seen: u32,
    elsewhere: u32,
    candidates: Vec<(SocketAddr, [u8; COOKIE_LEN])>,
}

/// Locks the mutex even if it is poisoned: every change is a single step, so a panic leaves
/// the data consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proofs {
    /// Starts the address proof of a new session and returns the session's id.
    pub(super) fn begin(&self, peer: IpAddr) -> io::Result<u64> {
        let mut waiting = lock(&self.0);
        loop {
            let id = u64::from_ne_bytes(random()?);
            if let std::collections::hash_map::Entry::Vacant(entry) = waiting.entry(id) {
                entry.insert(Waiting { peer, seen: 0, elsewhere: 0, candidates: Vec::new() });
                return Ok(id);
            }
        }
    }

    /// Records a UDP hello and returns the cookie for the answer; `None` if it must not be answered.
    pub(super) fn hello(&self, session: u64, sender: SocketAddr) -> Option<[u8; COOKIE_LEN]> {
        let mut sessions = lock(&self.0);
        let waiting = sessions.get_mut(&session)?;
        if sender.ip() != waiting.peer {
            waiting.elsewhere = waiting.elsewhere.saturating_add(1);
            return None;
        }
        waiting.seen = waiting.seen.saturating_add(1);
        if let Some((_, cookie)) = waiting.candidates.iter().find(|(address, _)| *address == sender) {
            return Some(*cookie);
        }
        if waiting.candidates.len() >= MAX_CANDIDATES {
            return None;
        }
        let cookie = random().ok()?;
        waiting.candidates.push((sender, cookie));
        Some(cookie)
    }

    /// Returns the number of hellos of a session: from its own address, and from others.
    pub(super) fn hellos(&self, session: u64) -> (u32, u32) {
        lock(&self.0).get(&session).map_or((0, 0), |waiting| (waiting.seen, waiting.elsewhere))
    }

    /// Returns the address that `cookie` was sent to and ends the proof; `None` if the cookie is wrong.
    pub(super) fn prove(&self, session: u64, cookie: &[u8; COOKIE_LEN]) -> Option<SocketAddr> {
        let mut sessions = lock(&self.0);
        let waiting = sessions.get(&session)?;
        let (address, _) =
            waiting.candidates.iter().find(|(_, expected)| bool::from(expected.ct_eq(cookie)))?;
        let address = *address;
        sessions.remove(&session);
        Some(address)
    }

    /// Removes a session that ended before its proof.
    pub(super) fn forget(&self, session: u64) {
        lock(&self.0).remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_session_s_address_gets_a_cookie() {
        let proofs = Proofs::default();
        let peer: SocketAddr = "10.0.0.1:5000".parse().unwrap();
        let session = proofs.begin(peer.ip()).unwrap();
        assert_eq!(proofs.hello(session, "10.0.0.2:5000".parse().unwrap()), None);
        assert_eq!(proofs.hello(!session, peer), None);
        let cookie = proofs.hello(session, peer).unwrap();
        assert_eq!(proofs.hello(session, peer), Some(cookie), "a repeated hello gets the same cookie");
        assert_eq!(proofs.hellos(session), (2, 1));
        assert_eq!(proofs.prove(session, &[0; COOKIE_LEN]), None);
        assert_eq!(proofs.prove(session, &cookie), Some(peer));
        assert_eq!(proofs.hello(session, peer), None, "the proof is over");
    }
}
