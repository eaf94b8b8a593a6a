//! Dense networks: layers of weighted sums.

use crate::error::{FileError, wrong};
use crate::file::{Activation, Layer};
use crate::trees::logistic;

/// The most layers, and the most units of one: far above the bound of the published ones (wan 2.11).
const MOST_LAYERS: usize = 16;
const MOST_UNITS: usize = 4_096;

/// A network.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    layers: Vec<Dense>,
}

/// Units whose sums grow side by side: this many stay in registers, and none waits for itself.
const BLOCK: usize = 16;

#[derive(Clone, Debug)]
struct Dense {
    inputs: usize,
    /// For each whole block of units, the weights of the first input, then of the second.
    blocks: Vec<[f64; BLOCK]>,
    /// The weights of the first of the other units, then of the second.
    rows: Vec<f64>,
    bias: Vec<f64>,
    activation: Activation,
}

impl Network {
    /// Checks a network for inputs of `features` values.
    pub(crate) fn new(place: &str, layers: &[Layer], features: usize) -> Result<Network, FileError> {
        if !(1..=MOST_LAYERS).contains(&layers.len()) {
            let problem = format!("has {} layers; 1 to {MOST_LAYERS} are possible", layers.len());
            return Err(wrong(format!("{place}.layers"), problem));
        }
        let mut inputs = features;
        let mut checked = Vec::new();
        for (number, layer) in layers.iter().enumerate() {
            let dense = Dense::new(&format!("{place}.layers[{number}]"), layer, inputs)?;
            inputs = dense.bias.len();
            checked.push(dense);
        }
        Ok(Network { layers: checked })
    }

    /// Returns the number of values that the last layer gives.
    pub(crate) fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.bias.len())
    }

    /// Replaces `values` by the outputs; `next` is memory.
    pub(crate) fn predict(&self, values: &mut Vec<f64>, next: &mut Vec<f64>) {
        for layer in &self.layers {
            layer.apply(values, next);
            std::mem::swap(values, next);
        }
    }
}

impl Dense {
    fn new(place: &str, layer: &Layer, inputs: usize) -> Result<Dense, FileError> {
        let units = layer.bias.len();
        if !(1..=MOST_UNITS).contains(&units) {
            let problem = format!("has {units} entries; 1 to {MOST_UNITS} are possible");
            return Err(wrong(format!("{place}.bias"), problem));
        }
        if layer.weights.len() != units {
            let problem = format!("has {} rows, and `bias` has {units} entries", layer.weights.len());
            return Err(wrong(format!("{place}.weights"), problem));
        }
        crate::check::finite(&format!("{place}.bias"), &layer.bias)?;
        for (unit, row) in layer.weights.iter().enumerate() {
            let place = format!("{place}.weights[{unit}]");
            crate::check::length(&place, row.len(), inputs, "inputs")?;
            crate::check::finite(&place, row)?;
        }
        let block = |rows: &[Vec<f64>], input: usize| std::array::from_fn(|unit| rows[unit][input]);
        let whole = layer.weights.chunks_exact(BLOCK);
        let rows = whole.remainder().concat();
        let blocks = whole.flat_map(|rows| (0..inputs).map(move |input| block(rows, input))).collect();
        Ok(Dense { inputs, blocks, rows, bias: layer.bias.clone(), activation: layer.activation })
    }

    fn apply(&self, values: &[f64], out: &mut Vec<f64>) {
        out.clear();
        let (biases, rest) = self.bias.as_chunks::<BLOCK>();
        for (columns, bias) in self.blocks.chunks_exact(self.inputs.max(1)).zip(biases) {
            let mut sums = *bias;
            for (value, column) in values.iter().zip(columns) {
                sums.iter_mut().zip(column).for_each(|(sum, weight)| *sum += weight * value);
            }
            out.extend_from_slice(&sums);
        }
        let rows = self.rows.chunks_exact(self.inputs.max(1));
        out.extend(rows.zip(rest).map(|(row, bias)| bias + dot(row, values)));
        match self.activation {
            Activation::Identity => {}
            Activation::Relu => out.iter_mut().filter(|one| **one < 0.0).for_each(|one| *one = 0.0),
            Activation::Logistic => out.iter_mut().for_each(|one| *one = logistic(*one)),
            Activation::Softmax => softmax(out),
        }
    }
}

/// Returns the sum of the products, in four parts that are added at the end: one sum would wait for itself.
pub(crate) fn dot(one: &[f64], other: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (ones, others) = (one.chunks_exact(4), other.chunks_exact(4));
    let rest: f64 = ones.remainder().iter().zip(others.remainder()).map(|(one, other)| one * other).sum();
    for (one, other) in ones.zip(others) {
        for lane in 0..4 {
            sums[lane] += one[lane] * other[lane];
        }
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// Turns the values into shares that add up to 1.
fn softmax(values: &mut [f64]) {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter_mut().for_each(|one| *one = (*one - most).exp());
    let all: f64 = values.iter().sum();
    values.iter_mut().for_each(|one| *one /= all);
}
