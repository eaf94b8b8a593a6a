//! What a model sees of a p-stream: features, and statistics that say whether the stream is like
//! those it was trained on.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use headway_units::{Bytes, Duration, Rate};
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

/// The largest number of gaps in a stream that features are computed of: no published one has more than 320.
pub const MOST_GAPS: usize = 1_024;

/// What is computed of the send and receive gaps of a stream (rapid 2.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Real parts, then imaginary parts, of the Fourier transform of all gaps.
    Fft,
    /// The moduli of the same.
    Mag,
    /// The gaps themselves.
    Raw,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Fft, Kind::Mag, Kind::Raw];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Fft => "fft",
            Kind::Mag => "mag",
            Kind::Raw => "raw",
        }
    }

    /// Returns the number of features of a stream with this many gaps.
    pub const fn features(self, gaps: usize) -> usize {
        match self {
            Kind::Fft => 2 * (gaps + 1),
            Kind::Mag => gaps + 1,
            Kind::Raw => 2 * gaps,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is none of fft, mag and raw"))
    }
}

/// The gaps of a stream: entry i of both belongs to the same packet.
#[derive(Clone, Copy, Debug)]
pub struct Gaps<'a> {
    /// Gaps at the sender, as they were and not as they were scheduled.
    pub send: &'a [Duration],
    /// Gaps at the receiver, without any denoising.
    pub receive: &'a [Duration],
}

/// Returns the time that a packet takes at the estimated capacity, in nanoseconds and not rounded: the
/// unit `packet-times`.
///
/// `packet` and `capacity` count the same bytes; a capacity of 0 counts as 1 b/s.
pub fn packet_time_ns(packet: Bytes, capacity: Rate) -> f64 {
    packet.get() as f64 * 8e9 / capacity.bps_f64().max(1.0)
}

/// Returns the mean of the send gaps in nanoseconds, at least 1: the unit `send-gaps`.
pub fn mean_gap_ns(send: &[Duration]) -> f64 {
    mean(send).max(1.0)
}

/// A stream has another number of gaps than the features are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stream of {0} gaps where {1} are expected")]
pub struct WrongLength(pub usize, pub usize);

/// Memory for the features of streams, kept between them.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    values: Vec<f64>,
    spectrum: Vec<Complex<f64>>,
    work: Vec<Complex<f64>>,
}

impl Scratch {
    pub(crate) fn memory(&self) -> usize {
        let complex = self.spectrum.capacity() + self.work.capacity();
        self.values.capacity() * size_of::<f64>() + complex * size_of::<Complex<f64>>()
    }
}

/// Computes the features of streams of one length.
#[derive(Clone)]
pub struct Features {
    kind: Kind,
    gaps: usize,
    plan: Arc<dyn RealToComplex<f64>>,
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Features").field("kind", &self.kind).field("gaps", &self.gaps).finish()
    }
}

impl Features {
    /// Plans the transform of streams with `gaps` gaps, 1 to [`MOST_GAPS`]; `None` for another number.
    pub fn new(kind: Kind, gaps: usize) -> Option<Features> {
        if !(1..=MOST_GAPS).contains(&gaps) {
            return None;
        }
        Some(Features { kind, gaps, plan: RealFftPlanner::new().plan_fft_forward(2 * gaps) })
    }

    /// Returns the number of features.
    pub fn len(&self) -> usize {
        self.kind.features(self.gaps)
    }

    /// Returns whether there are no features, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of gaps in a stream.
    pub fn gaps(&self) -> usize {
        self.gaps
    }

    /// Writes the features of a stream into `out`, replacing its contents; `unit_ns` is the unit of the
    /// gaps, in nanoseconds.
    ///
    /// # Errors
    /// [`WrongLength`] if the stream has another number of gaps, or not as many receive as send gaps.
    pub fn compute(
        &self,
        gaps: Gaps<'_>,
        unit_ns: f64,
        scratch: &mut Scratch,
        out: &mut Vec<f32>,
    ) -> Result<(), WrongLength> {
        out.clear();
        let lengths = [gaps.send.len(), gaps.receive.len()];
        if let Some(wrong) = lengths.into_iter().find(|length| *length != self.gaps) {
            return Err(WrongLength(wrong, self.gaps));
        }
        let values = &mut scratch.values;
        values.clear();
        values.extend(gaps.send.iter().chain(gaps.receive).map(|gap| gap.ns() as f64 / unit_ns));
        if self.kind == Kind::Raw {
            out.extend(values.iter().map(|value| *value as f32));
            return Ok(());
        }
        self.transform(scratch)?;
        let spectrum = &scratch.spectrum;
        match self.kind {
            Kind::Mag => out.extend(spectrum.iter().map(|one| one.re.hypot(one.im) as f32)),
            _ => {
                out.extend(spectrum.iter().map(|one| one.re as f32));
                out.extend(spectrum.iter().map(|one| one.im as f32));
            }
        }
        Ok(())
    }

    fn transform(&self, scratch: &mut Scratch) -> Result<(), WrongLength> {
        let Scratch { values, spectrum, work } = scratch;
        spectrum.resize(self.plan.complex_len(), Complex::default());
        work.resize(self.plan.get_scratch_len(), Complex::default());
        // It fails for wrong lengths only.
        let done = self.plan.process_with_scratch(values, spectrum, work);
        done.map_err(|_| WrongLength(values.len() / 2, self.gaps))
    }
}

/// A number that says what a stream is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statistic {
    /// Decimal logarithm of the mean send gap in the unit of the model.
    LogSendGap,
    /// Mean receive gap over mean send gap.
    ReceiveOverSend,
    /// Standard deviation of the receive gaps over their mean.
    ReceiveVariation,
    /// Share of the receive gaps below a quarter of their mean: packets that were delivered
    /// with the one before.
    ShortReceiveShare,
    /// Decimal logarithm of the mean time between two batches, in the unit of the model: the sum of the
    /// receive gaps over the number of those that are not short.
    LogBatchGap,
    /// Decimal logarithm of the longest receive gap in the unit of the model.
    LogLongestGap,
    /// Correlation of each receive gap with the next one.
    ReceiveCorrelation,
    /// Mean of the last quarter of the send gaps over that of the first: the range of rates.
    SendSlope,
    /// Longest send gap over their mean: whether the sender kept its gaps.
    LongestSend,
}

impl Statistic {
    /// All statistics, in the order of [`statistics`].
    pub const ALL: [Statistic; 9] = [
        Statistic::LogSendGap,
        Statistic::ReceiveOverSend,
        Statistic::ReceiveVariation,
        Statistic::ShortReceiveShare,
        Statistic::LogBatchGap,
        Statistic::LogLongestGap,
        Statistic::ReceiveCorrelation,
        Statistic::SendSlope,
        Statistic::LongestSend,
    ];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Statistic::LogSendGap => "log10-send-gap",
            Statistic::ReceiveOverSend => "receive-over-send",
            Statistic::ReceiveVariation => "receive-variation",
            Statistic::ShortReceiveShare => "short-receive-share",
            Statistic::LogBatchGap => "log10-batch-gap",
            Statistic::LogLongestGap => "log10-longest-gap",
            Statistic::ReceiveCorrelation => "receive-correlation",
            Statistic::SendSlope => "send-slope",
            Statistic::LongestSend => "longest-send",
        }
    }

    /// Returns what it is about, for reasons.
    pub const fn noun(self) -> &'static str {
        match self {
            Statistic::LogSendGap => "the send gaps",
            Statistic::ReceiveOverSend => "receive gaps beside send gaps",
            Statistic::ReceiveVariation => "the spread of the receive gaps",
            Statistic::ShortReceiveShare => "the share of short receive gaps",
            Statistic::LogBatchGap => "the time between batches",
            Statistic::LogLongestGap => "the longest receive gap",
            Statistic::ReceiveCorrelation => "the order of the receive gaps",
            Statistic::SendSlope => "the range of rates",
            Statistic::LongestSend => "the longest send gap",
        }
    }
}

/// A receive gap below this share of the mean one is short.
const SHORT: f64 = 0.25;
/// Logarithms are of at least this many units, so that they are finite.
const LEAST: f64 = 1e-9;

/// Returns the statistics of a stream in the order of [`Statistic::ALL`]; all are finite. `unit_ns` is the
/// unit of the gaps, in nanoseconds.
pub fn statistics(gaps: Gaps<'_>, unit_ns: f64) -> [f64; Statistic::ALL.len()] {
    let log = |ns: f64| (ns / unit_ns).clamp(LEAST, f64::MAX).log10();
    let (send, receive) = (mean(gaps.send), mean(gaps.receive));
    let short = gaps.receive.iter().filter(|gap| (gap.ns() as f64) < SHORT * receive).count();
    let count = gaps.receive.len().max(1) as f64;
    let batches = (count - short as f64).max(1.0);
    let (variance, correlation) = spread(gaps.receive, receive);
    let quarter = (gaps.send.len() / 4).max(1).min(gaps.send.len());
    let (first, last) = (&gaps.send[..quarter], &gaps.send[gaps.send.len() - quarter..]);
    [
        log(send),
        ratio(receive, send),
        ratio(variance.sqrt(), receive),
        short as f64 / count,
        log(receive * count / batches),
        log(longest(gaps.receive)),
        correlation,
        ratio(mean(last), mean(first)),
        ratio(longest(gaps.send), send),
    ]
}

fn mean(gaps: &[Duration]) -> f64 {
    gaps.iter().map(|gap| gap.ns() as f64).sum::<f64>() / gaps.len().max(1) as f64
}

fn longest(gaps: &[Duration]) -> f64 {
    gaps.iter().map(|gap| gap.ns() as f64).fold(0.0, f64::max)
}

/// Returns the variance around `mean` and the correlation of each gap with the next; both are 0
/// where all gaps are equal.
fn spread(gaps: &[Duration], mean: f64) -> (f64, f64) {
    let away = |gap: &Duration| gap.ns() as f64 - mean;
    let squares: f64 = gaps.iter().map(|gap| away(gap).powi(2)).sum();
    let products: f64 = gaps.windows(2).map(|pair| away(&pair[0]) * away(&pair[1])).sum();
    (squares / gaps.len().max(1) as f64, if squares > 0.0 { products / squares } else { 0.0 })
}

/// Returns a ratio of two times, 0 if the second takes no time.
fn ratio(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn us(gaps: &[i64]) -> Vec<Duration> {
        gaps.iter().copied().map(Duration::from_us).collect()
    }

    fn features(kind: Kind, send: &[i64], receive: &[i64]) -> Vec<f32> {
        let (send, receive) = (us(send), us(receive));
        let features = Features::new(kind, send.len()).expect("a few gaps");
        let mut out = Vec::new();
        let gaps = Gaps { send: &send, receive: &receive };
        features.compute(gaps, 1_000.0, &mut Scratch::default(), &mut out).expect("the right length");
        assert_eq!(out.len(), features.len());
        out
    }

    #[test]
    fn the_transform_of_four_gaps_is_that_of_paper_and_pencil() {
        // v = 1, 2, 3, 6: sum 12, then (1 - 3) + i (6 - 2), then 1 - 2 + 3 - 6.
        assert_eq!(features(Kind::Fft, &[1, 2], &[3, 6]), [12.0, -2.0, -4.0, 0.0, 4.0, 0.0]);
        assert_eq!(features(Kind::Mag, &[1, 2], &[3, 6]), [12.0, 20f32.sqrt(), 4.0]);
        assert_eq!(features(Kind::Raw, &[1, 2], &[3, 6]), [1.0, 2.0, 3.0, 6.0]);
    }

    #[test]
    fn another_length_is_refused() {
        let features = Features::new(Kind::Fft, 3).expect("a few gaps");
        let (three, two) = (us(&[1; 3]), us(&[1; 2]));
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        for (send, receive) in [(&two, &three), (&three, &two)] {
            let gaps = Gaps { send, receive };
            assert_eq!(features.compute(gaps, 1.0, &mut scratch, &mut out), Err(WrongLength(2, 3)));
        }
        assert!(Features::new(Kind::Raw, 0).is_none() && Features::new(Kind::Raw, MOST_GAPS + 1).is_none());
    }

    #[test]
    fn a_unit_of_packet_times_makes_streams_of_all_links_alike() {
        let fast = packet_time_ns(Bytes::new(1_250), Rate::from_mbps(1_000.0));
        assert_eq!(fast, 10_000.0);
        let (send, receive) = (us(&[20; 8]), us(&[25; 8]));
        let (slow_send, slow_receive) = (us(&[200; 8]), us(&[250; 8]));
        let slow = packet_time_ns(Bytes::new(1_250), Rate::from_mbps(100.0));
        let one = statistics(Gaps { send: &send, receive: &receive }, fast);
        assert_eq!(one, statistics(Gaps { send: &slow_send, receive: &slow_receive }, slow));
    }

    #[test]
    fn statistics_see_batches_rates_and_the_range_of_the_stream() {
        let send = us(&[15, 15, 15, 15, 12, 12, 12, 12, 11, 11, 11, 11, 10, 10, 10, 10]);
        // Batches of four packets every 48 us.
        let receive = us(&[48, 0, 0, 0].repeat(4));
        let found = statistics(Gaps { send: &send, receive: &receive }, 1_000.0);
        let at = |wanted: Statistic| {
            found[Statistic::ALL.iter().position(|one| *one == wanted).expect("in the list")]
        };
        assert_eq!(at(Statistic::LogSendGap), 12f64.log10());
        assert_eq!(at(Statistic::ReceiveOverSend), 1.0);
        assert!((at(Statistic::ReceiveVariation) - 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(at(Statistic::ShortReceiveShare), 0.75);
        assert_eq!(at(Statistic::LogBatchGap), 48f64.log10());
        assert_eq!(at(Statistic::LogLongestGap), 48f64.log10());
        assert!(at(Statistic::ReceiveCorrelation) < 0.0);
        assert_eq!(at(Statistic::SendSlope), 10.0 / 15.0);
        assert_eq!(at(Statistic::LongestSend), 1.25);
    }

    #[test]
    fn names_are_unique_and_kinds_are_read_by_theirs() {
        let mut names = Statistic::ALL.map(Statistic::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(Kind::ALL.into_iter().all(|kind| kind.name().parse() == Ok(kind)));
    }

    proptest! {
        #[test]
        fn statistics_are_finite_whatever_the_gaps(
            pairs in prop::collection::vec((any::<i64>(), any::<i64>()), 0..60), unit in 1e-3..1e9f64,
        ) {
            let (send, receive): (Vec<_>, Vec<_>) =
                pairs.iter().map(|(send, receive)| (Duration::from_ns(*send), Duration::from_ns(*receive))).unzip();
            let found = statistics(Gaps { send: &send, receive: &receive }, unit);
            prop_assert!(found.iter().all(|one| one.is_finite()), "{:?}", found);
        }

        #[test]
        fn the_transform_is_that_of_the_definition(pairs in prop::collection::vec((0i64..9_000, 0i64..9_000), 1..50)) {
            let (send, receive): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
            let all = [send.clone(), receive.clone()].concat();
            let found = features(Kind::Fft, &send, &receive);
            let size = send.len() + 1;
            for k in 0..size {
                let turn = -std::f64::consts::TAU * k as f64 / all.len() as f64;
                let part = |f: fn(f64) -> f64| -> f64 {
                    all.iter().enumerate().map(|(n, gap)| *gap as f64 * f(turn * n as f64)).sum()
                };
                prop_assert!((f64::from(found[k]) - part(f64::cos)).abs() < 0.1);
                prop_assert!((f64::from(found[size + k]) - part(f64::sin)).abs() < 0.1);
            }
        }
    }
}
