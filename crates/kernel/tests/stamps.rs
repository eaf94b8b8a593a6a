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

use acks::{Log, Segment, lose, treat};
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

/// So often is a quarter of a megabyte transferred at least: a slow machine may take longer for
/// a thousand segments.
const LEAST_ROUNDS: u32 = 12;

/// Loads a receiver at a host. Prints the reason and returns `None` if the kernel or its
/// cgroups do not allow that.
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
        let (began, mut rounds) = (Instant::now(), 0);
        while began.elapsed() < LONG || rounds < LEAST_ROUNDS {
            transfer(socket, peer, MEGABYTE / 4);
            rounds += 1;
        }
        self.counters()
    }

    fn counters(&self) -> RapidCounters {
        self.loaded.rapid_counters().unwrap()
    }
}

/// When the segments of a log first arrived, in us, by their ends.
fn arrivals(log: &[Segment]) -> HashMap<u32, u32> {
    let mut arrivals = HashMap::new();
    for segment in log.iter().filter(|segment| !segment.leaves() && segment.payload > 0) {
        arrivals.entry(segment.end()).or_insert(segment.time_us());
    }
    arrivals
}

/// Returns what ACKs tell, after a check that each tells a time between the arrival of its segment and its
/// own departure, on a clock that began at any time.
fn told(log: &[Segment]) -> Vec<u32> {
    let arrived = arrivals(log);
    let mut told = Vec::new();
    let mut times = Vec::new();
    for ack in log.iter().filter(|segment| segment.leaves() && segment.payload == 0) {
        let Some(arrival) = ack.arrival().filter(|arrival| *arrival > 0) else { continue };
        let end = ack.last_out_of_order().unwrap_or(ack.acknowledgement());
        let Some(earliest) = arrived.get(&end) else { continue };
        told.push(arrival);
        times.push((*earliest, arrival, ack.time_us()));
    }
    let Some((begin, first, _)) = times.first() else { return told };
    let clock = first.wrapping_sub(*begin);
    // How much later than that the clock began at least, and at most.
    let since = |told: u32, time: u32| told.wrapping_sub(time).wrapping_sub(clock) as i32;
    let least = times.iter().map(|(_, told, left)| since(*told, *left)).max();
    let most = times.iter().map(|(arrived, told, _)| since(*told, *arrived)).min();
    assert!(least <= most, "{least:?} {most:?}");
    told
}

/// rapid F19 and F20: in whole microseconds, before the ACK is made, and never in the handshake.
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
    let told = told(&segments);
    let answers = segments.iter().filter(|segment| segment.leaves() && segment.is_syn());
    assert!(answers.clone().count() == 2 && answers.clone().all(|syn| syn.arrival().is_none()));
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

#[test]
fn losses_and_connections_without_timestamps_change_no_arrival() {
    let Some(path) = Path::new() else { return };
    let Some(receiver) = receiver(&path.server, None, None) else { return };
    let _box = path.server.run(lose);
    path.server.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_comp_sack_nr", "0").unwrap());
    for timestamps in ["1", "0"] {
        path.server.run(move || std::fs::write("/proc/sys/net/ipv4/tcp_timestamps", timestamps).unwrap());
        let sender = Sender::new(&path);
        let log = Log::new(&path.server);
        let (socket, mut peer) = path.connect_to(V4[1], &sender.name, "reno");
        // Every loss lowers the rate, so that twice as much would take ten times as long.
        transfer(&socket, &mut peer, 3 * MEGABYTE / 2);
        close(&socket, peer);
        let (counted, segments) = (sender.counters(), log.read());
        assert!(told(&segments).len() > 200 && counted.losses > 0, "{counted:?}");
        let sacks = segments.iter().filter(|segment| segment.last_out_of_order().is_some());
        assert!(sacks.filter(|ack| ack.arrival().is_some_and(|arrival| arrival > 0)).count() > 0);
        assert_eq!((counted.by_driver, counted.refused_options), (1, 0), "{counted:?}");
    }
    // Three blocks and timestamps leave no room.
    let counted = receiver.counters().unwrap();
    assert!(counted.missed + counted.without_room < counted.stamped / 10, "{counted:?}");
}

/// rapid F22: stamps wrap after 2^32 us.
#[test]
fn stamps_wrap_without_an_effect() {
    let Some(path) = Path::new() else { return };
    let Some(_receiver) = receiver(&path.server, None, None) else { return };
    let _box = path.server.run(|| treat("shift"));
    let sender = Sender::new(&path);
    let (socket, mut peer) = path.connect_to(V4[1], &sender.name, "reno");
    let wrapped = sender.go_on(&socket, &mut peer);
    let counted = sender.go_on(&socket, &mut peer);
    assert_eq!((counted.by_driver, counted.refused_options, counted.timeouts), (1, 0, 0), "{counted:?}");
    // How many streams are refused depends on what else the machine does.
    assert!(wrapped.moved == 0 && counted.moved == 0, "{counted:?}");
    assert!(counted.estimated > wrapped.estimated && wrapped.estimated > 0, "{wrapped:?} {counted:?}");
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

/// How many packets are forged: as many as `HEADWAY_CASES` says.
fn cases() -> u64 {
    std::env::var("HEADWAY_CASES").map_or(20_000, |cases| cases.parse().unwrap())
}

/// The ports of a connection: of the client, of the server.
fn ports(socket: &Socket) -> [u16; 2] {
    [socket.local_addr(), socket.peer_addr()].map(|address| address.unwrap().as_socket().unwrap().port())
}

#[test]
fn forged_segments_are_counted_and_change_no_ack() {
    let Some(path) = Path::new() else { return };
    let Some(receiver) = receiver(&path.server, None, None) else { return };
    let sender = Sender::new(&path);
    let (socket, mut peer) = path.connect_to(V4[1], &sender.name, "reno");
    transfer(&socket, &mut peer, MEGABYTE / 10);
    let ports = ports(&socket);
    path.client.run(move || forge(V4[1], ports, |random| (0..80).map(|_| random.random()).collect()));
    let log = Log::new(&path.server);
    sender.go_on(&socket, &mut peer);
    let counted = receiver.counters().unwrap();
    assert!(counted.strange > cases() / 10 && counted.connections == 1, "{counted:?}");
    assert!(log.read().iter().filter(|segment| segment.leaves()).all(Segment::is_well_formed));
    let counters = sender.counters();
    assert_eq!((counters.by_driver, counters.refused_options, counters.timeouts), (1, 0, 0), "{counters:?}");
}

#[test]
fn acks_with_forged_options_change_no_sender() {
    let Some(path) = Path::new() else { return };
    let Some(_receiver) = receiver(&path.server, None, None) else { return };
    let sender = Sender::new(&path);
    let (socket, mut peer) = path.connect_to(V4[1], &sender.name, "reno");
    let log = Log::new(&path.server);
    sender.go_on(&socket, &mut peer);
    let segments = log.read();
    let last = *segments.iter().rfind(|segment| segment.leaves()).unwrap();
    let [client, server] = ports(&socket);
    // The peer's latest ACK again, with up to three bytes of its option changed and anything behind.
    path.server.run(move || {
        forge(V4[0], [server, client], |random| {
            // TCP itself believes forged timestamps, whose kind is 8.
            let mut byte = || Some(random.random::<u8>()).filter(|byte| *byte != 8).unwrap_or(9);
            let more: Vec<u8> = (0..usize::from(byte()) % 8 * 4 + 4).map(|_| byte()).collect();
            let mut segment = [&last.repeated()[..], &acks::OPTION, &more].concat();
            (0..byte() % 4).for_each(|_| segment[20 + usize::from(byte()) % 8] = byte());
            segment[12] = (segment.len() as u8 / 4) << 4;
            segment
        });
    });
    let counted = sender.go_on(&socket, &mut peer);
    assert_eq!((counted.by_driver, counted.refused_options, counted.timeouts), (1, 0, 0), "{counted:?}");
}

/// Sends segments to a host, from and to these ports.
fn forge(to: &str, ports: [u16; 2], mut segment: impl FnMut(&mut Pcg64Mcg) -> Vec<u8>) {
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_TCP))).unwrap();
    let to = SockAddr::from(std::net::SocketAddr::new(to.parse().unwrap(), 0));
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for _ in 0..cases() {
        let mut segment = segment(&mut random);
        segment[..4].copy_from_slice(&[ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat());
        // Neither the beginning of a connection nor its end.
        segment[13] &= 0xf8;
        if random.random_bool(0.9) {
            segment[16..18].fill(0);
            let sum = checksum(&segment);
            segment[16..18].copy_from_slice(&sum.to_be_bytes());
        }
        // Where the host is busy, it drops them.
        let _ = raw.send_to(&segment, &to);
    }
}

/// The checksum of a segment between client and server (RFC 9293, section 3.1).
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
