//! What the coalescing of interrupts does to receive gaps (rapid M10).

use headway_dataset::streams::{Averages, Base, PathPlan, Plan};
use headway_estimate::Gaps;
use headway_figures::{Curve, Figure, Panel};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{mean, quantile, sorted};

/// Spikes of receive gaps at several settings of interrupt coalescing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spikes {
    /// Times between interrupts.
    intervals: Vec<Duration>,
    /// Packets in a stream of four rates over a range of 50 %.
    length: u32,
    /// Average rate as a share of the capacity.
    average: f64,
    /// Streams at each setting.
    streams: Count,
}

/// A receive gap that is so many times as long as the mean is a spike.
const SPIKE: f64 = 2.0;

/// What one setting does: spikes of each stream and their height, and the gaps of the first stream.
struct Seen {
    counts: Vec<f64>,
    heights: Vec<f64>,
    example: Gaps,
}

impl Study for Spikes {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let found =
            job.map(&self.intervals, |index, interval| Ok(self.observe(*interval, job, job.seed(index))))?;
        let mut findings = Findings::with_table("interval,spikes of a stream,height us");
        let mut panels = Vec::new();
        for (interval, seen) in self.intervals.iter().zip(&found) {
            let name = format!("{:.0}", interval.us());
            let height = quantile(&sorted(seen.heights.clone()), 0.5);
            let count = mean(&seen.counts);
            findings.add(&name, [("spikes", count), ("height", if height.is_nan() { 0.0 } else { height })]);
            findings.table.rows.push(vec![
                format!("{interval}"),
                format!("{count:.2}"),
                format!("{height:.1}"),
            ]);
            let points = |gaps: &[Duration]| {
                gaps.iter().enumerate().map(|(packet, gap)| (packet as f64, gap.us())).collect()
            };
            let panel = Panel::new(&format!("{interval}"), "packet", "gap, us");
            let panel = panel.with(Curve::line("receive gaps", points(&seen.example.receive)));
            panels.push(panel.with(Curve::line("send gaps", points(&seen.example.send))));
        }
        findings.figure = Figure::curves(panels);
        Ok(findings)
    }
}

impl Spikes {
    fn observe(&self, interval: Duration, job: &Job<'_>, seed: u64) -> Seen {
        let path = PathPlan {
            capacity: Rate::from_bps(10_000_000_000),
            packet: Bytes::new(9038),
            buffer: Bytes::new(1_000_000),
            silence: Duration::from_ms(10),
            traffic: vec![Traffic::Bct { scale: 1.0 }],
            coalescing: vec![interval.into()],
            runs: 1,
            test_runs: 0,
            streams: job.of(self.streams) as u32,
        };
        let averages = Averages { from: self.average, to: self.average, step: Some(1.0), of: Base::Capacity };
        let plan = Plan {
            seed,
            rates: 4,
            packets_per_rate: self.length / 4,
            range: 0.5,
            averages,
            ack_every: 1,
            path: vec![path],
        };
        let (mut seen, mut gaps) =
            (Seen { counts: Vec::new(), heights: Vec::new(), example: Gaps::default() }, Gaps::default());
        for stream in plan.runs().iter().flat_map(|run| run.send(|| job.check().is_ok())) {
            if stream.record.gaps(&mut gaps).is_err() {
                continue;
            }
            let all: Vec<f64> = gaps.receive.iter().map(|gap| gap.us()).collect();
            let limit = SPIKE * mean(&all);
            let before = seen.heights.len();
            seen.heights.extend(all.into_iter().filter(|gap| *gap > limit));
            seen.counts.push((seen.heights.len() - before) as f64);
            if seen.example.is_empty() {
                seen.example = gaps.clone();
            }
        }
        seen
    }
}
