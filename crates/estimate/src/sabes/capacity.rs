//! The search for the capacity of the narrow link: phase 1 as published, from the rates of consecutive ACKs
//! (wan 2.9), or by trains (`narrow.rs`).

use super::narrow::{Capacity, Narrow};
use super::sample::Step;
use super::settings::{self, Settings};
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

/// Returns the capacity from the rates of pairs and of trains, both ascending and not empty.
pub(super) fn capacity(pairs: &[f32], trains: &[f32]) -> f32 {
    let pairs = Histogram::new(pairs);
    let fullest = pairs.fullest();
    if pairs.is_strong(fullest) {
        return pairs.value(fullest);
    }
    let trains = Histogram::new(trains);
    let least = trains.value(trains.fullest());
    let above = (0..BINS).find(|bin| pairs.is_mode(*bin) && pairs.value(*bin) > least);
    let highest = (0..BINS).rev().find(|bin| pairs.count(*bin) > 0);
    pairs.value(above.or(highest).unwrap_or(0))
}

/// What the search for the capacity must know about a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// Payload of a full segment.
    pub(super) mss: u32,
    /// The same with its headers on the wire.
    pub(super) packet: f64,
    /// The RTT of the handshake; not needed once samples are collected.
    pub(super) rtt: Option<Duration>,
    /// The longest gap of a sample.
    pub(super) longest_gap: Duration,
    /// Whether steps tell how long their segments waited in queues.
    pub(super) knows_waits: bool,
    /// Whether a queue has stood, or a segment was lost.
    pub(super) has_been_full: bool,
}

/// Collects samples until phase 1 can be carried out.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    /// Time in seconds and bits of each sample.
    samples: Vec<(f32, f32)>,
    needed: usize,
    capacity: Option<Rate>,
}

impl Phase {
    /// Takes a step whose gap is positive.
    fn add(&mut self, step: &Step, first: &First, nic: Rate) {
        if self.capacity.is_some() || step.gap > first.longest_gap {
            return;
        }
        if self.needed == 0 {
            let Some(rtt) = first.rtt else { return };
            self.needed = samples_needed(nic, first.mss, rtt);
        }
        self.samples.push((step.gap.secs_f64() as f32, (step.bytes * 8.0) as f32));
        if self.samples.len() < self.needed {
            return;
        }
        self.capacity = Some(Rate::from_bps_f64(self.estimate().into()).min(nic));
        self.samples = Vec::new();
    }

    fn estimate(&self) -> f32 {
        let rate = |samples: &[(f32, f32)]| {
            let (seconds, bits) = samples.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            bits / seconds
        };
        let mut pairs: Vec<f32> = self.samples.iter().map(|(seconds, bits)| bits / seconds).collect();
        let mut trains: Vec<f32> = self.samples.windows(TRAIN).map(rate).collect();
        pairs.sort_unstable_by(f32::total_cmp);
        trains.sort_unstable_by(f32::total_cmp);
        capacity(&pairs, &trains)
    }
}

/// The search for the capacity, by one of the forms.
#[derive(Clone, Debug)]
enum Form {
    Literal(Phase),
    /// `None` before the first sample, which most transfers never have.
    Guarded(Option<Box<Narrow>>),
}

/// What is known of the capacity of the narrow link.
#[derive(Clone, Debug)]
pub(super) struct Search {
    nic: Rate,
    form: Form,
    /// What other transfers over the path have found.
    shared: Option<Rate>,
}

impl Search {
    pub(super) fn new(settings: &Settings) -> Search {
        let form = match settings.form {
            settings::Form::Literal => Form::Literal(Phase::default()),
            settings::Form::Guarded => Form::Guarded(None),
        };
        Search { nic: settings.nic, form, shared: None }
    }

    /// Returns the capacity that this transfer has found, or others have. With the published form
    /// the larger one counts.
    pub(super) fn rate(&self) -> Option<Rate> {
        match &self.form {
            Form::Literal(phase) => phase.capacity.max(self.shared),
            Form::Guarded(_) => self.found().map(|found| found.rate).or(self.shared),
        }
    }

    /// Returns what this transfer has found; the published form knows no interval.
    pub(super) fn found(&self) -> Option<Capacity> {
        match &self.form {
            Form::Literal(phase) => {
                let samples = phase.needed as u64;
                phase.capacity.map(|rate| Capacity { rate, low: rate, high: rate, samples })
            }
            Form::Guarded(narrow) => narrow.as_ref()?.found(),
        }
    }

    /// Looks for a capacity in all samples so far if none is known.
    pub(super) fn look(&mut self) {
        if let Form::Guarded(Some(narrow)) = &mut self.form
            && narrow.found().is_none()
        {
            narrow.look_early(self.nic);
        }
    }

    /// Whether the RTT of the handshake is not needed any more.
    pub(super) fn has_begun(&self) -> bool {
        match &self.form {
            Form::Literal(phase) => phase.needed > 0,
            Form::Guarded(_) => true,
        }
    }

    /// Takes the capacity found by another transfer.
    pub(super) fn share(&mut self, capacity: Rate) {
        self.shared = match &self.form {
            Form::Literal(_) => self.shared.max(Some(capacity)),
            Form::Guarded(_) => Some(capacity),
        };
    }

    /// The next step does not continue the one before.
    pub(super) fn restart(&mut self) {
        if let Form::Guarded(Some(narrow)) = &mut self.form {
            narrow.restart();
        }
    }

    /// Takes a step whose gap is positive. The guarded form needs a path that limits its transfer, and a
    /// queue meanwhile, where that can be seen.
    pub(super) fn add(&mut self, step: &Step, first: &First) {
        match &mut self.form {
            Form::Literal(phase) => phase.add(step, first, self.nic),
            Form::Guarded(narrow) => {
                let has_queue = if first.knows_waits {
                    step.is_busy()
                } else {
                    first.has_been_full && step.gap <= first.longest_gap
                };
                if step.presses && step.is_full && has_queue {
                    narrow.get_or_insert_default().add(step, first.packet, self.nic);
                } else if let Some(narrow) = narrow {
                    narrow.restart();
                }
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        match &self.form {
            Form::Literal(phase) => phase.samples.capacity() * size_of::<(f32, f32)>(),
            Form::Guarded(narrow) => narrow.as_ref().map_or(0, |_| Narrow::memory()),
        }
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
        assert_eq!(capacity(&pairs, &[40.0]), 97.0);
    }

    #[test]
    fn without_a_strong_mode_it_is_the_first_mode_above_the_dispersion_rate() {
        // Modes at 20 and 80 with less than 30 % each, and trains around 50.
        let pairs = [10.0, 19.0, 20.0, 21.0, 31.0, 45.0, 52.0, 60.0, 79.0, 80.0, 81.0, 110.0];
        assert_eq!(capacity(&pairs, &[30.0, 50.0, 51.0, 52.0, 70.0]), 80.5);
    }

    #[test]
    fn ties_between_trains_go_to_the_faster_and_no_mode_above_gives_the_highest_bin() {
        let pairs = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
        assert_eq!(capacity(&pairs, &[20.0, 21.0, 95.0, 96.0]), 100.0);
    }

    #[test]
    fn with_most_pairs_in_the_lowest_bin_the_published_rule_is_far_too_low() {
        // As with 50 transfers at 20 ms: most pairs at 5 of 100.
        let mut pairs = vec![5.0; 5];
        pairs.extend([96.0, 97.0, 97.0, 98.0]);
        assert_eq!(capacity(&pairs, &[40.0]), 5.0);
    }

    #[test]
    fn the_published_phase_1_ends_with_enough_samples_and_the_guarded_search_goes_on() {
        let first = First {
            mss: 1460,
            packet: 1_538.0,
            rtt: Some(Duration::from_ms(140)),
            longest_gap: Duration::from_ms(280),
            knows_waits: false,
            has_been_full: true,
        };
        // wan 7: 2920 B in 240 us are 97.33 Mb/s.
        let step = |us| Step {
            at: Instant::ZERO,
            gap: Duration::from_us(us),
            bytes: 2920.0,
            wait: None,
            presses: true,
            is_full: true,
        };
        for form in [settings::Form::Literal, settings::Form::Guarded] {
            let mut search = Search::new(&Settings { form, ..Settings::default() });
            (0..9).for_each(|_| search.add(&step(480), &first));
            assert_eq!(search.rate(), None);
            search.add(&step(480), &first);
            (0..40).for_each(|_| search.add(&step(240), &first));
            let expected = if form == settings::Form::Literal { 48.67 } else { 97.33 };
            let found = search.rate().map_or(0.0, Rate::mbps);
            assert!((found - expected).abs() < 0.01, "{found}");
        }
    }
}
