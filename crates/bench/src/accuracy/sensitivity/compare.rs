//! Changed runs beside the unchanged ones.

use headway_units::statistics::median;
use serde::Serialize;

/// What came of one run; without an answer the error is 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Outcome {
    /// The error of the answer, as a share, at most 1.
    pub(super) error: f64,
    /// The share of what the answer says that was right.
    pub(super) right: f64,
    /// What it cost.
    pub(super) cost: f64,
    /// What it took.
    pub(super) time: f64,
}

/// A path is named as the worst one if its error grew by more than this share.
const WORSE: f64 = 0.005;

/// A change over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Shift {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// What a changed constant does.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Effect {
    /// Runs that came out differently.
    pub(super) changed_runs: usize,
    /// Change of the mean error over paths.
    pub(super) error: Shift,
    /// Change of the share of right answers.
    pub(super) right: Shift,
    /// Changes of cost and time, as shares of the unchanged ones.
    pub(super) cost: Shift,
    pub(super) time: Shift,
    /// The path whose error grew most, and by how much in the mean over seeds.
    pub(super) worst: Option<(String, f64)>,
}

/// The outcomes of a study by seed, and of each seed all paths in each round.
pub(super) type Outcomes = Vec<Vec<Outcome>>;

impl Shift {
    fn of(changes: Vec<f64>) -> Shift {
        let (least, most) =
            changes.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), change| {
                (least.min(*change), most.max(*change))
            });
        Shift { median: median(changes).unwrap_or(f64::NAN), least, most }
    }
}

impl Effect {
    /// Compares runs of the same paths and seeds.
    pub(super) fn between(usual: &Outcomes, changed: &Outcomes, paths: &[String]) -> Effect {
        let seeds = || usual.iter().zip(changed);
        let mean = |seed: &[Outcome], value: fn(&Outcome) -> f64| {
            seed.iter().map(value).sum::<f64>() / seed.len().max(1) as f64
        };
        let difference = |value: fn(&Outcome) -> f64| {
            Shift::of(seeds().map(|(before, after)| mean(after, value) - mean(before, value)).collect())
        };
        let ratio = |value: fn(&Outcome) -> f64| {
            let ratio = |(before, after): (&Vec<Outcome>, &Vec<Outcome>)| {
                let before = mean(before, value);
                if before > 0.0 { mean(after, value) / before - 1.0 } else { 0.0 }
            };
            Shift::of(seeds().map(ratio).collect())
        };
        let grown = |path: usize| {
            let own = |seed: &[Outcome]| -> f64 {
                let own: Vec<f64> =
                    seed.iter().skip(path).step_by(paths.len()).map(|outcome| outcome.error).collect();
                own.iter().sum::<f64>() / own.len().max(1) as f64
            };
            seeds().map(|(before, after)| own(after) - own(before)).sum::<f64>() / usual.len().max(1) as f64
        };
        let worst = paths.iter().enumerate().map(|(path, name)| (name.clone(), grown(path)));
        Effect {
            changed_runs: seeds()
                .flat_map(|(before, after)| before.iter().zip(after))
                .filter(|(a, b)| a != b)
                .count(),
            error: difference(|outcome| outcome.error),
            right: difference(|outcome| outcome.right),
            cost: ratio(|outcome| outcome.cost),
            time: ratio(|outcome| outcome.time),
            worst: worst.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, grown)| *grown > WORSE),
        }
    }

    /// Returns the cells of a table.
    pub(super) fn cells(&self) -> [String; 6] {
        if self.changed_runs == 0 {
            return ["0", "", "", "", "", ""].map(str::to_owned);
        }
        let worst = self.worst.as_ref().map(|(path, grown)| format!("{path} {:+.1}", 100.0 * grown));
        [
            self.changed_runs.to_string(),
            self.error.percent(1),
            self.right.percent(0),
            self.cost.percent(0),
            self.time.percent(0),
            worst.unwrap_or_default(),
        ]
    }
}

impl Shift {
    /// Returns the change in percent, with its range over seeds.
    fn percent(self, digits: usize) -> String {
        let [median, least, most] = [self.median, self.least, self.most].map(|value| {
            // No minus before what is rounded to zero.
            let rounded = format!("{:+.digits$}", 100.0 * value);
            if rounded.trim_matches(['+', '-', '0', '.']).is_empty() { "0".to_owned() } else { rounded }
        });
        if least == most { median } else { format!("{median} ({least} to {most})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(error: f64, right: f64, cost: f64) -> Outcome {
        Outcome { error, right, cost, time: 2.0 }
    }

    #[test]
    fn the_same_runs_show_no_effect() {
        let runs = vec![vec![outcome(0.1, 1.0, 5.0), outcome(0.3, 0.0, 7.0)]];
        let effect = Effect::between(&runs, &runs, &["a".to_owned(), "b".to_owned()]);
        assert_eq!((effect.changed_runs, effect.error.median, effect.worst.clone()), (0, 0.0, None));
        assert_eq!(effect.cells()[1..], [""; 5]);
    }

    #[test]
    fn changes_are_of_means_over_paths_and_medians_over_seeds() {
        let seed =
            |a: f64, b: f64, right: f64, cost: f64| vec![outcome(a, 1.0, cost), outcome(b, right, cost)];
        let usual = vec![seed(0.1, 0.1, 1.0, 4.0); 3];
        let changed = vec![seed(0.1, 0.3, 0.0, 8.0), seed(0.1, 0.5, 1.0, 4.0), seed(0.1, 0.2, 1.0, 2.0)];
        let effect = Effect::between(&usual, &changed, &["a".to_owned(), "b".to_owned()]);
        // The means grow by 0.1, 0.2 and 0.05.
        assert!((effect.error.median - 0.1).abs() < 1e-12 && (effect.error.most - 0.2).abs() < 1e-12);
        assert!(effect.changed_runs == 5);
        assert_eq!((effect.right.median, effect.right.least), (0.0, -0.5));
        assert_eq!((effect.cost.median, effect.cost.least, effect.cost.most), (0.0, -0.5, 1.0));
        let (path, grown) = effect.worst.clone().unwrap();
        assert!(path == "b" && (grown - 0.7 / 3.0).abs() < 1e-12, "{path} {grown}");
        assert_eq!(effect.cells()[..4], ["5", "+10.0 (+5.0 to +20.0)", "0 (-50 to 0)", "0 (-50 to +100)"]);
    }
}
