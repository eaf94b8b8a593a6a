//! Results as tables.

use std::cell::RefCell;

use headway_estimate::sabes::{Anomalies, PairCapacity, PairRefusal};
use headway_passive::{FlowRow, Free, Known, PathRow, RoundTrips, Sums, Tracker, Unknown};
use headway_units::{Bytes, Duration, Rate};

use super::names::Names;
use headway_program::table::lines;
use headway_program::{out, print_line};

/// Columns of paths.
pub(super) const COLUMNS: [&str; 7] = ["path", "flows", "rate", "RTT", "capacity", "free", "limited by"];
/// Columns of transfers.
pub(super) const FLOW_COLUMNS: [&str; 8] =
    ["from", "to", "data", "rate", "RTT", "capacity", "free", "limited by"];
/// Columns behind those of paths and transfers, with `--per-flow` and on the page.
pub(super) const MORE_COLUMNS: [&str; 6] = [
    "capacity by pairs",
    "ACK RTT (min / median / p95)",
    "sent again",
    "out of order",
    "duplicate ACKs",
    "zero windows",
];

/// Formats the cells of [`MORE_COLUMNS`].
pub(super) fn more_cells(known: &Known) -> Vec<String> {
    let times = known
        .round_trips
        .map_or("-".to_owned(), |RoundTrips { least, median, p95 }| format!("{least} / {median} / {p95}"));
    let Anomalies { retransmissions, out_of_order, duplicate_acks, zero_windows } = known.sums.anomalies;
    let counts = [retransmissions, out_of_order, duplicate_acks, zero_windows].map(|count| count.to_string());
    [pairs(known.pairs), times].into_iter().chain(counts).collect()
}

/// Formats the cells of a path.
pub(super) fn path_cells(row: &PathRow, names: &mut Names) -> Vec<String> {
    [vec![names.path(&row.key), row.transfers.to_string()], known_cells(&row.known)].concat()
}

/// Returns the cells from the rate on.
fn known_cells(known: &Known) -> Vec<String> {
    vec![
        known.rate.to_string(),
        time(known.rtt),
        rate(known.capacity.map(|capacity| capacity.rate)),
        free(known.free, known.why),
        limit(&known.sums),
    ]
}

/// Formats the cells of a transfer.
pub(super) fn flow_cells(row: &FlowRow, names: &mut Names) -> Vec<String> {
    let [near, far] = [names.endpoint(row.near), names.endpoint(row.far)];
    let [from, to] = match row.direction {
        headway_passive::Direction::To => [near, far],
        headway_passive::Direction::From => [far, near],
    };
    let data = Bytes::new(row.known.volume.wire).to_string();
    [vec![from, to, data], known_cells(&row.known)].concat()
}

fn time(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| time.to_string())
}

fn rate(rate: Option<Rate>) -> String {
    rate.map_or("-".to_owned(), |rate| rate.to_string())
}

/// Formats what is free, or why it is not known.
fn free(free: Option<Free>, why: Option<Unknown>) -> String {
    match (free, why) {
        (Some(Free { rate, low, high, .. }), _) => with_interval(rate, low, high),
        (None, Some(why)) => format!("unknown: {why}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// Formats the capacity that packets which left together tell, or why they do not.
fn pairs(pairs: Option<Result<PairCapacity, PairRefusal>>) -> String {
    match pairs {
        Some(Ok(PairCapacity { rate, low, high, .. })) => with_interval(rate, low, high),
        Some(Err(why)) => format!("unknown: {why}"),
        None => "unknown".to_owned(),
    }
}

/// Formats a rate with its interval; the unit stands once where it is the same.
fn with_interval(rate: Rate, low: Rate, high: Rate) -> String {
    let [rate, low, high] = [rate, low, high].map(|rate| rate.to_string());
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    if unit(&low) != unit(&rate) || unit(&high) != unit(&rate) {
        return format!("{rate} ({low} to {high})");
    }
    let value = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    format!("{rate} ({} to {})", value(&low), value(&high))
}

fn limit(sums: &Sums) -> String {
    match sums.main_limit() {
        Some(limit) => format!("{} {:.0} %", limit.name().replace('-', " "), sums.share(limit) * 100.0),
        None => "-".to_owned(),
    }
}

/// Prints the result of the whole capture, with the transfers if they are to be listed.
pub(super) fn print(tracker: &Tracker, paths: &[PathRow], per_flow: bool, names: &mut Names) {
    let names = RefCell::new(names);
    if !paths.is_empty() {
        let rows = || paths.iter().map(|row| path_cells(row, &mut names.borrow_mut()));
        out::parts(lines(COLUMNS.to_vec(), rows));
    }
    if per_flow && tracker.each_flow().next().is_some() {
        let rows = || tracker.each_flow().map(|row| flow_cells(&row, &mut names.borrow_mut()));
        out::parts(lines(FLOW_COLUMNS.to_vec(), rows));
        let header = [&["path or transfer"][..], &MORE_COLUMNS].concat();
        out::parts(lines(header, || details(tracker, paths, &names)));
    }
    print_line!("{}", summary(tracker));
}

/// Returns the rows of the table of what TCP did on every path and in every transfer.
fn details<'a>(
    tracker: &'a Tracker,
    paths: &'a [PathRow],
    names: &'a RefCell<&mut Names>,
) -> impl Iterator<Item = Vec<String>> + 'a {
    let of_paths =
        paths.iter().map(|row| [vec![names.borrow_mut().path(&row.key)], more_cells(&row.known)].concat());
    let of_flows = tracker.each_flow().map(|row| {
        let ends = flow_cells(&row, &mut names.borrow_mut())[..2].join(" to ");
        [vec![ends], more_cells(&row.known)].concat()
    });
    of_paths.chain(of_flows)
}

/// Formats what was read.
pub(super) fn summary(tracker: &Tracker) -> String {
    let counts = tracker.counts();
    let time = tracker.first().map_or(Duration::ZERO, |first| tracker.now() - first);
    format!(
        "{} packets ({}) in {time}, {} of them used; connections: {}; nothing was sent.",
        counts.packets,
        Bytes::new(counts.bytes),
        counts.used,
        counts.connections
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_repeats_the_unit_only_where_it_differs() {
        let text = |mbps: [f64; 3]| {
            let [rate, low, high] = mbps.map(Rate::from_mbps);
            with_interval(rate, low, high)
        };
        assert_eq!(text([26.7, 20.1, 33.0]), "26.7 Mb/s (20.1 to 33.0)");
        assert_eq!(text([1.5, 0.9, 2.0]), "1.50 Mb/s (900 kb/s to 2.00 Mb/s)");
    }
}
