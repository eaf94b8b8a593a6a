//! Stamps of ACKs that come in batches: buffering events instead of single ACKs (rapid 2.9).
//!
//! A card that coalesces interrupts hands several ACKs up at once. The gaps within a batch say nothing, but their sum
//! over a whole batch is right, so the ACKs of an event that BASS finds become one sample.

use super::sample::Step;
use crate::denoise::{Denoise, bass_pass};
use crate::units::{Bytes, Duration, Rate};

/// ACKs that are searched for events at once.
const MOST: usize = 128;
/// Samples over which impossible ones are counted.
const MEMORY: u32 = 128;
/// Share of samples faster than the card from which stamps count as batched, and below which no longer.
const BATCHED: f64 = 0.1;
const SINGLE: f64 = 0.02;
/// How much faster than the card a sample must be; real clocks differ by less.
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
    steps: Vec<Step>,
    bytes: Vec<Duration>,
    gaps: Vec<Duration>,
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
        if self.steps.capacity() == 0 {
            self.steps.reserve_exact(MOST);
            self.bytes.reserve_exact(MOST);
            self.gaps.reserve_exact(MOST);
        }
        self.steps.push(step);
        None
    }

    /// Whether events should be searched for before the next ACK.
    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= MOST
    }

    /// The chain ended: what has not been grouped is lost.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
    }

    /// Calls `take` for every complete event as one step, and keeps the last one, which may be cut off.
    pub(super) fn drain(&mut self, packet: f64, nic: Rate, mut take: impl FnMut(Step)) {
        self.bytes.clear();
        self.gaps.clear();
        for step in &self.steps {
            self.bytes.push(Duration::from_ns((step.bytes * FINE) as i64));
            self.gaps.push(step.gap);
        }
        let thresholds =
            Denoise::scaled(nic.time_for(Bytes::new(packet as u64)).secs_f64() / USUAL_PACKET).coarse;
        let pass = bass_pass(&mut self.bytes, &mut self.gaps, thresholds);
        let mut begin = pass.head;
        for i in pass.head..pass.tail {
            // Within an event all gaps are equal now.
            let goes_on = i + 1 < pass.tail
                && self.gaps[i + 1] == self.gaps[begin]
                && self.bytes[i + 1] == self.bytes[begin];
            if goes_on {
                continue;
            }
            let event = &self.steps[begin..=i];
            take(Step {
                gap: event.iter().map(|step| step.gap).sum(),
                bytes: event.iter().map(|step| step.bytes).sum(),
                ..event[event.len() - 1]
            });
            begin = i + 1;
        }
        if pass.head >= pass.tail && self.steps.len() < MOST {
            return;
        }
        let kept = pass.tail.max(pass.head).min(self.steps.len());
        self.steps.drain(..kept);
        if self.is_full() {
            self.steps.clear();
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
            + (self.bytes.capacity() + self.gaps.capacity()) * size_of::<Duration>()
    }
}
