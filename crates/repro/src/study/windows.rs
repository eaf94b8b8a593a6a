//! The mean of the first receive gaps after an interrupt, over their number (rapid B4).

use headway_estimate::denoise::SpikeThresholds;
use headway_estimate::{Gaps, Schedule};
use headway_figures::{Curve, Figure, Panel};
use headway_sim::testbed::Observed;
use headway_units::Duration;
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::{Count, gbps};
use crate::job::Job;
use crate::outcome::{Findings, Table};
use crate::statistics::{mean, quantile, sorted};

/// The mean of the first gaps after an interrupt, over their number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Windows {
    /// Rate of the streams in Gb/s.
    rate: f64,
    /// Packets per stream.
    length: usize,
    /// Largest number of gaps in a mean.
    longest: usize,
    /// Number of streams.
    streams: Count,
}

/// An increase of the receive gap by more than this is an interrupt (rapid 2.9, pass 1).
const SPIKE: Duration = SpikeThresholds::from_us(20, 10).up;

/// The means over the first gaps of one stream, in microseconds; the mean of `x` gaps is at index `x - 1`.
struct Means {
    received: Vec<f64>,
    exited: Vec<f64>,
    /// Windows that end just before an interrupt.
    edges: Vec<usize>,
}

impl Means {
    /// Returns the error of the mean over the first `window` receive gaps, in microseconds.
    fn error(&self, window: usize) -> f64 {
        (self.received[window - 1] - self.exited[window - 1]).abs()
    }
}

impl Study for Windows {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let path = &job.experiment.path;
        let mut testbed = path.testbed(None, job.seed(0));
        let schedule = Schedule::single_rate(gbps(self.rate), self.length, path.packet);
        let mut all = Vec::new();
        for _ in 0..job.of(self.streams) {
            job.check()?;
            let observed = testbed.send(&schedule, path.silence);
            all.extend(observed.complete.then(|| means(&observed, self.longest)).flatten());
        }
        let mut findings = Findings::default();
        let (mut at_edges, mut between, mut first, mut second) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for means in &all {
            for window in 2..=self.longest {
                let errors = if means.edges.contains(&window) { &mut at_edges } else { &mut between };
                errors.push(means.error(window));
            }
            first.extend(means.edges.first().map(|edge| *edge as f64));
            second.extend(means.edges.get(1).map(|edge| *edge as f64));
        }
        let ratio = mean(&at_edges) / mean(&between);
        let numbers = [
            ("edges/error", mean(&at_edges)),
            ("between/error", mean(&between)),
            ("edges/error-ratio", ratio),
            ("edges/first", quantile(&sorted(first), 0.5)),
            ("edges/second", quantile(&sorted(second), 0.5)),
        ];
        findings.add("", numbers);
        if let Some(example) = all.first() {
            (findings.table, findings.figure) = show(example);
        }
        Ok(findings)
    }
}

/// Returns the means starting at the first interrupt; `None` for a stream that is too short.
fn means(observed: &Observed, longest: usize) -> Option<Means> {
    let (mut gaps, mut exits) = (Gaps::default(), Gaps::default());
    observed.record.gaps(&mut gaps).ok()?;
    observed.exits.gaps(&mut exits).ok()?;
    let spikes: Vec<usize> =
        (1..gaps.len()).filter(|i| gaps.receive[*i] > gaps.receive[i - 1] + SPIKE).collect();
    let begin = *spikes.first()?;
    if begin + longest > gaps.len() {
        return None;
    }
    let running = |values: &[Duration]| -> Vec<f64> {
        let mut sum = 0.0;
        let mean = |(i, value): (usize, &Duration)| {
            sum += value.us();
            sum / (i + 1) as f64
        };
        values[begin..begin + longest].iter().enumerate().map(mean).collect()
    };
    let edges = spikes[1..].iter().map(|spike| spike - begin).filter(|edge| *edge <= longest).collect();
    Some(Means { received: running(&gaps.receive), exited: running(&exits.receive), edges })
}

fn show(example: &Means) -> (Table, Figure) {
    let mut table = Table::new("window,mean receive gap us,mean gap behind the bottleneck us,event edge");
    for (index, (received, exited)) in example.received.iter().zip(&example.exited).enumerate() {
        let edge = example.edges.contains(&(index + 1));
        table.rows.push(vec![
            (index + 1).to_string(),
            format!("{received:.3}"),
            format!("{exited:.3}"),
            edge.to_string(),
        ]);
    }
    let points =
        |values: &[f64]| values.iter().enumerate().map(|(i, value)| ((i + 1) as f64, *value)).collect();
    let edges = example.edges.iter().map(|edge| (*edge as f64, example.received[edge - 1])).collect();
    let panel = Panel::new("", "gaps in the mean, from an interrupt on", "mean gap, us")
        .with(Curve::line("receive gaps", points(&example.received)))
        .with(Curve::line("gaps behind the bottleneck", points(&example.exited)))
        .with(Curve::dots("windows that end with a buffering event", edges));
    (table, Figure::curves([panel]))
}
