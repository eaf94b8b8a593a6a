//! Queues at which RCP absorbs a growing number of flows, and the limits of growth, by
//! formula (xcp-rcp 2.13).

use headway_figures::{Curve, Figure, Panel};
use headway_formulas::explicit::{Surge, queue_bytes};
use serde::Deserialize;

use super::Study;
use super::crowds::{CAPACITY, RTT};
use crate::context::Error;
use crate::job::Job;
use crate::outcome::{Findings, Table};

/// Queues at which RCP absorbs a growing number of flows, by formula: queues and limits by formula.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compensation {
    /// Weights of the queue in the control law.
    betas: Vec<f64>,
    /// Growths of the number of flows per d0.
    growths: Vec<f64>,
}

/// Points of a curve.
const POINTS: u32 = 100;

impl Study for Compensation {
    fn run(&self, _: &Job<'_>) -> Result<Findings, Error> {
        let mut table = Table::new("beta,limit of L,limit of L0,d/d0 at the limit,queue there B");
        let headings = self.growths.iter().map(|growth| format!("queue at L0 = {growth} B"));
        table.columns.extend(headings);
        let mut findings = Findings { table, ..Findings::default() };
        let mut panel = Panel::new("", "growth L0 per d0", "compensation queue, MB");
        for &beta in &self.betas {
            let surge = Surge { beta };
            let limit = surge.limit();
            let bytes = |queue: f64| queue_bytes(queue, CAPACITY, RTT).get() as f64;
            let mut row = vec![
                format!("{beta}"),
                format!("{:.4}", surge.limit_per_delay()),
                format!("{:.5}", limit.growth),
                format!("{:.3}", 1.0 + limit.queue),
                format!("{:.0}", bytes(limit.queue)),
            ];
            let numbers = [
                ("limit-per-delay", surge.limit_per_delay()),
                ("limit", limit.growth),
                ("delay-at-limit", 1.0 + limit.queue),
                ("queue-at-limit", bytes(limit.queue)),
            ];
            findings.add(&beta.to_string(), numbers);
            for &growth in &self.growths {
                let queue = surge.compensation_queue(growth).map_or(f64::INFINITY, bytes);
                row.push(if queue.is_finite() { format!("{queue:.0}") } else { "none".to_owned() });
                findings.measures.insert(format!("{beta}/{growth}/queue"), queue);
            }
            findings.table.rows.push(row);
            let growth = |index: u32| limit.growth * f64::from(index) / f64::from(POINTS);
            let points = (0..=POINTS)
                .map(growth)
                .filter_map(|growth| Some((growth, bytes(surge.compensation_queue(growth)?) / 1e6)));
            panel = panel.with(Curve::line(&format!("beta {beta}"), points.collect()));
        }
        findings.figure = Figure::curves([panel]);
        Ok(findings)
    }
}
