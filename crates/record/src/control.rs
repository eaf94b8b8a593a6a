//! What explicit routers did in each control interval.

use headway_queue::explicit::{FRACTION_BITS, Record};
use serde::{Deserialize, Serialize};

/// One control interval of one router. Rates are in b/s and count bytes on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlInterval {
    /// The link whose queue the router keeps.
    pub link: String,
    /// The law, as a scenario names it: `xcp`, `xcp-b`, `rcp`, ...
    pub law: String,
    /// End of the interval.
    pub end_ns: u64,
    /// Its length.
    pub interval_ns: u64,
    /// Average RTT of the senders.
    pub average_rtt_ns: u64,
    /// Bytes of IP packets that arrived.
    pub input_bytes: u64,
    /// Packets that arrived.
    pub input_packets: u64,
    /// Input, with what the link adds to each packet.
    pub input_bps: f64,
    /// The capacity that the router believes in; 0 for unknown.
    pub capacity_bps: f64,
    /// The queue at the end of the interval.
    pub backlog_bytes: u64,
    /// Its packets.
    pub backlog_packets: u32,
    /// The persistent queue.
    pub queue_bytes: u64,
    /// Its packets.
    pub queue_packets: u32,
    /// The rate that RCP writes; 0 with other laws.
    pub rate_bps: f64,
    /// The aggregate feedback F.
    pub feedback_bps: f64,
    /// Positive feedback to share, with what is shuffled.
    pub positive_bps: f64,
    /// Negative feedback to share, likewise.
    pub negative_bps: f64,
    /// The average queue; in bytes, or in packets if the router counts these.
    pub lambda: f64,
    /// Its target, the same unit.
    pub kappa: f64,
    /// The share of kappa below which XCP-b takes the link for under-utilised.
    pub tau: f64,
    /// The error that ErrorS integrated; divided by alpha it is the error of the capacity.
    pub xi_bps: f64,
    /// The error of this interval.
    pub epsilon_bps: f64,
    /// Beta in force, which measures against surges raise.
    pub beta: f64,
    /// Empty intervals before the link counts as under-utilised.
    pub n: u32,
    /// Packets that found no room since the beginning.
    pub drops: u64,
    /// Packets since the beginning with a header that the router does not serve.
    pub rejected: u64,
}

/// The names of the laws in scenarios, by number.
const LAWS: [&str; 9] =
    ["xcp", "xcp-b", "xcp-kappa", "errors", "rcp", "rcp-b", "rcp-kappa", "rcp-errors", "wxcp"];

/// 2 to the power of minus 32, the unit of tau.
const TAU_UNIT: f64 = 1.0 / 4_294_967_296.0;

impl ControlInterval {
    /// Converts the record of the router of `link`.
    pub fn new(link: &str, record: &Record) -> ControlInterval {
        let one = f64::from(1u32 << FRACTION_BITS);
        let number = |value: u64| value as f64 / one;
        let signed = |value: i64| value as f64 / one;
        ControlInterval {
            link: link.to_owned(),
            law: LAWS.get(record.law as usize).copied().unwrap_or("unknown").to_owned(),
            end_ns: record.time,
            interval_ns: record.interval,
            average_rtt_ns: record.average_rtt,
            input_bytes: record.input_bytes,
            input_packets: record.input_packets,
            input_bps: 8.0 * number(record.input_rate),
            capacity_bps: 8.0 * number(record.capacity),
            backlog_bytes: record.backlog_bytes,
            backlog_packets: record.backlog_packets,
            queue_bytes: record.queue_bytes,
            queue_packets: record.queue_packets,
            rate_bps: 8.0 * number(record.rate),
            feedback_bps: 8.0 * signed(record.feedback),
            positive_bps: 8.0 * number(record.positive),
            negative_bps: 8.0 * number(record.negative),
            lambda: number(record.weighted),
            kappa: number(record.kappa),
            tau: record.tau as f64 * TAU_UNIT,
            xi_bps: 8.0 * signed(record.xi),
            epsilon_bps: 8.0 * signed(record.epsilon),
            beta: f64::from(record.beta) / one,
            n: record.n,
            drops: record.drops,
            rejected: record.rejected,
        }
    }
}

/// Returns a line of JSON for each interval.
///
/// # Errors
/// If a number is not finite, which no record has.
pub fn json_lines(intervals: &[ControlInterval]) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for interval in intervals {
        text += &serde_json::to_string(interval)?;
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use headway_queue::QueueSpec;

    use super::*;

    #[test]
    fn a_record_reads_back_from_json_with_units_in_its_keys() {
        let record = Record {
            time: 90_000_000_000,
            interval: 100_000_000,
            rate: 93_750 << FRACTION_BITS,
            xi: -(112_500 << FRACTION_BITS),
            kappa: 6_000 << FRACTION_BITS,
            law: 4,
            beta: 14_811,
            ..Record::default()
        };
        let interval = ControlInterval::new("r-s", &record);
        let text = serde_json::to_string(&interval).unwrap();
        assert!(text.contains(r#""law":"rcp""#) && text.contains(r#""rate_bps":750000.0"#), "{text}");
        let read: ControlInterval = serde_json::from_str(&text).unwrap();
        assert_eq!(read, interval);
        assert_eq!((read.xi_bps, read.kappa), (-900_000.0, 6_000.0));
    }

    #[test]
    fn laws_have_the_names_of_their_queues() {
        for (number, name) in LAWS.iter().enumerate() {
            let queue: QueueSpec = serde_json::from_str(&format!(r#"{{"kind":"{name}"}}"#)).unwrap();
            assert_eq!(queue.explicit().map(|(law, _)| law as usize), Some(number), "{name}");
        }
    }
}
