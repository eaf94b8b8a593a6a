//! Methods whose streams hold several rates: each stream gives an estimate, and the next ones are sent around it.

use crate::estimate::{MultiRate, Scratch};
use crate::stream::{Refusal, Schedule, Shape, StreamRecord};
use crate::units::{Bytes, Rate};

use super::answer::Interval;
use super::probe;

/// Rates, packets at each and step of Rapid's p-streams (rapid 1.6).
const SHAPE: Shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
/// Gaps of a chirp and their spread factor: 48 gaps that shrink by 5 % cover a factor of ten.
const CHIRP_GAPS: usize = 48;
const CHIRP_SPREAD: f64 = 1.05;
/// The slowest rate of a chirp as a share of the current estimate, which so lies in the middle of the rates.
const CHIRP_BOTTOM: f64 = 0.32;
/// The average rate follows the estimates once in this many streams (rapid 2.12: gamma).
const GAMMA: usize = 3;
/// Streams of the first adaptations, which still travel towards the answer and do not count in it.
const SETTLING: usize = 2 * GAMMA;
/// Streams that count when the method stops.
const ENOUGH_STREAMS: usize = 24;
/// 95 % quantile of the normal distribution, for a two-sided 90 % interval.
const Z90: f64 = 1.645;

#[derive(Clone, Debug)]
pub(super) struct Track {
    method: MultiRate,
    packet: Bytes,
    average: Rate,
    estimates: Vec<Rate>,
    scratch: Scratch,
}

impl Track {
    pub(super) fn new(method: MultiRate, packet: Bytes, start: Rate) -> Track {
        Track { method, packet, average: start, estimates: Vec::new(), scratch: Scratch::default() }
    }

    pub(super) fn schedule(&self) -> Schedule {
        match self.method {
            MultiRate::PathChirp => {
                let bottom = self.average.scale(CHIRP_BOTTOM);
                Schedule::chirp(bottom, CHIRP_SPREAD, CHIRP_GAPS, self.packet)
            }
            _ => Schedule::p_stream(SHAPE, self.average, self.packet),
        }
    }

    pub(super) fn observe(&mut self, record: &StreamRecord) -> Result<(), Refusal> {
        let estimate = self.method.estimate(record, &probe::settings(record), &mut self.scratch)?;
        self.estimates.push(estimate.rate);
        if self.estimates.len().is_multiple_of(GAMMA) {
            self.average = mean(&self.estimates[self.estimates.len() - GAMMA..]);
        }
        Ok(())
    }

    pub(super) fn sure(&self) -> bool {
        self.estimates.len() >= SETTLING + ENOUGH_STREAMS
    }

    /// The mean of the settled streams with its 90 % interval, for streams taken as independent.
    pub(super) fn interval(&self) -> Option<Interval> {
        let settled = self.estimates.get(SETTLING..).filter(|s| s.len() > 1).unwrap_or(&self.estimates);
        if settled.len() < 2 {
            return None;
        }
        let rate = mean(settled);
        let squares: f64 = settled.iter().map(|e| (e.bps_f64() - rate.bps_f64()).powi(2)).sum();
        let count = settled.len() as f64;
        let half = Rate::from_bps_f64(Z90 * (squares / (count - 1.0) / count).sqrt());
        Some(Interval { rate, low: rate.saturating_sub(half), high: Some(rate + half) })
    }
}

fn mean(rates: &[Rate]) -> Rate {
    Rate::from_bps_f64(rates.iter().map(|rate| rate.bps_f64()).sum::<f64>() / rates.len() as f64)
}
