//! A limited number of places for connections, shared fairly among networks.
//!
//! Connections that have not proved token and address have 64 places, 8 per network; sessions have 32, 4 per
//! network, which such connections cannot take. When all are taken, a newcomer displaces a connection that
//! does nothing, of a network with more places than its own: of the network that has the most, the one that
//! has been idle for longest. Each packet of a stream that arrives or is sent keeps a session active for 0.2
//! s, up to 30 s in advance, and each step of the handshake a connection for 1 s. If none is idle, a newcomer
//! displaces one of the network that has the most, if that network has more places than the newcomer's (for
//! sessions: two more).

use super::network::Network;
use std::cmp::Reverse;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Places for connections, with a limit per network.
///
/// When all are taken, a newcomer displaces a connection that has not done anything lately, of a network
/// that has more places than the newcomer's own: of the network with the most, the one that has been idle
/// for longest. If none is idle, it displaces one of the network that has the most, if that has
/// sufficiently more. So a client cannot lock others out by holding on to places or by reconnecting, and who
/// works keeps its place.
#[derive(Debug)]
pub(super) struct Places {
    held: Arc<Mutex<Held>>,
    most: usize,
    most_per_network: usize,
    margin: usize,
}

/// How long a connection may at most keep its place for what it has done so far: the longest stream (30 s).
const MOST_CREDIT: Duration = Duration::from_secs(30);

/// The reason why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All are taken, and no network has enough more of them to have one displaced.
    All,
    /// The newcomer's network has reached its limit.
    Network,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    /// In order of arrival.
    places: Vec<Holder>,
}

#[derive(Debug)]
struct Holder {
    id: u64,
    network: Network,
    tcp: TcpStream,
    /// Until when it counts as active for what it has done so far.
    active_until: Instant,
}

/// Locks the mutex even if it is poisoned: every change is a single step, so a panic leaves
/// the data consistent.
fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// A newcomer may displace a connection of a network that has at least `margin` more places than its own;
    /// `margin` is 1 or more.
    pub(super) fn new(most: usize, most_per_network: usize, margin: usize) -> Places {
        Places { held: Arc::default(), most, most_per_network, margin }
    }

    /// Takes a place for a connection, which is released on drop.
    ///
    /// # Errors
    /// When the connection's socket cannot be duplicated; the inner result gives the limit that was reached.
    pub(super) fn take(
        &self,
        network: Network,
        tcp: &TcpStream,
        now: Instant,
    ) -> io::Result<Result<Place, Full>> {
        let tcp = tcp.try_clone()?;
        let mut held = lock(&self.held);
        let mine = held.of(network);
        if mine >= self.most_per_network {
            return Ok(Err(Full::Network));
        }
        if held.places.len() >= self.most && !held.displace(mine, self.margin, now) {
            return Ok(Err(Full::All));
        }
        let id = held.next;
        held.next += 1;
        held.places.push(Holder { id, network, tcp, active_until: now });
        Ok(Ok(Place { held: Arc::clone(&self.held), id }))
    }

    /// Returns the number of places taken.
    pub(super) fn taken(&self) -> usize {
        lock(&self.held).places.len()
    }

    /// Shuts down the receiving half of all connections that have a place; their threads can
    /// still send the reason.
    pub(super) fn end_all(&self) {
        lock(&self.held).places.iter().for_each(Holder::end);
    }
}

impl Held {
    fn of(&self, network: Network) -> usize {
        self.places.iter().filter(|holder| holder.network == network).count()
    }

    /// Ends a connection for a newcomer whose network has `mine`, see [`Places`]; returns whether it did.
    fn displace(&mut self, mine: usize, margin: usize, now: Instant) -> bool {
        let counts: Vec<usize> = self.places.iter().map(|holder| self.of(holder.network)).collect();
        let first = |candidates: &mut dyn Iterator<Item = usize>| {
            candidates.min_by_key(|place| (Reverse(counts[*place]), self.places[*place].active_until, *place))
        };
        let idle = |place: &usize| counts[*place] > mine && self.places[*place].active_until <= now;
        let many = |place: &usize| counts[*place] >= mine + margin;
        let all = 0..counts.len();
        let found = first(&mut all.clone().filter(idle)).or_else(|| first(&mut all.filter(many)));
        if let Some(place) = found {
            self.places.remove(place).end();
        }
        found.is_some()
    }
}

impl Holder {
    fn end(&self) {
        let _ = self.tcp.shutdown(Shutdown::Read);
    }
}

/// One place, released on drop.
#[derive(Debug)]
pub(super) struct Place {
    held: Arc<Mutex<Held>>,
    id: u64,
}

impl Place {
    /// Notes that the connection did something, for which it counts as active for `credit` more.
    pub(super) fn did(&self, credit: Duration, now: Instant) {
        if let Some(holder) = lock(&self.held).places.iter_mut().find(|holder| holder.id == self.id) {
            holder.active_until = (holder.active_until.max(now) + credit).min(now + MOST_CREDIT);
        }
    }

    /// Whether the connection was displaced.
    pub(super) fn is_lost(&self) -> bool {
        !lock(&self.held).places.iter().any(|holder| holder.id == self.id)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.held).places.retain(|holder| holder.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, TcpListener};

    /// An unused connection.
    fn tcp() -> TcpStream {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    }

    fn network(number: u8) -> Network {
        Network::of(IpAddr::from([10, 0, number, 1]))
    }

    fn take_at(places: &Places, number: u8, now: Instant) -> Result<Place, Full> {
        places.take(network(number), &tcp(), now).unwrap()
    }

    fn take(places: &Places, number: u8) -> Result<Place, Full> {
        take_at(places, number, Instant::now())
    }

    /// Takes a place and keeps it for a while by what it does.
    fn busy(places: &Places, number: u8) -> Place {
        let place = take(places, number).unwrap();
        place.did(MOST_CREDIT, Instant::now());
        place
    }

    #[test]
    fn places_are_limited_and_come_back() {
        let places = Places::new(2, 1, 2);
        let first = busy(&places, 1);
        assert_eq!(take(&places, 1).unwrap_err(), Full::Network);
        let _second = busy(&places, 2);
        assert_eq!(take(&places, 3).unwrap_err(), Full::All);
        drop(first);
        assert_eq!(places.taken(), 1);
        assert!(take(&places, 3).is_ok());
    }

    #[test]
    fn the_network_with_most_gives_its_oldest_place() {
        let places = Places::new(4, 3, 2);
        let one = busy(&places, 1);
        let many: Vec<Place> = (0..3).map(|_| busy(&places, 2)).collect();
        let other = busy(&places, 3);
        assert_eq!([&one, &many[0], &many[1], &other].map(Place::is_lost), [false, true, false, false]);
        let another = busy(&places, 4);
        assert!(many[1].is_lost() && !many[2].is_lost() && !another.is_lost());
        assert_eq!(take(&places, 5).unwrap_err(), Full::All, "all have one and work, which is fair");
        assert_eq!(places.taken(), 4);
        drop(many);
        assert_eq!(places.taken(), 3, "a lost place is not given back once more");
    }

    #[test]
    fn with_a_margin_of_one_the_oldest_goes() {
        let places = Places::new(2, 2, 1);
        let (first, second) = (take(&places, 1).unwrap(), take(&places, 2).unwrap());
        let third = take(&places, 3).unwrap();
        assert!(first.is_lost() && !second.is_lost());
        assert_eq!(take(&places, 3).unwrap_err(), Full::All, "not from those that have no more");
        assert!(!third.is_lost());
    }

    #[test]
    fn idle_connections_of_other_networks_give_way_and_active_ones_do_not() {
        let places = Places::new(32, 4, 2);
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut held: Vec<Place> = (0..32).map(|number| take_at(&places, number, start).unwrap()).collect();
        // All but two have just worked: one never did, one did a little and long ago.
        for (number, place) in held.iter().enumerate() {
            let (credit, when) = match number {
                7 => continue,
                9 => (1, 0),
                _ => (3_600, 60),
            };
            place.did(Duration::from_secs(credit), at(when));
        }
        let newcomer = take_at(&places, 100, at(60)).unwrap();
        assert!(held[7].is_lost() && !held[9].is_lost());
        let another = take_at(&places, 101, at(60)).unwrap();
        assert!(held[9].is_lost() && !newcomer.is_lost());
        // The newcomers themselves have not done anything yet. The one that came first goes first.
        newcomer.did(Duration::from_secs(5), at(61));
        let third = take_at(&places, 102, at(61)).unwrap();
        assert!(another.is_lost() && !newcomer.is_lost());
        third.did(Duration::from_secs(5), at(61));
        assert_eq!(take_at(&places, 103, at(62)).unwrap_err(), Full::All, "all work");
        // What they did counts for 30 s at most.
        assert!(take_at(&places, 103, at(89)).is_ok());
        held.retain(|place| !place.is_lost());
        assert_eq!(held.len(), 30, "those that came last gave way first");
        held.clear();
    }

    #[test]
    fn a_network_does_not_displace_the_idle_connection_of_one_that_has_no_more() {
        let places = Places::new(2, 2, 2);
        let (mine, other) = (take(&places, 1).unwrap(), take(&places, 2).unwrap());
        assert_eq!(take(&places, 1).unwrap_err(), Full::All);
        assert!(!mine.is_lost() && !other.is_lost());
    }
}
