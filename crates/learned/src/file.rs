//! The model file as it is written: JSON, version 1. What it means is said in models/README.md.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) task: Task,
    pub(crate) input: Input,
    pub(crate) shape: Option<Shape>,
    pub(crate) scaler: Option<Scaler>,
    pub(crate) model: Predictor,
    pub(crate) interval: Option<Interval>,
    pub(crate) domain: Option<Domain>,
    pub(crate) training: Training,
}

/// What a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// The available bandwidth, from a p-stream.
    MultiRate,
    /// Whether the rate of a stream is above the available bandwidth.
    SingleRate,
    /// Whether the mean of a window of samples is the available bandwidth.
    SabesNn,
    /// The available bandwidth, from the density of a window of samples.
    SabesKde,
}

impl Task {
    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Task::MultiRate => "multi-rate",
            Task::SingleRate => "single-rate",
            Task::SabesNn => "sabes-nn",
            Task::SabesKde => "sabes-kde",
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Input {
    Fft { gaps: usize, unit: TimeUnit },
    Mag { gaps: usize, unit: TimeUnit },
    Raw { gaps: usize, unit: TimeUnit },
    Histogram { bins: usize, unit: RateUnit },
    DensityDraws { values: usize, unit: RateUnit, bandwidth: f64 },
    DensityHeights { values: usize, unit: RateUnit, bandwidth: f64 },
}

/// What gaps are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// The time that a packet takes at the estimated capacity.
    PacketTimes,
    /// The mean send gap of the stream: no capacity need be known.
    SendGaps,
}

/// What the rates of samples are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateUnit {
    /// 1 Gb/s.
    Gigabit,
    /// The estimated capacity.
    Capacity,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Shape {
    pub(crate) rates: u32,
    pub(crate) packets_per_rate: u32,
    pub(crate) range: f64,
    pub(crate) packet_wire_bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scaler {
    pub(crate) mean: Vec<f64>,
    pub(crate) scale: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Predictor {
    Linear { coefficients: Vec<f64>, intercept: f64 },
    Trees { combine: Combine, base: f64, link: Link, trees: Vec<Tree> },
    Network { layers: Vec<Layer> },
}

/// How the values of trees become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Combine {
    Sum,
    Mean,
    WeightedMedian,
    WeightedVote,
}

/// What is done with their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    Identity,
    Logistic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    pub(crate) weight: f64,
    pub(crate) feature: Vec<i32>,
    pub(crate) threshold: Vec<f64>,
    pub(crate) left: Vec<i32>,
    pub(crate) right: Vec<i32>,
    pub(crate) value: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    pub(crate) weights: Vec<Vec<f64>>,
    pub(crate) bias: Vec<f64>,
    pub(crate) activation: Activation,
}

/// What is done with the sums of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Activation {
    Relu,
    Identity,
    Logistic,
    Softmax,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Interval {
    Residual { level: f64, low: f64, high: f64 },
    Quantiles { level: f64, lower: Predictor, upper: Predictor, margin: f64 },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Domain {
    pub(crate) statistics: Vec<String>,
    pub(crate) low: Vec<f64>,
    pub(crate) high: Vec<f64>,
    pub(crate) mean: Vec<f64>,
    pub(crate) whiten: Vec<Vec<f64>>,
    pub(crate) limit: f64,
    /// What was available in runs, as shares of the capacity.
    pub(crate) free: Option<(f64, f64)>,
}

/// What a model was trained on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Training {
    /// SHA-256 of the data, in hexadecimal digits.
    pub data_sha256: String,
    /// Streams or windows.
    pub rows: u64,
    /// Simulated runs that they are from.
    pub runs: u64,
    /// The seed of the training.
    pub seed: u64,
    /// Versions of the programs that took part.
    pub versions: BTreeMap<String, String>,
    /// A paragraph for a person: traffic, coalescing, capacities.
    pub text: String,
    /// How well it did; not read.
    #[serde(rename = "score")]
    _score: IgnoredAny,
}
