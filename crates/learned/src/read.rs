//! Reads a model file and checks all of it, once.

use headway_units::Bytes;

use crate::domain::{Domain, Kind};
use crate::error::{FileError, wrong};
use crate::file::{self, File, RateUnit, Task};
use crate::model::{Input, Interval, Model, Predictor, Shape};
use crate::network::Network;
use crate::stream::Features;
use crate::trees::Trees;
use crate::{check, stream, window};

/// The longest name, in bytes.
const LONGEST_NAME: usize = 200;
/// The level of all intervals.
const LEVEL: f64 = 0.9;

impl Model {
    /// The most bytes of a model file: an ensemble of a thousand trees with a hundred nodes each.
    pub const MOST_BYTES: usize = 8 << 20;

    /// Reads a model file (JSON) and checks all of it.
    ///
    /// # Errors
    /// A [`FileError`] names the place in the file.
    pub fn parse(text: &[u8]) -> Result<Model, FileError> {
        if text.len() > Model::MOST_BYTES {
            return Err(FileError::TooLarge(text.len()));
        }
        let file: File = serde_json::from_slice(text)?;
        if file.format != "headway-model" {
            return Err(wrong("format", "is not `headway-model`"));
        }
        if file.version != 1 {
            return Err(wrong("version", format!("is {}; this program reads version 1", file.version)));
        }
        if file.name.len() > LONGEST_NAME || file.name.chars().any(char::is_control) {
            return Err(wrong("name", format!("must be one line of at most {LONGEST_NAME} bytes")));
        }
        let (input, features) = input(&file)?;
        let kind = match &input {
            Input::Stream { unit, .. } => Kind::Stream(*unit),
            _ => Kind::Window,
        };
        Ok(Model {
            scaler: file.scaler.as_ref().map(|scaler| scaler_of(scaler, features)).transpose()?,
            predictor: predictor("model", &file.model, features, file.task)?,
            interval: file.interval.as_ref().map(|one| interval(one, features, file.task)).transpose()?,
            domain: file.domain.as_ref().map(|domain| Domain::new(domain, kind)).transpose()?,
            name: file.name,
            task: file.task,
            input,
            training: file.training,
        })
    }
}

/// Checks task, input and shape; returns them with the number of features.
fn input(file: &File) -> Result<(Input, usize), FileError> {
    let kind = match (&file.input, file.task) {
        (file::Input::Fft { gaps, unit }, Task::MultiRate | Task::SingleRate) => {
            (stream::Kind::Fft, *gaps, *unit)
        }
        (file::Input::Mag { gaps, unit }, Task::MultiRate | Task::SingleRate) => {
            (stream::Kind::Mag, *gaps, *unit)
        }
        (file::Input::Raw { gaps, unit }, Task::MultiRate | Task::SingleRate) => {
            (stream::Kind::Raw, *gaps, *unit)
        }
        (file::Input::Histogram { bins, unit: RateUnit::Capacity }, Task::SabesNn) => {
            check::length("input.bins", *bins, window::VALUES, "bins")?;
            return Ok((Input::Histogram, no_shape(file)?));
        }
        (file::Input::DensityDraws { values, unit, bandwidth }, Task::SabesKde) => {
            return Ok((density(true, *values, *unit, *bandwidth)?, no_shape(file)?));
        }
        (file::Input::DensityHeights { values, unit, bandwidth }, Task::SabesKde) => {
            return Ok((density(false, *values, *unit, *bandwidth)?, no_shape(file)?));
        }
        _ => return Err(wrong("input", format!("does not suit the task {}", file.task.name()))),
    };
    let (kind, gaps, unit) = kind;
    let Some(features) = Features::new(kind, gaps) else {
        return Err(wrong("input.gaps", format!("must be 1 to {}", stream::MOST_GAPS)));
    };
    let count = features.len();
    Ok((Input::Stream { features, unit, shape: shape(file, gaps)? }, count))
}

fn no_shape(file: &File) -> Result<usize, FileError> {
    match file.shape {
        Some(_) => Err(wrong("shape", "is for models of streams only")),
        None => Ok(window::VALUES),
    }
}

fn density(draws: bool, values: usize, unit: RateUnit, bandwidth: f64) -> Result<Input, FileError> {
    check::length("input.values", values, window::VALUES, "values")?;
    if !(bandwidth > 0.0 && bandwidth <= 10.0) {
        return Err(wrong("input.bandwidth", "must be above 0 and at most 10"));
    }
    Ok(Input::Density { draws, unit, bandwidth })
}

fn shape(file: &File, gaps: usize) -> Result<Shape, FileError> {
    let Some(shape) = &file.shape else { return Err(wrong("shape", "is missing; streams have one")) };
    let all = u64::from(shape.rates) * u64::from(shape.packets_per_rate);
    if all != gaps as u64 {
        let problem = format!("has {all} gaps, and `input.gaps` is {gaps}");
        return Err(wrong("shape", problem));
    }
    if file.task == Task::SingleRate && shape.rates != 1 {
        return Err(wrong("shape.rates", "must be 1 for the task single-rate"));
    }
    if !(0.0..=100.0).contains(&shape.range) {
        return Err(wrong("shape.range", "must be 0 to 100"));
    }
    if !(1..=65_573).contains(&shape.packet_wire_bytes) {
        return Err(wrong("shape.packet-wire-bytes", "must be 1 to 65573"));
    }
    Ok(Shape {
        rates: shape.rates,
        packets_per_rate: shape.packets_per_rate,
        range: shape.range,
        packet: Bytes::new(shape.packet_wire_bytes),
    })
}

fn scaler_of(scaler: &file::Scaler, features: usize) -> Result<(Vec<f64>, Vec<f64>), FileError> {
    for (name, values) in [("scaler.mean", &scaler.mean), ("scaler.scale", &scaler.scale)] {
        check::length(name, values.len(), features, "features")?;
        check::finite(name, values)?;
    }
    if let Some(index) = scaler.scale.iter().position(|scale| *scale == 0.0) {
        return Err(wrong(format!("scaler.scale[{index}]"), "is 0"));
    }
    Ok((scaler.mean.clone(), scaler.scale.clone()))
}

fn predictor(
    place: &str,
    predictor: &file::Predictor,
    features: usize,
    task: Task,
) -> Result<Predictor, FileError> {
    match predictor {
        file::Predictor::Linear { coefficients, intercept } => {
            check::length(&format!("{place}.coefficients"), coefficients.len(), features, "features")?;
            check::finite(&format!("{place}.coefficients"), coefficients)?;
            check::finite(&format!("{place}.intercept"), &[*intercept])?;
            Ok(Predictor::Linear { coefficients: coefficients.clone(), intercept: *intercept })
        }
        file::Predictor::Trees { combine, base, link, trees } => {
            Ok(Predictor::Trees(Trees::new(place, (*combine, *base, *link), trees, features)?))
        }
        file::Predictor::Network { layers } => {
            let network = Network::new(place, layers, features)?;
            let most = if matches!(task, Task::SingleRate | Task::SabesNn) { 2 } else { 1 };
            if network.outputs() > most {
                let problem =
                    format!("have {} outputs; {} has at most {most}", network.outputs(), task.name());
                return Err(wrong(format!("{place}.layers"), problem));
            }
            Ok(Predictor::Network(network))
        }
    }
}

fn interval(interval: &file::Interval, features: usize, task: Task) -> Result<Interval, FileError> {
    let (file::Interval::Residual { level, .. } | file::Interval::Quantiles { level, .. }) = interval;
    if (level - LEVEL).abs() > 1e-9 {
        return Err(wrong("interval.level", format!("must be {LEVEL}, as that of all intervals")));
    }
    match interval {
        _ if task == Task::SingleRate => Err(wrong("interval", "is not for the task single-rate")),
        file::Interval::Residual { low, high, .. } => {
            check::finite("interval.low", &[*low])?;
            check::finite("interval.high", &[*high])?;
            if *low < -1.0 || low > high {
                return Err(wrong("interval.low", "must be at least -1 and at most `high`"));
            }
            Ok(Interval::Residual { low: *low, high: *high })
        }
        file::Interval::Quantiles { .. } if task == Task::SabesNn => {
            Err(wrong("interval.kind", "must be `residual` for the task sabes-nn"))
        }
        file::Interval::Quantiles { lower, upper, margin, .. } => {
            check::finite("interval.margin", &[*margin])?;
            Ok(Interval::Quantiles {
                lower: predictor("interval.lower", lower, features, task)?,
                upper: predictor("interval.upper", upper, features, task)?,
                margin: *margin,
            })
        }
    }
}
