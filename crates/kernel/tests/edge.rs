//! The programs of a middlebox in the running kernel, between a client and a server of Linux.
//!
//! Where the machine does not allow namespaces or BPF, each test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod arrival;
#[allow(dead_code, reason = "other tests use all of it")]
mod path;
#[allow(dead_code, reason = "tests of the arithmetic use all of it")]
#[path = "../../arithmetic/tests/flow/support.rs"]
mod support;
mod watched;

use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use arrival::Arrival;
use headway_arithmetic::flow::{Framing, Rule, Rules, flag};
use headway_edge::{Limits, Middlebox, Policy};
use headway_kernel::{Edge, EdgeInterface, EdgeOptions, Event, MOST_CLASSES, Shares};
use headway_units::{Instant, Rate};
use path::{Info, MEGABYTE, ROUTED_V4, ROUTED_V6, Routed, close, transfer};
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use socket2::Socket;
use support::{Segment, scaled, stamps};

/// The largest segment of a connection over IPv4, without options and with timestamps in each.
const MSS: u32 = 1460;
const PAYLOAD: u32 = 1448;

/// A class of all connections.
fn all() -> Rules {
    let mut rules = Rules::default();
    assert!(rules.push(Rule::any(0)));
    rules
}

/// Any connection may have `share` towards each side.
fn shares(share: u64) -> Shares {
    [[share; MOST_CLASSES]; 2]
}

/// Tables that are soon made.
const SMALL: EdgeOptions =
    EdgeOptions { no_shrink: false, dry_run: false, follow_rtt: true, splits: false, connections: 1_024 };

/// So little that two segments are more.
const HARDLY_ANY: u64 = 1;

fn start(path: &Routed, options: EdgeOptions) -> Arc<Edge> {
    let started = path.router.run(move || {
        let [lan, wan] = ["lan", "wan"].map(|name| EdgeInterface::find(name).unwrap());
        Edge::start([&lan, &wan], &options, &all())
    });
    Arc::new(started.unwrap_or_else(|error| panic!("{error}: {error:?}")))
}

/// Sends from the server to the client, and returns what the server knows then.
fn download(socket: &Socket, peer: &TcpStream, bytes: usize) -> Info {
    let server = Socket::from(peer.try_clone().unwrap());
    let mut client = TcpStream::from(socket.try_clone().unwrap());
    client.set_read_timeout(Some(path::TIMEOUT)).unwrap();
    transfer(&server, &mut client, bytes);
    Info::of(&server)
}

#[test]
fn both_ends_see_windows_of_two_segments_and_then_what_their_peers_tell() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, SMALL);
    for (client, server) in
        ROUTED_V4.into_iter().zip(ROUTED_V4.into_iter().skip(1)).chain([(ROUTED_V6[0], ROUTED_V6[1])])
    {
        edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
        let (socket, mut peer) = path.connect(server);
        let least = 2 * MSS - 40 * u32::from(client.contains(':'));
        // Again and again, because on a busy machine each step may take seconds.
        edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
        transfer(&socket, &mut peer, MEGABYTE / 10);
        let up = Info::of(&socket);
        edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
        let down = download(&socket, &peer, MEGABYTE / 10);
        for info in [&up, &down] {
            assert_eq!(info.receive_window, least.next_multiple_of(info.receive_unit), "{info:?}");
        }
        edge.say(&shares(0), 0, 0).unwrap();
        transfer(&socket, &mut peer, MEGABYTE);
        assert!(Info::of(&socket).receive_window > 20 * PAYLOAD);
        close(&socket, peer);
    }
    let counted = edge.counters().unwrap();
    assert_eq!((counted.begun, counted.unlimited, counted.without_class), (2, 0, 0), "{counted:?}");
    assert_eq!((counted.failed, counted.malformed, counted.unattended), (0, 0, 0), "{counted:?}");
    assert!(counted.lowered > 0 && counted.lowered < counted.tracked, "{counted:?}");
}

#[test]
fn connections_are_reported_when_they_begin_and_end() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, SMALL);
    let (socket, mut peer) = path.connect(ROUTED_V4[1]);
    transfer(&socket, &mut peer, 1000);
    let ports = [socket.local_addr().unwrap().as_socket().unwrap().port(), peer.local_addr().unwrap().port()];
    let connections = edge.connections().unwrap();
    let (key, connection) = connections.first().unwrap();
    let flow = &connection.flow;
    assert_eq!((connections.len(), flow.segment()), (1, MSS as u16));
    let client = flow.client();
    assert_eq!([key.port(client), key.port(1 - client)], ports);
    assert_eq!(key.address(client).to_string(), ROUTED_V4[0]);
    assert!((1..1_000_000_000).contains(&flow.rtt().unwrap()), "{flow:?}");
    close(&socket, peer);
    drop(socket);
    let (ring, mut events) = (edge.events().unwrap(), Vec::new());
    while events.len() < 2 {
        events.append(&mut ring.wait(Duration::from_secs(1)).unwrap());
    }
    assert!(
        matches!(&events[..], [Event::Begun(begun, _), Event::Ended(ended, _)] if begun == key && ended == key)
    );
    assert!(edge.connections().unwrap().is_empty() && !edge.remove(key).unwrap());
}

#[test]
fn a_connection_that_is_older_than_the_programs_is_left_alone() {
    let Some(path) = Routed::new() else { return };
    let (socket, mut peer) = path.connect(ROUTED_V4[1]);
    transfer(&socket, &mut peer, 1000);
    let edge = start(&path, SMALL);
    edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
    transfer(&socket, &mut peer, MEGABYTE);
    assert!(Info::of(&socket).receive_window > 20 * PAYLOAD);
    let counted = edge.counters().unwrap();
    assert!(counted.segments > 0 && counted.tracked == 0 && counted.lowered == 0, "{counted:?}");
}

#[test]
fn without_a_word_of_the_process_and_in_a_dry_run_windows_pass() {
    let Some(path) = Routed::new() else { return };
    for dry_run in [false, true] {
        let edge = start(&path, EdgeOptions { dry_run, ..SMALL });
        if dry_run {
            edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
        }
        let (socket, mut peer) = path.connect(ROUTED_V4[1]);
        transfer(&socket, &mut peer, MEGABYTE);
        assert!(Info::of(&socket).receive_window > 20 * PAYLOAD);
        let counted = edge.counters().unwrap();
        assert_eq!((counted.lowered > 0, counted.unattended > 0), (dry_run, !dry_run), "{counted:?}");
    }
}

#[test]
fn only_one_process_is_the_edge_of_a_namespace() {
    let Some(path) = Routed::new() else { return };
    path.router.run(|| {
        let [lan, wan] = ["lan", "wan"].map(|name| EdgeInterface::find(name).unwrap());
        let instance = headway_kernel::EdgeInstance::begin(&lan, &wan).unwrap();
        let refusal = headway_kernel::EdgeInstance::begin(&lan, &wan).unwrap_err().to_string();
        assert!(refusal.contains("between lan and wan"), "{refusal}");
        drop(instance);
        headway_kernel::EdgeInstance::begin(&lan, &wan).unwrap();
        let unknown = EdgeInterface::find("nothing").unwrap_err().to_string();
        assert!(unknown.contains("nothing") && unknown.contains("ip link"), "{unknown}");
    });
}

/// A frame of one of a few connections, at any moment of its life, and the side where it arrives.
fn frame(random: &mut impl Rng) -> (Vec<u8>, u8) {
    let host = |last: u8, v6| match v6 {
        false => IpAddr::from([10, 0, 0, last]),
        true => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
    };
    let (v6, client, back) = (random.random(), random.random_range(1..9), random.random_bool(0.4));
    let ends = [(host(client, v6), 1000), (host(200, v6), 443)];
    let (source, destination) = if back { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
    let syn = if back { flag::SYN | flag::ACK } else { flag::SYN };
    let kind = match random.random_range(0..40) {
        0..8 => syn,
        8 => flag::ACK | flag::FIN,
        9 => flag::RST,
        10 => random.random(),
        _ => flag::ACK,
    };
    let mut segment = Segment::new(source, destination, kind);
    if kind == syn && random.random_bool(0.95) {
        segment.options = scaled(if random.random_bool(0.05) { random.random_range(0..16) } else { client });
    }
    // Near those of the handshake, so that many belong together.
    let start = if back { 5000 } else { 1000 };
    segment.sequence = start + u32::from(kind != syn);
    segment.acknowledgement = 6001 - start;
    segment.window = random.random();
    if kind & flag::SYN == 0 && random.random_bool(0.5) {
        segment.options = stamps([random.random_range(0..50), random.random_range(0..50)]);
    }
    segment.data = vec![7; random.random_range(0..40)];
    segment.tags = vec![0x8100; usize::from(random.random_bool(0.2))];
    let mut frame = segment.ethernet();
    if random.random_bool(0.3) {
        for _ in 0..random.random_range(1..4) {
            let place = random.random_range(12..frame.len());
            frame[place] = random.random();
        }
    }
    if random.random_bool(0.1) {
        // The kernel runs no program on less than a header of IP.
        frame.truncate(random.random_range(54..=frame.len()));
    }
    (frame, u8::from(back) ^ u8::from(random.random_bool(0.02)))
}

/// Returns how many cases a test has, which `HEADWAY_CASES` may say.
fn cases(default: u64) -> u64 {
    std::env::var("HEADWAY_CASES").map_or(default, |cases| cases.parse().unwrap())
}

#[test]
fn random_and_mutated_frames_fare_as_in_the_model() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, EdgeOptions::default());
    let arrivals = Arrival::of(&edge, path.router.run(|| EdgeInterface::find("wan").unwrap().index));
    // With hardly any rate all windows are two segments, so the time of a packet does not matter.
    let mut model = Middlebox::new(&Policy::default(), [Rate::from_bps(1); 2], Limits::default());
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for case in 0..cases(50_000) {
        if case % 1_000 == 0 {
            edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
        }
        let (mut left, side) = frame(&mut random);
        let mut expected = left.clone();
        model.on_bytes(&mut expected, Framing::Ethernet, side, Instant::from_ns(case * 1_000));
        arrivals[usize::from(side)].of_frame(&mut left);
        assert_eq!(left, expected, "case {case}");
    }
    let (counted, modelled) = (edge.counters().unwrap(), model.counts());
    let seen = [counted.segments, counted.fragments, counted.tunnels, counted.malformed];
    assert_eq!(seen, [modelled.segments, modelled.fragments, modelled.tunnels, modelled.malformed]);
    // The hosts look for routers now and then.
    assert!((modelled.other..modelled.other + 100).contains(&counted.other), "{counted:?}, {modelled:?}");
    let lives = (counted.begun, counted.ended, counted.unlimited, counted.lowered);
    assert_eq!(lives, (modelled.begun, modelled.ended, modelled.unlimited, modelled.lowered));
    // Simultaneous opens leave more and more of the few pairs of ends alone.
    assert!(counted.begun > 300 && counted.lowered > 2_000, "{counted:?}");
}

/// The three segments of a handshake of a client with this number.
fn handshake(number: u32) -> [(Vec<u8>, usize); 3] {
    let client = (IpAddr::from((0x0a01_0000 + number).to_be_bytes()), 1000);
    let server = (IpAddr::from([10, 9, 9, 9]), 443);
    let segment = |from: (IpAddr, u16), to, flags, sequence, acknowledgement| {
        let mut segment = Segment { sequence, acknowledgement, ..Segment::new(from, to, flags) };
        if flags & flag::SYN != 0 {
            segment.options = scaled(7);
        }
        segment.ethernet()
    };
    [
        (segment(client, server, flag::SYN, 1000, 0), 0),
        (segment(server, client, flag::SYN | flag::ACK, 5000, 1001), 1),
        (segment(client, server, flag::ACK, 1001, 5001), 0),
    ]
}

#[test]
fn floods_take_no_limit_away_and_what_has_no_room_passes() {
    let Some(path) = Routed::new() else { return };
    let edge = start(&path, EdgeOptions { connections: 64, ..SMALL });
    let arrivals = Arrival::of(&edge, path.router.run(|| EdgeInterface::find("wan").unwrap().index));
    let arrive = |(mut frame, side): (Vec<u8>, usize)| {
        let before = frame.clone();
        arrivals[side].of_frame(&mut frame);
        frame != before
    };
    edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
    let mut held = 0;
    for number in 0..100 {
        let [syn, answer, third] = handshake(number);
        arrive(syn);
        arrive(answer);
        held += u64::from(arrive(third));
    }
    let counted = edge.counters().unwrap();
    assert_eq!((held, counted.begun, counted.without_room), (64, 64, 36), "{counted:?}");
    // SYNs of as many hosts as there are, and handshakes that remain incomplete.
    for number in 1_000..1_000 + cases(20_000) as u32 {
        let [syn, answer, _] = handshake(number);
        arrive(syn);
        if number % 2 == 0 {
            arrive(answer);
        }
    }
    edge.say(&shares(HARDLY_ANY), 0, 0).unwrap();
    assert!((0..64).all(|number| {
        let [_, _, later] = handshake(number);
        arrive(later)
    }));
    assert_eq!(edge.connections().unwrap().len(), 64);
    // Who leaves makes room.
    let (key, _) = edge.connections().unwrap().remove(0);
    assert!(edge.remove(&key).unwrap());
    let [syn, answer, third] = handshake(500);
    arrive(syn);
    arrive(answer);
    assert!(arrive(third));
}
