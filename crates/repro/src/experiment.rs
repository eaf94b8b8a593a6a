//! What an experiment file says.

use std::collections::BTreeMap;

use headway_core::control::Kind;
use headway_core::{Bytes, Duration, Rate, Schedule, Shape};
use serde::{Deserialize, Serialize};

use crate::shared_link::Marking;

/// One experiment of a paper: what is sent over which path, and what was published about it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Paper and number, for instance `rapid/B7`; the folder that the file lies in.
    #[serde(skip)]
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Where it is published.
    pub source: String,
    /// What was published, in a sentence.
    pub published: String,
    /// What an agreement proves.
    #[serde(default)]
    pub evidence: Evidence,
    /// How the simulation differs from what was published, if that matters for reading the numbers.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The path; experiments about the sender alone have none.
    #[serde(default)]
    pub path: Path,
    /// What is done.
    pub study: Study,
    /// Measured numbers that explain others and were not published.
    #[serde(rename = "note", default)]
    pub notes: Vec<Note>,
    /// The published numbers, each with the band in which ours counts as agreeing.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// What it means when measured and published numbers agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The algorithms meet a path that was not fitted to the result.
    #[default]
    Simulation,
    /// The models of how gaps are made were calibrated on these or closely related published numbers.
    Mechanism,
    /// The stack of Linux ran, not the simulator; no experiment file says so.
    #[serde(skip_deserializing)]
    Kernel,
}

impl Evidence {
    /// The label that stands beside every output.
    pub const fn label(self) -> &'static str {
        match self {
            Evidence::Simulation => "simulation",
            Evidence::Mechanism => "simulation of a mechanism",
            Evidence::Kernel => "the stack of Linux",
        }
    }

    /// What the label means, in a sentence.
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

/// The path that streams are sent over.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Path {
    /// Rate of the bottleneck and of the sender's link.
    pub capacity: Rate,
    /// Buffer of the bottleneck; the thesis only says shallow.
    pub buffer: Bytes,
    /// Size of a probe packet on the wire.
    pub packet: Bytes,
    /// Kind of the cross traffic.
    pub cross: Cross,
    /// How the sender makes gaps.
    pub gaps: Gapping,
    /// Least time between receive interrupts before its jitter; one interrupt a packet when zero (rapid 2.15).
    pub coalescing: Duration,
    /// Silence between streams.
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
    /// None.
    None,
    /// Bursty replayed web traffic, 2.51 Gb/s in the mean.
    Bct,
    /// The same through token buckets, 2.49 Gb/s in the mean.
    Sct,
    /// Nine constant-rate senders, 2.47 Gb/s in the mean.
    Cbr,
    /// 1538 B packets with exponential gaps, 2.47 Gb/s in the mean.
    Poisson,
    /// One sender of 1538 B packets, evenly spaced, 3 Gb/s.
    Paced,
}

/// How a sender makes gaps (rapid 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gapping {
    /// Frames that the next switch drops fill the gaps.
    Dummy,
    /// A kernel timer per packet.
    Hrtimer,
    /// A loop that reads the clock.
    BusyWait,
}

impl Gapping {
    /// The name for tables and keys.
    pub const fn name(self) -> &'static str {
        match self {
            Gapping::Dummy => "dummy",
            Gapping::Hrtimer => "hrtimer",
            Gapping::BusyWait => "busy-wait",
        }
    }
}

/// How much is sent: in the quick mode, and as much as was published.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// In the quick mode.
    pub quick: usize,
    /// As many as in the publication, or ours where it does not say.
    pub full: usize,
}

/// Evenly spaced values, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The first value.
    pub from: f64,
    /// The last one.
    pub to: f64,
    /// From one to the next.
    pub step: f64,
}

impl Sweep {
    /// All values.
    pub fn values(&self) -> Vec<f64> {
        let count = ((self.to - self.from) / self.step + 1e-9) as usize;
        (0..=count).map(|i| self.from + self.step * i as f64).collect()
    }
}

/// What is done in an experiment. Rates are in Gb/s on the wire.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Study {
    /// Error of the gaps that a sender makes, over the rate.
    GapErrors(GapErrors),
    /// The gaps that a sender makes, one after the other.
    GapSeries(GapSeries),
    /// What an excursion search answers on streams made by different senders.
    GapEstimates(GapEstimates),
    /// Error of the gaps when many flows share a sender.
    GapFlows(GapFlows),
    /// The queue of a link that long flows with a short round trip share.
    SharedLink(SharedLink),
    /// How much the rate of a paced sender varies.
    GapBursts(GapBursts),
    /// The stream length that PRC-MT settles on.
    Lengths(Lengths),
    /// Whether streams of one rate are judged right.
    Decisions(Decisions),
    /// Error of estimates from streams of several rates.
    Errors(Errors),
    /// The gaps of one stream on its way through the estimator.
    Series(Series),
    /// The mean of the first gaps after an interrupt, over their number.
    Windows(Windows),
}

/// Parameters of [`Study::SharedLink`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    /// How the link marks.
    pub marking: Marking,
    /// Controllers by the name that measures begin with.
    pub variants: BTreeMap<String, Kind>,
    /// Experiments of the thesis, `1` to `4H`; those in which all variants run.
    pub settings: Vec<String>,
    /// Runs of each with different seeds; the median is reported.
    pub runs: Count,
    /// How long what lasts a second in the thesis lasts.
    pub milliseconds: Count,
    /// The same on the stack of Linux, where packets take ten times as long to compute; absent when no kernel has the controllers.
    pub kernel_milliseconds: Option<Count>,
}

/// Parameters of [`Study::GapErrors`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapErrors {
    /// Ways to make gaps.
    pub mechanisms: Vec<Gapping>,
    /// Sizes of the packets on the wire.
    pub packets: Vec<Bytes>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// How long is sent at each rate.
    pub milliseconds: Count,
}

/// Parameters of [`Study::GapSeries`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapSeries {
    /// The way to make gaps.
    pub mechanism: Gapping,
    /// Rate in Gb/s.
    pub rate: f64,
    /// Number of gaps.
    pub gaps: Count,
    /// How many of them are drawn.
    pub drawn: usize,
}

/// Parameters of [`Study::GapEstimates`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapEstimates {
    /// Ways to make gaps.
    pub mechanisms: Vec<Gapping>,
    /// Shape of the streams.
    pub shape: StreamShape,
    /// Their average rate in Gb/s.
    pub average: f64,
    /// Number of the probing rate, from 1, that is the right answer.
    pub right: usize,
    /// Streams for each mechanism.
    pub streams: Count,
}

/// Parameters of [`Study::GapFlows`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapFlows {
    /// Ways to make gaps.
    pub mechanisms: Vec<Gapping>,
    /// Numbers of flows.
    pub flows: Vec<usize>,
    /// Rates of all flows together in Gb/s.
    pub rates: Vec<f64>,
    /// How long the flows send.
    pub milliseconds: Count,
}

/// Parameters of [`Study::GapBursts`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapBursts {
    /// Ways to make gaps.
    pub mechanisms: Vec<Gapping>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Length of the intervals over which the rate is taken.
    pub interval: Duration,
    /// Number of intervals at each rate.
    pub intervals: Count,
}

/// Parameters of [`Study::Lengths`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// Packets of the train that is sent at line rate first.
    pub train: usize,
    /// Number of tunings.
    pub runs: Count,
}

/// Parameters of [`Study::Decisions`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decisions {
    /// Names of the methods ([`headway_core::estimate::SingleRate`]); with ` @exit` they see the gaps right behind the
    /// bottleneck, with ` @busy` those of a card that another packet has woken up to one interval before.
    pub methods: Vec<String>,
    /// Lengths of the streams in packets.
    pub lengths: Vec<usize>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Streams at each rate.
    pub streams: Count,
}

/// Layout of the rates of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamShape {
    /// Number of rates.
    pub rates: u32,
    /// Packets at each rate.
    pub packets: u32,
    /// How far the highest rate lies above the lowest.
    pub range: f64,
    /// How the rates lie between their ends.
    #[serde(default)]
    pub spread: Spread,
}

/// How rates lie between the lowest and the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// In equal ratios (rapid 2.2).
    #[default]
    Geometric,
    /// In equal differences (the BASS paper).
    Uniform,
}

impl StreamShape {
    /// A stream of this shape.
    pub fn schedule(&self, average: Rate, packet: Bytes) -> Schedule {
        match self.spread {
            Spread::Geometric => {
                Schedule::p_stream(Shape::with_range(self.rates, self.packets, self.range), average, packet)
            }
            Spread::Uniform => self.uniform(average, packet),
        }
    }

    /// Rates from `1 - range / 2` to `1 + range / 2` times the average, in equal steps.
    fn uniform(&self, average: Rate, packet: Bytes) -> Schedule {
        let steps = f64::from(self.rates.saturating_sub(1).max(1));
        let rate = |i: u32| average.scale(1.0 + self.range * (f64::from(i) / steps - 0.5));
        let gaps = (0..self.rates)
            .flat_map(|i| std::iter::repeat_n(rate(i).time_for(packet), self.packets as usize))
            .collect();
        Schedule { packet, gaps, average }
    }

    /// Packets in a stream.
    pub fn length(&self) -> usize {
        self.rates as usize * self.packets as usize
    }
}

/// Parameters of [`Study::Errors`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Averages of the streams in Gb/s.
    pub averages: Sweep,
    /// Streams at each average.
    pub streams: Count,
    /// The estimators, each with the streams it reads.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

impl Errors {
    /// The different streams that variants read: each shape among each kind of cross traffic once.
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

    /// The streams that a variant reads.
    pub fn read_by(&self, variant: &Variant) -> Read {
        Read {
            shape: variant.shape,
            cross: variant.cross,
            averages: variant.averages.unwrap_or(self.averages),
        }
    }
}

/// Streams that variants read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// Their shape.
    pub shape: StreamShape,
    /// Kind of cross traffic instead of that of the path.
    pub cross: Option<Cross>,
    /// Their averages in Gb/s.
    pub averages: Sweep,
}

/// An estimator with its settings, and the streams it is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name in tables and in the keys of claims.
    pub name: String,
    /// Shape of the streams; variants of the same shape read the same streams.
    pub shape: StreamShape,
    /// Kind of cross traffic instead of that of the path.
    pub cross: Option<Cross>,
    /// Averages of the streams in Gb/s instead of those of the study.
    pub averages: Option<Sweep>,
    /// How gaps are denoised.
    #[serde(default)]
    pub denoise: Denoising,
    /// How the gaps become an estimate.
    #[serde(default)]
    pub estimator: Estimator,
    /// Samples in the closing mean.
    #[serde(default = "usual_window")]
    pub window: usize,
    /// Least excess of a receive gap that counts as congestion.
    #[serde(default = "usual_margin")]
    pub margin: Duration,
    /// Packets per stamp; 2 with delayed acknowledgements.
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

/// What is done to gaps before they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denoising {
    /// Nothing.
    None,
    /// One pass of BASS and the removal of cut-off events (rapid 2.9).
    SinglePass,
    /// One pass of BASS as printed, with the events that the ends of the stream cut off.
    SinglePassWithEnds,
    /// All passes of BASS and the closing mean (rapid 2.10).
    #[default]
    MultiPass,
}

/// How gaps become an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// The search for excursions of Rapid (rapid 2.11).
    #[default]
    Excursion,
    /// The rate before the last excursion when it lasts to the end, the highest one otherwise.
    LastExcursion,
    /// PRC-MT for each rate, the last one before the first above (bass P10).
    Dp1,
    /// PRC-MT for each rate, the last one not above (bass P10).
    Dp2,
}

/// Parameters of [`Study::Series`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Shape of the streams.
    pub shape: StreamShape,
    /// Their average in Gb/s.
    pub average: f64,
    /// What was available during the published stream, in Gb/s.
    pub available: f64,
    /// By which part of that a stream may differ to count as such a one.
    pub within: f64,
    /// Streams sent in search of such.
    pub streams: Count,
}

/// Parameters of [`Study::Windows`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Rate of the streams in Gb/s.
    pub rate: f64,
    /// Packets in a stream.
    pub length: usize,
    /// The longest mean.
    pub longest: usize,
    /// Number of streams.
    pub streams: Count,
}

/// A measured number that explains others; it is printed as a remark and has no band.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Which of the measured numbers; written like that of a [`Claim`].
    pub measure: String,
    /// What it is, in words that the number follows.
    pub text: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
}

/// A published number or statement as a band.
///
/// `measure` is the name of a measured number, `null of NAME`, `NAME minus NAME` or `NAME over NAME`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Which of the measured numbers it is about.
    pub measure: String,
    /// What was published.
    pub published: String,
    /// Unit of the band and of the measured number.
    #[serde(default)]
    pub unit: String,
    /// The least number that agrees.
    pub at_least: Option<f64>,
    /// The largest number that agrees.
    pub at_most: Option<f64>,
    /// Why the band is as it is.
    pub reason: String,
    /// Why the number is not reached, where that is known.
    pub deviation: Option<String>,
}

impl Claim {
    /// Whether a number lies in the band; what is not a number never does.
    pub fn holds(&self, measured: f64) -> bool {
        !measured.is_nan()
            && self.at_least.is_none_or(|low| measured >= low)
            && self.at_most.is_none_or(|high| measured <= high)
    }

    /// The band as text.
    pub fn band(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!(">= {low}"),
            (None, Some(high)) => format!("<= {high}"),
            (None, None) => "any".to_owned(),
        }
    }
}
