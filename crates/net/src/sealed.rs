//! Datagrams between two hosts that share a key, which nobody else can make, change or repeat.
//!
//! A datagram has the number of its sender's session, that of the receiver's session as far as the sender has
//! heard it, a sequence number, what it says, and HMAC-SHA256 (RFC 2104) of all that. It is not secret. A
//! receiver believes only what names its own session, so what was recorded before it began says nothing, and
//! only sequence numbers that rise, so nothing counts twice. No clock need be right.

use std::io;

use headway_units::{Duration, Instant};

use crate::auth::{Token, random};

/// What datagrams begin with; another number is another layout.
const MAGIC: [u8; 4] = *b"HWS1";
const SESSION: usize = 8;
/// Bytes before what a datagram says: magic, both sessions, the sequence number.
const HEAD: usize = MAGIC.len() + 2 * SESSION + 8;
const TAG: usize = 32;
/// Bytes that a datagram has besides what it says.
pub const SEALED: usize = HEAD + TAG;
/// A session that was heard within this time is not left for another one. Range 2 to 10 s, with a datagram a
/// second.
const HOLDS: Duration = Duration::from_ms(3_500);

/// What is known of the other host's session.
#[derive(Clone, Copy, Debug)]
struct Other {
    session: [u8; SESSION],
    /// Its last sequence number.
    last: u64,
    /// When it last said something that was believed.
    believed: Option<Instant>,
}

/// One end.
#[derive(Debug)]
pub struct Sealed {
    key: Token,
    session: [u8; SESSION],
    sent: u64,
    other: Option<Other>,
}

impl Sealed {
    /// Begins a session with this key.
    ///
    /// # Errors
    /// When the kernel has no random numbers.
    pub fn new(key: Token) -> io::Result<Sealed> {
        Ok(Sealed { key, session: random()?, sent: 0, other: None })
    }

    /// Returns the next datagram, which says `body`.
    pub fn seal(&mut self, body: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let heard = self.other.map_or([0; SESSION], |other| other.session);
        let mut datagram = [&MAGIC[..], &self.session, &heard, &self.sent.to_be_bytes(), body].concat();
        datagram.extend(self.key.tag(&datagram));
        datagram
    }

    /// Returns what a datagram says; nothing if it is not of the other host, or not of now.
    pub fn open<'a>(&mut self, now: Instant, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let (sealed, tag) = datagram.split_last_chunk::<TAG>()?;
        let (magic, rest) = sealed.split_first_chunk()?;
        let (session, rest) = rest.split_first_chunk::<SESSION>()?;
        let (heard, rest) = rest.split_first_chunk::<SESSION>()?;
        let (sequence, body) = rest.split_first_chunk()?;
        // Its own come back where somebody returns them.
        if *magic != MAGIC || *session == self.session || !self.key.has_tagged(sealed, tag) {
            return None;
        }
        let sequence = u64::from_be_bytes(*sequence);
        let other = match &mut self.other {
            Some(other) if other.session == *session => {
                if sequence <= other.last {
                    return None;
                }
                other.last = sequence;
                other
            }
            Some(Other { believed: Some(believed), .. }) if now - *believed <= HOLDS => return None,
            other => other.insert(Other { session: *session, last: sequence, believed: None }),
        };
        // Until it has heard of this session, it may be a recording.
        (*heard == self.session).then(|| {
            other.believed = Some(now);
            body
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_ns(seconds * 1_000_000_000)
    }

    fn end() -> Sealed {
        Sealed::new(Token::new("a key that both have")).unwrap()
    }

    /// Two ends that have heard of each other.
    fn pair() -> [Sealed; 2] {
        let [mut here, mut there] = [end(), end()];
        let first = here.seal(b"one");
        assert_eq!(there.open(at(0), &first), None, "it may be a recording");
        let answer = there.seal(b"two");
        assert_eq!(here.open(at(0), &answer), Some(&b"two"[..]));
        [here, there]
    }

    #[test]
    fn what_the_other_end_says_is_believed_once() {
        let [mut here, mut there] = pair();
        let [first, second] = ["a", "b"].map(|body| here.seal(body.as_bytes()));
        assert_eq!(first.len(), SEALED + 1);
        assert_eq!(there.open(at(1), &second), Some(&b"b"[..]));
        for again in [&first, &second] {
            assert_eq!(there.open(at(1), again), None, "late or repeated");
        }
        assert_eq!(here.open(at(1), &second), None, "returned");
    }

    #[test]
    fn nothing_that_a_stranger_makes_is_believed_or_kept() {
        let [mut here, mut there] = pair();
        let good = here.seal(b"what it says");
        let before = format!("{there:?}");
        for bit in 0..8 * good.len() {
            let mut changed = good.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(there.open(at(1), &changed), None, "bit {bit}");
        }
        for length in 0..good.len() {
            assert_eq!(there.open(at(1), &good[..length]), None);
        }
        let mut stranger = Sealed::new(Token::new("a key that nobody has")).unwrap();
        stranger.other = there.other.map(|_| Other { session: there.session, last: 0, believed: None });
        assert_eq!(there.open(at(1), &stranger.seal(b"")), None);
        assert_eq!(format!("{there:?}"), before);
        assert_eq!(there.open(at(1), &good), Some(&b"what it says"[..]));
    }

    #[test]
    fn recordings_of_an_earlier_session_change_nothing_and_a_new_session_is_heard_when_the_old_is_silent() {
        let [mut here, mut there] = pair();
        let old: Vec<Vec<u8>> = (0..5).map(|_| here.seal(b"old")).collect();
        assert!(there.open(at(1), &old[0]).is_some());
        // The one here begins anew. While its old session was heard just now, another one is not.
        let mut here = end();
        assert_eq!(there.open(at(2), &here.seal(b"new")), None);
        assert_eq!(there.open(at(5), &here.seal(b"new")), None);
        let answer = there.seal(b"answer");
        assert_eq!(here.open(at(5), &answer), Some(&b"answer"[..]));
        assert_eq!(there.open(at(6), &here.seal(b"new")), Some(&b"new"[..]));
        for recording in &old {
            assert_eq!(there.open(at(7), recording), None);
        }
        assert_eq!(there.open(at(7), &here.seal(b"newer")), Some(&b"newer"[..]));
        // Whoever has just begun hears recordings only.
        let mut there = end();
        assert!(old.iter().all(|recording| there.open(at(8), recording).is_none()));
    }
}
