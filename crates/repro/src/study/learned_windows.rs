//! Models of SABES windows that scikit-learn trains (wan E15 to E20).

use std::collections::BTreeMap;
use std::path::Path;

use headway_dataset::windows::Plan;
use headway_estimate::measure::Method;
use headway_figures::{BoxMark, Figure};
use headway_learned::{Model, Scratch, Task};
use headway_worlds::World;
use serde::{Deserialize, Deserializer};

use super::window_runs::{Answers, Purpose, Runs, Tests};
use super::{Study, window_cost};
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{mean, quantile, sorted};
use crate::training::{self, Trained};

/// Models of windows, beside the published rules, the guarded ones, and a constant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LearnedWindows {
    /// Runs for training with each RTT and load; as many others are tests.
    runs: Count,
    /// Tests of each training with each RTT and load where they are real transfers in real time;
    /// without, there are none.
    emulated_runs: Option<Count>,
    /// Trainings with different data.
    repeats: Count,
    /// A method of a tool that probes the paths of simulated tests.
    #[serde(default, deserialize_with = "method")]
    tool: Option<Method>,
    /// How often windows of the first test are judged with and without a model, to compare the times.
    timed: Option<Count>,
    /// Kinds of data, by name; their numbers of runs do not count.
    data: BTreeMap<String, Plan>,
    /// The models.
    #[serde(rename = "model")]
    models: Vec<ModelPlan>,
}

fn method<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Method>, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map(Some).map_err(serde::de::Error::custom)
}

/// A model, what it is trained with, and what it is tested on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelPlan {
    name: String,
    /// `nn`, `kde` or `svm`.
    kind: String,
    /// Options of `python -m headway.train windows`.
    #[serde(default)]
    options: Vec<String>,
    train: String,
    test: Vec<String>,
}

/// What is drawn of the errors.
const QUANTILES: [(&str, f64); 5] =
    [("p5", 0.05), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("p95", 0.95)];

pub(super) type Numbers = BTreeMap<(String, &'static str), f64>;

impl Study for LearnedWindows {
    fn other_worlds(&self) -> &'static [World] {
        if self.emulated_runs.is_some() { &[World::Lab] } else { &[] }
    }

    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        training::require()?;
        let repeats: Vec<usize> = (0..job.of(self.repeats)).collect();
        let found = job.map(&repeats, |index, repeat| self.carry_out(job, *repeat, job.seed(index)))?;
        let mut findings = Findings::with_table("who,what,least,median,most");
        let mut names: Vec<&(String, &'static str)> = found.iter().flat_map(Numbers::keys).collect();
        names.sort();
        names.dedup();
        for key in names {
            let values = found.iter().filter_map(|numbers| numbers.get(key)).copied().collect();
            findings.add_spread(&key.0, key.1, values, &[0.0, 0.5, 1.0], 2);
        }
        findings.figure = figure(&findings);
        findings.remarks.push(format!(
            "Least, median and largest number of {} trainings, each with runs of its own. Errors are in percent of the \
             capacity. `rules` are the published ones; `guarded` is the rate of all flows together while the queue of the \
             tight link is never empty, in windows of 200 ms; `constant` answers the median of the truth in training.",
            repeats.len()
        ));
        Ok(findings)
    }
}

impl LearnedWindows {
    fn carry_out(&self, job: &Job<'_>, repeat: usize, seed: u64) -> Result<Numbers, Error> {
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let plans = self.plans(job, seed);
        let mut runs = Runs::new(job, self.tool);
        let (mut tests, mut numbers) = (BTreeMap::new(), Numbers::new());
        for (name, plan) in &plans {
            let table = folder.path().join(name).with_extension("csv");
            let (found, constant) = runs.make(plan, &table, self.purpose(name))?;
            score_others(&mut numbers, name, &found, constant);
            tests.insert(name.as_str(), found);
        }
        for plan in &self.models {
            let trained = plan.train(job, folder.path(), repeat)?;
            let Some(model) = trained.model else {
                // Without a model file, what the training says must do.
                for what in ["mae", "kept"] {
                    let value = trained.scores[what].as_f64().unwrap_or(f64::NAN);
                    numbers.insert((format!("{} on {}", plan.name, plan.train), what), 100.0 * value);
                }
                continue;
            };
            let chosen = plan.test.iter().filter_map(|name| Some((name, tests.get(name.as_str())?)));
            for (name, test) in chosen {
                job.check()?;
                score(&mut numbers, format!("{} on {name}", plan.name), test, &model);
                if let (Some(times), Some(first)) = (self.timed, &test.first) {
                    window_cost::compare(&mut numbers, &plan.name, first, &model, job.of(times));
                }
            }
        }
        if let Some((void, left_out)) = runs.disturbed() {
            numbers.insert(("runs".to_owned(), "void"), void as f64);
            numbers.insert(("runs".to_owned(), "left-out"), left_out as f64);
        }
        Ok(numbers)
    }

    /// Returns the data of a repetition. Those of the same paths have the same runs in real time.
    fn plans(&self, job: &Job<'_>, seed: u64) -> BTreeMap<String, Plan> {
        let runs = job.of(self.runs) as u32;
        let tests = match self.emulated_runs.filter(|_| job.world == World::Lab) {
            Some(emulated) => job.of(emulated) as u32,
            None => runs,
        };
        let in_real_time = job.world == World::Lab;
        let plan = |(index, (name, plan)): (usize, (&'_ String, &'_ Plan))| {
            let first = self.data.values().position(|other| in_real_time && other.path == plan.path);
            let seed = seed.wrapping_add(first.unwrap_or(index) as u64);
            (name.clone(), sized(plan, (runs, tests), seed))
        };
        self.data.iter().enumerate().map(plan).collect()
    }

    fn purpose(&self, name: &str) -> Purpose {
        Purpose {
            trains: self.models.iter().any(|model| model.train == name),
            tests: self.models.iter().any(|model| model.test.iter().any(|test| test == name)),
            keeps: self.timed.is_some(),
        }
    }
}

impl ModelPlan {
    /// Trains the model with the table of its data in a folder.
    fn train(&self, job: &Job<'_>, folder: &Path, repeat: usize) -> Result<Trained, Error> {
        let table = folder.join(&self.train).with_extension("csv");
        let output = folder.join(&self.name);
        std::fs::create_dir_all(&output).map_err(|error| failed(&error))?;
        let seed = (repeat + 1).to_string();
        let mut options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        options.extend(["--seed", &seed]);
        let trained = training::train(job, &output, "windows", &[table], &[&self.kind], &options)?;
        trained.into_iter().next().ok_or_else(|| Error::Training("it made no model".to_owned()))
    }
}

fn failed(error: &dyn std::error::Error) -> Error {
    Error::Training(error.to_string())
}

/// Scores the published rules, the guarded ones and a constant.
fn score_others(numbers: &mut Numbers, name: &str, tests: &Tests<'_>, constant: f64) {
    if tests.runs.is_empty() {
        return;
    }
    let each = 1.0 / tests.runs.len() as f64;
    add(numbers, &format!("guarded on {name}"), &tests.guarded, each);
    let rules = tests.answers(|_, window| window.passed.then(|| window.mean().bps_f64()));
    add(numbers, &format!("rules on {name}"), &rules, tests.per_run());
    if constant.is_finite() {
        let answers = tests.answers(|run, _| Some(constant * run.path.capacity.bps_f64()));
        add(numbers, &format!("constant on {name}"), &answers, tests.per_run());
    }
    for (who, answers) in [("tool", &tests.tool), ("tool beside flows", &tests.tool_beside_flows)] {
        if answers.windows > 0 {
            add(numbers, &format!("{who} on {name}"), answers, each);
        }
    }
}

/// Scores a model, and says how many windows its domain refuses.
fn score(numbers: &mut Numbers, who: String, tests: &Tests<'_>, model: &Model) {
    add(numbers, &who, &answer(tests, model, false), tests.per_run());
    let checked = answer(tests, model, true);
    let refused = 100.0 - 100.0 * checked.scored.len() as f64 / checked.windows.max(1) as f64;
    numbers.insert((who, "refused-as-unseen"), refused);
}

/// Returns the plan with so many runs for training and for tests.
fn sized(plan: &Plan, (trainings, tests): (u32, u32), seed: u64) -> Plan {
    let mut plan = Plan { seed, ..plan.clone() };
    for path in &mut plan.path {
        (path.runs, path.test_runs) = (trainings + tests, tests);
    }
    plan
}

/// Returns what a model answers; with `checked`, all that its domain lets it answer.
fn answer(tests: &Tests<'_>, model: &Model, checked: bool) -> Answers {
    let mut scratch = Scratch::default();
    let free = if checked { model.clone() } else { model.without_domain() };
    tests.answers(|_, window| match model.task() {
        Task::SabesNn => {
            let good = free.good(&window.rates, window.capacity, &mut scratch).ok()?;
            (checked || window.passed && good > 0.5).then(|| window.mean().bps_f64())
        }
        _ => Some(free.density(&window.samples, Some(window.capacity), &mut scratch).ok()?.value.bps_f64()),
    })
}

/// Adds mean errors, how many windows have an answer, how many answers there are in a run where each counts
/// `per_run`, and for each load and RTT the median over flows of their mean error, and the worst of these.
fn add(numbers: &mut Numbers, who: &str, answers: &Answers, per_run: f64) {
    let Answers { scored, windows } = answers;
    numbers.insert((who.to_owned(), "answers"), per_run * scored.len() as f64);
    let errors: Vec<f64> = scored.iter().map(|one| one.error).collect();
    numbers.insert((who.to_owned(), "mae"), mean(&errors));
    let ascending = sorted(errors);
    for (what, part) in QUANTILES {
        numbers.insert((who.to_owned(), what), quantile(&ascending, part));
    }
    numbers.insert((who.to_owned(), "kept"), 100.0 * scored.len() as f64 / (*windows).max(1) as f64);
    let mut flows: BTreeMap<&str, BTreeMap<(u32, u32), Vec<f64>>> = BTreeMap::new();
    for one in scored {
        flows.entry(&one.cell).or_default().entry((one.run, one.flow)).or_default().push(one.error);
    }
    let mut worst = f64::NAN;
    for (cell, flows) in flows {
        let means = sorted(flows.values().map(|errors| mean(errors)).collect());
        let median = quantile(&means, 0.5);
        worst = worst.max(median);
        numbers.insert((format!("{who} {cell}"), "median-mae"), median);
    }
    numbers.insert((who.to_owned(), "worst-median-mae"), worst);
}

/// Draws the quantiles of the errors of all windows.
fn figure(findings: &Findings) -> Figure {
    let names = findings.measures.keys().filter_map(|key| key.strip_suffix("/p5"));
    let mark = |name: &str| {
        let quantiles = QUANTILES.map(|(what, _)| findings.measures[&format!("{name}/{what}")]);
        BoxMark { name: name.to_owned(), quantiles, null: name.starts_with("constant") }
    };
    Figure::Boxes { axis: "absolute error, % of the capacity".to_owned(), marks: names.map(mark).collect() }
}
