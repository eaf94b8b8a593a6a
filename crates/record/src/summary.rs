//! The summary of a run: what happened after warm-up, in numbers with their unit in the name.

use headway_core::Rate;
use headway_core::measure::Claim;
use serde::{Deserialize, Serialize};

/// The summary of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// Where it ran: `sim` or `lab`.
    pub world: String,
    /// The seed.
    pub seed: u64,
    /// Whether the run was ended before its time.
    pub partial: bool,
    /// Whether the numbers can be trusted; not when the machine disturbed a run in real time.
    pub valid: bool,
    /// Time at the start that is not counted.
    pub warmup_ns: u64,
    /// Time that is counted.
    pub measured_ns: u64,
    /// All flows together.
    pub total: Total,
    /// Groups of equal flows.
    pub groups: Vec<Group>,
    /// Links, both directions.
    pub links: Vec<LinkResult>,
    /// Sources of datagrams.
    pub traffic: Vec<SourceResult>,
    /// Measurements of available bandwidth.
    #[serde(default)]
    pub measurements: Vec<MeasureResult>,
    /// Programs; left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramResult>,
}

/// Flows together. Goodput counts payload bytes that arrived in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// How many flows.
    pub flows: u64,
    /// How many of them were finished: all of their payload acknowledged.
    pub finished: u64,
    /// Sum of goodput.
    pub goodput_bps: u64,
    /// The slowest flow.
    pub goodput_min_bps: u64,
    /// The fastest flow.
    pub goodput_max_bps: u64,
    /// Jain's index of fairness of goodputs: 1 when all are equal, 1/n when one has all.
    pub fairness: f64,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts; absent where the world does not tell.
    pub timeouts: Option<u64>,
}

/// Equal flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Name in the scenario; the controller's when it has none.
    pub name: String,
    /// What the flows of the group did.
    #[serde(flatten)]
    pub total: Total,
}

/// One TCP flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Number in the run.
    pub flow: u64,
    /// Name of its group.
    pub group: String,
    /// When it started.
    pub start_ns: u64,
    /// When all of its payload was acknowledged.
    pub finished_ns: Option<u64>,
    /// Payload that arrived in order.
    pub goodput_bytes: u64,
    /// The same as a rate over the time that is counted.
    pub goodput_bps: u64,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Times of fast recovery.
    pub recoveries: Option<u64>,
    /// Segments that arrived marked.
    pub marks: Option<u64>,
    /// Congestion window at the end, in segments.
    pub cwnd: u32,
    /// Smoothed round-trip time at the end; absent before the first measurement.
    pub srtt_ns: Option<u64>,
    /// Least round-trip time.
    pub min_rtt_ns: Option<u64>,
}

/// One direction of a link. Rates count wire bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// `from->to`.
    pub link: String,
    /// Mean capacity; absent when it is unlimited.
    pub capacity_bps: Option<u64>,
    /// Share of the capacity that was used.
    pub utilisation: Option<f64>,
    /// What TCP used.
    pub measured_bps: u64,
    /// What datagrams of sources used.
    pub cross_bps: u64,
    /// What those left.
    pub free_bps: Option<u64>,
    /// Time between arrival and begin of transmission: mean over packets.
    pub delay_mean_ns: u64,
    /// Its median.
    pub delay_p50_ns: u64,
    /// Its 99th percentile.
    pub delay_p99_ns: u64,
    /// Its maximum.
    pub delay_max_ns: u64,
    /// Packets that came.
    pub arrived: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets that the policer dropped.
    pub policed: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Packets marked.
    pub marked: u64,
    /// Share of packets that did not come through.
    pub loss: f64,
}

/// A program that ran at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramResult {
    /// Number in the scenario.
    pub program: u64,
    /// The node.
    pub at: String,
    /// What the shell was given.
    pub command: String,
    /// When it started.
    pub started_ns: u64,
    /// When it ended; absent when it had not, because the run was interrupted.
    pub ended_ns: Option<u64>,
    /// Its exit status; absent when a signal ended it.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was ended because its time was over.
    pub stopped: bool,
}

impl ProgramResult {
    /// Whether it ended by itself and without success.
    pub fn failed(&self) -> bool {
        self.ended_ns.is_some() && !self.stopped && self.exit_status != Some(0)
    }

    /// How it ended, such as `exit status 3`.
    pub fn ending(&self) -> String {
        match (self.exit_status, self.signal) {
            _ if self.stopped => "stopped".to_owned(),
            (Some(status), _) => format!("exit status {status}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "not ended".to_owned(),
        }
    }
}

/// A source of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceResult {
    /// Number in the scenario.
    pub traffic: u64,
    /// The model of its packets.
    pub model: String,
    /// Mean of what the source offers, in samples of 1 ms over its first seconds.
    pub mean_bps: u64,
    /// Rate that 5 % of these samples do not exceed.
    pub p5_bps: u64,
    /// Rate that half of them do not exceed.
    pub p50_bps: u64,
    /// Rate that 95 % of them do not exceed.
    pub p95_bps: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Wire rate sent.
    pub sent_bps: u64,
    /// Wire rate that arrived.
    pub delivered_bps: u64,
}

/// An interval that holds what was free with a certain probability, as a measurement claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The probability, in percent.
    pub percent: u32,
    /// Its lower end.
    pub low_bps: u64,
    /// Its upper end; absent for "at least".
    pub high_bps: Option<u64>,
}

/// One measurement of available bandwidth. Rates count wire bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureResult {
    /// Number of the `[[measure]]` in the scenario.
    pub measure: u64,
    /// The estimator.
    pub method: String,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The estimate; absent when there is none.
    pub available_bps: Option<u64>,
    /// The ends of its interval; the upper one is absent for an answer of "at least".
    pub low_bps: Option<u64>,
    /// See `low_bps`.
    pub high_bps: Option<u64>,
    /// What the estimate claims at several levels; empty where the method has one interval only.
    pub claims: Vec<ClaimResult>,
    /// Whether what is free changed while the measurement ran, as far as the method tells.
    #[serde(default)]
    pub changed: bool,
    /// What was free at first, and in the end; absent where it did not change.
    #[serde(default)]
    pub before_bps: Option<u64>,
    /// See `before_bps`.
    #[serde(default)]
    pub after_bps: Option<u64>,
    /// Why there is no estimate.
    pub failure: Option<String>,
    /// What kind of path it looked like, as in `headway measure --json`; absent where the method does not tell.
    pub path_kind: Option<String>,
    /// The capacity found.
    pub capacity_bps: Option<u64>,
    /// Wire bytes that a shaper let pass before it kept its sustained rate; absent where none was found.
    pub bucket_bytes: Option<u64>,
    /// What was free from begin to end: the least over links of capacity less all traffic that is not this measurement's own.
    pub free_bps: Option<u64>,
    /// The link of which this is true.
    pub tight_link: Option<String>,
    /// The same with all TCP taken away, as if it yielded.
    pub free_without_tcp_bps: Option<u64>,
    /// Capacity of the narrow link.
    pub narrow_bps: Option<u64>,
    /// Streams used, and streams refused.
    pub streams_used: u32,
    /// See `streams_used`.
    pub streams_refused: u32,
    /// Bytes that probing cost.
    pub bytes: u64,
    /// The longest that packets of others had to wait because of a stream, in the median stream and in any.
    pub added_delay_ns: u64,
    /// See `added_delay_ns`.
    pub added_delay_max_ns: u64,
    /// Packets of others that were lost because of the probing; negative where it has saved some.
    pub others_lost: i64,
}

impl MeasureResult {
    /// A measurement that the end of the run cut off.
    pub fn cut_off(self) -> MeasureResult {
        let failure = Some("the run ended before the measurement".to_owned());
        MeasureResult {
            available_bps: None,
            low_bps: None,
            high_bps: None,
            claims: Vec::new(),
            changed: false,
            before_bps: None,
            after_bps: None,
            failure,
            ..self
        }
    }

    /// Relative error of the estimate; `None` without estimate or truth.
    pub fn error(&self) -> Option<f64> {
        Some(self.available_bps? as f64 / self.free_bps.filter(|free| *free > 0)? as f64 - 1.0)
    }
}

impl From<&Claim> for ClaimResult {
    fn from(claim: &Claim) -> ClaimResult {
        let (low, high) = (claim.low.bps(), claim.high.map(Rate::bps));
        ClaimResult { percent: claim.percent, low_bps: low, high_bps: high }
    }
}

impl Total {
    /// The sum of flows.
    pub fn of<'a>(flows: impl Iterator<Item = &'a FlowResult> + Clone) -> Total {
        let rates = || flows.clone().map(|flow| flow.goodput_bps);
        let sum = |value: fn(&FlowResult) -> u64| flows.clone().map(value).sum::<u64>();
        let squares: f64 = rates().map(|rate| (rate as f64) * (rate as f64)).sum();
        let all: u64 = rates().sum();
        let count = rates().count() as u64;
        Total {
            flows: count,
            finished: flows.clone().filter(|flow| flow.finished_ns.is_some()).count() as u64,
            goodput_bps: all,
            goodput_min_bps: rates().min().unwrap_or(0),
            goodput_max_bps: rates().max().unwrap_or(0),
            fairness: if squares > 0.0 { all as f64 * all as f64 / (count as f64 * squares) } else { 1.0 },
            sent: sum(|flow| flow.sent),
            retransmitted: sum(|flow| flow.retransmitted),
            timeouts: flows.clone().map(|flow| flow.timeouts).sum(),
        }
    }

    /// Share of the segments sent that had been sent before.
    pub fn retransmitted_share(&self) -> f64 {
        share(self.retransmitted, self.sent)
    }

    /// Sum of goodput as a rate of payload.
    pub fn goodput(&self) -> Rate {
        Rate::from_bps(self.goodput_bps)
    }
}

impl LinkResult {
    /// Share of packets that came and did not come through.
    pub fn loss_share(&self) -> f64 {
        share(self.dropped + self.policed + self.lost, self.arrived)
    }
}

impl Group {
    /// The groups of `flows`, which come group by group.
    pub fn of(flows: &[FlowResult]) -> Vec<Group> {
        flows
            .chunk_by(|one, other| one.group == other.group)
            .map(|part| Group { name: part[0].group.clone(), total: Total::of(part.iter()) })
            .collect()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(group: &str, goodput_bps: u64) -> FlowResult {
        FlowResult {
            group: group.to_owned(),
            goodput_bps,
            sent: 100,
            retransmitted: 2,
            ..FlowResult::default()
        }
    }

    #[test]
    fn totals_are_sums_and_fairness_is_that_of_jain() {
        let flows = [flow("a", 10), flow("a", 10), flow("b", 0)];
        let total = Total::of(flows.iter());
        assert_eq!(
            (total.flows, total.goodput_bps, total.goodput_min_bps, total.goodput_max_bps),
            (3, 20, 0, 10)
        );
        assert_eq!(total.fairness, 2.0 / 3.0);
        assert_eq!(total.retransmitted_share(), 0.02);
        assert_eq!(total.timeouts, None);
        let groups = Group::of(&flows);
        assert_eq!(groups.iter().map(|group| group.total.flows).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(Total::of([].iter()).fairness, 1.0);
    }
}
