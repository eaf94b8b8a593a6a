//! Places for connections, so that strangers do not keep viewers out.
//!
//! Who connects is a stranger until its request is one that is answered, for example with the token.
//! Strangers have few places, and fewer for each network; where there is none, the one that has waited for
//! longest gives its own to the newest. So silent connections cost a viewer nothing that sends its request at
//! once. Viewers have places of their own.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Most connections of viewers: sixteen with an event stream and two requests beside it, and a few more.
const VIEWERS: usize = 64;
/// Most connections of strangers. Range 16 to 256: with as many each second, one has a
/// second for its request.
const STRANGERS: usize = 32;
/// Most of them from one network. Range 6 to 16: browsers open six at once.
const OF_NETWORK: usize = 8;

/// All places of a listener.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

/// Those that are taken.
#[derive(Default)]
struct Taken {
    /// Those who came first are first.
    strangers: VecDeque<Stranger>,
    viewers: HashSet<u64>,
    /// How many connections have come.
    come: u64,
}

struct Stranger {
    number: u64,
    network: IpAddr,
    task: AbortHandle,
}

/// The place of a connection, until the last copy is dropped.
#[derive(Clone)]
pub(crate) struct Place(Arc<Held>);

struct Held {
    number: u64,
    places: Places,
}

impl Places {
    /// Gives a place to a connection from an address, if it has one, and begins its task. The task of another
    /// stranger may end for it.
    pub(crate) fn take(&self, from: Option<IpAddr>, begin: impl FnOnce(Place) -> AbortHandle) {
        let network = network(from);
        let number = {
            let mut taken = self.taken();
            taken.make_room(network);
            taken.come += 1;
            taken.come
        };
        let task = begin(Place(Arc::new(Held { number, places: self.clone() })));
        self.taken().strangers.push_back(Stranger { number, network, task });
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // It is whole after each line that changes it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Makes a stranger a viewer; returns whether there is a place for it.
    pub(crate) fn admit(&self) -> bool {
        let mut taken = self.0.places.taken();
        if taken.viewers.len() >= VIEWERS {
            return false;
        }
        taken.strangers.retain(|stranger| stranger.number != self.0.number);
        taken.viewers.insert(self.0.number);
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.strangers.retain(|stranger| stranger.number != self.number);
        taken.viewers.remove(&self.number);
    }
}

impl Taken {
    /// Ends strangers until there is a place for one more from this network.
    fn make_room(&mut self, network: IpAddr) {
        while self.of(network) >= OF_NETWORK {
            self.end_first_of(network);
        }
        while self.strangers.len() >= STRANGERS {
            let most = self.strangers.iter().map(|stranger| self.of(stranger.network)).max();
            let crowded = self.strangers.iter().find(|stranger| Some(self.of(stranger.network)) == most);
            let Some(crowded) = crowded.map(|stranger| stranger.network) else { return };
            self.end_first_of(crowded);
        }
    }

    fn of(&self, network: IpAddr) -> usize {
        self.strangers.iter().filter(|stranger| stranger.network == network).count()
    }

    fn end_first_of(&mut self, network: IpAddr) {
        let first = self.strangers.iter().position(|stranger| stranger.network == network);
        if let Some(first) = first.and_then(|place| self.strangers.remove(place)) {
            first.task.abort();
        }
    }
}

/// Returns what stands for all addresses of one customer: of IPv6 whoever has one has a /64. Those without an
/// address are of this host.
fn network(address: Option<IpAddr>) -> IpAddr {
    match address.unwrap_or(Ipv6Addr::LOCALHOST.into()).to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections from these addresses, one after the other, that wait for ever.
    struct Waiting {
        places: Places,
        tasks: Vec<tokio::task::JoinHandle<()>>,
        held: Vec<Place>,
    }

    impl Waiting {
        fn from(addresses: impl IntoIterator<Item = String>) -> Waiting {
            let mut waiting = Waiting { places: Places::default(), tasks: Vec::new(), held: Vec::new() };
            addresses.into_iter().for_each(|address| waiting.add(&address));
            waiting
        }

        fn add(&mut self, address: &str) {
            self.places.take(address.parse().ok(), |place| {
                self.held.push(place);
                self.tasks.push(tokio::spawn(std::future::pending()));
                self.tasks.last().unwrap().abort_handle()
            });
        }

        /// Returns which are still there, by their place in the order in which they came.
        async fn there(&self) -> Vec<usize> {
            tokio::task::yield_now().await;
            (0..self.tasks.len()).filter(|place| !self.tasks[*place].is_finished()).collect()
        }
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    #[test]
    fn the_newest_of_a_network_have_its_places_and_take_none_of_others() {
        block_on(async {
            for (others, many) in [
                ("192.0.2.1", "192.0.2.2"),
                ("192.0.2.1", "::ffff:192.0.2.2"),
                ("2001:db8:0:1::1", "2001:db8::1"),
            ] {
                let mut waiting = Waiting::from([others.to_owned()]);
                (0..20).for_each(|_| waiting.add(many));
                let newest = 21 - OF_NETWORK..21;
                assert_eq!(waiting.there().await, [0].into_iter().chain(newest).collect::<Vec<_>>());
            }
        });
    }

    #[test]
    fn of_many_networks_that_with_most_gives_a_place_up_and_of_equals_the_first() {
        block_on(async {
            let of_one = (0..OF_NETWORK).map(|_| "192.0.2.1".to_owned());
            let each = (OF_NETWORK..STRANGERS).map(|host| format!("2001:db8:0:{host}::1"));
            let mut waiting = Waiting::from(of_one.chain(each));
            (0..OF_NETWORK - 1).for_each(|host| waiting.add(&format!("198.51.100.{host}")));
            let last = STRANGERS + OF_NETWORK - 1;
            assert_eq!(waiting.there().await, (OF_NETWORK - 1..last).collect::<Vec<_>>());
            waiting.add("203.0.113.1");
            assert_eq!(waiting.there().await, (OF_NETWORK..last + 1).collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_whole_network_of_ipv6_is_one() {
        block_on(async {
            let waiting = Waiting::from((0..20).map(|host| format!("2001:db8::{host}")));
            assert_eq!(waiting.there().await.len(), OF_NETWORK);
        });
    }

    #[test]
    fn viewers_stay_whoever_comes_and_are_bounded_too() {
        block_on(async {
            let mut waiting = Waiting::from((0..VIEWERS + 1).map(|host| format!("192.0.2.{host}")));
            let admitted = waiting.held.iter().filter(|place| place.admit()).count();
            assert_eq!(admitted, VIEWERS);
            (0..100).for_each(|_| waiting.add("198.51.100.1"));
            waiting.held.remove(0);
            assert!(waiting.held[VIEWERS].admit() && !waiting.held[VIEWERS + 1].admit());
        });
    }
}
