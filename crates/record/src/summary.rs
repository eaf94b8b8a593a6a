//! The summary of a run: statistics after warm-up, with units in the field names.

use headway_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

use crate::completions::Completions;
use crate::counted::Counted;

/// The summary of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The world: `sim`, `lab` or `uml`.
    pub world: String,
    /// The seed.
    pub seed: u64,
    /// Whether the run ended early.
    pub partial: bool,
    /// Whether the numbers are trustworthy; false when the machine disturbed a run in real time.
    pub valid: bool,
    /// Excluded warm-up time.
    pub warmup_ns: u64,
    /// Time that the summary covers.
    pub measured_ns: u64,
    /// Totals over all flows.
    pub total: Total,
    /// Groups of identical flows.
    pub groups: Vec<Group>,
    /// Links, in both directions.
    pub links: Vec<LinkResult>,
    /// Sources of datagrams.
    pub traffic: Vec<SourceResult>,
    /// Measurements of available bandwidth.
    #[serde(default)]
    pub measurements: Vec<MeasureResult>,
    /// Middleboxes; omitted when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub middleboxes: Vec<MiddleboxResult>,
    /// What middleboxes would do with flows, the latest decisions of each; omitted when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionResult>,
    /// Choices among paths, and their rivals; omitted when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selections: Vec<SelectResult>,
    /// Programs; omitted when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramResult>,
}

/// Totals over several flows. Goodput counts payload bytes that arrived in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Number of flows.
    pub flows: u64,
    /// Number of flows that finished: all their payload was acknowledged.
    pub finished: u64,
    /// Goodput of all together: over the time from the first start to the last end if all have finished,
    /// otherwise over the measured time.
    pub goodput_bps: u64,
    /// Goodput of the slowest flow.
    pub goodput_min_bps: u64,
    /// Goodput of the fastest flow.
    pub goodput_max_bps: u64,
    /// Jain's fairness index of the goodputs: 1 when all are equal, 1/n when one flow gets everything.
    pub fairness: f64,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts; absent in worlds that do not report them.
    pub timeouts: Option<u64>,
}

/// A group of identical flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Name in the scenario; defaults to the controller.
    pub name: String,
    /// Totals over the flows of the group.
    #[serde(flatten)]
    pub total: Total,
    /// Completion times, in groups whose flows come and go or have a size; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<Completions>,
}

/// One TCP flow, a line of `flows.csv`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowResult {
    /// Index of the flow in the run.
    pub flow: u64,
    /// Name of its group.
    #[serde(serialize_with = "crate::csv::text")]
    pub group: String,
    /// Start time.
    pub start_ns: u64,
    /// Time at which all its payload was acknowledged; absent before.
    pub finished_ns: Option<u64>,
    /// Payload that arrived in order.
    pub goodput_bytes: u64,
    /// Goodput over the measured time, or over the part of it in which the flow lived if it has finished.
    pub goodput_bps: u64,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Number of fast recoveries.
    pub recoveries: Option<u64>,
    /// Segments that arrived CE-marked.
    pub marks: Option<u64>,
    /// cwnd at the end, in segments.
    #[serde(rename = "cwnd_segments")]
    pub cwnd: u32,
    /// Smoothed RTT at the end; absent before the first sample.
    pub srtt_ns: Option<u64>,
    /// Minimum RTT.
    pub min_rtt_ns: Option<u64>,
}

/// One direction of a link. Rates count wire bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// `from->to`.
    pub link: String,
    /// Mean capacity, or the rate of the link's policer if lower; absent when it is unlimited.
    pub capacity_bps: Option<u64>,
    /// Fraction of the capacity in use.
    pub utilisation: Option<f64>,
    /// Rate of TCP and probes.
    pub measured_bps: u64,
    /// Rate of traffic sources.
    pub cross_bps: u64,
    /// Capacity less the rate of traffic sources.
    pub free_bps: Option<u64>,
    /// Mean queueing delay, from arrival to the start of transmission.
    pub delay_mean_ns: u64,
    /// Median queueing delay.
    pub delay_p50_ns: u64,
    /// 99th percentile of the queueing delay.
    pub delay_p99_ns: u64,
    /// Maximum queueing delay.
    pub delay_max_ns: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets that the policer dropped.
    pub policed: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Packets marked with CE.
    pub marked: u64,
    /// Fraction of the packets that were dropped or lost.
    pub loss: f64,
    /// ACKs that the ACK filter dropped, which do not count as dropped; absent in worlds that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinned: Option<u64>,
    /// Packets that arrived a second time; absent in worlds that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u64>,
    /// Packets damaged on the wire; absent in worlds that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<u64>,
}

/// A program that ran at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramResult {
    /// Index in the scenario.
    pub program: u64,
    /// The node at which it ran.
    pub at: String,
    /// The shell command.
    pub command: String,
    /// Start time.
    pub started_ns: u64,
    /// End time; absent when the run was interrupted before.
    pub ended_ns: Option<u64>,
    /// Exit status; absent when a signal ended it.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was stopped because its time was up.
    pub stopped: bool,
}

impl ProgramResult {
    /// Whether it ended on its own and without success.
    pub fn failed(&self) -> bool {
        self.ended_ns.is_some() && !self.stopped && self.exit_status != Some(0)
    }

    /// Describes how it ended, for example `exit status 3`.
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
    /// Index in the scenario.
    pub traffic: u64,
    /// The traffic model.
    pub model: String,
    /// Mean offered rate over the counted time: the same as `sent_bps`.
    pub mean_bps: u64,
    /// 5th percentile of the offered rate, in samples of 1 ms over the first 4 s of the source.
    pub p5_bps: u64,
    /// Their median.
    pub p50_bps: u64,
    /// Their 95th percentile.
    pub p95_bps: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Wire rate sent.
    pub sent_bps: u64,
    /// Wire rate delivered.
    pub delivered_bps: u64,
}

/// An interval that, according to a measurement, contains the available bandwidth with a given probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claimed probability, in percent.
    pub percent: u32,
    /// Lower end.
    pub low_bps: u64,
    /// Upper end; absent for "at least".
    pub high_bps: Option<u64>,
}

/// What has passed a middlebox since the beginning of the run, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MiddleboxResult {
    /// Its node.
    pub at: String,
    /// Connections that began.
    pub connections: u64,
    /// ACKs, where they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<u64>,
    /// ACKs whose window was lowered.
    pub lowered: u64,
}

/// How well somebody chose among paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelectResult {
    /// Index of its `[[select]]`.
    pub select: u64,
    /// The strategy, or the rival.
    pub strategy: String,
    /// Share of the time on the best path, or one with at least 90 % of what is free there.
    pub on_good: f64,
    /// Share of the time on the best path.
    pub on_best: f64,
    /// Mean of what was free on the path in use, as a share of the most.
    pub of_best: f64,
    /// Mean of what was free on the path in use: what somebody gets who takes all of it, and no more.
    pub free_bps: u64,
    /// What a bulk user got, where one was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulk_bps: Option<u64>,
    /// Median time of a fetch of 1 MB.
    pub fetch_p50_ns: u64,
    /// 95th percentile of that time.
    pub fetch_p95_ns: u64,
    /// What was sent to measure, for each path and hour.
    pub bytes_per_path_hour: u64,
    /// The most that was sent to measure over one path within any hour.
    pub most_bytes_in_an_hour: u64,
    /// Changes of the path in an hour.
    pub changes_per_hour: f64,
    /// Median time on a path that is not good, until a good one is used or it is good again.
    pub reaction_ns: u64,
    /// Packets of others that were lost in an hour because of measuring, in a lab also because of the users.
    pub others_lost_per_hour: f64,
    /// Questions about one rate.
    pub questions: u64,
    /// Whole measurements.
    pub measurements: u64,
    /// Decisions for a better path.
    pub decisions: u64,
    /// Those of them that were right: the path was better by more than the tolerance.
    pub right: u64,
}

/// What a middlebox would do with a flow from a time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionResult {
    /// Virtual time.
    pub at_ns: u64,
    /// The node of the middlebox.
    pub at: String,
    /// Group of the flow.
    pub group: String,
    /// Number of its connection among those of the middlebox, from 1.
    pub connection: u64,
    /// What the flow was taken for, such as `bulk`.
    pub behaviour: String,
    /// Names of the strategies in their order, such as `receive-window`.
    pub strategies: Vec<String>,
    /// The most that would be under way, in bytes, where a window would be lowered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// What would be done and why; the flow is the subject of the sentence.
    pub sentence: String,
}

/// One measurement of available bandwidth. Rates count wire bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureResult {
    /// Index of the `[[measure]]` in the scenario.
    pub measure: u64,
    /// The estimation method.
    pub method: String,
    /// Start time.
    pub begin_ns: u64,
    /// End time.
    pub end_ns: u64,
    /// From when on answer and truth count: the first of the streams that the answer rests on, or the start.
    #[serde(default)]
    pub sampled_from_ns: u64,
    /// The estimate; absent when there is none.
    pub available_bps: Option<u64>,
    /// Ends of the estimate's interval; the upper one is absent for an answer of "at least".
    pub low_bps: Option<u64>,
    /// See `low_bps`.
    pub high_bps: Option<u64>,
    /// Intervals claimed at several probabilities; empty for methods with a single interval.
    pub claims: Vec<ClaimResult>,
    /// Whether the method detected a change of the available bandwidth during the measurement.
    #[serde(default)]
    pub changed: bool,
    /// Available bandwidth before and after the change, as estimated; absent without a change.
    pub before_bps: Option<u64>,
    /// See `before_bps`.
    pub after_bps: Option<u64>,
    /// Why there is no estimate.
    pub failure: Option<String>,
    /// The kind of path detected, as in `headway measure --json`; absent for methods that do not detect it.
    pub path_kind: Option<String>,
    /// Estimated capacity.
    pub capacity_bps: Option<u64>,
    /// Wire bytes that a shaper lets pass before it enforces its sustained rate; absent when no shaper was
    /// detected.
    pub bucket_bytes: Option<u64>,
    /// True available bandwidth from `sampled_from_ns` to the end: the minimum over links of capacity less
    /// all traffic but this measurement's own.
    pub free_bps: Option<u64>,
    /// The link with this minimum.
    pub tight_link: Option<String>,
    /// The same with all TCP traffic excluded, as if TCP yielded.
    pub free_without_tcp_bps: Option<u64>,
    /// Capacity of the narrow link.
    pub narrow_bps: Option<u64>,
    /// Streams used, and streams refused.
    pub streams_used: u32,
    /// See `streams_used`.
    pub streams_refused: u32,
    /// Bytes that the measurement sent.
    pub bytes: u64,
    /// The largest delay that a stream added to packets of others, in the median stream and in the worst.
    pub added_delay_ns: u64,
    /// See `added_delay_ns`.
    pub added_delay_max_ns: u64,
    /// Packets of others lost because of the probing; negative when probing prevented losses.
    pub others_lost: i64,
}

impl MeasureResult {
    /// Discards the answer of a measurement that the end of the run cut short.
    pub fn truncated(self) -> MeasureResult {
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

    /// Returns the relative error of the estimate; `None` without an estimate or ground truth.
    pub fn error(&self) -> Option<f64> {
        Some(self.available_bps? as f64 / self.free_bps.filter(|free| *free > 0)? as f64 - 1.0)
    }
}

impl Summary {
    /// Returns the time that the summary covers.
    pub fn counted(&self) -> Counted {
        Counted { from_ns: self.warmup_ns, to_ns: self.warmup_ns + self.measured_ns }
    }
}

impl Total {
    /// Adds a group of other flows; fairness stays that of the flows already there, if there are any.
    pub fn add(&mut self, other: &Total) {
        if self.flows == 0 {
            *self = other.clone();
            return;
        }
        self.flows += other.flows;
        self.finished += other.finished;
        self.goodput_bps += other.goodput_bps;
        self.goodput_min_bps = self.goodput_min_bps.min(other.goodput_min_bps);
        self.goodput_max_bps = self.goodput_max_bps.max(other.goodput_max_bps);
        self.sent += other.sent;
        self.retransmitted += other.retransmitted;
        self.timeouts = self.timeouts.zip(other.timeouts).map(|(one, other)| one + other);
    }

    /// Sums up flows in the counted time.
    pub fn of<'a>(flows: impl Iterator<Item = &'a FlowResult> + Clone, counted: Counted) -> Total {
        let rates = || flows.clone().map(|flow| flow.goodput_bps);
        let sum = |value: fn(&FlowResult) -> u64| flows.clone().map(value).sum::<u64>();
        let squares: f64 = rates().map(|rate| (rate as f64) * (rate as f64)).sum();
        let all: u64 = rates().sum();
        let count = rates().count() as u64;
        Total {
            flows: count,
            finished: flows.clone().filter(|flow| flow.finished_ns.is_some()).count() as u64,
            goodput_bps: counted.goodput_of_all(flows.clone()),
            goodput_min_bps: rates().min().unwrap_or(0),
            goodput_max_bps: rates().max().unwrap_or(0),
            fairness: if squares > 0.0 { all as f64 * all as f64 / (count as f64 * squares) } else { 1.0 },
            sent: sum(|flow| flow.sent),
            retransmitted: sum(|flow| flow.retransmitted),
            timeouts: flows.clone().map(|flow| flow.timeouts).sum(),
        }
    }

    /// Returns the fraction of sent segments that were retransmissions.
    pub fn retransmitted_share(&self) -> f64 {
        share(self.retransmitted, self.sent)
    }

    /// Returns the goodput of all together.
    pub fn goodput(&self) -> Rate {
        Rate::from_bps(self.goodput_bps)
    }
}

/// Returns the mean rate of so many bytes in a time, in b/s; 0 in no time.
pub fn bps(bytes: Bytes, time: Duration) -> u64 {
    Rate::of(bytes, time).unwrap_or_default().bps()
}

impl LinkResult {
    /// Returns the rates of a link that sent bytes of TCP and probes, and bytes of traffic sources, in a time in
    /// which it could have sent so many, if that is limited; no packets yet.
    pub fn of(
        link: String,
        time: Duration,
        capacity: Option<Bytes>,
        measured: Bytes,
        cross: Bytes,
    ) -> LinkResult {
        let used = |capacity: Bytes| (measured + cross).get() as f64 / capacity.get().max(1) as f64;
        let free = |capacity: Bytes| Bytes::new(capacity.get().saturating_sub(cross.get()));
        LinkResult {
            link,
            capacity_bps: capacity.map(|capacity| bps(capacity, time)),
            utilisation: capacity.map(used),
            measured_bps: bps(measured, time),
            cross_bps: bps(cross, time),
            free_bps: capacity.map(|capacity| bps(free(capacity), time)),
            ..LinkResult::default()
        }
    }

    /// Returns it with the fraction of arriving packets that were dropped or lost.
    pub fn with_loss(self) -> LinkResult {
        LinkResult { loss: share(self.dropped + self.policed + self.lost, self.arrived), ..self }
    }
}

impl Group {
    /// Groups `flows`, in which the flows of a group are adjacent.
    pub fn of(flows: &[FlowResult], counted: Counted) -> Vec<Group> {
        flows
            .chunk_by(|one, other| one.group == other.group)
            .map(|part| Group {
                name: part[0].group.clone(),
                total: Total::of(part.iter(), counted),
                completions: counted.completions(part),
            })
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
            goodput_bytes: goodput_bps,
            goodput_bps,
            sent: 100,
            retransmitted: 2,
            ..FlowResult::default()
        }
    }

    #[test]
    fn totals_are_sums_and_fairness_is_that_of_jain() {
        let flows = [flow("a", 10), flow("a", 10), flow("b", 0)];
        // Eight seconds: a rate in b/s is a number of bytes.
        let counted = Counted { from_ns: 0, to_ns: 8_000_000_000 };
        let total = Total::of(flows.iter(), counted);
        assert_eq!(
            (total.flows, total.goodput_bps, total.goodput_min_bps, total.goodput_max_bps),
            (3, 20, 0, 10)
        );
        assert_eq!(total.fairness, 2.0 / 3.0);
        assert_eq!(total.retransmitted_share(), 0.02);
        assert_eq!(total.timeouts, None);
        let groups = Group::of(&flows, counted);
        assert_eq!(groups.iter().map(|group| group.total.flows).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(Total::of([].iter(), counted).fairness, 1.0);
    }
}
