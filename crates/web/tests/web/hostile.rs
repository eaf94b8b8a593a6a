//! Requests that no browser sends, and names that are code.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::channel;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use socket2::{Domain, Socket, Type};

use crate::support::{
    Events, PATIENCE, decision, exchange, flow, get, get_with, server, server_with, snapshot,
};

const PARTS: [&str; 26] = [
    "GET ",
    "POST ",
    "/",
    "/v1/state",
    "/v1/recent",
    "/v1/history",
    "?span=year",
    "/metrics",
    "/page.js",
    "?token=",
    "%",
    "%00",
    "%ff",
    "..",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    " HTTP/2.0\r\n",
    "Host: localhost\r\n",
    "Host: ",
    "Cookie: headway-",
    "Authorization: Bearer ",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Last-Event-ID: ",
    "\r\n",
    "\r\n\r\n",
];

fn cases() -> usize {
    std::env::var("HEADWAY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

fn request(random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = match random.random_bool(0.5) {
        true => b"GET ".to_vec(),
        false => Vec::new(),
    };
    for _ in 0..random.random_range(0..12) {
        match random.random_range(0..4) {
            0 => bytes.extend((0..random.random_range(0..40)).map(|_| random.random::<u8>())),
            _ => bytes.extend(PARTS[random.random_range(0..PARTS.len())].as_bytes()),
        }
    }
    if random.random_bool(0.01) {
        bytes.resize(random.random_range(8000..40_000), b'a');
    }
    bytes
}

#[test]
fn random_requests_end_and_open_nothing() {
    let secret = "a secret that nobody guesses";
    let servers = [server(), server_with(secret)];
    let mut random = SmallRng::seed_from_u64(37);
    for case in 0..cases() {
        let server = &servers[case % 2];
        let bytes = request(&mut random);
        let answer = ended(server.address(), &bytes);
        let opened = case % 2 == 1 && answer.starts_with(b"HTTP/1.1 200");
        assert!(!opened, "{}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(get(servers[0].address(), "/").status, 200, "it goes on");
    assert_eq!(get(servers[1].address(), "/").status, 401, "it goes on");
}

/// Sends bytes and then the end of the stream, so that half a request is not waited for.
fn ended(address: std::net::SocketAddr, bytes: &[u8]) -> Vec<u8> {
    use std::io::Read as _;
    let mut stream = crate::support::send(address, bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn names_that_are_code_stay_text() {
    let server = server();
    let evil = "</script><script>alert(1)</script>\"'\n\u{2028}\r\ndata: x\n\n";
    let mut snapshot = snapshot(1000);
    snapshot.lan = evil.to_owned();
    snapshot.links[0].available[0].source = evil.to_owned();
    snapshot.decisions = vec![decision(1, evil)];
    snapshot.flows = vec![flow(evil)];
    server.publish(&snapshot);
    let state: serde_json::Value =
        serde_json::from_str(&get(server.address(), "/v1/state").body).expect("JSON");
    assert_eq!(state["state"]["flows"][0]["class"], evil);
    let metrics = get(server.address(), "/metrics").body;
    assert!(metrics.lines().all(|line| line.starts_with("headway_") || line.starts_with("# ")), "{metrics}");
    let (_, event) = Events::open(server.address(), "").1.next().expect("one event");
    assert_eq!(event["decisions"][0]["sentence"], evil);
}

#[test]
fn long_heads_are_refused() {
    let server = server();
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(100_000));
    assert!(!exchange(server.address(), long.as_bytes()).starts_with(b"HTTP/1.1 200"));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert!(!exchange(server.address(), many.as_bytes()).starts_with(b"HTTP/1.1 200"));
}

/// So many that their timeouts, one after the other, take longer than anybody waits.
const SILENT: u32 = 480;

/// Connections from as many addresses of this host that send nothing.
fn silent(server: SocketAddr, addresses: u32) -> Vec<Socket> {
    let connect = |number| {
        let from = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 1 + number % addresses);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("an address of loopback");
        socket.connect(&server.into()).expect("the server listens");
        socket
    };
    (0..SILENT).map(connect).collect()
}

#[test]
fn silent_connections_of_one_address_or_of_many_keep_no_viewer_out() {
    let secret = "a secret that nobody guesses";
    let server = server_with(secret);
    let (address, token) = (server.address(), format!("Authorization: Bearer {secret}\r\n"));
    let (status, mut before) = Events::open(address, &token);
    assert_eq!(status, 200);
    for addresses in [1, SILENT] {
        let (answers, answered) = channel();
        let token = token.clone();
        std::thread::spawn(move || {
            let silent = silent(address, addresses);
            answers.send(get_with(address, "/metrics", &token).status).expect("the test waits");
            drop(silent);
        });
        assert_eq!(answered.recv_timeout(PATIENCE), Ok(200));
    }
    // Nor do they end the stream of one.
    server.publish(&snapshot(1000));
    let mut seen = std::iter::from_fn(|| before.next());
    assert!(seen.any(|(_, event)| event["state"]["time_ms"] == 1000));
}
