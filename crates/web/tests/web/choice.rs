//! A choice among paths.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};

use headway_web::{ChoiceDoors, ChoiceServer, Error, Token};
use serde_json::{Value, json};

use crate::support::{get, get_with, send};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn started(token: Option<&str>) -> (ChoiceServer, SocketAddr) {
    let doors = ChoiceDoors::open(Some((LOOPBACK, token.map(Token::new))), None);
    let doors = doors.expect("loopback has free ports");
    let server = ChoiceServer::start(doors, &json!({ "chosen": "a" })).expect("it starts");
    let address = server.address().expect("it has one");
    (server, address)
}

/// Opens an event stream.
fn events(address: SocketAddr, lines: &str) -> BufReader<std::net::TcpStream> {
    let request = format!("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
    BufReader::new(send(address, request.as_bytes()))
}

/// Returns the name and the data of the next event.
fn next(stream: &mut impl std::io::BufRead) -> (String, Value) {
    let mut name = String::new();
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the stream has ended");
        if let Some(said) = line.strip_prefix("event: ") {
            name = said.trim_end().to_owned();
        }
        if let Some(data) = line.strip_prefix("data: ") {
            return (name, serde_json::from_str(data).expect("data are JSON"));
        }
    }
}

#[test]
fn paths_are_the_newest_state_and_events_have_each_decision() {
    let (server, address) = started(None);
    let answer = get(address, "/v1/paths");
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"chosen":"a"}"#));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.header("content-security-policy").is_some());
    assert_eq!(get(address, "/").status, 404);
    let mut stream = events(address, "");
    assert_eq!(next(&mut stream), ("state".to_owned(), json!({ "chosen": "a" })));
    // Who only asks sees it, and streams do not.
    server.refresh(&json!({ "chosen": "a", "age": 1 }));
    assert_eq!(get(address, "/v1/paths").body, r#"{"age":1,"chosen":"a"}"#);
    server.publish(&json!({ "chosen": "b" }), &[json!({ "path": "b", "sentence": "x\n\ndata: y" })]);
    assert_eq!(next(&mut stream).1["sentence"], "x\n\ndata: y");
    assert_eq!(next(&mut stream), ("state".to_owned(), json!({ "chosen": "b" })));
}

#[test]
fn a_viewer_that_comes_again_gets_what_it_missed_and_a_new_one_the_state_only() {
    let (server, address) = started(None);
    server.publish(&json!({ "n": 1 }), &[json!(1)]);
    let mut stream = events(address, "");
    let mut id = String::new();
    while !id.starts_with("id: ") {
        id.clear();
        stream.read_line(&mut id).expect("a line");
    }
    server.publish(&json!({ "n": 3 }), &[json!(2), json!(3)]);
    let mut again = events(address, &format!("Last-Event-ID: {}\r\n", id[4..].trim_end()));
    let told: Vec<Value> = (0..3).map(|_| next(&mut again).1).collect();
    assert_eq!(told, [json!(2), json!(3), json!({ "n": 3 })]);
    for of_another_run in ["1-1", "", "x-1"] {
        let mut new = events(address, &format!("Last-Event-ID: {of_another_run}\r\n"));
        assert_eq!(next(&mut new).0, "state");
    }
}

#[test]
fn others_need_the_token_and_this_host_its_own_name() {
    let all = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = ChoiceDoors::open(Some((all, None)), None);
    assert!(matches!(refused.err(), Some(Error::NeedsToken(_))));
    let (_server, address) = started(Some("a token of many bytes"));
    for path in ["/v1/paths", "/v1/events", "/"] {
        assert_eq!(get(address, path).status, 401, "{path}");
        assert_eq!(get_with(address, path, "Authorization: Bearer another\r\n").status, 401, "{path}");
    }
    let bearer = "Authorization: Bearer a token of many bytes\r\n";
    assert_eq!(get_with(address, "/v1/paths", bearer).status, 200);
    let (_server, address) = started(None);
    assert_eq!(get_with(address, "/v1/paths", "Host: evil.example\r\n").status, 403);
}

#[test]
fn a_unix_socket_answers_whoever_can_connect() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http");
    let listener = UnixListener::bind(&path).expect("a socket");
    let doors = ChoiceDoors::open(None, Some(listener)).expect("it listens");
    let _server = ChoiceServer::start(doors, &json!({ "chosen": "a" })).expect("it starts");
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    };
    assert!(ask("GET /v1/paths HTTP/1.0\r\n\r\n").ends_with(r#"{"chosen":"a"}"#));
    assert!(ask("POST /v1/paths HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 405"));
}

#[test]
fn a_viewer_that_does_not_read_holds_nothing_up_and_then_sees_the_newest() {
    let (server, address) = started(None);
    let mut stream = events(address, "");
    next(&mut stream);
    let large = "x".repeat(100_000);
    // Some 200 MB, if each were kept.
    for number in 1..=2_000 {
        server.publish(&json!({ "number": number, "text": large }), &[json!(number)]);
    }
    let mut seen = 0;
    while next(&mut stream).1["number"] != 2_000 {
        seen += 1;
    }
    assert!(seen < 1_500, "{seen} events waited for the viewer");
}
