//! Partitions of a network, which run independently of each other for the time of their lookahead.
//!
//! A packet that joins a link reaches the far end no earlier than the link's delay allows. Events at the far
//! ends of links therefore cannot depend on future events at the near ends for the smallest of these delays:
//! the lookahead of conservative parallel simulation. The components of a network are divided into partitions
//! such that packets pass from one to another only over links with a delay. Each partition has its own event
//! queue, and the one whose next event is the earliest runs for the smallest delay of the links that lead to
//! it. This is faster than switching partitions at every event and gives the same results: within a
//! partition, events are ordered by time, and events of equal time by the time at which they were inserted.

use crate::config::LinkId;

/// Links with shorter delays do not separate partitions (ns).
const MIN_LOOKAHEAD: u64 = 10_000;
/// With more partitions than this, each has too few events to pay off: the network then
/// runs as one partition.
const MAX_PARTITIONS: usize = 24;

/// One end of a link: packets join it at its ingress and arrive at its egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkEnd {
    Ingress(usize),
    Egress(usize),
}

/// Pairs of link ends that must be in the same partition.
#[derive(Debug, Default)]
pub(super) struct Constraints {
    /// The pairs.
    pairs: Vec<(LinkEnd, LinkEnd)>,
    /// The network cannot be divided.
    indivisible: bool,
}

impl Constraints {
    /// Packets pass from each link of a route to the next.
    pub(super) fn route(&mut self, links: &[LinkId]) {
        for pair in links.windows(2) {
            self.pairs.push((LinkEnd::Egress(pair[0].0 as usize), LinkEnd::Ingress(pair[1].0 as usize)));
        }
    }

    /// A flow joins the ends of its forward and its reverse route at both hosts.
    pub(super) fn flow(&mut self, forward: &[LinkId], reverse: &[LinkId]) {
        let (Some(out), Some(there), Some(back), Some(home)) =
            (forward.first(), forward.last(), reverse.first(), reverse.last())
        else {
            self.indivisible = true;
            return;
        };
        self.pairs.push((LinkEnd::Egress(there.0 as usize), LinkEnd::Ingress(back.0 as usize)));
        self.pairs.push((LinkEnd::Egress(home.0 as usize), LinkEnd::Ingress(out.0 as usize)));
    }

    /// Packets take turns over both links.
    pub(super) fn parallel(&mut self, one: LinkId, other: LinkId) {
        self.pairs.push((LinkEnd::Ingress(one.0 as usize), LinkEnd::Ingress(other.0 as usize)));
        self.pairs.push((LinkEnd::Egress(one.0 as usize), LinkEnd::Egress(other.0 as usize)));
    }

    /// Something sees packets of both directions in order of time.
    pub(super) fn indivisible(&mut self) {
        self.indivisible = true;
    }

    /// Two links deliver to the same NIC.
    pub(super) fn nic(&mut self, one: LinkId, other: LinkId) {
        self.pairs.push((LinkEnd::Egress(one.0 as usize), LinkEnd::Egress(other.0 as usize)));
    }
}

/// The partitions of a network.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// Partitions of the ingress and of the egress of each link.
    ingress: Vec<u8>,
    egress: Vec<u8>,
    /// How long each partition can run independently of the others (ns).
    pub(super) lookahead: Vec<u64>,
}

impl Partitions {
    /// Computes the partitions; `delays` are the minimum latencies of the links (ns), zero where packets may
    /// overtake each other.
    pub(super) fn new(constraints: &Constraints, delays: &[u64]) -> Partitions {
        let mut sets = DisjointSets::new(2 * delays.len());
        let place = |place| match place {
            LinkEnd::Ingress(link) => 2 * link,
            LinkEnd::Egress(link) => 2 * link + 1,
        };
        constraints.pairs.iter().for_each(|(one, other)| sets.join(place(*one), place(*other)));
        let short = (0..delays.len()).filter(|link| delays[*link] < MIN_LOOKAHEAD);
        short.for_each(|link| sets.join(2 * link, 2 * link + 1));
        sets.join_equivalent();
        let numbers = if constraints.indivisible { vec![0; 2 * delays.len()] } else { sets.numbers() };
        let count = numbers.iter().max().map_or(1, |last| last + 1);
        let number = |place: usize| if count > MAX_PARTITIONS { 0 } else { numbers[place] as u8 };
        let mut partitions = Partitions {
            ingress: (0..delays.len()).map(|link| number(2 * link)).collect(),
            egress: (0..delays.len()).map(|link| number(2 * link + 1)).collect(),
            lookahead: vec![u64::MAX; if count > MAX_PARTITIONS { 1 } else { count }],
        };
        for (link, delay) in delays.iter().enumerate() {
            if partitions.ingress[link] != partitions.egress[link] {
                let least = &mut partitions.lookahead[partitions.egress[link] as usize];
                *least = (*least).min(*delay);
            }
        }
        partitions
    }

    /// Returns the partition of a link's ingress.
    pub(super) fn ingress(&self, link: u32) -> usize {
        self.ingress.get(link as usize).copied().unwrap_or(0).into()
    }

    /// Returns the partition of a link's egress.
    pub(super) fn egress(&self, link: u32) -> usize {
        self.egress.get(link as usize).copied().unwrap_or(0).into()
    }
}

/// Disjoint sets of link ends (union-find).
struct DisjointSets(Vec<usize>);

impl DisjointSets {
    fn new(count: usize) -> DisjointSets {
        DisjointSets((0..count).collect())
    }

    fn find(&mut self, mut place: usize) -> usize {
        while self.0[place] != place {
            self.0[place] = self.0[self.0[place]];
            place = self.0[place];
        }
        place
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.0[one.max(other)] = one.min(other);
    }

    /// Merges sets with the same predecessors and successors, such as the hosts around one switch: each
    /// alone has too few events.
    fn join_equivalent(&mut self) {
        let mut neighbours = vec![(Vec::new(), Vec::new()); self.0.len()];
        for near in (0..self.0.len()).step_by(2) {
            let (from, to) = (self.find(near), self.find(near + 1));
            neighbours[from].0.push(to);
            neighbours[to].1.push(from);
        }
        let mut known = std::collections::BTreeMap::new();
        for (place, (mut to, mut from)) in neighbours.into_iter().enumerate() {
            if self.0[place] == place {
                for ends in [&mut to, &mut from] {
                    ends.sort_unstable();
                    ends.dedup();
                }
                let first = *known.entry((to, from)).or_insert(place);
                self.join(first, place);
            }
        }
    }

    /// Returns the number of the set of each link end.
    fn numbers(&mut self) -> Vec<usize> {
        let mut known = std::collections::BTreeMap::new();
        (0..self.0.len())
            .map(|place| {
                let (root, next) = (self.find(place), known.len());
                *known.entry(root).or_insert(next)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links<const N: usize>(numbers: [u32; N]) -> [LinkId; N] {
        numbers.map(LinkId)
    }

    #[test]
    fn senders_and_receivers_of_a_dumbbell_are_two_parts() {
        let mut constraints = Constraints::default();
        constraints.flow(&links([0]), &links([1]));
        let partitions = Partitions::new(&constraints, &[5_000_000, 3_000_000]);
        assert_eq!(
            (partitions.ingress(0), partitions.egress(1)),
            (partitions.egress(1), partitions.ingress(0))
        );
        assert_ne!(partitions.ingress(0), partitions.egress(0));
        assert_eq!(partitions.lookahead[partitions.egress(0)], 5_000_000);
        assert_eq!(partitions.lookahead[partitions.ingress(0)], 3_000_000);
    }

    #[test]
    fn hosts_around_a_switch_are_one_part() {
        let mut constraints = Constraints::default();
        for host in 0..100 {
            let (out, back) =
                (links([2 + 4 * host, 0, 3 + 4 * host]), links([4 + 4 * host, 1, 5 + 4 * host]));
            constraints.route(&out);
            constraints.route(&back);
            constraints.flow(&out, &back);
        }
        let partitions = Partitions::new(&constraints, &[1_000_000; 402]);
        assert_eq!(partitions.lookahead.len(), 6);
        assert!((0..100).all(|host| partitions.ingress(2 + 4 * host) == partitions.ingress(2)));
    }

    #[test]
    fn short_links_and_flows_without_a_way_separate_nothing() {
        let mut constraints = Constraints::default();
        constraints.flow(&links([0]), &links([1]));
        assert_eq!(Partitions::new(&constraints, &[0, 5_000_000]).lookahead, [u64::MAX]);
        constraints.flow(&[], &links([1]));
        assert_eq!(Partitions::new(&constraints, &[5_000_000, 5_000_000]).lookahead, [u64::MAX]);
    }
}
