//! The links of the simulator, held against the reference link.

use headway_link::Service;
use headway_units::{Bytes, Duration, Rate};
use proptest::prelude::*;

use self::reference::{Fate, Offered, Reference};
use super::driven::Driven;
use crate::config::LinkConfig;
use crate::packet::{CE, ECT, Packet};

#[path = "../../../link/tests/reference/cases.rs"]
mod cases;
#[path = "../../../link/tests/reference/mod.rs"]
mod reference;

/// Returns the fates of packets by number.
fn fates(config: &LinkConfig, packets: &[Offered]) -> Vec<Fate> {
    let (mut driven, mut fates) = (Driven::new(config), vec![None; packets.len()]);
    let mut run = |driven: &mut Driven, until| {
        driven.run(until, |at, packet, _| fates[packet.seq as usize] = Some((at, packet.has(CE))));
    };
    for packet in packets {
        run(&mut driven, packet.at);
        let flags = if packet.ect { ECT } else { 0 };
        let (seq, size) = (packet.number as u64, packet.size as u16);
        let offered = Packet { seq, size, sent: packet.at, owner: packet.flow, flags, ..Packet::default() };
        driven.push(packet.at, offered);
    }
    run(&mut driven, u64::MAX);
    fates
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
