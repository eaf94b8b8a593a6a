//! What a study of errors compares: estimators with their settings, and the streams they read.

use headway_units::Duration;
use serde::{Deserialize, Serialize};

use super::amount::{Count, Sweep};
use super::path::Cross;
use super::stream::StreamShape;

/// Parameters of [`Study::Errors`](super::Study::Errors).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Average rates of the streams in Gb/s.
    pub averages: Sweep,
    /// Streams per average rate, or groups of streams with the same truth.
    pub streams: Count,
    /// The estimators, each with its input streams.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

impl Errors {
    /// Returns the distinct sets of streams that the variants read: each combination of shape, streams per truth,
    /// cross traffic and averages once.
    pub fn streams_read(&self) -> Vec<Read> {
        let mut all = Vec::new();
        for variant in &self.variants {
            let read = self.read_by(variant);
            if !all.contains(&read) {
                all.push(read);
            }
        }
        all
    }

    /// Returns the streams that a variant reads.
    pub fn read_by(&self, variant: &Variant) -> Read {
        Read {
            shape: variant.shape,
            together: variant.streams_per_truth,
            cross: variant.cross,
            averages: variant.averages.unwrap_or(self.averages),
        }
    }
}

/// A set of streams that variants read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// Shape of the streams.
    pub shape: StreamShape,
    /// Consecutive streams at the same average rate.
    pub together: usize,
    /// Cross traffic, if it differs from that of the path.
    pub cross: Option<Cross>,
    /// Average rates in Gb/s.
    pub averages: Sweep,
}

/// An estimator with its settings and input streams.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name in tables and in the keys of claims.
    pub name: String,
    /// Shape of the streams; variants with the same shape read the same streams.
    pub shape: StreamShape,
    /// Consecutive streams at the same average rate; the truth is the available bandwidth during all of them.
    #[serde(default = "one")]
    pub streams_per_truth: usize,
    /// Streams whose estimates are averaged before they are compared with the truth (rapid 2.12).
    #[serde(default = "one")]
    pub gamma: usize,
    /// Cross traffic, if it differs from that of the path.
    pub cross: Option<Cross>,
    /// Average rates in Gb/s, if they differ from those of the study.
    pub averages: Option<Sweep>,
    /// Denoising method.
    #[serde(default)]
    pub denoise: Denoising,
    /// The estimator.
    #[serde(default)]
    pub estimator: Estimator,
    /// Window of the final mean, in gaps.
    #[serde(default = "usual_window")]
    pub window: usize,
    /// Smallest excess of a receive gap that counts as congestion.
    #[serde(default = "usual_margin")]
    pub margin: Duration,
    /// Packets per timestamp; 2 with delayed ACKs.
    #[serde(default = "one")]
    pub packets_per_stamp: usize,
}

fn usual_window() -> usize {
    16
}

fn usual_margin() -> Duration {
    Duration::from_ns(100)
}

fn one() -> usize {
    1
}

/// The denoising applied to gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denoising {
    /// No denoising.
    None,
    /// One pass of BASS, and removal of truncated events (rapid 2.9).
    SinglePass,
    /// One pass of BASS as printed, including the events truncated by the ends of the stream.
    SinglePassWithEnds,
    /// All passes of BASS, and the final mean (rapid 2.10).
    #[default]
    MultiPass,
}

/// The method that turns gaps into an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// The excursion search of Rapid (rapid 2.11).
    #[default]
    Excursion,
    /// The rate before the last excursion if that lasts to the end of the stream, otherwise the highest rate.
    LastExcursion,
    /// PRC-MT at each rate; the last rate before the first that is judged above (bass P10).
    Dp1,
    /// PRC-MT at each rate; the last rate that is judged not above (bass P10).
    Dp2,
}
