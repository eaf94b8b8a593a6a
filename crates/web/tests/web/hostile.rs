//! Requests that no browser sends, and names that are code.

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::support::{decision, exchange, flow, get, server, server_with, snapshot};

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
    let (_, event) = crate::support::Events::open(server.address(), "").1.next().expect("one event");
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
