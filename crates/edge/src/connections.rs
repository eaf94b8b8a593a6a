//! The connections of a middlebox whose programs keep the tables.

use std::collections::{HashMap, HashSet};

use headway_arithmetic::flow::Key;
use headway_units::{PerSide, Rate};

use crate::usage::new_unused;
use crate::{Allocator, MOST_CLASSES, Policy, Rates, Ticket, Treatments};

/// What a connection of each class may have towards each side, as [`Allocator::shares`] says it; 0 for any.
pub type Shares = PerSide<[u64; MOST_CLASSES]>;

/// How many flows that are no connections share each class, and what they leave of their
/// shares towards each side.
type Others = [(u32, PerSide<f64>); MOST_CLASSES];

/// Which connections there are, by what is heard of them, and what each may have.
///
/// Reports may be missed or come late: now and then [`Connections::reconcile`] compares with the tables. The
/// printed form of the algorithm, whose limits depend on when a connection began, is for
/// [`Middlebox`](crate::Middlebox) only.
#[derive(Clone, Debug)]
pub struct Connections {
    allocator: Allocator,
    known: HashMap<Key, Sharing>,
    /// How many there are of each class, also those that take no share.
    live: [u32; MOST_CLASSES],
    /// How many flows that are no connections share each class.
    others: Others,
    /// What a connection leaves of its share until it is said.
    new: PerSide<f64>,
}

/// What a connection takes of its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    class: u32,
    /// Whether it takes a share, and what it leaves of that towards each side, in parts of it.
    shares: bool,
    unused: PerSide<f64>,
}

impl Sharing {
    /// Begins with a share of which it leaves a part.
    pub(crate) fn begin(allocator: &mut Allocator, class: u32, unused: PerSide<f64>) -> (Sharing, Ticket) {
        let (ticket, _) = allocator.begin(class);
        allocator.add_unused(class, unused);
        (Sharing { class, shares: true, unused }, ticket)
    }

    /// Takes a share or none, and leaves this much of it.
    pub(crate) fn set(&mut self, allocator: &mut Allocator, shares: bool, unused: PerSide<f64>) {
        let class = self.class;
        match (self.shares, shares) {
            (false, true) => _ = allocator.begin(class),
            (true, false) => _ = allocator.end(class),
            _ => {}
        }
        let left = |shares: bool, unused: PerSide<f64>| if shares { unused } else { PerSide::default() };
        let (old, new) = (left(self.shares, self.unused), left(shares, unused));
        if old != new {
            allocator.add_unused(class, PerSide::of(|side| new[side] - old[side]));
        }
        (self.shares, self.unused) = (shares, unused);
    }

    /// Takes nothing any more.
    pub(crate) fn end(mut self, allocator: &mut Allocator) {
        self.set(allocator, false, PerSide::default());
    }
}

impl Connections {
    /// Creates it for a link with these rates towards the two sides, without connections. Where they share by
    /// use, one that begins takes nothing until [`Connections::apply`] says what it uses.
    pub fn new(policy: &Policy, capacity: impl Into<PerSide<Rate>>) -> Connections {
        Connections {
            allocator: Allocator::new(policy, capacity),
            known: HashMap::new(),
            live: [0; MOST_CLASSES],
            others: Others::default(),
            new: new_unused(policy),
        }
    }

    /// A connection of a class began.
    pub fn begin(&mut self, key: Key, class: u32) {
        self.end(&key);
        self.known.insert(key, Sharing::begin(&mut self.allocator, class, self.new).0);
        if let Some(live) = self.live.get_mut(class as usize) {
            *live += 1;
        }
    }

    /// A connection ended.
    pub fn end(&mut self, key: &Key) {
        let Some(sharing) = self.known.remove(key) else { return };
        let class = sharing.class;
        sharing.end(&mut self.allocator);
        if let Some(live) = self.live.get_mut(class as usize) {
            *live -= 1;
        }
    }

    /// Takes what flows share and who of them does, as a [`Monitor`](crate::Monitor) says. Flows that are no
    /// connections count by their class.
    pub fn apply(&mut self, treatments: &Treatments) {
        let mut others = Others::default();
        for judged in &treatments.judged {
            let (seen, unused) = (&judged.seen, judged.unused);
            if seen.tcp.is_some() {
                if let Some(known) = self.known.get_mut(&seen.key) {
                    known.set(&mut self.allocator, judged.shares(), unused);
                }
            } else if let Some((count, left)) =
                seen.class.filter(|_| judged.shares()).and_then(|class| others.get_mut(class as usize))
            {
                (*count, *left) = (*count + 1, PerSide::of(|side| left[side] + unused[side]));
            }
        }
        self.set_others(&others);
        self.allocator.follow(treatments.rates);
    }

    /// So many flows that are no connections share each class, and leave this much of their shares together.
    fn set_others(&mut self, others: &Others) {
        for ((class, before), now) in (0..).zip(&mut self.others).zip(others) {
            (before.0..now.0).for_each(|_| _ = self.allocator.begin(class));
            (now.0..before.0).for_each(|_| _ = self.allocator.end(class));
            self.allocator.add_unused(class, PerSide::of(|side| now.1[side] - before.1[side]));
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

    /// Computes shares from these rates.
    pub fn follow(&mut self, rates: Rates) {
        self.allocator.follow(rates);
    }

    /// Returns what a connection of each class may have.
    pub fn shares(&self) -> Shares {
        PerSide::of(|side| std::array::from_fn(|class| self.allocator.shares(class as u32)[side]))
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

    /// 80 Mb/s are 0.01 bytes per ns.
    const WHOLE: f64 = (1_u64 << 40) as f64 / 100.0;

    fn connections() -> Connections {
        Connections::new(&Policy::default(), [Rate::from_mbps(80.0); 2])
    }

    /// A connection takes a share or none, and leaves this much of it.
    fn set(connections: &mut Connections, key: Key, shares: bool, unused: PerSide<f64>) {
        connections.known.get_mut(&key).unwrap().set(&mut connections.allocator, shares, unused);
    }

    /// How many connections the link is divided by, towards each side.
    fn sharing(connections: &Connections) -> PerSide<f64> {
        connections.shares().map(|shares| (1e6 * WHOLE / shares[0] as f64).round() / 1e6)
    }

    #[test]
    fn what_was_missed_is_made_up_for() {
        let mut connections = connections();
        assert_eq!(connections.shares().0[0][0], 0);
        connections.begin(key(1), 0);
        connections.begin(key(1), 0);
        assert_eq!((connections.live(0), sharing(&connections)), (1, PerSide([1.0; 2])));
        connections.begin(key(2), 0);
        [1, 2].into_iter().for_each(|port| set(&mut connections, key(port), true, PerSide::default()));
        assert_eq!(sharing(&connections), [2.0; 2]);
        connections.end(&key(9));
        // One ended and two began meanwhile.
        connections.reconcile([(key(2), 0), (key(3), 0), (key(4), 0)]);
        [3, 4].into_iter().for_each(|port| set(&mut connections, key(port), true, PerSide::default()));
        assert_eq!((connections.live(0), sharing(&connections)), (3, PerSide([3.0; 2])));
        connections.reconcile([]);
        assert_eq!((connections.live(0), connections.shares().0[0][0]), (0, 0));
    }

    #[test]
    fn who_takes_no_share_leaves_it_to_the_others() {
        let mut connections = connections();
        [1, 2].into_iter().for_each(|port| connections.begin(key(port), 0));
        set(&mut connections, key(1), true, PerSide::default());
        for _ in 0..2 {
            set(&mut connections, key(2), false, PerSide::default());
            assert_eq!((connections.live(0), sharing(&connections)), (2, PerSide([1.0; 2])));
        }
        set(&mut connections, key(2), true, PerSide::default());
        assert_eq!(sharing(&connections), [2.0; 2]);
        connections.end(&key(2));
        assert_eq!((connections.live(0), sharing(&connections)), (1, PerSide([1.0; 2])));
    }

    #[test]
    fn connections_count_by_what_they_use_towards_each_side() {
        let mut connections = connections();
        for port in 1..=4 {
            connections.begin(key(port), 0);
            set(&mut connections, key(port), true, PerSide::default());
        }
        // Three download and one uploads.
        [1, 2, 3].into_iter().for_each(|port| set(&mut connections, key(port), true, PerSide([0.0, 1.0])));
        set(&mut connections, key(4), true, PerSide([0.9, 0.0]));
        assert_eq!(sharing(&connections), [3.1, 1.0]);
        // One that begins costs nothing, whatever it was before.
        connections.begin(key(4), 0);
        connections.begin(key(5), 0);
        assert_eq!(sharing(&connections), [3.0, 1.0]);
        [3, 4, 5].into_iter().for_each(|port| connections.end(&key(port)));
        assert_eq!(sharing(&connections), [2.0, 1.0]);
    }
}
