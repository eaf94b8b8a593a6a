//! Event streams.

use std::io::Read as _;

use crate::support::{Events, decision, get, send, server, snapshot};

#[test]
fn a_viewer_sees_each_snapshot_with_its_decisions() {
    let server = server();
    let (status, mut events) = Events::open(server.address(), "");
    assert_eq!(status, 200);
    let (_, first) = events.next().expect("a first event at once");
    assert_eq!((&first["all"], &first["number"]), (&true.into(), &0.into()));
    for second in 1..=3 {
        let mut snapshot = snapshot(second * 1000);
        snapshot.decisions = vec![decision(second, "passes first")];
        server.publish(&snapshot);
        let (_, event) = events.next().expect("an event for each snapshot");
        assert_eq!(event["state"]["time_ms"], second * 1000);
        assert_eq!((&event["all"], event["decisions"].as_array().map(Vec::len)), (&false.into(), Some(1)));
        assert_eq!(event["decisions"][0]["flow"], second);
    }
}

#[test]
fn a_viewer_that_comes_again_gets_the_decisions_that_it_missed() {
    let server = server();
    let publish = |flow: u64| {
        let mut snapshot = snapshot(flow * 1000);
        snapshot.decisions = vec![decision(flow, "is limited")];
        server.publish(&snapshot);
    };
    publish(1);
    let (id, _) = Events::open(server.address(), "").1.next().expect("an event");
    publish(2);
    publish(3);
    let again = format!("Last-Event-ID: {id}\r\n");
    let (_, event) = Events::open(server.address(), &again).1.next().expect("an event");
    let flows: Vec<u64> = event["decisions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["flow"].as_u64())
        .collect();
    assert_eq!((&event["all"], flows), (&false.into(), vec![2, 3]));
    for of_another_run in ["1-2", "", "-", "x-1", "99999999999999999999999-1"] {
        let line = format!("Last-Event-ID: {of_another_run}\r\n");
        let (_, event) = Events::open(server.address(), &line).1.next().expect("an event");
        assert_eq!((&event["all"], event["decisions"].as_array().map(Vec::len)), (&true.into(), Some(3)));
    }
}

#[test]
fn the_seventeenth_viewer_is_refused_until_one_leaves() {
    let server = server();
    let mut viewers: Vec<Events> = Vec::new();
    for _ in 0..16 {
        let (status, mut events) = Events::open(server.address(), "");
        assert_eq!(status, 200);
        events.next().expect("a first event");
        viewers.push(events);
    }
    assert_eq!(Events::open(server.address(), "").0, 503);
    assert_eq!(get(server.address(), "/v1/state").status, 200, "other paths have room");
    assert!(get(server.address(), "/metrics").body.contains("headway_edge_page_viewers 16"));
    viewers.pop();
    // The server learns of it when the connection ends, which is soon, but not at once.
    while Events::open(server.address(), "").0 == 503 {
        std::thread::yield_now();
    }
}

#[test]
fn a_viewer_that_does_not_read_costs_nothing_and_then_sees_the_newest() {
    let server = server();
    let (_, mut events) = Events::open(server.address(), "");
    events.next().expect("a first event");
    let mut large = snapshot(0);
    large.lan = "x".repeat(100_000);
    // Some 200 MB, if each were kept.
    for second in 1..=2000 {
        large.time_ms = second;
        server.publish(&large);
    }
    let mut seen = 1;
    while events.next().expect("an event").1["state"]["time_ms"] != 2000 {
        seen += 1;
    }
    assert!(seen < 1000, "{seen} events waited for the viewer");
}

#[test]
fn a_slow_request_is_cut_and_keeps_nobody_out() {
    let server = server();
    let mut slow: Vec<_> = (0..80).map(|_| send(server.address(), b"GET / HTTP/1.1\r\nHost: lo")).collect();
    // Answered when the first of the slow ones have been cut.
    assert_eq!(get(server.address(), "/v1/state").status, 200);
    let mut all = Vec::new();
    let _ = slow[0].read_to_end(&mut all);
    assert!(!all.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&all));
}
