//! How often times of any length were seen, in bounded memory.

use headway_units::Duration;

/// Base-2 logarithm of the number of bins in an octave: a bin is at most 1/16 wider than its lower end.
const FINE: u32 = 4;
/// Base-2 logarithm of the shortest time with a bin of its own, ns, and of the longest: 1 us and 275 s.
const FIRST: u32 = 10;
const LAST: u32 = 38;

/// A histogram of times with logarithmic bins, and their exact minimum. Quantiles are within 1/32.
///
/// It has memory for the bins between the shortest and the longest time only, at most 448.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of the first bin in `counts`.
    first: u16,
    counts: Vec<u32>,
    total: u64,
    least: Option<Duration>,
}

fn bin(time: Duration) -> u16 {
    let ns = time.ns().clamp(1 << FIRST, (1 << LAST) - 1) as u64;
    let octave = ns.ilog2();
    let within = (ns >> (octave - FINE)) as u32 & ((1 << FINE) - 1);
    (((octave - FIRST) << FINE) + within) as u16
}

/// Returns the middle of a bin.
fn middle(bin: u16) -> Duration {
    let (octave, within) = (u32::from(bin) >> FINE, u64::from(bin) & ((1 << FINE) - 1));
    let width = 1_u64 << (octave + FIRST - FINE);
    Duration::from_ns((((1 << FINE) + within) * width + width / 2) as i64)
}

impl Histogram {
    /// Adds a time.
    pub fn add(&mut self, time: Duration) {
        let bin = bin(time);
        let place = usize::from(bin.wrapping_sub(self.first));
        match self.counts.get_mut(place) {
            Some(count) => *count = count.saturating_add(1),
            None => self.extend(bin, 1),
        }
        self.total += 1;
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
    }

    /// Adds to a bin that may have no place yet.
    fn extend(&mut self, bin: u16, count: u32) {
        if self.counts.is_empty() {
            self.first = bin;
        }
        if bin < self.first {
            let more = usize::from(self.first - bin);
            self.counts.reserve_exact(more);
            self.counts.splice(..0, std::iter::repeat_n(0, more));
            self.first = bin;
        }
        let place = usize::from(bin - self.first);
        if place >= self.counts.len() {
            self.counts.reserve_exact(place + 1 - self.counts.len());
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(count);
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (bin, count) in (other.first..).zip(&other.counts).filter(|(_, count)| **count > 0) {
            self.extend(bin, *count);
        }
        self.total += other.total;
        self.least = self.least.into_iter().chain(other.least).min();
    }

    /// Returns the shortest time; `None` without times.
    pub const fn least(&self) -> Option<Duration> {
        self.least
    }

    /// Returns the time that a `share` of all, 0 to 1, do not exceed; `None` without times.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = ((self.total as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        let place = self.counts.iter().position(|count| {
            below += u64::from(*count);
            below >= rank
        })?;
        Some(middle(self.first + place as u16).max(self.least?))
    }

    /// Returns the bytes of memory in use.
    pub const fn memory(&self) -> usize {
        self.counts.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thirtysecond_at_any_length() {
        for scale in [1_500, 33_000, 1_000_000, 77_000_000] {
            let (mut all, mut late) = (Histogram::default(), Histogram::default());
            for k in (1..=1_000).rev() {
                let part = if k % 2 == 0 { &mut all } else { &mut late };
                part.add(Duration::from_ns(scale * k));
            }
            all.merge(&late);
            assert_eq!((all.total, all.least()), (1_000, Some(Duration::from_ns(scale))));
            for share in [0.05, 0.5, 0.95] {
                let found = all.quantile(share).map_or(0.0, |time| time.ns() as f64);
                let error = found / (scale as f64 * 1_000.0 * share) - 1.0;
                assert!(error.abs() < 1.0 / 32.0 + 1e-3, "{share} of {scale}: {error}");
            }
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn memory_is_bounded_and_extreme_times_are_counted() {
        let mut times = Histogram::default();
        for time in [1, 1 << 20, 1 << 50, -5, 0] {
            times.add(Duration::from_ns(time));
        }
        assert_eq!((times.total, times.counts.len()), (5, 448));
        assert_eq!(times.quantile(0.0), Some(middle(0)));
    }
}
