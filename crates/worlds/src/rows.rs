//! Summaries as table rows, for terminals and reports.

use headway_record::{
    Group, LinkResult, MeasureResult, ProgramResult, SelectResult, SourceResult, Summary, Total,
};
use headway_units::{Bytes, Duration, Rate};

/// Columns of [`flow_rows`].
pub const FLOW_COLUMNS: [&str; 8] =
    ["flows", "number", "goodput", "slowest", "fastest", "fairness", "retransmitted", "timeouts"];

/// Returns one row per group of flows, and their total when there are several groups.
pub fn flow_rows(summary: &Summary) -> Vec<[String; 8]> {
    let row = |name: &str, total: &Total| {
        let rate = |bps| Rate::from_bps(bps).to_string();
        [
            name.to_owned(),
            total.flows.to_string(),
            rate(total.goodput_bps),
            rate(total.goodput_min_bps),
            rate(total.goodput_max_bps),
            format!("{:.3}", total.fairness),
            percent(total.retransmitted_share()),
            total.timeouts.map(|count| count.to_string()).unwrap_or_default(),
        ]
    };
    let mut rows: Vec<_> = summary.groups.iter().map(|group| row(&group.name, &group.total)).collect();
    if rows.len() > 1 {
        rows.push(row("all", &summary.total));
    }
    rows
}

/// Columns of [`completion_rows`].
pub const COMPLETION_COLUMNS: [&str; 8] =
    ["completions", "flows", "mean", "median", "95 %", "99 %", "max", "most alive"];

/// Returns the completion times of the groups whose flows come and go.
pub fn completion_rows(summary: &Summary) -> Vec<[String; 8]> {
    let time = |ns: u64| Duration::from_ns(ns as i64).to_string();
    let row = |group: &Group| {
        let seen = group.completions.as_ref()?;
        let times = [seen.mean_ns, seen.p50_ns, seen.p95_ns, seen.p99_ns, seen.max_ns].map(time);
        let [mean, p50, p95, p99, max] = times;
        Some([
            group.name.clone(),
            seen.flows.to_string(),
            mean,
            p50,
            p95,
            p99,
            max,
            seen.most_alive.to_string(),
        ])
    };
    summary.groups.iter().filter_map(row).collect()
}

/// Columns of [`link_rows`].
pub const LINK_COLUMNS: [&str; 8] =
    ["link", "capacity", "utilisation", "cross", "mean delay", "99 % delay", "loss", "marked"];

/// Returns the links that have a rate and carried traffic.
pub fn link_rows(summary: &Summary) -> Vec<[String; 8]> {
    let limited = summary.links.iter().filter(|link| link.capacity_bps.is_some() && link.arrived > 0);
    limited.map(link_row).collect()
}

fn link_row(link: &LinkResult) -> [String; 8] {
    let rate = |bps| Rate::from_bps(bps).to_string();
    let time = |ns: u64| Duration::from_ns(ns as i64).to_string();
    [
        link.link.clone(),
        link.capacity_bps.map(rate).unwrap_or_default(),
        link.utilisation.map(percent).unwrap_or_default(),
        rate(link.cross_bps),
        time(link.delay_mean_ns),
        time(link.delay_p99_ns),
        percent(link.loss),
        percent(link.marked as f64 / link.arrived.max(1) as f64),
    ]
}

/// Columns of [`wire_rows`].
pub const WIRE_COLUMNS: [&str; 4] = ["link", "ACKs thinned", "copies", "damaged"];

/// Returns the links that dropped redundant ACKs, or doubled or damaged packets.
pub fn wire_rows(summary: &Summary) -> Vec<[String; 4]> {
    let counts = |link: &LinkResult| [link.thinned, link.copies, link.damaged];
    let touched = |link: &&LinkResult| counts(link).iter().any(|count| count.is_some_and(|count| count > 0));
    let text = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
    let row = |link: &LinkResult| {
        let [thinned, copies, damaged] = counts(link).map(text);
        [link.link.clone(), thinned, copies, damaged]
    };
    summary.links.iter().filter(touched).map(row).collect()
}

/// Columns of [`traffic_rows`].
pub const TRAFFIC_COLUMNS: [&str; 6] =
    ["traffic", "mean", "5 % of 1 ms*", "median*", "95 %*", "lost or in flight"];

/// What the asterisks of [`TRAFFIC_COLUMNS`] mean.
pub const TRAFFIC_NOTE: &str = "* of samples of 1 ms in the first 4 s of the source";

/// Returns the traffic sources: their offered rates over the counted time, quantiles of samples, and the
/// fraction lost or still in flight at the end.
pub fn traffic_rows(summary: &Summary) -> Vec<[String; 6]> {
    let rate = |bps| Rate::from_bps(bps).to_string();
    let row = |source: &SourceResult| {
        let lost = source.sent.saturating_sub(source.delivered) as f64 / source.sent.max(1) as f64;
        let name = format!("{} {}", source.traffic, source.model);
        [
            name,
            rate(source.mean_bps),
            rate(source.p5_bps),
            rate(source.p50_bps),
            rate(source.p95_bps),
            percent(lost),
        ]
    };
    summary.traffic.iter().map(row).collect()
}

/// Columns of [`measure_rows`].
pub const MEASURE_COLUMNS: [&str; 9] =
    ["measurement", "began", "available", "interval", "truth", "on", "error", "added delay", "others lost"];

/// Returns the measurements beside the truth, and their effect on other traffic.
pub fn measure_rows(summary: &Summary) -> Vec<[String; 9]> {
    let rate = |bps: Option<u64>| bps.map(|bps| Rate::from_bps(bps).to_string());
    let row = |one: &MeasureResult| {
        let interval = rate(one.low_bps).map(|low| match rate(one.high_bps) {
            Some(high) => format!("{low} to {high}"),
            None => format!("at least {low}"),
        });
        [
            format!("{} {}", one.measure, one.method),
            Duration::from_ns(one.begin_ns as i64).to_string(),
            rate(one.available_bps).or(one.failure.clone()).unwrap_or_default(),
            interval.unwrap_or_default(),
            rate(one.free_bps).unwrap_or_default(),
            one.tight_link.clone().unwrap_or_default(),
            one.error().map(|error| format!("{:+.1} %", error * 100.0)).unwrap_or_default(),
            Duration::from_ns(one.added_delay_max_ns as i64).to_string(),
            one.others_lost.to_string(),
        ]
    };
    summary.measurements.iter().map(row).collect()
}

/// Columns of [`select_rows`].
pub const SELECT_COLUMNS: [&str; 12] = [
    "choice",
    "on a good path",
    "on the best",
    "free there",
    "bulk user",
    "1 MB, median",
    "95 %",
    "per path and hour",
    "changes/h",
    "reacts in",
    "others lost/h",
    "right",
];

/// Returns the choices among paths beside their rivals.
pub fn select_rows(summary: &Summary) -> Vec<[String; 12]> {
    let time = |ns: u64| Duration::from_ns(ns as i64).to_string();
    let row = |one: &SelectResult| {
        let right = format!("{} of {}", one.right, one.decisions);
        [
            format!("{} {}", one.select, one.strategy),
            percent(one.on_good),
            percent(one.on_best),
            Rate::from_bps(one.free_bps).to_string(),
            one.bulk_bps.map_or_else(String::new, |bulk| Rate::from_bps(bulk).to_string()),
            time(one.fetch_p50_ns),
            time(one.fetch_p95_ns),
            Bytes::new(one.bytes_per_path_hour).to_string(),
            format!("{:.1}", one.changes_per_hour),
            time(one.reaction_ns),
            format!("{:.0}", one.others_lost_per_hour),
            if one.decisions > 0 { right } else { String::new() },
        ]
    };
    summary.selections.iter().map(row).collect()
}

/// Columns of [`program_rows`].
pub const PROGRAM_COLUMNS: [&str; 4] = ["program", "began", "ended", "with"];

/// Returns the programs, and how they ended.
pub fn program_rows(summary: &Summary) -> Vec<[String; 4]> {
    let time = |ns: u64| Duration::from_ns(ns as i64).to_string();
    let row = |one: &ProgramResult| {
        let mut command: String = one.command.chars().take(COMMAND).collect();
        if command.len() < one.command.len() {
            command += "...";
        }
        [
            format!("{} {}: {command}", one.program, one.at),
            time(one.started_ns),
            one.ended_ns.map(time).unwrap_or_default(),
            one.ending(),
        ]
    };
    summary.programs.iter().map(row).collect()
}

/// Characters of a command that a table shows.
const COMMAND: usize = 40;

/// Formats a fraction as a percentage with about three digits.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    let digits = if value >= 99.95 {
        1
    } else if value >= 1.0 || value == 0.0 {
        2
    } else {
        3
    };
    format!("{value:.digits$} %")
}
