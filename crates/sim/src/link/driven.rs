//! A link with its events, for tests.

use std::collections::BTreeSet;

use super::{Link, NextEvent};
use crate::config::LinkConfig;
use crate::packet::{Packet, Reports};

/// A link with what it wants to be called for.
pub(super) struct Driven {
    pub(super) link: Link,
    pub(super) reports: Reports,
    /// Times of events and whether they are arrivals, which come last at the same time.
    events: BTreeSet<(u64, bool)>,
}

impl Driven {
    pub(super) fn new(config: &LinkConfig) -> Driven {
        Driven { link: Link::new(config, 1, 0), reports: Reports::default(), events: BTreeSet::new() }
    }

    pub(super) fn push(&mut self, now: u64, packet: Packet) {
        let event = self.link.push(now, packet, &mut self.reports);
        for number in self.link.take_discarded() {
            self.reports.release(number);
        }
        self.note(event);
    }

    /// Handles the events up to `until`, and shows each packet that arrives with its time.
    pub(super) fn run(&mut self, until: u64, mut arrived: impl FnMut(u64, &Packet, &mut Reports)) {
        while let Some((at, is_arrival)) = self.events.first().copied().filter(|(at, _)| *at <= until) {
            self.events.pop_first();
            if is_arrival {
                let (packet, next) = self.link.arrive(at, &mut self.reports);
                self.note(next);
                arrived(at, &packet.unwrap(), &mut self.reports);
            } else {
                let (arrival, serve) = self.link.serve(at, true, &mut self.reports);
                self.note(arrival);
                self.note(serve);
            }
        }
    }

    fn note(&mut self, event: NextEvent) {
        match event {
            NextEvent::None | NextEvent::Contend(_) => {}
            NextEvent::Arrival { at, .. } => _ = self.events.insert((at, true)),
            NextEvent::Serve(at) => _ = self.events.insert((at, false)),
        }
    }
}
