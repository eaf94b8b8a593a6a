//! Results as CSV.

use std::io::{self, Write};

pub use csv::Writer;
use csv::WriterBuilder;
use headway_units::{Bytes, Duration, Instant, Rate};
use serde::{Serialize, Serializer};

use crate::results::Results;
use crate::series::{Fractional, Interval, Series, TcpInterval};
use crate::stream::StreamTruth;
use crate::summary::{FlowResult, LinkResult};

/// Makes a row of a table: the columns with their values, in one list, so that names and values cannot part.
#[macro_export]
macro_rules! row {
    ($($column:ident: $value:expr),+ $(,)?) => {{
        // Every type parameter has the name of its column.
        #[allow(non_camel_case_types)]
        let row = {
            #[derive(::serde::Serialize)]
            struct Row<$($column),+> { $($column: $column),+ }
            Row { $($column: $value),+ }
        };
        row
    }};
}

impl Results {
    /// Formats the flows, one line each.
    pub fn flows_csv(&self) -> String {
        table(&FlowResult::default(), &self.flows)
    }

    /// Formats the links, one line per direction.
    pub fn links_csv(&self) -> String {
        table(link(&LinkResult::default()), self.summary.links.iter().map(link))
    }

    /// Formats goodput over time: one line per interval and flow, for flows with a time series.
    pub fn goodput_csv(&self) -> String {
        let row = |begin: Instant, end: Instant, name, bytes| {
            let goodput = Rate::of(bytes, end - begin).unwrap_or_default().bps();
            row! { begin_ns: begin, end_ns: end, flow: Text(name), goodput_bps: goodput }
        };
        let rows = self.series.intervals().flat_map(|(index, begin, end, _)| {
            let flows = self.series.flows.iter().zip(&self.series.goodput);
            flows.map(move |(name, values)| row(begin, end, name, values[index]))
        });
        table(row(Instant::ZERO, Instant::ZERO, &String::new(), Bytes::ZERO), rows)
    }

    /// Formats the distribution of completion times by group: how many flows, and which share of those that
    /// completed, took at most as long.
    pub fn completions_csv(&self) -> String {
        let row = |group, time: Duration, flows: u64, all: u64| {
            let share = Fixed::<6>(flows as f64 / all as f64);
            row! { group: Text(group), completion_ns: time.ns(), flows: flows, share: share }
        };
        let rows = self.completion_times.iter().flat_map(|(group, times)| {
            times.cumulative().map(move |(time, flows)| row(group, time, flows, times.count()))
        });
        table(row(&String::new(), Duration::ZERO, 0, 0), rows)
    }

    /// Formats the TCP state over time: one line per interval and flow, for flows with a time series.
    pub fn tcp_csv(&self) -> String {
        let rows = self.series.ends.iter().enumerate().flat_map(|(index, end)| {
            let flows = self.series.flows.iter().zip(&self.series.tcp);
            flows.map(move |(name, values)| sender(*end, name, &values[index]))
        });
        table(sender(Instant::ZERO, "", &TcpInterval::default()), rows)
    }

    /// Formats what controllers know beside their windows, one line per interval and flow: window, threshold,
    /// increase and alpha of senders that follow marks, and one-way delays of Rapid, beside the queue of the
    /// narrowest link. `None` if no controller tells.
    pub fn trace_csv(&self) -> Option<String> {
        let series = &self.series;
        let told = |tcp: &TcpInterval| tcp.inside.is_some();
        let has_any = series.tcp.iter().flatten().any(told);
        let rows = series.ends.iter().enumerate().flat_map(|(index, end)| {
            let link = series.narrowest(index);
            let flows = series.flows.iter().zip(&series.tcp);
            flows.map(move |(name, values)| trace(*end, name, &values[index], link))
        });
        has_any.then(|| table(trace(Instant::ZERO, "", &TcpInterval::default(), None), rows))
    }

    /// Formats the probe streams, one line each, with the available bandwidth during the stream.
    pub fn streams_csv(&self) -> String {
        let row = |(measure, stream): &(u64, StreamTruth)| {
            row! {
                measure: *measure,
                sent_ns: stream.sent,
                rate_bps: stream.rate.bps(),
                packets: stream.packets.0,
                lost: stream.packets.1,
                free_bps: stream.free.map(Rate::bps),
            }
        };
        table(row(&Default::default()), self.streams.iter().map(row))
    }
}

impl Series {
    /// Formats the ground truth and the queues over time: one line per interval and link.
    pub fn truth_csv(&self) -> String {
        let row = |begin: Instant, end: Instant, link, values: &Interval| {
            row! {
                begin_ns: begin,
                end_ns: end,
                link: Text(link),
                capacity_bytes: values.capacity.map(Bytes::get),
                measured_bytes: values.measured.get(),
                cross_bytes: values.cross.get(),
                free_bytes: values.free().map(Bytes::get),
                dropped_packets: values.dropped,
                queue_bytes: values.queue.get(),
            }
        };
        let rows = self.intervals().flat_map(|(index, begin, end, _)| {
            let links = self.names.iter().zip(&self.links);
            links.map(move |(name, values)| row(begin, end, name, &values[index]))
        });
        table(row(Instant::ZERO, Instant::ZERO, &String::new(), &Interval::default()), rows)
    }
}

fn sender(end: Instant, flow: &str, tcp: &TcpInterval) -> impl Serialize {
    row! {
        end_ns: end,
        flow: Text(flow),
        cwnd_segments: tcp.cwnd,
        ssthresh_segments: tcp.ssthresh,
        srtt_ns: tcp.srtt.map(Duration::ns),
        pacing_bps: tcp.pacing.map(Rate::bps),
        sent: tcp.sent,
        retransmitted: tcp.retransmitted,
        timeouts: tcp.timeouts,
        marks: tcp.marks,
    }
}

fn trace(end: Instant, flow: &str, tcp: &TcpInterval, link: Option<(&str, &Interval)>) -> impl Serialize {
    let inside = tcp.inside.unwrap_or_default();
    let own = |of: fn(&Fractional) -> Option<f64>| inside.fractional.as_ref().and_then(of).map(Fixed::<3>);
    let share = |part: u64, whole: u64| (whole > 0).then(|| Fixed::<6>(part as f64 / whole as f64));
    let bytes = link.and_then(|(_, values)| Some((values.measured + values.cross, values.capacity?)));
    row! {
        end_ns: end,
        flow: Text(flow),
        window_bytes: own(|fractional| Some(fractional.window)),
        ssthresh_bytes: own(|fractional| fractional.ssthresh),
        cwnd_segments: tcp.cwnd,
        add_bytes: own(|fractional| Some(fractional.add)),
        alpha: inside.alpha.map(Fixed::<6>),
        sent: tcp.sent,
        marks: tcp.marks,
        // Those that arrive may have left in an earlier interval.
        marked_share: tcp.marks.and_then(|marks| share(marks.min(tcp.sent), tcp.sent)),
        srtt_ns: tcp.srtt.map(Duration::ns),
        srtt_pace_ns: inside.fractional.and_then(|fractional| fractional.pace_rtt).map(Duration::ns),
        one_way_ns: inside.one_way.map(Duration::ns),
        link: link.map(|(name, _)| Text(name)),
        queue_bytes: link.map(|(_, values)| values.queue.get()),
        utilisation: bytes.and_then(|(sent, capacity)| share(sent.get(), capacity.get())),
    }
}

fn link(link: &LinkResult) -> impl Serialize {
    row! {
        link: Text(&link.link),
        capacity_bps: link.capacity_bps,
        utilisation: link.utilisation.map(Fixed::<6>),
        measured_bps: link.measured_bps,
        cross_bps: link.cross_bps,
        free_bps: link.free_bps,
        delay_mean_ns: link.delay_mean_ns,
        delay_p50_ns: link.delay_p50_ns,
        delay_p99_ns: link.delay_p99_ns,
        delay_max_ns: link.delay_max_ns,
        arrived: link.arrived,
        dropped: link.dropped,
        policed: link.policed,
        lost: link.lost,
        marked: link.marked,
        loss: Fixed::<9>(link.loss),
        thinned: link.thinned,
        copies: link.copies,
        damaged: link.damaged,
    }
}

/// A field of text; `'` stands before text that a spreadsheet would take for a formula.
#[derive(Clone, Copy, Debug)]
pub struct Text<T>(pub T);

impl<T: AsRef<str>> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        text(self.0.as_ref(), serializer)
    }
}

/// Writes a field as [`Text`].
pub(crate) fn text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let formula = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    serializer.collect_str(&format_args!("{formula}{text}"))
}

/// A number with this many digits after the decimal point.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const DIGITS: usize>(pub f64);

impl<const DIGITS: usize> Serialize for Fixed<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.DIGITS$}", self.0))
    }
}

/// Returns the names of the columns, as in `sample`, and the rows.
fn table(sample: impl Serialize, rows: impl IntoIterator<Item: Serialize>) -> String {
    header(sample) + &lines(rows)
}

/// Returns the line with the names of the columns, which any row has.
pub fn header(sample: impl Serialize) -> String {
    let text = written(WriterBuilder::new().has_headers(true), [sample]);
    text.split_inclusive('\n').next().unwrap_or_default().to_owned()
}

/// Returns the lines of rows, without their names.
pub fn lines(rows: impl IntoIterator<Item: Serialize>) -> String {
    written(WriterBuilder::new().has_headers(false).flexible(true), rows)
}

fn written(builder: &WriterBuilder, rows: impl IntoIterator<Item: Serialize>) -> String {
    let mut writer = builder.from_writer(Vec::new());
    for row in rows {
        // Writing to memory cannot fail.
        let _ = writer.serialize(row);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Begins a file with the names of the columns, as in `sample`, to which rows are then added.
///
/// # Errors
/// If the names cannot be written.
pub fn begin<W: Write>(mut file: W, sample: impl Serialize) -> io::Result<Writer<W>> {
    file.write_all(header(sample).as_bytes())?;
    Ok(WriterBuilder::new().has_headers(false).from_writer(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_field_and_no_formula() {
        for (text, field) in [
            ("a->b", "a->b"),
            ("a, \"b\"", "\"a, \"\"b\"\"\""),
            ("=1+1", "'=1+1"),
            ("@SUM(A1,A2)", "\"'@SUM(A1,A2)\""),
            ("-2", "'-2"),
            ("+x", "'+x"),
        ] {
            assert_eq!(lines([(Text(text), Fixed::<2>(0.125))]), format!("{field},0.12\n"));
        }
    }

    #[test]
    fn a_table_has_its_header_without_rows_too() {
        let row = |time, rate: Option<u64>| row! { time_ns: time, rate_bps: rate };
        assert_eq!(table(row(0, None), [row(1, Some(2))]), "time_ns,rate_bps\n1,2\n");
        assert_eq!(table(row(0, None), std::iter::empty::<u8>()), "time_ns,rate_bps\n");
    }
}
