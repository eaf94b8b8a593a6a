//! Queues that flows met when they began.

use headway_arithmetic::flow::Delays;
use headway_units::{Duration, PerSide, Side};

/// The most of the first RTT that is taken for a queue. Range 0.4 to 0.8: the queue may be elsewhere.
const MOST_WAITED: f64 = 0.6;

/// What is left of that in a second: when a flow was measured first is not known exactly. Range 0.8 to 0.98.
const KEPT: f64 = 0.93;

/// How long the first segments of a flow have waited towards each side, which its least RTT contains until it
/// has met a shorter queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    /// In ns.
    queues: PerSide<f64>,
    period: u32,
    begins: bool,
}

impl Waited {
    /// Takes the queues towards each side in s, if the flow has been measured for the
    /// first time in this look.
    pub(crate) fn begin(&mut self, measured: Option<Delays>, queues: PerSide<f64>) {
        if let Some(now) = measured.filter(|_| self.begins) {
            let all = (queues[Side::Lan] + queues[Side::Wan]) * 1e9;
            let part = (MOST_WAITED * now.least as f64 / all.max(1.0)).min(1.0);
            self.queues = queues.map(|queue| queue * 1e9 * part);
            self.begins = false;
        }
    }

    /// Takes what was measured of a flow, and what was before.
    pub(crate) fn look(&mut self, before: Option<Delays>, now: &Delays, period: u32, time: f64) {
        let Some(before) = before else {
            *self = Waited { begins: true, period, ..Waited::default() };
            return;
        };
        let all = self.queues[Side::Lan] + self.queues[Side::Wan];
        let shorter = before.least.saturating_sub(now.least) as f64;
        // In another period a shorter queue was looked for.
        let left = if period == self.period { ((all - shorter) / all.max(1.0)).max(0.0) } else { 0.0 };
        let left = left * KEPT.powf(time);
        self.queues = self.queues.map(|queue| queue * left);
        self.period = period;
    }

    /// Returns what was measured, without that in the least RTT; and how long it is.
    pub(crate) fn correct(&self, measured: Option<Delays>) -> Option<(Delays, Duration)> {
        let Delays { rtt, least, queues } = measured?;
        let waited = self.queues.map(|queue| queue as u64);
        let PerSide([lan, wan]) = waited;
        let all = lan + wan;
        let queues = queues.map(|queues| [queues[0] + lan, queues[1] + wan]);
        Some((Delays { rtt, least: least - all.min(least), queues }, Duration::from_ns(all as i64)))
    }
}
