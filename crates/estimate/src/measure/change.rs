//! Detection of changes in the available bandwidth during a measurement, and its average over time.
//!
//! Streams sample the available bandwidth at different times. Splitting the measurement into up to four parts
//! with a level each fits the samples better than a single level does; the gain grows with the size of the
//! steps and the number of samples per level. A further level must make the samples far more likely, so that
//! bursts do not pass for changes. The average weights the level of each part by its duration.

use std::ops::Range;

use crate::agreement::Agreement;
use crate::belief::{CELLS, summaries};
use crate::response::Sample;
use headway_units::{Instant, Rate};

use super::mixture::{Readings, Spread};
use super::response::{RESPONSE, end_bias};

/// Minimum number of samples in a level.
const MIN_SAMPLES: usize = 2;
/// Maximum number of levels.
const MAX_LEVELS: usize = 4;
/// Increase in log likelihood that each further level requires.
const PENALTY: f64 = 8.0;
/// Maximum number of checkpoints at which a change is considered; with more streams, some
/// checkpoints are dropped.
const MAX_CHECKPOINTS: usize = 48;
/// Smallest and largest spread of a sample of [`REFERENCE`] seconds around its level, as a fraction of
/// capacity; it shrinks with the square root of the duration.
const SPREADS: (f64, f64) = (0.002, 2.0);
const SPREAD_POINTS: usize = 24;
const REFERENCE: f64 = 10e-3;
/// The part of the spread that does not shrink.
const NOISE: f64 = 0.01;

/// The available bandwidth before and after a change, or before the first and after the last of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first level.
    pub before: Rate,
    /// The last level.
    pub after: Rate,
}

/// The contribution of one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamSample {
    /// The middle of its time.
    pub(super) at: Instant,
    /// The rate at which it was sent.
    pub(super) rate: Rate,
    /// The available bandwidth while there was a queue.
    pub(super) sample: Option<Sample>,
    /// The available bandwidth during the whole stream, or a lower bound.
    pub(super) whole: Option<Sample>,
}

impl StreamSample {
    /// Returns the sample that tells the level, where all samples have this mean.
    ///
    /// A stream above the mean that met no queue, or hardly any, is one of its rate: after a step up,
    /// there are no others.
    fn level(&self, mean: f64) -> Option<Sample> {
        let quiet = self.whole.filter(|whole| whole.censored && whole.available_bps > mean && mean > 0.0);
        quiet.or(self.sample.filter(|sample| !sample.censored))
    }
}

/// Parameters shared by all parts.
pub(super) struct Context<'a> {
    /// From the first stream to the end.
    pub(super) time: Range<Instant>,
    /// Capacity of the narrow link.
    pub(super) capacity: Rate,
    /// Error common to all streams, as a fraction of the capacity.
    pub(super) error: f64,
    /// The posterior for a single queue, unless it is unreliable.
    pub(super) busy: Option<&'a Readings>,
}

/// A detected change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) change: Change,
    /// The average over the duration of the measurement.
    pub(super) average: Spread,
    /// Probability that only one queue matters.
    pub(super) one_queue: f64,
}

/// Collects the contributions of streams and looks for changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    streams: Vec<StreamSample>,
    checkpoints: Vec<Checkpoint>,
}

/// A point in time between two streams.
#[derive(Clone, Debug)]
struct Checkpoint {
    /// Number of streams before it.
    streams: usize,
    /// Log likelihood of these streams over the grid of the belief.
    ln_likelihood: Vec<f32>,
}

impl Changes {
    pub(super) fn clear(&mut self) {
        self.streams.clear();
        self.checkpoints.clear();
    }

    /// Adds a stream; `ln_likelihood` is the log likelihood of all streams so far, from the belief.
    pub(super) fn add(&mut self, stream: StreamSample, ln_likelihood: &[f64]) {
        self.streams.push(stream);
        let ln_likelihood = ln_likelihood.iter().map(|value| *value as f32).collect();
        self.checkpoints.push(Checkpoint { streams: self.streams.len(), ln_likelihood });
        if self.checkpoints.len() > MAX_CHECKPOINTS {
            let mut left = self.checkpoints.len();
            self.checkpoints.retain(|_| {
                left -= 1;
                left.is_multiple_of(2)
            });
        }
    }

    /// Returns the change, if there was one.
    pub(super) fn find(&self, context: &Context<'_>) -> Option<Found> {
        context.busy?;
        let parts = self.parts(context.capacity);
        if parts.len() < 2 {
            return None;
        }
        let (levels, one_queue) = self.levels(&parts, context);
        // With several queues, the samples follow the rates at which they were taken.
        if one_queue < RESPONSE.unlikely {
            return None;
        }
        let change = Change { before: levels.first()?.median, after: levels.last()?.median };
        Some(Found { change, average: self.average(&parts, &levels, &context.time)?, one_queue })
    }

    /// Returns the parts, as ranges of checkpoints, that fit the samples best; a single
    /// part if nothing changed.
    fn parts(&self, capacity: Rate) -> Vec<Range<usize>> {
        let mut best: [(f64, Vec<usize>); MAX_LEVELS] = Default::default();
        best.iter_mut().for_each(|(fit, _)| *fit = f64::NEG_INFINITY);
        let mean = self.mean();
        for point in 0..SPREAD_POINTS {
            let (low, high) = SPREADS;
            let spread = low * (high / low).powf(point as f64 / (SPREAD_POINTS - 1) as f64);
            let divided = divide(&self.sums(spread, mean, capacity));
            for (best, divided) in best.iter_mut().zip(divided) {
                if divided.0 > best.0 {
                    *best = divided;
                }
            }
        }
        let worth = |(level, (fit, _)): (usize, &(f64, Vec<usize>))| fit - PENALTY * level as f64;
        let likeliest = best.iter().enumerate().max_by(|a, b| worth(*a).total_cmp(&worth(*b)));
        let cuts = likeliest.filter(|(_, (fit, _))| fit.is_finite()).map_or(&[][..], |(_, (_, cuts))| cuts);
        let ends = cuts.iter().copied().chain([self.checkpoints.len()]);
        std::iter::once(0).chain(cuts.iter().copied()).zip(ends).map(|(from, to)| from..to).collect()
    }

    /// Returns the mean of all samples in bit/s, weighted by their durations; zero without any.
    fn mean(&self) -> f64 {
        let samples = self.streams.iter().filter_map(|stream| stream.sample);
        let (mut sum, mut time) = (0.0, 0.0);
        for sample in samples.filter(|sample| !sample.censored) {
            sum += sample.available_bps * sample.duration.secs_f64();
            time += sample.duration.secs_f64();
        }
        if time > 0.0 { sum / time } else { 0.0 }
    }

    /// Returns the sums over the samples before any stream and before every checkpoint.
    ///
    /// A sample that lasts for a packet or two, where the sender was late with one, is corrected by as much
    /// as a small change: the correction counts as its error, so that such samples do not pass for a level.
    fn sums(&self, spread: f64, mean: f64, capacity: Rate) -> Vec<Sums> {
        let mut sums = vec![Sums::default()];
        let mut before = 0;
        for checkpoint in &self.checkpoints {
            let mut sum = sums[sums.len() - 1];
            let samples =
                self.streams[before..checkpoint.streams].iter().filter_map(|stream| stream.level(mean));
            samples.for_each(|sample| {
                let seconds = sample.duration.secs_f64().max(1e-9);
                let bias = end_bias(capacity, sample.duration);
                sum.add(
                    sample.available_bps / capacity.bps_f64(),
                    spread * spread * REFERENCE / seconds + NOISE * NOISE + bias * bias,
                );
            });
            sums.push(sum);
            before = checkpoint.streams;
        }
        sums
    }

    /// Returns the streams between two checkpoints.
    fn streams_in(&self, part: &Range<usize>) -> &[StreamSample] {
        let streams =
            |checkpoint: usize| checkpoint.checked_sub(1).map_or(0, |index| self.checkpoints[index].streams);
        &self.streams[streams(part.start)..streams(part.end)]
    }

    /// Returns the available bandwidth in each part, and the probability of a single queue.
    fn levels(&self, parts: &[Range<usize>], context: &Context<'_>) -> (Vec<Spread>, f64) {
        let none = vec![0.0; CELLS];
        let until = |checkpoint: usize| {
            checkpoint.checked_sub(1).map_or(none.as_slice(), |index| &self.checkpoints[index].ln_likelihood)
        };
        let of_part = |part: &Range<usize>| -> Vec<f64> {
            let pairs = until(part.end).iter().zip(until(part.start));
            pairs.map(|(end, start)| f64::from(*end) - f64::from(*start)).collect()
        };
        let likelihoods: Vec<Vec<f64>> = parts.iter().map(of_part).collect();
        let likelihoods: Vec<&[f64]> = likelihoods.iter().map(Vec::as_slice).collect();
        let odds = self.agreement(parts, context.capacity.bps_f64()).odds();
        let summaries = summaries(&likelihoods, odds);
        let level = |(part, summary)| {
            let density = context.busy.map(|readings| {
                let mut readings = readings.emptied();
                for stream in self.streams_in(part) {
                    stream.sample.iter().for_each(|sample| readings.busy.add(sample));
                    stream.whole.iter().for_each(|sample| readings.whole.add(sample));
                }
                readings.density()
            });
            Spread::of(density.as_ref(), summary, context.capacity, context.error)
        };
        let one_queue = summaries.first().map_or(1.0, |summary| summary.one_queue);
        (parts.iter().zip(&summaries).map(level).collect(), one_queue)
    }

    /// Returns how well the samples within each part agree.
    fn agreement(&self, parts: &[Range<usize>], capacity: f64) -> Agreement {
        let mut agreement = Agreement::default();
        for part in parts {
            let known = |stream: &StreamSample| {
                let sample = stream.sample.filter(|sample| !sample.censored)?;
                let (rate, free) = (stream.rate.bps_f64() / capacity, sample.available_bps / capacity);
                Some((rate, free, sample.duration.secs_f64()))
            };
            let samples = || self.streams_in(part).iter().filter_map(known);
            let (mut rates, mut free, mut time) = (0.0, 0.0, 1e-12);
            for (rate, sample, weight) in samples() {
                rates += weight * rate;
                free += weight * sample;
                time += weight;
            }
            samples().for_each(|(rate, sample, weight)| {
                agreement.add(rate - rates / time, sample - free / time, weight)
            });
        }
        agreement
    }

    /// Returns the average of the levels over time.
    ///
    /// A level begins at an unknown time between the last stream of the previous level and its own first one.
    fn average(&self, parts: &[Range<usize>], levels: &[Spread], time: &Range<Instant>) -> Option<Spread> {
        let whole = (time.end - time.start).secs_f64().max(1e-9);
        let step = |pair: &[Spread]| pair[1].median.bps_f64() - pair[0].median.bps_f64();
        let mut shares = vec![0.0; levels.len()];
        let mut errors = Vec::new();
        let mut from = time.start;
        for (index, pair) in levels.windows(2).enumerate() {
            let (last, first) =
                (self.streams_in(&parts[index]).last()?.at, self.streams_in(&parts[index + 1]).first()?.at);
            let until = last + (first - last) / 2;
            errors.push(step(pair) * (first - last).secs_f64() / 2.0 / whole);
            shares[index] = (until - from).secs_f64() / whole;
            from = until;
        }
        *shares.last_mut()? = (time.end - from).secs_f64() / whole;
        Some(Spread::average(levels, &shares, &errors))
    }
}

/// Sums over normally distributed samples.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: usize,
    weight: f64,
    values: f64,
    squares: f64,
    ln_variance: f64,
}

impl Sums {
    fn add(&mut self, value: f64, variance: f64) {
        self.count += 1;
        self.weight += 1.0 / variance;
        self.values += value / variance;
        self.squares += value * value / variance;
        self.ln_variance += variance.ln();
    }

    /// Returns the log likelihood at their mean of the samples since `before`; negative infinity
    /// for too few samples.
    fn fit(&self, before: &Sums) -> f64 {
        if self.count < before.count + MIN_SAMPLES {
            return f64::NEG_INFINITY;
        }
        let (weight, values) = (self.weight - before.weight, self.values - before.values);
        let squares = self.squares - before.squares - values * values / weight;
        -0.5 * (squares + self.ln_variance - before.ln_variance)
    }
}

/// Returns the fit of the best partition for one level, two and so on, with the checkpoints
/// that separate its parts.
fn divide(sums: &[Sums]) -> [(f64, Vec<usize>); MAX_LEVELS] {
    let one: Vec<(f64, usize)> = sums.iter().map(|sum| (sum.fit(&sums[0]), 0)).collect();
    let mut best = vec![one];
    for level in 1..MAX_LEVELS {
        let before = &best[level - 1];
        let until = |to: usize| {
            let fits = (1..to).map(|cut| (before[cut].0 + sums[to].fit(&sums[cut]), cut));
            fits.fold((f64::NEG_INFINITY, 0), |best, fit| if fit.0 > best.0 { fit } else { best })
        };
        let next = (0..sums.len()).map(until).collect();
        best.push(next);
    }
    std::array::from_fn(|level| {
        let mut at = sums.len() - 1;
        let fit = best[level][at].0;
        let mut cuts: Vec<usize> = (1..=level)
            .rev()
            .map(|level| {
                at = best[level][at].1;
                at
            })
            .collect();
        cuts.reverse();
        (fit, cuts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Duration;

    const CAPACITY: Rate = Rate::from_bps(100_000_000);

    /// Returns streams 50 ms apart that saw these rates for 10 ms each, in Mb/s.
    fn seen(mbps: &[f64]) -> Changes {
        seen_for(mbps.iter().map(|mbps| (*mbps, Duration::from_ms(10))))
    }

    /// Returns the same for other lengths of time.
    fn seen_for(samples: impl Iterator<Item = (f64, Duration)>) -> Changes {
        let mut changes = Changes::default();
        for (number, (mbps, duration)) in (1..).zip(samples) {
            let sample = Sample { available_bps: mbps * 1e6, duration, censored: false };
            let at = Instant::ZERO + Duration::from_ms(50) * number;
            let sample = (mbps > 0.0).then_some(sample);
            let stream = StreamSample { at, rate: CAPACITY, sample, whole: sample };
            changes.add(stream, &vec![0.0; CELLS]);
        }
        changes
    }

    /// Returns the number of streams before the end of each part.
    fn ends(mbps: &[f64]) -> Vec<usize> {
        seen(mbps).parts(CAPACITY).iter().map(|part| part.end).collect()
    }

    #[test]
    fn a_step_divides_the_streams_where_it_was() {
        assert_eq!(ends(&[60.0, 61.0, 59.0, 60.0, 61.0, 30.0, 31.0, 29.0, 30.0, 31.0]), [5, 10]);
        assert_eq!(ends(&[30.0, 31.0, 29.0, 30.0, 29.0, 30.0, 31.0, 60.0, 61.0]), [7, 9]);
    }

    #[test]
    fn a_load_that_comes_and_goes_makes_three_parts() {
        let mbps = [70.0, 71.0, 70.0, 70.0, 40.0, 41.0, 39.0, 40.0, 71.0, 70.0, 69.0, 70.0];
        assert_eq!(ends(&mbps), [4, 8, 12]);
    }

    #[test]
    fn noise_and_a_single_outlier_are_no_change() {
        assert_eq!(ends(&[60.0, 40.0, 55.0, 45.0, 62.0, 38.0, 50.0, 57.0, 43.0, 52.0]), [10]);
        assert_eq!(ends(&[60.0, 61.0, 59.0, 60.0, 61.0, 30.0, 60.0, 59.0, 60.0, 61.0]), [10]);
        assert_eq!(ends(&[60.0, 61.0, 59.0, 60.0, 61.0, 60.0, 59.0, 60.0, 61.0, 30.0]), [10]);
    }

    #[test]
    fn samples_of_a_packet_or_two_at_a_late_sender_are_no_change() {
        // On an empty path, the correction for a short sample takes 5 Mb/s off, that for a long
        // one hardly anything.
        let late = [(95.0, Duration::from_us(20)); 4];
        let full = [(99.7, Duration::from_ms(10)); 6];
        assert_eq!(seen_for(late.into_iter().chain(full)).parts(CAPACITY).len(), 1);
        let step = [(95.0, Duration::from_ms(10)); 4];
        assert_eq!(seen_for(step.into_iter().chain(full)).parts(CAPACITY).len(), 2);
    }

    #[test]
    fn streams_without_a_sample_say_nothing_and_none_at_all_is_no_change() {
        let mbps = [60.0, 0.0, 61.0, 59.0, 60.0, 0.0, 61.0, 30.0, 31.0, 0.0, 29.0, 30.0];
        let found = ends(&mbps);
        assert!(found.len() == 2 && (6..=7).contains(&found[0]), "{found:?}");
        assert_eq!(ends(&[0.0; 6]), [6]);
        assert_eq!(ends(&[]), [0]);
    }

    #[test]
    fn streams_that_meet_no_queue_show_a_step_up() {
        let mut changes = seen(&[30.0, 31.0, 29.0, 30.0, 31.0]);
        for number in 6..12 {
            let whole = Sample { available_bps: 55e6, duration: Duration::from_ms(10), censored: true };
            let at = Instant::ZERO + Duration::from_ms(50) * number;
            let stream = StreamSample { at, rate: Rate::from_mbps(55.0), sample: None, whole: Some(whole) };
            changes.add(stream, &vec![0.0; CELLS]);
        }
        assert_eq!(changes.parts(CAPACITY).iter().map(|part| part.end).collect::<Vec<_>>(), [5, 11]);
    }

    #[test]
    fn many_streams_keep_a_bounded_number_of_moments() {
        let mbps: Vec<f64> = (0..300).map(|number| if number < 200 { 60.0 } else { 30.0 }).collect();
        let changes = seen(&mbps);
        assert!(changes.checkpoints.len() <= MAX_CHECKPOINTS, "{}", changes.checkpoints.len());
        let parts = changes.parts(CAPACITY);
        assert_eq!(parts.len(), 2);
        assert!(
            changes.streams_in(&parts[0]).len().abs_diff(200) <= 8,
            "{}",
            changes.streams_in(&parts[0]).len()
        );
    }

    #[test]
    fn levels_are_weighed_by_the_time_they_lasted() {
        let changes = seen(&[60.0, 60.0, 60.0, 60.0, 30.0, 30.0, 30.0, 30.0, 30.0, 30.0]);
        let level = |mbps| {
            let rate = Rate::from_mbps(mbps);
            Spread { median: rate, intervals: [(rate, rate); 4] }
        };
        let levels = [level(60.0), level(30.0)];
        // The streams are in the middle of 50 ms each; the change is 225 ms after the
        // start, give or take 25 ms.
        let begin = Instant::ZERO + Duration::from_ms(50);
        let time = begin..Instant::ZERO + Duration::from_ms(500);
        let average = changes.average(&[0..4, 4..10], &levels, &time).expect("levels");
        let expected = 30.0 + 30.0 * 175.0 / 450.0;
        assert!((average.median.mbps() - expected).abs() < 1e-3, "{average:?}");
        let half = 0.9 * 30.0 * 25.0 / 450.0;
        let (low, high) = average.interval_90();
        assert!((low.mbps() - (expected - half)).abs() < 1e-3, "{average:?}");
        assert!((high.mbps() - (expected + half)).abs() < 1e-3, "{average:?}");
    }
}
