//! Results as JSON and CSV.

use headway_estimate::sabes::{Limit, PairRefusal, WindowRefusal};
use headway_passive::{Known, PathRow, Skipped, Tracker, Unknown};
use headway_record::csv::{Fixed, Text};
use headway_record::row;
use headway_units::{Duration, Instant, Rate};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::names::Names;
use headway_program::build::BUILD;
use headway_program::time::rfc3339;
use headway_program::{out, print_line};

/// Returns a row of `--csv`; unknown values are empty.
pub(super) fn csv_row(at: Instant, row: &PathRow, names: &mut Names) -> impl Serialize + use<> {
    let bps = |rate: Option<Rate>| rate.map(Rate::bps);
    let Known { rate, rtt, capacity, free, round_trips: times, sums, .. } = row.known;
    let us = |time: Option<Duration>| time.map(|time| Fixed::<1>(time.us()));
    let share = |limit| Fixed::<4>(sums.share(limit));
    let anomalies = sums.anomalies;
    row! {
        at_unix_ns: at,
        direction: row.key.direction.name(),
        peer: Text(names.peer(row.key.peer)),
        flows: row.transfers,
        rate_bps: rate.bps(),
        rtt_us: us(rtt),
        capacity_bps: bps(capacity.map(|capacity| capacity.rate)),
        free_bps: bps(free.map(|free| free.rate)),
        free_low_bps: bps(free.map(|free| free.low)),
        free_high_bps: bps(free.map(|free| free.high)),
        windows_used: sums.used,
        windows_refused: sums.refused.iter().sum::<u64>(),
        limited_application: share(Limit::Application),
        limited_receive_window: share(Limit::ReceiveWindow),
        limited_path: share(Limit::Path),
        limited_unknown: share(Limit::Unknown),
        ack_rtt_min_us: us(times.map(|times| times.least)),
        ack_rtt_median_us: us(times.map(|times| times.median)),
        ack_rtt_p95_us: us(times.map(|times| times.p95)),
        retransmissions: anomalies.retransmissions,
        out_of_order: anomalies.out_of_order,
        duplicate_acks: anomalies.duplicate_acks,
        zero_windows: anomalies.zero_windows,
        at_rfc3339: rfc3339(at),
    }
}

/// Formats what `--json` prints per interval when live.
pub(super) fn interval(at: Instant, rows: &[PathRow], drops: u64, names: &mut Names) -> Value {
    let paths: Vec<Value> = rows.iter().map(|row| path(row, names)).collect();
    json!({ "type": "interval", "at_unix_ns": at.ns(), "at_rfc3339": rfc3339(at), "dropped": drops, "paths": paths })
}

/// Prints what `--json` prints at the end, with the transfers if they are to be listed.
pub(super) fn print(
    tracker: &Tracker,
    paths: &[PathRow],
    per_flow: bool,
    drops: u64,
    notes: &[String],
    names: &mut Names,
) {
    let counts = tracker.counts();
    let skipped: Map<String, Value> = Skipped::ALL
        .into_iter()
        .map(|reason| (reason.name().to_owned(), json!(counts.skipped(reason))))
        .collect();
    let unread = counts.unread.into_iter().flatten();
    let unread: Map<String, Value> = unread.map(|(what, count)| (what.to_string(), json!(count))).collect();
    let mut object = json!({
        "type": "passive",
        "build": BUILD,
        "started_unix_ns": tracker.first().map(Instant::ns),
        "started_rfc3339": tracker.first().map(rfc3339),
        "finished_unix_ns": tracker.first().map(|_| tracker.now().ns()),
        "finished_rfc3339": tracker.first().map(|_| rfc3339(tracker.now())),
        "packets": counts.packets,
        "packet_bytes": counts.bytes,
        "packets_used": counts.used,
        "packets_skipped": skipped,
        "protocols_not_read": unread,
        "packets_dropped": drops,
        "packets_oversized": counts.oversized,
        "clock_steps": tracker.clock().steps,
        "disordered": tracker.clock().disordered,
        "connections": counts.connections,
        "connections_evicted": counts.evicted,
        "connections_one_way": tracker.one_way(),
        "transfers_acks_only": counts.acks_only,
        "connections_proxied": counts.proxies,
        "sent_bytes": 0,
        "notes": notes,
    });
    // Rows are made as they are printed; paths have their names first.
    paths.iter().for_each(|row| _ = names.peer(row.key.peer));
    let mut rows = vec!["paths"];
    rows.extend(per_flow.then_some("flows"));
    rows.into_iter().for_each(|key| object[key] = Value::Null);
    let mut before = '{';
    for (key, value) in object.as_object().into_iter().flatten() {
        out::parts([format!("{before}{}:", json!(key))]);
        match &key[..] {
            "paths" => out::parts(array(paths.iter().map(|row| path(row, names)))),
            "flows" => out::parts(array(tracker.each_flow().map(|row| flow(&row, names)))),
            _ => out::parts([value.to_string()]),
        }
        before = ',';
    }
    print_line!("}}");
}

/// Formats values as an array, one by one.
fn array(values: impl Iterator<Item = Value>) -> impl Iterator<Item = String> {
    let values = values.enumerate().map(|(k, value)| format!("{}{value}", if k > 0 { "," } else { "" }));
    ["[".to_owned()].into_iter().chain(values).chain(["]".to_owned()])
}

fn path(row: &PathRow, names: &mut Names) -> Value {
    let mut value = json!({
        "direction": row.key.direction.name(),
        "peer": names.peer(row.key.peer),
        "flows": row.transfers,
    });
    extend(&mut value, measured(&row.known));
    value
}

fn flow(row: &headway_passive::FlowRow, names: &mut Names) -> Value {
    let mut value = json!({
        "near": names.endpoint(row.near),
        "far": names.endpoint(row.far),
        "direction": row.direction.name(),
        "near_known_by": row.evidence.name(),
        "duration_ms": row.duration.ms(),
        "handshake_rtt_us": row.handshake.map(Duration::us),
    });
    extend(&mut value, measured(&row.known));
    value
}

fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(value), Value::Object(more)) = (value, more) {
        value.extend(more);
    }
}

/// Formats what paths and transfers have in common.
fn measured(known: &Known) -> Value {
    let Known { volume, rate, rtt, capacity, pairs, free, why, round_trips, ref sums } = *known;
    let found = pairs.and_then(Result::ok);
    let refused: Map<String, Value> = WindowRefusal::ALL
        .into_iter()
        .map(|reason| (reason.name().to_owned(), json!(sums.refused[reason as usize])))
        .collect();
    let limited: Map<String, Value> =
        Limit::ALL.into_iter().map(|limit| (limit.name().to_owned(), json!(sums.share(limit)))).collect();
    json!({
        "data_packets": volume.packets,
        "data_wire_bytes": volume.wire,
        "rate_bps": rate.bps(),
        "rtt_us": rtt.map(Duration::us),
        "capacity_bps": capacity.map(|capacity| capacity.rate.bps()),
        "capacity_low_bps": capacity.map(|capacity| capacity.low.bps()),
        "capacity_high_bps": capacity.map(|capacity| capacity.high.bps()),
        "pair_capacity_bps": found.map(|found| found.rate.bps()),
        "pair_capacity_low_bps": found.map(|found| found.low.bps()),
        "pair_capacity_high_bps": found.map(|found| found.high.bps()),
        "pair_capacity_pairs": found.map(|found| found.pairs),
        "pair_capacity_unknown": pairs.and_then(Result::err).map(PairRefusal::name),
        "free_bps": free.map(|free| free.rate.bps()),
        "free_low_bps": free.map(|free| free.low.bps()),
        "free_high_bps": free.map(|free| free.high.bps()),
        "free_unknown": why.map(Unknown::name),
        "windows_used": sums.used,
        "windows_refused": refused,
        "limited_by": sums.main_limit().map(Limit::name),
        "limited_share": limited,
        "ack_rtt_min_us": round_trips.map(|times| times.least.us()),
        "ack_rtt_median_us": round_trips.map(|times| times.median.us()),
        "ack_rtt_p95_us": round_trips.map(|times| times.p95.us()),
        "retransmissions": sums.anomalies.retransmissions,
        "out_of_order": sums.anomalies.out_of_order,
        "duplicate_acks": sums.anomalies.duplicate_acks,
        "zero_windows": sums.anomalies.zero_windows,
    })
}
