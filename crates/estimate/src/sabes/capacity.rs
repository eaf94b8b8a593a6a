//! Phase 1: the capacity of the narrow link from the rates of consecutive ACKs (wan 2.9).

use super::sample::Step;
use super::settings::{Form, Settings};
use headway_units::{Duration, Rate};

/// Bins of a histogram, between the smallest and the largest sample.
const BINS: usize = 10;
/// Share of samples above which a bin is the capacity by itself (beta).
const STRONG: f64 = 0.3;
/// Samples per train whose rate is the asymptotic dispersion rate.
const TRAIN: usize = 4;
/// The constant of Eq. 6.2 in square seconds, which gives 10 samples at 140 ms (wan 2.9).
const EPSILON: f64 = 3.27e-5;
/// The fewest and the most samples of an estimate.
const FEWEST: usize = 10;
const MOST: usize = 512;
/// The memory for samples that a transfer begins with.
const FIRST: usize = 8;

/// Returns the number of samples for an estimate (alpha, Eq. 6.2).
pub(super) fn samples_needed(nic: Rate, mss: u32, rtt: Duration) -> usize {
    let bytes_per_second = nic.bps_f64() / 8.0;
    let samples = bytes_per_second / (2.0 * f64::from(mss.max(1)) * rtt.secs_f64().max(1e-6)) * EPSILON;
    (samples.round() as usize).clamp(FEWEST, MOST)
}

/// A histogram of ascending values.
struct Histogram<'a> {
    sorted: &'a [f32],
    /// The end of each bin in `sorted`.
    ends: [usize; BINS],
}

impl<'a> Histogram<'a> {
    fn new(sorted: &'a [f32]) -> Histogram<'a> {
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        let width = (high - low) / BINS as f32;
        let mut ends = [sorted.len(); BINS];
        for (bin, end) in ends[..BINS - 1].iter_mut().enumerate() {
            let edge = low + width * (bin + 1) as f32;
            *end = sorted.partition_point(|value| *value < edge);
        }
        // Equal samples all belong to the first bin.
        if width <= 0.0 {
            ends = [sorted.len(); BINS];
        }
        Histogram { sorted, ends }
    }

    fn bin(&self, bin: usize) -> &'a [f32] {
        let from = if bin == 0 { 0 } else { self.ends[bin - 1] };
        &self.sorted[from..self.ends[bin]]
    }

    fn count(&self, bin: usize) -> usize {
        self.bin(bin).len()
    }

    /// Returns the median of a bin that is not empty.
    fn value(&self, bin: usize) -> f32 {
        let values = self.bin(bin);
        (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
    }

    /// Returns the fullest bin, of several the highest one.
    fn fullest(&self) -> usize {
        (0..BINS).max_by_key(|bin| self.count(*bin)).unwrap_or(0)
    }

    /// Whether a bin has more samples than both its neighbours.
    fn is_mode(&self, bin: usize) -> bool {
        let count = self.count(bin);
        let beside = |other: Option<usize>| other.filter(|bin| *bin < BINS).map_or(0, |bin| self.count(bin));
        count > beside(bin.checked_sub(1)) && count > beside(Some(bin + 1))
    }

    fn is_strong(&self, bin: usize) -> bool {
        self.count(bin) as f64 > STRONG * self.sorted.len() as f64
    }
}

/// The result of phase 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) rate: f32,
    /// Whether one bin held most samples.
    pub(super) is_strong: bool,
}

/// Returns the capacity from the rates of pairs and of trains, both ascending and not empty.
pub(super) fn capacity(pairs: &[f32], trains: &[f32], form: Form) -> Found {
    let pairs = Histogram::new(pairs);
    let strong = match form {
        Form::Literal => Some(pairs.fullest()).filter(|bin| pairs.is_strong(*bin)),
        // With many transfers the fullest bin may be the lowest one (wan 2.9).
        Form::Guarded => (0..BINS).rev().find(|bin| pairs.is_strong(*bin)),
    };
    let dispersion = || {
        let trains = Histogram::new(trains);
        trains.value(trains.fullest())
    };
    let rate = match strong {
        Some(bin) => pairs.value(bin),
        None => {
            let least = dispersion();
            let above = (0..BINS).find(|bin| pairs.is_mode(*bin) && pairs.value(*bin) > least);
            let highest = (0..BINS).rev().find(|bin| pairs.count(*bin) > 0);
            pairs.value(above.or(highest).unwrap_or(0))
        }
    };
    let rate = if form == Form::Guarded { rate.max(dispersion()) } else { rate };
    Found { rate, is_strong: strong.is_some() }
}

/// What phase 1 must know about a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// Payload of a full segment.
    pub(super) mss: u32,
    /// The RTT of the handshake; not needed once samples are collected.
    pub(super) rtt: Option<Duration>,
    /// The longest gap of a sample.
    pub(super) longest_gap: Duration,
    /// Whether a sample holds whole flights with the pauses between them: those of batches that stamps come in, while the
    /// application or the receive window limits the transfer.
    pub(super) has_pauses: bool,
}

/// Collects samples until phase 1 can be carried out. The guarded form repeats it with further samples.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    form: Form,
    nic: Rate,
    /// Time in seconds and bits of each sample.
    samples: Vec<(f32, f32)>,
    pairs: Vec<f32>,
    trains: Vec<f32>,
    needed: usize,
    is_over: bool,
    capacity: Option<Rate>,
}

impl Phase {
    pub(super) fn new(settings: &Settings) -> Phase {
        Phase {
            form: settings.form,
            nic: settings.nic,
            samples: Vec::new(),
            pairs: Vec::new(),
            trains: Vec::new(),
            needed: 0,
            is_over: false,
            capacity: None,
        }
    }

    pub(super) fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// Whether it is known how many samples are needed.
    pub(super) fn has_begun(&self) -> bool {
        self.needed > 0
    }

    /// Takes the capacity found by another transfer.
    pub(super) fn share(&mut self, capacity: Rate) {
        self.capacity = self.capacity.max(Some(capacity));
    }

    /// Takes a step whose gap is positive.
    pub(super) fn add(&mut self, step: &Step, first: &First) {
        if self.is_over || first.has_pauses || step.gap > first.longest_gap {
            return;
        }
        if self.needed == 0 {
            let Some(rtt) = first.rtt else { return };
            self.needed = samples_needed(self.nic, first.mss, rtt);
        }
        self.reserve();
        self.samples.push((step.gap.secs_f64() as f32, (step.bytes * 8.0) as f32));
        if self.samples.len() < self.needed {
            return;
        }
        let found = self.estimate();
        let rate = Rate::from_bps_f64(found.rate.into()).min(self.nic);
        // Of later results only clear ones count.
        if found.is_strong || self.capacity.is_none() {
            self.share(rate);
        }
        self.samples.clear();
        self.is_over = self.form == Form::Literal;
    }

    /// Makes room for a sample: for a few at first, because most connections are short, and then for all.
    fn reserve(&mut self) {
        let (len, most) = (self.samples.len(), self.samples.capacity());
        if len == most {
            self.samples.reserve_exact(if most == 0 { FIRST.min(self.needed) } else { self.needed - len });
        }
    }

    fn estimate(&mut self) -> Found {
        let rate = |samples: &[(f32, f32)]| {
            let (seconds, bits) = samples.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            bits / seconds
        };
        self.pairs.clear();
        self.pairs.extend(self.samples.iter().map(|(seconds, bits)| bits / seconds));
        self.trains.clear();
        self.trains.extend(self.samples.windows(TRAIN).map(rate));
        self.pairs.sort_unstable_by(f32::total_cmp);
        self.trains.sort_unstable_by(f32::total_cmp);
        capacity(&self.pairs, &self.trains, self.form)
    }

    pub(super) fn memory(&self) -> usize {
        self.samples.capacity() * size_of::<(f32, f32)>()
            + (self.pairs.capacity() + self.trains.capacity()) * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Instant;

    #[test]
    fn alpha_follows_the_rtt() {
        let samples = |ms| samples_needed(Rate::from_mbps(1000.0), 1460, Duration::from_ms(ms));
        assert_eq!([20, 60, 100, 140].map(samples), [70, 23, 14, 10]);
        assert_eq!((samples(2_000), samples(0)), (10, 512));
    }

    #[test]
    fn a_strong_mode_is_the_capacity() {
        let mut pairs = vec![97.0; 6];
        pairs.extend([10.0, 30.0, 50.0, 70.0]);
        pairs.sort_unstable_by(f32::total_cmp);
        for form in [Form::Literal, Form::Guarded] {
            assert_eq!(capacity(&pairs, &[40.0], form), Found { rate: 97.0, is_strong: true });
        }
    }

    #[test]
    fn without_a_strong_mode_it_is_the_first_mode_above_the_dispersion_rate() {
        // Modes at 20 and 80 with less than 30 % each, and trains around 50.
        let pairs = [10.0, 19.0, 20.0, 21.0, 31.0, 45.0, 52.0, 60.0, 79.0, 80.0, 81.0, 110.0];
        let trains = [30.0, 50.0, 51.0, 52.0, 70.0];
        for form in [Form::Literal, Form::Guarded] {
            assert_eq!(capacity(&pairs, &trains, form), Found { rate: 80.5, is_strong: false });
        }
    }

    #[test]
    fn ties_between_trains_go_to_the_faster_and_no_mode_above_gives_the_highest_bin() {
        let pairs = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
        let trains = [20.0, 21.0, 95.0, 96.0];
        assert_eq!(capacity(&pairs, &trains, Form::Literal).rate, 100.0);
    }

    #[test]
    fn the_guard_takes_the_highest_of_several_strong_bins() {
        // As with 50 transfers at 20 ms: most pairs at 5 of 100.
        let mut pairs = vec![5.0; 5];
        pairs.extend([96.0, 97.0, 97.0, 98.0]);
        assert_eq!(capacity(&pairs, &[40.0], Form::Literal).rate, 5.0);
        assert_eq!(capacity(&pairs, &[40.0], Form::Guarded).rate, 97.0);
        assert_eq!(capacity(&[5.0; 9], &[40.0], Form::Guarded).rate, 40.0, "never below the trains");
    }

    #[test]
    fn the_literal_phase_1_ends_with_enough_samples_and_the_guarded_one_goes_on() {
        let first = First {
            mss: 1460,
            rtt: Some(Duration::from_ms(140)),
            longest_gap: Duration::from_ms(280),
            has_pauses: false,
        };
        // wan 7: 2920 B in 240 us are 97.33 Mb/s.
        let step = |us| Step {
            at: Instant::ZERO,
            gap: Duration::from_us(us),
            bytes: 2920.0,
            sent: None,
            wait: Duration::ZERO,
        };
        for form in [Form::Literal, Form::Guarded] {
            let mut phase = Phase::new(&Settings { form, ..Settings::default() });
            (0..9).for_each(|_| phase.add(&step(480), &first));
            assert_eq!(phase.capacity(), None);
            phase.add(&step(480), &first);
            (0..10).for_each(|_| phase.add(&step(240), &first));
            let expected = if form == Form::Literal { 48.67 } else { 97.33 };
            let found = phase.capacity().map_or(0.0, Rate::mbps);
            assert!((found - expected).abs() < 0.01, "{found}");
        }
    }
}
