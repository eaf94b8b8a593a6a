//! Strangers, impostors and noise: nothing they send is amplified, crashes the server or affects
//! others' measurements.

use crate::common::certificate::Certificate;
use crate::common::raw::{Raw, connection};
use crate::common::relay::{Fate, Relay};
use crate::common::{Running, config, steady};
use headway_net::protocol::probe::hello;
use headway_net::protocol::{Header, Kind, Message, Preamble, RefusedBy, Role, VERSION};
use headway_net::{ConnectOptions, Limits, ServerConfig, Session, TlsClient, Token};
use headway_units::Instant;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sends bytes over TCP, reads until the server closes, and returns the number of bytes received.
fn tcp_answer(port: u16, pieces: &[Vec<u8>]) -> usize {
    let mut tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
    for piece in pieces {
        let _ = tcp.write_all(piece);
    }
    let _ = tcp.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer);
    answer.len()
}

#[test]
fn strangers_get_no_more_bytes_over_tcp_than_they_send() {
    let server = Running::start(ServerConfig { token: Some(Token::new("unknown to them")), ..config() });
    let encode = |message: &Message| headway_net::protocol::encode(message).unwrap();
    let preamble = Preamble::new(0).to_bytes().to_vec();
    let client_hello = encode(&Message::ClientHello { nonce: [7; 32], padding: vec![0; 64] });
    let short_hello = encode(&Message::ClientHello { nonce: [7; 32], padding: Vec::new() });
    let no_proof = encode(&Message::ClientProof { proof: None });
    let wrong_proof = encode(&Message::ClientProof { proof: Some([7; 32]) });
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let conversations: Vec<Vec<Vec<u8>>> = vec![
        vec![],
        vec![preamble[..5].to_vec()],
        vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()],
        vec![Preamble { version: VERSION + 1, tls: 0 }.to_bytes().to_vec()],
        vec![preamble.clone()],
        vec![preamble.clone(), (0..100).map(|_| random.random()).collect()],
        vec![preamble.clone(), short_hello],
        vec![preamble.clone(), client_hello.clone()],
        vec![preamble.clone(), client_hello.clone(), client_hello.clone()],
        vec![preamble.clone(), client_hello.clone(), no_proof],
        vec![preamble, client_hello, wrong_proof],
    ];
    for conversation in &conversations {
        let sent: usize = conversation.iter().map(Vec::len).sum();
        let answer = tcp_answer(server.port, conversation);
        assert!(answer <= sent, "{answer} bytes for {sent}: {conversation:?}");
    }
    let counts = server.wait_for("the end of all", |counts| {
        counts.handshakes_failed + counts.refused_token == conversations.len() as u64
    });
    assert_eq!((counts.sessions, counts.refused_token), (0, 2));
}

#[test]
fn strangers_get_no_more_bytes_through_tls_than_they_send() {
    let certificate = Certificate::new("stranger");
    let (tls, trusting) = (certificate.server(), certificate.client());
    let distrusting = TlsClient::with_fingerprint(&"00".repeat(32)).unwrap();
    let token = Some(Token::new("unknown to them"));
    let server = Running::start(ServerConfig { tls: Some(tls), token, ..config() });
    for tls in [trusting, distrusting] {
        let relay = Relay::start(server.port, |_, _| Fate::Pass);
        let token = Some(Token::new("a guess"));
        let options =
            ConnectOptions { port: relay.port, tls: Some(tls), token, ..ConnectOptions::new("127.0.0.1") };
        assert!(Session::connect(&options).is_err());
        let sent = relay.to_server.load(Ordering::Relaxed);
        let answer = relay.to_client.load(Ordering::Relaxed);
        assert!(answer > 0 && answer <= sent, "{answer} bytes for {sent}");
    }
}

#[test]
fn strangers_get_nothing_over_udp() {
    let server = Running::start(config());
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let mut total = 0;
    for i in 0..200u64 {
        let datagram = match i % 4 {
            0 => (0..i).map(|_| random.random()).collect(),
            1 => hello(Kind::Hello, random.random(), &[0; 16]).to_vec(),
            2 => hello(Kind::Cookie, random.random(), &[0; 16]).to_vec(),
            _ => hello(Kind::Hello, random.random(), &[0; 16])[..random.random_range(0..52)].to_vec(),
        };
        udp.send(&datagram).unwrap();
        total += 1;
    }
    server.wait_for("all datagrams", |counts| {
        counts.datagrams_malformed + counts.datagrams_wrong_session + counts.datagrams_unexpected == total
    });
    udp.set_nonblocking(true).unwrap();
    assert!(udp.recv(&mut [0; 2000]).is_err(), "no answer to any of them");
}

#[test]
fn hellos_are_answered_once_each_until_the_proof() {
    let server = Running::start(config());
    let mut raw = Raw::open(server.port);
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let replay = hello(Kind::Hello, raw.session, &[0; 16]);
    other.send_to(&replay, (Ipv4Addr::LOCALHOST, server.port)).unwrap();
    let counts = server.wait_for("the replayed hello", |counts| counts.datagrams_wrong_session == 1);
    assert_eq!(counts.hellos, 1);
    other.set_nonblocking(true).unwrap();
    assert!(other.recv(&mut [0; 100]).is_err(), "the address was proved, nobody else gets a cookie");
    // Everything before the welcome plus datagrams of equal size: the handshake does not amplify either.
    assert!(raw.received <= raw.sent, "{} for {}", raw.received, raw.sent);
    assert_eq!(raw.ask(&Message::Cookie([0; 16])), Message::Refused(RefusedBy::AddressNotProved));
}

#[test]
fn sessions_without_a_proof_get_few_answers_and_no_more_bytes_than_they_send() {
    let server = Running::start(config());
    let questions = [
        Message::Hellos,
        Message::AddressProved,
        Message::SizeReady,
        Message::Ping { number: 0 },
        Message::Cookie([0; 16]),
        Message::SizeTest { sizes: vec![1500] },
        Message::End { stream: 0, grace_ns: 0 },
    ];
    for question in &questions {
        let mut raw = Raw::enter(server.port);
        // Many hellos make the answer to `Hellos` longer.
        for _ in 0..200 {
            raw.datagram(&hello(Kind::Hello, raw.session, &[0; 16]));
            raw.received += raw.udp.recv(&mut [0; 100]).expect("a cookie");
        }
        let mut answers = 0;
        loop {
            raw.say(question);
            let answer = raw.hear();
            assert!(raw.received <= raw.sent, "{} for {}: {question:?}", raw.received, raw.sent);
            match answer {
                Some(_) => answers += 1,
                None => break,
            }
        }
        // The last answer contains the reason why the session ends.
        assert!(answers <= 9, "{answers} answers to {question:?}");
    }
    while server.handle.open_sessions() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn size_tests_count_and_end_in_a_flood() {
    let limits = Limits { session_bytes: headway_units::Bytes::new(30_000), ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() });
    let mut raw = Raw::open(server.port);
    for sizes in [vec![], vec![1500, 1500], (1000..1009).collect(), vec![20]] {
        assert_eq!(raw.ask(&Message::SizeTest { sizes }), Message::Refused(RefusedBy::PacketSize));
    }
    // Three datagrams of 1538 bytes in each direction: 9228 bytes per test.
    let test = Message::SizeTest { sizes: vec![1500] };
    let end = Message::SizeEnd { grace_ns: 100_000_000 };
    assert_eq!(raw.ask(&test), Message::SizeReady);
    assert_eq!(raw.ask(&end), Message::SizeReport { arrived: vec![] });
    assert_eq!(server.handle.counts().bytes_sent, 0, "nothing comes back for nothing");

    assert_eq!(raw.ask(&test), Message::SizeReady);
    let (udp, session) = (raw.udp.try_clone().unwrap(), raw.session);
    let stop = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&stop);
    let flood = std::thread::spawn(move || {
        let datagram = hello(Kind::Size, session, &[0; 16]);
        while !ending.load(Ordering::Relaxed) {
            let _ = udp.send(&datagram);
        }
    });
    assert_eq!(raw.ask(&end), Message::SizeReport { arrived: vec![] });
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    assert_eq!(raw.ask(&test), Message::SizeReady);
    assert_eq!(raw.ask(&end), Message::SizeReport { arrived: vec![] });
    assert_eq!(raw.ask(&test), Message::Refused(RefusedBy::SessionBytes));
}

#[test]
fn every_odd_datagram_of_a_session_is_counted_and_none_is_taken() {
    let server = Running::start(config());
    let mut raw = Raw::open(server.port);
    raw.announce(5, 4);
    for index in 0..4 {
        raw.probe(5, index, 4);
    }
    raw.say(&Message::End { stream: 5, grace_ns: 0 });
    assert!(matches!(raw.hear(), Some(Message::Report(report)) if report.lost.is_empty()));

    raw.announce(6, 4);
    raw.probe(5, 0, 4); // from an earlier stream
    raw.probe(7, 0, 4); // from a later one
    raw.probe(6, 2, 4);
    raw.probe(6, 2, 4); // a duplicate
    raw.probe(6, 0, 4); // out of order
    raw.probe(6, 1, 9); // another count
    raw.datagram(&[1; 30]);
    raw.datagram(&[]);
    let header = Header {
        kind: Kind::Probe,
        role: Role::First,
        session: !raw.session,
        stream: 6,
        index: 3,
        count: 4,
        sent: Instant::ZERO,
    };
    raw.probe_with(&header);
    raw.probe_with(&Header { kind: Kind::Hello, session: raw.session, ..header });
    raw.say(&Message::End { stream: 6, grace_ns: 20_000_000 });
    let Some(Message::Report(report)) = raw.hear() else {
        panic!("no report");
    };
    assert_eq!((report.lost, report.duplicates), (vec![1, 3], 1));
    let counts = server.handle.counts();
    assert_eq!(counts.datagrams_replayed, 2);
    assert_eq!(counts.datagrams_unexpected, 2);
    assert_eq!(counts.datagrams_reordered, 1);
    assert_eq!(counts.datagrams_malformed, 3);
    assert_eq!(counts.datagrams_wrong_session, 1);

    // Stream numbers must increase, and an end needs a stream.
    let end = Message::End { stream: 6, grace_ns: 0 };
    assert_eq!(raw.ask(&end), Message::Refused(RefusedBy::OutOfOrder));
    raw.announce(8, 2);
    assert_eq!(raw.ask(&end), Message::Refused(RefusedBy::OutOfOrder), "the end of another stream");
    assert_eq!(raw.ask(&Message::Ping { number: 1 }), Message::Pong { number: 1 }, "the session lives");
}

#[test]
fn noise_does_not_disturb_a_session() {
    let server = Running::start(config());
    let mut session = Session::connect(&server.options()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (port, ending) = (server.port, Arc::clone(&stop));
    let noise = std::thread::spawn(move || {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(3);
        while !ending.load(Ordering::Relaxed) {
            let mut tcp = connection(Ipv4Addr::new(127, 0, 1, 1), port).unwrap();
            for piece in 0..20 {
                let length = random.random_range(0..1400);
                let mut bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
                let _ = udp.send_to(&bytes, (Ipv4Addr::LOCALHOST, port));
                let preamble = Preamble::new(0).to_bytes();
                if piece == 0 && length % 2 == 0 && bytes.len() >= 8 {
                    bytes[..8].copy_from_slice(&preamble);
                }
                let _ = tcp.write_all(&bytes);
            }
            // Enough to be a nuisance; more would only test the machine's second core.
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    for _ in 0..20 {
        assert_eq!(session.send_stream(&steady(200, 50)).unwrap().record.lost(), 0);
        assert_eq!(session.receive_stream(&steady(200, 50)).unwrap().record.lost(), 0);
    }
    let counts = server
        .wait_for("the noise", |counts| counts.datagrams_malformed > 100 && counts.handshakes_failed > 5);
    stop.store(true, Ordering::Relaxed);
    noise.join().unwrap();
    assert_eq!(counts.packets_received, 4000);
    assert!(Session::connect(&server.options()).is_ok(), "and the server still takes new ones");
}

#[test]
fn two_sessions_do_not_mix() {
    let server = Running::start(config());
    let options = server.options();
    let sessions: Vec<_> = (0..2)
        .map(|_| {
            let options = options.clone();
            std::thread::spawn(move || {
                let mut session = Session::connect(&options).unwrap();
                for _ in 0..10 {
                    assert_eq!(session.send_stream(&steady(100, 100)).unwrap().record.lost(), 0);
                    assert_eq!(session.receive_stream(&steady(100, 100)).unwrap().record.lost(), 0);
                }
            })
        })
        .collect();
    sessions.into_iter().for_each(|session| session.join().unwrap());
    let counts = server.handle.counts();
    assert_eq!((counts.packets_received, counts.datagrams_wrong_session), (2000, 0));
}

#[test]
fn slow_handshakes_are_cut_off() {
    let limits =
        Limits { handshake: Duration::from_millis(200), handshakes_per_network: 1, ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() });
    let mut slow = Raw::connect(server.port);
    slow.greet();
    let mut second = Raw::connect(server.port);
    assert_eq!(second.hear(), None, "only one handshake at a time here");
    assert_eq!(server.handle.counts().dropped_too_many, 1);
    // A frame of 500 bytes, sent byte by byte: twenty seconds, if the deadline applied to each byte.
    slow.bytes(&500u32.to_be_bytes());
    let mut dripping = slow.tcp.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        while dripping.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(40));
        }
    });
    let start = std::time::Instant::now();
    assert_eq!(slow.hear(), None);
    assert!(start.elapsed() < Duration::from_secs(10));
    drip.join().unwrap();
    server.wait_for("the end of it", |counts| counts.handshakes_late == 1);
    assert!(Session::connect(&server.options()).is_ok());
}

#[test]
fn silent_connections_are_cut_off() {
    let limits = Limits { handshake: Duration::from_millis(200), ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() });
    let mut silent = Raw::connect(server.port);
    assert_eq!(silent.hear(), None);
    assert_eq!(server.wait_for("the end of it", |counts| counts.handshakes_late == 1).sessions, 0);
}

#[test]
fn broken_frames_end_the_session_they_are_in() {
    let server = Running::start(config());
    for broken in [vec![0xff; 64], vec![0, 0, 0, 1, 250], vec![0, 0, 0, 3, 10, 1, 0]] {
        let mut raw = Raw::open(server.port);
        raw.bytes(&broken);
        assert_eq!(raw.hear(), None);
    }
    let counts = server.wait_for("all three", |counts| counts.messages_malformed == 3);
    assert_eq!(counts.sessions, 3);
}
