//! Trains with hidden packets over loopback, with a real server in this process, by UDP and by ICMP.
//!
//! Where this program may not open raw sockets, the tests that need them say so and pass.

use crate::common::raw::{Raw, stream_of_200};
use crate::common::relay::{Fate, Relay};
use crate::common::{Running, config, has_v6};
use headway_estimate::{Train, TrainSchedule};
use headway_net::protocol::echo::{ECHO_HEADER_LEN, write_echo_header};
use headway_net::protocol::probe::HEADER_LEN;
use headway_net::protocol::{
    Announce, Carrier, Direction, Family, GapRuns, Header, HopRuns, Kind, MAX_HOPS, Message, PacketSize,
    RefusedBy, Role,
};
use headway_net::{ConnectOptions, Counts, NetError, Session, StampSource};
use headway_units::{Bytes, Duration};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

/// Returns `count` equal trains 2 ms apart.
fn schedule(train: Train, count: usize) -> TrainSchedule {
    TrainSchedule {
        packet: Bytes::new(1000),
        trains: vec![train; count],
        gaps: vec![Duration::from_ms(2); count - 1],
    }
}

/// Sends pairs and trains whose hidden packets reach the end, because loopback has no routers.
fn check_trains(session: &mut Session) {
    for (hidden, seen) in [(0, 0), (5, 5), (30, 30)] {
        let train = Train { hidden, hops: 1 };
        let outcome = session.send_trains(&schedule(train, 20), true).expect("an open session");
        assert_eq!((outcome.refusal, outcome.receive_stamps), (None, StampSource::Kernel));
        assert_eq!((outcome.trains.len(), outcome.unstamped, outcome.duplicates), (20, 0, 0));
        for record in &outcome.trains {
            assert_eq!((record.train, record.hidden_seen), (train, seen));
            assert!(record.arrivals().is_some() && record.sent_gap() > Duration::ZERO);
            assert!(
                record.sent_gap() < Duration::from_ms(10_000),
                "one system call took {}",
                record.sent_gap()
            );
        }
        assert_eq!(outcome.replies, []);
    }
}

/// Opens a raw socket from an address of 127.0.0.0/8 to 127.0.0.1; `None` if this program
/// may not, which it says.
fn raw_socket(source: Ipv4Addr) -> Option<Socket> {
    let socket = match Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: this program may not open raw sockets");
            return None;
        }
        other => other.expect("a socket"),
    };
    socket.bind(&SocketAddr::from((source, 0)).into()).expect("an address of loopback");
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("an address of loopback");
    Some(socket)
}

/// Returns the number of datagrams that were not as they should be.
fn irregular(counts: &Counts) -> u64 {
    counts.datagrams_malformed
        + counts.datagrams_replayed
        + counts.datagrams_unexpected
        + counts.datagrams_wrong_session
}

#[test]
fn trains_arrive_whole_by_icmp() {
    if raw_socket(Ipv4Addr::LOCALHOST).is_none() {
        return;
    }
    let server = Running::start(config());
    let options = ConnectOptions { carrier: Carrier::Icmp, ..server.options() };
    check_trains(&mut Session::connect(&options).unwrap());
    let counts = server.handle.counts();
    assert_eq!((counts.packets_received, counts.hidden_received), (120, 700));
    if has_v6() {
        check_trains(&mut Session::connect(&ConnectOptions { host: "::1".to_owned(), ..options }).unwrap());
    } else {
        println!("SKIPPED: this host has no IPv6 on loopback");
    }
    assert_eq!(irregular(&server.handle.counts()), 0);
}

/// Returns the announcement of a stream of packets of 200 bytes that ICMP carries, all sent at once.
fn by_icmp(stream: u32, direction: Direction, packets: usize) -> Message {
    let gaps = GapRuns::encode(&vec![Duration::ZERO; packets - 1]);
    let announce = stream_of_200(stream, direction, gaps, HopRuns::default());
    Message::Announce(Announce { carrier: Carrier::Icmp, ..announce })
}

#[test]
fn icmp_is_only_received_and_only_after_the_address_is_proved() {
    let server = Running::start(config());
    let mut raw = Raw::enter(server.port);
    let unproved = raw.ask(&by_icmp(0, Direction::Forward, 4));
    assert_eq!(unproved, Message::Refused(RefusedBy::AddressNotProved));
    assert_eq!(raw.prove(), Message::AddressProved);
    let reverse = raw.ask(&by_icmp(0, Direction::Reverse, 4));
    assert_eq!(reverse, Message::Refused(RefusedBy::SendsNoIcmp));
    assert_eq!(server.handle.counts().bytes_sent, 0);
}

/// Returns an Echo Reply of 200 bytes with this header, and with the identifier of a session.
fn echo_reply(header: &Header, session: u64) -> Vec<u8> {
    let size = PacketSize::from_ip(200).expect("a size");
    let mut message = vec![0; ECHO_HEADER_LEN + size.payload(Family::V4)];
    header.write(message[ECHO_HEADER_LEN..].first_chunk_mut::<HEADER_LEN>().expect("room for a header"));
    write_echo_header(Family::V4, session, &mut message);
    message
}

#[test]
fn forged_echo_replies_are_counted_and_none_is_taken() {
    let (Some(own), Some(other)) = (raw_socket(Ipv4Addr::LOCALHOST), raw_socket(Ipv4Addr::new(127, 0, 0, 2)))
    else {
        return;
    };
    let server = Running::start(config());
    let mut raw = Raw::open(server.port);
    assert_eq!(raw.ask(&by_icmp(7, Direction::Forward, 5)), Message::Ready { stream: 7 });
    let session = raw.session;
    let header = |index| raw.header(7, index, 5, Role::First);
    let good = |index| echo_reply(&header(index), session);
    let forged = |header: Header| echo_reply(&header, session);
    for message in [
        good(0),
        good(3),
        good(3),
        good(2),
        // The identifier is that of the session, the random number is not.
        forged(Header { session: session ^ (1 << 40), ..header(1) }),
        forged(Header { stream: 6, ..header(1) }),
        forged(Header { stream: 8, ..header(1) }),
        forged(Header { role: Role::Hidden, ..header(1) }),
        good(1)[..100].to_vec(),
        good(1)[..ECHO_HEADER_LEN].to_vec(),
        // Another session's identifier: not even looked at.
        echo_reply(&header(1), session ^ 1),
    ] {
        own.send(&message).unwrap();
    }
    // From another address, and by the other carrier.
    other.send(&good(1)).unwrap();
    raw.probe_with(&header(4));
    let Message::Report(report) = raw.ask(&Message::End { stream: 7, grace_ns: 50_000_000 }) else {
        panic!("no report");
    };
    assert_eq!((report.lost, report.duplicates), (vec![1, 4], 1));
    let counts = server.handle.counts();
    assert_eq!((counts.datagrams_malformed, counts.datagrams_wrong_session), (3, 1));
    assert_eq!((counts.datagrams_replayed, counts.datagrams_unexpected), (2, 1));
    assert_eq!((counts.packets_received, counts.datagrams_reordered), (3, 1));
    // The session goes on by UDP, where the datagram of the stream by ICMP is an old one.
    raw.announce(8, 2);
    raw.probe(8, 0, 2);
    raw.probe(8, 1, 2);
    let report = raw.ask(&Message::End { stream: 8, grace_ns: 0 });
    assert!(matches!(report, Message::Report(report) if report.lost.is_empty()));
    assert_eq!(server.handle.counts().datagrams_replayed, 3);
}

#[test]
fn trains_arrive_whole_over_ipv4_and_ipv6() {
    let server = Running::start(config());
    let mut session = Session::connect(&server.options()).unwrap();
    let before = session.probe_bytes();
    check_trains(&mut session);
    let cost = session.probe_bytes().get() - before.get();
    assert_eq!(cost, 1000 * 20 * (2 + 7 + 32));
    let counts = server.handle.counts();
    assert_eq!((counts.packets_received, counts.hidden_received), (120, 700));
    assert_eq!(irregular(&counts), 0);
    if !has_v6() {
        println!("skipped: this host has no IPv6 on loopback");
        return;
    }
    let mut options = server.options();
    options.host = "::1".to_owned();
    check_trains(&mut Session::connect(&options).unwrap());
}

#[test]
fn trains_that_cannot_be_sent_are_refused_here() {
    let server = Running::start(config());
    let mut session = Session::connect(&server.options()).unwrap();
    for train in [
        Train { hidden: 1, hops: 0 },
        Train { hidden: 1, hops: MAX_HOPS + 1 },
        Train { hidden: Train::MAX_HIDDEN + 1, hops: 1 },
    ] {
        let refused = session.send_trains(&schedule(train, 2), false);
        assert!(matches!(refused, Err(NetError::BadStream(_))), "{train:?}");
    }
    let mut unequal = schedule(Train::PAIR, 3);
    unequal.gaps.pop();
    assert!(matches!(session.send_trains(&unequal, false), Err(NetError::BadStream(_))));
}

#[test]
fn a_server_sends_no_hidden_packets_and_checks_the_hops_of_others() {
    let server = Running::start(config());
    let mut raw = Raw::open(server.port);
    let gaps = || GapRuns::encode(&[Duration::ZERO; 3]);
    let refused = Message::Refused(RefusedBy::HiddenPackets);
    let hops = HopRuns::encode(&[0, 2, 2, 0]);
    let reverse = stream_of_200(0, Direction::Reverse, gaps(), hops.clone());
    assert_eq!(raw.ask(&Message::Announce(reverse)), refused);
    for hops in [&[0, 2, 0][..], &[0, 2, 2, 2, 0], &[0, MAX_HOPS + 1, 2, 0]] {
        let stream = stream_of_200(0, Direction::Forward, gaps(), HopRuns::encode(hops));
        assert_eq!(raw.ask(&Message::Announce(stream)), refused, "{hops:?}");
    }
    let forward = stream_of_200(0, Direction::Forward, gaps(), hops);
    assert_eq!(raw.ask(&Message::Announce(forward)), Message::Ready { stream: 0 });
}

#[test]
fn hidden_packets_are_counted_apart_and_never_lost() {
    let server = Running::start(config());
    let mut raw = Raw::open(server.port);
    let hops = HopRuns::encode(&[0, 2, 2, 0, 0, 0]);
    let gaps = GapRuns::encode(&[Duration::ZERO; 5]);
    raw.ask(&Message::Announce(stream_of_200(7, Direction::Forward, gaps, hops)));
    for (index, role) in [
        (0, Role::First),
        // Hidden packets in roles they do not have, and the other way round, are malformed.
        (1, Role::First),
        (3, Role::Hidden),
        (2, Role::Hidden),
        (2, Role::Hidden),
        (4, Role::First),
        (4, Role::First),
        (5, Role::Last),
    ] {
        let header = raw.header(7, index, 6, role);
        raw.probe_with(&header);
    }
    let Message::Report(report) = raw.ask(&Message::End { stream: 7, grace_ns: 50_000_000 }) else {
        panic!("no report");
    };
    assert_eq!((report.lost, report.hidden_seen, report.duplicates), (vec![3], vec![2], 1));
    assert_eq!(report.times.decode(3).map(|times| times.len()), Some(3));
    let counts = server.handle.counts();
    assert_eq!((counts.datagrams_malformed, counts.datagrams_replayed), (2, 2));
    assert_eq!((counts.packets_received, counts.hidden_received), (3, 1));
}

#[test]
fn trains_pass_an_address_translation_that_loses_doubles_and_swaps_packets() {
    let server = Running::start(config());
    // The server sees the address and port of the relay, as behind NAT.
    let relay = Relay::start(server.port, |_, datagram| match Header::parse(datagram) {
        Ok(header) if header.kind != Kind::Probe => Fate::Pass,
        Ok(header) => match header.index {
            2 => Fate::Drop,
            4 | 7 => Fate::Twice,
            10 => Fate::Swap,
            _ => Fate::Pass,
        },
        Err(_) => Fate::Pass,
    });
    let options = ConnectOptions { port: relay.port, ..server.options() };
    let mut session = Session::connect(&options).unwrap();
    let outcome = session.send_trains(&schedule(Train::PAIR, 8), false).unwrap();
    let fates: Vec<(bool, bool)> =
        outcome.trains.iter().map(|pair| (pair.is_lost(), pair.is_reordered())).collect();
    let mut expected = [(false, false); 8];
    expected[1] = (true, false);
    expected[5] = (false, true);
    assert_eq!((fates, outcome.duplicates), (expected.to_vec(), 2));
}
