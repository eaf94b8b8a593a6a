//! A small client, and snapshots to publish.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use headway_edge::snapshot::{DecisionState, FlowState, LinkState, ProbeState, RateState, Snapshot};
use headway_web::{Server, Token};

/// Longer than any answer takes; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An answer: its status, its head and its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Returns the value of a header, if there is one.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

/// Starts a server on a free port of loopback.
pub(crate) fn server() -> Server {
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), None, None).expect("loopback has free ports")
}

/// Starts one that needs a token.
pub(crate) fn server_with(token: &str) -> Server {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    Server::start(address, Some(Token::new(token)), None).expect("loopback has free ports")
}

/// Connects and sends these bytes.
pub(crate) fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    // A server that has refused already may have closed.
    let _ = stream.write_all(bytes);
    stream
}

/// Sends these bytes, and returns all that comes until the end.
pub(crate) fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset after the answer is an end, too.
    let _ = send(address, bytes).read_to_end(&mut all);
    all
}

/// Asks for a path with further header lines, each with its end.
pub(crate) fn get_with(address: SocketAddr, path: &str, lines: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\n{lines}\r\n");
    let text = String::from_utf8(exchange(address, request.as_bytes())).expect("answers are text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer { status: status.unwrap_or(0), head: head.to_owned(), body: body.to_owned() }
}

/// Asks for a path as a browser on this host does.
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    get_with(address, path, "Host: localhost\r\n")
}

/// An event stream that was opened.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens one, and returns its status too.
    pub(crate) fn open(address: SocketAddr, lines: &str) -> (u16, Events) {
        let request = format!("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
        let mut reader = BufReader::new(send(address, request.as_bytes()));
        let mut line = String::new();
        reader.read_line(&mut line).expect("there is an answer");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.unwrap_or(0), Events(reader))
    }

    /// Returns the value of the next line that begins with `key`, or nothing at the end.
    fn line(&mut self, key: &str) -> Option<String> {
        let mut line = String::new();
        while self.0.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if let Some(value) = line.strip_prefix(key) {
                return Some(value.trim_end().to_owned());
            }
            line.clear();
        }
        None
    }

    /// Returns the number and the data of the next event, or nothing at the end.
    pub(crate) fn next(&mut self) -> Option<(String, serde_json::Value)> {
        let id = self.line("id: ")?;
        let data = self.line("data: ")?;
        Some((id, serde_json::from_str(&data).expect("data are JSON")))
    }
}

/// Returns a decision about a flow.
pub(crate) fn decision(flow: u64, sentence: &str) -> DecisionState {
    DecisionState {
        time_ms: 1,
        flow,
        client: SocketAddr::from(([192, 0, 2, 7], 5000)),
        server: SocketAddr::from(([198, 51, 100, 9], 443)),
        behaviour: "bulk".to_owned(),
        strategies: vec!["rwm".to_owned()],
        sentence: sentence.to_owned(),
    }
}

/// Returns a flow, all of whose texts are this one.
pub(crate) fn flow(text: &str) -> FlowState {
    FlowState {
        id: 1,
        protocol: text.to_owned(),
        client: ([192, 0, 2, 7], 1).into(),
        server: ([192, 0, 2, 8], 2).into(),
        class: Some(text.to_owned()),
        behaviour: text.to_owned(),
        rule: text.to_owned(),
        down_bps: 1,
        up_bps: 1,
        rtt_ns: None,
        window_bytes: None,
        window_let_through_bytes: None,
        limited_by: text.to_owned(),
        mean_gap_ns: 0,
        burstiness: 0.0,
        decision: text.to_owned(),
    }
}

/// Returns a snapshot at this time.
pub(crate) fn snapshot(time_ms: u64) -> Snapshot {
    let rate = |rate_bps: u64, source: &str| RateState {
        rate_bps,
        low_bps: rate_bps / 2,
        high_bps: rate_bps * 2,
        age_ms: 100,
        source: source.to_owned(),
    };
    let link = LinkState {
        capacity_bps: 80_000_000,
        rate_bps: 8_000_000,
        available: vec![rate(16_000_000, "passive")],
        narrow: vec![rate(40_000_000, "pairs")],
        followed: None,
    };
    Snapshot {
        time_ms,
        lan: "eth1".to_owned(),
        wan: "eth0".to_owned(),
        links: [link.clone(), link],
        probes: Some(ProbeState { budget_bytes: 1000, ..ProbeState::default() }),
        flows_in_all: 1,
        history_lost: Some(3),
        flows: vec![flow("bulk")],
        ..Snapshot::default()
    }
}
