//! Converts a guest's report to results in the shape of the simulator's.

use headway_record::{
    ControlInterval, Counted, FlowResult, Group, Histogram, Interval, LinkResult, MiddleboxResult,
    ProgramResult, Results, Series, SourceResult, Summary, TcpInterval, Total, bps,
};
use headway_scenario::{FlowController, FlowSpec, Scenario, Topology};
use headway_traffic::percentiles::Percentiles;
use headway_uml::machine::Report;
use headway_uml::report::{Control, DirectionCounters, FlowCounters, Snapshot};
use headway_units::{Bytes, Duration, Instant};

use super::inside::inside;
use crate::middlebox;
use crate::pacing::pacing;

/// Number of flows with a time series of their own.
const SERIES_FLOWS: usize = 256;
/// Length of the traffic sample for percentiles.
const PROFILE: Duration = Duration::from_ms(4_000);

/// A run in the kernel's world that has finished or was interrupted.
pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) topology: &'a Topology,
    pub(super) seed: u64,
    pub(super) report: &'a Report,
}

impl Run<'_> {
    pub(super) fn results(&self) -> Results {
        let flows = self.flows();
        let summary = Summary {
            scenario: self.scenario.name.clone(),
            world: "uml".to_owned(),
            seed: self.seed,
            partial: self.report.end.is_none(),
            valid: true,
            warmup_ns: self.scenario.warmup.ns().unsigned_abs(),
            measured_ns: self.measured_time().ns().unsigned_abs(),
            total: Total::of(flows.iter(), self.counted()),
            groups: Group::of(&flows, self.counted()),
            links: (0..self.topology.directions().len()).map(|index| self.link(index)).collect(),
            traffic: (0..self.scenario.traffic.len()).map(|index| self.source(index)).collect(),
            middleboxes: self.middleboxes(),
            programs: (0..self.scenario.program.len()).map(|index| self.program(index)).collect(),
            ..Summary::default()
        };
        let delays = (0..self.topology.directions().len()).map(|index| self.waits(index)).collect();
        let (series, control) = (self.series(), self.control());
        Results { summary, flows, series, delays, control, ..Results::default() }
    }

    /// Returns the control intervals of all routers, one router after the other.
    fn control(&self) -> Vec<ControlInterval> {
        let interval = |control: &Control| {
            let direction = self.topology.directions().get(control.direction)?;
            Some(ControlInterval::new(&direction.name, &control.read()?))
        };
        self.report.control.iter().filter_map(interval).collect()
    }

    /// Returns the last sample up to the end of warm-up.
    fn warmup_end(&self) -> Option<&Snapshot> {
        self.report.snapshots.iter().rev().find(|snapshot| snapshot.at <= self.scenario.warmup)
    }

    fn last(&self) -> Option<&Snapshot> {
        self.report.snapshots.last()
    }

    /// Returns the measured time; zero when the run ended during warm-up.
    fn measured_time(&self) -> Duration {
        let end = self.last().map_or(Duration::ZERO, |snapshot| snapshot.at);
        (end - self.scenario.warmup).max(Duration::ZERO)
    }

    fn counted(&self) -> Counted {
        Counted::new(self.scenario.warmup, self.measured_time())
    }

    fn flows(&self) -> Vec<FlowResult> {
        self.specs().enumerate().map(|(number, (spec, index))| self.flow(number, spec, index)).collect()
    }

    /// Returns the specification of every flow, and its index there.
    fn specs(&self) -> impl Iterator<Item = (&FlowSpec, u64)> {
        self.scenario.flow.iter().flat_map(|spec| (0..spec.count).map(move |index| (spec, index)))
    }

    fn flow(&self, number: usize, spec: &FlowSpec, index: u64) -> FlowResult {
        let of = |snapshot: Option<&Snapshot>| -> FlowCounters {
            snapshot.and_then(|snapshot| snapshot.flows.get(number)).copied().unwrap_or_default()
        };
        let after = of(self.last());
        let before = if self.measured_time() > Duration::ZERO { of(self.warmup_end()) } else { after };
        let goodput = Bytes::new(after.received.saturating_sub(before.received));
        let ns = |time: Duration| Some(time.ns().unsigned_abs()).filter(|ns| *ns > 0);
        let (start_ns, finished_ns) = (spec.start_of(index).ns(), after.finished.and_then(ns));
        FlowResult {
            flow: number as u64,
            group: spec.group_name(),
            start_ns,
            finished_ns,
            goodput_bytes: goodput.get(),
            goodput_bps: self.counted().goodput(goodput.get(), start_ns, finished_ns),
            sent: after.sent.saturating_sub(before.sent),
            retransmitted: after.retransmitted.saturating_sub(before.retransmitted),
            timeouts: Some(after.timeouts.saturating_sub(before.timeouts)),
            recoveries: None,
            marks: Some(after.marks.saturating_sub(before.marks)),
            cwnd: after.cwnd,
            srtt_ns: ns(after.srtt),
            min_rtt_ns: ns(after.min_rtt),
        }
    }

    fn link(&self, index: usize) -> LinkResult {
        let direction = &self.topology.directions()[index];
        let seen = self.measured_direction(index);
        let waits = self.waits(index);
        let rate = self.scenario.link[direction.link].rate;
        let capacity =
            rate.map(|rate| rate.bytes_in(self.measured_time())).filter(|bytes| *bytes > Bytes::ZERO);
        let ns = |time: Duration| time.ns().unsigned_abs();
        let [measured, cross] = [seen.measured, seen.cross].map(Bytes::new);
        LinkResult {
            delay_mean_ns: seen.waited.checked_div(seen.departed).unwrap_or(0),
            delay_p50_ns: ns(waits.quantile(0.5)),
            delay_p99_ns: ns(waits.quantile(0.99)),
            delay_max_ns: seen.waited_max,
            arrived: seen.arrived,
            dropped: seen.dropped,
            lost: seen.lost,
            marked: seen.marked,
            ..LinkResult::of(direction.name.clone(), self.measured_time(), capacity, measured, cross)
        }
        .with_loss()
    }

    /// Returns the queueing delays of a direction since warm-up.
    fn waits(&self, index: usize) -> Histogram {
        let seen = self.measured_direction(index);
        let bins = self.report.end.as_ref().and_then(|end| end.waits.get(index));
        Histogram::from_bins(bins.map_or(&[], Vec::as_slice), seen.waited, seen.waited_max)
    }

    /// Returns the counters of a direction since warm-up.
    fn measured_direction(&self, index: usize) -> DirectionCounters {
        let (before, after) = (direction(self.warmup_end(), index), direction(self.last(), index));
        let counted = if self.measured_time() > Duration::ZERO { before } else { after };
        DirectionCounters {
            arrived: after.arrived.saturating_sub(counted.arrived),
            departed: after.departed.saturating_sub(counted.departed),
            measured: after.measured.saturating_sub(counted.measured),
            cross: after.cross.saturating_sub(counted.cross),
            marked: after.marked.saturating_sub(counted.marked),
            waited: after.waited.saturating_sub(counted.waited),
            dropped: after.dropped.saturating_sub(counted.dropped),
            lost: after.lost.saturating_sub(counted.lost),
            ..after
        }
    }

    fn source(&self, index: usize) -> SourceResult {
        let of = |snapshot: Option<&Snapshot>| {
            snapshot.and_then(|snapshot| snapshot.sources.get(index)).copied().unwrap_or_default()
        };
        let (before, after) = (of(self.warmup_end()), of(self.last()));
        let traffic = &self.scenario.traffic[index].traffic;
        let time = self.scenario.duration.min(PROFILE);
        let profile = Percentiles::measure(traffic, self.seed, index as u64, time);
        SourceResult {
            traffic: index as u64,
            model: traffic.model().to_owned(),
            mean_bps: bps(Bytes::new(after.sent_bytes - before.sent_bytes), self.measured_time()),
            p5_bps: profile.p5.bps(),
            p50_bps: profile.p50.bps(),
            p95_bps: profile.p95.bps(),
            sent: after.sent - before.sent,
            delivered: after.delivered - before.delivered,
            sent_bps: bps(Bytes::new(after.sent_bytes - before.sent_bytes), self.measured_time()),
            delivered_bps: bps(
                Bytes::new(after.delivered_bytes - before.delivered_bytes),
                self.measured_time(),
            ),
        }
    }

    fn middleboxes(&self) -> Vec<MiddleboxResult> {
        self.scenario.middlebox.iter().zip(&self.report.middleboxes).map(middlebox::result).collect()
    }

    fn program(&self, index: usize) -> ProgramResult {
        let spec = &self.scenario.program[index];
        let end = self.report.programs.iter().find(|end| end.program == index);
        let ns = |time: Duration| time.ns().unsigned_abs();
        ProgramResult {
            program: index as u64,
            at: spec.at.clone(),
            command: spec.command.clone(),
            started_ns: ns(spec.start),
            ended_ns: end.map(|end| ns(end.at)),
            exit_status: end.and_then(|end| end.status),
            signal: end.and_then(|end| end.signal),
            stopped: end.is_some_and(|end| end.stopped),
        }
    }

    fn series(&self) -> Series {
        let snapshots: Vec<&Snapshot> =
            self.report.snapshots.iter().filter(|snapshot| self.is_end(snapshot.at)).collect();
        let flows = snapshots.first().map_or(0, |snapshot| snapshot.flows.len()).min(SERIES_FLOWS);
        let pairs = || std::iter::once(None).chain(snapshots.iter().copied().map(Some)).zip(&snapshots);
        let goodput = |flow: usize| {
            let received =
                |snapshot: Option<&Snapshot>| snapshot.map_or(0, |snapshot| snapshot.flows[flow].received);
            pairs().map(|(before, after)| Bytes::new(received(Some(after)) - received(before))).collect()
        };
        let tcp = |flow: usize| {
            let seen = |snapshot: Option<&Snapshot>| {
                snapshot.map(|snapshot| snapshot.flows[flow]).unwrap_or_default()
            };
            let controller = self.specs().nth(flow).map(|(spec, _)| &spec.controller);
            pairs().map(|(before, after)| self.tcp(controller, &seen(before), &seen(Some(after)))).collect()
        };
        let link = |index: usize| -> Vec<Interval> {
            let rate = self.scenario.link[self.topology.directions()[index].link].rate;
            let interval = |(before, after): (Option<&Snapshot>, &&Snapshot)| {
                let begin = before.map_or(Duration::ZERO, |snapshot| snapshot.at);
                let (before, now) = (direction(before, index), direction(Some(after), index));
                Interval {
                    capacity: rate.map(|rate| rate.bytes_in(after.at - begin)),
                    measured: Bytes::new(now.measured.saturating_sub(before.measured)),
                    probes: Bytes::ZERO,
                    cross: Bytes::new(now.cross.saturating_sub(before.cross)),
                    dropped: now.dropped.saturating_sub(before.dropped),
                    queue: Bytes::new(now.queue),
                }
            };
            pairs().map(interval).collect()
        };
        Series {
            goodput: (0..flows).map(goodput).collect(),
            tcp: (0..flows).map(tcp).collect(),
            flows: (0..flows).map(|flow| flow.to_string()).collect(),
            links: (0..self.topology.directions().len()).map(link).collect(),
            names: self.topology.directions().iter().map(|direction| direction.name.clone()).collect(),
            ends: snapshots.iter().map(|snapshot| Instant::ZERO + snapshot.at).collect(),
        }
    }

    /// Returns the sender's state at the second sample, and its counts since the first.
    fn tcp(
        &self,
        controller: Option<&FlowController>,
        before: &FlowCounters,
        after: &FlowCounters,
    ) -> TcpInterval {
        let count = |of: fn(&FlowCounters) -> u64| of(after).saturating_sub(of(before));
        TcpInterval {
            cwnd: after.cwnd,
            ssthresh: after.ssthresh,
            srtt: Some(after.srtt).filter(|srtt| *srtt > Duration::ZERO),
            pacing: pacing(after.pacing, self.scenario),
            sent: count(|flow| flow.sent),
            retransmitted: count(|flow| flow.retransmitted),
            timeouts: Some(count(|flow| flow.timeouts)),
            marks: Some(count(|flow| flow.marks)),
            inside: inside(controller, &after.controller),
        }
    }

    /// Whether an interval of the time series ends at `at`.
    fn is_end(&self, at: Duration) -> bool {
        at > Duration::ZERO && at.ns() % self.scenario.interval.ns() == 0 || at == self.scenario.duration
    }
}

fn direction(snapshot: Option<&Snapshot>, index: usize) -> DirectionCounters {
    snapshot.and_then(|snapshot| snapshot.directions.get(index)).copied().unwrap_or_default()
}
