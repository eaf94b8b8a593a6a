//! Who gets a session, who is refused, and the reasons given.

use crate::common::certificate::Certificate;
use crate::common::raw::Raw;
use crate::common::{Running, config, steady};
use headway_net::protocol::preamble::PREAMBLE_LEN;
use headway_net::protocol::{Message, Preamble, RefusedBy, VERSION, encode};
use headway_net::{
    ConnectOptions, FamilyChoice, Limits, NetError, ServerConfig, Session, TlsClient, TlsServer, Token,
};
use headway_units::{Bytes, Rate};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

fn refused(options: &ConnectOptions) -> NetError {
    Session::connect(options).err().expect("the session is refused")
}

#[test]
fn the_token_must_be_right() {
    let token = Some(Token::new("a secret of both ends"));
    let server = Running::start(ServerConfig { token: token.clone(), ..config() });
    let mut options = server.options();
    assert!(matches!(refused(&options), NetError::TokenRequired));
    options.token = Some(Token::new("a guess"));
    assert!(matches!(refused(&options), NetError::WrongToken));
    options.token = token;
    let mut session = Session::connect(&options).unwrap();
    assert_eq!(session.send_stream(&steady(10, 50)).unwrap().record.lost(), 0);
    assert_eq!(server.handle.counts().refused_token, 2);
}

#[test]
fn a_server_must_know_the_token_too() {
    let server = Running::start(config());
    let options = ConnectOptions { token: Some(Token::new("for another server")), ..server.options() };
    assert!(matches!(refused(&options), NetError::TokenUnknown), "an open server");

    for proof in [None, Some([7; 32])] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stranger = std::thread::spawn(move || pretend(&listener, proof));
        assert!(matches!(refused(&ConnectOptions { port, ..options.clone() }), NetError::TokenUnknown));
        stranger.join().unwrap();
    }
}

/// Acts as a server towards one client: accepts any proof of the token and returns `proof` as its own.
fn pretend(listener: &TcpListener, proof: Option<[u8; 32]>) {
    let (mut tcp, _) = listener.accept().expect("a client");
    tcp.read_exact(&mut [0; PREAMBLE_LEN]).expect("a preamble");
    tcp.write_all(&Preamble::new(0).to_bytes()).expect("a client that reads");
    let welcome = Message::Welcome { session: 1, max_packets: 100, reverse_bps: 1_000_000, proof };
    for answer in [Message::ServerHello { nonce: [1; 32], token_required: true }, welcome] {
        let mut length = [0; 4];
        tcp.read_exact(&mut length).expect("a length");
        tcp.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).expect("a message");
        tcp.write_all(&encode(&answer).expect("a short message")).expect("a client that reads");
    }
    // Until the client closes the connection, so that it reads the answer and not a reset.
    let _ = tcp.read(&mut [0]);
}

#[test]
fn versions_that_differ_are_both_named() {
    let server = Running::start(config());
    let mut raw = Raw::connect(server.port);
    raw.bytes(&Preamble { version: VERSION + 6, tls: 0 }.to_bytes());
    let mut answer = Vec::new();
    raw.tcp.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, Preamble::new(0).to_bytes(), "the server names its version and closes");

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        tcp.read_exact(&mut [0; PREAMBLE_LEN]).unwrap();
        tcp.write_all(&Preamble { version: VERSION + 6, tls: 0 }.to_bytes()).unwrap();
    });
    let error = refused(&ConnectOptions { port, ..ConnectOptions::new("127.0.0.1") });
    let both = matches!(error, NetError::VersionMismatch { theirs, ours } if theirs == VERSION + 6 && ours == VERSION);
    assert!(both, "{error}");
    other.join().unwrap();
}

#[test]
fn what_is_not_a_server_is_told_apart() {
    let unknown = ConnectOptions::new("no-such-host.invalid");
    assert!(matches!(refused(&unknown), NetError::UnknownHost { .. }));

    let only_v4 = ConnectOptions { family: FamilyChoice::V6, ..ConnectOptions::new("127.0.0.1") };
    assert!(matches!(refused(&only_v4), NetError::NoAddress { .. }));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = ConnectOptions { port, ..ConnectOptions::new("127.0.0.1") };
    let web = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        tcp.read_exact(&mut [0; PREAMBLE_LEN]).unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // The second connection is accepted but gets no answer.
        let _silent = listener.accept().unwrap();
        let _ = listener.accept();
    });
    assert!(matches!(refused(&options), NetError::NotHeadway { .. }));
    let impatient = ConnectOptions { timeout: Duration::from_millis(100), ..options.clone() };
    assert!(matches!(refused(&impatient), NetError::Timeout(..)));
    drop(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
    web.join().unwrap();
    assert!(matches!(refused(&options), NetError::Unreachable { .. }), "the port is closed now");
}

#[test]
fn tls_carries_the_control_connection() {
    let certificate = Certificate::new("carries");
    let token = Some(Token::new("a secret of both ends"));
    let server =
        Running::start(ServerConfig { tls: Some(certificate.server()), token: token.clone(), ..config() });
    let pinned = TlsClient::with_fingerprint(&certificate.server().fingerprint()).unwrap();
    for tls in [certificate.client(), pinned] {
        let options = ConnectOptions { tls: Some(tls), token: token.clone(), ..server.options() };
        let mut session = Session::connect(&options).unwrap();
        assert_eq!(session.send_stream(&steady(500, 50)).unwrap().record.lost(), 0);
        assert_eq!(session.receive_stream(&steady(500, 50)).unwrap().record.lost(), 0);
    }
}

#[test]
fn tls_refuses_what_it_does_not_trust() {
    let (certificate, other) = (Certificate::new("right"), Certificate::new("wrong"));
    let server = Running::start(ServerConfig { tls: Some(certificate.server()), ..config() });
    let with = |tls| ConnectOptions { tls, ..server.options() };
    assert!(matches!(refused(&with(None)), NetError::TlsRequired));
    assert!(matches!(refused(&with(Some(other.client()))), NetError::Tls(_)));
    let pinned = TlsClient::with_fingerprint(&other.server().fingerprint()).unwrap();
    assert!(matches!(refused(&with(Some(pinned))), NetError::Tls(_)));

    let plain = Running::start(config());
    let options = ConnectOptions { tls: Some(certificate.client()), ..plain.options() };
    assert!(matches!(refused(&options), NetError::TlsMissing));
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let missing = std::path::Path::new("no-such-file.pem");
    let error = TlsServer::from_files(missing, missing).unwrap_err().to_string();
    assert!(error.contains("no-such-file.pem"), "{error}");
    let source = std::path::Path::new(file!()).file_name().unwrap();
    let error = TlsClient::with_authorities(&std::path::Path::new("tests/net").join(source)).unwrap_err();
    assert!(error.to_string().contains("there are none"), "{error}");
}

#[test]
fn sessions_are_limited_in_all_and_per_address() {
    let limits = Limits { sessions: 1, sessions_per_network: 4, ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() });
    let first = Session::connect(&server.options()).unwrap();
    assert!(matches!(refused(&server.options()), NetError::Refused(RefusedBy::Sessions)));
    drop(first);
    while server.handle.open_sessions() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Session::connect(&server.options()).is_ok());

    let limits = Limits { sessions_per_network: 1, ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() });
    let _first = Session::connect(&server.options()).unwrap();
    assert!(matches!(refused(&server.options()), NetError::Refused(RefusedBy::SessionsPerNetwork)));
}

#[test]
fn streams_beyond_the_limits_are_refused_and_the_session_goes_on() {
    let limits = Limits {
        reverse_rate: Rate::from_mbps(100.0),
        session_bytes: Bytes::new(1_000_000),
        stream_time: Duration::from_millis(500),
        ..Limits::default()
    };
    let server = Running::start(ServerConfig { limits, ..config() });
    let mut session = Session::connect(&server.options()).unwrap();
    let reason = |error: NetError| match error {
        NetError::Refused(reason) => reason,
        other => panic!("{other}"),
    };
    assert_eq!(session.reverse_rate(), Rate::from_mbps(100.0));
    // 1538 bytes every 50 us are 246 Mb/s.
    assert_eq!(reason(session.receive_stream(&steady(300, 50)).unwrap_err()), RefusedBy::Rate);
    assert_eq!(reason(session.send_stream(&steady(3, 400_000)).unwrap_err()), RefusedBy::StreamTime);
    assert_eq!(session.send_stream(&steady(300, 50)).unwrap().record.lost(), 0);
    assert_eq!(reason(session.send_stream(&steady(600, 50)).unwrap_err()), RefusedBy::SessionBytes);
    assert_eq!(session.receive_stream(&steady(100, 150)).unwrap().record.lost(), 0);
    let counts = server.handle.counts();
    assert_eq!((counts.refused_rate, counts.refused_stream_time, counts.refused_used_up), (1, 1, 1));
}

#[test]
fn paying_back_ends_with_the_session_and_with_the_server() {
    // The size test alone, some 40 kB, causes a pause of minutes at this rate.
    let reverse_rate = Rate::from_bps(1000);
    let limits = Limits { reverse_rate, session_time: Duration::from_millis(600), ..Limits::default() };
    let server = Running::start(ServerConfig { limits, ..config() });
    let start = Instant::now();
    let session = Session::connect(&server.options()).unwrap();
    while server.handle.open_sessions() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    drop(session);

    let server =
        Running::start(ServerConfig { limits: Limits { reverse_rate, ..Limits::default() }, ..config() });
    let _session = Session::connect(&server.options()).unwrap();
    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn sessions_end_when_idle_or_old() {
    for (limits, reason) in [
        (Limits { idle: Duration::from_millis(500), ..Limits::default() }, RefusedBy::Idle),
        (Limits { session_time: Duration::from_millis(600), ..Limits::default() }, RefusedBy::SessionTime),
    ] {
        let server = Running::start(ServerConfig { limits, ..config() });
        let mut session = Session::connect(&server.options()).unwrap();
        while server.handle.open_sessions() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        match session.send_stream(&steady(10, 50)) {
            Err(NetError::Refused(given)) => assert_eq!(given, reason),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_on_all_addresses_answers_from_the_right_one() {
    let all = ServerConfig { bind: ServerConfig::default().bind, ..config() };
    let server = Running::start(all);
    let mut hosts = vec!["127.0.0.1", "127.0.0.2"];
    if crate::common::has_v6() {
        hosts.push("::1");
    }
    for host in hosts {
        let mut session =
            Session::connect(&ConnectOptions { host: host.to_owned(), ..server.options() }).unwrap();
        assert_eq!(session.peer().ip(), host.parse::<IpAddr>().unwrap());
        assert_eq!(session.send_stream(&steady(20, 50)).unwrap().record.lost(), 0);
        assert_eq!(session.receive_stream(&steady(20, 50)).unwrap().record.lost(), 0);
    }
}
