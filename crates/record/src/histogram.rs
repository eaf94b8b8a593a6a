//! A fixed histogram of durations.

use headway_units::Duration;

/// Log2 of the bins per factor of two: quantiles are accurate to 1.6 %.
const BINS_PER_OCTAVE_LOG2: u32 = 5;
const BINS: usize = (64 - BINS_PER_OCTAVE_LOG2 as usize + 1) << BINS_PER_OCTAVE_LOG2;

/// A histogram of durations with bins 1/32 as wide as their values, and the exact sum, minimum and maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bins: Box<[u64; BINS]>,
    /// A day of 1e11 packets that each waited 0.2 s would overflow 64 bits.
    sum: u128,
    /// The shortest; `u64::MAX` when empty.
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { bins: Box::new([0; BINS]), sum: 0, min: u64::MAX, max: 0 }
    }
}

fn bin(ns: u64) -> usize {
    let octave = (ns | 1).ilog2().saturating_sub(BINS_PER_OCTAVE_LOG2);
    ((octave as usize) << BINS_PER_OCTAVE_LOG2) + (ns >> octave) as usize
}

/// Returns the middle of a bin.
fn middle(bin: usize) -> u64 {
    let octave = (bin >> BINS_PER_OCTAVE_LOG2).saturating_sub(1);
    let low = ((bin - (octave << BINS_PER_OCTAVE_LOG2)) as u64) << octave;
    low + ((1 << octave) >> 1)
}

/// Returns the longest duration of a bin.
fn top(bin: usize) -> u64 {
    let octave = (bin >> BINS_PER_OCTAVE_LOG2).saturating_sub(1);
    let low = ((bin - (octave << BINS_PER_OCTAVE_LOG2)) as u64) << octave;
    low + ((1 << octave) - 1)
}

impl Histogram {
    /// Builds a histogram from bins counted elsewhere, as pairs of bin index and count, and the sum and
    /// maximum of all durations in nanoseconds. Ignores bins that do not exist. The shortest duration counts
    /// as the longest of the first bin.
    pub fn from_bins(counts: &[(usize, u64)], sum: u64, max: u64) -> Histogram {
        let mut histogram = Histogram { sum: sum.into(), max, ..Histogram::default() };
        for &(bin, count) in counts {
            if let Some(place) = histogram.bins.get_mut(bin) {
                *place += count;
            }
        }
        let first = histogram.bins.iter().position(|count| *count > 0);
        histogram.min = first.map_or(u64::MAX, |bin| top(bin).min(max));
        histogram
    }

    /// Adds a duration in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        self.bins[bin(ns)] += 1;
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds `count` durations, at least one, that lie between `least` and `most` and whose sum exceeds
    /// `count` times `least` by `beyond`, if all share a bin; returns whether they do.
    pub fn add_all(&mut self, least: u64, most: u64, count: u64, beyond: u64) -> bool {
        let bin = bin(least);
        if bin != self::bin(most) {
            return false;
        }
        self.bins[bin] += count;
        self.sum += u128::from(least * count + beyond);
        self.min = self.min.min(least);
        self.max = self.max.max(most);
        true
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.bins.iter_mut().zip(other.bins.iter()).for_each(|(bin, count)| *bin += count);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the duration that stands for a bin: its middle, but never one shorter or
    /// longer than all durations.
    fn value(&self, bin: usize) -> Duration {
        Duration::from_ns(middle(bin).max(self.min).min(self.max) as i64)
    }

    /// Returns how many durations are at most as long as which: one pair per bin that is not empty,
    /// ascending. The lengths are exact to 1.6 %.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.scan(0, |seen, (bin, count)| {
            *seen += count;
            Some((self.value(bin), *seen))
        })
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Returns the exact mean; zero when empty.
    pub fn mean(&self) -> Duration {
        Duration::from_ns(self.sum.checked_div(self.count().into()).unwrap_or(0) as i64)
    }

    /// Returns the standard deviation, within 2 %; zero when empty.
    pub fn deviation(&self) -> Duration {
        let count = self.count().max(1) as f64;
        let mean = self.sum as f64 / count;
        let square = |(bin, count): (usize, &u64)| *count as f64 * (middle(bin) as f64 - mean).powi(2);
        let sum: f64 = self.bins.iter().enumerate().map(square).sum();
        Duration::from_ns((sum / count).sqrt() as i64)
    }

    /// Returns the largest duration.
    pub fn max(&self) -> Duration {
        Duration::from_ns(self.max as i64)
    }

    /// Returns the quantile `part` (0 to 1), within 1.6 % and neither below the shortest nor above the
    /// longest duration; zero when empty.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = (self.count() as f64 * part) as u64;
        let mut seen = 0;
        for (index, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen > rank {
                return self.value(index);
            }
        }
        self.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bin() {
        let mut histogram = Histogram::default();
        for ns in 0..1_000_000 {
            histogram.add(ns);
        }
        for part in [0.01, 0.5, 0.9, 0.99] {
            let quantile = histogram.quantile(part).ns() as f64;
            assert!((quantile / (part * 1e6) - 1.0).abs() < 0.02, "{part}: {quantile}");
        }
        assert_eq!(histogram.mean().ns(), 499_999);
        assert_eq!(histogram.max().ns(), 999_999);
    }

    #[test]
    fn no_quantile_lies_outside_of_what_was_seen() {
        // 1020 and 1023 share the bin from 1008 to 1023, whose middle is below both.
        for samples in [&[1020, 1023][..], &[1001], &[5_000_001, 5_000_002, 5_090_000], &[1, 1 << 40]] {
            let mut histogram = Histogram::default();
            samples.iter().for_each(|ns| histogram.add(*ns));
            let (least, most) = (samples[0], samples[samples.len() - 1]);
            for part in [0.0, 0.01, 0.5, 0.99, 1.0] {
                let quantile = histogram.quantile(part).ns() as u64;
                assert!((least..=most).contains(&quantile), "{part} of {samples:?}: {quantile}");
            }
            let bins: Vec<(usize, u64)> = samples.iter().map(|ns| (bin(*ns), 1)).collect();
            let counted = Histogram::from_bins(&bins, samples.iter().sum(), most);
            let median = counted.quantile(0.5).ns() as u64;
            assert!((least..=most).contains(&median), "{samples:?}: {median}");
        }
    }

    #[test]
    fn a_merged_histogram_is_that_of_all_durations() {
        let of = |values: &[u64]| {
            let mut histogram = Histogram::default();
            values.iter().for_each(|ns| histogram.add(*ns));
            histogram
        };
        let mut merged = of(&[1, 70, 1 << 40]);
        merged.merge(&of(&[70, 1 << 50]));
        assert_eq!(merged, of(&[1, 70, 70, 1 << 40, 1 << 50]));
    }

    #[test]
    fn the_mean_survives_a_sum_of_more_than_64_bits() {
        let mut histogram = Histogram::from_bins(&[(bin(1 << 40), 1 << 24)], u64::MAX, 1 << 40);
        (0..1_u64 << 16).for_each(|_| histogram.add(1 << 40));
        let expected = (u128::from(u64::MAX) + (1 << 56)) / ((1 << 24) + (1 << 16));
        assert_eq!(histogram.mean().ns() as u128, expected);
    }

    #[test]
    fn every_duration_has_a_bin_that_contains_it() {
        for ns in [0, 1, 31, 32, 33, 63, 64, 65, 1_000, 1 << 40, u64::MAX] {
            let middle = middle(bin(ns));
            assert!(middle.abs_diff(ns) <= ns / 32, "{ns} in the bin around {middle}");
        }
    }
}
