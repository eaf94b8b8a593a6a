//! Admission to the server while strangers try to take every place.

use crate::common::certificate::Certificate;
use crate::common::raw::{Raw, client_hello, connection, signature};
use crate::common::{Running, config, measure_undisturbed};
use headway_net::protocol::{Message, RefusedBy};
use headway_net::{ConnectOptions, Limits, ServerConfig, Token};
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Addresses in eight networks.
fn attackers() -> impl Iterator<Item = Ipv4Addr> {
    (1..=8).map(|network| Ipv4Addr::new(127, 0, network, 1))
}

/// Threads that repeat the same work until they are dropped.
struct Crowd {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Crowd {
    fn start(work: impl Fn(Ipv4Addr) + Clone + Send + 'static) -> Crowd {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = attackers()
            .map(|source| {
                let (stop, work) = (Arc::clone(&stop), work.clone());
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        work(source);
                    }
                })
            })
            .collect();
        Crowd { stop, threads }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "an attacker panicked");
        }
    }
}

#[test]
fn silent_connections_lock_nobody_out() {
    let token = Some(Token::new("unknown to the strangers"));
    let server = Running::start(ServerConfig { token: token.clone(), ..config() });
    // Eight connections at a time from each of eight networks, renewed as soon as the server closes one.
    let port = server.port;
    let _crowd = Crowd::start(move |source| {
        let mut silent: Vec<TcpStream> = (0..8).filter_map(|_| connection(source, port).ok()).collect();
        for tcp in &mut silent {
            let _ = tcp.set_read_timeout(Some(Duration::from_millis(20)));
            let _ = tcp.read(&mut [0]);
        }
    });
    server.wait_for("the crowd", |counts| counts.connections >= 64);
    for _ in 0..3 {
        measure_undisturbed(&ConnectOptions { token: token.clone(), ..server.options() });
    }
}

#[test]
fn sessions_without_a_proof_take_no_place_of_a_session() {
    let limits = Limits { sessions: 4, ..config().limits };
    let server = Running::start(ServerConfig { limits, ..config() });
    let unproved: Vec<Raw> = attackers().map(|source| Raw::enter_from(source, server.port)).collect();
    measure_undisturbed(&server.options());
    drop(unproved);
}

#[test]
fn a_network_with_many_sessions_gives_one_to_a_network_with_none() {
    let limits = Limits { sessions: 4, ..config().limits };
    let server = Running::start(ServerConfig { limits, ..config() });
    let source = Ipv4Addr::new(127, 0, 1, 1);
    let mut greedy: Vec<Raw> = (0..4).map(|_| Raw::open_from(source, server.port)).collect();
    measure_undisturbed(&server.options());
    assert_eq!(greedy[0].hear(), Some(Message::Refused(RefusedBy::Sessions)), "the oldest had to go");
    for raw in &mut greedy[1..] {
        assert_eq!(raw.ask(&Message::Ping { number: 1 }), Message::Pong { number: 1 });
    }
}

#[test]
fn a_network_has_its_share_of_sessions_whatever_its_addresses_are() {
    let limits = Limits { sessions: 32, ..Limits::default() };
    let most = 4;
    let server = Running::start(ServerConfig { limits, ..config() });
    let mut open: Vec<Raw> =
        (1..=most).map(|host| Raw::open_from(Ipv4Addr::new(127, 0, 1, host), server.port)).collect();
    let mut raw = Raw::enter_from(Ipv4Addr::new(127, 0, 1, 200), server.port);
    assert_eq!(raw.prove(), Message::Refused(RefusedBy::SessionsPerNetwork));
    assert_eq!(open[0].ask(&Message::Ping { number: 1 }), Message::Pong { number: 1 });
    measure_undisturbed(&server.options());
}

#[test]
fn tls_handshakes_of_strangers_do_not_keep_others_out() {
    let certificate = Certificate::new("admission");
    let server = Running::start(ServerConfig { tls: Some(certificate.server()), ..config() });
    let tls = certificate.client();
    let (port, hello) = (server.port, client_hello());
    assert!(signature(Ipv4Addr::new(127, 0, 9, 1), port, &hello).is_ok(), "the server signs for strangers");
    let _crowd = Crowd::start(move |source| drop(signature(source, port, &hello)));
    measure_undisturbed(&ConnectOptions { tls: Some(tls), ..server.options() });
}
