//! A limited number of places for connections, shared fairly among networks.

use super::network::Network;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places for connections, with a limit per network.
///
/// When all are taken, a newcomer displaces the oldest connection of the network that has the most, if that network
/// has sufficiently more places than the newcomer's own. So nobody can lock others out by holding on to places or
/// by reconnecting.
#[derive(Debug)]
pub(super) struct Places {
    held: Arc<Mutex<Held>>,
    most: usize,
    most_per_network: usize,
    margin: usize,
}

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
}

/// Locks the mutex even if it is poisoned: every change is a single step, so a panic leaves the data consistent.
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
    pub(super) fn take(&self, network: Network, tcp: &TcpStream) -> io::Result<Result<Place, Full>> {
        let tcp = tcp.try_clone()?;
        let mut held = lock(&self.held);
        let mine = held.of(network);
        if mine >= self.most_per_network {
            return Ok(Err(Full::Network));
        }
        if held.places.len() >= self.most && !held.displace(mine + self.margin) {
            return Ok(Err(Full::All));
        }
        let id = held.next;
        held.next += 1;
        held.places.push(Holder { id, network, tcp });
        Ok(Ok(Place { held: Arc::clone(&self.held), id }))
    }

    /// Returns the number of places taken.
    pub(super) fn taken(&self) -> usize {
        lock(&self.held).places.len()
    }

    /// Shuts down the receiving half of all connections that have a place; their threads can still send the reason.
    pub(super) fn end_all(&self) {
        lock(&self.held).places.iter().for_each(Holder::end);
    }
}

impl Held {
    fn of(&self, network: Network) -> usize {
        self.places.iter().filter(|holder| holder.network == network).count()
    }

    /// Ends the oldest connection of the network with the most places if that has at least `least`; returns
    /// whether it did.
    fn displace(&mut self, least: usize) -> bool {
        let counts: Vec<usize> = self.places.iter().map(|holder| self.of(holder.network)).collect();
        let Some(most) = counts.iter().copied().max().filter(|most| *most >= least) else {
            return false;
        };
        let Some(oldest) = counts.iter().position(|count| *count == most) else {
            return false;
        };
        self.places.remove(oldest).end();
        true
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

    fn take(places: &Places, number: u8) -> Result<Place, Full> {
        places.take(network(number), &tcp()).unwrap()
    }

    #[test]
    fn places_are_limited_and_come_back() {
        let places = Places::new(2, 1, 2);
        let first = take(&places, 1).unwrap();
        assert_eq!(take(&places, 1).unwrap_err(), Full::Network);
        let _second = take(&places, 2).unwrap();
        assert_eq!(take(&places, 3).unwrap_err(), Full::All);
        drop(first);
        assert_eq!(places.taken(), 1);
        assert!(take(&places, 3).is_ok());
    }

    #[test]
    fn the_network_with_most_gives_its_oldest_place() {
        let places = Places::new(4, 3, 2);
        let one = take(&places, 1).unwrap();
        let many: Vec<Place> = (0..3).map(|_| take(&places, 2).unwrap()).collect();
        let other = take(&places, 3).unwrap();
        assert_eq!([&one, &many[0], &many[1], &other].map(Place::is_lost), [false, true, false, false]);
        let another = take(&places, 4).unwrap();
        assert!(many[1].is_lost() && !many[2].is_lost() && !another.is_lost());
        assert_eq!(take(&places, 5).unwrap_err(), Full::All, "all have one, which is fair");
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
}
