//! Converts the counters of endpoints and emulator to results in the shape of the simulator's.

use std::collections::BTreeMap;

use headway_lab::{Interval as Logged, Lateness, Truths};
use headway_record::{
    ControlInterval, Counted, FlowResult, Group, Interval, LinkResult, Results, Series, Summary, TcpInterval,
    Total,
};
use headway_scenario::{MiddleboxEnd, Scenario};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::translate::{Lane, Translated};
use crate::endpoint::{Counters, Sample};
use crate::middlebox;
use crate::pacing::pacing;

/// ssthresh as the kernel reports it before the first reduction.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// A finished run in the lab.
pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) translated: &'a Translated,
    pub(super) seed: u64,
    /// Time zero and the end, on `CLOCK_REALTIME`.
    pub(super) begin: Instant,
    pub(super) last: Instant,
    pub(super) sent: &'a [Sample],
    pub(super) received: &'a [Sample],
    pub(super) truths: &'a Truths,
    /// Of all queues of the lab, with its names and times.
    pub(super) control: Vec<ControlInterval>,
    /// What has passed middleboxes.
    pub(super) passed: &'a [MiddleboxEnd],
}

/// Returns why the machine made a run invalid, if it did: queues with this lateness, and this number of
/// packets that passed a middlebox which did not answer.
pub(super) fn invalid_reason(lateness: &[Lateness], unattended: u64) -> Option<String> {
    let worst = lateness.iter().map(|lateness| lateness.very_late_share).fold(0.0, f64::max);
    let missed: u64 = lateness.iter().map(|lateness| lateness.missed).sum();
    let (percent, late) = (worst * 100.0, lateness.iter().any(super::disturbed));
    (late || unattended > 0).then(|| {
        format!(
            "the machine was too busy ({percent:.1} % of packets over 1 ms late, {missed} not read in time, \
             {unattended} passed a middlebox that did not answer)"
        )
    })
}

impl Run<'_> {
    /// Returns the results, and why they are invalid if they are.
    pub(super) fn results(&self) -> (Results, Option<String>) {
        let invalid_reason = self.invalid_reason();
        let flows = self.flows();
        let summary = Summary {
            scenario: self.scenario.name.clone(),
            world: "lab".to_owned(),
            seed: self.seed,
            partial: self.last < self.begin + self.scenario.duration,
            valid: invalid_reason.is_none(),
            warmup_ns: self.scenario.warmup.ns().unsigned_abs(),
            measured_ns: self.measured_time().ns().unsigned_abs(),
            total: Total::of(flows.iter(), self.counted()),
            groups: Group::of(&flows, self.counted()),
            links: self.translated.lanes.iter().map(|lane| self.link(lane)).collect(),
            middleboxes: self.scenario.middlebox.iter().zip(self.passed).map(middlebox::result).collect(),
            // The emulator counts all sources of a queue together; their rates are those of the links.
            ..Summary::default()
        };
        let (series, control) = (self.series(), self.control());
        let results = Results { summary, flows, series, control, ..Results::default() };
        (results, invalid_reason)
    }

    fn warmup_end(&self) -> Instant {
        self.begin + self.scenario.warmup
    }

    /// Returns the measured time; zero when the run ended during warm-up.
    fn measured_time(&self) -> Duration {
        (self.last - self.warmup_end()).max(Duration::ZERO)
    }

    fn counted(&self) -> Counted {
        Counted::new(self.scenario.warmup, self.measured_time())
    }

    fn invalid_reason(&self) -> Option<String> {
        let lateness = |lane: &Lane| {
            let truth = self.truths.link(&lane.link).ok()?;
            Some(truth.lateness_between(lane.direction, self.begin, self.last))
        };
        let lateness: Vec<Lateness> = self.translated.lanes.iter().filter_map(lateness).collect();
        invalid_reason(&lateness, self.passed.iter().map(|end| end.unattended).sum())
    }

    /// Returns the latest sample of a flow at one end, up to `at`.
    fn at(samples: &[Sample], at: Instant, flow: usize) -> Counters {
        let sample = samples[..samples.partition_point(|sample| sample.at <= at)].last();
        sample.and_then(|sample| sample.flows.get(flow)).copied().unwrap_or_default()
    }

    fn flows(&self) -> Vec<FlowResult> {
        let specs =
            self.scenario.flow.iter().flat_map(|spec| (0..spec.count).map(move |index| (spec, index)));
        let flow = |(number, (spec, index)): (usize, (&headway_scenario::FlowSpec, u64))| {
            let [before, after] =
                [self.warmup_end(), self.last].map(|at| Self::at(self.received, at, number).received);
            let sent_before = Self::at(self.sent, self.warmup_end(), number);
            let sent =
                self.sent.last().and_then(|sample| sample.flows.get(number)).copied().unwrap_or_default();
            let goodput = Bytes::new(if self.measured_time() > Duration::ZERO { after - before } else { 0 });
            let start_ns = spec.start_of(index).ns();
            let finished_ns = Some(sent.finished.ns()).filter(|ns| *ns > 0);
            let us = |us: u32| known(us).map(|us| u64::from(us) * 1000);
            FlowResult {
                flow: number as u64,
                group: spec.group_name(),
                start_ns,
                finished_ns,
                goodput_bytes: goodput.get(),
                goodput_bps: self.counted().goodput(goodput.get(), start_ns, finished_ns),
                sent: sent.sent - sent_before.sent,
                retransmitted: sent.retransmitted - sent_before.retransmitted,
                timeouts: Some(sent.timeouts - sent_before.timeouts),
                recoveries: None,
                marks: Some(sent.marks - sent_before.marks),
                cwnd: sent.cwnd,
                srtt_ns: us(sent.srtt_us),
                min_rtt_ns: us(sent.min_rtt_us),
            }
        };
        specs.enumerate().map(flow).collect()
    }

    /// Returns the control intervals of the queues that results report, with the scenario's names and times.
    fn control(&self) -> Vec<ControlInterval> {
        let reported = |interval: &ControlInterval| {
            let lane =
                self.translated.lanes.iter().find(|lane| self.translated.is_lane(lane, &interval.link))?;
            let end_ns = interval.end_ns - self.begin.ns();
            Some(ControlInterval { link: lane.name.clone(), end_ns, ..interval.clone() })
        };
        let mut all: Vec<ControlInterval> = self.control.iter().filter_map(reported).collect();
        // Router by router; each one's stay in order of time.
        all.sort_by(|one, other| one.link.cmp(&other.link));
        all
    }

    /// Returns the logged intervals that begin in the window.
    fn logged(&self, lane: &Lane, from: Instant, to: Instant) -> &[Logged] {
        let all = self.truths.link(&lane.link).map_or(&[][..], |truth| truth.intervals(lane.direction));
        let (first, last) = (all.partition_point(|i| i.start < from), all.partition_point(|i| i.start < to));
        all.get(first..last).unwrap_or_default()
    }

    fn link(&self, lane: &Lane) -> LinkResult {
        let part = self.logged(lane, self.warmup_end(), self.last);
        let sum = |value: fn(&Logged) -> u64| part.iter().map(value).sum::<u64>();
        let time: Duration = part.iter().map(|interval| interval.length).sum();
        let [capacity, host, cross] = [
            sum(|i| i.capacity.bytes_in(i.length).get()),
            sum(|i| i.host_bits) / 8,
            sum(|i| i.cross_bits) / 8,
        ]
        .map(Bytes::new);
        let drops = sum(|i| i.host_drops + i.cross_drops);
        let queued = sum(|i| i.queued);
        LinkResult {
            delay_mean_ns: sum(|i| i.queued_time.ns().unsigned_abs()) / queued.max(1),
            delay_p50_ns: quantile(part, 0.5),
            delay_p99_ns: quantile(part, 0.99),
            delay_max_ns: part.iter().map(|i| i.max_queued_time.ns().unsigned_abs()).max().unwrap_or(0),
            arrived: queued + drops,
            dropped: drops,
            marked: sum(|i| i.host_marks),
            lost: sum(|i| i.host_lost),
            copies: Some(sum(|i| i.host_copies)),
            damaged: Some(sum(|i| i.host_damaged)),
            ..LinkResult::of(lane.name.clone(), time, lane.limited.then_some(capacity), host, cross)
        }
        .with_loss()
    }

    /// Returns the sender's state at the second sample, and its counts since the first.
    fn tcp(&self, before: &Counters, after: &Counters) -> TcpInterval {
        let rate = Rate::of(Bytes::new(after.pacing), Duration::from_ms(1_000)).unwrap_or_default();
        TcpInterval {
            cwnd: after.cwnd,
            ssthresh: Some(after.ssthresh).filter(|ssthresh| *ssthresh < NO_THRESHOLD),
            srtt: known(after.srtt_us).map(|us| Duration::from_us(us.into())),
            pacing: pacing(rate, self.scenario),
            sent: after.sent.saturating_sub(before.sent),
            retransmitted: after.retransmitted.saturating_sub(before.retransmitted),
            timeouts: Some(after.timeouts.saturating_sub(before.timeouts)),
            marks: Some(after.marks.saturating_sub(before.marks)),
            inside: None,
        }
    }

    fn series(&self) -> Series {
        let ends: Vec<Instant> = (1..=self.scenario.duration.ns() / self.scenario.interval.ns())
            .map(|index| self.begin + self.scenario.interval * index)
            .filter(|end| *end <= self.last)
            .collect();
        let begins = || std::iter::once(self.begin).chain(ends.iter().copied());
        let flows = self.received.first().map_or(0, |sample| sample.flows.len());
        let goodput = |flow: usize| {
            let seen = |at: Instant| Self::at(self.received, at, flow).received;
            begins().zip(&ends).map(|(begin, &end)| Bytes::new(seen(end) - seen(begin))).collect()
        };
        let tcp = |flow: usize| {
            let seen = |at: Instant| Self::at(self.sent, at, flow);
            begins().zip(&ends).map(|(begin, &end)| self.tcp(&seen(begin), &seen(end))).collect()
        };
        let lanes = &self.translated.lanes;
        let link = |lane: &Lane| {
            let part = |(begin, &end)| interval(lane, self.logged(lane, begin, end));
            begins().zip(&ends).map(part).collect()
        };
        Series {
            goodput: (0..flows).map(goodput).collect(),
            tcp: (0..flows).map(tcp).collect(),
            flows: (0..flows).map(|flow| flow.to_string()).collect(),
            links: lanes.iter().map(link).collect(),
            names: lanes.iter().map(|lane| lane.name.clone()).collect(),
            ends: ends.iter().map(|end| Instant::ZERO + (*end - self.begin)).collect(),
        }
    }
}

/// Returns a time unless the kernel has not measured it yet.
fn known(us: u32) -> Option<u32> {
    (us > 0 && us < u32::MAX).then_some(us)
}

fn interval(lane: &Lane, part: &[Logged]) -> Interval {
    let bytes = |value: fn(&Logged) -> u64| Bytes::new(part.iter().map(value).sum::<u64>() / 8);
    Interval {
        capacity: lane.limited.then(|| part.iter().map(|i| i.capacity.bytes_in(i.length)).sum()),
        measured: bytes(|i| i.host_bits),
        probes: Bytes::ZERO,
        cross: bytes(|i| i.cross_bits),
        dropped: part.iter().map(|i| i.host_drops + i.cross_drops).sum(),
        queue: part.iter().map(|i| i.max_queue).max().unwrap_or_default(),
    }
}

/// Returns a quantile of the logged delays in nanoseconds. They are counted in whole microseconds:
/// the longest delay of a microsecond stands for it, so that no quantile lies below all delays, or
/// above the longest one.
fn quantile(part: &[Logged], share: f64) -> u64 {
    let mut delays: BTreeMap<u32, u64> = BTreeMap::new();
    for (delay, packets) in part.iter().flat_map(|interval| &interval.delays) {
        *delays.entry(*delay).or_default() += u64::from(*packets);
    }
    let rank = (delays.values().sum::<u64>() as f64 * share) as u64;
    let mut seen = 0;
    let at_rank = delays.iter().find(|(_, packets)| {
        seen += *packets;
        seen > rank
    });
    let longest = part.iter().map(|interval| interval.max_queued_time.ns().unsigned_abs()).max().unwrap_or(0);
    at_rank.or(delays.last_key_value()).map_or(0, |(delay, _)| (u64::from(*delay) * 1_000 + 999).min(longest))
}
