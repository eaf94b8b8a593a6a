//! Stamps of ACKs that come in batches: buffering events instead of single ACKs (rapid 2.9).
//!
//! A NIC that coalesces interrupts hands several ACKs up at once. The gaps within a batch say
//! nothing, but their sum over a whole batch is right, so the ACKs of one or a few events that BASS
//! finds become one sample.

use super::sample::Step;
use crate::denoise::{Denoise, bass_pass};
use headway_units::{Bytes, Duration, Rate};

/// ACKs that are searched for events at once.
const MOST: usize = 128;
/// ACKs in a sample. The last ACK of a batch has waited for up to the time between two ACKs, so the ends of
/// an event of few ACKs are uncertain; those of ten are within a twentieth, as a standard deviation.
const FEWEST: usize = 10;
/// Samples over which impossible ones are counted.
const MEMORY: u32 = 128;
/// Share of samples faster than the NIC from which stamps count as batched, and below which no longer.
const BATCHED: f64 = 0.1;
const SINGLE: f64 = 0.02;
/// How much faster than the NIC a sample must be; real clocks differ by less.
const IMPOSSIBLE: f64 = 1.1;
/// Packet time for which the thresholds of BASS are meant, seconds (rapid 2.10).
const USUAL_PACKET: f64 = 7.23e-6;
/// Factor on bytes, so that means over events round to thousandths.
const FINE: f64 = 1_000.0;

/// Groups the ACKs of a transfer while their stamps come in batches.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    seen: u32,
    impossible: u32,
    active: bool,
    /// `None` until stamps come in batches, which few do.
    group: Option<Box<Group>>,
}

/// ACKs in which events are searched for.
#[derive(Clone, Debug)]
struct Group {
    steps: Vec<Step>,
    bytes: Vec<Duration>,
    gaps: Vec<Duration>,
}

impl Group {
    fn new() -> Group {
        Group {
            steps: Vec::with_capacity(MOST),
            bytes: Vec::with_capacity(MOST),
            gaps: Vec::with_capacity(MOST),
        }
    }
}

impl Batches {
    /// Whether stamps come in batches now.
    pub(super) fn active(&self) -> bool {
        self.active
    }

    /// Takes a step of the chain; returns it unless it has to wait for the end of its batch.
    pub(super) fn push(&mut self, step: Step, nic: Rate) -> Option<Step> {
        self.seen += 1;
        let bits = step.bytes * 8.0;
        self.impossible += u32::from(bits > step.gap.secs_f64() * nic.bps_f64() * IMPOSSIBLE);
        if self.seen >= MEMORY {
            let share = f64::from(self.impossible) / f64::from(self.seen);
            self.active = share > if self.active { SINGLE } else { BATCHED };
            (self.seen, self.impossible) = (self.seen / 2, self.impossible / 2);
        }
        if !self.active {
            return Some(step);
        }
        self.group.get_or_insert_with(|| Box::new(Group::new())).steps.push(step);
        None
    }

    /// Whether events should be searched for before the next ACK.
    pub(super) fn is_full(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.steps.len() >= MOST)
    }

    /// The chain ended: what has not been grouped is lost.
    pub(super) fn clear(&mut self) {
        if let Some(group) = &mut self.group {
            group.steps.clear();
        }
    }

    /// Calls `take` for complete events of at least [`FEWEST`] ACKs together as one step,
    /// and keeps the others.
    pub(super) fn drain(&mut self, packet: f64, nic: Rate, mut take: impl FnMut(Step)) {
        let Some(group) = &mut self.group else { return };
        let Group { steps, bytes, gaps } = &mut **group;
        bytes.clear();
        gaps.clear();
        for step in steps.iter() {
            bytes.push(Duration::from_ns((step.bytes * FINE) as i64));
            gaps.push(step.gap);
        }
        let thresholds =
            Denoise::scaled(nic.time_for(Bytes::new(packet as u64)).secs_f64() / USUAL_PACKET).coarse;
        let pass = bass_pass(bytes, gaps, thresholds);
        let (mut begin, mut event) = (pass.head, pass.head);
        for i in pass.head..pass.tail {
            // Within an event all gaps are equal now; an event begins with a gap that was above its mean.
            let goes_on = i + 1 < pass.tail
                && steps[i + 1].gap <= gaps[i + 1]
                && gaps[i + 1] == gaps[event]
                && bytes[i + 1] == bytes[event];
            if goes_on {
                continue;
            }
            event = i + 1;
            if event - begin < FEWEST {
                continue;
            }
            let found = &steps[begin..event];
            take(Step {
                gap: found.iter().map(|step| step.gap).sum(),
                bytes: found.iter().map(|step| step.bytes).sum(),
                ..found[found.len() - 1]
            });
            begin = event;
        }
        steps.drain(..begin);
        // Without a complete event there is nothing to keep.
        if steps.len() >= MOST {
            steps.clear();
        }
    }

    pub(super) fn memory(&self) -> usize {
        let of = |group: &Group| {
            size_of::<Group>()
                + group.steps.capacity() * size_of::<Step>()
                + (group.bytes.capacity() + group.gaps.capacity()) * size_of::<Duration>()
        };
        self.group.as_deref().map_or(0, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Instant;

    const NIC: Rate = Rate::from_bps(1_000_000_000);

    /// ACKs of two segments of 1538 bytes each, 24.6 us apart, handed up in batches of three.
    fn batched(count: u64) -> Vec<Step> {
        let step = |i: u64| Step {
            at: Instant::from_ns((i / 3 * 3 + 3) * 24_608 + i % 3 * 800),
            gap: Duration::from_ns(if i.is_multiple_of(3) { 3 * 24_608 - 1_600 } else { 800 }),
            bytes: 3_076.0,
            wait: None,
            presses: true,
            is_full: true,
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn batched_stamps_are_noticed_and_whole_events_have_the_rate_of_the_line() {
        let (mut batches, mut samples) = (Batches::default(), Vec::new());
        for step in batched(2_000) {
            if batches.push(step, NIC).is_some() {
                assert!(!batches.active());
            }
            if batches.is_full() {
                batches.drain(1538.0, NIC, |step| samples.push(step));
            }
        }
        assert!(batches.active() && samples.len() > 100, "{}", samples.len());
        for sample in &samples {
            let rate = sample.bytes * 8.0 / sample.gap.secs_f64();
            assert!((rate / 1e9 - 1.0).abs() < 1e-3, "{rate}");
            assert!(sample.bytes >= FEWEST as f64 * 3_076.0);
        }
    }

    #[test]
    fn single_stamps_pass_at_once() {
        let mut batches = Batches::default();
        for step in batched(1_000) {
            let step = Step { gap: Duration::from_ns(24_608), ..step };
            assert_eq!(batches.push(step, NIC), Some(step));
        }
    }
}
