//! Formats a finished measurement as text, JSON or CSV.

use std::fmt::Write as _;

use headway_estimate::measure::{Answer, Method, PathKind};
use headway_program::lines::{Direction, MeasureLine as Line, direction_words};
use headway_program::time::rfc3339;
use headway_record::csv::{Fixed, Text};
use headway_record::row;
use headway_units::{Bytes, Duration, Instant};
use serde::Serialize;

/// Everything known about a measurement except its answer.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) host: String,
    pub(crate) direction: Direction,
    pub(crate) method: Method,
    /// Name of the trained model.
    pub(crate) model: Option<String>,
    /// Size of a probe packet on the wire.
    pub(crate) packet: Bytes,
    pub(crate) started: Instant,
    pub(crate) finished: Instant,
    /// The interval of the series.
    pub(crate) interval: Option<Duration>,
    pub(crate) rtt: Duration,
    /// Bytes of all probes since the last answer, including those that find the packet size.
    pub(crate) probes: Bytes,
    pub(crate) control: Bytes,
    pub(crate) receive_stamps: String,
    pub(crate) transmit_stamps: String,
    pub(crate) interrupted: bool,
}

impl Context {
    /// Returns from when on the answer counts.
    fn sampled(&self, answer: &Answer) -> Option<Instant> {
        answer.sampled_from.map(|from| self.started + (from - Instant::ZERO))
    }
}

/// Returns the result as `--json` prints it.
pub(super) fn line(context: &Context, answer: &Answer) -> Line {
    let interval = answer.available.as_ref().ok();
    let refused = answer.streams_refused.iter();
    Line {
        r#type: "measurement".to_owned(),
        host: context.host.clone(),
        direction: context.direction,
        method: context.method.name().to_owned(),
        model: context.model.clone(),
        started_unix_ns: context.started.ns(),
        started_rfc3339: rfc3339(context.started),
        finished_unix_ns: context.finished.ns(),
        finished_rfc3339: rfc3339(context.finished),
        duration_ms: (context.finished - context.started).ms(),
        sampled_unix_ns: context.sampled(answer).map(Instant::ns),
        interval_ms: context.interval.map(Duration::ms),
        available_bps: interval.map(|i| i.rate.bps()),
        available_low_bps: interval.map(|i| i.low.bps()),
        available_high_bps: interval.and_then(|i| i.high).map(|high| high.bps()),
        changed: answer.change.is_some(),
        before_bps: answer.change.map(|change| change.before.bps()),
        after_bps: answer.change.map(|change| change.after.bps()),
        longest_stall_us: answer.stalls.map(|stalls| stalls.longest.us()),
        stalled_share: answer.stalls.map(|stalls| stalls.share),
        between_stalls_bps: answer.stalls.map(|stalls| stalls.between.bps()),
        capacity_bps: answer.capacity.map(|capacity| capacity.bps()),
        path_kind: answer.path_kind.map(|kind| kind.name().to_owned()),
        bucket_bytes: answer.bucket.map(Bytes::get),
        highest_rate_bps: answer.highest_rate.bps(),
        packet_wire_bytes: context.packet.get(),
        streams_used: answer.streams_used,
        streams_refused: refused.map(|(reason, count)| (reason.to_string(), *count)).collect(),
        probe_bytes: context.probes.get(),
        control_bytes: context.control.get(),
        packets_sent: answer.packets,
        packets_lost: answer.lost,
        added_delay_median_us: answer.added_delay.us(),
        added_delay_max_us: answer.added_delay_max.us(),
        others_lost: answer.others_lost,
        rtt_us: context.rtt.us(),
        receive_stamps: context.receive_stamps.clone(),
        transmit_stamps: context.transmit_stamps.clone(),
        interrupted: context.interrupted,
        error: answer.available.as_ref().err().map(|failure| failure.to_string()),
    }
}

/// Returns a row of `--csv`; unknown values are empty.
pub(super) fn csv_row(line: &Line) -> impl Serialize {
    row! {
        started_unix_ns: line.started_unix_ns,
        host: Text(&line.host),
        direction: line.direction,
        method: &line.method,
        available_bps: line.available_bps,
        available_low_bps: line.available_low_bps,
        available_high_bps: line.available_high_bps,
        capacity_bps: line.capacity_bps,
        highest_rate_bps: line.highest_rate_bps,
        streams_used: line.streams_used,
        streams_refused: line.streams_refused.values().sum::<u32>(),
        probe_bytes: line.probe_bytes,
        control_bytes: line.control_bytes,
        duration_ms: Fixed::<3>(line.duration_ms),
        packets_sent: line.packets_sent,
        packets_lost: line.packets_lost,
        added_delay_median_us: Fixed::<1>(line.added_delay_median_us),
        added_delay_max_us: Fixed::<1>(line.added_delay_max_us),
        rtt_us: Fixed::<1>(line.rtt_us),
        interrupted: line.interrupted,
        changed: line.changed,
        before_bps: line.before_bps,
        after_bps: line.after_bps,
        interval_ms: line.interval_ms.map(Fixed::<0>),
        started_rfc3339: &line.started_rfc3339,
    }
}

/// Formats the result as text for people.
pub(crate) fn human(context: &Context, answer: &Answer) -> String {
    let mut text = String::new();
    let partial = if context.interrupted { ", interrupted: partial result" } else { "" };
    let model = context.model.as_ref().map_or_else(String::new, |name| format!(", model {name}"));
    let _ = writeln!(
        text,
        "{}, {} (method {}{model}{partial})",
        context.host,
        direction_words(context.direction),
        context.method
    );
    match &answer.available {
        Ok(interval) => {
            let _ = match interval.high {
                Some(high) => writeln!(
                    text,
                    "  available    {}  (90 % interval {} to {high})",
                    interval.rate, interval.low
                ),
                None if matches!(answer.path_kind, Some(PathKind::TooFast | PathKind::Jittery)) => {
                    let reason = answer.path_kind.map_or("", PathKind::sentence);
                    writeln!(text, "  available    at least {}: {reason}", interval.low)
                }
                None => writeln!(
                    text,
                    "  available    at least {}: this sender cannot probe faster, and the path carried it all",
                    interval.low
                ),
            };
        }
        Err(failure) => {
            let _ = writeln!(text, "  available    unknown: {failure}");
        }
    }
    if let Some(sampled) = context.sampled(answer).filter(|_| answer.available.is_ok()) {
        let _ = writeln!(
            text,
            "  about        the last {}; before that, the range and the capacity were found",
            context.finished - sampled
        );
    }
    if let Some(change) = answer.change {
        let _ = writeln!(
            text,
            "  changed      changed from {} to {} during the measurement; available is the average",
            change.before, change.after
        );
    }
    if let Some(stalls) = answer.stalls {
        let _ = writeln!(
            text,
            "  stalls       the path stalls for up to {}, {:.0} % of the time; between stalls {} are free, available is the average",
            stalls.longest,
            stalls.share * 100.0,
            stalls.between
        );
    }
    if let Some(capacity) = answer.capacity {
        let _ = writeln!(text, "  capacity     {capacity}");
    }
    if let Some(kind) = answer.path_kind.filter(|kind| *kind != PathKind::TooFast) {
        let _ = writeln!(text, "  queues       {}", kind.sentence());
    }
    if let Some(bucket) = answer.bucket {
        let _ = writeln!(text, "  bucket       {bucket}, which pass as a burst after idle time");
    }
    let _ = writeln!(
        text,
        "  cost         {} of probes and {} of control traffic in {}",
        context.probes,
        context.control,
        context.finished - context.started
    );
    let _ = writeln!(
        text,
        "  probing      {} streams used, {}; highest rate tried {}",
        answer.streams_used,
        refusals(answer),
        answer.highest_rate
    );
    let _ = writeln!(
        text,
        "  side effects added delay {} (median stream), {} (maximum); {} of {} probe packets lost{}",
        answer.added_delay,
        answer.added_delay_max,
        answer.lost,
        answer.packets,
        others_lost(answer)
    );
    let _ = writeln!(
        text,
        "  path         RTT {}, packets of {} on the wire, receive stamps: {}, send stamps: {}",
        context.rtt, context.packet, context.receive_stamps, context.transmit_stamps
    );
    text
}

/// Describes the estimated losses of other traffic, if there are any.
fn others_lost(answer: &Answer) -> String {
    match answer.others_lost {
        Some(packets) if packets >= 0.5 => format!(", and about {packets:.0} of others"),
        _ => String::new(),
    }
}

fn refusals(answer: &Answer) -> String {
    if answer.streams_refused.is_empty() {
        return "none refused".to_owned();
    }
    let reasons = answer.streams_refused.iter().map(|(reason, count)| format!("{count} ({reason})"));
    format!("refused: {}", reasons.collect::<Vec<_>>().join(", "))
}
