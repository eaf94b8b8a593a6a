//! Runs estimators over recorded streams and scores their answers, always beside the null
//! estimator (rapid 2.16, F43).

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use super::{Decision, MultiRate, Scratch, Settings, SingleRate, StreamEstimate};
use crate::stream::{Arrival, Gaps, Refusal, StreamRecord, TableStream};
use headway_learned::{Model, Outside, Task};
use headway_units::{Duration, Instant, Rate};

/// An estimator of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// Answers with a rate.
    MultiRate(MultiRate),
    /// Judges the rate of a stream.
    SingleRate(SingleRate),
}

impl Estimator {
    /// Iterates over all estimators that need no model.
    pub fn all() -> impl Iterator<Item = Estimator> {
        let multi = MultiRate::ALL.into_iter().map(Estimator::MultiRate);
        multi.chain(SingleRate::ALL.into_iter().map(Estimator::SingleRate))
    }

    /// Returns the name for command lines and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Estimator::MultiRate(method) => method.name(),
            Estimator::SingleRate(method) => method.name(),
        }
    }

    /// Returns the learned estimator of a model; `None` if the model reads no streams.
    pub fn learned(model: &Model) -> Option<Estimator> {
        match model.task() {
            Task::MultiRate => Some(Estimator::MultiRate(MultiRate::Learned)),
            Task::SingleRate => Some(Estimator::SingleRate(SingleRate::Learned)),
            Task::SabesNn | Task::SabesKde => None,
        }
    }

    /// Whether it needs a model.
    pub const fn needs_model(self) -> bool {
        matches!(self, Estimator::MultiRate(MultiRate::Learned) | Estimator::SingleRate(SingleRate::Learned))
    }

    /// Whether it needs the scheduled gaps of a stream.
    pub const fn needs_schedule(self) -> bool {
        matches!(self, Estimator::MultiRate(MultiRate::PrcMtDp1 | MultiRate::PrcMtDp2))
    }
}

impl FromStr for Estimator {
    type Err = String;

    fn from_str(name: &str) -> Result<Estimator, String> {
        // Whether a model is one of streams of several rates, it says itself.
        let all = || Estimator::all().chain([Estimator::MultiRate(MultiRate::Learned)]);
        let names = || all().map(Estimator::name).collect::<Vec<_>>().join(", ");
        let found = all().find(|one| one.name().eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| match headway_units::nearest(name, all().map(Estimator::name)) {
            Some(nearest) => format!("there is no method `{name}`; did you mean `{nearest}`?"),
            None => format!("`{name}` is none of {}", names()),
        })
    }
}

/// How streams are denoised by BASS before estimators see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denoising {
    /// Not at all.
    #[default]
    None,
    /// The first pass, and the removal of events that the ends of the stream cut off.
    OnePass,
    /// The first two passes.
    TwoPasses,
    /// All passes and the final moving average.
    Full,
}

/// The answer of an estimator to one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The estimated available bandwidth.
    Rate(StreamEstimate),
    /// The verdict on the stream's average rate.
    Verdict(Decision),
    /// There is none.
    Refused(Refusal),
}

/// Settings and memory for running estimators.
#[derive(Clone, Debug)]
pub struct Bench {
    settings: Settings,
    denoising: Denoising,
    scratch: Scratch,
    gaps: Gaps,
    means: Vec<Duration>,
}

impl Bench {
    /// Creates a bench.
    pub fn new(settings: Settings, denoising: Denoising) -> Bench {
        Bench { settings, denoising, scratch: Scratch::default(), gaps: Gaps::default(), means: Vec::new() }
    }

    /// Gives the learned estimators a model.
    pub fn with_model(self, model: Arc<Model>) -> Bench {
        Bench { scratch: Scratch::with_model(model), ..self }
    }

    /// Returns why the last stream that the model was asked about is unlike those that it has seen, if it is.
    pub fn outside(&self) -> Option<Outside> {
        self.scratch.outside()
    }

    /// Returns what an estimator answers to a stream.
    pub fn answer(&mut self, estimator: Estimator, stream: &StreamRecord) -> Answer {
        let answer = match estimator {
            // It looks at nothing that denoising could refuse, and models were trained on gaps as they are.
            Estimator::MultiRate(MultiRate::Null | MultiRate::Learned)
            | Estimator::SingleRate(SingleRate::Learned) => self.run(estimator, stream),
            _ => self.denoised(stream).and_then(|stream| self.run(estimator, &stream)),
        };
        answer.unwrap_or_else(Answer::Refused)
    }

    fn run(&mut self, estimator: Estimator, stream: &StreamRecord) -> Result<Answer, Refusal> {
        let Bench { settings, scratch, .. } = self;
        match estimator {
            Estimator::MultiRate(method) => method.estimate(stream, settings, scratch).map(Answer::Rate),
            Estimator::SingleRate(method) => method.decide(stream, settings, scratch).map(Answer::Verdict),
        }
    }

    /// Returns the stream with denoised gaps, without the packets that denoising removes from its ends.
    fn denoised(&mut self, stream: &StreamRecord) -> Result<StreamRecord, Refusal> {
        let Bench { settings, gaps, means, .. } = self;
        let denoise = settings.denoise;
        if self.denoising == Denoising::None {
            return Ok(stream.clone());
        }
        stream.gaps(gaps)?;
        let first = match self.denoising {
            Denoising::None => 0,
            Denoising::OnePass => denoise.first_pass(gaps)?,
            Denoising::TwoPasses => denoise.two_passes(gaps)?,
            Denoising::Full => denoise.apply(gaps, means)?.first,
        };
        let (mut sent, mut received) = (Instant::from_ns(0), Instant::from_ns(0));
        let mut arrivals = Vec::with_capacity(gaps.len() + 1);
        let none = (&Duration::ZERO, &Duration::ZERO);
        let pairs = std::iter::once(none).chain(gaps.send.iter().zip(&gaps.receive));
        for (index, (send, receive)) in pairs.enumerate() {
            (sent, received) = (sent + *send, received + *receive);
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            arrivals.push(Arrival { index, size: stream.packet, sent, received: Some(received) });
        }
        let intended = stream.intended.iter().skip(first).take(gaps.len()).copied().collect();
        Ok(StreamRecord { arrivals, intended, ..*stream })
    }
}

/// Quantiles in reports of errors, in percent.
pub const QUANTILES: [u32; 7] = [5, 10, 25, 50, 75, 90, 95];

/// How well an estimator did on a set of streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Streams with an answer.
    pub answered: usize,
    /// Streams without one, by the reason.
    pub refused: BTreeMap<Refusal, usize>,
    /// What the answers were.
    pub answers: Answers,
}

/// The answers of an estimator, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Answers {
    /// Rates.
    Rates {
        /// The median; `None` without answers.
        median: Option<Rate>,
        /// Relative errors of the answers to streams whose range of rates covers the truth, ascending;
        /// empty without the truth.
        errors: Vec<f64>,
    },
    /// Verdicts on rates.
    Verdicts {
        /// How many were `Above`, `NotAbove` and `Ambiguous`.
        counts: [usize; 3],
        /// Wrong ones among those that are not ambiguous and whose truth is known, and the number of these.
        wrong: (usize, usize),
    },
}

impl Score {
    /// Scores the answers of one estimator to `streams`.
    pub fn new(estimator: Estimator, streams: &[TableStream], answers: &[Answer]) -> Score {
        let mut refused = BTreeMap::new();
        for answer in answers {
            if let Answer::Refused(reason) = answer {
                *refused.entry(*reason).or_insert(0) += 1;
            }
        }
        Score {
            answered: answers.len() - refused.values().sum::<usize>(),
            refused,
            answers: match estimator {
                Estimator::MultiRate(_) => rates(streams, answers),
                Estimator::SingleRate(_) => verdicts(streams, answers),
            },
        }
    }
}

fn rates(streams: &[TableStream], answers: &[Answer]) -> Answers {
    let mut all = Vec::new();
    let mut errors = Vec::new();
    for (stream, answer) in streams.iter().zip(answers) {
        let Answer::Rate(estimate) = answer else { continue };
        all.push(estimate.rate);
        if let Some(free) = stream.free.filter(|free| covers(&stream.record, *free)) {
            errors.push(estimate.rate.bps_f64() / free.bps_f64() - 1.0);
        }
    }
    all.sort_unstable();
    errors.sort_by(f64::total_cmp);
    Answers::Rates { median: all.get(all.len() / 2).copied(), errors }
}

fn verdicts(streams: &[TableStream], answers: &[Answer]) -> Answers {
    let (mut counts, mut wrong) = ([0; 3], (0, 0));
    for (stream, answer) in streams.iter().zip(answers) {
        let Answer::Verdict(decision) = answer else { continue };
        counts[*decision as usize] += 1;
        if let Some(free) = stream.free.filter(|_| *decision != Decision::Ambiguous) {
            let above = stream.record.average > free;
            wrong.0 += usize::from(above != (*decision == Decision::Above));
            wrong.1 += 1;
        }
    }
    Answers::Verdicts { counts, wrong }
}

/// Returns the share of wrong verdicts of a method that always gives the same one, the better of the two;
/// `None` without the truth.
pub fn null_verdicts(streams: &[TableStream]) -> Option<f64> {
    let known = streams.iter().filter_map(|stream| Some(stream.record.average > stream.free?));
    let (count, above) = known.fold((0, 0), |(count, above), is| (count + 1, above + usize::from(is)));
    (count > 0).then(|| above.min(count - above) as f64 / count as f64)
}

/// The share of send gaps at either end of their distribution that does not count for the range of rates.
const OUTER: usize = 20;

/// Whether the rates of a stream lie on both sides of `rate`, or one of them equals it (rapid 2.16).
///
/// Without a schedule these are the rates of the actual send gaps, less the twentieth with the longest and
/// the one with the shortest, which may be mistakes of the sender.
pub(crate) fn covers(stream: &StreamRecord, rate: Rate) -> bool {
    let mut gaps = stream.intended.clone();
    if gaps.is_empty() {
        gaps.extend(stream.arrivals.windows(2).map(|pair| pair[1].sent - pair[0].sent));
        gaps.sort_unstable();
        let outer = gaps.len() / OUTER;
        gaps = gaps[outer..gaps.len() - outer].to_vec();
    }
    let of = |gap: Option<&Duration>| gap.and_then(|gap| Rate::of(stream.packet, *gap));
    let (fastest, slowest) = (of(gaps.iter().min()), of(gaps.iter().max()));
    rate > Rate::ZERO
        && slowest.is_some_and(|slowest| slowest <= rate)
        && fastest.is_none_or(|fastest| rate <= fastest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bound;
    use crate::stream::{Schedule, Shape};
    use headway_units::Bytes;
    use headway_units::statistics::closest;

    const PACKET: Bytes = Bytes::new(9038);

    /// A stream over a link of 10 Gb/s of which `available` (Mb/s) are left: gaps grow where it sends faster.
    /// With `event` above 1, the NIC holds this many packets back and delivers them together.
    fn stream(average: f64, available: f64, event: usize) -> TableStream {
        let shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
        let Schedule { packet, gaps, average } = Schedule::p_stream(shape, Rate::from_mbps(average), PACKET);
        let (mut sent, mut left) = (1_000_000u64, 0.0f64);
        let mut arrivals = Vec::new();
        for index in 0..=gaps.len() {
            // A fluid queue: in every gap, cross traffic and one packet arrive.
            if let Some(gap) = index.checked_sub(1).map(|index| gaps[index].ns()) {
                sent += gap as u64;
                let work = 9038.0 * 8.0 / 10.0 + gap as f64 * (1.0 - available / 10_000.0);
                left = (left + work - gap as f64).max(0.0);
            }
            arrivals.push((index, sent, sent + 50_000 + left as u64));
        }
        let last = arrivals.len() - 1;
        let held = |index: usize| {
            arrivals[((index / event + 1) * event - 1).min(last)].2 + 600 * (index % event) as u64
        };
        let arrival = |(index, sent, _): &(usize, u64, u64)| Arrival {
            index: *index as u32,
            size: packet,
            sent: Instant::from_ns(*sent),
            received: Some(Instant::from_ns(held(*index))),
        };
        let arrivals = arrivals.iter().map(arrival).collect();
        let record = StreamRecord { id: 0, packet, average, intended: gaps, arrivals };
        TableStream { record, free: Some(Rate::from_mbps(available)) }
    }

    fn estimator(name: &str) -> Estimator {
        name.parse().unwrap()
    }

    fn rate(answer: Answer) -> f64 {
        match answer {
            Answer::Rate(estimate) => estimate.rate.mbps(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_published_example_ends_at_the_rate_before_the_gaps_separate() {
        // rapid 2.11: sixteen gaps each at 5.7, 6.6, 7.6 and 8.7 Gb/s, which separate from packet 33 on.
        let mut record = stream(7_000.0, 7_550.0, 1).record;
        let (mut sent, mut received) = (Instant::from_ns(0), Instant::from_ns(0));
        for (index, arrival) in record.arrivals.iter_mut().enumerate() {
            if let Some(sample) = index.checked_sub(1) {
                let gap = Rate::from_mbps([5_700.0, 6_600.0, 7_600.0, 8_700.0][sample / 16]).time_for(PACKET);
                let longer = if sample >= 32 { Duration::from_us(1) } else { Duration::ZERO };
                (sent, received) = (sent + gap, received + gap + longer);
            }
            (arrival.sent, arrival.received) = (sent, Some(received));
        }
        let answer = Bench::new(Settings::default(), Denoising::None).answer(estimator("excursion"), &record);
        let Answer::Rate(estimate) = answer else { panic!("{answer:?}") };
        // A gap is a whole number of nanoseconds.
        assert!((estimate.rate.mbps() - 6_600.0).abs() < 1.0, "{estimate:?}");
        assert_eq!(estimate.bound, Bound::Within);
    }

    #[test]
    fn denoising_before_a_method_is_that_of_the_method_with_denoising() {
        let stream = stream(6_000.0, 6_000.0, 12).record;
        let run = |denoising, name: &str| {
            Bench::new(Settings::default(), denoising).answer(estimator(name), &stream)
        };
        assert_eq!(run(Denoising::Full, "excursion"), run(Denoising::None, "bass"));
        assert_eq!(run(Denoising::TwoPasses, "imr-avg"), run(Denoising::None, "bass-imr-avg"));
        assert_eq!(run(Denoising::OnePass, "prc-mt"), run(Denoising::None, "bass-prc-mt"));
        assert_ne!(run(Denoising::None, "excursion"), run(Denoising::None, "bass"));
    }

    #[test]
    fn errors_count_streams_that_cover_the_truth_beside_the_null_estimator() {
        let streams: Vec<TableStream> =
            (0..20).map(|index| stream(3_000.0 + 300.0 * f64::from(index), 6_000.0, 1)).collect();
        let mut bench = Bench::new(Settings::default(), Denoising::None);
        let mut errors = |name: &str| {
            let answers: Vec<Answer> =
                streams.iter().map(|stream| bench.answer(estimator(name), &stream.record)).collect();
            match Score::new(estimator(name), &streams, &answers).answers {
                Answers::Rates { errors, .. } => errors,
                other => panic!("{other:?}"),
            }
        };
        let (excursion, null) = (errors("excursion"), errors("null"));
        // Rates from 0.82 to 1.25 times the average: averages from 5.1 to 7.2 Gb/s.
        assert_eq!((excursion.len(), null.len()), (8, 8));
        let spread = |errors: &[f64]| closest(errors, 0.95).unwrap() - closest(errors, 0.05).unwrap();
        assert!(spread(&excursion) < spread(&null), "{excursion:?} {null:?}");
        assert!((null[0] - (5_100.0 / 6_000.0 - 1.0)).abs() < 1e-6, "{null:?}");
    }

    #[test]
    fn verdicts_are_wrong_where_the_truth_lies_on_the_other_side() {
        let one = |average: f64| {
            let mut one = stream(average, 6_000.0, 1);
            let gap = one.record.average.time_for(PACKET);
            for index in 0..one.record.arrivals.len() {
                // Above 6 Gb/s every gap grows by a tenth.
                let longer = if average > 6_000.0 { gap.scale(1.1) } else { gap };
                one.record.arrivals[index].sent = Instant::from_ns(0) + gap * index as i64;
                one.record.arrivals[index].received = Some(Instant::from_ns(0) + longer * index as i64);
            }
            one
        };
        let mut streams: Vec<TableStream> = [4_000.0, 5_000.0, 7_000.0].map(one).to_vec();
        let mut bench = Bench::new(Settings::default(), Denoising::None);
        let answers: Vec<Answer> =
            streams.iter().map(|stream| bench.answer(estimator("prc-mt"), &stream.record)).collect();
        let score = |streams: &[TableStream]| Score::new(estimator("prc-mt"), streams, &answers).answers;
        assert_eq!(score(&streams), Answers::Verdicts { counts: [1, 2, 0], wrong: (0, 3) });
        assert_eq!(null_verdicts(&streams), Some(1.0 / 3.0));
        streams[0].free = Some(Rate::from_mbps(3_000.0));
        streams[1].free = None;
        assert_eq!(score(&streams), Answers::Verdicts { counts: [1, 2, 0], wrong: (1, 2) });
    }

    #[test]
    fn streams_without_an_answer_count_by_the_reason() {
        let mut broken = stream(5_000.0, 6_000.0, 1);
        broken.record.arrivals[3].received = None;
        let streams = [stream(5_000.0, 6_000.0, 1), broken];
        let mut bench = Bench::new(Settings::default(), Denoising::Full);
        let answers: Vec<Answer> =
            streams.iter().map(|stream| bench.answer(estimator("excursion"), &stream.record)).collect();
        let score = Score::new(estimator("excursion"), &streams, &answers);
        assert_eq!((score.answered, &score.refused), (1, &BTreeMap::from([(Refusal::Lost, 1)])));
        assert!((rate(bench.answer(estimator("null"), &streams[1].record)) - 5_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_stream_covers_what_lies_between_its_rates() {
        let mut record = stream(5_000.0, 9_000.0, 1).record;
        let covered = |record: &StreamRecord| {
            [3_900.0, 4_200.0, 6_000.0, 6_300.0].map(|mbps| covers(record, Rate::from_mbps(mbps)))
        };
        assert_eq!(covered(&record), [false, true, true, false]);
        // Without the schedule, one gap that was much too long does not count.
        record.intended.clear();
        record.arrivals[0].sent = Instant::from_ns(0);
        assert_eq!(covered(&record), [false, true, true, false]);
        assert!(!covers(&record, Rate::ZERO));
    }
}
