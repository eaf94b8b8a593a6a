//! Which parts of a network can go on without hearing of each other for a while.
//!
//! A packet that joins a link reaches the far end after the link's delay at the earliest. So what happens at the far ends of links, up to
//! the least of their delays from now on, cannot depend on what is still to happen at their near ends. The components of a network form
//! parts, such that all packets go from one part to another over a link with a delay. Each part has a schedule of its own, and the part
//! whose next event is the earliest goes on for the least delay of the links that lead to it. That is faster than going from part to
//! part with every event, and gives the same results: events of one part happen in the order of their times; those of equal times,
//! in the order of the times at which they were inserted.

use crate::config::LinkId;

/// Shorter delays do not separate parts, ns.
const LEAST_LOOKAHEAD: u64 = 10_000;
/// With more parts than this there is little to do in each, and they are one.
const MOST: usize = 24;

/// Something that happens at one place: packets join a link, or arrive at its far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Near(usize),
    Far(usize),
}

/// What belongs together, by links.
#[derive(Debug, Default)]
pub(super) struct Ties {
    /// Pairs of places that must be of one part.
    pairs: Vec<(Place, Place)>,
    /// Nothing can be told apart.
    whole: bool,
}

impl Ties {
    /// Packets take this way one after the other.
    pub(super) fn route(&mut self, links: &[LinkId]) {
        for pair in links.windows(2) {
            self.pairs.push((Place::Far(pair[0].0 as usize), Place::Near(pair[1].0 as usize)));
        }
    }

    /// A flow goes to and fro.
    pub(super) fn flow(&mut self, forward: &[LinkId], reverse: &[LinkId]) {
        let (Some(out), Some(there), Some(back), Some(home)) =
            (forward.first(), forward.last(), reverse.first(), reverse.last())
        else {
            self.whole = true;
            return;
        };
        self.pairs.push((Place::Far(there.0 as usize), Place::Near(back.0 as usize)));
        self.pairs.push((Place::Far(home.0 as usize), Place::Near(out.0 as usize)));
    }

    /// Both links deliver to one network card.
    pub(super) fn card(&mut self, one: LinkId, other: LinkId) {
        self.pairs.push((Place::Far(one.0 as usize), Place::Far(other.0 as usize)));
    }
}

/// The parts of a network.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Of each link, the parts at its near and at its far end.
    near: Vec<u8>,
    far: Vec<u8>,
    /// How long each part can go on by itself, ns.
    pub(super) lookahead: Vec<u64>,
}

impl Parts {
    /// The parts of a network whose links take these delays (ns), zero where packets overtake each other.
    pub(super) fn new(ties: &Ties, delays: &[u64]) -> Parts {
        let mut sets = Sets::new(2 * delays.len());
        let place = |place| match place {
            Place::Near(link) => 2 * link,
            Place::Far(link) => 2 * link + 1,
        };
        ties.pairs.iter().for_each(|(one, other)| sets.join(place(*one), place(*other)));
        let short = (0..delays.len()).filter(|link| delays[*link] < LEAST_LOOKAHEAD);
        short.for_each(|link| sets.join(2 * link, 2 * link + 1));
        sets.join_alike();
        let numbers = if ties.whole { vec![0; 2 * delays.len()] } else { sets.numbers() };
        let count = numbers.iter().max().map_or(1, |last| last + 1);
        let number = |place: usize| if count > MOST { 0 } else { numbers[place] as u8 };
        let mut parts = Parts {
            near: (0..delays.len()).map(|link| number(2 * link)).collect(),
            far: (0..delays.len()).map(|link| number(2 * link + 1)).collect(),
            lookahead: vec![u64::MAX; if count > MOST { 1 } else { count }],
        };
        for (link, delay) in delays.iter().enumerate() {
            if parts.near[link] != parts.far[link] {
                let least = &mut parts.lookahead[parts.far[link] as usize];
                *least = (*least).min(*delay);
            }
        }
        parts
    }

    /// The part in which packets join a link.
    #[inline]
    pub(super) fn near(&self, link: u32) -> usize {
        self.near.get(link as usize).copied().unwrap_or(0).into()
    }

    /// The part in which packets of a link arrive.
    #[inline]
    pub(super) fn far(&self, link: u32) -> usize {
        self.far.get(link as usize).copied().unwrap_or(0).into()
    }
}

/// Disjoint sets of places.
struct Sets(Vec<usize>);

impl Sets {
    fn new(count: usize) -> Sets {
        Sets((0..count).collect())
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

    /// Joins those that send to the same sets and hear from the same, such as hosts around one switch: there is too little to do in each.
    fn join_alike(&mut self) {
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

    /// The number of the set of each place.
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
        let mut ties = Ties::default();
        ties.flow(&links([0]), &links([1]));
        let parts = Parts::new(&ties, &[5_000_000, 3_000_000]);
        assert_eq!((parts.near(0), parts.far(1)), (parts.far(1), parts.near(0)));
        assert_ne!(parts.near(0), parts.far(0));
        assert_eq!(parts.lookahead[parts.far(0)], 5_000_000);
        assert_eq!(parts.lookahead[parts.near(0)], 3_000_000);
    }

    #[test]
    fn hosts_around_a_switch_are_one_part() {
        let mut ties = Ties::default();
        for host in 0..100 {
            let (out, back) =
                (links([2 + 4 * host, 0, 3 + 4 * host]), links([4 + 4 * host, 1, 5 + 4 * host]));
            ties.route(&out);
            ties.route(&back);
            ties.flow(&out, &back);
        }
        let parts = Parts::new(&ties, &[1_000_000; 402]);
        assert_eq!(parts.lookahead.len(), 6);
        assert!((0..100).all(|host| parts.near(2 + 4 * host) == parts.near(2)));
    }

    #[test]
    fn short_links_and_flows_without_a_way_separate_nothing() {
        let mut ties = Ties::default();
        ties.flow(&links([0]), &links([1]));
        assert_eq!(Parts::new(&ties, &[0, 5_000_000]).lookahead, [u64::MAX]);
        ties.flow(&[], &links([1]));
        assert_eq!(Parts::new(&ties, &[5_000_000, 5_000_000]).lookahead, [u64::MAX]);
    }
}
