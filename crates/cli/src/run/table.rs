//! Summaries as tables on a terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};
use headway_core::{Duration, Rate};
use headway_record::{LinkResult, MeasureResult, ProgramResult, SourceResult, Spread, Summary, Total};

/// A table whose first column is text and whose others are numbers.
pub(crate) fn table(
    header: impl IntoIterator<Item: Into<Cell>>,
    rows: impl IntoIterator<Item: IntoIterator<Item = String>>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(|(column, text)| {
            let side = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(text).set_alignment(side)
        }));
    }
    table
}

/// The columns of [`flow_rows`].
pub(crate) const FLOW_COLUMNS: [&str; 8] =
    ["flows", "number", "goodput", "slowest", "fastest", "fairness", "retransmitted", "timeouts"];

/// Groups of flows, and their sum when there are several.
pub(crate) fn flow_rows(summary: &Summary) -> Vec<[String; 8]> {
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

/// The columns of [`link_rows`].
pub(crate) const LINK_COLUMNS: [&str; 8] =
    ["link", "capacity", "used", "cross", "mean delay", "99 % delay", "loss", "marked"];

/// Links that carried something and have a rate.
pub(crate) fn link_rows(summary: &Summary) -> Vec<[String; 8]> {
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

/// The columns of [`traffic_rows`].
pub(crate) const TRAFFIC_COLUMNS: [&str; 6] =
    ["traffic, samples of 1 ms", "mean", "5 %", "median", "95 %", "not arrived"];

/// Sources of datagrams: what they offer, and how much of it was lost or still under way at the end.
pub(crate) fn traffic_rows(summary: &Summary) -> Vec<[String; 6]> {
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

/// The columns of [`measure_rows`].
pub(crate) const MEASURE_COLUMNS: [&str; 9] = [
    "measurement",
    "began",
    "available",
    "interval",
    "was free",
    "on",
    "error",
    "others waited",
    "others lost",
];

/// Measurements of available bandwidth beside the truth, and what they did to others.
pub(crate) fn measure_rows(summary: &Summary) -> Vec<[String; 9]> {
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

/// The columns of [`program_rows`].
pub(crate) const PROGRAM_COLUMNS: [&str; 4] = ["program", "began", "ended", "with"];

/// Programs, and how they ended.
pub(crate) fn program_rows(summary: &Summary) -> Vec<[String; 4]> {
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

/// What a run found out.
pub(crate) fn summary(summary: &Summary) -> String {
    let seconds = summary.measured_ns as f64 / 1e9;
    let mut text =
        format!("{} on {}, seed {}, {seconds:.1} s counted\n", summary.scenario, summary.world, summary.seed);
    if summary.total.flows > 0 {
        text += &format!("{}\n", table(FLOW_COLUMNS, flow_rows(summary)));
    }
    text += &table(LINK_COLUMNS, link_rows(summary)).to_string();
    if !summary.traffic.is_empty() {
        text += &format!("\n{}", table(TRAFFIC_COLUMNS, traffic_rows(summary)));
    }
    if !summary.measurements.is_empty() {
        text += &format!("\n{}", table(MEASURE_COLUMNS, measure_rows(summary)));
    }
    if !summary.programs.is_empty() {
        text += &format!("\n{}", table(PROGRAM_COLUMNS, program_rows(summary)));
    }
    text
}

/// The main numbers over several seeds.
pub(crate) fn spread(spreads: &[Spread]) -> Table {
    let number = |value: f64| if value.abs() < 10.0 { format!("{value:.4}") } else { format!("{value:.0}") };
    let rows = spreads
        .iter()
        .map(|spread| [spread.metric.clone(), number(spread.median), number(spread.min), number(spread.max)]);
    table(["over seeds", "median", "least", "greatest"], rows)
}

/// A share with three digits.
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
