//! Passive estimates of the available bandwidth of a path, against the truth (wan 4.5).

use headway_dataset::dumbbell::{Dumbbell, End, Flow, Pattern, Ran};
use headway_dataset::windows::Watched;
use headway_estimate::sabes::{Estimate, Form, Settings, Side, Transfer, Windows};
use headway_figures::{Curve, Figure, Panel};
use headway_units::{Bytes, Duration, Instant, Rate};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{largest, mean, quantile, smallest, sorted};

/// Passive estimates of the available bandwidth: TCP flows and cross traffic through a dumbbell.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Passive {
    /// RTTs without queues.
    rtts: Vec<Duration>,
    /// Mean cross traffic, as shares of the capacity of 100 Mb/s.
    loads: Vec<f64>,
    /// On-off sources that make up the cross traffic.
    sources: u32,
    /// TCP flows.
    flows: usize,
    /// Payload of each flow.
    size: Bytes,
    /// The end of a run, at the latest.
    end: Duration,
    /// Runs with different seeds.
    runs: Count,
}

/// Capacity of the bottleneck, Mb/s.
const CAPACITY: f64 = 100.0;
/// Packets that the queue of the bottleneck holds (wan 4.5).
const QUEUE: u64 = 300;
/// When the flows start, and the time between their starts.
const START: Instant = Instant::from_ns(1_000_000_000);
const STAGGER: Duration = Duration::from_ms(10);
/// Length of the windows of flow throughput and of a path: that of the default settings.
const PERIOD: Duration = Duration::from_ms(200);

/// The published rules with one part changed, and with both.
const CHANGED: [&str; 3] = ["literal-queued", "literal-harmonic", "literal-both"];

/// A load and an RTT.
struct Cell {
    load: f64,
    rtt: Duration,
}

impl Cell {
    fn name(&self) -> String {
        format!("{:.0}/{:.0}", self.load * 100.0, self.rtt.ms())
    }
}

/// The errors of the estimates of one reader over one run.
#[derive(Default)]
struct Errors {
    /// Absolute errors of each flow, Mb/s.
    flows: Vec<Vec<f64>>,
    covered: usize,
    windows: u64,
}

impl Errors {
    fn take(&mut self, flow: usize, estimate: &Estimate, truth: Rate) {
        self.flows.resize_with(self.flows.len().max(flow + 1), Vec::new);
        self.flows[flow].push((estimate.rate.mbps() - truth.mbps()).abs());
        self.covered += usize::from(estimate.low <= truth && truth <= estimate.high);
    }

    fn used(&self) -> usize {
        self.flows.iter().map(Vec::len).sum()
    }

    /// Returns the median over flows of their mean error.
    fn median(&self) -> f64 {
        let means = self.flows.iter().filter(|errors| !errors.is_empty()).map(|errors| mean(errors));
        quantile(&sorted(means.collect()), 0.5)
    }

    fn coverage(&self) -> f64 {
        100.0 * self.covered as f64 / self.used() as f64
    }

    fn kept(&self) -> f64 {
        100.0 * self.used() as f64 / self.windows as f64
    }
}

/// One run.
#[derive(Default)]
struct Run {
    /// The published rules at the sender and at the receiver.
    literal: Errors,
    receiver: Errors,
    /// The published rules at the sender with one part changed: only windows in which the queue was never
    /// empty; the harmonic in place of the arithmetic mean; and both.
    changed: [Errors; CHANGED.len()],
    /// The rate while the queue is never empty: of the only flow, or of all flows together.
    guarded: Errors,
    /// Of each flow's own rate.
    throughput: Errors,
    /// Capacities: the smallest of a flow by the published rules and by the guarded ones, and the shared one.
    published: f64,
    alone: f64,
    shared: f64,
}

impl Study for Passive {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let cells: Vec<Cell> = self
            .loads
            .iter()
            .flat_map(|load| self.rtts.iter().map(|rtt| Cell { load: *load, rtt: *rtt }))
            .collect();
        let runs = job.of(self.runs);
        let parts: Vec<(usize, &Cell)> =
            (0..runs).flat_map(|run| cells.iter().map(move |cell| (run, cell))).collect();
        let found = job.map(&parts, |index, (_, cell)| Ok(observe(self, cell, job.seed(index))))?;
        let columns = "load/RTT,reader,MAE Mb/s,10 % of runs,90 % of runs,in the interval %,windows used %";
        let mut findings = Findings::with_table(columns);
        for (index, cell) in cells.iter().enumerate() {
            let here: Vec<&Run> = found.iter().skip(index).step_by(cells.len()).collect();
            report(&mut findings, cell, &here);
        }
        summarise(&mut findings, self, &cells);
        findings.figure = figure(&findings, self);
        Ok(findings)
    }
}

/// Adds the numbers of a cell.
fn report(findings: &mut Findings, cell: &Cell, runs: &[&Run]) {
    let name = cell.name();
    let over = |number: &dyn Fn(&Run) -> f64| {
        sorted(runs.iter().map(|run| number(run)).filter(|n| !n.is_nan()).collect())
    };
    type Reader = (&'static str, fn(&Run) -> &Errors);
    let readers: [Reader; 7] = [
        ("guarded", |run| &run.guarded),
        ("literal", |run| &run.literal),
        (CHANGED[0], |run| &run.changed[0]),
        (CHANGED[1], |run| &run.changed[1]),
        (CHANGED[2], |run| &run.changed[2]),
        ("receiver", |run| &run.receiver),
        ("throughput", |run| &run.throughput),
    ];
    for (reader, errors) in readers {
        let medians = over(&|run| errors(run).median());
        let used: f64 = runs.iter().map(|run| errors(run).used() as f64).sum();
        let covered: f64 = runs.iter().map(|run| errors(run).covered as f64).sum();
        let coverage = 100.0 * covered / used;
        let kept = quantile(&over(&|run| errors(run).kept()), 0.5);
        let numbers = [quantile(&medians, 0.5), quantile(&medians, 0.1), quantile(&medians, 0.9)];
        let mut row = vec![name.clone(), reader.to_owned()];
        row.extend(numbers.map(|number| format!("{number:.1}")));
        let is_estimate = reader != "throughput";
        row.push(if is_estimate { format!("{coverage:.1}") } else { String::new() });
        row.push(format!("{kept:.1}"));
        findings.table.rows.push(row);
        let reader = format!("{name}/{reader}");
        findings.add(&reader, [("mae", numbers[0])]);
        if is_estimate {
            let least = smallest(over(&|run| errors(run).coverage()));
            findings.add(&reader, [("coverage", coverage), ("least-coverage", least), ("kept", kept)]);
        }
    }
    let median = |number: &dyn Fn(&Run) -> f64| quantile(&over(number), 0.5);
    let numbers = [
        ("capacity/published", median(&|run| run.published)),
        ("capacity/alone", median(&|run| run.alone)),
        ("capacity/shared", median(&|run| run.shared)),
        ("sides", median(&|run| (run.literal.median() - run.receiver.median()).abs())),
    ];
    findings.add(&name, numbers);
}

/// Adds what is compared between cells.
fn summarise(findings: &mut Findings, study: &Passive, cells: &[Cell]) {
    let all = |what: &str, findings: &Findings| -> Vec<f64> {
        cells.iter().map(|cell| findings.measures[&format!("{}/{what}", cell.name())]).collect()
    };
    let numbers = [
        ("guarded/worst-mae", largest(all("guarded/mae", findings))),
        ("guarded/coverage", smallest(all("guarded/coverage", findings))),
        ("literal/coverage", smallest(all("literal/coverage", findings))),
        ("sides", largest(all("sides", findings))),
        ("capacity/shared", smallest(all("capacity/shared", findings))),
    ];
    findings.add("", numbers);
    for load in &study.loads {
        let here: Vec<f64> = cells
            .iter()
            .filter(|cell| cell.load == *load)
            .map(|cell| findings.measures[&format!("{}/literal/mae", cell.name())])
            .collect();
        let load = load * 100.0;
        let effect = 100.0 * (largest(here.iter().copied()) / smallest(here.iter().copied()) - 1.0);
        findings.measures.insert(format!("{load:.0}/rtt-effect"), effect);
        findings.measures.insert(format!("{load:.0}/literal/mae"), mean(&here));
    }
}

fn figure(findings: &Findings, study: &Passive) -> Figure {
    let panel = |load: &f64| {
        let title = format!("{:.0} % cross traffic", load * 100.0);
        let mut panel = Panel::new(&title, "RTT, ms", "median of the mean absolute errors, Mb/s");
        for reader in ["guarded", "literal", "receiver", "throughput"] {
            let point = |rtt: &Duration| {
                let name = Cell { load: *load, rtt: *rtt }.name();
                (rtt.ms(), findings.measures[&format!("{name}/{reader}/mae")])
            };
            panel = panel.with(Curve::line(reader, study.rtts.iter().map(point).collect()));
        }
        panel
    };
    Figure::curves(study.loads.iter().map(panel).collect::<Vec<Panel>>())
}

/// Runs the flows and reads what the taps saw.
fn observe(study: &Passive, cell: &Cell, seed: u64) -> Run {
    let flow = |index: usize| Flow {
        start: START + STAGGER * index as i64,
        size: Some(study.size),
        taps: vec![End::Sender, End::Receiver],
        ..Flow::default()
    };
    let dumbbell = Dumbbell {
        capacity: Rate::from_mbps(CAPACITY),
        rtt: cell.rtt,
        queue: QUEUE,
        load: cell.load,
        pattern: Pattern::OnOff,
        sources: study.sources,
        flows: (0..study.flows).map(flow).collect(),
        coalescing: None,
        probing: None,
        end: Instant::ZERO + study.end,
    };
    let Ran { seen, truth, .. } = dumbbell.run(seed);
    let of_tap = |tap: usize| Watched::new(seen.iter().map(|taps| taps[tap].clone()), truth.clone());
    let mut run = Run::default();
    let (sender, receiver) = (of_tap(0), of_tap(1));
    guarded(&mut run.guarded, &sender);
    throughput(&mut run, &sender);
    run.published = literal(&mut run.literal, &mut run.changed, &sender, Side::Sender);
    literal(&mut run.receiver, &mut Default::default(), &receiver, Side::Receiver);
    run
}

/// Reads the segments by the published rules, with the capacity of the link for phase 2; returns the smallest
/// capacity that the published phase 1 finds.
fn literal(errors: &mut Errors, changed: &mut [Errors; 3], watched: &Watched, side: Side) -> f64 {
    let settings = Settings { form: Form::Literal, windows: Windows::Sliding, side, ..Settings::default() };
    let mut transfers = vec![Transfer::new(&settings); watched.flows()];
    let mut alone = transfers.clone();
    transfers.iter_mut().for_each(|transfer| transfer.share_capacity(watched.capacity()));
    // When an ACK of each flow last told of an empty queue.
    let mut empty = vec![Instant::ZERO; watched.flows()];
    for (flow, segment) in watched.segments() {
        let estimate = transfers[*flow].observe(segment);
        let passed = transfers[*flow].passed();
        if passed.is_some_and(|passed| passed.wait.is_none_or(|wait| wait <= Duration::ZERO)) {
            empty[*flow] = segment.at;
        }
        if let Some(estimate) = estimate {
            let truth = watched.truth(&estimate);
            errors.take(*flow, &estimate, truth);
            let transfer = &transfers[*flow];
            let harmonic = Estimate { rate: harmonic_mean(transfer.rates()), ..estimate };
            let queued = empty[*flow] < estimate.at - estimate.window;
            let estimates = [estimate, harmonic, harmonic].into_iter().zip([queued, true, queued]);
            for (errors, (estimate, _)) in
                changed.iter_mut().zip(estimates).filter(|(_, (_, counts))| *counts)
            {
                errors.take(*flow, &estimate, truth);
            }
        }
        if alone[*flow].capacity().is_none() {
            alone[*flow].observe(segment);
        }
    }
    errors.windows = transfers.iter().map(|transfer| transfer.windows().total()).sum();
    changed.iter_mut().for_each(|changed| changed.windows = errors.windows);
    smallest(alone.iter().filter_map(|transfer| transfer.capacity()).map(Rate::mbps))
}

/// Returns the rate at which as many bytes at each of these rates pass.
fn harmonic_mean(rates: impl Iterator<Item = Rate>) -> Rate {
    let (count, times) =
        rates.fold((0.0, 0.0), |(count, times), rate| (count + 1.0, times + 1.0 / rate.bps_f64()));
    Rate::from_bps_f64(count / times)
}

/// Reads the segments by the guarded rules.
fn guarded(errors: &mut Errors, watched: &Watched) {
    let windows = if watched.flows() == 1 { Windows::Sliding } else { Windows::Tumbling(PERIOD) };
    let (estimates, all) = watched.guarded(windows);
    estimates.iter().for_each(|estimate| errors.take(0, estimate, watched.truth(estimate)));
    errors.windows = all;
}

/// Reads the throughput of every flow, and the capacities that they find by the guarded rules.
fn throughput(run: &mut Run, watched: &Watched) {
    let mut transfers = vec![Transfer::new(&Settings::default()); watched.flows()];
    for (flow, segment) in watched.segments() {
        let transfer = &mut transfers[*flow];
        let windows = transfer.windows().total();
        transfer.observe(segment);
        if transfer.windows().total() > windows
            && let Some(rate) = transfer.throughput()
        {
            let (at, window) = (segment.at, PERIOD);
            let as_estimate =
                Estimate { at, window, rate, low: rate, high: rate, samples: 0, bytes: Bytes::ZERO };
            run.throughput.take(*flow, &as_estimate, watched.truth(&as_estimate));
        }
    }
    run.throughput.windows = run.throughput.used() as u64;
    run.alone = smallest(transfers.iter().filter_map(Transfer::capacity).map(Rate::mbps));
    run.shared = watched.narrow_link().map_or(0.0, Rate::mbps);
}
