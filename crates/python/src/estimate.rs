//! Estimators over arrays of streams, and their scores.

use std::collections::BTreeMap;

use headway_estimate::offline::{Answer, Answers, Bench, Denoising, Estimator, QUANTILES, Score};
use headway_estimate::stream::{Refusal, TableStream};
use headway_estimate::{Bound as Within, Decision, Settings, StreamRecord};
use headway_learned::Task;
use headway_units::Rate;
use headway_units::statistics::closest;
use numpy::IntoPyArray as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};

use crate::errors::wrong;
use crate::interrupt::in_steps;
use crate::model::Model;
use crate::streams::{StreamArrays, Streams};

/// Names of ways to denoise, as on the command line.
const DENOISING: [(&str, Denoising); 4] = [
    ("none", Denoising::None),
    ("one-pass", Denoising::OnePass),
    ("two-passes", Denoising::TwoPasses),
    ("bass", Denoising::Full),
];

/// What stands for no answer of a kind.
const NONE: u8 = u8::MAX;

/// Returns the names of all estimators: those that answer with a rate, and those that judge one.
#[pyfunction]
pub(crate) fn estimators() -> (Vec<&'static str>, Vec<&'static str>) {
    let names = |is_multi: bool| {
        let wanted = move |one: &Estimator| matches!(one, Estimator::MultiRate(_)) == is_multi;
        Estimator::all().filter(wanted).map(Estimator::name).collect()
    };
    (names(true), names(false))
}

/// Runs an estimator over streams; returns columns, and its score as JSON. See `headway.estimate`.
#[pyfunction]
#[pyo3(signature = (streams, method, denoise, capacity_bps, model))]
pub(crate) fn estimate<'py>(
    py: Python<'py>,
    streams: StreamArrays<'py>,
    method: &str,
    denoise: &str,
    capacity_bps: f64,
    model: Option<PyRef<'py, Model>>,
) -> PyResult<(Bound<'py, PyDict>, String)> {
    let named: Estimator = method.parse().map_err(|reason: String| wrong("method", reason))?;
    let model = match (named.needs_model(), model) {
        (true, None) => return Err(wrong("model", "the method `learned` needs one")),
        (false, Some(_)) => return Err(wrong("model", "is for the method `learned`")),
        (_, model) => model.map(|model| model.of(&[Task::MultiRate, Task::SingleRate])).transpose()?,
    };
    let estimator = model.as_deref().and_then(Estimator::learned).unwrap_or(named);
    let known = DENOISING.iter().find(|(name, _)| *name == denoise);
    let Some((_, denoising)) = known else {
        let names = DENOISING.map(|(name, _)| name).join(", ");
        return Err(wrong("denoise", format_args!("`{denoise}` is none of {names}")));
    };
    let streams = streams.streams()?;
    if estimator.needs_schedule() && !streams.are_scheduled() {
        return Err(wrong("gap_ns", format_args!("{method} needs the scheduled gaps")));
    }
    let settings = Settings::for_link(streams.packet, Rate::from_bps_f64(capacity_bps));
    let bench = Bench::new(settings, *denoising);
    let mut bench = model.into_iter().fold(bench, Bench::with_model);
    let mut tally = Tally::new(estimator, streams.parts.len());
    let parts = streams.parts;
    in_steps(
        py,
        parts.len(),
        |part| parts.end(part),
        |step| step.into_iter().try_for_each(|index| tally.add(index, &streams, &mut bench)),
    )?;
    let mut score = tally.score();
    score["unlike_training"] = json!(bench.outside().map(|outside| outside.to_string()));
    let score = score.to_string();
    Ok((tally.into_dict(py)?, score))
}

/// The answers to all streams so far.
struct Tally {
    estimator: Estimator,
    /// The present stream.
    stream: [TableStream; 1],
    average: Vec<i64>,
    free: Vec<f64>,
    /// NaN without an answer.
    available: Vec<f64>,
    /// Both ends of the interval, NaN without one.
    low: Vec<f64>,
    high: Vec<f64>,
    /// Numbers of [`Within`] and [`Decision`] and places in [`Refusal::ALL`], or [`NONE`].
    bound: Vec<u8>,
    verdict: Vec<u8>,
    refused: Vec<u8>,
    reasons: BTreeMap<Refusal, usize>,
    errors: Vec<f64>,
    wrong: (usize, usize),
    /// Streams with the truth, and those of them that were faster than it.
    above: (usize, usize),
}

impl Tally {
    fn new(estimator: Estimator, streams: usize) -> Tally {
        let column = || Vec::with_capacity(streams);
        Tally {
            estimator,
            stream: [TableStream { record: StreamRecord::default(), free: None }],
            average: Vec::with_capacity(streams),
            free: Vec::with_capacity(streams),
            available: Vec::with_capacity(streams),
            low: Vec::with_capacity(streams),
            high: Vec::with_capacity(streams),
            bound: column(),
            verdict: column(),
            refused: column(),
            reasons: BTreeMap::new(),
            errors: Vec::new(),
            wrong: (0, 0),
            above: (0, 0),
        }
    }

    /// Adds the answer to stream `index`.
    fn add(&mut self, index: usize, streams: &Streams<'_>, bench: &mut Bench) -> PyResult<()> {
        streams.fill(index, &mut self.stream[0])?;
        let TableStream { record, free } = &self.stream[0];
        let answer = bench.answer(self.estimator, record);
        self.average.push(record.average.bps() as i64);
        self.free.push(free.map_or(f64::NAN, Rate::bps_f64));
        if let Some(free) = free {
            self.above.0 += 1;
            self.above.1 += usize::from(record.average > *free);
        }
        let (mut available, mut interval, mut codes) = (f64::NAN, None, [NONE; 3]);
        match answer {
            Answer::Rate(estimate) => {
                (available, codes[0]) = (estimate.rate.bps_f64(), estimate.bound as u8);
                interval = estimate.interval;
            }
            Answer::Verdict(decision) => codes[1] = decision as u8,
            Answer::Refused(reason) => {
                let place = Refusal::ALL.iter().position(|one| *one == reason);
                codes[2] = place.map_or(NONE, |place| place as u8);
                *self.reasons.entry(reason).or_insert(0) += 1;
            }
        }
        self.available.push(available);
        let (low, high) = interval.map(|(low, high)| (low.bps_f64(), high.bps_f64())).unzip();
        self.low.push(low.unwrap_or(f64::NAN));
        self.high.push(high.unwrap_or(f64::NAN));
        let columns = [&mut self.bound, &mut self.verdict, &mut self.refused];
        columns.into_iter().zip(codes).for_each(|(column, code)| column.push(code));
        match Score::new(self.estimator, &self.stream, &[answer]).answers {
            Answers::Rates { errors, .. } => self.errors.extend(errors),
            Answers::Verdicts { wrong, .. } => self.wrong = (self.wrong.0 + wrong.0, self.wrong.1 + wrong.1),
        }
        Ok(())
    }

    /// Returns the score with the keys of `headway estimate --json`.
    fn score(&mut self) -> Value {
        let refused: Map<String, Value> =
            self.reasons.iter().map(|(reason, count)| (reason.to_string(), json!(count))).collect();
        let answered = self.average.len() - self.reasons.values().sum::<usize>();
        let mut score = json!({ "method": self.estimator.name(), "answered": answered, "refused": refused });
        let more = match self.estimator {
            Estimator::MultiRate(_) => self.rates(),
            Estimator::SingleRate(_) => self.verdicts(),
        };
        if let (Value::Object(score), Value::Object(more)) = (&mut score, more) {
            score.extend(more);
        }
        score
    }

    fn rates(&mut self) -> Value {
        let mut rates: Vec<u64> =
            self.available.iter().filter(|rate| !rate.is_nan()).map(|rate| *rate as u64).collect();
        rates.sort_unstable();
        self.errors.sort_by(f64::total_cmp);
        let at = |percent: u32| {
            Some((format!("p{percent}"), json!(closest(&self.errors, f64::from(percent) / 100.0)?)))
        };
        let quantiles: Option<Map<String, Value>> = QUANTILES.into_iter().map(at).collect();
        json!({
            "median_bps": rates.get(rates.len() / 2),
            "covering": self.errors.len(),
            "relative_error": quantiles,
        })
    }

    fn verdicts(&self) -> Value {
        let count = |decision: Decision| self.verdict.iter().filter(|code| **code == decision as u8).count();
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let (known, above) = self.above;
        json!({
            "above": count(Decision::Above),
            "not_above": count(Decision::NotAbove),
            "ambiguous": count(Decision::Ambiguous),
            "judged": self.wrong.1,
            "wrong_share": share(self.wrong.0, self.wrong.1),
            "null_wrong_share": share(above.min(known - above), known),
        })
    }

    /// Returns the columns; texts are numbers and, under the same name, the lists that they count in.
    fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("average_bps", self.average.into_pyarray(py))?;
        dict.set_item("free_bps", self.free.into_pyarray(py))?;
        match self.estimator {
            Estimator::MultiRate(_) => {
                dict.set_item("available_bps", self.available.into_pyarray(py))?;
                if self.estimator.needs_model() {
                    dict.set_item("low_bps", self.low.into_pyarray(py))?;
                    dict.set_item("high_bps", self.high.into_pyarray(py))?;
                }
                let names = [Within::AtLeast, Within::Within, Within::AtMost].map(<&str>::from);
                dict.set_item("bound", (self.bound.into_pyarray(py), names))?;
            }
            Estimator::SingleRate(_) => {
                let names = [Decision::Above, Decision::NotAbove, Decision::Ambiguous].map(<&str>::from);
                dict.set_item("verdict", (self.verdict.into_pyarray(py), names))?;
            }
        }
        dict.set_item(
            "refused",
            (self.refused.into_pyarray(py), Refusal::ALL.map(|reason| reason.to_string())),
        )?;
        Ok(dict)
    }
}
