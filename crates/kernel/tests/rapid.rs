//! TCP Rapid in the running kernel: connections to unmodified peers, its window, and the clock of a
//! receiver's timestamps, which wraps, is moved, stops, or is removed on the path.
//!
//! Where the machine does not allow namespaces or BPF controllers, or has no microsecond timestamps, each
//! test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[allow(dead_code, reason = "other tests use all of it")]
mod flood;
#[allow(dead_code, reason = "other tests use all of it")]
mod path;

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use flood::treat;
use headway_kernel::{Arrivals, Controller, Loaded, Loader, RapidCounters, RapidFlow, rapid_flows};
use headway_telemetry::route::Route;
use path::{Info, MEGABYTE, Path, Set, V4, V6, attach, close, controller_of, load, transfer};
use socket2::Socket;

/// Packets of a p-stream.
const PROBES: u32 = 64;
/// Of a second, in the receiver's timestamps.
const SECOND: u32 = 1_000_000;
/// What takes longer than a few windows of 50 ms in which clocks are compared, at less than
/// a Gigabit per second.
const LONG: usize = 25 * MEGABYTE;
/// Most ACKs of some ten thousand that Linux may refuse for their timestamps. Two processors send ACKs, so
/// one can overtake another that is a few microseconds older: up to 5 were seen. A clock that goes back has
/// nearly all of them refused.
const OVERTAKEN: u64 = 50;
/// What lets the sender see a timestamp.
const SHORT: usize = 10_000;

/// A sender of TCP Rapid, and a receiver whose routes have microsecond timestamps.
struct Connection {
    path: Path,
    loaded: Loaded,
    socket: Socket,
    peer: TcpStream,
}

impl Connection {
    /// Connects to a server address; prints the reason and returns `None` if this machine does not allow it.
    fn new(server: &str) -> Option<Connection> {
        let path = Path::new()?;
        let stamped =
            path.server.run(|| Route::all()?.iter().try_for_each(|route| route.set_microseconds(true)));
        if let Err(error) = stamped {
            println!("SKIPPED: this kernel has no microsecond timestamps ({error})");
            return None;
        }
        let (loaded, name) = load(Loader::new(Controller::Rapid));
        let (socket, peer) = path.connect_to(server, &name, "reno");
        Some(Connection { path, loaded, socket, peer })
    }

    fn transfer(&mut self, bytes: usize) {
        transfer(&self.socket, &mut self.peer, bytes);
    }

    /// Returns the counters of the sender.
    fn counted(&self) -> RapidCounters {
        self.loaded.rapid_counters().unwrap()
    }

    /// Returns what the sender knows.
    fn flow(&self) -> Option<RapidFlow> {
        let flows = listed(&self.loaded)?;
        let [flow] = &flows[..] else { panic!("{flows:?}") };
        Some(flow.clone())
    }

    /// Checks that the sender took the ACKs: none had a wrong checksum, and next to none was
    /// refused for its timestamp.
    fn assert_acks_were_taken(&self) {
        let counters = || {
            let text = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
            [(text("netstat"), "PAWSEstab"), (text("snmp"), "InCsumErrors")]
                .map(|(text, name)| sum(&text, name))
        };
        let [old, damaged] = self.path.client.run(counters);
        assert!(old <= OVERTAKEN, "{old} ACKs were refused for their timestamps");
        assert_eq!(damaged, 0);
    }

    /// Puts the clock of the receiver's timestamps forward to `stamp`. A timestamp more than half of all
    /// numbers ahead is one from the past, so the sender sees one in between.
    fn move_clock(&mut self, stamp: u32) {
        let distance = stamp.wrapping_sub(self.stamp());
        if distance > u32::MAX / 2 - SECOND {
            self.set_stamp(self.stamp().wrapping_add(distance / 2));
            self.transfer(SHORT);
        }
        self.set_stamp(stamp);
    }

    /// The present timestamp of the receiver.
    fn stamp(&self) -> u32 {
        option(&self.peer, libc::TCP_TIMESTAMP)
    }

    fn set_stamp(&self, stamp: u32) {
        // Only a connection under repair may have its clock set. The lowest bit says that it
        // counts microseconds.
        for (name, value) in
            [(libc::TCP_REPAIR, REPAIR), (libc::TCP_TIMESTAMP, stamp | 1), (libc::TCP_REPAIR, REPAIRED)]
        {
            set_option(&self.peer, name, value);
        }
    }

    fn close(self) {
        close(&self.socket, self.peer);
    }
}

/// Values of TCP_REPAIR: on, and off without a probe of the window (linux/tcp.h).
const REPAIR: u32 = 1;
const REPAIRED: u32 = -1_i32 as u32;

fn set_option(stream: &TcpStream, name: i32, value: u32) {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads one integer.
    let result = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_TCP, name, (&raw const value).cast(), length)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn option(stream: &TcpStream, name: i32) -> u32 {
    let mut value = 0_u32;
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes one integer.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_TCP, name, (&raw mut value).cast(), &raw mut length)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    value
}

/// Lists connections; prints the reason and returns `None` if this kernel does not.
fn listed(loaded: &Loaded) -> Option<Vec<RapidFlow>> {
    let flows = rapid_flows(&loaded.programs().unwrap()).unwrap();
    if flows.is_none() {
        println!("SKIPPED: this kernel refuses the program that lists connections");
    }
    flows
}

/// The sum of the counters of this name in a file of pairs of lines, names and values.
fn sum(text: &str, name: &str) -> u64 {
    let lines: Vec<&str> = text.lines().collect();
    let of = |pair: &[&str]| -> Option<u64> {
        let at = pair[0].split_whitespace().position(|word| word == name)?;
        pair[1].split_whitespace().nth(at)?.parse().ok()
    };
    lines.chunks(2).filter_map(of).sum()
}

/// Checks that both ends of these connections are listed, with what they measured.
fn assert_listed(flows: &[RapidFlow], ends: &[(Socket, TcpStream)]) {
    assert_eq!(flows.len(), 2 * ends.len(), "{flows:?}");
    for (socket, _) in ends {
        let address = |address: socket2::SockAddr| address.as_socket().unwrap();
        let local = address(socket.local_addr().unwrap());
        let remote = address(socket.peer_addr().unwrap());
        let flow = flows.iter().find(|flow| (flow.local, flow.remote) == (local, remote)).unwrap();
        assert!(flow.streams > flow.estimated && flow.estimated > 0 && flow.rate_bps > 0, "{flow:?}");
        assert!(flow.estimate_bps > 0 && flow.rtt_ns > 0, "{flow:?}");
    }
}

#[test]
fn rapid_sends_probes_and_its_connections_outlive_it() {
    let Some(path) = Path::new() else { return };
    let (loaded, name) = load(Loader::new(Controller::Rapid));
    let mut ends = [V4[1], V6[1]].map(|server| path.connect(server, &name));
    for (socket, peer) in &mut ends {
        transfer(socket, peer, 5 * MEGABYTE);
        assert_eq!(controller_of(socket), name);
    }
    let counted = loaded.rapid_counters().unwrap();
    assert_eq!((counted.connections, counted.without_memory, counted.forgotten), (4, 0, 0), "{counted:?}");
    // 10 MB in segments of at most 1448 B; those that no schedule asked for are few.
    let segments = counted.probes + counted.beside;
    assert!(segments >= 7_000 && counted.beside * 5 < segments, "{counted:?}");
    assert!(counted.estimated > 10, "{counted:?}");
    if let Some(flows) = listed(&loaded) {
        assert_listed(&flows, &ends);
    }
    loaded.unload();
    for (socket, mut peer) in ends {
        transfer(&socket, &mut peer, MEGABYTE);
        close(&socket, peer);
    }
}

/// rapid F17.
#[test]
fn losses_do_not_reduce_the_window() {
    let Some(path) = Path::new() else { return };
    path.server.run(|| treat("mark_then_drop"));
    let (loaded, name) = load(Loader::new(Controller::Rapid));
    let loaded = Arc::new(loaded);
    let _attached = attach(&loaded, &path.client);
    let (socket, mut peer) = path.connect_to(V4[1], &name, "reno");
    let done = AtomicBool::new(false);
    let least = thread::scope(|scope| {
        let least = scope.spawn(|| {
            let window = |_| Info::of(&socket).window;
            std::iter::repeat(()).take_while(|()| !done.load(Ordering::Relaxed)).map(window).min()
        });
        let ends = Set(&done);
        transfer(&socket, &mut peer, 10 * MEGABYTE);
        drop(ends);
        least.join().unwrap()
    });
    let counted = loaded.rapid_counters().unwrap();
    assert!(counted.losses > 5, "{counted:?}");
    assert!(least >= Some(2 * PROBES), "{least:?}");
    close(&socket, peer);
}

/// rapid F15: less than a p-stream waits for nothing. A write that is held back would never arrive.
#[test]
fn small_writes_arrive_without_a_whole_stream() {
    let Some(path) = Path::new() else { return };
    let (loaded, name) = load(Loader::new(Controller::Rapid));
    let (socket, mut peer) = path.connect_to(V4[1], &name, "reno");
    for bytes in (1..100).map(|number| number * 97 % 4500 + 1) {
        transfer(&socket, &mut peer, bytes);
    }
    assert_eq!(loaded.rapid_counters().unwrap().timeouts, 0);
    close(&socket, peer);
}

#[test]
fn microseconds_are_found_out_and_survive_a_wrap() {
    for server in [V4[1], V6[1]] {
        let Some(mut connection) = Connection::new(server) else { return };
        connection.move_clock(u32::MAX - SECOND / 5);
        connection.transfer(LONG);
        assert!(connection.stamp() < u32::MAX / 2, "it has not wrapped: {}", connection.stamp());
        let counted = connection.counted();
        assert_eq!((counted.stamped, counted.unstamped), (1, 0), "{counted:?}");
        assert!(counted.moved <= 2 && counted.estimated > 10, "{counted:?}");
        if let Some(flow) = connection.flow() {
            assert_eq!(
                (flow.arrivals, flow.remote.ip().to_string()),
                (Arrivals::Timestamps, server.to_owned())
            );
            assert_eq!(u64::from(flow.clock_moved), counted.moved, "{flow:?}");
        }
        connection.assert_acks_were_taken();
        connection.close();
    }
}

#[test]
fn a_clock_that_is_moved_forward_does_not_look_like_a_queue() {
    let Some(mut connection) = Connection::new(V4[1]) else { return };
    connection.transfer(LONG);
    let before = connection.counted();
    assert_eq!((before.stamped, before.moved), (1, 0), "{before:?}");
    connection.move_clock(connection.stamp().wrapping_add(5 * SECOND));
    connection.transfer(LONG);
    let counted = connection.counted();
    assert_eq!((counted.stamped, counted.unstamped, counted.moved), (1, 0, 1), "{counted:?}");
    if let Some(flow) = connection.flow() {
        assert_eq!((flow.arrivals, flow.clock_moved), (Arrivals::Timestamps, 1), "{flow:?}");
        assert!(flow.queue_ns < 1_000_000_000, "{flow:?}");
    }
    connection.assert_acks_were_taken();
    connection.close();
}

#[test]
fn timestamps_that_freeze_or_vanish_on_the_path_are_given_up() {
    for how in ["freeze_timestamps", "strip_timestamps"] {
        let Some(mut connection) = Connection::new(V4[1]) else { return };
        connection.transfer(LONG);
        let before = connection.counted();
        assert_eq!((before.stamped, before.unstamped), (1, 0), "before {how}: {before:?}");
        connection.path.client.run(move || treat(how));
        connection.transfer(LONG);
        let counted = connection.counted();
        assert_eq!((counted.stamped, counted.unstamped), (1, 1), "{how}: {counted:?}");
        connection.transfer(LONG);
        assert!(connection.counted().estimated > counted.estimated, "{how}");
        if let Some(flow) = connection.flow() {
            assert_eq!(flow.arrivals, Arrivals::Acks, "{how}: {flow:?}");
        }
        connection.assert_acks_were_taken();
        connection.close();
    }
}
