//! What a row says about capacity, rate and what is free does not contradict itself, whatever the transfer.

use crate::support::{Handshake, Random, Tcp};
use headway_capture::{Link, Packet};
use headway_estimate::sabes::{Capacity, Limit};
use headway_passive::{Free, Options, Sums, Tracker, Unknown};
use headway_units::Instant;

const PAYLOAD: u64 = 1_448;
const WIRE: u64 = 1_448 + 40 + 38;

/// A transfer with a window, over a link that takes `service` ns for a packet, beside traffic that
/// lets it wait at random.
fn packets(random: &mut Random, port: u16) -> Vec<(u64, Tcp)> {
    let client = ("192.0.2.1", port);
    let server = ("198.51.100.2", 443);
    let rtt = 1_000_000 << random.below(8);
    let near = random.chance(2);
    let (to_client, to_server) = if near { (rtt / 50, rtt) } else { (rtt, rtt / 50) };
    let handshake = Handshake { client, server, at: 1_000_000_000, to_client, to_server };
    let mut packets = handshake.segments().to_vec();
    let service = 10_000 << random.below(8);
    let window = 2 + random.below(200);
    // Stamps of ACKs in batches of this length.
    let batch = [1, 1, 1_000_000, 50_000][random.below(4) as usize];
    let noise = 1 + random.below(4) * service;
    let pause = random.below(3) * rtt * 2;
    let (mut link, mut acked) = (0, Vec::<u64>::new());
    let begin = 1_000_000_000 + 2 * rtt;
    let mut late = 0;
    for k in 0..200 + random.below(1_500) {
        if random.chance(40) {
            late += pause;
        }
        let sent = if k < window {
            begin + k * 1_000 + late
        } else {
            acked[(k - window) as usize].max(begin + late)
        };
        link = link.max(sent) + service + random.below(noise);
        let ack = (link + rtt) / batch * batch;
        let ack = acked.last().map_or(ack, |last| ack.max(*last + 500));
        acked.push(ack);
        let mut data = Tcp::new(client, server);
        (data.sequence, data.acknowledgement) = (1_001u32.wrapping_add((k * PAYLOAD) as u32), Some(5_001));
        data.payload = PAYLOAD as u32;
        packets.push((if near { sent } else { ack - 1_000 }, data));
        if k % 2 == 1 {
            let mut answer = Tcp::new(server, client);
            answer.sequence = 5_001;
            answer.acknowledgement = Some(1_001u32.wrapping_add(((k + 1) * PAYLOAD) as u32));
            packets.push((ack, answer));
        }
    }
    packets
}

fn check(capacity: Option<Capacity>, free: Option<Free>, why: Option<Unknown>, sums: &Sums) {
    let said = format!("{capacity:?} {free:?} {why:?} {sums:?}");
    if let Some(Capacity { rate, low, high, .. }) = capacity {
        assert!(low <= rate && rate <= high, "{said}");
    }
    assert_eq!(free.is_none(), why.is_some(), "no number without a reason: {said}");
    if let Some(Free { rate, low, high, .. }) = free {
        assert!(low <= rate && rate < high && sums.used > 0, "{said}");
        assert_eq!(sums.main_limit(), Some(Limit::Path), "{said}");
        // But for the error that a rate may have.
        assert!(
            capacity.is_none_or(|capacity| high <= capacity.high.scale(1.031)),
            "beyond the capacity: {said}"
        );
    }
}

#[test]
fn rows_of_random_transfers_do_not_contradict_themselves() {
    let mut random = Random(7);
    let (mut with_capacity, mut with_free) = (0, 0);
    for _ in 0..60 {
        let mut all: Vec<(u64, Tcp)> =
            (0..1 + random.below(3)).flat_map(|k| packets(&mut random, 40_000 + k as u16)).collect();
        all.sort_by_key(|(at, _)| *at);
        let mut tracker = Tracker::new(&Options { connections: 100, paths: 10, ..Options::default() });
        let mut next = 1_500_000_000;
        for (at, tcp) in &all {
            let (data, length) = tcp.ethernet();
            let at = Instant::from_ns(*at);
            let link = Link::Ethernet;
            let (interface, check_sequence, declared) = (0, false, 0);
            tracker
                .packet(&Packet { at, data: &data, length, interface, link, check_sequence, declared }, None);
            if at.ns() > next {
                next = at.ns() + 500_000_000;
                for row in tracker.end_interval() {
                    check(row.known.capacity, row.known.free, row.known.why, &row.known.sums);
                }
            }
        }
        tracker.finish();
        for row in tracker.flows() {
            check(row.known.capacity, row.known.free, row.known.why, &row.known.sums);
            assert_eq!(row.known.volume.wire, row.known.volume.packets * WIRE);
            with_capacity += usize::from(row.known.capacity.is_some());
        }
        for row in tracker.paths() {
            check(row.known.capacity, row.known.free, row.known.why, &row.known.sums);
            with_free += usize::from(row.known.free.is_some());
        }
    }
    assert!(with_capacity > 10 && with_free > 4, "{with_capacity} {with_free}");
}
