//! The answers of a model.

use headway_units::{Bytes, Rate};

use crate::domain::{Domain, Outside};
use crate::error::NoAnswer;
use crate::file::{RateUnit, Task, TimeUnit, Training};
use crate::network::{Network, dot};
use crate::stream::{Features, Gaps, mean_gap_ns, packet_time_ns};
use crate::trees::Trees;
use crate::{stream, window};

/// The share of a range or a size by which the shape of a stream may differ from that of the model.
const SHAPE_TOLERANCE: f64 = 0.2;

/// The shape of the streams that a model was trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Number of rates.
    pub rates: u32,
    /// Packets at each rate.
    pub packets_per_rate: u32,
    /// By which share the highest rate is above the lowest.
    pub range: f64,
    /// Size of a packet on the wire.
    pub packet: Bytes,
}

/// What a model sees.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Stream { features: Features, unit: TimeUnit, shape: Shape },
    Histogram,
    Density { draws: bool, unit: RateUnit, bandwidth: f64 },
}

/// What computes a number from features.
#[derive(Clone, Debug)]
pub(crate) enum Predictor {
    Linear { coefficients: Vec<f64>, intercept: f64 },
    Trees(Trees),
    Network(Network),
}

/// How far from its answer the truth may be, in nine of ten cases.
#[derive(Clone, Debug)]
pub(crate) enum Interval {
    Residual { low: f64, high: f64 },
    Quantiles { lower: Predictor, upper: Predictor, margin: f64 },
}

/// Memory for the answers of models, kept between them.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    stream: stream::Scratch,
    window: window::Scratch,
    features: Vec<f32>,
    values: Vec<f64>,
    next: Vec<f64>,
    each: Vec<(f64, f64)>,
}

impl Scratch {
    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        let Scratch { stream, window, features, values, next, each } = self;
        size_of::<Scratch>()
            + stream.memory()
            + window.memory()
            + features.capacity() * size_of::<f32>()
            + (values.capacity() + next.capacity()) * size_of::<f64>()
            + each.capacity() * size_of::<(f64, f64)>()
    }
}

/// A number, and the interval that holds the truth in nine of ten cases, where the model has one;
/// the number lies in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate<T> {
    /// The answer.
    pub value: T,
    /// Both ends of its 90 % interval.
    pub interval: Option<(T, T)>,
}

impl<T> Estimate<T> {
    fn map<U>(self, convert: impl Fn(T) -> U) -> Estimate<U> {
        let interval = self.interval.map(|(low, high)| (convert(low), convert(high)));
        Estimate { value: convert(self.value), interval }
    }
}

/// A model.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) name: String,
    pub(crate) task: Task,
    pub(crate) input: Input,
    pub(crate) scaler: Option<(Vec<f64>, Vec<f64>)>,
    pub(crate) predictor: Predictor,
    pub(crate) interval: Option<Interval>,
    pub(crate) domain: Option<Domain>,
    pub(crate) training: Training,
}

impl Model {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what it answers.
    pub const fn task(&self) -> Task {
        self.task
    }

    /// Returns what it was trained on.
    pub const fn training(&self) -> &Training {
        &self.training
    }

    /// Returns the shape of the streams that it was trained on; `None` if it reads windows.
    pub const fn shape(&self) -> Option<&Shape> {
        match &self.input {
            Input::Stream { shape, .. } => Some(shape),
            _ => None,
        }
    }

    /// Returns the same model, which answers to all that has its form, whatever it has seen.
    pub fn without_domain(&self) -> Model {
        Model { domain: None, ..self.clone() }
    }

    /// Whether its streams have packets of one size: it counts in nanoseconds, so their size is
    /// part of what it learned.
    pub const fn has_fixed_packets(&self) -> bool {
        matches!(&self.input, Input::Stream { unit: TimeUnit::Ns, .. })
    }

    /// Whether it says what it has seen, and refuses the rest.
    pub const fn has_domain(&self) -> bool {
        self.domain.is_some()
    }

    /// Returns the lowest and the highest average rate of streams that it has seen, where its file says so;
    /// `packet` and `capacity` are those of the path.
    pub fn rates(&self, packet: Bytes, capacity: Option<Rate>) -> Option<(Rate, Rate)> {
        let unit_ns = match self.input {
            Input::Stream { unit: TimeUnit::PacketTimes, .. } => packet_time_ns(packet, capacity?),
            Input::Stream { unit: TimeUnit::SendGaps, .. } => return None,
            _ => 1.0,
        };
        let (shortest, longest) = self.domain.as_ref()?.send_gaps()?;
        let rate = |gap: f64| Rate::from_bps_f64(packet.get() as f64 * 8e9 / (unit_ns * 10f64.powf(gap)));
        Some((rate(longest), rate(shortest)))
    }

    /// Checks whether the model has seen paths of which as much was free as a measurement of many streams
    /// says. A model that has seen one load only reads nearly the same from streams beside another.
    ///
    /// # Errors
    /// What it has seen.
    pub fn check_free(&self, available: Rate, capacity: Rate) -> Result<(), Outside> {
        let share = available.bps_f64() / capacity.bps_f64().max(1.0);
        self.domain.as_ref().map_or(Ok(()), |domain| domain.check_free(share))
    }

    /// Returns the answer to features, in the unit of the answer, without looking at the domain.
    ///
    /// # Errors
    /// [`NoAnswer::OtherLength`] if there are more or fewer features, or [`NoAnswer::NotFinite`].
    pub fn predict(&self, features: &[f32], scratch: &mut Scratch) -> Result<Estimate<f64>, NoAnswer> {
        let expected = self.features();
        if features.len() != expected {
            return Err(NoAnswer::OtherLength(features.len(), expected));
        }
        scratch.features.clear();
        scratch.features.extend_from_slice(features);
        self.answer(scratch)
    }

    /// Returns the number of features.
    pub fn features(&self) -> usize {
        match &self.input {
            Input::Stream { features, .. } => features.len(),
            _ => window::VALUES,
        }
    }

    /// Returns the available bandwidth that a multi-rate stream shows.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn rate(
        &self,
        gaps: Gaps<'_>,
        (packet, capacity): (Bytes, Option<Rate>),
        scratch: &mut Scratch,
    ) -> Result<Estimate<Rate>, NoAnswer> {
        let unit_bps = match (&self.input, capacity) {
            (Input::Stream { unit: TimeUnit::PacketTimes, .. }, Some(capacity)) => capacity.bps_f64(),
            (Input::Stream { unit: TimeUnit::SendGaps, .. }, _) => {
                packet.get() as f64 * 8e9 / mean_gap_ns(gaps.send)
            }
            _ => 1e9,
        };
        let found = self.of_stream(Task::MultiRate, gaps, (packet, capacity), scratch)?;
        Ok(found.map(|share| Rate::from_bps_f64((share * unit_bps).max(0.0))))
    }

    /// Returns the probability that the rate of a stream is above the available bandwidth.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn above(
        &self,
        gaps: Gaps<'_>,
        path: (Bytes, Option<Rate>),
        scratch: &mut Scratch,
    ) -> Result<f64, NoAnswer> {
        Ok(self.of_stream(Task::SingleRate, gaps, path, scratch)?.value)
    }

    fn of_stream(
        &self,
        task: Task,
        gaps: Gaps<'_>,
        (packet, capacity): (Bytes, Option<Rate>),
        scratch: &mut Scratch,
    ) -> Result<Estimate<f64>, NoAnswer> {
        let Input::Stream { features, unit, shape } = &self.input else {
            return Err(NoAnswer::OtherTask(self.task.name()));
        };
        if self.task != task {
            return Err(NoAnswer::OtherTask(self.task.name()));
        }
        let unit_ns = match unit {
            TimeUnit::Ns if packet != shape.packet => return Err(NoAnswer::OtherShape),
            TimeUnit::Ns => 1.0,
            TimeUnit::PacketTimes => packet_time_ns(packet, capacity.ok_or(NoAnswer::NoCapacity)?),
            TimeUnit::SendGaps => mean_gap_ns(gaps.send),
        };
        let Scratch { stream, features: out, .. } = scratch;
        let computed = features.compute(gaps, unit_ns, stream, out);
        computed.map_err(|wrong| NoAnswer::OtherLength(wrong.0, wrong.1))?;
        if !has_shape(gaps, shape) {
            return Err(NoAnswer::OtherShape);
        }
        if let Some(domain) = &self.domain {
            domain.check_stall(gaps).map_err(NoAnswer::Unseen)?;
            let statistics = stream::statistics(gaps, unit_ns);
            domain.check(&statistics, &mut scratch.values).map_err(NoAnswer::Unseen)?;
        }
        self.answer(scratch)
    }

    /// Returns the probability that the mean of a window of rates, ascending and without outliers,
    /// is what is available.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn good(&self, rates: &[f32], capacity: Rate, scratch: &mut Scratch) -> Result<f64, NoAnswer> {
        let Input::Histogram = &self.input else { return Err(NoAnswer::OtherTask(self.task.name())) };
        self.check_window(rates, Some(capacity), scratch)?;
        window::histogram(rates, capacity.bps_f64().max(1.0), &mut scratch.features);
        Ok(self.answer(scratch)?.value)
    }

    /// Returns the interval around the mean of a window that [`good`](Model::good) takes to
    /// be what is available.
    pub fn around(&self, mean: Rate) -> Estimate<Rate> {
        let interval = match self.interval {
            Some(Interval::Residual { low, high }) => Some(around(mean.bps_f64(), low, high)),
            _ => None,
        };
        Estimate { value: mean.bps_f64(), interval }.map(Rate::from_bps_f64)
    }

    /// Returns the available bandwidth that the density of a window of rates shows; `rates` are ascending.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn density(
        &self,
        rates: &[f32],
        capacity: Option<Rate>,
        scratch: &mut Scratch,
    ) -> Result<Estimate<Rate>, NoAnswer> {
        let Input::Density { draws, unit, bandwidth } = self.input else {
            return Err(NoAnswer::OtherTask(self.task.name()));
        };
        let unit_bps = match unit {
            RateUnit::Gigabit => 1e9,
            RateUnit::Capacity => capacity.ok_or(NoAnswer::NoCapacity)?.bps_f64().max(1.0),
        };
        self.check_window(rates, capacity, scratch)?;
        let Scratch { window, features, .. } = scratch;
        let density = if draws { window::density_draws } else { window::density_heights };
        density(rates, unit_bps, bandwidth, window, features);
        Ok(self.answer(scratch)?.map(|share| Rate::from_bps_f64((share * unit_bps).max(0.0))))
    }

    fn check_window(
        &self,
        rates: &[f32],
        capacity: Option<Rate>,
        scratch: &mut Scratch,
    ) -> Result<(), NoAnswer> {
        let Some(domain) = &self.domain else { return Ok(()) };
        if capacity.is_none() && domain.needs_capacity() {
            return Err(NoAnswer::NoCapacity);
        }
        let statistics = window::statistics(rates, capacity.map_or(1.0, Rate::bps_f64));
        domain.check(&statistics, &mut scratch.values).map_err(NoAnswer::Unseen)
    }

    /// Returns the answer to the features in the scratch memory.
    fn answer(&self, scratch: &mut Scratch) -> Result<Estimate<f64>, NoAnswer> {
        let value = self.number(&self.predictor, scratch);
        let interval = match &self.interval {
            None => None,
            Some(Interval::Residual { low, high }) => Some(around(value, *low, *high)),
            Some(Interval::Quantiles { lower, upper, margin }) => {
                let low = self.number(lower, scratch) - margin;
                let high = self.number(upper, scratch) + margin;
                Some((low.min(value), high.max(value)))
            }
        };
        let finite = |(low, high): (f64, f64)| low.is_finite() && high.is_finite();
        if !value.is_finite() || !interval.is_none_or(finite) {
            return Err(NoAnswer::NotFinite);
        }
        Ok(Estimate { value, interval })
    }

    /// Returns what one predictor makes of the features.
    fn number(&self, predictor: &Predictor, scratch: &mut Scratch) -> f64 {
        let Scratch { features, values, next, each, .. } = scratch;
        values.clear();
        values.extend(features.iter().map(|feature| f64::from(*feature)));
        if let Some((mean, scale)) = &self.scaler {
            let by = mean.iter().zip(scale);
            values.iter_mut().zip(by).for_each(|(value, (mean, scale))| *value = (*value - mean) / scale);
        }
        match predictor {
            Predictor::Linear { coefficients, intercept } => intercept + dot(coefficients, values),
            Predictor::Trees(trees) => {
                // scikit-learn rounds scaled features again.
                values.iter_mut().for_each(|value| *value = f64::from(*value as f32));
                trees.predict(values, each)
            }
            Predictor::Network(network) => {
                network.predict(values, next);
                // Of two classes, the second is the one that is asked for.
                values.last().copied().unwrap_or(f64::NAN)
            }
        }
    }
}

/// Returns both ends of an interval relative to `value`, which lies in it.
fn around(value: f64, low: f64, high: f64) -> (f64, f64) {
    let ends = [value * (1.0 + low), value * (1.0 + high)];
    (ends[0].min(ends[1]).min(value), ends[0].max(ends[1]).max(value))
}

/// Whether the mean send gaps of the parts of a stream shrink as the rates of the shape rise.
fn has_shape(gaps: Gaps<'_>, shape: &Shape) -> bool {
    let part = |gaps: &[headway_units::Duration]| gaps.iter().map(|gap| gap.ns() as f64).sum::<f64>();
    let mut parts = gaps.send.chunks(shape.packets_per_rate as usize);
    let Some(first) = parts.next().map(part) else { return false };
    let steps = f64::from(shape.rates.saturating_sub(1).max(1));
    parts.zip(1..).all(|(gaps, number)| {
        let expected = first / (1.0 + shape.range).powf(f64::from(number) / steps);
        (part(gaps) - expected).abs() <= SHAPE_TOLERANCE * expected
    })
}
