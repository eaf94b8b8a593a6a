//! The data model of an experiment file.

use std::collections::BTreeMap;

use headway_core::control::Kind;
use headway_core::{Bytes, Duration, Rate, Schedule, Shape};
use serde::{Deserialize, Serialize};

use crate::shared_link::Marking;

/// One experiment of a paper: the streams, the path, and the published results.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Paper and number, for example `rapid/B7`; the folder of its file.
    #[serde(skip)]
    pub id: String,
    /// Title of the experiment.
    pub title: String,
    /// Reference to the publication.
    pub source: String,
    /// The published result, in a sentence.
    pub published: String,
    /// What an agreement proves.
    #[serde(default)]
    pub evidence: Evidence,
    /// Differences between simulation and publication that matter for reading the numbers.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The path; omitted in experiments about the sender alone.
    #[serde(default)]
    pub path: Path,
    /// The study to carry out.
    pub study: Study,
    /// Measured numbers that explain others but were not published.
    #[serde(rename = "note", default)]
    pub notes: Vec<Note>,
    /// The published numbers, each with the band within which a measured number agrees.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// The significance of an agreement between measured and published numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The algorithms ran on a path that was not fitted to the result.
    #[default]
    Simulation,
    /// The models of gap creation were calibrated on these or closely related published numbers.
    Mechanism,
    /// The Linux stack ran instead of the simulator; experiment files cannot declare this.
    #[serde(skip_deserializing)]
    Kernel,
}

impl Evidence {
    /// Returns the label that accompanies every output.
    pub const fn label(self) -> &'static str {
        match self {
            Evidence::Simulation => "simulation",
            Evidence::Mechanism => "simulation of a mechanism",
            Evidence::Kernel => "the stack of Linux",
        }
    }

    /// Returns the meaning of the label, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Evidence::Simulation => "the path is a model, and no part of it was fitted to this result",
            Evidence::Mechanism => {
                "the gap errors are models calibrated on the published numbers, so agreement checks the models and proves nothing new"
            }
            Evidence::Kernel => {
                "senders, receivers and queues are those of Linux in virtual time, and nothing was fitted to this result"
            }
        }
    }
}

/// The path of the streams.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Path {
    /// Rate of the bottleneck and of the sender's link.
    pub capacity: Rate,
    /// Buffer of the bottleneck; the thesis only calls it shallow.
    pub buffer: Bytes,
    /// Wire size of a probe packet.
    pub packet: Bytes,
    /// Kind of cross traffic.
    pub cross: Cross,
    /// The sender's gap mechanism.
    pub gaps: Gapping,
    /// Minimum time between receive interrupts, before jitter; zero means one interrupt per packet (rapid 2.15).
    pub coalescing: Duration,
    /// Idle time between streams.
    pub silence: Duration,
}

impl Default for Path {
    fn default() -> Path {
        Path {
            capacity: Rate::from_bps(10_000_000_000),
            buffer: Bytes::new(1_000_000),
            packet: Bytes::new(9038),
            cross: Cross::Bct,
            gaps: Gapping::Dummy,
            coalescing: Duration::from_us(120),
            silence: Duration::from_ms(10),
        }
    }
}

/// Kinds of cross traffic (rapid 4.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cross {
    /// No cross traffic.
    None,
    /// Replayed bursty web traffic, 2.51 Gb/s on average.
    Bct,
    /// The same traffic smoothed by token buckets, 2.49 Gb/s on average.
    Sct,
    /// Nine constant-rate senders, 2.47 Gb/s on average.
    Cbr,
    /// 1538 B packets with exponential gaps, 2.47 Gb/s on average.
    Poisson,
    /// One sender of evenly spaced 1538 B packets, 3 Gb/s.
    Paced,
}

/// Gap mechanisms of senders (rapid 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gapping {
    /// Fills the gaps with frames that the next switch drops.
    Dummy,
    /// One kernel timer per packet.
    Hrtimer,
    /// Busy-waits on the clock.
    BusyWait,
}

impl Gapping {
    /// Returns the name in tables and keys.
    pub const fn name(self) -> &'static str {
        match self {
            Gapping::Dummy => "dummy",
            Gapping::Hrtimer => "hrtimer",
            Gapping::BusyWait => "busy-wait",
        }
    }
}

/// A sample size: reduced, and as published.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Number in quick mode.
    pub quick: usize,
    /// Number in the publication, or our choice where it gives none.
    pub full: usize,
}

/// Evenly spaced values, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The first value.
    pub from: f64,
    /// The last one.
    pub to: f64,
    /// The difference between neighbouring values.
    pub step: f64,
}

impl Sweep {
    /// Returns all values.
    pub fn values(&self) -> Vec<f64> {
        let count = ((self.to - self.from) / self.step + 1e-9) as usize;
        (0..=count).map(|i| self.from + self.step * i as f64).collect()
    }
}

/// The kinds of studies. Rates are in Gb/s on the wire.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Study {
    /// Error of the gaps that a sender creates, over the rate.
    GapErrors(GapErrors),
    /// The sequence of gaps that a sender creates.
    GapSeries(GapSeries),
    /// Estimates of an excursion search on streams from different senders.
    GapEstimates(GapEstimates),
    /// Error of the gaps when many flows share a sender.
    GapFlows(GapFlows),
    /// The queue of a link shared by long flows with a short RTT.
    SharedLink(SharedLink),
    /// Variation of the rate of a paced sender.
    GapBursts(GapBursts),
    /// The stream length that PRC-MT converges to.
    Lengths(Lengths),
    /// Accuracy of the decisions on single-rate streams.
    Decisions(Decisions),
    /// Error of estimates from multi-rate streams.
    Errors(Errors),
    /// The gaps of one stream at each stage of the estimator.
    Series(Series),
    /// The mean of the first gaps after an interrupt, over their number.
    Windows(Windows),
}

/// Parameters of [`Study::SharedLink`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    /// Marking scheme of the link.
    pub marking: Marking,
    /// Controllers, by the name with which their measures begin.
    pub variants: BTreeMap<String, Kind>,
    /// Experiments of the thesis, `1` to `4H`, in which all variants run.
    pub settings: Vec<String>,
    /// Runs per variant and setting, with different seeds; the median is reported.
    pub runs: Count,
    /// Simulated duration of what lasts one second in the thesis.
    pub milliseconds: Count,
    /// The same duration on the Linux stack, where packets take ten times as long to compute; absent when no
    /// kernel has the controllers.
    pub kernel_milliseconds: Option<Count>,
}

/// Parameters of [`Study::GapErrors`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapErrors {
    /// Gap mechanisms.
    pub mechanisms: Vec<Gapping>,
    /// Wire sizes of the packets.
    pub packets: Vec<Bytes>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Sending time at each rate.
    pub milliseconds: Count,
}

/// Parameters of [`Study::GapSeries`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapSeries {
    /// The gap mechanism.
    pub mechanism: Gapping,
    /// Rate in Gb/s.
    pub rate: f64,
    /// Number of gaps.
    pub gaps: Count,
    /// Number of gaps in the figure.
    pub drawn: usize,
}

/// Parameters of [`Study::GapEstimates`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapEstimates {
    /// Gap mechanisms.
    pub mechanisms: Vec<Gapping>,
    /// Shape of the streams.
    pub shape: StreamShape,
    /// Average rate of the streams in Gb/s.
    pub average: f64,
    /// Number of the probing rate, from 1, that is the correct estimate.
    pub right: usize,
    /// Streams per mechanism.
    pub streams: Count,
}

/// Parameters of [`Study::GapFlows`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapFlows {
    /// Gap mechanisms.
    pub mechanisms: Vec<Gapping>,
    /// Numbers of flows.
    pub flows: Vec<usize>,
    /// Total rates of all flows in Gb/s.
    pub rates: Vec<f64>,
    /// Sending time.
    pub milliseconds: Count,
}

/// Parameters of [`Study::GapBursts`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapBursts {
    /// Gap mechanisms.
    pub mechanisms: Vec<Gapping>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Interval over which the rate is averaged.
    pub interval: Duration,
    /// Intervals per rate.
    pub intervals: Count,
}

/// Parameters of [`Study::Lengths`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// Packets in the initial train at line rate.
    pub train: usize,
    /// Number of tunings.
    pub runs: Count,
}

/// Parameters of [`Study::Decisions`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decisions {
    /// Names of the methods ([`headway_core::estimate::SingleRate`]). With ` @exit`, a method sees the gaps right
    /// behind the bottleneck; with ` @busy`, those of a NIC that another packet woke up less than one interval
    /// before.
    pub methods: Vec<String>,
    /// Stream lengths in packets.
    pub lengths: Vec<usize>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Streams per rate.
    pub streams: Count,
}

/// The rates of a multi-rate stream.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamShape {
    /// Number of rates.
    pub rates: u32,
    /// Packets per rate.
    pub packets: u32,
    /// Difference between the highest and the lowest rate, as a fraction.
    pub range: f64,
    /// Spacing of the rates between the two ends.
    #[serde(default)]
    pub spread: Spread,
}

/// The spacing of the rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Equal ratios (rapid 2.2).
    #[default]
    Geometric,
    /// Equal differences (the BASS paper).
    Uniform,
}

impl StreamShape {
    /// Returns the schedule of a stream of this shape.
    pub fn schedule(&self, average: Rate, packet: Bytes) -> Schedule {
        match self.spread {
            Spread::Geometric => {
                Schedule::p_stream(Shape::with_range(self.rates, self.packets, self.range), average, packet)
            }
            Spread::Uniform => self.uniform(average, packet),
        }
    }

    /// Returns a schedule with rates from `1 - range / 2` to `1 + range / 2` times the average, in equal steps.
    fn uniform(&self, average: Rate, packet: Bytes) -> Schedule {
        let steps = f64::from(self.rates.saturating_sub(1).max(1));
        let rate = |i: u32| average.scale(1.0 + self.range * (f64::from(i) / steps - 0.5));
        let gaps = (0..self.rates)
            .flat_map(|i| std::iter::repeat_n(rate(i).time_for(packet), self.packets as usize))
            .collect();
        Schedule { packet, gaps, average }
    }

    /// Returns the number of packets in a stream.
    pub fn length(&self) -> usize {
        self.rates as usize * self.packets as usize
    }
}

/// Parameters of [`Study::Errors`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Average rates of the streams in Gb/s.
    pub averages: Sweep,
    /// Streams per average rate.
    pub streams: Count,
    /// The estimators, each with its input streams.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

impl Errors {
    /// Returns the distinct sets of streams that the variants read: each combination of shape, cross traffic and
    /// averages once.
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
    #[serde(default = "each_packet")]
    pub packets_per_stamp: usize,
}

fn usual_window() -> usize {
    16
}

fn usual_margin() -> Duration {
    Duration::from_ns(100)
}

fn each_packet() -> usize {
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

/// Parameters of [`Study::Series`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Shape of the streams.
    pub shape: StreamShape,
    /// Average rate of the streams in Gb/s.
    pub average: f64,
    /// Available bandwidth during the published stream, in Gb/s.
    pub available: f64,
    /// Largest relative deviation from this for a stream to qualify as an example.
    pub within: f64,
    /// Streams to search for examples.
    pub streams: Count,
}

/// Parameters of [`Study::Windows`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Rate of the streams in Gb/s.
    pub rate: f64,
    /// Packets per stream.
    pub length: usize,
    /// Largest number of gaps in a mean.
    pub longest: usize,
    /// Number of streams.
    pub streams: Count,
}

/// A measured number that explains others; printed as a remark, without a band.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The measured number, in the syntax of a [`Claim`].
    pub measure: String,
    /// Description, to be followed by the number.
    pub text: String,
    /// Unit of the number.
    #[serde(default)]
    pub unit: String,
}

/// A published number or statement, expressed as a band.
///
/// `measure` is the name of a measured number, `null of NAME`, `NAME minus NAME` or `NAME over NAME`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The measured number that the claim is about.
    pub measure: String,
    /// What was published.
    pub published: String,
    /// Unit of the band and of the measured number.
    #[serde(default)]
    pub unit: String,
    /// Smallest number that agrees.
    pub at_least: Option<f64>,
    /// Largest number that agrees.
    pub at_most: Option<f64>,
    /// Justification of the band.
    pub reason: String,
    /// Why the number is not reached, where known.
    pub deviation: Option<String>,
}

impl Claim {
    /// Whether a number lies within the band; NaN never does.
    pub fn holds(&self, measured: f64) -> bool {
        !measured.is_nan()
            && self.at_least.is_none_or(|low| measured >= low)
            && self.at_most.is_none_or(|high| measured <= high)
    }

    /// Formats the band.
    pub fn band(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!(">= {low}"),
            (None, Some(high)) => format!("<= {high}"),
            (None, None) => "any".to_owned(),
        }
    }
}
