//! The connections as a table and as JSON.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use console::{Alignment, pad_str, truncate_str};
use headway_arithmetic::flow::{Flow, Key};
use headway_arithmetic::rwm;
use headway_edge::Shares;
use headway_kernel::EdgeCounters;
use headway_program::out::escape_controls;
use headway_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

/// Lines besides those of connections: headings, how many are not shown, counters, how to end, the cursor.
const FRAME: usize = 5;
/// Widths of the columns.
const WIDTHS: [usize; 7] = [42, 12, 9, 10, 11, 11, 10];
const COLUMNS: [&str; 7] = ["client, server", "class", "RTT", "window", "let through", "down", "up"];

/// A connection and how fast it is.
pub(super) struct Row {
    client: SocketAddr,
    server: SocketAddr,
    class: u32,
    rtt: Option<Duration>,
    /// The side of the client.
    side: usize,
    /// The end that sent the SYN, and the other one.
    told: [Option<u32>; 2],
    let_through: [Option<u32>; 2],
    /// What both ends receive.
    rates: [Rate; 2],
}

/// What the connections had acknowledged when they were last shown.
#[derive(Default)]
pub(super) struct Flows {
    before: HashMap<Key, [u32; 2]>,
    at: Option<Instant>,
}

impl Flows {
    /// Returns the connections with their rates since the last call, the fastest first.
    pub(super) fn rows(&mut self, flows: &[(Key, Flow)], shares: &Shares) -> Vec<Row> {
        let now = Instant::now();
        let time = self.at.replace(now).map(|before| (now - before).as_secs_f64());
        let known = flows.iter().map(|(key, flow)| (*key, [flow.acknowledged(0), flow.acknowledged(1)]));
        let before = std::mem::replace(&mut self.before, known.collect());
        let mut rows: Vec<Row> = flows
            .iter()
            .map(|(key, flow)| {
                let rate = |end: usize| {
                    let (was, time) = (before.get(key)?[end], time?);
                    let bytes = flow.acknowledged(end).wrapping_sub(was);
                    Some(Rate::from_bps_f64(f64::from(bytes) * 8.0 / time))
                };
                row(key, flow, shares, |end| rate(end).unwrap_or_default())
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.rates[0] + row.rates[1]));
        rows
    }
}

fn row(key: &Key, flow: &Flow, shares: &Shares, rate: impl Fn(usize) -> Rate) -> Row {
    let ends = [flow.client(), 1 - flow.client()];
    let address = |end| SocketAddr::new(key.address(end), key.port(end));
    let rtt = flow.rtt();
    // A window limits what is sent to the side of the end that tells it.
    let limit = |end: usize| {
        let share = shares[flow.side() ^ end].get(flow.class as usize).copied().unwrap_or(0);
        rwm::bytes(share, rtt.unwrap_or(0))
    };
    Row {
        client: address(ends[0]),
        server: address(ends[1]),
        class: flow.class,
        rtt: rtt.map(|rtt| Duration::from_ns(rtt as i64)),
        side: flow.side(),
        told: ends.map(|end| flow.told(end)),
        let_through: [0, 1].map(|end| flow.let_through(ends[end], limit(end))),
        rates: ends.map(rate),
    }
}

impl Row {
    fn class<'a>(&self, classes: &'a [String]) -> &'a str {
        classes.get(self.class as usize).map_or("-", String::as_str)
    }

    pub(super) fn json(&self, classes: &[String]) -> Value {
        json!({
            "client": self.client,
            "server": self.server,
            "class": classes.get(self.class as usize),
            "rtt_ns": self.rtt.map(Duration::ns),
            "client_window_bytes": self.told[0],
            "client_window_let_through_bytes": self.let_through[0],
            "server_window_bytes": self.told[1],
            "server_window_let_through_bytes": self.let_through[1],
            "client_receives_bps": self.rates[0].bps(),
            "server_receives_bps": self.rates[1].bps(),
        })
    }

    fn cells(&self, classes: &[String]) -> [String; 7] {
        let bytes =
            |value: Option<u32>| value.map_or("-".to_owned(), |value| Bytes::new(value.into()).to_string());
        // Of the two ends, that in the LAN: its window holds what comes down.
        let lan = self.side;
        [
            format!("{} {}", self.client, self.server),
            self.class(classes).to_owned(),
            self.rtt.map_or("-".to_owned(), |rtt| rtt.to_string()),
            bytes(self.told[lan]),
            bytes(self.let_through[lan]),
            self.rates[lan].to_string(),
            self.rates[1 - lan].to_string(),
        ]
    }
}

/// Formats the lines of a terminal of this height and width.
pub(super) fn lines(
    rows: &[Row],
    classes: &[String],
    counted: &EdgeCounters,
    (height, width): (usize, usize),
) -> Vec<String> {
    let shown = height.saturating_sub(FRAME).max(1);
    let line = |cells: [String; 7]| {
        let padded = cells.iter().zip(WIDTHS).enumerate().map(|(column, (cell, width))| {
            let side = if column < 2 { Alignment::Left } else { Alignment::Right };
            pad_str(cell, width, side, Some("…")).into_owned()
        });
        padded.collect::<Vec<_>>().join(" ")
    };
    let mut lines = vec![line(COLUMNS.map(str::to_owned))];
    lines.extend(rows.iter().take(shown).map(|row| line(row.cells(classes))));
    if let more @ 1.. = rows.len().saturating_sub(shown) {
        lines.push(format!("... and {more} more"));
    }
    lines.push(describe(counted));
    lines.push("Ctrl-C ends.".to_owned());
    lines.iter().map(|line| truncate_str(&escape_controls(line), width, "").into_owned()).collect()
}

/// What has passed, in a sentence or two.
pub(super) fn describe(counted: &EdgeCounters) -> String {
    let mut text = format!(
        "{} connections, {} still there; {} of {} segments had their window lowered.",
        counted.begun,
        counted.begun.saturating_sub(counted.ended),
        counted.lowered,
        counted.segments,
    );
    let passed = [
        (counted.without_room, "connections without room in the table"),
        (counted.unlimited, "connections without a scale or RTT"),
        (counted.without_class, "connections of no class"),
        (counted.fragments, "fragments"),
        (counted.tunnels, "packets in tunnels"),
        (counted.unattended, "segments while this process did not answer"),
    ];
    let passed: Vec<String> = passed
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !passed.is_empty() {
        text += &format!(" Passed as they were: {}.", passed.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_as_it_was_is_said_where_there_is_some() {
        let counted = EdgeCounters { segments: 9, lowered: 4, begun: 2, ended: 1, ..EdgeCounters::default() };
        assert_eq!(
            describe(&counted),
            "2 connections, 1 still there; 4 of 9 segments had their window lowered."
        );
        let text = describe(&EdgeCounters { fragments: 3, tunnels: 1, ..counted });
        assert!(text.ends_with("Passed as they were: 3 fragments, 1 packets in tunnels."), "{text}");
    }
}
