//! Models of SABES windows that scikit-learn trains (wan E15, E16, E19, E20).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use headway_dataset::windows::{Observed, Plan, Run, Watched, Window};
use headway_dataset::{Part, WindowTable};
use headway_estimate::sabes::Windows;
use headway_figures::{BoxMark, Figure};
use headway_learned::{Model, Scratch, Task};
use headway_units::Duration;
use serde::Deserialize;

use super::Study;
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
    /// Trainings with different data.
    repeats: Count,
    /// Kinds of data, by name; their numbers of runs do not count.
    data: BTreeMap<String, Plan>,
    /// The models.
    #[serde(rename = "model")]
    models: Vec<ModelPlan>,
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

/// Windows of the guarded rules (wan 2.12).
const PERIOD: Duration = Duration::from_ms(200);

/// What is drawn of the errors.
const QUANTILES: [(&str, f64); 5] =
    [("p5", 0.05), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("p95", 0.95)];

/// An answer: the cell and run of its window, the flow, and the absolute error in percent of the capacity.
struct Scored {
    cell: String,
    run: u32,
    flow: u32,
    error: f64,
}

/// Answers of one answerer, and of how many windows.
#[derive(Default)]
struct Answers {
    scored: Vec<Scored>,
    windows: u64,
}

/// The runs of one kind of data that are tests.
struct Tests<'a> {
    runs: Vec<(Run<'a>, Observed)>,
    guarded: Answers,
}

type Numbers = BTreeMap<(String, &'static str), f64>;

impl Study for LearnedWindows {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
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
        let runs = job.of(self.runs) as u32;
        let plan = |(index, (name, plan)): (usize, (&'_ String, &'_ Plan))| {
            (name.clone(), sized(plan, runs, seed.wrapping_add(index as u64)))
        };
        let plans: BTreeMap<String, Plan> = self.data.iter().enumerate().map(plan).collect();
        let (mut tests, mut numbers) = (BTreeMap::new(), Numbers::new());
        for (name, plan) in &plans {
            let (found, constant) = simulate(job, plan, &folder.path().join(name).with_extension("csv"))?;
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
                score(&mut numbers, format!("{} on {name}", plan.name), test, &model);
            }
        }
        Ok(numbers)
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
    add(numbers, &format!("guarded on {name}"), &tests.guarded);
    let rules = tests.answers(|_, window| window.passed.then(|| window.mean().bps_f64()));
    add(numbers, &format!("rules on {name}"), &rules);
    let constant = tests.answers(|run, _| Some(constant * run.path.capacity.bps_f64()));
    add(numbers, &format!("constant on {name}"), &constant);
}

/// Scores a model, and says how many windows its domain refuses.
fn score(numbers: &mut Numbers, who: String, tests: &Tests<'_>, model: &Model) {
    add(numbers, &who, &answer(tests, model, false));
    let checked = answer(tests, model, true);
    let refused = 100.0 - 100.0 * checked.scored.len() as f64 / checked.windows.max(1) as f64;
    numbers.insert((who, "refused-as-unseen"), refused);
}

/// Returns the plan with as many runs for training as for tests.
fn sized(plan: &Plan, runs: u32, seed: u64) -> Plan {
    let mut plan = Plan { seed, ..plan.clone() };
    for path in &mut plan.path {
        (path.runs, path.test_runs) = (2 * runs, runs);
    }
    plan
}

/// Makes the runs: writes those for training into a table, and returns the others, and the median share of the capacity that
/// was available in training.
fn simulate<'a>(job: &Job<'_>, plan: &'a Plan, table: &Path) -> Result<(Tests<'a>, f64), Error> {
    let file = File::create(table).map_err(|error| failed(&error))?;
    let mut out = WindowTable::new(BufWriter::new(file)).map_err(|error| failed(&error))?;
    let mut tests = Tests { runs: Vec::new(), guarded: Answers::default() };
    let mut shares = Vec::new();
    for run in plan.runs() {
        job.check()?;
        let watched = run.watch();
        let observed = run.windows(&watched);
        if run.part == Part::Test {
            tests.guard(&run, &watched);
            tests.runs.push((run, observed));
            continue;
        }
        for window in &observed.windows {
            shares.push(window.available.bps_f64() / run.path.capacity.bps_f64());
            out.write(&run, window).map_err(|error| failed(&error))?;
        }
    }
    out.finish().map_err(|error| failed(&error))?;
    Ok((tests, quantile(&sorted(shares), 0.5)))
}

impl Tests<'_> {
    /// Adds what the guarded rules answer.
    fn guard(&mut self, run: &Run<'_>, watched: &Watched) {
        let (estimates, windows) = watched.guarded(Windows::Tumbling(PERIOD));
        self.guarded.windows += windows;
        let capacity = run.path.capacity.bps_f64();
        self.guarded.scored.extend(estimates.iter().map(|estimate| Scored {
            cell: cell(run),
            run: run.number,
            flow: 0,
            error: 100.0 * (estimate.rate.bps_f64() - watched.truth(estimate).bps_f64()).abs() / capacity,
        }));
    }

    /// Scores the answers of a function to all windows, in b/s.
    fn answers(&self, mut answer: impl FnMut(&Run<'_>, &Window) -> Option<f64>) -> Answers {
        let mut answers = Answers::default();
        for (run, observed) in &self.runs {
            answers.windows += observed.windows.len() as u64;
            let capacity = run.path.capacity.bps_f64();
            for window in &observed.windows {
                let Some(rate) = answer(run, window) else { continue };
                let error = 100.0 * (rate - window.available.bps_f64()).abs() / capacity;
                answers.scored.push(Scored { cell: cell(run), run: run.number, flow: window.flow, error });
            }
        }
        answers
    }
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

/// Returns the name of a load and an RTT.
fn cell(run: &Run<'_>) -> String {
    format!("{:.0}/{:.0}", run.load * 100.0, run.rtt.ms())
}

/// Adds mean errors, how many windows have an answer, and for each load and RTT the median over flows of their mean error.
fn add(numbers: &mut Numbers, who: &str, answers: &Answers) {
    let Answers { scored, windows } = answers;
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
    for (cell, flows) in flows {
        let means = sorted(flows.values().map(|errors| mean(errors)).collect());
        numbers.insert((format!("{who} {cell}"), "median-mae"), quantile(&means, 0.5));
    }
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
