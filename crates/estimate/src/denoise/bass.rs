//! Buffering-aware spike smoothing (BASS), which undoes the effect of batching on the gaps of a stream
//! (rapid 2.9, 2.10).
//!
//! When packets wait in a buffer and leave together, the first of them arrives after one large gap (a
//! spike) and the others after tiny ones (dips). A *buffering event* is a spike with the dips that follow
//! it. Within a complete event the individual gaps are lost but their sum is preserved, so BASS replaces
//! both send and receive gaps by their means over the event. An event cut off by an end of the stream has a
//! wrong sum and is removed.

use super::mean::{centred_mean, rounded_quotient};
use crate::stream::{Gaps, Refusal};
use headway_units::Duration;

/// The rise and fall of a receive gap that make it a spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpikeThresholds {
    /// A gap that exceeds the previous one by more than this starts an event.
    pub up: Duration,
    /// An event is valid once a later gap falls below its largest gap by more than this.
    pub down: Duration,
}

impl SpikeThresholds {
    /// Creates thresholds from whole microseconds.
    pub const fn from_us(up: i64, down: i64) -> SpikeThresholds {
        SpikeThresholds { up: Duration::from_us(up), down: Duration::from_us(down) }
    }

    /// Multiplies both thresholds by `factor`.
    pub(crate) fn scale(self, factor: f64) -> SpikeThresholds {
        SpikeThresholds { up: self.up.scale(factor), down: self.down.scale(factor) }
    }
}

/// The result of one smoothing pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpikePass {
    /// Whether the pass changed the value of any gap.
    pub changed: bool,
    /// Index of the first spike, or 0 when there is no spike; samples before it belong to an event whose
    /// start was not seen.
    pub head: usize,
    /// Index of the last spike, whose event may be cut off, or the number of samples when there is no spike.
    pub tail: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No spike seen yet.
    None,
    /// A spike was seen, but no dip after it.
    Pending,
    /// A spike and a dip were seen, which makes a valid event.
    Valid,
}

/// Averages both arrays over each buffering event found in the receive gaps (rapid 2.9).
///
/// Changes the arrays in place without allocating; samples beyond the length of the shorter array are left
/// alone. Means are rounded to the nearest nanosecond, so the sum over an event changes by at most half a
/// nanosecond per sample.
pub fn bass_pass(send: &mut [Duration], receive: &mut [Duration], thresholds: SpikeThresholds) -> SpikePass {
    let n = send.len().min(receive.len());
    let (send, receive) = (&mut send[..n], &mut receive[..n]);
    let mut pass = SpikePass { changed: false, head: 0, tail: n };
    if n < 2 {
        return pass;
    }
    let SpikeThresholds { up, down } = thresholds;
    let mut state = State::None;
    let mut begin = 0;
    let mut largest = Duration::ZERO;
    let mut next = receive[0];
    if receive[0] > receive[1] + down {
        // The stream starts with a spike.
        state = State::Valid;
        largest = receive[0];
        pass.tail = 0;
    }
    for i in 0..n {
        let gap = next;
        let last = i + 1 == n;
        if !last {
            next = receive[i + 1];
        }
        if state == State::Pending {
            largest = largest.max(gap);
            if gap + down < largest {
                state = State::Valid;
            }
        }
        // Inside a pending event a further rise only makes the spike larger.
        if !last && state != State::Pending && gap + up < next {
            pass.changed |= average(&mut send[begin..=i], &mut receive[begin..=i]);
            if state == State::None {
                pass.head = i + 1;
            }
            begin = i + 1;
            pass.tail = begin;
            largest = next;
            state = State::Pending;
        }
    }
    if state == State::Valid {
        pass.changed |= average(&mut send[begin..], &mut receive[begin..]);
    }
    pass
}

/// Replaces the values of each array by their mean; returns whether any value changed.
fn average(send: &mut [Duration], receive: &mut [Duration]) -> bool {
    // `|` does not short-circuit: both arrays must be written.
    flatten(send) | flatten(receive)
}

/// Replaces all values by their mean; returns whether any of them changed.
fn flatten(values: &mut [Duration]) -> bool {
    let Some(&first) = values.first() else { return false };
    let mut sum = 0i64;
    let mut differences = 0i64;
    for value in values.iter() {
        sum = sum.wrapping_add(value.ns());
        differences |= value.ns() ^ first.ns();
    }
    if differences == 0 {
        return false;
    }
    values.fill(Duration::from_ns(rounded_quotient(sum, values.len())));
    true
}

/// The minimum number of samples for an estimate (rapid 2.9).
const MIN_SAMPLES: usize = 8;

/// The maximum number of passes over one stream (rapid 2.10); a staircase of rises need not
/// converge on its own.
const MAX_PASSES: u32 = 16;

/// Settings of multi-pass BASS with a final moving average (rapid 2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denoise {
    /// Pass 1, against interrupt coalescing.
    pub coarse: SpikeThresholds,
    /// Pass 2, against bursty cross traffic.
    pub medium: SpikeThresholds,
    /// Passes 3 and later, against smoother cross traffic.
    pub fine: SpikeThresholds,
    /// Window of the final moving average in samples, usually the number of packets sent at each
    /// rate; 1 disables it.
    pub window: usize,
}

impl Default for Denoise {
    /// Returns the values for packets that take 7.23 us on the narrow link: 20/10, 5/4 and 2/1 us, window 16.
    fn default() -> Denoise {
        Denoise {
            coarse: SpikeThresholds::from_us(20, 10),
            medium: SpikeThresholds::from_us(5, 4),
            fine: SpikeThresholds::from_us(2, 1),
            window: 16,
        }
    }
}

/// The result of denoising a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenoiseOutcome {
    /// Number of smoothing passes made, 1 to 16.
    pub count: u32,
    /// Index in the original stream of the first sample kept.
    pub first: usize,
}

impl Denoise {
    /// Multiplies the default thresholds by `kappa`, the packet time on the narrow link over
    /// 7.23 us (rapid 2.10).
    pub(crate) fn scaled(kappa: f64) -> Denoise {
        let usual = Denoise::default();
        Denoise {
            coarse: usual.coarse.scale(kappa),
            medium: usual.medium.scale(kappa),
            fine: usual.fine.scale(kappa),
            window: usual.window,
        }
    }

    /// Returns the settings with a different `window`.
    pub fn with_window(self, window: usize) -> Denoise {
        Denoise { window, ..self }
    }

    /// Runs all passes, the removal of cut-off events after the first, and the final moving
    /// average (rapid 2.10).
    ///
    /// # Errors
    /// [`Refusal::TooShort`] when no complete event or fewer than 8 samples remain; the contents of `gaps`
    /// are then unusable.
    pub fn apply(&self, gaps: &mut Gaps, scratch: &mut Vec<Duration>) -> Result<DenoiseOutcome, Refusal> {
        let first = self.two_passes(gaps)?;
        let mut count = 2;
        while count < MAX_PASSES {
            count += 1;
            if !bass_pass(&mut gaps.send, &mut gaps.receive, self.fine).changed {
                break;
            }
        }
        // Smooth both arrays: smoothing only the receive gaps makes the estimate 5 % low (rapid 2.10).
        centred_mean(&mut gaps.receive, self.window, scratch);
        centred_mean(&mut gaps.send, self.window, scratch);
        Ok(DenoiseOutcome { count, first })
    }

    /// Runs passes 1 and 2 with the removal of cut-off events between them, for estimators
    /// that work on delays.
    ///
    /// Returns the index of the first sample kept.
    ///
    /// # Errors
    /// [`Refusal::TooShort`] when no complete event or fewer than 8 samples remain.
    pub(crate) fn two_passes(&self, gaps: &mut Gaps) -> Result<usize, Refusal> {
        let first = self.first_pass(gaps)?;
        bass_pass(&mut gaps.send, &mut gaps.receive, self.medium);
        Ok(first)
    }

    /// Runs only pass 1 and the removal of the events that the ends of the stream cut off (rapid 2.9).
    ///
    /// Without the removal, pass 2 mistakes the dips at the start for the low gaps before a huge spike and
    /// merges the whole stream into one event; the estimate is then the average send rate regardless of the
    /// path. Returns the index of the first sample kept.
    ///
    /// # Errors
    /// [`Refusal::TooShort`] when no complete event or fewer than 8 samples remain.
    pub fn first_pass(&self, gaps: &mut Gaps) -> Result<usize, Refusal> {
        let pass = bass_pass(&mut gaps.send, &mut gaps.receive, self.coarse);
        if pass.tail.saturating_sub(pass.head) < MIN_SAMPLES {
            return Err(Refusal::TooShort);
        }
        gaps.crop(pass.head, pass.tail);
        Ok(pass.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COARSE: SpikeThresholds = SpikeThresholds::from_us(20, 10);

    fn us(values: &[i64]) -> Vec<Duration> {
        values.iter().copied().map(Duration::from_us).collect()
    }

    /// Runs one pass over `receive` with send gaps of 10, 11, 12, ... us; returns its result and both arrays.
    fn pass(receive: &[i64]) -> (SpikePass, Vec<Duration>, Vec<Duration>) {
        let mut send: Vec<Duration> = (0..receive.len() as i64).map(|i| Duration::from_us(10 + i)).collect();
        let mut receive = us(receive);
        let pass = bass_pass(&mut send, &mut receive, COARSE);
        (pass, send, receive)
    }

    #[test]
    fn each_complete_event_becomes_flat_and_its_ends_are_reported() {
        // Dips, an event of four gaps, an event of three, and the start of another.
        let (pass, send, receive) = pass(&[1, 1, 37, 1, 1, 1, 28, 1, 1, 50]);
        assert_eq!(pass, SpikePass { changed: true, head: 2, tail: 9 });
        assert_eq!(receive, us(&[1, 1, 10, 10, 10, 10, 10, 10, 10, 50]));
        let half_us = |us: i64| Duration::from_ns(us * 500);
        let expected = [21, 21, 27, 27, 27, 27, 34, 34, 34, 38].map(half_us);
        assert_eq!(send, expected);
    }

    #[test]
    fn a_spike_at_index_0_starts_the_first_event() {
        let (pass, _, receive) = pass(&[40, 1, 1, 31, 1, 1]);
        assert_eq!(pass, SpikePass { changed: true, head: 0, tail: 3 });
        assert_eq!(receive, us(&[14, 14, 14, 11, 11, 11]));
    }

    #[test]
    fn a_spike_at_index_0_alone_leaves_no_complete_event() {
        let (pass, _, receive) = pass(&[40, 1, 1]);
        assert_eq!(pass, SpikePass { changed: true, head: 0, tail: 0 });
        assert_eq!(receive, us(&[14, 14, 14]));
    }

    #[test]
    fn without_a_spike_nothing_changes_and_everything_is_kept() {
        let (pass, send, receive) = pass(&[10, 12, 9, 11, 10]);
        assert_eq!(pass, SpikePass { changed: false, head: 0, tail: 5 });
        assert_eq!((send, receive), (us(&[10, 11, 12, 13, 14]), us(&[10, 12, 9, 11, 10])));
    }

    #[test]
    fn a_staircase_without_a_dip_is_one_endless_event() {
        let (pass, _, receive) = pass(&[1, 30, 60, 90, 120]);
        assert_eq!(pass, SpikePass { changed: false, head: 1, tail: 1 });
        assert_eq!(receive, us(&[1, 30, 60, 90, 120]));
    }

    #[test]
    fn rises_before_the_first_dip_belong_to_the_same_spike() {
        let (pass, _, receive) = pass(&[1, 30, 60, 1, 1, 31]);
        assert_eq!(pass, SpikePass { changed: true, head: 1, tail: 5 });
        assert_eq!(receive, us(&[1, 23, 23, 23, 23, 31]));
    }

    #[test]
    fn differences_equal_to_a_threshold_do_not_count() {
        assert_eq!(pass(&[1, 21, 1, 1]).0.tail, 4);
        assert_eq!(pass(&[1, 22, 12, 12]).2, us(&[1, 22, 12, 12]));
        assert_eq!(pass(&[12, 2, 2, 2]).0, SpikePass { changed: false, head: 0, tail: 4 });
    }

    #[test]
    fn streams_of_none_or_one_sample_pass_unchanged() {
        assert_eq!(pass(&[]).0, SpikePass { changed: false, head: 0, tail: 0 });
        assert_eq!(pass(&[9]).0, SpikePass { changed: false, head: 0, tail: 1 });
    }

    /// Returns a stream of 10 us gaps after coalescing into events of `event` packets, cut off at both ends.
    fn coalesced(samples: usize, event: usize) -> Gaps {
        let mut gaps = Gaps::default();
        for i in 0..samples {
            let spike = 10 * event as i64 - (event as i64 - 1);
            gaps.push(
                Duration::from_us(10),
                Duration::from_us(if i % event == event / 2 { spike } else { 1 }),
            );
        }
        gaps
    }

    #[test]
    fn cut_off_events_are_removed_before_the_second_pass() {
        let mut gaps = coalesced(64, 12);
        let passes = Denoise::default().apply(&mut gaps, &mut Vec::new()).expect("four complete events");
        assert_eq!(passes.first, 6);
        assert_eq!(gaps.len(), 48);
        assert_eq!(gaps.send, gaps.receive);
    }

    #[test]
    fn a_stream_without_a_complete_event_is_refused() {
        let denoise = Denoise::default();
        assert_eq!(denoise.apply(&mut coalesced(64, 64), &mut Vec::new()), Err(Refusal::TooShort));
        assert_eq!(denoise.apply(&mut coalesced(14, 7), &mut Vec::new()), Err(Refusal::TooShort));
        assert_eq!(denoise.apply(&mut Gaps::default(), &mut Vec::new()), Err(Refusal::TooShort));
    }

    #[test]
    fn thresholds_scale_with_the_packet_time() {
        let slow = Denoise::scaled(1.7);
        assert_eq!(slow.coarse, SpikeThresholds::from_us(34, 17));
        assert_eq!(
            slow.fine,
            SpikeThresholds { up: Duration::from_ns(3_400), down: Duration::from_ns(1_700) }
        );
    }

    fn samples() -> impl Strategy<Value = Gaps> {
        let receive = prop_oneof![3 => 0..5_000i64, 2 => 0..40_000i64, 1 => 0..200_000i64];
        prop::collection::vec((5_000..15_000i64, receive), 0..150).prop_map(|pairs| {
            let mut gaps = Gaps::default();
            for (send, receive) in pairs {
                gaps.push(Duration::from_ns(send), Duration::from_ns(receive));
            }
            gaps
        })
    }

    fn sum(values: &[Duration]) -> i64 {
        values.iter().map(|value| value.ns()).sum()
    }

    proptest! {
        #[test]
        fn sums_over_the_kept_samples_stay(gaps in samples()) {
            let mut smoothed = gaps.clone();
            let pass = bass_pass(&mut smoothed.send, &mut smoothed.receive, COARSE);
            if pass.head < pass.tail {
                let kept = pass.head..pass.tail;
                let most = kept.len() as u64 / 2 + 1;
                let moved = |a: &[Duration], b: &[Duration]| sum(&a[kept.clone()]).abs_diff(sum(&b[kept.clone()]));
                prop_assert!(moved(&gaps.send, &smoothed.send) <= most);
                prop_assert!(moved(&gaps.receive, &smoothed.receive) <= most);
            }
        }

        #[test]
        fn stretching_gaps_and_thresholds_stretches_the_result(gaps in samples(), factor in 2i64..1_000) {
            let mut plain = gaps.clone();
            let mut wide = Gaps::default();
            for (send, receive) in gaps.send.iter().zip(&gaps.receive) {
                wide.push(*send * factor, *receive * factor);
            }
            let thresholds = SpikeThresholds { up: COARSE.up * factor, down: COARSE.down * factor };
            let before = bass_pass(&mut plain.send, &mut plain.receive, COARSE);
            let after = bass_pass(&mut wide.send, &mut wide.receive, thresholds);
            prop_assert_eq!((before.head, before.tail), (after.head, after.tail));
            for (plain, wide) in plain.receive.iter().zip(&wide.receive) {
                prop_assert!((plain.ns() * factor).abs_diff(wide.ns()) <= factor as u64 / 2 + 1);
            }
        }

        #[test]
        fn a_gap_stays_between_the_extremes(gaps in samples()) {
            let mut smoothed = gaps.clone();
            if Denoise::default().apply(&mut smoothed, &mut Vec::new()).is_ok() {
                prop_assert_eq!(smoothed.send.len(), smoothed.receive.len());
                prop_assert!(smoothed.receive.iter().max() <= gaps.receive.iter().max());
                prop_assert!(smoothed.receive.iter().min() >= gaps.receive.iter().min());
            }
        }

        #[test]
        fn any_numbers_at_all_are_accepted(pairs in prop::collection::vec((any::<i64>(), any::<i64>()), 0..80)) {
            let mut gaps = Gaps::default();
            for (send, receive) in pairs {
                gaps.push(Duration::from_ns(send), Duration::from_ns(receive));
            }
            let _ = Denoise::default().apply(&mut gaps, &mut Vec::new());
        }
    }
}
