//! What names metrics outside names those that exist.

use std::collections::BTreeSet;

use crate::support::{get, server, snapshot};

const DASHBOARD: &str = include_str!("../../../../docs/edge-grafana.json");
const TABLE: &str = include_str!("../../../../docs/metrics.md");

/// Returns all words of a text that begin like a metric of the edge.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("headway_edge_")).collect()
}

/// Returns the names of all metrics that a full snapshot has.
fn served() -> String {
    let server = server();
    server.publish(&snapshot(1000));
    get(server.address(), "/metrics").body
}

#[test]
fn the_dashboard_names_only_metrics_that_exist() {
    serde_json::from_str::<serde_json::Value>(DASHBOARD).expect("JSON");
    let body = served();
    let samples: BTreeSet<&str> = named(&body);
    let wanted = named(DASHBOARD);
    assert!(wanted.len() > 15, "{wanted:?}");
    for name in wanted {
        assert!(samples.contains(name), "{name} is not in\n{body}");
    }
}

#[test]
fn the_table_has_every_metric() {
    let body = served();
    let samples = body.lines().filter(|line| !line.starts_with('#') && line.starts_with("headway_edge_"));
    let names: BTreeSet<&str> = samples.flat_map(|line| line.split(['{', ' ']).next()).collect();
    let written = named(TABLE);
    for name in &names {
        assert!(written.contains(name), "{name} is not in docs/metrics.md");
    }
    assert!(written.iter().all(|name| body.contains(name)), "{written:?}");
}
