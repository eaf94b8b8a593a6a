//! What a history file had, as the page gets it.

use std::net::SocketAddr;
use std::path::Path;

use headway_history::{Reader, SIZE, Store, Writer};
use headway_web::Server;
use serde_json::Value;

use crate::support::{decision, get, server, snapshot};

/// Now, in ms since 1970.
const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;

fn write(path: &Path, times: impl IntoIterator<Item = u64>) {
    let writer = Writer::start(Store::open(path, SIZE).expect("a store")).expect("a writer");
    for time_ms in times {
        let mut snapshot = snapshot(time_ms);
        snapshot.links[0].rate_bps = time_ms % HOUR;
        snapshot.decisions = vec![decision(time_ms / HOUR, "is limited")];
        snapshot.decisions[0].time_ms = time_ms;
        writer.push(&snapshot);
    }
    assert_eq!(writer.lost(), 0);
}

fn server_with(path: &Path) -> Server {
    let reader = Reader::open(path).expect("a reader");
    let server = Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), None, Some(reader)).expect("a server");
    server.publish(&snapshot(NOW));
    server
}

fn past(server: &Server, span: &str) -> Value {
    let answer = get(server.address(), &format!("/v1/history?span={span}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

fn count(list: &Value) -> usize {
    list.as_array().expect("a list").len()
}

#[test]
fn each_span_has_its_bins_and_decisions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    // Two rows in one minute, one an hour ago, and one each so many days ago.
    let days = [2, 20, 40, 300, 400].map(|days| NOW - days * 24 * HOUR);
    write(&path, days.into_iter().rev().chain([NOW - HOUR, NOW - 1000, NOW - 500, NOW + HOUR]));
    let server = server_with(&path);
    for (span, points, decided) in [("day", 2, 3), ("month", 4, 5), ("year", 5, 7)] {
        let past = past(&server, span);
        assert_eq!((count(&past["time_ms"]), &past["decided"]), (points, &decided.into()), "{past}");
        assert_eq!(past["decisions"][decided - 1]["time_ms"], NOW - 500);
        let down = &past["links"][0];
        for column in ["rate_bps", "peak_bps", "capacity_bps", "available_bps", "low_bps", "high_bps"] {
            assert_eq!(count(&down[column]), points, "{span} {column}");
        }
    }
    let day = past(&server, "day");
    let down = &day["links"][0];
    assert_eq!((&down["rate_bps"][1], &down["peak_bps"][1]), (&(HOUR - 750).into(), &(HOUR - 500).into()));
    assert_eq!((&day["until_ms"], &day["time_ms"][1]), (&NOW.into(), &NOW.into()));
}

#[test]
fn an_answer_is_used_again_so_that_viewers_cannot_make_the_router_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    write(&path, [NOW - HOUR]);
    let server = server_with(&path);
    let first = past(&server, "month");
    write(&path, [NOW - 20 * HOUR]);
    assert_eq!(past(&server, "month"), first);
    assert_eq!(count(&past(&server, "year")["time_ms"]), 2, "another span is read for itself");
}

#[test]
fn what_is_malformed_is_refused_and_a_page_without_a_history_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    write(&path, [NOW]);
    let server_with = server_with(&path);
    for query in
        ["", "?", "?span", "?span=", "?span=hours", "?span=day&x=1", "?span=%00", "?day", "?span=day%27--"]
    {
        let answer = get(server_with.address(), &format!("/v1/history{query}"));
        assert_eq!((answer.status, answer.body.contains("?span=day")), (400, true), "{query}");
    }
    let server = server();
    let answer = get(server.address(), "/v1/history?span=day");
    assert_eq!((answer.status, answer.body.contains("--history")), (404, true));
    for (server, has) in [(&server_with, true), (&server, false)] {
        let state: Value = serde_json::from_str(&get(server.address(), "/v1/state").body).expect("JSON");
        assert_eq!(state["history"], has);
    }
}

#[test]
fn a_history_that_cannot_be_read_says_why_and_the_page_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    write(&path, [NOW]);
    let server = server_with(&path);
    std::fs::write(&path, vec![0; 100_000]).expect("damage");
    let answer = get(server.address(), "/v1/history?span=day");
    assert_eq!((answer.status, answer.body.contains("cannot be read")), (503, true), "{}", answer.body);
    assert_eq!(get(server.address(), "/v1/state").status, 200);
}
