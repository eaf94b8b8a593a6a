//! Bundles: parallel links that take turns, packet by packet, whatever flow a packet belongs to.
//!
//! A bundle is a *station* of the routes over its first link, which stands for all of them. Packets of other
//! routes never meet one, so a network without bundles does nothing for them.

use super::{DESTINATION, FIRST_BUNDLE, Network};
use crate::config::LinkId;
use crate::packet::{Kind, Packet};

/// Links that take turns.
#[derive(Debug)]
pub(super) struct Bundle {
    /// Their numbers, in order of their turns.
    links: Vec<u32>,
    /// The index of the link whose turn it is.
    turn: usize,
}

impl Bundle {
    /// Returns the link of the next packet.
    fn next(&mut self) -> u32 {
        let link = self.links[self.turn];
        self.turn = (self.turn + 1) % self.links.len();
        link
    }
}

impl Network {
    /// Lets packets on routes over the first of these links take turns over all of them: packets are sprayed.
    /// Call it before anything is added whose route has that link; no link may be in two bundles.
    pub fn spray(&mut self, links: &[LinkId]) {
        let Some(first) = links.first() else { return };
        links.iter().for_each(|link| self.constraints.parallel(*first, *link));
        let bundle = Bundle { links: links.iter().map(|link| link.0).collect(), turn: 0 };
        let place = self.bundles.partition_point(|other| other.links < bundle.links);
        self.bundles.insert(place, bundle);
        self.topology_changed = true;
    }

    /// Returns the links that packets take whose route has this link: itself, or all of its bundle.
    pub(crate) fn parallel(&self, link: LinkId) -> Vec<LinkId> {
        let bundle = self.bundle(link.0).map(|place| &self.bundles[place]);
        bundle.map_or(vec![link], |bundle| bundle.links.iter().map(|number| LinkId(*number)).collect())
    }

    fn bundle(&self, first: u32) -> Option<usize> {
        self.bundles.binary_search_by_key(&first, |bundle| bundle.links[0]).ok()
    }

    /// Returns the hop of routes over this link.
    pub(super) fn hop(&self, link: LinkId) -> u32 {
        if self.bundle(link.0).is_some() { FIRST_BUNDLE + link.0 } else { link.0 }
    }

    /// Sends a packet over the link whose turn it is.
    #[cold]
    pub(super) fn send_in_turn(&mut self, station: u32, packet: &Packet) {
        let Some(place) = self.bundle(station - FIRST_BUNDLE) else { return };
        let link = self.bundles[place].next();
        match packet.kind {
            Kind::Probe => self.forward_probe(link, packet),
            _ => self.join(link, *packet),
        }
    }
}

/// Returns the first link of a bundle at a hop that is no other station; `DESTINATION` at the end of a route.
pub(super) fn first_of(hop: u32) -> u32 {
    if hop == DESTINATION || hop < FIRST_BUNDLE { hop } else { hop - FIRST_BUNDLE }
}
