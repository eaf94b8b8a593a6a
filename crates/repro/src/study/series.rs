//! The gaps of one stream at each stage of the estimator (rapid B6, bass P5).

use headway_estimate::denoise::{Denoise, centred_mean};
use headway_estimate::{Excursion, Gaps};
use headway_figures::{Curve, Figure, Panel};
use headway_sim::testbed::Observed;
use headway_units::{Duration, Rate};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::{Count, StreamShape, gbps};
use crate::job::Job;
use crate::outcome::{Findings, Table};
use crate::statistics::{mean, percent, quantile, sorted};

/// The gaps of one stream at each stage of the estimator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Series {
    /// Shape of the streams.
    shape: StreamShape,
    /// Average rate of the streams in Gb/s.
    average: f64,
    /// Available bandwidth during the published stream, in Gb/s.
    available: f64,
    /// Largest relative deviation from this for a stream to qualify as an example.
    within: f64,
    /// Streams to search for examples.
    streams: Count,
}

/// Number of parts into which the streams are divided, each with its own testbed.
const PARTS: usize = 8;

/// Back-to-back streams in a train.
const TRAIN: usize = 50;

/// A stream with about the same available bandwidth as the published example.
struct Example {
    raw: Gaps,
    /// Gaps right behind the bottleneck.
    exits: Vec<Duration>,
    denoised: Gaps,
    /// Index of the first gap kept by denoising.
    first: usize,
    /// Index from which receive gaps exceed send gaps up to the end of the stream, if they do.
    crossing: Option<usize>,
    /// Estimates in Gb/s, from raw and from denoised gaps.
    raw_estimate: f64,
    estimate: f64,
    /// Mean distance between denoised receive gaps and the smoothed gaps right behind the bottleneck, in
    /// microseconds; and the same for raw gaps.
    distance: f64,
    raw_distance: f64,
}

impl Study for Series {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let parts: Vec<usize> = (0..PARTS).collect();
        let found = job.map(&parts, |index, _| search(self, job, job.seed(index)))?;
        let found: Vec<Example> = found.into_iter().flatten().collect();
        let mut findings = Findings::default();
        let median =
            |value: &dyn Fn(&Example) -> f64| quantile(&sorted(found.iter().map(value).collect()), 0.5);
        let crossings: Vec<f64> =
            found.iter().filter_map(|example| example.crossing).map(|index| index as f64).collect();
        let third = self.shape.packets as f64;
        let numbers = [
            ("bass/estimate", median(&|example| example.estimate)),
            ("raw/estimate", median(&|example| example.raw_estimate)),
            ("bass/crossing", quantile(&sorted(crossings.clone()), 0.5)),
            ("bass/crossing-in-third-rate", percent(&crossings, |i| i >= 2.0 * third && i < 3.0 * third)),
            ("bass/distance", mean(&found.iter().map(|example| example.distance).collect::<Vec<_>>())),
            ("raw/distance", mean(&found.iter().map(|example| example.raw_distance).collect::<Vec<_>>())),
            ("path/examples", found.len() as f64),
        ];
        findings.add("", numbers);
        findings.nulls.insert("bass/estimate".to_owned(), self.average);
        let top = self.shape.schedule(gbps(self.average), job.experiment.path.packet).top_rate();
        findings
            .measures
            .insert("raw/of-top-rate".to_owned(), median(&|e| e.raw_estimate) / (top.mbps() / 1e3));
        let (available, within) = (self.available, 100.0 * self.within);
        findings.remarks.push(format!(
            "Medians over the {} streams during which {available} Gb/s were available within {within} %. \
             The figure shows the first of them; neither choice looks at the estimate.",
            found.len()
        ));
        if let Some(example) = found.first() {
            (findings.table, findings.figure) = show(example);
        }
        Ok(findings)
    }
}

/// Returns all streams of one testbed with about the same available bandwidth as in the publication.
fn search(study: &Series, job: &Job<'_>, seed: u64) -> Result<Vec<Example>, Error> {
    let path = &job.experiment.path;
    let mut testbed = path.testbed(None, seed);
    let train = vec![study.shape.schedule(gbps(study.average), path.packet); TRAIN];
    let mut found = Vec::new();
    for _ in 0..job.of(study.streams).div_ceil(PARTS * TRAIN) {
        job.check()?;
        // Only the first stream of a train meets an empty queue and an idle NIC.
        for observed in testbed.send_train(&train, path.silence).iter().skip(1) {
            let off = observed.available.bps_f64() / gbps(study.available).bps_f64() - 1.0;
            if observed.complete && off.abs() <= study.within {
                found.extend(example(observed));
            }
        }
    }
    Ok(found)
}

fn example(observed: &Observed) -> Option<Example> {
    let (mut raw, mut exits, mut scratch) = (Gaps::default(), Gaps::default(), Vec::new());
    observed.record.gaps(&mut raw).ok()?;
    observed.exits.gaps(&mut exits).ok()?;
    let (denoise, excursion) = (Denoise::default(), Excursion::default());
    let packet = observed.record.packet;
    let mut denoised = raw.clone();
    let first = denoise.apply(&mut denoised, &mut scratch).ok()?.first;
    let estimate = excursion.estimate(packet, &denoised).ok()?.rate;
    let above = |i: &usize| denoised.receive[*i] > denoised.send[*i] + excursion.margin;
    let run = (0..denoised.len()).rev().take_while(above).count();
    let mut smooth = exits.receive.clone();
    centred_mean(&mut smooth, denoise.window, &mut scratch);
    let smooth = &smooth[first..first + denoised.len()];
    let in_gbps = |rate: Rate| rate.mbps() / 1e3;
    Some(Example {
        crossing: (run >= excursion.min_length).then(|| first + denoised.len() - run),
        raw_estimate: in_gbps(excursion.estimate(packet, &raw).ok()?.rate),
        estimate: in_gbps(estimate),
        distance: distance(&denoised.receive, smooth),
        raw_distance: distance(&raw.receive[first..first + denoised.len()], smooth),
        exits: exits.receive,
        raw,
        denoised,
        first,
    })
}

/// Returns the mean absolute difference between two series, in microseconds.
fn distance(a: &[Duration], b: &[Duration]) -> f64 {
    mean(&a.iter().zip(b).map(|(a, b)| (*a - *b).us().abs()).collect::<Vec<_>>())
}

fn show(example: &Example) -> (Table, Figure) {
    let mut table =
        Table::new("index,send us,behind the bottleneck us,receive us,denoised send us,denoised receive us");
    let Example { raw, exits, denoised, first, .. } = example;
    let text = |gap: Option<&Duration>| gap.map_or(String::new(), |gap| format!("{:.3}", gap.us()));
    for i in 0..raw.len() {
        let kept = |gaps: &[Duration]| text(i.checked_sub(*first).and_then(|i| gaps.get(i)));
        let mut row = vec![(i + 1).to_string()];
        row.extend([&raw.send, exits, &raw.receive].map(|gaps| text(gaps.get(i))));
        row.extend([&denoised.send, &denoised.receive].map(|gaps| kept(gaps)));
        table.rows.push(row);
    }
    let panel = |title: &str, name: &str, gaps: &[Duration], send: &[Duration], first: usize| {
        let points = |gaps: &[Duration]| {
            gaps.iter().enumerate().map(|(i, gap)| ((first + i + 1) as f64, gap.us())).collect()
        };
        let panel = Panel::new(title, "packet", "gap, us").with(Curve::line(name, points(gaps)));
        panel.with(Curve::line("send gaps", points(send)))
    };
    let panels = [
        panel("as received", "receive gaps", &raw.receive, &raw.send, 0),
        panel("right behind the bottleneck", "gaps behind the bottleneck", exits, &raw.send, 0),
        panel(
            "after multi-pass BASS and a mean of 16",
            "receive gaps",
            &denoised.receive,
            &denoised.send,
            *first,
        ),
    ];
    (table, Figure::curves(panels))
}
