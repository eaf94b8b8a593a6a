//! TCP Rapid with a receiver whose ACKs tell when segments arrived: connections between network namespaces.
//!
//! Where the machine does not allow namespaces or BPF controllers, each test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod acks;
#[allow(dead_code, reason = "other tests use all of it")]
mod path;

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use acks::{Log, Segment, treat};
use headway_arithmetic::rapid::{Config, Preset};
use headway_kernel::{
    Attached, Controller, Error, Loaded, Loader, Namespace, RapidCounters, RapidOptions, StampOptions,
    StampReceiver,
};
use path::{Host, MEGABYTE, Path, V4, V6, attach, close, load, transfer};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// The rate of the senders, b/s: what these hosts can pace.
const LINE: u64 = 100_000_000;
/// So long lasts a transfer in which senders find out what stamps are good for, and then use them.
const LONG: Duration = Duration::from_millis(700);

/// Loads a receiver at a host. Prints the reason and returns `None` if the kernel or its cgroups do not allow that.
fn receiver(host: &Host, port: Option<u16>, to: Option<&str>) -> Option<StampReceiver> {
    let to = to.map(|to| to.parse().unwrap());
    let loaded = host
        .run(move || StampReceiver::load(&StampOptions { namespace: Namespace::here().unwrap(), port, to }));
    match loaded {
        Err(reason @ Error::NoCgroup(_)) => {
            println!("SKIPPED: {reason}");
            None
        }
        loaded => Some(loaded.unwrap_or_else(|error| panic!("{error}: {error:?}"))),
    }
}

/// A sender at the client.
struct Sender {
    loaded: Arc<Loaded>,
    name: String,
    _attached: Attached,
}

impl Sender {
    fn new(path: &Path) -> Sender {
        let config = Config { unit: 1_000, ..Config::new(Preset::Default, LINE, 1538, LINE) };
        let options = RapidOptions { config, bridges_holes: true };
        let (loaded, name) = load(Loader::new(Controller::Rapid).rapid_options(options));
        let loaded = Arc::new(loaded);
        let attached = attach(&loaded, &path.client);
        Sender { loaded, name, _attached: attached }
    }

    /// Transfers data for some time over a new connection.
    fn run(&self, path: &Path, to: &str) -> RapidCounters {
        let (socket, mut peer) = path.connect_to(to, &self.name, "reno");
        self.go_on(&socket, &mut peer);
        close(&socket, peer);
        self.counters()
    }

    fn go_on(&self, socket: &Socket, peer: &mut TcpStream) -> RapidCounters {
        let began = Instant::now();
        while began.elapsed() < LONG {
            transfer(socket, peer, MEGABYTE / 4);
        }
        self.counters()
    }

    fn counters(&self) -> RapidCounters {
        self.loaded.rapid_counters().unwrap()
    }
}

/// What the segments of a log carried: their end, and when they arrived, in us.
fn arrivals(log: &[Segment]) -> HashMap<u32, u32> {
    let data = log.iter().filter(|segment| !segment.leaves() && segment.payload > 0);
    data.map(|segment| (segment.end(), segment.time_us())).collect()
}

/// rapid F19 and F20: an ACK tells a time between the arrival of its segment and its own departure, in whole microseconds.
#[test]
fn acks_tell_when_the_segment_arrived_that_caused_them() {
    let Some(path) = Path::new() else { return };
    let Some(receiver) = receiver(&path.server, None, None) else { return };
    let sender = Sender::new(&path);
    let log = Log::new(&path.server);
    for to in [V4[1], V6[1]] {
        sender.run(&path, to);
    }
    let segments = log.read();
    let arrived = arrivals(&segments);
    let acks = || segments.iter().filter(|segment| segment.leaves() && segment.payload == 0);
    let mut told = Vec::new();
    for ack in acks().filter(|ack| !ack.is_syn()) {
        let Some(arrival) = ack.arrival().filter(|arrival| *arrival > 0) else { continue };
        let Some(earliest) = arrived.get(&ack.acknowledgement()) else { continue };
        let behind = |later: u32, earlier: u32| (later.wrapping_sub(earlier) as i32) >= 0;
        assert!(behind(arrival, *earliest) && behind(ack.time_us(), arrival), "{ack:?} {earliest}");
        told.push(arrival);
    }
    assert!(acks().filter(|ack| ack.is_syn()).count() == 2, "both connections were seen from their start");
    assert!(acks().all(|ack| !ack.is_syn() || ack.arrival().is_none()));
    // All but the first of a connection and the last, which acknowledge no data.
    let counted = receiver.counters().unwrap();
    assert!(
        told.len() > 500 && counted.missed <= 4 && counted.without_room == 0,
        "{} {counted:?}",
        told.len()
    );
    assert_eq!((counted.connections, counted.strange), (2, 0));
    // The clock has no coarser steps: all last digits occur.
    assert!((0..10).all(|digit| told.iter().any(|told| told % 10 == digit)));
    let counters = sender.counters();
    assert_eq!((counters.by_driver, counters.unstamped), (2, 0), "{counters:?}");
    assert!(counters.estimated > 10, "{counters:?}");
}

/// rapid F22: stamps wrap after 2^32 us.
#[test]
fn stamps_wrap_without_an_effect() {
    let Some(path) = Path::new() else { return };
    let Some(_receiver) = receiver(&path.server, None, None) else { return };
    let _box = path.server.run(|| treat("shift"));
    let sender = Sender::new(&path);
    let counted = sender.run(&path, V4[1]);
    assert_eq!((counted.by_driver, counted.refused_options, counted.timeouts), (1, 0, 0), "{counted:?}");
    assert!(counted.estimated > 10 * counted.refused, "{counted:?}");
}

/// rapid F21 and F23: what is no arrival is none, and TCP's own timestamps are as they were.
#[test]
fn stamps_that_make_no_sense_are_not_believed() {
    let Some(path) = Path::new() else { return };
    let Some(_receiver) = receiver(&path.server, None, None) else { return };
    for (how, refused) in [("freeze", 1), ("blank", 0)] {
        let treated = path.server.run(move || treat(how));
        let sender = Sender::new(&path);
        let counted = sender.run(&path, V6[1]);
        assert_eq!((counted.by_driver, counted.refused_options), (0, refused), "{how}: {counted:?}");
        assert_eq!((counted.unstamped, counted.timeouts), (1, 0), "{how}: {counted:?}");
        assert!(counted.estimated > 0, "{how}: {counted:?}");
        drop(treated);
    }
    let _box = path.server.run(|| treat("garble"));
    let sender = Sender::new(&path);
    let counted = sender.run(&path, V4[1]);
    assert!(counted.probes > 1_000 && counted.timeouts == 0, "{counted:?}");
    assert_eq!(path.client.run(|| counter("TcpExt", "PAWSEstab")), 0);
}

/// A counter of this network namespace.
fn counter(table: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let found = names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name);
    found.unwrap().1.parse().unwrap()
}

#[test]
fn a_connection_goes_on_when_stamps_end_and_takes_them_when_they_begin() {
    let Some(path) = Path::new() else { return };
    let Some(there) = receiver(&path.server, None, None) else { return };
    let sender = Sender::new(&path);
    let (socket, mut peer) = path.connect_to(V4[1], &sender.name, "reno");
    assert_eq!(sender.go_on(&socket, &mut peer).by_driver, 1);
    // Its programs are gone, as after a kill.
    drop(there);
    let counted = sender.go_on(&socket, &mut peer);
    assert_eq!((counted.by_driver, counted.unstamped, counted.timeouts), (1, 1, 0), "{counted:?}");
    // The path has a box that strips them, and later it has none.
    let _there = receiver(&path.server, None, None);
    let stripped = path.server.run(|| treat("blank"));
    let (socket, mut peer) = path.connect_to(V4[1], &sender.name, "reno");
    assert_eq!(sender.go_on(&socket, &mut peer).by_driver, 1);
    drop(stripped);
    assert_eq!(sender.go_on(&socket, &mut peer).by_driver, 2);
}

#[test]
fn only_connections_that_were_chosen_are_stamped() {
    let Some(path) = Path::new() else { return };
    let connections = |port, to, addresses: [&str; 2]| {
        let receiver = receiver(&path.server, port, to)?;
        for address in addresses {
            let (socket, mut peer) = path.connect_to(address, "reno", "reno");
            transfer(&socket, &mut peer, MEGABYTE);
            close(&socket, peer);
        }
        let counted = receiver.counters().unwrap();
        assert_eq!(counted.stamped > 0, counted.connections > 0, "{counted:?}");
        Some(counted.connections)
    };
    let both = [V4[1], V6[1]];
    let Some(2) = connections(None, None, both) else { return };
    assert_eq!(connections(None, Some("10.78.0.0/24"), both), Some(1));
    assert_eq!(connections(None, Some("10.79.0.0/24"), both), Some(0));
    assert_eq!(connections(None, Some("fd78::1"), both), Some(1));
    assert_eq!(connections(None, Some("fd78::2"), both), Some(0));
    assert_eq!(connections(None, Some("0.0.0.0/0"), both), Some(1));
    // Ports are chosen by the kernel above 1.
    assert_eq!(connections(Some(1), None, both), Some(0));
    // A receiver in the other network namespace.
    let elsewhere = receiver(&path.client, None, Some("10.78.0.1")).unwrap();
    let (socket, mut peer) = path.connect_to(V4[1], "reno", "reno");
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!(elsewhere.counters().unwrap().connections, 0);
}

/// `HEADWAY_CASES` says how many packets there are.
#[test]
fn forged_segments_are_counted_and_change_no_ack() {
    let Some(path) = Path::new() else { return };
    let Some(receiver) = receiver(&path.server, None, None) else { return };
    let sender = Sender::new(&path);
    let (socket, mut peer) = path.connect_to(V4[1], &sender.name, "reno");
    transfer(&socket, &mut peer, MEGABYTE / 10);
    let ports =
        [socket.local_addr(), socket.peer_addr()].map(|address| address.unwrap().as_socket().unwrap().port());
    let cases: u64 = std::env::var("HEADWAY_CASES").map_or(20_000, |cases| cases.parse().unwrap());
    path.client.run(move || forge(ports, cases));
    let log = Log::new(&path.server);
    sender.go_on(&socket, &mut peer);
    let counted = receiver.counters().unwrap();
    assert!(counted.strange > cases / 10 && counted.connections == 1, "{counted:?}");
    assert!(log.read().iter().filter(|segment| segment.leaves()).all(Segment::is_well_formed));
    let counters = sender.counters();
    assert_eq!((counters.by_driver, counters.refused_options, counters.timeouts), (1, 0, 0), "{counters:?}");
}

/// Sends segments from the client to the server with anything behind their ports.
fn forge(ports: [u16; 2], cases: u64) {
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_TCP))).unwrap();
    let server = SockAddr::from(std::net::SocketAddr::new(V4[1].parse().unwrap(), 0));
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for _ in 0..cases {
        let mut segment: Vec<u8> = (0..random.random_range(20..100)).map(|_| random.random()).collect();
        segment[..4].copy_from_slice(&[ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat());
        if random.random_bool(0.5) {
            segment[12] = 0x50;
        }
        // Neither the beginning of a connection nor its end.
        segment[13] = random.random::<u8>() & 0xf8;
        if random.random_bool(0.9) {
            segment[16..18].fill(0);
            let sum = checksum(&segment);
            segment[16..18].copy_from_slice(&sum.to_be_bytes());
        }
        // Where the server is busy, it drops them.
        let _ = raw.send_to(&segment, &server);
    }
}

/// The checksum of a segment from the client to the server (RFC 9293, section 3.1).
fn checksum(segment: &[u8]) -> u16 {
    let mut bytes: Vec<u8> = V4.iter().flat_map(|text| text.parse::<Ipv4Addr>().unwrap().octets()).collect();
    bytes.extend([0, libc::IPPROTO_TCP as u8]);
    bytes.extend((segment.len() as u16).to_be_bytes());
    bytes.extend(segment);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let words = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
