//! Metrics of `headway edge`. Flows have no labels: their number has no bound.

use std::collections::BTreeMap;
use std::fmt;

use headway_edge::snapshot::{LinkState, RateState, Snapshot};

use super::MetricWriter;
use crate::shown::Shown;

/// The directions of the link, in the order of [`Snapshot::links`].
const DIRECTIONS: [&str; 2] = ["down", "up"];
const MS_PER_S: f64 = 1000.0;

/// Writes the newest snapshot.
pub(crate) fn write(shown: &Shown, out: &mut MetricWriter<'_>) -> fmt::Result {
    let viewers = shown.watched() as f64;
    out.gauge("headway_edge_page_viewers", "Event streams of the page", viewers)?;
    shown.newest(|snapshot, number, decided| {
        out.counter("headway_edge_snapshots", "Snapshots of the router, one a second", number)?;
        out.counter(
            "headway_edge_decisions",
            "Decisions that differed from the one before about the flow",
            decided,
        )?;
        if number == 0 {
            return Ok(());
        }
        counters(snapshot, out)?;
        links(snapshot, out)?;
        flows(snapshot, out)?;
        probes(snapshot, out)
    })
}

fn counters(snapshot: &Snapshot, out: &mut MetricWriter<'_>) -> fmt::Result {
    let time = snapshot.time_ms as f64 / MS_PER_S;
    out.gauge("headway_edge_snapshot_timestamp_seconds", "Time of the newest snapshot since 1970", time)?;
    let dry = f64::from(u8::from(snapshot.dry_run));
    out.gauge("headway_edge_dry_run", "Whether nothing is changed, 0 or 1", dry)?;
    let lowered = snapshot.lowered_segments;
    out.counter(
        "headway_edge_lowered_segments",
        "Segments whose window was lowered, or would have been",
        lowered,
    )?;
    out.counter("headway_edge_segments", "Segments of TCP", snapshot.segments)?;
    out.counter("headway_edge_other_packets", "Packets of something else than TCP", snapshot.other_packets)?;
    let Some(lost) = snapshot.history_lost else { return Ok(()) };
    out.counter(
        "headway_edge_history_lost_snapshots",
        "Snapshots that a slow or full disk kept out of the history",
        lost,
    )
}

fn links(snapshot: &Snapshot, out: &mut MetricWriter<'_>) -> fmt::Result {
    let links = || DIRECTIONS.into_iter().zip(&snapshot.links);
    let each = |of: fn(&LinkState) -> u64| {
        links().map(move |(direction, link)| {
            ([("direction", direction)], MetricWriter::bytes_per_second(of(link)))
        })
    };
    let capacity = each(|link| link.capacity_bps);
    out.gauges("headway_edge_link_capacity_bytes_per_second", "What the access link carries", capacity)?;
    let rate = each(|link| link.rate_bps);
    out.gauges("headway_edge_link_rate_bytes_per_second", "What passed in the last second", rate)?;
    let said = |list: fn(&LinkState) -> &[RateState], value: fn(&RateState) -> f64| {
        let rates =
            links().flat_map(move |(direction, link)| list(link).iter().map(move |rate| (direction, rate)));
        rates.map(move |(direction, rate)| {
            ([("direction", direction), ("source", rate.source.as_str())], value(rate))
        })
    };
    type Values = [(&'static str, &'static str, fn(&RateState) -> f64); 4];
    let available: Values = [
        ("bytes_per_second", "What is available to the flows of this router", |rate| {
            MetricWriter::bytes_per_second(rate.rate_bps)
        }),
        ("low_bytes_per_second", "Lower end of the interval of what is available", |rate| {
            MetricWriter::bytes_per_second(rate.low_bps)
        }),
        ("high_bytes_per_second", "Upper end of the interval of what is available", |rate| {
            MetricWriter::bytes_per_second(rate.high_bps)
        }),
        ("age_seconds", "Age of the estimate of what is available", |rate| rate.age_ms as f64 / MS_PER_S),
    ];
    for (name, help, value) in available {
        out.gauges(&format!("headway_edge_available_{name}"), help, said(|link| &link.available, value))?;
    }
    let narrow = said(|link| &link.narrow, |rate| MetricWriter::bytes_per_second(rate.rate_bps));
    out.gauges("headway_edge_narrow_bytes_per_second", "Capacity of the narrow link", narrow)
}

fn flows(snapshot: &Snapshot, out: &mut MetricWriter<'_>) -> fmt::Result {
    out.gauge("headway_edge_flows", "Flows", snapshot.flows_in_all as f64)?;
    let mut behaviours: BTreeMap<&str, u64> = BTreeMap::new();
    for flow in &snapshot.flows {
        *behaviours.entry(&flow.behaviour).or_default() += 1;
    }
    let help = "Flows with the highest rates, by what they are for";
    let each = behaviours.into_iter().map(|(name, count)| ([("behaviour", name)], count as f64));
    out.gauges("headway_edge_top_flows", help, each)
}

fn probes(snapshot: &Snapshot, out: &mut MetricWriter<'_>) -> fmt::Result {
    let Some(probes) = &snapshot.probes else { return Ok(()) };
    out.gauge("headway_edge_probe_budget_bytes", "Most bytes of probes an hour", probes.budget_bytes as f64)?;
    out.gauge(
        "headway_edge_probe_spent_bytes",
        "Bytes of probes in the last hour",
        probes.spent_bytes as f64,
    )?;
    out.gauge("headway_edge_probe_estimates", "Estimates by probes in the last hour", probes.estimates as f64)
}
