//! What each path has, and what every answer says.

use headway_web::{MetricWriter, MetricsServer};
use serde_json::Value;

use crate::support::{decision, get, server, snapshot};

#[test]
fn every_answer_forbids_what_comes_from_elsewhere() {
    let server = server();
    for path in [
        "/",
        "/page.js",
        "/page.css",
        "/uplot.js",
        "/uplot.css",
        "/icon.svg",
        "/v1/state",
        "/v1/recent",
        "/metrics",
        "/no",
    ] {
        let answer = get(server.address(), path);
        assert_eq!(answer.status, if path == "/no" { 404 } else { 200 }, "{path}");
        let policy = answer.header("content-security-policy").expect(path);
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
}

#[test]
fn the_page_names_no_other_address_and_has_no_code_in_its_text() {
    let server = server();
    let page = get(server.address(), "/").body;
    let handler = |word: &str| word.starts_with("on") && word.contains('=');
    assert!(
        !page.contains("//") && !page.contains("style=") && !page.split_whitespace().any(handler),
        "{page}"
    );
    let code = get(server.address(), "/page.js").body;
    for wrong in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http:", "https:"]
    {
        assert!(!code.contains(wrong), "{wrong}");
    }
}

#[test]
fn the_state_is_the_newest_snapshot_and_the_last_200_decisions() {
    let server = server();
    for second in 1..=300 {
        let mut snapshot = snapshot(second * 1000);
        snapshot.decisions = vec![decision(second, "is limited")];
        server.publish(&snapshot);
    }
    let state: Value = serde_json::from_str(&get(server.address(), "/v1/state").body).expect("JSON");
    assert_eq!(state["state"]["time_ms"], 300_000);
    assert_eq!(state["decided"], 300);
    let decisions = state["decisions"].as_array().expect("a list");
    assert_eq!(decisions.len(), 200);
    assert_eq!((&decisions[0]["flow"], &decisions[199]["flow"]), (&101.into(), &300.into()));
}

#[test]
fn an_hour_of_points_is_kept_and_no_more() {
    let server = server();
    let mut snapshot = snapshot(0);
    for second in 1..=4000 {
        snapshot.time_ms = second * 1000;
        server.publish(&snapshot);
    }
    let recent: Value = serde_json::from_str(&get(server.address(), "/v1/recent").body).expect("JSON");
    let times = recent["time_ms"].as_array().expect("a list");
    assert_eq!((times.len(), &times[0]), (3600, &401_000.into()));
    let down = &recent["links"][0];
    assert_eq!(down["rate_bps"][0], 8_000_000);
    assert_eq!((&down["available_bps"][0], &down["low_bps"][0]), (&16_000_000.into(), &8_000_000.into()));
}

#[test]
fn the_estimate_that_shares_follow_is_drawn_though_another_is_narrower() {
    let server = server();
    let mut snapshot = snapshot(1000);
    let mut modem = snapshot.links[0].available[0].clone();
    (modem.source, modem.rate_bps, modem.low_bps) = ("modem".to_owned(), 20_000_000, 1);
    snapshot.links[0].available.push(modem);
    server.publish(&snapshot);
    snapshot.time_ms = 2000;
    snapshot.links[0].followed = Some("modem".to_owned());
    server.publish(&snapshot);
    let recent: Value = serde_json::from_str(&get(server.address(), "/v1/recent").body).expect("JSON");
    assert_eq!(recent["links"][0]["available_bps"], serde_json::json!([16_000_000, 20_000_000]));
}

#[test]
fn metrics_have_base_units_and_no_flows() {
    let server = server();
    server.publish(&snapshot(5000));
    let answer = get(server.address(), "/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    for line in [
        "headway_edge_snapshots_total 1",
        "headway_edge_snapshot_timestamp_seconds 5.0",
        "headway_edge_link_capacity_bytes_per_second{direction=\"down\"} 10000000.0",
        "headway_edge_available_low_bytes_per_second{direction=\"up\",source=\"passive\"} 1000000.0",
        "headway_edge_probe_budget_bytes 1000.0",
        "# EOF",
    ] {
        assert!(answer.body.lines().any(|have| have == line), "{line}\n{}", answer.body);
    }
}

#[test]
fn a_server_of_metrics_has_no_page() {
    let write = |out: &mut MetricWriter<'_>| out.counter("headway_tests", "Tests", 7);
    let server = MetricsServer::start(([127, 0, 0, 1], 0).into(), None, write).expect("loopback");
    assert!(get(server.address(), "/metrics").body.contains("headway_tests_total 7\n"));
    assert_eq!(get(server.address(), "/").status, 404);
}

#[test]
fn a_dropped_server_frees_its_port() {
    let server = server();
    let address = server.address();
    drop(server);
    std::net::TcpListener::bind(address).expect("the port is free");
}
