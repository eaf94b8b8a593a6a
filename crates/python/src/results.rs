//! The results of a run as tables, with the columns of the files that `headway run` writes.

use headway_record::{FlowResult, Interval, LinkResult, Results, StreamTruth, TcpInterval, json_lines};
use headway_units::{Bytes, Duration, Instant, Rate};
use headway_worlds::Outcome;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::Columns;
use crate::errors::RunError;

/// Returns an outcome as a dictionary: the summary as JSON, the tables, and what it cost.
pub(crate) fn outcome<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let results = &outcome.results;
    let failed = |reason: serde_json::Error| RunError::new_err(reason.to_string());
    let dict = PyDict::new(py);
    dict.set_item("summary", serde_json::to_string(&results.summary).map_err(failed)?)?;
    dict.set_item("control", json_lines(&results.control).map_err(failed)?)?;
    dict.set_item("events", outcome.events)?;
    dict.set_item("wall_ns", u64::try_from(outcome.wall.as_nanos()).unwrap_or(u64::MAX))?;
    dict.set_item(
        "troubles",
        outcome.invalid_reason.iter().cloned().chain(outcome.failures()).collect::<Vec<_>>(),
    )?;
    let tables = PyDict::new(py);
    tables.set_item("flows", flows(py, &results.flows)?)?;
    tables.set_item("links", links(py, &results.summary.links)?)?;
    tables.set_item("goodput", goodput(py, results)?)?;
    tables.set_item("truth", truth(py, results)?)?;
    if !results.series.tcp.is_empty() {
        tables.set_item("tcp", senders(py, results)?)?;
    }
    if !results.completion_times.is_empty() {
        tables.set_item("completions", completions(py, results)?)?;
    }
    if !results.streams.is_empty() {
        tables.set_item("streams", streams(py, &results.streams)?)?;
    }
    dict.set_item("tables", tables)?;
    Ok(dict)
}

/// Converts a number that may be missing; up to 2^53 exactly, which is 104 days or 9 Pb/s.
fn float(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn flows<'py>(py: Python<'py>, flows: &[FlowResult]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py);
    let number = |name: &str, of: fn(&FlowResult) -> u64| table.numbers(name, flows.iter().map(of));
    let sparse = |name: &str, of: fn(&FlowResult) -> Option<u64>| {
        table.sparse(name, flows.iter().map(|flow| float(of(flow))))
    };
    number("flow", |flow| flow.flow)?;
    table.texts("group", flows.iter().map(|flow| flow.group.as_str()))?;
    number("start_ns", |flow| flow.start_ns)?;
    sparse("finished_ns", |flow| flow.finished_ns)?;
    number("goodput_bytes", |flow| flow.goodput_bytes)?;
    number("goodput_bps", |flow| flow.goodput_bps)?;
    number("sent", |flow| flow.sent)?;
    number("retransmitted", |flow| flow.retransmitted)?;
    sparse("timeouts", |flow| flow.timeouts)?;
    sparse("recoveries", |flow| flow.recoveries)?;
    sparse("marks", |flow| flow.marks)?;
    number("cwnd_segments", |flow| u64::from(flow.cwnd))?;
    sparse("srtt_ns", |flow| flow.srtt_ns)?;
    sparse("min_rtt_ns", |flow| flow.min_rtt_ns)?;
    Ok(table.into_dict())
}

fn links<'py>(py: Python<'py>, links: &[LinkResult]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py);
    let number = |name: &str, of: fn(&LinkResult) -> u64| table.numbers(name, links.iter().map(of));
    let sparse = |name: &str, of: fn(&LinkResult) -> Option<u64>| {
        table.sparse(name, links.iter().map(|link| float(of(link))))
    };
    table.texts("link", links.iter().map(|link| link.link.as_str()))?;
    sparse("capacity_bps", |link| link.capacity_bps)?;
    table.sparse("utilisation", links.iter().map(|link| link.utilisation))?;
    number("measured_bps", |link| link.measured_bps)?;
    number("cross_bps", |link| link.cross_bps)?;
    sparse("free_bps", |link| link.free_bps)?;
    number("delay_mean_ns", |link| link.delay_mean_ns)?;
    number("delay_p50_ns", |link| link.delay_p50_ns)?;
    number("delay_p99_ns", |link| link.delay_p99_ns)?;
    number("delay_max_ns", |link| link.delay_max_ns)?;
    number("arrived", |link| link.arrived)?;
    number("dropped", |link| link.dropped)?;
    number("policed", |link| link.policed)?;
    number("lost", |link| link.lost)?;
    number("marked", |link| link.marked)?;
    table.numbers("loss", links.iter().map(|link| link.loss))?;
    sparse("thinned", |link| link.thinned)?;
    sparse("copies", |link| link.copies)?;
    sparse("damaged", |link| link.damaged)?;
    Ok(table.into_dict())
}

/// A value of a flow or link in an interval: begin and end, name, and value.
type InInterval<'a, T> = (Instant, Instant, &'a str, &'a T);

/// Returns the values of all `series` in the order of the files: interval by interval.
fn rows<'a, T>(results: &'a Results, names: &'a [String], series: &'a [Vec<T>]) -> Vec<InInterval<'a, T>> {
    let intervals = results.series.intervals();
    let of = |(index, begin, end, _): (usize, Instant, Instant, Duration)| {
        names.iter().zip(series).map(move |(name, values)| (begin, end, name.as_str(), &values[index]))
    };
    intervals.flat_map(of).collect()
}

/// Begins a table of values in intervals.
fn in_intervals<'py, T>(py: Python<'py>, rows: &[InInterval<'_, T>], what: &str) -> PyResult<Columns<'py>> {
    let table = Columns::new(py);
    table.numbers("begin_ns", rows.iter().map(|row| row.0.ns()))?;
    table.numbers("end_ns", rows.iter().map(|row| row.1.ns()))?;
    table.texts(what, rows.iter().map(|row| row.2))?;
    Ok(table)
}

fn goodput<'py>(py: Python<'py>, results: &Results) -> PyResult<Bound<'py, PyDict>> {
    let rows = rows(results, &results.series.flows, &results.series.goodput);
    let table = in_intervals(py, &rows, "flow")?;
    let rate = |(begin, end, _, bytes): &InInterval<'_, Bytes>| Rate::of(**bytes, *end - *begin);
    table.numbers("goodput_bps", rows.iter().map(|row| rate(row).unwrap_or_default().bps()))?;
    Ok(table.into_dict())
}

fn truth<'py>(py: Python<'py>, results: &Results) -> PyResult<Bound<'py, PyDict>> {
    let rows = rows(results, &results.series.names, &results.series.links);
    let table = in_intervals(py, &rows, "link")?;
    let number = |name: &str, of: fn(&Interval) -> u64| table.numbers(name, rows.iter().map(|row| of(row.3)));
    let sparse = |name: &str, of: fn(&Interval) -> Option<Bytes>| {
        table.sparse(name, rows.iter().map(|row| float(of(row.3).map(Bytes::get))))
    };
    sparse("capacity_bytes", |values| values.capacity)?;
    number("measured_bytes", |values| values.measured.get())?;
    number("cross_bytes", |values| values.cross.get())?;
    sparse("free_bytes", Interval::free)?;
    number("dropped_packets", |values| values.dropped)?;
    number("queue_bytes", |values| values.queue.get())?;
    Ok(table.into_dict())
}

fn senders<'py>(py: Python<'py>, results: &Results) -> PyResult<Bound<'py, PyDict>> {
    let rows = rows(results, &results.series.flows, &results.series.tcp);
    let table = Columns::new(py);
    table.numbers("end_ns", rows.iter().map(|row| row.1.ns()))?;
    table.texts("flow", rows.iter().map(|row| row.2))?;
    let number =
        |name: &str, of: fn(&TcpInterval) -> u64| table.numbers(name, rows.iter().map(|row| of(row.3)));
    let sparse = |name: &str, of: fn(&TcpInterval) -> Option<u64>| {
        table.sparse(name, rows.iter().map(|row| float(of(row.3))))
    };
    number("cwnd_segments", |tcp| u64::from(tcp.cwnd))?;
    sparse("ssthresh_segments", |tcp| tcp.ssthresh.map(u64::from))?;
    sparse("srtt_ns", |tcp| tcp.srtt.map(|time| time.ns() as u64))?;
    sparse("pacing_bps", |tcp| tcp.pacing.map(Rate::bps))?;
    number("sent", |tcp| tcp.sent)?;
    number("retransmitted", |tcp| tcp.retransmitted)?;
    sparse("timeouts", |tcp| tcp.timeouts)?;
    sparse("marks", |tcp| tcp.marks)?;
    Ok(table.into_dict())
}

fn completions<'py>(py: Python<'py>, results: &Results) -> PyResult<Bound<'py, PyDict>> {
    let groups = results.completion_times.iter();
    let rows: Vec<(&str, Duration, u64, u64)> = groups
        .flat_map(|(group, times)| {
            times.cumulative().map(move |(time, flows)| (group.as_str(), time, flows, times.count()))
        })
        .collect();
    let table = Columns::new(py);
    table.texts("group", rows.iter().map(|row| row.0))?;
    table.numbers("completion_ns", rows.iter().map(|row| row.1.ns()))?;
    table.numbers("flows", rows.iter().map(|row| row.2))?;
    table.numbers("share", rows.iter().map(|row| row.2 as f64 / row.3 as f64))?;
    Ok(table.into_dict())
}

fn streams<'py>(py: Python<'py>, streams: &[(u64, StreamTruth)]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py);
    table.numbers("measure", streams.iter().map(|(measure, _)| *measure))?;
    let truths = || streams.iter().map(|(_, truth)| truth);
    table.numbers("sent_ns", truths().map(|truth| truth.sent.ns()))?;
    table.numbers("rate_bps", truths().map(|truth| truth.rate.bps()))?;
    table.numbers("packets", truths().map(|truth| u64::from(truth.packets.0)))?;
    table.numbers("lost", truths().map(|truth| u64::from(truth.packets.1)))?;
    table.sparse("free_bps", truths().map(|truth| truth.free.map(Rate::bps_f64)))?;
    Ok(table.into_dict())
}
