//! The HTML report of a run.

use headway_record::{Results, Series, Summary, TcpInterval};
use headway_units::{Bytes, Instant, Rate};

use crate::rows::{
    COMPLETION_COLUMNS, FLOW_COLUMNS, LINK_COLUMNS, MEASURE_COLUMNS, PROGRAM_COLUMNS, SELECT_COLUMNS,
    TRAFFIC_COLUMNS, TRAFFIC_NOTE, WIRE_COLUMNS, completion_rows, flow_rows, link_rows, measure_rows,
    program_rows, select_rows, traffic_rows, wire_rows,
};
use headway_figures::{CannotDraw, MAX_CURVES, Mark, Points, page};
use maud::{Markup, html};

/// Points per curve; more would not be visible.
const POINTS: usize = 1_000;

/// Returns the report of a run.
pub(crate) fn page(results: &Results) -> Result<String, CannotDraw> {
    let Results { summary, series, .. } = results;
    let (links, wires) = (link_rows(summary), wire_rows(summary));
    let queues = queues(summary, series);
    let body = html! {
        (introduction(summary))
        @if summary.total.flows > 0 { (flows(summary, series)?) }
        @if !links.is_empty() {
            h2 { "Links" }
            (page::table(LINK_COLUMNS, &links))
            p.note { "Rates count every byte on the wire. Delay is the time from arrival to the start of transmission." }
        }
        @if !wires.is_empty() { (page::table(WIRE_COLUMNS, &wires)) }
        @if !queues.is_empty() { (figure(&queues, "queue, kB")?) }
        @if !summary.traffic.is_empty() {
            h2 { "Other traffic" }
            (page::table(TRAFFIC_COLUMNS, &traffic_rows(summary)))
            p.note { (TRAFFIC_NOTE) }
        }
        @if !summary.measurements.is_empty() { (measurements(summary, series)?) }
        @if !summary.selections.is_empty() {
            h2 { "Choices among paths" }
            (page::table(SELECT_COLUMNS, &select_rows(summary)))
            p.note { "A path is good if at least 90 % of what the best has is free there." }
        }
        @if !summary.programs.is_empty() {
            h2 { "Programs" }
            (page::table(PROGRAM_COLUMNS, &program_rows(summary)))
        }
        @if let Some((name, curves)) = truth(summary, series) {
            h2 { "Available bandwidth of " (name) }
            (figure(&curves, "rate on the wire, Mb/s")?)
        }
    };
    Ok(page::document(&format!("{} on {}", summary.scenario, summary.world), body).into_string())
}

fn introduction(summary: &Summary) -> Markup {
    let (warmup, measured) = (summary.warmup_ns as f64 / 1e9, summary.measured_ns as f64 / 1e9);
    html! {
        p {
            (format!("Seed {}. Tables count {measured:.1} s after a warm-up of {warmup:.1} s.", summary.seed))
            @if summary.partial { " The run was interrupted." }
            @if !summary.valid { " " strong { "The machine disturbed this run: it does not count." } }
        }
    }
}

fn flows(summary: &Summary, series: &Series) -> Result<Markup, CannotDraw> {
    let completions = completion_rows(summary);
    Ok(html! {
        h2 { "Flows" }
        (page::table(FLOW_COLUMNS, &flow_rows(summary)))
        p.note { "Goodput counts payload that arrived in order." }
        @if !completions.is_empty() {
            (page::table(COMPLETION_COLUMNS, &completions))
            p.note {
                "Completion times run from the arrival of a flow to the acknowledgement of its last byte. The goodput of \
                 such groups is the payload of completed flows."
            }
        }
        @if !series.goodput.is_empty() { (figure(&goodput(series), "goodput, Mb/s")?) }
        @if !series.tcp.is_empty() {
            (figure(&each_sender(series, window), "window, segments")?)
            (figure(&each_sender(series, srtt), "smoothed RTT, ms")?)
            p.note {
                "Congestion window and smoothed round-trip time of flows that have begun, at the end of every interval."
            }
        }
    })
}

/// Returns the measurements as a table, and as a figure with the truth.
fn measurements(summary: &Summary, series: &Series) -> Result<Markup, CannotDraw> {
    Ok(html! {
        h2 { "Measurements" }
        div.wide { (page::table(MEASURE_COLUMNS, &measure_rows(summary))) }
        @if let Some(link) = tightest(summary) {
            (page::figure(&estimates(summary, series, link)?))
            p.note {
                "Truth is what all other traffic, TCP included, left of " (summary.links[link].link) ", the tight link."
            }
        }
    })
}

/// Draws the estimates beside what is free on a link.
fn estimates(summary: &Summary, series: &Series, link: usize) -> Result<String, CannotDraw> {
    let mbps = |bps: u64| Rate::from_bps(bps).mbps();
    let marks: Vec<Mark> = summary
        .measurements
        .iter()
        .filter_map(|one| {
            let rate = one.available_bps?;
            let low = one.low_bps.unwrap_or(rate);
            let high = one.high_bps.unwrap_or(rate);
            Some(Mark {
                seconds: one.end_ns as f64 / 1e9,
                rate: mbps(rate),
                low: mbps(low),
                high: mbps(high),
            })
        })
        .collect();
    let values = &series.links[link];
    let free = curve(series, |i, begin, end| {
        Rate::of(values[i].free_of_others().unwrap_or_default(), end - begin).unwrap_or_default().mbps()
    });
    let mean = summary.links[link].capacity_bps.map_or(1.0, mbps);
    let capacity = curve(series, |i, begin, end| {
        Rate::of(values[i].capacity.unwrap_or_default(), end - begin).unwrap_or_default().mbps()
    });
    let highest = capacity.iter().map(|point| point.1).fold(mean, f64::max);
    headway_figures::truth_and_estimates(&free, &marks, highest)
}

/// Returns the link that was the tight link in most measurements; among equals, the first in the file.
fn tightest(summary: &Summary) -> Option<usize> {
    let times = |index: &usize| {
        let name = &summary.links[*index].link;
        summary.measurements.iter().filter(|one| one.tight_link.as_ref() == Some(name)).count()
    };
    (0..summary.links.len()).rev().filter(|index| times(index) > 0).max_by_key(times)
}

/// Draws curves over time.
pub(crate) fn figure(curves: &[(String, Points)], y: &str) -> Result<Markup, CannotDraw> {
    Ok(page::figure(&headway_figures::steps(curves, y)?))
}

/// Returns the goodput of every flow, or the sum when there are too many curves.
fn goodput(series: &Series) -> Vec<(String, Points)> {
    let rate =
        |bytes: Bytes, begin: Instant, end: Instant| Rate::of(bytes, end - begin).unwrap_or_default().mbps();
    if series.goodput.len() <= MAX_CURVES {
        let flows = series.flows.iter().zip(&series.goodput);
        return flows
            .map(|(name, values)| {
                (format!("flow {name}"), curve(series, |i, begin, end| rate(values[i], begin, end)))
            })
            .collect();
    }
    let sum = |i: usize| series.goodput.iter().map(|values| values[i]).sum();
    let name = format!("sum of {} flows", series.goodput.len());
    vec![(name, curve(series, |i, begin, end| rate(sum(i), begin, end)))]
}

/// Returns a value of every sender, or the mean when there are too many curves.
fn each_sender(series: &Series, value: impl Fn(&TcpInterval) -> Option<f64>) -> Vec<(String, Points)> {
    if series.tcp.len() <= MAX_CURVES {
        let flows = series.flows.iter().zip(&series.tcp);
        return flows
            .map(|(name, values)| (format!("flow {name}"), known_curve(series, |i, _, _| value(&values[i]))))
            .collect();
    }
    vec![(format!("mean of {} flows", series.tcp.len()), mean_of_senders(series, value))]
}

/// Returns the mean over the senders that have a value.
fn mean_of_senders(series: &Series, value: impl Fn(&TcpInterval) -> Option<f64>) -> Points {
    known_curve(series, |i, _, _| {
        let values: Vec<f64> = series.tcp.iter().filter_map(|flow| value(&flow[i])).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    })
}

/// Returns the mean cwnd of flows that have started, in segments; `None` if the world does not report it.
pub(crate) fn mean_window(series: &Series) -> Option<Points> {
    (!series.tcp.is_empty()).then(|| mean_of_senders(series, window))
}

/// Returns cwnd in segments, once the flow has started.
fn window(tcp: &TcpInterval) -> Option<f64> {
    tcp.srtt.map(|_| f64::from(tcp.cwnd))
}

fn srtt(tcp: &TcpInterval) -> Option<f64> {
    tcp.srtt.map(|srtt| srtt.ms())
}

/// Returns the backlogs of the busiest links.
fn queues(summary: &Summary, series: &Series) -> Vec<(String, Points)> {
    let links = busiest(summary).into_iter().take(MAX_CURVES);
    links
        .map(|link| {
            let values = &series.links[link];
            (series.names[link].clone(), curve(series, |i, _, _| values[i].queue.get() as f64 / 1e3))
        })
        .collect()
}

/// Returns capacity, what cross traffic left of it, and the rate of measured flows, on the busiest link.
fn truth(summary: &Summary, series: &Series) -> Option<(String, Vec<(String, Points)>)> {
    let link = *busiest(summary).first()?;
    let values = &series.links[link];
    let rate = |bytes: Option<Bytes>, begin: Instant, end: Instant| {
        Rate::of(bytes.unwrap_or_default(), end - begin).unwrap_or_default().mbps()
    };
    let curves = vec![
        ("measured flows".to_owned(), curve(series, |i, b, e| rate(Some(values[i].measured), b, e))),
        ("free of cross traffic".to_owned(), curve(series, |i, b, e| rate(values[i].free(), b, e))),
        ("capacity".to_owned(), curve(series, |i, b, e| rate(values[i].capacity, b, e))),
    ];
    Some((series.names[link].clone(), curves))
}

/// Returns the links with a rate that carried traffic, busiest first.
fn busiest(summary: &Summary) -> Vec<usize> {
    let used = |index: &usize| summary.links[*index].utilisation.unwrap_or(0.0);
    let mut links: Vec<usize> = (0..summary.links.len()).filter(|index| used(index) > 0.0).collect();
    links.sort_by(|one, other| used(other).total_cmp(&used(one)));
    links
}

/// Returns a value for every interval, averaged over several intervals when there are too many.
pub(crate) fn curve(series: &Series, value: impl Fn(usize, Instant, Instant) -> f64) -> Points {
    known_curve(series, |index, begin, end| Some(value(index, begin, end)))
}

/// As [`curve`], omitting intervals without a value.
fn known_curve(series: &Series, value: impl Fn(usize, Instant, Instant) -> Option<f64>) -> Points {
    let points: Vec<(f64, f64)> = series
        .intervals()
        .filter_map(|(index, begin, end, _)| {
            Some(((begin - Instant::ZERO).secs_f64(), value(index, begin, end)?))
        })
        .collect();
    let step = points.len().div_ceil(POINTS).max(1);
    let mean =
        |part: &[(f64, f64)]| (part[0].0, part.iter().map(|point| point.1).sum::<f64>() / part.len() as f64);
    points.chunks(step).map(mean).collect()
}
