//! The numbers of a run. Queues are in IP bytes, as in the thesis's records; lambda and kappa
//! in those of the law.

use std::ops::Range;

use headway_record::ControlInterval;
use headway_units::WIRE_OVERHEAD;

use super::{CAPACITY, FLOWS, Interval, LAST, PER_SECOND, RTT, Trace};
use crate::outcome::Measures;
use crate::statistics::{jain, largest, mean, smallest};

/// How long after an arrival or a departure its effects are looked for, s.
const EFFECT: f64 = 5.0;
/// How long the rate takes to settle after a departure, s, which leaves some seconds before the next.
const SETTLED: f64 = 6.0;
/// Time between two arrivals, and between two departures, less the largest offset of a start, s.
const PHASE: f64 = 9.9;

/// Megabits in a bit.
pub(super) const MEGA: f64 = 1e-6;

/// Returns the persistent queue with what links count beside IP packets, as laws reckon.
fn with_overhead(record: &ControlInterval) -> f64 {
    (record.queue_bytes + u64::from(record.queue_packets) * WIRE_OVERHEAD.get()) as f64
}

/// Returns seconds of a record's end.
pub(super) fn seconds(record: &ControlInterval) -> f64 {
    record.end_ns as f64 * 1e-9
}

impl Trace {
    /// Returns the numbers of the run by name, NaN where the router has no such state.
    pub(crate) fn numbers(&self) -> Measures {
        let mut all = Measures::new();
        let mut put = |name: &str, value: f64| {
            all.insert(name.to_owned(), if value.is_finite() { value } else { f64::NAN });
        };
        put("utilisation", self.utilisation(20.0, 60.0));
        put("utilisation/20-30", self.utilisation(20.0, 30.0));
        put("utilisation/10-80", self.utilisation(10.0, 80.0));
        put("queue/10-80", largest(self.queue(10.0, 80.0)));
        put("queue/30-80", largest(self.queue(30.0, 80.0)));
        put("queue/mean", mean(&self.queue(20.0, 60.0)));
        put("persistent/15-80", largest(self.field(15.0, 80.0, |r| r.queue_bytes as f64)));
        put("persistent/mean", mean(&self.field(20.0, 60.0, with_overhead)));
        put("lambda", mean(&self.field(15.0, 60.0, |r| r.lambda)));
        let kappa = |from: f64, to: f64| self.field(from, to, |r| r.kappa);
        let whole = kappa(0.0, f64::INFINITY);
        put("kappa/lowest", smallest(whole.iter().copied()));
        put("kappa/highest", largest(whole));
        put("kappa/idle", kappa(91.0, LAST.secs_f64()).last().copied().unwrap_or(f64::NAN));
        put("lambda-kappa/20-80", self.lambda_to_kappa(20.0, 80.0));
        put("lambda-kappa/20-60", self.lambda_to_kappa(20.0, 60.0));
        put("error/20-60", self.error(20.0, 60.0));
        put("error/30-60", self.error(30.0, 60.0));
        put("error/off/20-60", self.error(20.0, 60.0) - self.true_error(20.0, 60.0));
        put("error/off/30-60", self.error(30.0, 60.0) - self.true_error(30.0, 60.0));
        let each: Vec<f64> = (20..60).map(|s| self.error(f64::from(s), f64::from(s + 1))).collect();
        put("error/low", smallest(each.iter().copied()));
        put("error/high", largest(each));
        put("drops", self.dropped(0.0, f64::INFINITY));
        put("drops/30-80", self.dropped(30.0, 80.0));
        self.arrivals(&mut put);
        self.departures(&mut put);
        self.third(&mut put);
        all
    }

    /// Adds the numbers of each arrival.
    fn arrivals(&self, put: &mut impl FnMut(&str, f64)) {
        for (index, (start, _)) in self.flows.iter().copied().enumerate() {
            let mut put = |what: &str, value| put(&format!("arrival-{}/{what}", index + 1), value);
            let queue = self.queue(start, start + EFFECT);
            let highest = largest(queue.iter().copied());
            put("queue", highest);
            let (dip, _) = self.extremes(start, start + EFFECT);
            put("dip", 100.0 * dip / self.announced(start + SETTLED, start + PHASE));
            if index == 0 {
                continue;
            }
            let per_rtt = RTT.secs_f64();
            for (name, fair) in [("jain-95", 0.95), ("jain-98", 0.98), ("jain-99", 0.99)] {
                put(name, self.fair_after(start, fair) / per_rtt);
            }
            put("jain-after-2", self.fairness(start + 2.0 * per_rtt, start + 3.0 * per_rtt));
            // A single packet is no standing queue.
            let peak = queue.iter().position(|bytes| *bytes == highest).unwrap_or_default();
            let rest = queue[peak..].iter().position(|bytes| *bytes <= 1_500.0);
            let drained = rest.map_or(f64::NAN, |rest| (peak + rest) as f64 * self.step.secs_f64());
            put("drained", drained / per_rtt);
            put("settled", drained.max(self.fair_after(start, 0.99)) / per_rtt);
        }
    }

    /// Adds the numbers of each departure that leaves others.
    fn departures(&self, put: &mut impl FnMut(&str, f64)) {
        for (index, (_, stop)) in self.flows[..FLOWS - 1].iter().copied().enumerate() {
            let mut put = |what: &str, value| put(&format!("departure-{}/{what}", index + 1), value);
            put("queue", largest(self.queue(stop, stop + EFFECT)));
            put("lowest-queue", smallest(self.queue(stop, stop + 1.0)));
            put("lambda-kappa", self.lambda_to_kappa(stop, stop + 1.0));
            let input = largest(self.field(stop, stop + EFFECT, |r| r.input_bps * MEGA));
            put("overshoot", 100.0 * (input / CAPACITY.mbps() - 1.0));
            let (_, peak) = self.extremes(stop, stop + EFFECT);
            put("rate", 100.0 * (peak / self.announced(stop + SETTLED, stop + PHASE) - 1.0));
        }
    }

    /// Adds what the third flow has delivered in its first seconds, kB, and in the seconds after.
    fn third(&self, put: &mut impl FnMut(&str, f64)) {
        let (start, _) = self.flows[2];
        let delivered = |s: f64| self.delivered_by(2, start + s) / 1e3;
        put("third/second-1", delivered(1.0));
        for second in [2u8, 3, 4] {
            let end = f64::from(second);
            put(&format!("third/second-{second}"), delivered(end) - delivered(end - 1.0));
        }
    }

    /// Returns payload bytes that a flow has delivered by a time in s, interpolated.
    pub(crate) fn delivered_by(&self, flow: usize, time: f64) -> f64 {
        let at = time * PER_SECOND as f64;
        let by = |end: usize| end.checked_sub(1).map_or(0, |end| self.intervals[end].delivered[flow]) as f64;
        let (low, high) = (by(at as usize), by(at as usize + 1));
        low + (high - low) * at.fract()
    }

    /// Returns the queue between two times in s, step by step.
    pub(crate) fn queue(&self, from: f64, to: f64) -> Vec<f64> {
        self.queue[self.steps(from, to)].iter().map(|bytes| *bytes as f64).collect()
    }

    /// Returns the steps between two times in s.
    fn steps(&self, from: f64, to: f64) -> Range<usize> {
        let step = |time: f64| ((time / self.step.secs_f64()).round() as usize).min(self.queue.len());
        step(from)..step(to)
    }

    /// Returns the records of the control intervals that ended between two times in s.
    pub(crate) fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &ControlInterval> {
        self.records.iter().filter(move |record| (from..to).contains(&seconds(record)))
    }

    fn field(&self, from: f64, to: f64, field: impl Fn(&ControlInterval) -> f64) -> Vec<f64> {
        self.between(from, to).map(field).collect()
    }

    /// Returns the smallest ratio of the average queue to its target.
    fn lambda_to_kappa(&self, from: f64, to: f64) -> f64 {
        smallest(self.field(from, to, |r| r.lambda / r.kappa))
    }

    /// Returns the mean error of the capacity that ErrorS found, Mb/s.
    fn error(&self, from: f64, to: f64) -> f64 {
        mean(&self.field(from, to, |r| r.xi_bps * MEGA)) / self.alpha
    }

    /// Returns the believed capacity less the mean one of the link, Mb/s.
    fn true_error(&self, from: f64, to: f64) -> f64 {
        let believed = mean(&self.field(from, to, |r| r.capacity_bps * MEGA));
        let [first, last] = self.at([from, to]);
        believed - (last.possible - first.possible) as f64 * 8.0 * MEGA / (to - from)
    }

    /// Returns the intervals that end at two times in s.
    fn at(&self, times: [f64; 2]) -> [&Interval; 2] {
        times.map(|time| &self.intervals[(time * PER_SECOND as f64) as usize - 1])
    }

    /// Returns the lowest and the highest rate that RCP announced, Mb/s.
    fn extremes(&self, from: f64, to: f64) -> (f64, f64) {
        let rates = self.field(from, to, |r| r.rate_bps * MEGA);
        (smallest(rates.iter().copied()), largest(rates))
    }

    /// Returns the mean rate that RCP announced, Mb/s.
    fn announced(&self, from: f64, to: f64) -> f64 {
        mean(&self.field(from, to, |r| r.rate_bps * MEGA))
    }

    /// Returns the bytes that left the link as a share of those that could have, %.
    fn utilisation(&self, from: f64, to: f64) -> f64 {
        let [from, to] = self.at([from, to]);
        100.0 * (to.left - from.left) as f64 / (to.possible - from.possible) as f64
    }

    /// Returns the packets dropped between two times in s.
    fn dropped(&self, from: f64, to: f64) -> f64 {
        let by = |time: f64| {
            let count = ((time * PER_SECOND as f64) as usize).min(self.intervals.len());
            count.checked_sub(1).map_or(0, |last| self.intervals[last].dropped)
        };
        (by(to) - by(from)) as f64
    }

    /// Returns the mean of window over RTT of a flow between two times in s, Mb/s.
    pub(crate) fn rate(&self, flow: usize, from: f64, to: f64) -> f64 {
        mean(&self.rates[self.steps(from, to)].iter().map(|rates| rates[flow]).collect::<Vec<f64>>())
    }

    /// Returns Jain's index of the mean rates of the flows that send throughout.
    pub(crate) fn fairness(&self, from: f64, to: f64) -> f64 {
        let sends = |flow: &usize| self.flows[*flow].0 <= from && self.flows[*flow].1 >= to;
        let active: Vec<f64> = (0..FLOWS).filter(sends).map(|flow| self.rate(flow, from, to)).collect();
        jain(&active)
    }

    /// Returns the time after an arrival from which on every mean over an RTT is at least this fair until
    /// the next arrival, s.
    fn fair_after(&self, start: f64, fair: f64) -> f64 {
        let rtt = RTT.secs_f64();
        let last = (PHASE / rtt) as usize - 1;
        let is_fair = |number: &usize| {
            let from = start + *number as f64 * rtt;
            self.fairness(from, from + rtt) >= fair
        };
        let unfair = (0..last).rev().find(|number| !is_fair(number));
        unfair.map_or(0.0, |unfair| if unfair + 1 == last { f64::NAN } else { (unfair + 1) as f64 * rtt })
    }
}
