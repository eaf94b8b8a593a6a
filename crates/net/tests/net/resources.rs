//! Resources of the server's host that a client can claim: time, the port and kernel memory.

use crate::common::raw::Raw;
use crate::common::{Running, config, measure_undisturbed};
use headway_net::protocol::{Message, encode};
use headway_net::{Limits, ServerConfig};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

#[test]
fn a_client_that_never_stops_asking_does_not_outlive_its_session() {
    let limits =
        Limits { session_time: Duration::from_secs(5), messages_per_second: 1_000_000, ..config().limits };
    let server = Running::start(ServerConfig { limits, ..config() });
    let mut raw = Raw::open_from(Ipv4Addr::new(127, 0, 1, 1), server.port);
    let pings = encode(&Message::Ping { number: 1 }).unwrap().repeat(1000);
    let (mut writer, mut reader) = (raw.tcp.try_clone().unwrap(), raw.tcp.try_clone().unwrap());
    let asking = std::thread::spawn(move || while writer.write_all(&pings).is_ok() {});
    let listening = std::thread::spawn(move || while reader.read(&mut [0; 65536]).is_ok_and(|n| n > 0) {});
    measure_undisturbed(&server.options());
    // The honest session is over; only the other one could still be open.
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while server.handle.open_sessions() > 0 {
        assert!(std::time::Instant::now() < deadline, "the session lives on and on");
        std::thread::sleep(Duration::from_millis(1));
    }
    raw.tcp.shutdown(std::net::Shutdown::Both).unwrap_or_default();
    asking.join().unwrap();
    listening.join().unwrap();
    raw.bytes(&[]);
}

/// Runs `work` as another user in its own thread; `None` if this process lacks the privilege.
fn as_another_user<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    const NOBODY: libc::c_long = 65_534;
    std::thread::spawn(move || {
        // SAFETY: the raw system call changes the user of this thread only, and takes integers.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) } == 0;
        changed.then(work)
    })
    .join()
    .expect("no panic")
}

#[test]
fn another_user_cannot_take_the_port() {
    let server = Running::start(ServerConfig { bind: vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)], ..config() });
    let port = server.port;
    let taken = as_another_user(move || {
        let mut taken = Vec::new();
        for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
            for (reuse_address, reuse_port) in [(false, false), (true, false), (false, true), (true, true)] {
                for kind in [Type::DGRAM, Type::STREAM] {
                    let socket = Socket::new(Domain::IPV4, kind, None).unwrap();
                    socket.set_reuse_address(reuse_address).unwrap();
                    socket.set_reuse_port(reuse_port).unwrap();
                    let bound = socket.bind(&SocketAddr::from((address, port)).into()).is_ok();
                    if bound && (kind == Type::DGRAM || socket.listen(1).is_ok()) {
                        taken.push((address, kind, reuse_address, reuse_port));
                    }
                }
            }
        }
        taken
    });
    match taken {
        Some(taken) => assert_eq!(taken, [], "address, type, SO_REUSEADDR, SO_REUSEPORT"),
        None => println!("SKIPPED: only root can become another user"),
    }
    measure_undisturbed(&server.options());
}

/// Returns the bytes in the receive queues of the server's UDP sockets, as the kernel counts them.
fn queued(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/udp").expect("a table of sockets");
    let local = format!(":{port:04X}");
    table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, waiting) = fields.get(4)?.split_once(':')?;
            fields.get(1)?.ends_with(&local).then(|| usize::from_str_radix(waiting, 16).ok())?
        })
        .sum()
}

#[test]
fn a_session_without_a_stream_holds_little_of_the_kernel_s_memory() {
    let server = Running::start(config());
    let raw = Raw::open_from(Ipv4Addr::new(127, 0, 1, 1), server.port);
    for _ in 0..20_000 {
        let _ = raw.udp.send(&[0; 8000]);
    }
    let queued = queued(server.port);
    assert!(queued > 0 && queued <= 512 * 1024, "{queued} bytes wait");
    measure_undisturbed(&server.options());
}
