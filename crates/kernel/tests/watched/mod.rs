//! What the programs count of each flow, and connections that they let pass.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use headway_arithmetic::flow::{Framing, Key, Packet, Rule, Rules, flag};
use headway_arithmetic::virtual_queue::COST_BITS;
use headway_kernel::{
    Edge, EdgeExchange, EdgeInterface, EdgeMarking, EdgeOptions, EdgeTreatment as Treatment,
};

use crate::arrival::Arrival;
use crate::path::{Info, MEGABYTE, ROUTED_V4, ROUTED_V6, Routed, TIMEOUT, close, transfer};
use crate::support::Segment;
use crate::{HARDLY_ANY, PAYLOAD, SMALL, download, handshake, shares, start};

#[test]
fn data_of_tcp_is_counted_by_the_end_that_sends_it() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, SMALL);
    for to in [ROUTED_V4[1], ROUTED_V6[1]] {
        let (socket, mut peer) = path.connect(to);
        transfer(&socket, &mut peer, 3 * MEGABYTE);
        download(&socket, &peer, MEGABYTE);
        let connections = edge.connections().unwrap();
        let (_, connection) = connections.first().unwrap();
        let client = connection.flow.client();
        let [up, down] = [client, 1 - client].map(|end| connection.sent[end]);
        // Nothing is lost here, and nothing is sent twice.
        assert_eq!([up.bytes, down.bytes], [3 * MEGABYTE as u64, MEGABYTE as u64]);
        for sent in [up, down] {
            // Merged packets count as what they were on the wire.
            let size = sent.bytes / sent.packets;
            assert!((PAYLOAD as u64 / 2..=PAYLOAD as u64).contains(&size), "{sent:?}");
            assert!(sent.first <= sent.last && sent.gaps > 0 && sent.busy <= sent.slots, "{sent:?}");
        }
        close(&socket, peer);
        drop(socket);
        for (key, _) in edge.connections().unwrap() {
            edge.remove(&key).unwrap();
        }
    }
}

fn receive(socket: &UdpSocket) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(&mut [0; 500]) {
            // As a read with a timeout does when the process was stopped meanwhile (signal(7)).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result.unwrap(),
        }
    }
}

/// Sends datagrams of 100 bytes from the client, each of which is answered with 400 bytes.
fn ask(path: &Routed, to: &str, count: usize) {
    let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let to: IpAddr = to.parse().unwrap();
    let bind = move || UdpSocket::bind((to, 0)).unwrap();
    let server = path.server.run(bind);
    let client = path.client.run(move || UdpSocket::bind(any).unwrap());
    client.connect(server.local_addr().unwrap()).unwrap();
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    }
    for _ in 0..count {
        client.send(&[1; 100]).unwrap();
        let (bytes, from) = receive(&server);
        server.send_to(&[2; 400], from).unwrap();
        assert_eq!((bytes, receive(&client).0), (100, 400));
    }
}

#[test]
fn datagrams_are_counted_by_flow() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, SMALL);
    ask(&path, ROUTED_V4[1], 50);
    ask(&path, ROUTED_V6[1], 20);
    // The hosts may look for routers meanwhile.
    let exchanges: Vec<(Key, EdgeExchange)> =
        edge.exchanges().unwrap().into_iter().filter(|(_, exchange)| exchange.is_answered()).collect();
    for (version_6, count) in [(false, 50), (true, 20)] {
        let is_one = |(key, _): &&(Key, EdgeExchange)| key.address(0).is_ipv6() == version_6;
        let (key, exchange) = exchanges.iter().find(is_one).unwrap();
        let client = exchange.client();
        assert!(key.address(client).to_string().ends_with("1"), "{key:?}");
        let [up, down] = [client, 1 - client].map(|end| exchange.sent[end]);
        assert_eq!(
            [up.packets, up.bytes, down.packets, down.bytes],
            [count, 100 * count, count, 400 * count]
        );
        assert!(exchange.seen() >= down.last && down.last > down.first, "{exchange:?}");
    }
    let counted = edge.counters().unwrap();
    assert!(counted.datagrams >= 140 && counted.other >= counted.datagrams, "{counted:?}");
    let numbers: Vec<u64> = exchanges.iter().map(|(_, exchange)| exchange.number).collect();
    assert!(exchanges.len() == 2 && numbers[0] != numbers[1], "{exchanges:?}");
}

/// A datagram as a frame: a segment with another protocol, of which only the ports matter.
fn datagram(from: (IpAddr, u16), to: (IpAddr, u16)) -> Vec<u8> {
    let mut frame = Segment::new(from, to, flag::ACK).ethernet();
    frame[23] = 17;
    frame
}

#[test]
fn a_flood_of_datagrams_neither_grows_the_table_nor_pushes_anything_out() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, EdgeOptions { connections: 64, ..SMALL });
    let [up, down] = Arrival::of(&edge, path.router.run(|| EdgeInterface::find("wan").unwrap().index));
    let host = |number: u32| (IpAddr::from((0x0a01_0000 + number).to_be_bytes()), 1000);
    let server = (IpAddr::from([10, 9, 9, 9]), 443);
    // Unsolicited.
    for number in 0..2_000 {
        down.of_frame(&mut datagram(server, host(number)));
    }
    let counted = edge.counters().unwrap();
    assert!(counted.datagrams_unasked >= 2_000, "{counted:?}");
    up.of_frame(&mut datagram(host(7), server));
    // Hosts that ask too much.
    for number in 100..2_000 {
        up.of_frame(&mut datagram(host(number), server));
    }
    down.of_frame(&mut datagram(server, host(7)));
    let exchanges = edge.exchanges().unwrap();
    let key = *Packet::between(host(7), server).key();
    let (_, first) = exchanges.iter().find(|(other, _)| *other == key).unwrap();
    assert!(first.is_answered(), "{first:?}");
    let counted = edge.counters().unwrap();
    assert!(exchanges.len() == 64 && counted.datagrams_without_room >= 1_800, "{counted:?}");
    assert!(edge.remove_exchange(&key).unwrap() && !edge.remove_exchange(&key).unwrap());
}

#[test]
fn a_connection_passes_as_long_as_it_is_not_to_be_limited() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, SMALL);
    edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
    let (socket, mut peer) = path.connect(ROUTED_V4[1]);
    let window = |peer: &mut _| {
        edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
        transfer(&socket, peer, MEGABYTE / 10);
        Info::of(&socket).receive_window
    };
    assert!(window(&mut peer) < 4 * PAYLOAD);
    let number = edge.connections().unwrap()[0].1.number;
    edge.treat(number, Treatment::Passes).unwrap();
    assert!(window(&mut peer) > 20 * PAYLOAD);
    let counted = edge.counters().unwrap();
    assert!(counted.exempt > 0, "{counted:?}");
    // Another one is not meant.
    edge.treat(number, Treatment::Window).unwrap();
    edge.treat(number + 1, Treatment::Passes).unwrap();
    assert!(window(&mut peer) < 4 * PAYLOAD);
    edge.treat(number + 1, Treatment::Window).unwrap();
    edge.treat(number + 1, Treatment::Window).unwrap();
}

#[test]
fn other_rules_reach_the_connections_that_are_there() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, SMALL);
    let (socket, mut peer) = path.connect(ROUTED_V4[1]);
    let mut shares = shares(0);
    shares[0][1] = HARDLY_ANY;
    shares[1][1] = HARDLY_ANY;
    let mut window = |rules| {
        edge.say(&shares, 0, rules).unwrap();
        transfer(&socket, &mut peer, MEGABYTE / 10);
        Info::of(&socket).receive_window
    };
    assert!(window(0) > 20 * PAYLOAD);
    let mut rules = Rules::default();
    rules.push(Rule::any(1));
    edge.set_rules(&rules).unwrap();
    assert!(window(0) > 20 * PAYLOAD, "their number has not changed");
    assert!(window(1) < 4 * PAYLOAD);
    assert_eq!(edge.connections().unwrap()[0].1.flow.class, 1);
}

/// A frame with another mark, and the right checksum if it is IPv4.
fn with_ecn(mut frame: Vec<u8>, ecn: u8) -> Vec<u8> {
    frame[15] = frame[15] & !3 | ecn;
    frame[24..26].fill(0);
    let sum: u32 =
        frame[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Each byte takes a second: the queue does not drain during a test.
const SLOW: u64 = 1_000_000_000 << COST_BITS;

/// Marks flows of a class towards the hosts, as if they had hardly any rate.
fn mark(edge: &Edge, class: usize) {
    let mut marking = EdgeMarking { flows: 1, ..EdgeMarking::default() };
    marking.costs[0][class] = SLOW;
    edge.mark(&marking).unwrap();
}

/// Lets packets of each kind arrive until this many are marked, which takes some tenths of a second;
/// returns how many were.
fn arrive_until(edge: &Edge, arrival: &Arrival, frame: &[u8], enough: u64) -> u64 {
    let mut marked = 0;
    for round in 0.. {
        let before = with_ecn(frame.to_vec(), (round % 4) as u8);
        let mut after = before.clone();
        arrival.of_frame(&mut after);
        if after != before {
            assert_eq!(after, with_ecn(frame.to_vec(), 3), "only the mark and the checksum change");
            assert!(matches!(round % 4, 1 | 2), "only what may be marked");
            marked += 1;
        }
        if round % 1_000 == 0 {
            edge.say(&shares(0), 0, 0).unwrap();
            if edge.counters().unwrap().marked >= enough {
                break;
            }
        }
    }
    marked
}

#[test]
fn packets_of_a_connection_are_marked_and_what_may_not_be_marked_never_is() {
    let Some(path) = Routed::new() else { return };
    for dry_run in [false, true] {
        let edge = start(&path, EdgeOptions { dry_run, ..SMALL });
        let arrivals = Arrival::of(&edge, path.router.run(|| EdgeInterface::find("wan").unwrap().index));
        for (mut frame, side) in handshake(7) {
            arrivals[side].of_frame(&mut frame);
        }
        let number = edge.connections().unwrap()[0].1.number;
        let [_, (answer, _), _] = handshake(7);
        let server = Packet::read(&answer, Framing::Ethernet, 1).unwrap();
        let ends = [server.sender(), 1 - server.sender()];
        let [from, to] = ends.map(|end| (server.key().address(end), server.key().port(end)));
        let data = vec![7; 1000];
        let segment = Segment { sequence: 5001, data, ..Segment::new(from, to, flag::ACK) }.ethernet();
        mark(&edge, 5);
        edge.treat(number, Treatment::Marked(5)).unwrap();
        let passes = |count: usize| {
            for _ in 0..count {
                let mut frame = with_ecn(segment.clone(), 2);
                arrivals[1].of_frame(&mut frame);
                assert_eq!(frame, with_ecn(segment.clone(), 2));
            }
        };
        // The process has not said that it lives.
        passes(1_000);
        assert!(edge.connections().unwrap()[0].1.ecn()[server.sender()]);
        let counted = edge.counters().unwrap();
        assert!(counted.marked == 0 && counted.unattended >= 1_000, "{counted:?}");
        let marked = arrive_until(&edge, &arrivals[1], &segment, 8);
        let counted = edge.counters().unwrap();
        // What is marked already counts, too.
        assert!(counted.marked >= 8 && counted.lowered == 0, "{counted:?}");
        assert_eq!(marked > 0, !dry_run);
        // Another class has no queue, and a connection that is not treated none either.
        for treatment in [Treatment::Marked(4), Treatment::Window, Treatment::Passes] {
            edge.treat(number, treatment).unwrap();
            passes(1_000);
        }
    }
}

#[test]
fn datagrams_are_marked_too() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, SMALL);
    let [up, down] = Arrival::of(&edge, path.router.run(|| EdgeInterface::find("wan").unwrap().index));
    let (host, server) = ((IpAddr::from([10, 1, 0, 7]), 1000), (IpAddr::from([10, 9, 9, 9]), 443));
    up.of_frame(&mut with_ecn(datagram(host, server), 1));
    down.of_frame(&mut with_ecn(datagram(server, host), 2));
    let (_, exchange) = edge.exchanges().unwrap().remove(0);
    assert_eq!(exchange.ecn(), [true; 2]);
    mark(&edge, 0);
    edge.treat(exchange.number, Treatment::Marked(0)).unwrap();
    assert!(arrive_until(&edge, &down, &datagram(server, host), 4) > 0);
    // The other direction has no queue.
    for _ in 0..1_000 {
        let mut frame = with_ecn(datagram(host, server), 2);
        up.of_frame(&mut frame);
        assert_eq!(frame[15] & 3, 2);
    }
}
