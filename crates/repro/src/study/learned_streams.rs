//! Models of p-streams that scikit-learn trains (rapid M1 to M9).

mod multi_rate;
mod single_rate;

use std::collections::BTreeMap;
use std::path::Path;

use headway_dataset::streams::{Averages, PathPlan, Plan, Stream};
use headway_dataset::{Part, StreamTable};
use headway_estimate::{Gaps, Scratch, Settings};
use headway_host::nic::Coalescing;
use headway_learned::stream::{Features, Kind};
use headway_learned::{Model, stream};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::training::{self, Trained};

/// Models of p-streams, beside BASS, the null estimator, and what is known without looking at a stream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LearnedStreams {
    /// Packets in a stream.
    lengths: Vec<u32>,
    /// Rates of a stream; 1 for streams that are judged.
    rates: u32,
    /// Difference between the highest and the lowest rate, as a share of the lowest.
    #[serde(default)]
    range: f64,
    /// Average rates, as shares of the capacity.
    averages: Averages,
    /// Names of models.
    models: Vec<String>,
    /// Streams of a data set to train with; as many others are for the test.
    streams: Count,
    /// Trainings with different data.
    repeats: Count,
    /// Kinds of data, by name.
    data: BTreeMap<String, Data>,
    /// What is trained with which data, and tested on which.
    #[serde(rename = "compare")]
    compared: Vec<Compared>,
}

/// One kind of data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    traffic: Traffic,
    coalescing: Coalescing,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compared {
    /// The name of the training in results.
    name: String,
    train: Vec<String>,
    test: Vec<String>,
}

/// Runs of a data set for training, and as many for tests: folds of a cross-validation are made of them.
const RUNS: u32 = 10;
/// Wire size of a packet, and capacity of the bottleneck (rapid 4.0).
const PACKET: Bytes = Bytes::new(9038);
const CAPACITY: Rate = Rate::from_bps(10_000_000_000);

/// One length in one repetition.
struct Trial {
    length: u32,
    repeat: usize,
}

/// Streams with what models see of them.
pub(super) struct Seen {
    pub(super) stream: Stream,
    features: Vec<f32>,
}

/// Numbers of a trial by who answered and what is said of it.
pub(super) type Numbers = BTreeMap<(String, &'static str), f64>;

/// What answers besides models, with its memory.
pub(super) struct Others {
    settings: Settings,
    scratch: Scratch,
}

impl Study for LearnedStreams {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let repeats = job.of(self.repeats);
        let lengths = self.lengths.iter();
        let trials: Vec<Trial> = lengths
            .flat_map(|length| (0..repeats).map(move |repeat| Trial { length: *length, repeat }))
            .collect();
        let found = job.map(&trials, |index, trial| self.carry_out(trial, job, job.seed(index)))?;
        let mut findings = Findings::with_table("who,what,least,median,most");
        let mut names: Vec<&(String, &'static str)> = Vec::new();
        for key in found.iter().flat_map(Numbers::keys) {
            if !names.contains(&key) {
                names.push(key);
            }
        }
        for key in names {
            let values = found.iter().filter_map(|numbers| numbers.get(key)).copied().collect();
            findings.add_spread(&key.0, key.1, values, &[0.0, 0.5, 1.0], 2);
        }
        findings.figure = if self.is_multi_rate() {
            multi_rate::figure(&findings)
        } else {
            single_rate::figure(self, &findings)
        };
        findings.remarks.push(format!(
            "Least, median and largest number of {repeats} trainings, each with streams of its own. Models were trained \
             by scikit-learn and answer here as they do in `headway measure`, without the check of their domain."
        ));
        Ok(findings)
    }
}

impl LearnedStreams {
    fn is_multi_rate(&self) -> bool {
        self.rates > 1
    }

    fn plan(&self, data: &Data, trial: &Trial, streams: u32, seed: u64) -> Plan {
        let path = PathPlan {
            capacity: CAPACITY,
            packet: PACKET,
            buffer: Bytes::new(1_000_000),
            silence: Duration::from_ms(10),
            traffic: vec![data.traffic.clone()],
            coalescing: vec![data.coalescing],
            runs: 2 * RUNS,
            test_runs: RUNS,
            streams: (streams / RUNS).max(1),
        };
        Plan {
            seed,
            rates: self.rates,
            packets_per_rate: trial.length / self.rates,
            range: self.range,
            averages: self.averages,
            ack_every: 1,
            path: vec![path],
        }
    }

    /// Simulates all data, trains all models and scores them.
    fn carry_out(&self, trial: &Trial, job: &Job<'_>, seed: u64) -> Result<Numbers, Error> {
        let failed = |error: &dyn std::error::Error| Error::Training(error.to_string());
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let features = Features::new(Kind::Fft, trial.length as usize);
        let features = features.ok_or_else(|| Error::Training("a stream is too long".to_owned()))?;
        let mut tests = BTreeMap::new();
        for (index, (name, data)) in self.data.iter().enumerate() {
            job.check()?;
            let plan = self.plan(data, trial, job.of(self.streams) as u32, seed.wrapping_add(index as u64));
            let test = simulate(&plan, &features, &folder.path().join(name).with_extension("csv"));
            tests.insert(name.as_str(), test.map_err(|error| failed(&error))?);
        }
        let mut numbers = Numbers::new();
        let mut others = Others { settings: Settings::default(), scratch: Scratch::default() };
        for (name, test) in &tests {
            let who = |who: &str| format!("{who} {} on {name}", trial.length);
            if self.is_multi_rate() {
                multi_rate::score_others(&mut numbers, &who, test, &mut others);
            } else {
                single_rate::score_others(&mut numbers, &who, test, &mut others);
            }
        }
        for compared in &self.compared {
            let folder = folder.path().join("models");
            std::fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
            let trained = self.train(job, compared, &folder, trial.repeat)?;
            for (model, trained) in self.models.iter().zip(trained) {
                let Some(found) = trained.model else { continue };
                for test in &compared.test {
                    let who = format!("{model} {} {} on {test}", trial.length, compared.name);
                    let Some(streams) = tests.get(test.as_str()) else { continue };
                    if self.is_multi_rate() {
                        multi_rate::score(&mut numbers, &who, &found, streams);
                    } else {
                        single_rate::score(&mut numbers, &who, &found, streams);
                    }
                }
            }
        }
        Ok(numbers)
    }

    fn train(
        &self,
        job: &Job<'_>,
        compared: &Compared,
        folder: &Path,
        repeat: usize,
    ) -> Result<Vec<Trained>, Error> {
        let data = folder.parent().unwrap_or(folder);
        let tables: Vec<_> =
            compared.train.iter().map(|name| data.join(name).with_extension("csv")).collect();
        let models: Vec<&str> = self.models.iter().map(String::as_str).collect();
        let seed = (repeat + 1).to_string();
        training::train(job, folder, "streams", &tables, &models, &["--interval", "none", "--seed", &seed])
    }
}

/// Simulates the runs of a plan: writes those for training into a table, and returns the
/// streams of the others.
fn simulate(plan: &Plan, features: &Features, table: &Path) -> Result<Vec<Seen>, csv::Error> {
    let mut out = StreamTable::new(plan, None, std::io::BufWriter::new(std::fs::File::create(table)?))?;
    let mut tests = Vec::new();
    let (mut gaps, mut scratch) = (Gaps::default(), stream::Scratch::default());
    for run in plan.runs() {
        for stream in run.send(|| true) {
            if run.part == Part::Train {
                out.write(plan, &run, &stream)?;
                continue;
            }
            let mut seen = Vec::new();
            let all = stream.record.gaps(&mut gaps).is_ok();
            let of = stream::Gaps { send: &gaps.send, receive: &gaps.receive };
            if all && features.compute(of, 1.0, &mut scratch, &mut seen).is_ok() {
                tests.push(Seen { stream, features: seen });
            }
        }
    }
    out.finish()?;
    Ok(tests)
}

/// Returns what a model answers to each stream, in its unit.
fn answers<'a>(model: &'a Model, streams: &'a [Seen]) -> impl Iterator<Item = (&'a Stream, f64)> + 'a {
    let mut scratch = headway_learned::Scratch::default();
    streams.iter().filter_map(move |seen| {
        let answer = model.predict(&seen.features, &mut scratch).ok()?;
        Some((&seen.stream, answer.value))
    })
}
