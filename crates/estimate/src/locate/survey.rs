//! The number of hops and their addresses, from trains whose one hidden packet has every TTL in turn.

use crate::constants::constants;
use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::stream::{Train, TrainRecord};

/// The longest path looked for. Paths on the Internet have at most about 30 hops.
pub const MOST_HOPS: u8 = 32;

/// The hops are unclear if, of the TTLs above the smallest that arrived, more than this share did not. Range:
/// share, 0 to 1.
const MOST_HOLES: f64 = 0.25;

constants! {
    /// How hops are counted.
    SURVEY: SurveyConstants {
        /// Trains for each TTL, so that a random loss does not look like a longer path. Half: time -8 %.
        copies: usize = 2, "trains, from 1";
    }
}

/// The trains of a survey in sending order: every TTL once, then all of them again.
pub(super) fn trains() -> Vec<Train> {
    let once = (1..=MOST_HOPS).map(|hops| Train { hidden: 1, hops });
    std::iter::repeat_n(once, SURVEY.copies).flatten().collect()
}

/// Returns the number of packets of a survey.
pub(super) fn packets() -> u64 {
    trains().iter().map(|train| train.packets() as u64).sum()
}

/// The reason why a survey does not tell the number of hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// No hidden packet arrived.
    NoneArrived,
    /// Hidden packets arrived with some TTLs, but not with many larger ones.
    Unclear,
}

/// Returns the number of links to the receiver: the smallest TTL with which a hidden packet arrived.
pub(super) fn hop_count(trains: &[TrainRecord]) -> Result<u8, Unknown> {
    let mut arrived: BTreeMap<u8, bool> = BTreeMap::new();
    for train in trains {
        *arrived.entry(train.train.hops).or_default() |= train.hidden_seen > 0;
    }
    let last = arrived.iter().find(|(_, seen)| **seen).map(|(hops, _)| *hops).ok_or(Unknown::NoneArrived)?;
    let beyond: Vec<bool> = arrived.range(last..).map(|(_, seen)| *seen).collect();
    let holes = beyond.iter().filter(|seen| !**seen).count();
    if holes as f64 > MOST_HOLES * beyond.len() as f64 { Err(Unknown::Unclear) } else { Ok(last) }
}

/// The addresses of nodes, as far as they have answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses(BTreeMap<u8, Vec<IpAddr>>);

/// A node that has another address than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// The number of the node.
    pub hop: u8,
    /// Its address before.
    pub before: IpAddr,
    /// Its address now.
    pub after: IpAddr,
}

impl Addresses {
    /// Returns the addresses in nodes' replies.
    pub(super) fn of_replies(replies: &[(u8, IpAddr)]) -> Addresses {
        let mut addresses = Addresses::default();
        replies.iter().for_each(|(hops, address)| addresses.add(*hops, *address));
        addresses
    }

    /// Adds those of another survey.
    pub(super) fn extend(&mut self, more: Addresses) {
        for (hops, addresses) in more.0 {
            addresses.into_iter().for_each(|address| self.add(hops, address));
        }
    }

    /// Returns the first node before the receiver, which is number `last`, that answered in both surveys but
    /// from no address twice.
    pub(super) fn changed(&self, later: &Addresses, last: u8) -> Option<Changed> {
        (1..last).find_map(|hop| {
            let (before, after) = (self.of(hop), later.of(hop));
            let apart = before.iter().all(|address| !after.contains(address));
            let (before, after) = (*before.first()?, *after.first()?);
            apart.then_some(Changed { hop, before, after })
        })
    }

    /// Adds the address that a node `hops` links away gave itself.
    pub(super) fn add(&mut self, hops: u8, address: IpAddr) {
        let known = self.0.entry(hops).or_default();
        if !known.contains(&address) {
            known.push(address);
        }
    }

    /// Returns the addresses of a node, in the order in which they came; several where
    /// packets take several paths.
    pub(super) fn of(&self, hops: u8) -> Vec<IpAddr> {
        self.0.get(&hops).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Instant;

    /// A survey of a path of which the hidden packets that `passes` accepts arrive.
    fn survey(passes: impl Fn(u8, usize) -> bool) -> Vec<TrainRecord> {
        let at = Instant::ZERO;
        let record = |(number, train): (usize, Train)| TrainRecord {
            train,
            sent: [at; 2],
            received: [Some(at); 2],
            hidden_seen: u8::from(passes(train.hops, number)),
        };
        trains().into_iter().enumerate().map(record).collect()
    }

    #[test]
    fn the_smallest_ttl_that_arrives_is_the_number_of_hops() {
        assert_eq!(hop_count(&survey(|hops, _| hops >= 7)), Ok(7));
        assert_eq!(hop_count(&survey(|_, _| true)), Ok(1));
        assert_eq!(hop_count(&survey(|hops, _| hops >= MOST_HOPS)), Ok(MOST_HOPS));
    }

    #[test]
    fn losses_do_not_make_a_path_longer() {
        assert_eq!(hop_count(&survey(|hops, number| hops >= 7 && number != 6)), Ok(7));
        assert_eq!(hop_count(&survey(|hops, number| hops >= 7 && number % 3 != 0)), Ok(7));
    }

    #[test]
    fn paths_without_an_end_or_with_holes_are_unknown() {
        assert_eq!(hop_count(&survey(|_, _| false)), Err(Unknown::NoneArrived));
        assert_eq!(hop_count(&survey(|hops, _| hops >= 4 && hops % 2 == 0)), Err(Unknown::Unclear));
        assert_eq!(hop_count(&[]), Err(Unknown::NoneArrived));
    }

    #[test]
    fn a_node_may_have_several_addresses() {
        let mut addresses = Addresses::default();
        let [a, b] = ["192.0.2.1", "192.0.2.9"].map(|text| text.parse().unwrap());
        for address in [a, b, a] {
            addresses.add(3, address);
        }
        assert_eq!(addresses.of(3), [a, b]);
        assert!(addresses.of(4).is_empty());
    }
}
