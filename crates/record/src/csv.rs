//! Formats results as CSV.

use std::fmt::{Display, Write as _};

use headway_units::{Duration, Rate};

use crate::results::Results;
use crate::series::TcpInterval;
use crate::summary::{FlowResult, LinkResult};

impl Results {
    /// Formats the flows, one line each.
    pub fn flows_csv(&self) -> String {
        let mut text = "flow,group,start_ns,finished_ns,goodput_bytes,goodput_bps,sent,retransmitted,timeouts,recoveries,\
                        marks,cwnd_segments,srtt_ns,min_rtt_ns\n"
            .to_owned();
        for flow in &self.flows {
            write_flow(&mut text, flow);
        }
        text
    }

    /// Formats the links, one line per direction.
    pub fn links_csv(&self) -> String {
        let mut text = "link,capacity_bps,utilisation,measured_bps,cross_bps,free_bps,delay_mean_ns,delay_p50_ns,delay_p99_ns,\
                        delay_max_ns,arrived,dropped,policed,lost,marked,loss,thinned,copies,damaged\n"
            .to_owned();
        for link in &self.summary.links {
            write_link(&mut text, link);
        }
        text
    }

    /// Formats goodput over time: one line per interval and flow, for flows with a time series.
    pub fn goodput_csv(&self) -> String {
        let mut text = "begin_ns,end_ns,flow,goodput_bps\n".to_owned();
        for (index, begin, end, length) in self.series.intervals() {
            for (name, values) in self.series.flows.iter().zip(&self.series.goodput) {
                let rate = Rate::of(values[index], length).unwrap_or_default();
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(text, "{},{},{},{}", begin.ns(), end.ns(), quoted(name), rate.bps());
            }
        }
        text
    }

    /// Formats the distribution of completion times by group: how many flows, and which share of those that completed,
    /// took at most as long.
    pub fn completions_csv(&self) -> String {
        let mut text = "group,completion_ns,flows,share\n".to_owned();
        for (group, times) in &self.completion_times {
            let all = times.count() as f64;
            for (time, flows) in times.cumulative() {
                let share = flows as f64 / all;
                let _ = writeln!(text, "{},{},{flows},{share:.6}", quoted(group), time.ns());
            }
        }
        text
    }

    /// Formats the TCP state over time: one line per interval and flow, for flows with a time series.
    pub fn tcp_csv(&self) -> String {
        let mut text = "end_ns,flow,cwnd_segments,ssthresh_segments,srtt_ns,pacing_bps,sent,retransmitted,timeouts,marks\n"
            .to_owned();
        for (index, end) in self.series.ends.iter().enumerate() {
            for (name, values) in self.series.flows.iter().zip(&self.series.tcp) {
                let _ = write!(text, "{},{},", end.ns(), quoted(name));
                write_tcp(&mut text, &values[index]);
            }
        }
        text
    }

    /// Formats the probe streams, one line each, with the available bandwidth during the stream.
    pub fn streams_csv(&self) -> String {
        let mut text = "measure,sent_ns,rate_bps,packets,lost,free_bps\n".to_owned();
        for (measure, stream) in &self.streams {
            let (packets, lost) = stream.packets;
            let (sent, rate) = (stream.sent.ns(), stream.rate.bps());
            let _ = writeln!(
                text,
                "{measure},{sent},{rate},{packets},{lost},{}",
                or_empty(stream.free.map(Rate::bps))
            );
        }
        text
    }

    /// Formats the ground truth and the queues over time: one line per interval and link.
    pub fn truth_csv(&self) -> String {
        let mut text =
            "begin_ns,end_ns,link,capacity_bytes,measured_bytes,cross_bytes,free_bytes,dropped_packets,queue_bytes\n"
                .to_owned();
        for (index, begin, end, _) in self.series.intervals() {
            for (name, values) in self.series.names.iter().zip(&self.series.links) {
                let interval = &values[index];
                let _ = writeln!(
                    text,
                    "{},{},{},{},{},{},{},{},{}",
                    begin.ns(),
                    end.ns(),
                    quoted(name),
                    or_empty(interval.capacity.map(|bytes| bytes.get())),
                    interval.measured.get(),
                    interval.cross.get(),
                    or_empty(interval.free().map(|bytes| bytes.get())),
                    interval.dropped,
                    interval.queue.get(),
                );
            }
        }
        text
    }
}

fn write_flow(text: &mut String, flow: &FlowResult) {
    let _ = writeln!(
        text,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        flow.flow,
        quoted(&flow.group),
        flow.start_ns,
        or_empty(flow.finished_ns),
        flow.goodput_bytes,
        flow.goodput_bps,
        flow.sent,
        flow.retransmitted,
        or_empty(flow.timeouts),
        or_empty(flow.recoveries),
        or_empty(flow.marks),
        flow.cwnd,
        or_empty(flow.srtt_ns),
        or_empty(flow.min_rtt_ns),
    );
}

fn write_tcp(text: &mut String, tcp: &TcpInterval) {
    let _ = writeln!(
        text,
        "{},{},{},{},{},{},{},{}",
        tcp.cwnd,
        or_empty(tcp.ssthresh),
        or_empty(tcp.srtt.map(Duration::ns)),
        or_empty(tcp.pacing.map(Rate::bps)),
        tcp.sent,
        tcp.retransmitted,
        or_empty(tcp.timeouts),
        or_empty(tcp.marks),
    );
}

fn write_link(text: &mut String, link: &LinkResult) {
    let _ = writeln!(
        text,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.9},{},{},{}",
        quoted(&link.link),
        or_empty(link.capacity_bps),
        or_empty(link.utilisation.map(|share| format!("{share:.6}"))),
        link.measured_bps,
        link.cross_bps,
        or_empty(link.free_bps),
        link.delay_mean_ns,
        link.delay_p50_ns,
        link.delay_p99_ns,
        link.delay_max_ns,
        link.arrived,
        link.dropped,
        link.policed,
        link.lost,
        link.marked,
        link.loss,
        or_empty(link.thinned),
        or_empty(link.copies),
        or_empty(link.damaged),
    );
}

fn or_empty(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Quotes a text field that contains commas, quotes or line breaks (RFC 4180), and puts `'` before text that a
/// spreadsheet would take for a formula.
pub fn quoted(text: &str) -> String {
    let formula = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{formula}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{formula}{text}")
    }
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
            assert_eq!(quoted(text), field);
        }
    }
}
