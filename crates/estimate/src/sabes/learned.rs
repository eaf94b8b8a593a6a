//! A trained model in place of the published rules, or after them (wan 2.11, 2.13).

use std::sync::Arc;

use super::heuristic;
use super::interval::{self, Interval};
use super::window_counts::WindowRefusal;
use headway_learned::{Estimate, Model, NoAnswer, Outside, Scratch, Task};
use headway_units::Rate;

/// Above this probability the mean of a window counts as what is available.
const LIKELY: f64 = 0.5;

/// A model with its memory.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    model: Arc<Model>,
    scratch: Scratch,
    /// Why the last window that was refused for it is unlike those that the model has seen.
    outside: Option<Outside>,
}

impl Judge {
    pub(super) fn new(model: Arc<Model>) -> Judge {
        Judge { model, scratch: Scratch::default(), outside: None }
    }

    pub(super) const fn outside(&self) -> Option<Outside> {
        self.outside
    }

    /// Judges the samples of a window, ascending and at least four: with a classifier, the mean that
    /// passes the published rules, if the class is good; otherwise what the regression says. Returns the
    /// number of samples, too.
    pub(super) fn judge(
        &mut self,
        rates: &[f32],
        capacity: Option<Rate>,
    ) -> Result<(Interval, u32), WindowRefusal> {
        let (found, samples) = match self.model.task() {
            Task::SabesNn => self.classify(rates, capacity.ok_or(WindowRefusal::NoCapacity)?)?,
            _ => {
                let found = self.model.density(rates, capacity, &mut self.scratch);
                (found.map_err(|reason| self.refused(reason))?, rates.len())
            }
        };
        let interval = match found.interval {
            Some((low, high)) => Interval { rate: found.value, low, high },
            None => interval::of_mean(found.value.bps_f64(), capacity.unwrap_or(found.value).bps_f64()),
        };
        Ok((interval, samples as u32))
    }

    fn classify(&mut self, rates: &[f32], capacity: Rate) -> Result<(Estimate<Rate>, usize), WindowRefusal> {
        let mean = heuristic::judge(rates, capacity.bps_f64())?;
        let good = self.model.good(mean.kept, capacity, &mut self.scratch);
        if good.map_err(|reason| self.refused(reason))? <= LIKELY {
            return Err(WindowRefusal::Doubtful);
        }
        Ok((self.model.around(Rate::from_bps_f64(mean.rate)), mean.kept.len()))
    }

    fn refused(&mut self, reason: NoAnswer) -> WindowRefusal {
        match reason {
            NoAnswer::Unseen(outside) => {
                self.outside = Some(outside);
                WindowRefusal::Unseen
            }
            NoAnswer::NoCapacity => WindowRefusal::NoCapacity,
            _ => WindowRefusal::Doubtful,
        }
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Judge>() + self.scratch.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CAPACITY: Rate = Rate::from_bps(100_000_000);
    /// The mean of these passes the published rules.
    const WIDE: [f32; 5] = [20e6, 35e6, 50e6, 65e6, 80e6];

    /// A judge whose network answers `outputs` to everything.
    fn judge(task: &str, input: serde_json::Value, outputs: &[f64], domain: serde_json::Value) -> Judge {
        let weights = vec![vec![0.0; 10]; outputs.len()];
        let activation = if outputs.len() == 2 { "softmax" } else { "relu" };
        let file = json!({
            "format": "headway-model", "version": 1, "name": "constant", "task": task, "input": input, "shape": null,
            "scaler": null, "interval": null, "domain": domain,
            "model": {"type": "network", "layers": [{"weights": weights, "bias": outputs, "activation": activation}]},
            "training": {
                "data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": null,
            },
        });
        Judge::new(Arc::new(Model::parse(file.to_string().as_bytes()).expect("a model")))
    }

    fn classifier(good: f64) -> Judge {
        judge(
            "sabes-nn",
            json!({"kind": "histogram", "bins": 10, "unit": "capacity"}),
            &[0.0, good],
            json!(null),
        )
    }

    fn regression(unit: &str, domain: serde_json::Value) -> Judge {
        let input = json!({"kind": "density-draws", "values": 10, "unit": unit, "bandwidth": 0.2});
        judge("sabes-kde", input, &[0.3], domain)
    }

    #[test]
    fn a_classifier_decides_about_means_that_pass_the_rules() {
        let (found, samples) = classifier(1.0).judge(&WIDE, Some(CAPACITY)).expect("a good one");
        assert_eq!((found.rate, samples), (Rate::from_mbps(50.0), 5));
        assert!(found.low < found.rate && found.rate < found.high);
        assert_eq!(classifier(-1.0).judge(&WIDE, Some(CAPACITY)), Err(WindowRefusal::Doubtful));
        let narrow = [48e6, 49e6, 50e6, 51e6];
        assert_eq!(classifier(1.0).judge(&narrow, Some(CAPACITY)), Err(WindowRefusal::Narrow));
        assert_eq!(classifier(1.0).judge(&WIDE, None), Err(WindowRefusal::NoCapacity));
    }

    #[test]
    fn a_regression_estimates_from_every_window() {
        let rate =
            |judge: &mut Judge, capacity| judge.judge(&[50e6; 4], capacity).map(|(found, _)| found.rate);
        assert_eq!(rate(&mut regression("gigabit", json!(null)), None), Ok(Rate::from_mbps(300.0)));
        let mut relative = regression("capacity", json!(null));
        assert_eq!(rate(&mut relative, Some(CAPACITY)), Ok(Rate::from_mbps(30.0)));
        assert_eq!(rate(&mut relative, None), Err(WindowRefusal::NoCapacity));
    }

    #[test]
    fn a_window_unlike_those_of_the_training_is_refused_and_the_reason_kept() {
        let domain = json!({
            "statistics": ["log10-capacity-gbps"], "low": [-0.5], "high": [0.0], "mean": [-0.3], "whiten": [[1.0]],
            "limit": 1.0,
        });
        let mut judge = regression("gigabit", domain);
        assert_eq!(judge.judge(&WIDE, Some(CAPACITY)), Err(WindowRefusal::Unseen));
        let reason = judge.outside().expect("it was refused for that").to_string();
        assert_eq!(reason, "the capacity is 100 Mb/s; the model has seen 316 Mb/s to 1.00 Gb/s");
        assert!(judge.memory() > size_of::<Judge>());
    }
}
