//! Running totals of flows that come and go.

use headway_units::{Bytes, Duration};

use crate::completions::Completions;
use crate::histogram::Histogram;
use crate::summary::{Group, Total};

/// One completed flow.
#[derive(Clone, Copy, Debug)]
pub struct Completed {
    /// Payload.
    pub size: Bytes,
    /// Completion time.
    pub time: Duration,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// Running totals of a group whose flows come and go.
#[derive(Clone, Debug, Default)]
pub struct CompletionTally {
    arrived: u64,
    alive: u64,
    most_alive: u64,
    bytes: u64,
    sent: u64,
    retransmitted: u64,
    timeouts: u64,
    slowest: Option<f64>,
    fastest: f64,
    /// Sums over flows of payload per completion time, and of its square.
    rates: f64,
    squares: f64,
    times: Histogram,
}

impl CompletionTally {
    /// Counts an arrival.
    pub fn arrive(&mut self) {
        self.arrived += 1;
        self.alive += 1;
        self.most_alive = self.most_alive.max(self.alive);
    }

    /// Counts a completion.
    pub fn complete(&mut self, flow: &Completed) {
        self.alive -= 1;
        self.bytes += flow.size.get();
        self.sent += flow.sent;
        self.retransmitted += flow.retransmitted;
        self.timeouts += flow.timeouts;
        let ns = flow.time.ns().unsigned_abs();
        self.times.add(ns);
        let rate = flow.size.get() as f64 * 8e9 / ns.max(1) as f64;
        self.slowest = Some(self.slowest.map_or(rate, |slowest| slowest.min(rate)));
        self.fastest = self.fastest.max(rate);
        self.rates += rate;
        self.squares += rate * rate;
    }

    /// Discards what was counted so far, at the end of warm-up; flows that are alive stay alive.
    pub fn reset(&mut self) {
        *self = CompletionTally { alive: self.alive, most_alive: self.alive, ..CompletionTally::default() };
    }

    /// Returns the completion times.
    pub fn times(&self) -> &Histogram {
        &self.times
    }

    /// The group of this name over the time that was counted. Goodput is the payload of completed flows; its
    /// minimum, maximum and fairness are those of each flow's payload per completion time.
    pub fn group(&self, name: String, counted: Duration) -> Group {
        let finished = self.times.count();
        let ns = |time: Duration| time.ns().unsigned_abs();
        let fairness =
            if finished > 0 { self.rates * self.rates / (finished as f64 * self.squares) } else { 1.0 };
        let seconds = counted.secs_f64();
        Group {
            name,
            total: Total {
                flows: self.arrived,
                finished,
                goodput_bps: if seconds > 0.0 { (self.bytes as f64 * 8.0 / seconds) as u64 } else { 0 },
                goodput_min_bps: self.slowest.unwrap_or(0.0) as u64,
                goodput_max_bps: self.fastest as u64,
                fairness,
                sent: self.sent,
                retransmitted: self.retransmitted,
                timeouts: Some(self.timeouts),
            },
            completions: Some(Completions {
                flows: finished,
                mean_ns: ns(self.times.mean()),
                p50_ns: ns(self.times.quantile(0.5)),
                p95_ns: ns(self.times.quantile(0.95)),
                p99_ns: ns(self.times.quantile(0.99)),
                max_ns: ns(self.times.max()),
                most_alive: self.most_alive,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_follow_from_the_flows() {
        let mut tally = CompletionTally::default();
        let flow = |ms| Completed {
            size: Bytes::new(100_000),
            time: Duration::from_ms(ms),
            sent: 70,
            retransmitted: 1,
            timeouts: 0,
        };
        (0..3).for_each(|_| tally.arrive());
        tally.complete(&flow(10));
        tally.complete(&flow(30));
        let group = tally.group("web".to_owned(), Duration::from_ms(1_000));
        assert_eq!((group.total.flows, group.total.finished, group.total.goodput_bps), (3, 2, 1_600_000));
        assert_eq!((group.total.goodput_min_bps / 1_000, group.total.goodput_max_bps), (26_666, 80_000_000));
        assert!((group.total.fairness - 0.8).abs() < 1e-9, "{}", group.total.fairness);
        let completions = group.completions.unwrap();
        assert_eq!(
            (completions.mean_ns, completions.max_ns, completions.most_alive),
            (20_000_000, 30_000_000, 3)
        );
        tally.reset();
        assert_eq!(tally.group(String::new(), Duration::ZERO).completions.unwrap().most_alive, 1);
    }
}
