//! The attackers, each kind from its own networks.

use super::Failure;
use super::raw::{Raw, client_hello, connection, signature};
use headway_net::protocol::{Message, Preamble, encode};
use headway_units::Duration as Gap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Pause between attacks, so that they do not merely keep this machine's processors busy.
const BREATH: Duration = Duration::from_millis(10);

/// Attacks until the process is killed.
pub(crate) fn run(plain: &str, tls: &str) -> Result<(), Failure> {
    let (plain, tls) = (plain.parse()?, tls.parse()?);
    // Dies with the program that started it, however that ends.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    yield_processors()?;
    // Answers of the server that an attack does not expect cause panics, which are ignored.
    std::panic::set_hook(Box::new(|_| {}));
    let hello = client_hello();
    let attacks: Vec<(u8, u8, Attack)> = vec![
        (8, 1, Box::new(move |source| silent(source, plain))),
        (4, 20, Box::new(move |source| unproved(source, plain))),
        (2, 30, Box::new(move |source| far_apart(source, plain))),
        (6, 40, Box::new(move |source| spinning(source, plain))),
        (2, 50, Box::new(move |source| leaving(source, plain))),
        (1, 60, Box::new(move |source| asking(source, plain))),
        (8, 70, Box::new(move |source| holding(source, plain))),
        (2, 80, Box::new(move |source| flooding(source, plain))),
        (2, 90, Box::new(move |source| noise(source, plain))),
        (8, 100, Box::new(move |source| drop(signature(source, tls, &hello)))),
        (40, 110, Box::new(move |source| idling(source, plain))),
        (1, 160, Box::new(move |source| connecting(source, plain))),
    ];
    std::thread::scope(|scope| {
        for (networks, first, attack) in &attacks {
            for network in *first..first + networks {
                scope.spawn(move || {
                    let mut host = 0u8;
                    loop {
                        host = host % 250 + 1;
                        let source = Ipv4Addr::new(127, 1, network, host);
                        let _ = catch_unwind(AssertUnwindSafe(|| attack(source)));
                        std::thread::sleep(BREATH);
                    }
                });
            }
        }
    });
    Ok(())
}

type Attack = Box<dyn Fn(Ipv4Addr) + Send + Sync>;

/// Gives every other process priority: on the Internet the attackers would be other hosts.
fn yield_processors() -> Result<(), Failure> {
    // SAFETY: the structure consists of integers; the policy requires priority zero.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &libc::sched_param { sched_priority: 0 }) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Opens eight connections and sends nothing until the server closes them.
fn silent(source: Ipv4Addr, port: u16) {
    let connections: Vec<TcpStream> = (0..8).filter_map(|_| connection(source, port).ok()).collect();
    for tcp in &connections {
        let _ = tcp.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = (&*tcp).read(&mut [0]);
    }
}

/// Opens a session but never proves its address.
fn unproved(source: Ipv4Addr, port: u16) {
    let mut raw = Raw::enter_from(source, port);
    let _ = raw.hear();
}

/// Requests streams of two packets half a minute apart.
fn far_apart(source: Ipv4Addr, port: u16) {
    let mut raw = patient(source, port);
    for stream in 0..4 {
        raw.ask_reverse(stream, 2, Gap::from_ms(29_000));
        raw.hear();
    }
}

/// Requests streams whose pacing keeps a processor spinning.
fn spinning(source: Ipv4Addr, port: u16) {
    let mut raw = patient(source, port);
    for stream in 0.. {
        let count = if stream % 8 == 0 { 16_384 } else { 780 };
        if matches!(raw.ask_reverse(stream, count, Gap::from_us(190)), Message::Ready { .. }) {
            raw.hear().expect("a report");
        }
    }
}

/// Requests a stream and closes the connection.
fn leaving(source: Ipv4Addr, port: u16) {
    let mut raw = patient(source, port);
    raw.ask_reverse(0, 780, Gap::from_us(190));
    let _ = raw.tcp.shutdown(Shutdown::Both);
    std::thread::sleep(Duration::from_millis(100));
}

/// Sends pings without end.
fn asking(source: Ipv4Addr, port: u16) {
    let raw = patient(source, port);
    let pings = encode(&Message::Ping { number: 1 }).expect("a short message").repeat(100);
    let mut reader = raw.tcp.try_clone().expect("a socket");
    std::thread::spawn(move || while reader.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {});
    let mut writer = &raw.tcp;
    while writer.write_all(&pings).is_ok() {}
}

/// Opens as many sessions as it gets and keeps them alive with a ping per second.
fn holding(source: Ipv4Addr, port: u16) {
    let mut held: Vec<Raw> = Vec::new();
    while held.len() < 4 {
        match catch_unwind(|| Raw::open_from(source, port)) {
            Ok(raw) => held.push(raw),
            Err(_) => break,
        }
    }
    for number in 0..60 {
        std::thread::sleep(Duration::from_secs(1));
        held.retain_mut(|raw| {
            raw.say(&Message::Ping { number });
            catch_unwind(AssertUnwindSafe(|| raw.hear()))
                .is_ok_and(|answer| answer == Some(Message::Pong { number }))
        });
        if held.is_empty() {
            return;
        }
    }
}

/// Opens a session, as many networks do as the server has places, and keeps it without using it.
fn idling(source: Ipv4Addr, port: u16) {
    let mut raw = patient(source, port);
    while raw.ask(&Message::Ping { number: 1 }) == (Message::Pong { number: 1 }) {
        std::thread::sleep(Duration::from_secs(20));
    }
}

/// Connects from five of two hundred networks, and sends nothing: with the pauses about 470 times per second.
fn connecting(source: Ipv4Addr, port: u16) {
    let [.., number] = source.octets();
    for network in 0..5u8 {
        drop(connection(Ipv4Addr::new(127, 2, (number % 40) * 5 + network, 1), port));
    }
}

/// Sends datagrams to a session that expects none.
fn flooding(source: Ipv4Addr, port: u16) {
    let mut raw = patient(source, port);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        (0..100).for_each(|_| drop(raw.udp.send(&[0; 8000])));
        raw.ask(&Message::Ping { number: 1 });
        std::thread::sleep(BREATH * 10);
    }
}

/// Sends garbage.
fn noise(source: Ipv4Addr, port: u16) {
    let udp = UdpSocket::bind((source, 0)).expect("a free port");
    for length in 0..100 {
        let _ = udp.send_to(&vec![length as u8; length], (Ipv4Addr::LOCALHOST, port));
    }
    if let Ok(mut tcp) = connection(source, port) {
        let _ = tcp.write_all(&Preamble::new(0).to_bytes());
        let _ = tcp.write_all(&[7; 1000]);
    }
}

/// Opens a session with a long read timeout.
fn patient(source: Ipv4Addr, port: u16) -> Raw {
    let raw = Raw::open_from(source, port);
    raw.tcp.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    raw
}
