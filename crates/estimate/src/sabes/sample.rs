//! The samples of a window.

use std::collections::VecDeque;

use headway_units::{Duration, Instant};

/// The memory for samples that a window begins with: most connections are short.
const FIRST: usize = 8;

/// Parts of a window whose rates are compared.
const BLOCKS: usize = 8;

/// An ACK, or several that came in a batch, with the time since the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) at: Instant,
    pub(super) gap: Duration,
    /// Bytes on the wire that it acknowledges.
    pub(super) bytes: f64,
    /// How long the last segment that it acknowledges waited in queues, if known.
    pub(super) wait: Option<Duration>,
    /// Whether the path limited its transfer.
    pub(super) presses: bool,
    /// Whether it is of full segments only.
    pub(super) is_full: bool,
}

impl Step {
    /// Whether the queue cannot have become empty in its gap: without the queue, its last segment
    /// would have come before.
    pub(super) fn is_busy(&self) -> bool {
        self.wait.is_some_and(|wait| self.gap <= wait)
    }
}

/// A sample of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// Time since the previous ACK, ns.
    pub(super) gap: u32,
    pub(super) bytes: f32,
    /// Whether the queue of the tight link cannot have become empty in this time.
    pub(super) busy: bool,
    /// Whether the path limited its transfer.
    pub(super) presses: bool,
}

impl Sample {
    /// Returns the rate in bits per second; the gap must be positive.
    pub(super) fn rate(&self) -> f32 {
        self.bytes * 8e9 / self.gap as f32
    }
}

/// The latest samples.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    samples: VecDeque<Sample>,
    most: usize,
    sorted: Vec<f32>,
}

/// Sums over the samples of a window during which the queue of the tight link was never empty, and over all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Busy {
    pub(super) samples: usize,
    /// Seconds.
    pub(super) time: f64,
    /// Bits on the wire.
    pub(super) bits: f64,
    /// The standard error of `bits / time`, from the spread of the samples.
    pub(super) error: f64,
    /// Bits on the wire of all samples.
    pub(super) all_bits: f64,
}

impl Samples {
    pub(super) fn new(most: usize) -> Samples {
        Samples { samples: VecDeque::new(), most: most.max(1), sorted: Vec::new() }
    }

    pub(super) fn push(&mut self, sample: Sample) {
        if self.samples.len() == self.samples.capacity() && self.samples.len() < self.most {
            let more = self.samples.len().max(FIRST).min(self.most - self.samples.len());
            self.samples.reserve_exact(more);
        }
        if self.samples.len() >= self.most {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Forgets the samples before `from`.
    pub(super) fn forget_before(&mut self, from: Instant) {
        while self.samples.front().is_some_and(|sample| sample.at < from) {
            self.samples.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns when the oldest sample begins, if older ones may have been given up for lack of memory.
    pub(super) fn begin_if_full(&self) -> Option<Instant> {
        let first = self.samples.front().filter(|_| self.len() >= self.most)?;
        Some(first.at - Duration::from_ns(first.gap.into()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// Returns the bytes on the wire of all samples.
    pub(super) fn bytes(&self) -> f64 {
        self.samples.iter().map(|sample| f64::from(sample.bytes)).sum()
    }

    /// Returns the share of these bytes, 0 to 1, that passed while the path was the limit.
    pub(super) fn pressed(&self) -> f64 {
        let pressed = self.samples.iter().filter(|sample| sample.presses);
        pressed.map(|sample| f64::from(sample.bytes)).sum::<f64>() / self.bytes().max(1.0)
    }

    /// Returns the rates of the samples since `from` whose gap is at most `longest`, in ascending order.
    pub(super) fn rates(&mut self, from: Instant, longest: Duration) -> &[f32] {
        let longest = longest.ns().clamp(0, u32::MAX.into()) as u32;
        let counts = |sample: &&Sample| sample.at >= from && sample.gap > 0 && sample.gap <= longest;
        self.sorted.clear();
        self.sorted.extend(self.samples.iter().filter(counts).map(Sample::rate));
        self.sorted.sort_unstable_by(f32::total_cmp);
        &self.sorted
    }

    /// Returns what [`Samples::rates`] returned last.
    pub(super) fn sorted(&self) -> &[f32] {
        &self.sorted
    }

    /// Returns the sums over the samples during which the queue was never empty.
    pub(super) fn busy(&self) -> Busy {
        let mut blocks = [(0.0, 0.0); BLOCKS];
        let (mut samples, mut all_bits) = (0, 0.0);
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Busy { error: f64::INFINITY, ..Busy::default() };
        };
        let per_block = ((last.at - first.at).ns().unsigned_abs() / BLOCKS as u64) + 1;
        for sample in &self.samples {
            all_bits += f64::from(sample.bytes) * 8.0;
            if !sample.busy {
                continue;
            }
            let block = (sample.at - first.at).ns().unsigned_abs() / per_block;
            let (time, bits) = &mut blocks[(block as usize).min(BLOCKS - 1)];
            *time += f64::from(sample.gap) * 1e-9;
            *bits += f64::from(sample.bytes) * 8.0;
            samples += 1;
        }
        let (time, bits) = blocks.iter().fold((0.0, 0.0), |sum, block| (sum.0 + block.0, sum.1 + block.1));
        if time <= 0.0 {
            return Busy { error: f64::INFINITY, all_bits, ..Busy::default() };
        }
        // The variance of a ratio of sums, by linearisation. Samples depend on each other for as long as
        // cross traffic does, blocks less so.
        let rate = bits / time;
        let residuals: f64 = blocks.iter().map(|(time, bits)| (bits - rate * time).powi(2)).sum();
        Busy { samples, time, bits, error: residuals.sqrt() / time, all_bits }
    }

    pub(super) fn memory(&self) -> usize {
        self.samples.capacity() * size_of::<Sample>() + self.sorted.capacity() * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, us: u32, bytes: f32, busy: bool) -> Sample {
        Sample { at: Instant::from_ns(ms * 1_000_000), gap: us * 1_000, bytes, busy, presses: true }
    }

    #[test]
    fn a_window_includes_its_edges_and_leaves_out_long_gaps() {
        let mut samples = Samples::new(100);
        for (ms, us) in [(9, 800), (10, 400), (15, 100), (20, 200), (20, 0)] {
            samples.push(sample(ms, us, 1_000.0, false));
        }
        let from = Instant::from_ns(10_000_000);
        assert_eq!(samples.rates(from, Duration::from_us(300)), [4e7, 8e7]);
        assert_eq!(samples.rates(from, Duration::from_us(400)), [2e7, 4e7, 8e7]);
        samples.forget_before(from);
        assert_eq!(samples.len(), 4);
    }

    #[test]
    fn memory_grows_to_its_bound_and_the_latest_samples_stay() {
        let mut samples = Samples::new(100);
        (0..1_000).for_each(|ms| samples.push(sample(ms, 100, 1_000.0, false)));
        assert_eq!((samples.len(), samples.samples[0].at), (100, Instant::from_ns(900_000_000)));
        assert_eq!(samples.begin_if_full(), Some(Instant::from_ns(899_900_000)));
        assert_eq!(Samples::new(101).begin_if_full(), None);
        assert!(samples.memory() <= 100 * size_of::<Sample>());
    }

    #[test]
    fn only_busy_samples_are_summed_and_their_spread_is_the_error() {
        let mut samples = Samples::new(100);
        samples.push(sample(1, 1_000, 1_250.0, true));
        samples.push(sample(2, 500, 9_999.0, false));
        samples.push(sample(3, 1_000, 2_500.0, true));
        let busy = samples.busy();
        assert_eq!((busy.samples, (busy.bits / busy.time).round()), (2, 15e6));
        assert_eq!(busy.all_bits, 8.0 * (1_250.0 + 9_999.0 + 2_500.0));
        // Each sample is 5000 bits off in a sum of 2 ms.
        assert!((busy.error - 5_000.0 * 2f64.sqrt() / 0.002).abs() < 1.0, "{}", busy.error);
        assert_eq!(Samples::new(1).busy().error, f64::INFINITY);
    }
}
