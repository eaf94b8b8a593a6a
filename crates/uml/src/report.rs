//! The report of a guest: one line of JSON per snapshot of the counters.

use headway_queue::explicit::Record;
use headway_scenario::MiddleboxEnd;
use headway_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// All counters at one time, counted since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The time, from time zero of the scenario.
    pub at: Duration,
    /// Both ends of every flow.
    pub flows: Vec<FlowCounters>,
    /// Every direction of a link.
    pub directions: Vec<DirectionCounters>,
    /// Every source.
    pub sources: Vec<SourceCounters>,
}

/// The kernel's counters of a TCP flow, counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowCounters {
    /// Payload bytes received in order.
    pub received: u64,
    /// Segments with payload sent, including retransmissions.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments that the receiver reported as marked.
    pub marks: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Minimum round-trip time; zero before the first measurement.
    pub min_rtt: Duration,
    /// Rate at which the kernel paces, or would pace.
    pub pacing: Rate,
    /// When everything was acknowledged.
    pub finished: Option<Duration>,
    /// What the controller tells of itself (`TCP_CC_INFO`), in words of its own meaning.
    pub controller: [u32; 5],
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionCounters {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that departed.
    pub departed: u64,
    /// Wire bytes of TCP that departed.
    pub measured: u64,
    /// Wire bytes of everything else that departed.
    pub cross: u64,
    /// Packets that departed marked CE.
    pub marked: u64,
    /// Sum of the waiting times of departed packets, in ns.
    pub waited: u64,
    /// Longest waiting time since the start of the run or the end of warm-up, in ns.
    pub waited_max: u64,
    /// Wire bytes in the queue.
    pub queue: u64,
    /// Packets dropped at the queue.
    pub dropped: u64,
    /// Packets lost at random after the queue.
    pub lost: u64,
}

/// A source of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceCounters {
    /// Packets handed to the network.
    pub sent: u64,
    /// Wire bytes handed to the network.
    pub sent_bytes: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Wire bytes delivered.
    pub delivered_bytes: u64,
}

/// The exit of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramEnd {
    /// Its number in the plan.
    pub program: usize,
    /// The time, from time zero of the scenario.
    pub at: Duration,
    /// Its exit status; `None` if a signal killed it.
    pub status: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Whether it was stopped because its time was over.
    pub stopped: bool,
}

/// A control interval of an explicit router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Number of the direction.
    pub direction: usize,
    /// Time zero of the scenario on the kernel's monotonic clock, in ns.
    pub zero: i64,
    /// The bytes of the kernel's record, as hexadecimal digits; its times are those of the monotonic clock.
    pub record: String,
}

impl Control {
    /// Returns the record with times of the scenario; `None` if it ended before time zero, or is damaged.
    pub fn read(&self) -> Option<Record> {
        let digits = self.record.as_bytes().as_chunks::<2>().0.iter();
        let digits = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let record = Record::from_bytes(&digits.collect::<Option<Vec<u8>>>()?)?;
        let time = record.time.checked_sub(u64::try_from(self.zero).ok()?)?;
        Some(Record { time, ..record })
    }
}

/// The last line of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Waiting times in every direction since warm-up, as histogram bins with their counts.
    pub waits: Vec<Vec<(usize, u64)>>,
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// Counters at one time.
    #[serde(rename = "look")]
    Snapshot(Snapshot),
    /// A program has exited.
    Program(ProgramEnd),
    /// A control interval; all come at the end.
    Control(Control),
    /// A middlebox has ended; all do at the end, in the order of the plan.
    Middlebox(MiddleboxEnd),
    /// The run is over.
    End(End),
    /// The guest could not run its plan.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_with_the_times_of_the_scenario() {
        let mut bytes = [0; size_of::<Record>()];
        bytes[..8].copy_from_slice(&5_000_u64.to_ne_bytes());
        let record = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let at = |zero| Control { direction: 0, zero, record: record(&bytes) };
        assert_eq!(at(2_000).read(), Some(Record { time: 3_000, ..Record::default() }));
        assert_eq!(at(6_000).read(), None, "before time zero");
        assert_eq!(Control { record: record(&bytes[1..]), ..at(0) }.read(), None);
        assert_eq!(Control { record: "é".repeat(bytes.len()), ..at(0) }.read(), None);
    }
}
