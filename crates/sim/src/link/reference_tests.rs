//! The links of the simulator, held against the reference link.

use std::collections::BTreeSet;

use headway_link::Service;
use headway_units::{Bytes, Duration, Rate};
use proptest::prelude::*;

use self::reference::{Fate, Offered, Reference};
use super::{Link, NextEvent};
use crate::config::LinkConfig;
use crate::packet::{CE, ECT, Packet, Reports};

#[path = "../../../link/tests/reference/cases.rs"]
mod cases;
#[path = "../../../link/tests/reference/mod.rs"]
mod reference;

/// A link, and its events in order of time; arrivals come last.
struct Run {
    link: Link,
    reports: Reports,
    events: BTreeSet<(u64, bool)>,
    fates: Vec<Fate>,
}

impl Run {
    fn note(&mut self, event: NextEvent) {
        match event {
            NextEvent::None => {}
            NextEvent::Arrival { at, .. } => _ = self.events.insert((at, true)),
            NextEvent::Serve(at) => _ = self.events.insert((at, false)),
        }
    }

    fn run(&mut self, until: u64) {
        while let Some((at, is_arrival)) = self.events.first().copied().filter(|(at, _)| *at <= until) {
            self.events.pop_first();
            if is_arrival {
                let (packet, next) = self.link.arrive(at, &mut self.reports);
                self.note(next);
                let packet = packet.unwrap();
                self.fates[packet.seq as usize] = Some((at, packet.has(CE)));
            } else {
                let (arrival, serve) = self.link.serve(at, &mut self.reports);
                self.note(arrival);
                self.note(serve);
            }
        }
    }
}

/// Returns the fates of packets by number.
fn fates(config: &LinkConfig, packets: &[Offered]) -> Vec<Fate> {
    let mut run = Run {
        link: Link::new(config, 1, 0),
        reports: Reports::default(),
        events: BTreeSet::new(),
        fates: vec![None; packets.len()],
    };
    for packet in packets {
        run.run(packet.at);
        let flags = if packet.ect { ECT } else { 0 };
        let (seq, size) = (packet.number as u64, packet.size as u16);
        let offered = Packet { seq, size, sent: packet.at, owner: packet.flow, flags, ..Packet::default() };
        let event = run.link.push(packet.at, offered, &mut run.reports);
        run.note(event);
    }
    run.run(u64::MAX);
    run.fates
}

proptest! {
    #[test]
    fn packets_fare_as_on_the_reference(
        spec in cases::disciplines(),
        rate in cases::rates(),
        policed in cases::policers(),
        is_staged in any::<bool>(),
        packets in cases::packets(),
    ) {
        let known = Rate::from_bps(rate);
        let service = Service::Constant(known);
        let config = LinkConfig {
            policer: policed.map(|(rate, burst)| (Rate::from_bps(rate), Bytes::new(burst))),
            changes: is_staged,
            ..LinkConfig::new(service.clone(), Duration::ZERO, spec.build(Some(known), 3))
        };
        let mut reference = Reference::new(service, spec.build(Some(known), 3), policed);
        // Flows of datagrams have numbers of their own.
        let numbered = |packet: &Offered| Offered { flow: packet.flow ^ 1 << 31, ..*packet };
        packets.iter().map(numbered).for_each(|packet| reference.offer(packet));
        reference.run(u64::MAX >> 1);
        let found = fates(&config, &packets);
        prop_assert_eq!(reference.fates, found);
    }
}
