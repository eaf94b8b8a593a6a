//! Connections as tables, and what was seen of each as JSON.

use console::{Alignment, pad_str, truncate_str};
use headway_program::out::escape_controls;
use headway_program::table::table;
use headway_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

use super::watch::{Counts, Followed, Window};

/// Lines besides those of connections: headings, how many are not shown, how to end, the cursor.
const FRAME: usize = 4;
/// Columns of the live table, those that matter least behind, and their widths: a narrow
/// terminal shows the first.
const COLUMNS: [(&str, usize); 10] = [
    ("local, peer", 44),
    ("out", 10),
    ("in", 10),
    ("RTT", 9),
    ("cwnd", 6),
    ("told", 9),
    ("seen", 9),
    ("unread", 9),
    ("not acked", 9),
    ("cc", 8),
];
/// Most connections in the table at the end, those with the most data first.
pub(super) const SUMMED: usize = 20;

fn bytes(bytes: u32) -> String {
    Bytes::new(bytes.into()).to_string()
}

/// Formats the lines of a terminal of this height and width, the fastest connections first.
pub(super) fn lines<'a>(
    connections: impl Iterator<Item = &'a mut Followed>,
    (height, width): (usize, usize),
) -> Vec<String> {
    let shown = height.saturating_sub(FRAME).max(1);
    let mut rows: Vec<_> = connections.map(|it| (it.fresh_rates(), &*it)).collect();
    rows.sort_by_key(|(rates, it)| (std::cmp::Reverse(rates[0] + rates[1]), it.now.cookie));
    let mut lines = vec![line(&COLUMNS.map(|(name, _)| name.to_owned()))];
    lines.extend(rows.iter().take(shown).map(|(rates, followed)| line(&cells(*rates, followed))));
    if let more @ 1.. = rows.len().saturating_sub(shown) {
        lines.push(format!("... and {more} more"));
    }
    lines.push("Ctrl-C ends.".to_owned());
    lines.iter().map(|line| truncate_str(&escape_controls(line), width, "").into_owned()).collect()
}

fn line(cells: &[String; COLUMNS.len()]) -> String {
    let padded = cells.iter().zip(COLUMNS).enumerate().map(|(column, (cell, (_, width)))| {
        let side = if column == 0 { Alignment::Left } else { Alignment::Right };
        pad_str(cell, width, side, Some("…")).into_owned()
    });
    padded.collect::<Vec<_>>().join(" ")
}

fn cells(rates: [Rate; 2], followed: &Followed) -> [String; COLUMNS.len()] {
    let (now, info) = (&followed.now, &followed.now.info);
    let window = |window: Option<u32>| window.map_or("-".to_owned(), bytes);
    [
        format!("{} {}", now.local, now.peer),
        rates[0].to_string(),
        rates[1].to_string(),
        Duration::from_us(info.rtt().into()).to_string(),
        info.cwnd().to_string(),
        window(info.window_told()),
        window(info.window_seen()),
        bytes(now.unread),
        bytes(now.unacknowledged),
        now.controller.clone(),
    ]
}

/// Formats what was seen of connections until they or the command ended.
pub(super) fn summary(connections: &[Followed]) -> String {
    let names =
        ["local, peer", "time", "out", "in", "RTT (median / p95 / max)", "told", "seen", "sent again"];
    let rows = connections.iter().map(|it| {
        let [out, into] = it.mean_rates();
        let rtt = |part| it.rtts.quantile(part);
        vec![
            format!("{} {}", it.now.local, it.now.peer),
            it.time().to_string(),
            out.to_string(),
            into.to_string(),
            format!("{} / {} / {}", rtt(0.5), rtt(0.95), it.rtts.max()),
            window(it.told, it.looks),
            window(it.seen, it.looks),
            it.now.info.retransmitted().to_string(),
        ]
    });
    table(names, rows).to_string()
}

/// Formats the range of a window, and how often it was closed.
fn window(window: Window, looks: u64) -> String {
    let Some((least, most)) = window.range else { return "-".to_owned() };
    let range = if least == most { bytes(most) } else { format!("{} to {}", bytes(least), bytes(most)) };
    match window.zeros {
        0 => range,
        zeros => format!("{range}, closed {:.0} %", 100.0 * zeros as f64 / looks as f64),
    }
}

/// Says how much was seen.
pub(super) fn describe(counts: &Counts, lost: u64) -> String {
    let mut text = format!(
        "{} connections, {} of them have ended; the kernel was asked {} times.",
        counts.connections, counts.ended, counts.looks
    );
    if counts.interrupted > 0 {
        text += &format!(" {} of its lists were incomplete.", counts.interrupted);
    }
    if counts.without_room > 0 {
        text += &format!(
            " {} connections more at a time were not followed: use `--filter`, or more `--connections`.",
            counts.without_room
        );
    }
    if lost > 0 {
        text += &format!(" {lost} rows had no room in the folder.");
    }
    text
}

/// Formats what was seen of a connection.
pub(super) fn seen_of(followed: &Followed) -> Value {
    let ([out, into], [sent, received]) = (followed.mean_rates(), followed.moved());
    let rtt = |part| (followed.rtts.count() > 0).then(|| followed.rtts.quantile(part).us());
    let window = |window: Window| {
        json!({
            "least_bytes": window.range.map(|(least, _)| least),
            "most_bytes": window.range.map(|(_, most)| most),
            "zero_looks": window.zeros,
        })
    };
    json!({
        "local": followed.now.local,
        "peer": followed.now.peer,
        "controller": followed.now.controller,
        "duration_ms": followed.time().ms(),
        "looks": followed.looks,
        "acknowledged_bytes": sent.get(),
        "received_bytes": received.get(),
        "out_bps": out.bps(),
        "in_bps": into.bps(),
        "rtt_median_us": rtt(0.5),
        "rtt_p95_us": rtt(0.95),
        "rtt_max_us": rtt(1.0),
        "window_told": window(followed.told),
        "window_seen": window(followed.seen),
        "retransmitted_segments": followed.now.info.retransmitted(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_was_closed_says_how_often() {
        let range = Some((0, 65_536));
        assert_eq!(window(Window { range, zeros: 25 }, 100), "0 B to 65.5 kB, closed 25 %");
        assert_eq!(window(Window { range: Some((500, 500)), zeros: 0 }, 100), "500 B");
        assert_eq!(window(Window::default(), 100), "-");
    }

    #[test]
    fn what_was_left_out_is_said_with_the_way_to_see_it() {
        let counts = Counts { looks: 9, connections: 2, ended: 1, ..Counts::default() };
        assert_eq!(
            describe(&counts, 0),
            "2 connections, 1 of them have ended; the kernel was asked 9 times."
        );
        let text = describe(&Counts { without_room: 3, interrupted: 1, ..counts }, 7);
        assert!(text.contains("3 connections more at a time were not followed: use `--filter`"), "{text}");
        assert!(text.ends_with("7 rows had no room in the folder."), "{text}");
    }
}
