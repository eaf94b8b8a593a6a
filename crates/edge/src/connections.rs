//! The connections of a middlebox whose programs keep the tables.

use std::collections::{HashMap, HashSet};

use headway_arithmetic::flow::Key;
use headway_units::Rate;

use crate::{Allocator, MOST_CLASSES, Policy, Unused};

/// What a connection of each class may have towards each side, as [`Allocator::shares`] says it; 0 for any.
pub type Shares = [[u64; MOST_CLASSES]; 2];

/// Which connections there are, by what is heard of them, and what each may have.
///
/// Reports may be missed or come late: now and then [`Connections::reconcile`] compares with the tables. The printed form of the
/// algorithm, whose limits depend on when a connection began, is for [`Middlebox`](crate::Middlebox) only.
#[derive(Clone, Debug)]
pub struct Connections {
    allocator: Allocator,
    known: HashMap<Key, Known>,
    /// How many there are of each class, also those that take no share.
    live: [u32; MOST_CLASSES],
    /// How many flows that are no connections share each class.
    others: [u32; MOST_CLASSES],
}

#[derive(Clone, Copy, Debug)]
struct Known {
    class: u32,
    /// Whether it takes a share of its class.
    shares: bool,
}

impl Connections {
    /// Creates it for a link with these rates towards the two sides, without connections.
    pub fn new(policy: &Policy, capacity: [Rate; 2]) -> Connections {
        let allocator = Allocator::new(policy, capacity);
        Connections { allocator, known: HashMap::new(), live: [0; MOST_CLASSES], others: [0; MOST_CLASSES] }
    }

    /// A connection of a class began. It takes a share.
    pub fn begin(&mut self, key: Key, class: u32) {
        self.end(&key);
        self.known.insert(key, Known { class, shares: true });
        self.allocator.begin(class);
        if let Some(live) = self.live.get_mut(class as usize) {
            *live += 1;
        }
    }

    /// A connection ended.
    pub fn end(&mut self, key: &Key) {
        let Some(Known { class, shares }) = self.known.remove(key) else { return };
        if shares {
            self.allocator.end(class);
        }
        if let Some(live) = self.live.get_mut(class as usize) {
            *live -= 1;
        }
    }

    /// Says whether a connection takes a share, as all do first.
    pub fn set_sharing(&mut self, key: &Key, shares: bool) {
        let Some(known) = self.known.get_mut(key).filter(|known| known.shares != shares) else { return };
        known.shares = shares;
        if shares {
            self.allocator.begin(known.class);
        } else {
            self.allocator.end(known.class);
        }
    }

    /// So many flows that are no connections share each class.
    pub fn set_others(&mut self, others: &[u32; MOST_CLASSES]) {
        for ((class, before), now) in (0..).zip(&mut self.others).zip(others) {
            (*before..*now).for_each(|_| _ = self.allocator.begin(class));
            (*now..*before).for_each(|_| _ = self.allocator.end(class));
            *before = *now;
        }
    }

    /// These are the connections that there are, with their classes.
    pub fn reconcile(&mut self, there: impl IntoIterator<Item = (Key, u32)>) {
        let mut seen = HashSet::new();
        for (key, class) in there {
            seen.insert(key);
            if self.known.get(&key).map(|known| known.class) != Some(class) {
                self.begin(key, class);
            }
        }
        let gone: Vec<Key> = self.known.keys().filter(|key| !seen.contains(key)).copied().collect();
        gone.iter().for_each(|key| self.end(key));
    }

    /// Sets what is available towards each side, or that it is the whole link.
    pub fn set_available(&mut self, available: [Option<Rate>; 2]) {
        for (side, available) in available.into_iter().enumerate() {
            self.allocator.set_available(side, available);
        }
    }

    /// Gives connections what others of their class leave of their shares.
    pub fn set_unused(&mut self, unused: &Unused) {
        self.allocator.set_unused(unused);
    }

    /// Lowers what every connection may have to a part of it, above 0 and at most 1, as a [`Drain`](crate::Drain) says.
    pub fn set_part(&mut self, part: f64) {
        self.allocator.set_part(part);
    }

    /// Returns what a connection of each class may have.
    pub fn shares(&self) -> Shares {
        [0, 1].map(|side| std::array::from_fn(|class| self.allocator.shares(class as u32)[side]))
    }

    /// Returns how many connections of a class there are.
    pub fn live(&self, class: u32) -> u32 {
        self.live.get(class as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use headway_arithmetic::flow::Packet;

    use super::*;

    fn key(port: u16) -> Key {
        let host = |last| IpAddr::from([10, 0, 0, last]);
        *Packet::between((host(1), port), (host(2), 80)).key()
    }

    #[test]
    fn what_was_missed_is_made_up_for() {
        let mut connections = Connections::new(&Policy::default(), [Rate::from_mbps(80.0); 2]);
        assert_eq!(connections.shares()[0][0], 0);
        connections.begin(key(1), 0);
        let whole = connections.shares()[0][0];
        // 80 Mb/s are 0.01 bytes per ns.
        assert_eq!(whole, ((1_u64 << 40) as f64 / 100.0).round() as u64);
        connections.begin(key(1), 0);
        assert_eq!((connections.live(0), connections.shares()[1][0]), (1, whole));
        connections.begin(key(2), 0);
        assert_eq!(connections.shares()[0][0], whole / 2);
        connections.end(&key(9));
        // One ended and two began meanwhile.
        connections.reconcile([(key(2), 0), (key(3), 0), (key(4), 0)]);
        assert_eq!((connections.live(0), connections.shares()[0][0]), (3, whole / 3));
        connections.reconcile([]);
        assert_eq!((connections.live(0), connections.shares()[0][0]), (0, 0));
    }

    #[test]
    fn who_takes_no_share_leaves_it_to_the_others() {
        let mut connections = Connections::new(&Policy::default(), [Rate::from_mbps(80.0); 2]);
        connections.begin(key(1), 0);
        let whole = connections.shares()[0][0];
        connections.begin(key(2), 0);
        for _ in 0..2 {
            connections.set_sharing(&key(2), false);
            assert_eq!((connections.live(0), connections.shares()[0][0]), (2, whole));
        }
        connections.end(&key(2));
        assert_eq!((connections.live(0), connections.shares()[0][0]), (1, whole));
        connections.set_sharing(&key(1), false);
        connections.set_sharing(&key(1), true);
        // One that begins again between the same ends takes a share.
        connections.begin(key(1), 0);
        assert_eq!((connections.live(0), connections.shares()[0][0]), (1, whole));
    }
}
