//! The flows as a table, and what has passed.

use console::{Alignment, pad_str, truncate_str};
use headway_edge::snapshot::FlowState;
use headway_kernel::EdgeCounters;
use headway_program::out::escape_controls;
use headway_units::{Bytes, Duration, Rate};

/// Lines besides those of flows: headings, how many are not shown, counters, how to end, the cursor.
const FRAME: usize = 5;
/// Widths of the columns.
const WIDTHS: [usize; 9] = [42, 12, 11, 9, 10, 11, 11, 10, 14];
const COLUMNS: [&str; 9] =
    ["client, server", "class", "behaviour", "RTT", "window", "let through", "down", "up", "limited by"];

fn cells(state: &FlowState) -> [String; 9] {
    let bytes = |value: Option<u64>| value.map_or("-".to_owned(), |value| Bytes::new(value).to_string());
    let rtt = state.rtt_ns.map(|rtt| Duration::from_ns(rtt as i64).to_string());
    let version = if state.protocol == "udp" { " udp" } else { "" };
    [
        format!("{} {}{version}", state.client, state.server),
        state.class.clone().unwrap_or_else(|| "-".to_owned()),
        state.behaviour.clone(),
        rtt.unwrap_or_else(|| "-".to_owned()),
        bytes(state.window_bytes),
        bytes(state.window_let_through_bytes),
        Rate::from_bps(state.down_bps).to_string(),
        Rate::from_bps(state.up_bps).to_string(),
        state.limited_by.clone(),
    ]
}

/// Formats the lines of a terminal of this height and width, with the first flows of so many.
pub(super) fn lines(
    (flows, all): (&[FlowState], usize),
    counted: &EdgeCounters,
    (height, width): (usize, usize),
) -> Vec<String> {
    let shown = height.saturating_sub(FRAME).max(1);
    let line = |cells: [String; 9]| {
        let padded = cells.iter().zip(WIDTHS).enumerate().map(|(column, (cell, width))| {
            let side = if column < 3 { Alignment::Left } else { Alignment::Right };
            pad_str(cell, width, side, Some("…")).into_owned()
        });
        padded.collect::<Vec<_>>().join(" ")
    };
    let mut lines = vec![line(COLUMNS.map(str::to_owned))];
    lines.extend(flows.iter().take(shown).map(|flow| line(cells(flow))));
    if let more @ 1.. = all.saturating_sub(shown) {
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
    if counted.marked > 0 {
        text += &format!(" {} packets were marked.", counted.marked);
    }
    if counted.split_reached > 0 {
        text += &format!(" {} connections were split.", counted.split_reached);
    }
    let passed = [
        (counted.exempt, "segments of connections that are not to be limited"),
        (counted.without_room, "connections without room in the table"),
        (counted.unlimited, "connections without a scale or RTT"),
        (counted.without_class, "connections of no class"),
        (counted.fragments, "fragments"),
        (counted.tunnels, "packets in tunnels"),
        (counted.datagrams_without_room, "datagrams without room in the table"),
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
