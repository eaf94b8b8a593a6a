//! The queue of an emulated link, held against the reference link.

use headway_link::Service;
use headway_queue::{Label, Policer};
use headway_units::{Bytes, Instant, Rate};
use proptest::prelude::*;

use self::reference::{Fate, Offered, Reference};
use crate::queue::{Departure, HostFrame, Packet, Queue};
use crate::spec::Rates;

#[path = "../../link/tests/reference/cases.rs"]
mod cases;
#[path = "../../link/tests/reference/mod.rs"]
mod reference;

/// Returns the fates of packets by number, where the queue is asked at each arrival only.
fn fates(mut queue: Queue, packets: &[Offered]) -> Vec<Fate> {
    let mut fates = vec![None; packets.len()];
    let mut note = |Departure { packet, transmission }: Departure| {
        let number = packet.frame.unwrap().number as usize;
        fates[number] = transmission.map(|transmission| (transmission.finish.ns(), packet.marked));
    };
    for packet in packets {
        let at = Instant::from_ns(packet.at);
        std::iter::from_fn(|| queue.serve(at)).for_each(&mut note);
        let mut offered = Packet {
            ect: packet.ect,
            label: Label { flow: packet.flow, is_scalable: false },
            frame: Some(HostFrame { number: packet.number as u32, is_tcp: false }),
            ..Packet::new(at, Bytes::new(packet.size))
        };
        if let Some(Some(transmission)) = queue.push(&mut offered) {
            note(Departure { packet: offered, transmission: Some(transmission) });
        }
        std::iter::from_fn(|| queue.serve(at)).for_each(&mut note);
    }
    std::iter::from_fn(|| queue.serve(Instant::from_ns(u64::MAX >> 1))).for_each(&mut note);
    fates
}

proptest! {
    #[test]
    fn packets_fare_as_on_the_reference(
        spec in cases::disciplines(),
        rate in cases::rates(),
        policed in cases::policers(),
        packets in cases::packets(),
    ) {
        let known = Rate::from_bps(rate);
        let service = Service::Constant(known);
        let mut queue = Queue::new(Instant::ZERO, Rates { service: service.clone(), known }, &spec, 3);
        queue.police(policed.map(|(rate, burst)| Policer { rate: Rate::from_bps(rate), burst: Bytes::new(burst) }));
        let mut reference = Reference::new(service, spec.build(Some(known), 3), policed);
        packets.iter().for_each(|packet| reference.offer(*packet));
        reference.run(u64::MAX >> 1);
        prop_assert_eq!(reference.fates, fates(queue, &packets));
    }
}
