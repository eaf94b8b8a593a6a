//! XCP and RCP in the running kernel: connections between network namespaces whose packets carry
//! the congestion header.
//!
//! Where the machine does not allow namespaces or BPF controllers, each test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[allow(dead_code, reason = "other tests use all of it")]
mod flood;
#[allow(dead_code, reason = "other tests use all of it")]
mod path;

use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flood::{RATE, drop_headers, treat_at};
use headway_kernel::{Attached, Controller, EndCounters, Interface, Loaded, Loader};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Program, TC_EGRESS};
use path::{Host, Info, MEGABYTE, Path, V4, V6, WIRE, attach, close, controller_of, transfer};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Payload of a full segment: 1500 bytes without the headers of IP, congestion and TCP, and TCP's timestamps.
const SEGMENT: u32 = 1500 - 20 - 20 - 32;

/// A controller that is loaded, its programs at interfaces, and its name.
struct Ends {
    loaded: Arc<Loaded>,
    name: String,
    _attached: Vec<Attached>,
}

impl Ends {
    fn new(loader: &Loader, hosts: &[&Host], what: &str) -> Ends {
        let name = format!("t{}_{what}", std::process::id());
        let loaded = loader.clone().name(&name).load();
        let loaded = Arc::new(loaded.unwrap_or_else(|error| panic!("{error}: {error:?}")));
        let attached = hosts.iter().map(|host| attach(&loaded, host)).collect();
        Ends { loaded, name, _attached: attached }
    }

    /// Ends at both hosts of a path.
    fn both(controller: Controller, path: &Path, what: &str) -> Ends {
        Ends::new(&Loader::new(controller), &[&path.client, &path.server], what)
    }

    /// Connects to the server, which has the kernel's Reno.
    fn connect(&self, path: &Path) -> (Socket, TcpStream) {
        path.connect_to(V4[1], &self.name, "reno")
    }

    fn counters(&self) -> EndCounters {
        self.loaded.end_counters().unwrap()
    }
}

#[test]
fn without_a_router_data_passes_with_headers_until_the_sender_becomes_reno() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::Xcp, Controller::Rcp] {
        let ends = Ends::both(controller, &path, controller.command());
        for server in [V4[1], V6[1]] {
            let (socket, mut peer) = path.connect_to(server, &ends.name, "reno");
            transfer(&socket, &mut peer, 4 * MEGABYTE);
            assert_eq!(controller_of(&socket), "reno");
            close(&socket, peer);
        }
        let counted = ends.counters();
        // Then neither end answers the other's answers for ever.
        assert!(counted.sent < 2 * 300, "{counted:?}");
        assert_eq!((counted.connections, counted.without_router, counted.without_peer), (2, 2, 0));
        // Both ends of two connections heard the other.
        assert_eq!(counted.answered, 4, "{counted:?}");
        assert!(counted.sent > 4 && counted.sent == counted.received, "{counted:?}");
        assert_eq!((counted.too_large, counted.malformed, counted.unknown), (0, 0, 0), "{counted:?}");
    }
}

#[test]
fn a_sender_of_rcp_is_paced_at_the_rate_of_the_router() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_rate", TC_EGRESS));
    let ends = Ends::both(Controller::Rcp, &path, "rate");
    for (server, segment) in [(V4[1], SEGMENT), (V6[1], SEGMENT - 20)] {
        let sent = ends.counters().sent;
        let (socket, mut peer) = path.connect_to(server, &ends.name, "reno");
        transfer(&socket, &mut peer, MEGABYTE / 2);
        let info = Info::of(&socket);
        assert_eq!((controller_of(&socket), info.segment), (ends.name.clone(), segment));
        let payload = RATE * u64::from(segment) / WIRE;
        assert!(info.pacing_rate.abs_diff(payload) * 1000 <= payload, "{info:?}, not {payload}");
        // Every packet had room for the header.
        let counted = ends.counters();
        assert!(counted.sent - sent > (MEGABYTE / 2) as u64 / u64::from(segment), "{counted:?}");
        assert_eq!((counted.too_large, counted.timeouts), (0, 0));
    }
}

#[test]
fn a_sender_of_xcp_that_is_granted_nothing_keeps_one_segment_per_round_trip() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_nothing", TC_EGRESS));
    let ends = Ends::both(Controller::Xcp, &path, "nothing");
    let (socket, mut peer) = ends.connect(&path);
    transfer(&socket, &mut peer, MEGABYTE);
    let info = Info::of(&socket);
    // The kernel's window is rounded up; the pace is that of one.
    assert_eq!((controller_of(&socket), info.window), (ends.name.clone(), 2));
    assert!(info.pacing_rate < u64::MAX && ends.counters().without_router == 0, "{info:?}");
}

#[test]
fn a_peer_that_does_not_know_the_header_costs_no_timeout_and_the_next_connection_asks_again() {
    let Some(path) = Path::new() else { return };
    let ends = Ends::new(&Loader::new(Controller::Xcp), &[&path.client], "legacy");
    for asked in 1..=2 {
        let (socket, mut peer) = ends.connect(&path);
        transfer(&socket, &mut peer, MEGABYTE);
        assert_eq!(controller_of(&socket), "reno");
        let counted = ends.counters();
        assert_eq!((counted.without_peer, counted.sent, counted.timeouts), (asked, 2 * asked, 0));
        close(&socket, peer);
    }
}

#[test]
fn boxes_that_drop_headers_are_avoided_from_the_start_and_later() {
    let Some(path) = Path::new() else { return };
    let ends = Ends::both(Controller::Xcp, &path, "box");
    path.client.run(|| treat_at("grant_nothing", TC_EGRESS));
    let (socket, mut peer) = ends.connect(&path);
    transfer(&socket, &mut peer, MEGABYTE / 10);
    assert_eq!(controller_of(&socket), ends.name);
    path.server.run(drop_headers);
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!((controller_of(&socket).as_str(), ends.counters().without_peer), ("reno", 1));

    let (socket, mut peer) = ends.connect(&path);
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!((controller_of(&socket).as_str(), ends.counters().without_peer), ("reno", 2));
}

#[test]
fn a_receiver_needs_no_controller() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_rate", TC_EGRESS));
    let sender = Ends::new(&Loader::new(Controller::Rcp), &[&path.client], "sender");
    let receiver = Ends::new(&Loader::new(Controller::Xcp).receives_only(true), &[&path.server], "receiver");
    let (socket, mut peer) = sender.connect(&path);
    transfer(&socket, &mut peer, MEGABYTE / 2);
    assert_eq!(controller_of(&socket), sender.name);
    assert!(!headway_kernel::available().unwrap().contains(&receiver.name));
    let counted = receiver.counters();
    assert_eq!((counted.connections, counted.answered), (0, 1), "{counted:?}");
}

/// Unloads the ends of a connection one after the other, `first` first, and transfers data after each.
fn data_goes_on_without(first: usize) {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_nothing", TC_EGRESS));
    let sender = Ends::new(&Loader::new(Controller::Xcp), &[&path.client], &format!("off{first}"));
    let (name, loader) = (sender.name.clone(), Loader::new(Controller::Xcp).receives_only(true));
    let receiver = Ends::new(&loader, &[&path.server], &format!("on{first}"));
    let (socket, mut peer) = path.connect_to(V4[1], &name, "reno");
    transfer(&socket, &mut peer, MEGABYTE / 10);
    assert_eq!(controller_of(&socket), name);
    let mut ends = [Some(sender), Some(receiver)];
    for end in [first, 1 - first] {
        ends[end] = None;
        let began = Instant::now();
        transfer(&socket, &mut peer, MEGABYTE);
        // Three timeouts until the sender does without; the first is 200 ms. With many more of them
        // it would be a minute.
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(controller_of(&socket), "reno");
    }
}

#[test]
fn data_goes_on_when_the_programs_of_the_sender_are_gone() {
    data_goes_on_without(0);
}

#[test]
fn data_goes_on_when_the_programs_of_the_receiver_are_gone() {
    data_goes_on_without(1);
}

/// A header with this length, version and format, and next protocol.
fn header(length: u8, version_format: u8, protocol: u8) -> Vec<u8> {
    let mut bytes = vec![0x55; 60];
    bytes[..3].copy_from_slice(&[protocol, length, version_format]);
    bytes
}

#[test]
fn bad_headers_are_counted_and_change_nothing() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_nothing", TC_EGRESS));
    let ends = Ends::both(Controller::Xcp, &path, "bad");
    let (socket, mut peer) = ends.connect(&path);
    transfer(&socket, &mut peer, MEGABYTE / 10);
    let before = (Info::of(&socket).window, ends.counters());
    let ports =
        [socket.local_addr(), socket.peer_addr()].map(|address| address.unwrap().as_socket().unwrap().port());
    path.client.run(move || {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(253))).unwrap();
        let server = SockAddr::from(std::net::SocketAddr::new(V4[1].parse().unwrap(), 0));
        let send = |bytes: &[u8]| assert_eq!(raw.send_to(bytes, &server).unwrap(), bytes.len());
        // Cut, of another length, a segment that is cut, and three fragments.
        (0..20).for_each(|bytes| send(&header(20, 0x21, 6)[..bytes]));
        (0..20).for_each(|length| send(&header(length, 0x21, 6)));
        send(&header(20, 0x21, 6)[..39]);
        send(&[0; 4000]);
        // Another version, another format, another protocol.
        (0..16)
            .filter(|version| ![2, 15].contains(version))
            .for_each(|version| send(&header(20, version << 4 | 1, 6)));
        send(&header(20, 0x23, 6));
        send(&header(20, 0x21, 17));
        // No connection has these ports; one has these, but not the sequence numbers.
        send(&header(20, 0x21, 6));
        let mut guess = header(20, 0x21, 6);
        guess[20..24].copy_from_slice(&[ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat());
        send(&guess);
    });
    transfer(&socket, &mut peer, MEGABYTE / 10);
    let counted = ends.counters();
    let found = (counted.malformed, counted.unknown, counted.strange);
    assert_eq!(found, (20 + 20 + 1 + 3, 14 + 1, 1), "{counted:?}");
    assert_eq!(counted.answered, before.1.answered);
    assert_eq!((controller_of(&socket), Info::of(&socket).window), (ends.name.clone(), before.0));
}

/// Runs a program on a packet as if it had arrived; returns its verdict.
fn run(program: i32, packet: &[u8]) -> u32 {
    // SAFETY: all-zero is valid for this structure, and the packet outlives the call.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as libbpf_sys::size_t;
    options.data_in = packet.as_ptr().cast();
    options.data_size_in = packet.len() as u32;
    // SAFETY: the descriptor is open and the options are valid.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &raw mut options) };
    assert_eq!(result, 0, "{packet:02x?}");
    options.retval
}

/// `HEADWAY_CASES` says how many packets there are.
#[test]
fn random_and_mutated_headers_are_counted_one_by_one() {
    let Some(_path) = Path::new() else { return };
    let ends = Ends::new(&Loader::new(Controller::Xcp), &[], "random");
    let ids = ends.loaded.programs().unwrap();
    let mut programs = ProgInfoIter::default().filter(|info| ids.contains(&info.id));
    let id = programs.find(|info| info.name == "hw_arrive").unwrap().id;
    let program = Program::fd_from_id(id).unwrap();
    let cases: u64 = std::env::var("HEADWAY_CASES").map_or(20_000, |cases| cases.parse().unwrap());
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let (mut dropped, mut others) = (0, 0);
    for _ in 0..cases {
        let mut packet: Vec<u8> = (0..14 + 20 + 60).map(|_| random() as u8).collect();
        packet[12..16].copy_from_slice(&[0x08, 0, 0x45, 0]);
        packet[16..18].copy_from_slice(&80_u16.to_be_bytes());
        packet[20..22].copy_from_slice(&[0, 0]);
        packet[23] = 253;
        packet[34..37].copy_from_slice(&[6, 20, 0x21]);
        packet[66] = 0x50;
        // Up to three bytes anything, and sometimes cut.
        (0..random() % 4).for_each(|_| packet[12 + random() as usize % 82] = random() as u8);
        packet.truncate(if random() % 4 == 0 { 34 + random() as usize % 60 } else { 94 });
        match run(program.as_raw_fd(), &packet) {
            2 => dropped += 1,
            verdict => {
                assert_eq!(verdict, u32::MAX);
                others += 1;
            }
        }
    }
    let counted = ends.counters();
    assert!(dropped > cases / 20 && others > cases / 20, "{dropped} and {others}");
    assert_eq!((counted.malformed, counted.answered), (dropped, 0), "{counted:?}");
    assert!(
        counted.unknown > 0 && counted.unknown < counted.received && counted.received <= others,
        "{counted:?}"
    );
}

#[test]
fn interfaces_are_as_before_when_the_programs_are_gone() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_rate", TC_EGRESS));
    let segments = || path.client.run(|| Interface::here("eth0").unwrap().segments);
    let before = segments();
    for _ in 0..3 {
        let ends = Ends::both(Controller::Rcp, &path, "gone");
        assert_eq!(segments(), 1);
        let (socket, mut peer) = ends.connect(&path);
        transfer(&socket, &mut peer, MEGABYTE / 10);
        assert_eq!(controller_of(&socket), ends.name);
        drop(ends);
        assert_eq!(segments(), before);
        // It gets no rate any more.
        transfer(&socket, &mut peer, MEGABYTE / 10);
        assert_eq!(controller_of(&socket), "reno");
    }
    assert!(path.client.run(|| Interface::here("lo").is_err()));
}
