//! What figures show of a run, between two times in s.

use headway_figures::Curve;
use headway_record::ControlInterval;

use super::numbers::{MEGA, seconds};
use super::{CAPACITY, PER_SECOND, Trace};
use crate::statistics::largest;

/// Length of the intervals of averages, s.
const WIDTH: f64 = 1.0 / PER_SECOND as f64;

type Points = Vec<(f64, f64)>;

impl Trace {
    /// Returns window over RTT of every flow, and the full capacity.
    pub(crate) fn rate_curves(&self, from: f64, to: f64) -> Vec<Curve> {
        let curve = |(index, (start, stop)): (usize, &(f64, f64))| {
            let points =
                ends(from.max(*start), to.min(*stop)).map(|end| (end, self.rate(index, end - WIDTH, end)));
            Curve::line(&format!("flow {}", index + 1), points.collect())
        };
        let sends = |(_, (start, stop)): &(usize, &(f64, f64))| *start < to && *stop > from;
        let mut curves: Vec<Curve> = self.flows.iter().enumerate().filter(sends).map(curve).collect();
        let capacity = CAPACITY.mbps();
        curves.push(Curve::reference("capacity", vec![(from, capacity), (to, capacity)]));
        curves
    }

    /// Returns the longest queue in each 100 ms, and lambda and kappa where the law has them, in kB.
    pub(crate) fn queue_curves(&self, from: f64, to: f64) -> Vec<Curve> {
        let mut curves = vec![Curve::line("queue", self.queue_points(from, to))];
        if self.has_target {
            curves.push(Curve::line("average", self.points(from, to, |r| r.lambda / 1e3)));
            curves.push(Curve::line("target", self.points(from, to, |r| r.kappa / 1e3)));
        }
        curves
    }

    /// Returns the longest queue in each 100 ms, kB.
    pub(crate) fn queue_points(&self, from: f64, to: f64) -> Points {
        let longest = |end: f64| largest(self.queue(end - WIDTH, end)) / 1e3;
        ends(from, to).map(|end| (end, longest(end))).collect()
    }

    /// Returns the rate that RCP announces, Mb/s; nothing for other laws.
    pub(crate) fn announced_points(&self, from: f64, to: f64) -> Points {
        let points = self.points(from, to, |r| r.rate_bps * MEGA);
        if points.iter().any(|(_, rate)| *rate > 0.0) { points } else { Vec::new() }
    }

    /// Returns the error of the capacity that ErrorS found, Mb/s; nothing for other laws.
    pub(crate) fn error_points(&self, from: f64, to: f64) -> Points {
        if self.alpha.is_nan() {
            return Vec::new();
        }
        self.points(from, to, |r| r.xi_bps * MEGA / self.alpha)
    }

    /// Returns Jain's index in each 100 ms.
    pub(crate) fn fairness_points(&self, from: f64, to: f64) -> Points {
        ends(from, to).map(|end| (end, self.fairness(end - WIDTH, end))).collect()
    }

    /// Returns the payload that the third flow has delivered, kB.
    pub(crate) fn delivered_points(&self, from: f64, to: f64) -> Points {
        ends(from, to).map(|end| (end, self.delivered_by(2, end) / 1e3)).collect()
    }

    fn points(&self, from: f64, to: f64, value: impl Fn(&ControlInterval) -> f64) -> Points {
        self.between(from, to).map(|record| (seconds(record), value(record))).collect()
    }
}

/// Iterates over the ends of the intervals of 100 ms between two times.
fn ends(from: f64, to: f64) -> impl Iterator<Item = f64> {
    let [first, last] = [from, to].map(|time| (time / WIDTH).ceil() as usize);
    (first..last).map(|interval| (interval + 1) as f64 * WIDTH)
}
