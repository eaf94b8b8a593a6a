//! Estimates of an excursion search on streams from different senders (rapid G4).

use headway_estimate::{Excursion, Gaps};
use headway_figures::{Figure, Stack, StackPanel};
use headway_units::Rate;
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::{Count, GapMechanism, Path, StreamShape, gbps};
use crate::job::Job;
use crate::outcome::{Findings, Table};

/// Estimates of an excursion search on streams from different senders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GapEstimates {
    /// Gap mechanisms.
    mechanisms: Vec<GapMechanism>,
    /// Shape of the streams.
    shape: StreamShape,
    /// Average rate of the streams in Gb/s.
    average: f64,
    /// Number of the probing rate, from 1, that is the correct estimate.
    right: usize,
    /// Streams per mechanism.
    streams: Count,
}

/// Streams sent by one testbed, as one part of the work.
const STREAMS_AT_ONCE: usize = 250;

/// Relative tolerance of a correct estimate, well below half a step of 15 %.
const EXACT: f64 = 0.02;

impl Study for GapEstimates {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let count = job.of(self.streams).div_ceil(STREAMS_AT_ONCE);
        let parts: Vec<(GapMechanism, usize)> = self
            .mechanisms
            .iter()
            .flat_map(|mechanism| (0..count).map(move |part| (*mechanism, part)))
            .collect();
        let found =
            job.map(&parts, |index, (mechanism, _)| estimates(self, *mechanism, job, job.seed(index)))?;
        let mut findings = Findings::with_table("mechanism,estimate Gb/s,streams");
        let right = right_rate(self, job);
        let mut stacks = Vec::new();
        for (parts, found) in parts.chunks(count).zip(found.chunks(count)) {
            let name = parts[0].0.name();
            let estimates: Vec<f64> = found.iter().flatten().copied().collect();
            let share = |has: &dyn Fn(f64) -> bool| {
                100.0 * estimates.iter().filter(|estimate| has(**estimate)).count() as f64
                    / estimates.len().max(1) as f64
            };
            let shares = [
                share(&|e| (e / right - 1.0).abs() <= EXACT),
                share(&|e| e / right - 1.0 > EXACT),
                share(&|e| e / right - 1.0 < -EXACT),
            ];
            findings.add(name, ["right", "over", "under"].into_iter().zip(shares));
            tabulate(&mut findings.table, name, &estimates);
            stacks.push(Stack { label: name.to_owned(), parts: [shares[0], shares[1], shares[2], 0.0] });
        }
        findings.remarks.push(format!(
            "Right is {right:.2} Gb/s within {} %. \
             The gaps are those right behind the bottleneck, as they were captured.",
            100.0 * EXACT
        ));
        let panel = StackPanel { title: "estimates".to_owned(), stacks };
        findings.figure = Figure::Stacks {
            panels: vec![panel],
            columns: 1,
            names: ["right", "over", "under", ""],
            axis: "sender",
        };
        Ok(findings)
    }
}

/// Returns the probing rate that is the correct estimate, in Gb/s.
fn right_rate(study: &GapEstimates, job: &Job<'_>) -> f64 {
    let schedule = study.shape.schedule(gbps(study.average), job.experiment.path.packet);
    let gap = schedule.gaps.get((study.right - 1) * study.shape.packets as usize).copied();
    gap.and_then(|gap| Rate::of(schedule.packet, gap)).map_or(f64::NAN, |rate| rate.mbps() / 1e3)
}

/// Returns the estimates in Gb/s.
fn estimates(
    study: &GapEstimates,
    mechanism: GapMechanism,
    job: &Job<'_>,
    seed: u64,
) -> Result<Vec<f64>, Error> {
    let path = Path { gaps: mechanism, ..job.experiment.path.clone() };
    let mut testbed = path.testbed(None, seed);
    let schedule = study.shape.schedule(gbps(study.average), path.packet);
    let train = vec![schedule; STREAMS_AT_ONCE.min(job.of(study.streams)) + 1];
    let (mut gaps, mut estimates) = (Gaps::default(), Vec::new());
    job.check()?;
    // Only the first stream meets an empty queue.
    for observed in testbed.send_train(&train, path.silence).iter().skip(1) {
        if !observed.complete || observed.exits.gaps(&mut gaps).is_err() {
            continue;
        }
        // A sender knows its intended gaps, not the actual ones.
        gaps.send.copy_from_slice(&observed.exits.intended);
        if let Ok(estimate) = Excursion::default().estimate(path.packet, &gaps) {
            estimates.push(estimate.rate.mbps() / 1e3);
        }
    }
    Ok(estimates)
}

/// Tabulates a histogram with bins of 0.1 Gb/s.
fn tabulate(table: &mut Table, name: &str, estimates: &[f64]) {
    let mut counts = std::collections::BTreeMap::new();
    for estimate in estimates {
        *counts.entry((estimate * 10.0).round() as i64).or_insert(0) += 1;
    }
    for (tenths, count) in counts {
        table.rows.push(vec![name.to_owned(), format!("{:.1}", tenths as f64 / 10.0), count.to_string()]);
    }
}
