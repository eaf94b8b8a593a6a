//! Runs a scenario in the simulator and records the results.

use std::collections::HashSet;

use headway_units::{Bytes, Duration, Instant, Rate};

use headway_estimate::measure::{Claim, Method};
use headway_queue::explicit::Record;
use headway_record::{
    ClaimResult, ControlInterval, Counted, FlowResult, Group, Interval, LinkResult, MeasureResult,
    MiddleboxResult, Results, Series, SourceResult, StreamTruth, Summary, Total, bps,
};
use headway_scenario::{Error, FlowSpec, MiddleboxSpec, Scenario};
use headway_traffic::MIN_THINK;
use headway_traffic::percentiles::Percentiles;

use crate::LinkStatistics;
use crate::arrivals::ArrivingGroup;
use crate::build::{Built, SERIES_FLOWS, What};
use crate::config::{LinkId, MiddleboxId};
use crate::decisions::decisions;
use crate::measurement::{Measured, Measurements};
use crate::progress::Progress;

/// Longest virtual time between checks of memory, after which a run can also be stopped.
const SLICE: Duration = Duration::from_ms(100);

/// Maximum number of events between checks of memory and interruptions: about a second on a slow machine.
const MAX_STEP_EVENTS: u64 = 3_000_000;
/// Control intervals of a router that are recorded, about 25 MB as they are kept: 20 minutes
/// of intervals of 12 ms.
const CONTROL_RECORDS: usize = 100_000;

/// Length of the traffic sample from which percentiles are computed.
const PROFILE_LENGTH: Duration = Duration::from_ms(4_000);

/// A run in progress: a pure function of scenario and seed.
#[derive(Debug)]
pub struct Run<'a> {
    scenario: &'a Scenario,
    seed: u64,
    limit: Bytes,
    built: Built,
    series: Series,
    /// Records of explicit routers, by link.
    control: Vec<Vec<Record>>,
    /// Values of the current interval, and the counters at the last update.
    links: Vec<Meter<Interval>>,
    flows: Vec<Meter<Progress>>,
    counting: bool,
    /// The end of the step that ran out of its event budget, and of its interval.
    target: Option<(Instant, Instant)>,
}

/// Counts of the current interval, and the counters at the last update.
#[derive(Clone, Copy, Debug, Default)]
struct Meter<T> {
    interval: T,
    last: T,
}

impl<'a> Run<'a> {
    /// Prepares a run, which stops with an error when it needs more memory than `limit`.
    ///
    /// # Errors
    /// As for [`Built::new`].
    pub fn new(scenario: &'a Scenario, seed: u64, limit: Bytes) -> Result<Run<'a>, Error> {
        let built = Built::new(scenario, seed, limit)?;
        let followed = built.flows.len().min(SERIES_FLOWS);
        let series = Series {
            flows: (0..followed).map(|flow| flow.to_string()).collect(),
            goodput: vec![Vec::new(); followed],
            tcp: vec![Vec::new(); followed],
            names: built.links.iter().map(|(_, name)| name.clone()).collect(),
            links: vec![Vec::new(); built.links.len()],
            ends: Vec::new(),
        };
        let links = vec![Meter::default(); built.links.len()];
        let flows = vec![Meter::default(); followed];
        let control = vec![Vec::new(); built.links.len()];
        let mut run = Run {
            scenario,
            seed,
            limit,
            built,
            series,
            links,
            flows,
            control,
            counting: false,
            target: None,
        };
        for (link, _) in &run.built.links {
            run.built.network.keep_records(*link);
        }
        Ok(run)
    }

    /// Advances the run by at most 100 ms of virtual time; returns false when the run is complete.
    ///
    /// # Errors
    /// When the network exceeds the memory limit, or has no room for an arriving flow.
    pub fn step(&mut self) -> Result<bool, Error> {
        if self.built.selections.step() {
            return Ok(true);
        }
        let end = Instant::ZERO + self.scenario.duration;
        let now = self.now();
        if now >= end {
            return Ok(false);
        }
        let warmup_end = Instant::ZERO + self.scenario.warmup;
        if !self.counting && now >= warmup_end {
            self.built.network.reset_statistics();
            self.count_completions();
            self.built.arriving.iter_mut().for_each(ArrivingGroup::reset);
            self.reset_meters();
            self.counting = true;
        }
        let (until, boundary) = self.target.take().unwrap_or_else(|| {
            let boundary = self.boundary().min(end);
            let until = boundary.min(now + SLICE);
            (if self.counting { until } else { until.min(warmup_end) }, boundary)
        });
        if self.run_until(until)? {
            self.update_meters();
            if until == boundary {
                self.close_interval(until);
            }
        } else {
            self.target = Some((until, boundary));
        }
        self.take_control();
        let control: usize = self.control.iter().map(Vec::capacity).sum();
        let needed = self.built.network.memory() + Bytes::new((control * size_of::<Record>()) as u64);
        if needed > self.limit {
            return Err(Error::Memory { needed, limit: self.limit });
        }
        Ok(self.target.is_some() || until < end)
    }

    /// Advances to `until`, polling measurements and starting flows that arrive; returns false when the
    /// event budget ran out.
    fn run_until(&mut self, until: Instant) -> Result<bool, Error> {
        loop {
            let Built { network, measurements, arriving, changes, .. } = &mut self.built;
            let change = changes.front().map(|change| change.at);
            let polls = measurements.iter().filter_map(Measurements::next);
            let arrivals = arriving.iter().filter_map(ArrivingGroup::next);
            let look = arriving.iter().any(ArrivingGroup::depends_on_completions);
            let look = look.then(|| next_multiple(network.now(), MIN_THINK));
            let times = polls.chain(arrivals).chain(look).chain(change);
            let Some(next) = times.min().filter(|next| *next <= until) else { break };
            if !network.run_some(next, MAX_STEP_EVENTS) {
                return Ok(false);
            }
            measurements.iter_mut().for_each(|measurement| measurement.poll(network));
            if !arriving.iter_mut().all(|group| group.poll(network)) {
                return Err(Error::Flows { alive: network.flows_alive() });
            }
            self.count_completions();
            self.make_changes();
        }
        let reached = self.built.network.run_some(until, MAX_STEP_EVENTS);
        self.count_completions();
        Ok(reached)
    }

    /// Makes the changes of queues and controllers that are due.
    fn make_changes(&mut self) {
        let now = self.now();
        while let Some(change) = self.built.changes.pop_front_if(|change| change.at <= now) {
            match change.what {
                What::Queue(link, queue) => {
                    self.take_control();
                    self.built.network.change_queue(link, &queue);
                    self.built.network.keep_records(link);
                }
                What::Controller(flows, config) => {
                    flows.iter().for_each(|flow| self.built.network.change_controller(*flow, &config));
                }
            }
        }
    }

    /// Counts the flows of groups that have completed.
    fn count_completions(&mut self) {
        let Built { network, arriving, .. } = &mut self.built;
        for completion in network.take_completions() {
            if let Some(group) = arriving.iter_mut().find(|group| group.group == completion.group) {
                group.complete(&completion);
            }
        }
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        self.built.network.now()
    }

    /// Returns the number of events handled so far.
    pub fn events(&self) -> u64 {
        self.built.network.events()
    }

    /// Returns the results so far; partial if the run is not complete.
    pub fn finish(mut self) -> Results {
        let now = self.now();
        if self.series.ends.last().copied().unwrap_or_default() < now {
            self.update_meters();
            self.close_interval(now);
        }
        let counted =
            if self.counting { now - (Instant::ZERO + self.scenario.warmup) } else { Duration::ZERO };
        let span = Counted::new(self.scenario.warmup, counted);
        let flows: Vec<FlowResult> =
            (0..self.built.flows.len()).map(|index| self.flow(index, span)).collect();
        let links = self.built.links.iter().map(|(id, name)| self.link(*id, name, counted)).collect();
        let arriving: Vec<(usize, Group)> = self
            .built
            .arriving
            .iter()
            .map(|group| (group.flow, group.summary(self.scenario, counted)))
            .collect();
        let mut total = Total::of(flows.iter(), span);
        arriving.iter().for_each(|(_, group)| total.add(&group.total));
        let summary = Summary {
            scenario: self.scenario.name.clone(),
            world: "sim".to_owned(),
            seed: self.seed,
            partial: now < Instant::ZERO + self.scenario.duration,
            valid: true,
            warmup_ns: ns(self.scenario.warmup),
            measured_ns: ns(counted),
            total,
            groups: self.groups(&flows, arriving, span),
            links,
            traffic: (0..self.built.sources.len()).map(|index| self.source(index, counted)).collect(),
            measurements: self.measurements(),
            middleboxes: self.middleboxes(),
            decisions: decisions(self.scenario, &self.built),
            selections: self.built.selections.results().to_vec(),
            programs: Vec::new(),
        };
        let streams = self.streams();
        let links = self.built.links.iter();
        let delays = links.map(|(id, _)| self.built.network.link(*id).statistics().delay.clone()).collect();
        let completion_times =
            self.built.arriving.iter().map(|group| group.completion_times(self.scenario)).collect();
        let control = self.built.links.iter().zip(&self.control);
        let control = control
            .flat_map(|((_, name), records)| records.iter().map(|record| ControlInterval::new(name, record)))
            .collect();
        Results { summary, flows, series: self.series, streams, delays, completion_times, control }
    }

    fn middleboxes(&self) -> Vec<MiddleboxResult> {
        let middleboxes = self.scenario.middlebox.iter().zip(&self.built.middleboxes);
        let result = |(spec, id): (&MiddleboxSpec, &MiddleboxId)| {
            let counts = self.built.network.middlebox_counts(*id);
            MiddleboxResult {
                at: spec.at.clone(),
                connections: counts.begun,
                acks: Some(counts.acks),
                lowered: counts.lowered,
            }
        };
        middleboxes.map(result).collect()
    }

    /// Collects the records of explicit routers.
    fn take_control(&mut self) {
        for ((link, _), kept) in self.built.links.iter().zip(&mut self.control) {
            let records = self.built.network.take_records(*link);
            kept.extend(records.into_iter().take(CONTROL_RECORDS - kept.len()));
        }
    }

    /// Returns the end of the current interval: a multiple of the scenario's interval.
    fn boundary(&self) -> Instant {
        let interval = self.scenario.interval.ns().unsigned_abs();
        Instant::from_ns((self.now().ns() / interval + 1) * interval)
    }

    /// Adds the counts since the last update to the current interval.
    fn update_meters(&mut self) {
        for ((id, _), meter) in self.built.links.iter().zip(&mut self.links) {
            let seen = counters(self.built.network.link(*id).statistics());
            meter.interval.measured += difference(seen.measured, meter.last.measured);
            meter.interval.probes += difference(seen.probes, meter.last.probes);
            meter.interval.cross += difference(seen.cross, meter.last.cross);
            meter.interval.dropped += seen.dropped - meter.last.dropped;
            meter.last = seen;
        }
        for (line, meter) in self.built.flows.iter().zip(&mut self.flows) {
            let seen = Progress::from(&self.built.network.flow(line.id));
            meter.interval.add(&meter.last, &seen);
            meter.last = seen;
        }
    }

    /// Restarts the meters after the counters were reset to zero.
    fn reset_meters(&mut self) {
        for meter in &mut self.links {
            meter.last = Interval::default();
        }
        for meter in &mut self.flows {
            meter.last = Progress::default();
        }
    }

    /// Ends the current interval.
    fn close_interval(&mut self, end: Instant) {
        let begin = self.series.ends.last().copied().unwrap_or_default();
        for (((id, _), meter), values) in
            self.built.links.iter().zip(&mut self.links).zip(&mut self.series.links)
        {
            let link = self.built.network.link(*id);
            let (capacity, queue) = (link.limit(begin, end), link.queued().bytes);
            values.push(Interval { capacity, queue, ..std::mem::take(&mut meter.interval) });
        }
        for (index, meter) in self.flows.iter_mut().enumerate() {
            let progress = std::mem::take(&mut meter.interval);
            let sender = self.built.network.flow(self.built.flows[index].id);
            self.series.goodput[index].push(progress.goodput);
            self.series.tcp[index].push(progress.of_sender(&sender));
        }
        self.series.ends.push(end);
    }

    /// Returns all groups in the order of the scenario.
    fn groups(&self, flows: &[FlowResult], arriving: Vec<(usize, Group)>, counted: Counted) -> Vec<Group> {
        let mut groups = Group::of(flows, counted);
        for (flow, group) in arriving {
            let before: HashSet<String> =
                self.scenario.flow[..flow].iter().map(FlowSpec::group_name).collect();
            let place = groups.iter().position(|group| !before.contains(&group.name)).unwrap_or(groups.len());
            groups.insert(place, group);
        }
        groups
    }

    fn flow(&self, index: usize, counted: Counted) -> FlowResult {
        let line = &self.built.flows[index];
        let seen = self.built.network.flow(line.id);
        let goodput = if self.counting { seen.goodput } else { Bytes::ZERO };
        let finished_ns = seen.finished.map(Instant::ns);
        FlowResult {
            flow: index as u64,
            group: self.scenario.flow[line.group].group_name(),
            start_ns: line.start.ns(),
            finished_ns,
            goodput_bytes: goodput.get(),
            goodput_bps: counted.goodput(goodput.get(), line.start.ns(), finished_ns),
            sent: seen.sent,
            retransmitted: seen.retransmitted,
            timeouts: Some(seen.timeouts),
            recoveries: Some(seen.recoveries),
            marks: Some(seen.marked),
            cwnd: seen.cwnd,
            srtt_ns: seen.srtt.map(ns),
            min_rtt_ns: seen.min_rtt.map(ns),
        }
    }

    fn link(&self, id: LinkId, name: &str, counted: Duration) -> LinkResult {
        let link = self.built.network.link(id);
        let seen = link.statistics();
        let (now, passed) = (self.now(), counters(seen));
        let capacity = link.limit(now - counted, now).filter(|capacity| *capacity > Bytes::ZERO);
        LinkResult {
            delay_mean_ns: ns(seen.delay.mean()),
            delay_p50_ns: ns(seen.delay.quantile(0.5)),
            delay_p99_ns: ns(seen.delay.quantile(0.99)),
            delay_max_ns: ns(seen.delay.max()),
            arrived: seen.arrived.packets,
            dropped: seen.dropped.packets,
            policed: seen.policed.packets,
            lost: seen.lost.packets,
            marked: seen.marked,
            thinned: Some(seen.thinned.packets),
            copies: Some(seen.copies.packets),
            damaged: Some(seen.damaged),
            ..LinkResult::of(name.to_owned(), counted, capacity, passed.measured, passed.cross)
        }
        .with_loss()
    }

    fn source(&self, index: usize, counted: Duration) -> SourceResult {
        let seen = self.built.network.source_statistics(self.built.sources[index]);
        let traffic = &self.scenario.traffic[index].traffic;
        let profile = Percentiles::measure(
            traffic,
            self.seed,
            index as u64,
            self.scenario.duration.min(PROFILE_LENGTH),
        );
        SourceResult {
            traffic: index as u64,
            model: traffic.model().to_owned(),
            mean_bps: bps(seen.sent.bytes, counted),
            p5_bps: profile.p5.bps(),
            p50_bps: profile.p50.bps(),
            p95_bps: profile.p95.bps(),
            sent: seen.sent.packets,
            delivered: seen.delivered.packets,
            sent_bps: bps(seen.sent.bytes, counted),
            delivered_bps: bps(seen.delivered.bytes, counted),
        }
    }
}

/// Measurements and their streams.
impl Run<'_> {
    /// Returns the measurements so far, including the one in progress.
    pub fn measurements(&self) -> Vec<MeasureResult> {
        let measurements = self.built.measurements.iter().enumerate();
        measurements
            .flat_map(|(index, measurements)| {
                let result = move |measured: &_| {
                    measure_result(index, measurements.method(), measured, |link| self.link_name(link))
                };
                let unfinished = measurements.unfinished(&self.built.network);
                let unfinished = unfinished.map(|measured| result(&measured).truncated());
                measurements.ended().iter().map(result).chain(unfinished)
            })
            .collect()
    }

    /// Returns the number of completed measurements.
    pub fn measured(&self) -> usize {
        self.built.measurements.iter().map(|measurements| measurements.ended().len()).sum()
    }

    /// Returns how many packets of other traffic the links of measured paths have dropped since
    /// the start of the run.
    pub fn others_dropped(&self) -> u64 {
        let measurements = self.built.measurements.iter();
        measurements.map(|measurements| measurements.others_dropped(&self.built.network)).sum()
    }

    fn link_name(&self, link: LinkId) -> String {
        let known = self.built.links.iter().find(|(id, _)| *id == link);
        known.map(|(_, name)| name.clone()).unwrap_or_default()
    }

    fn streams(&self) -> Vec<(u64, StreamTruth)> {
        let measurements = self.built.measurements.iter().enumerate();
        measurements
            .flat_map(|(index, one)| one.streams().iter().map(move |stream| (index as u64, *stream)))
            .collect()
    }
}

fn claim_result(claim: &Claim) -> ClaimResult {
    let (low, high) = (claim.low.bps(), claim.high.map(Rate::bps));
    ClaimResult { percent: claim.percent, low_bps: low, high_bps: high }
}

/// Converts a measurement to a record; `name` returns the name of a link.
fn measure_result(
    measure: usize,
    method: Method,
    measured: &Measured,
    name: impl Fn(LinkId) -> String,
) -> MeasureResult {
    let (answer, truth) = (&measured.answer, measured.truth);
    let interval = answer.available.as_ref().ok();
    MeasureResult {
        measure: measure as u64,
        method: method.to_string(),
        begin_ns: measured.begin.ns(),
        end_ns: measured.end.ns(),
        sampled_from_ns: measured.sampled_from.ns(),
        available_bps: interval.map(|interval| interval.rate.bps()),
        low_bps: interval.map(|interval| interval.low.bps()),
        high_bps: interval.and_then(|interval| interval.high).map(Rate::bps),
        claims: answer.claims.iter().map(claim_result).collect(),
        changed: answer.change.is_some(),
        before_bps: answer.change.map(|change| change.before.bps()),
        after_bps: answer.change.map(|change| change.after.bps()),
        failure: answer.available.as_ref().err().map(ToString::to_string),
        path_kind: answer.path_kind.map(|kind| kind.name().to_owned()),
        capacity_bps: answer.capacity.map(Rate::bps),
        bucket_bytes: answer.bucket.map(Bytes::get),
        free_bps: truth.map(|truth| truth.free.bps()),
        tight_link: truth.map(|truth| name(truth.tight)),
        free_without_tcp_bps: truth.map(|truth| truth.free_without_tcp.bps()),
        narrow_bps: truth.map(|truth| truth.capacity.bps()),
        streams_used: answer.streams_used,
        streams_refused: answer.streams_refused.values().sum(),
        bytes: answer.bytes.get(),
        added_delay_ns: measured.added_delay.ns().unsigned_abs(),
        added_delay_max_ns: measured.added_delay_max.ns().unsigned_abs(),
        others_lost: measured.displaced,
    }
}

fn counters(seen: &LinkStatistics) -> Interval {
    Interval {
        measured: seen.served_tcp.bytes + seen.served_probe.bytes,
        probes: seen.served_probe.bytes,
        cross: seen.served_other.bytes,
        dropped: seen.dropped.packets + seen.policed.packets,
        ..Interval::default()
    }
}

fn difference(bytes: Bytes, other: Bytes) -> Bytes {
    Bytes::new(bytes.get().saturating_sub(other.get()))
}

/// Returns the first multiple of `step` after `now`.
fn next_multiple(now: Instant, step: Duration) -> Instant {
    let step = step.ns().unsigned_abs();
    Instant::from_ns((now.ns() / step + 1) * step)
}

fn ns(time: Duration) -> u64 {
    time.ns().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_outgrows_its_memory_stops_with_a_sentence() {
        let text = "duration = \"100 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Gb/s\"\nbuffer = \"100 MB\"\n\
                    [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";
        let scenario = Scenario::parse(text, std::path::Path::new("x.toml"), &[]).unwrap();
        let mut run = Run::new(&scenario, 1, crate::memory(&scenario)).unwrap();
        run.limit = run.built.network.memory() + Bytes::new(100_000);
        let error = loop {
            match run.step() {
                Ok(more) => assert!(more, "it never stopped"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("this scenario needs about"), "{error}");
    }
}
