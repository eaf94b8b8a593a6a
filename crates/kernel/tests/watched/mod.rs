//! What the programs count of each flow, and connections that they let pass.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use headway_arithmetic::flow::{Key, Packet, Rule, Rules, flag};
use headway_kernel::{EdgeExchange, EdgeOptions, Side};

use crate::arrival::Arrival;
use crate::path::{Info, MEGABYTE, ROUTED_V4, ROUTED_V6, Routed, TIMEOUT, close, transfer};
use crate::support::Segment;
use crate::{HARDLY_ANY, PAYLOAD, SMALL, download, shares, start};

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
    let [up, down] = Arrival::of(&edge, path.router.run(|| Side::find("wan").unwrap().index));
    let host = |number: u32| (IpAddr::from((0x0a01_0000 + number).to_be_bytes()), 1000);
    let server = (IpAddr::from([10, 9, 9, 9]), 443);
    // What nobody asked for.
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
    edge.exempt(number, true).unwrap();
    assert!(window(&mut peer) > 20 * PAYLOAD);
    let counted = edge.counters().unwrap();
    assert!(counted.exempt > 0, "{counted:?}");
    // Another one is not meant.
    edge.exempt(number, false).unwrap();
    edge.exempt(number + 1, true).unwrap();
    assert!(window(&mut peer) < 4 * PAYLOAD);
    edge.exempt(number + 1, false).unwrap();
    edge.exempt(number + 1, false).unwrap();
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
