//! Throughput and bursts of a flow behind token-bucket shapers (wan 4.2).

use headway_control::Kind;
use headway_figures::{Curve, Figure, Panel};
use headway_record::Results;
use headway_scenario::{BufferSize, FlowSpec, LinkSpec, Scenario};
use headway_units::{Bytes, Duration, Instant, Rate, WIRE_OVERHEAD};
use headway_worlds::World;
use serde::{Deserialize, Serialize};

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{largest, smallest};

/// Throughput and bursts of a flow behind token-bucket shapers: one flow passes a shaper
/// and then a bottleneck.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shapers {
    /// Rates of the shaper, counting wire bytes.
    rates: Vec<Rate>,
    /// Sizes of its bucket, in wire bytes.
    buckets: Vec<Bytes>,
    /// Whether the flow also runs without a shaper.
    #[serde(default)]
    unshaped: bool,
    /// Rate of the sender's NIC, which is that of its bursts.
    line: Rate,
    /// Rate of the bottleneck behind the shaper.
    bottleneck: Rate,
    /// RTT without queueing.
    rtt: Duration,
    /// Longest wait in the queue of the shaper and in that of the bottleneck.
    latency: Duration,
    /// Time before the measured time.
    warmup: Count,
    /// Measured time, in ms.
    milliseconds: Count,
    /// The same on the Linux stack.
    kernel_milliseconds: Option<Count>,
}

/// Interval in which bursts are counted.
const INTERVAL: Duration = Duration::from_ms(1);
/// IP bytes of a full packet.
const MTU: Bytes = Bytes::new(1500);
/// The shaped link, and the bottleneck behind it.
const SHAPED: &str = "edge->core";
const BOTTLENECK: &str = "core->receiver";

/// A shaper, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    shaper: Option<(Rate, Bytes)>,
}

impl Cell {
    fn name(&self) -> String {
        self.shaper.map_or("none".to_owned(), |(rate, burst)| format!("{}/{}", rate.mbps(), burst.get()))
    }
}

/// Statistics over the measured time of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Statistics {
    /// Wire rate behind the shaper in Mb/s.
    rate: f64,
    /// Share of the intervals in which more passed than the rate of the shaper, or else of the
    /// bottleneck, and a full bucket.
    above: f64,
    /// Share of the intervals in which more passed than that rate and one packet.
    above_packet: f64,
    /// Largest rate in an interval, in Mb/s.
    peak: f64,
    /// Mean wait in front of the bottleneck and in the shaper, in ms.
    bottleneck_wait: f64,
    shaper_wait: f64,
}

impl Study for Shapers {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let time = job.time(job.choose(self.milliseconds, self.kernel_milliseconds));
        let cells = cells(self);
        let largest = self.buckets.iter().copied().max().unwrap_or_default();
        let stats = job.map(&cells, |index, cell| {
            job.run_scenario(&scenario(self, cell, time, job), &cell.name(), index, |results| {
                statistics(results, cell.shaper.unwrap_or((self.bottleneck, largest)))
            })
        })?;
        let done: Vec<(Cell, Statistics)> = cells.into_iter().zip(stats).collect();
        Ok(evaluate(self, &done))
    }

    fn other_worlds(&self) -> &'static [World] {
        if self.kernel_milliseconds.is_some() { &[World::Uml] } else { &[] }
    }
}

fn cells(study: &Shapers) -> Vec<Cell> {
    let shaped = study.rates.iter().flat_map(|&rate| study.buckets.iter().map(move |&burst| (rate, burst)));
    let none = study.unshaped.then_some(Cell { shaper: None });
    shaped.map(|shaper| Cell { shaper: Some(shaper) }).chain(none).collect()
}

/// Returns the path as a scenario. Shaper and bottleneck have the same longest wait.
fn scenario(study: &Shapers, cell: &Cell, time: Duration, job: &Job<'_>) -> Scenario {
    let (warmup, latency) = (job.time(study.warmup), Some(BufferSize::Latency(study.latency)));
    let half = Duration::from_ns(study.rtt.ns() / 2);
    let bottleneck = LinkSpec { buffer: latency, ..LinkSpec::at("core", "receiver", study.bottleneck, half) };
    let one_way = |from, to| LinkSpec { duplex: false, ..LinkSpec::new(from, to) };
    let shaper = match cell.shaper {
        Some((rate, burst)) => {
            LinkSpec { rate: Some(rate), burst: Some(burst), buffer: latency, ..one_way("edge", "core") }
        }
        None => LinkSpec { rate: Some(study.line), ..one_way("edge", "core") },
    };
    let sender = LinkSpec::at("sender", "edge", study.line, Duration::ZERO);
    Scenario {
        duration: warmup + time,
        warmup,
        interval: INTERVAL,
        flow: vec![FlowSpec::new("sender", "receiver", Kind::Cubic)],
        ..Scenario::of(vec![sender, bottleneck, one_way("core", "edge"), shaper])
    }
}

/// Evaluates the results; `rate` with bursts of `burst` is what should not be exceeded.
fn statistics(results: &Results, (rate, burst): (Rate, Bytes)) -> Statistics {
    let series = &results.series;
    let place = |name: &str| series.names.iter().position(|link| link == name).unwrap_or_default();
    let wait = |name| results.summary.links.iter().find(|link| link.link == name);
    let wait = |name| wait(name).map_or(f64::NAN, |link| link.delay_mean_ns as f64 / 1e6);
    let begin = Instant::from_ns(results.summary.warmup_ns);
    let share = rate.bytes_in(INTERVAL);
    let link = &series.links[place(SHAPED)];
    let counted = series.ends.iter().zip(link).filter(|(end, _)| **end > begin);
    let bytes: Vec<Bytes> = counted.map(|(_, interval)| interval.measured).collect();
    let all: Bytes = bytes.iter().copied().sum();
    let mbps = |bytes: Bytes, time: Duration| bytes.get() as f64 * 8.0 / time.us();
    let count = bytes.len() as i64;
    let above = |most: Bytes| bytes.iter().filter(|bytes| **bytes > most).count() as f64 / count as f64;
    Statistics {
        rate: mbps(all, INTERVAL * count),
        above: above(share + burst),
        // A packet counts as a whole where it ends, so an interval holds up to one more than its share.
        above_packet: above(share + MTU + WIRE_OVERHEAD),
        peak: mbps(bytes.iter().copied().max().unwrap_or_default(), INTERVAL),
        bottleneck_wait: wait(BOTTLENECK),
        shaper_wait: wait(SHAPED),
    }
}

fn evaluate(study: &Shapers, done: &[(Cell, Statistics)]) -> Findings {
    let mut findings = Findings::with_table(
        "shaper Mb/s,bucket B,rate Mb/s,part of the shaper's rate,1 ms intervals above,largest 1 ms rate Mb/s,wait in the shaper ms,wait at the bottleneck ms",
    );
    let part =
        |cell: &Cell, stats: &Statistics| cell.shaper.map_or(f64::NAN, |(rate, _)| stats.rate / rate.mbps());
    for (cell, stats) in done {
        let (rate, burst) = cell.shaper.map_or(("none".to_owned(), "none".to_owned()), |(rate, burst)| {
            (rate.mbps().to_string(), burst.get().to_string())
        });
        let part = part(cell, stats);
        findings.table.rows.push(vec![
            rate,
            burst,
            format!("{:.1}", stats.rate),
            format!("{part:.4}"),
            format!("{:.4}", stats.above),
            format!("{:.1}", stats.peak),
            format!("{:.2}", stats.shaper_wait),
            format!("{:.2}", stats.bottleneck_wait),
        ]);
        let numbers = [
            ("part", part),
            ("above", stats.above),
            ("above-packet", stats.above_packet),
            ("peak", stats.peak),
            ("bottleneck-wait", stats.bottleneck_wait),
        ];
        findings.add(&cell.name(), numbers);
    }
    let of_bucket = |burst: Bytes| {
        done.iter()
            .filter(move |(cell, _)| cell.shaper.is_some_and(|(_, size)| size == burst))
            .map(|(cell, stats)| part(cell, stats))
    };
    let mut panel = Panel::new("", "rate of the shaper, Mb/s", "rate of the flow, Mb/s");
    for &burst in &study.buckets {
        findings.measures.insert(format!("least/{}/part", burst.get()), smallest(of_bucket(burst)));
        let rates = study.rates.iter().map(|rate| rate.mbps());
        let points = rates.zip(of_bucket(burst)).map(|(rate, part)| (rate, rate * part)).collect();
        panel = panel.with(Curve::line(&format!("bucket of {} B", burst.get()), points));
    }
    let falls = study.buckets.windows(2).flat_map(|pair| {
        of_bucket(pair[0]).zip(of_bucket(pair[1])).map(|(smaller, larger)| smaller - larger)
    });
    findings.measures.insert("largest-fall".to_owned(), largest(falls));
    findings.figure = Figure::curves([panel]);
    findings
}
