//! Sessions that fetch one flow after another and think in between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headway_units::Duration;
use rand_pcg::Pcg64Mcg;

use crate::arrivals::{Arrival, SizeDistribution};
use crate::distribution::exponential;

/// The least time that a session thinks. A simulation that looks for completed flows at least this often
/// starts no flow late.
pub const MIN_THINK: Duration = Duration::from_ms(1);

/// The sessions of a group. A session fetches the next flow some time after the last one has completed, so
/// the load falls when the network is slow.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// When the sessions that think fetch their next flows, since the start of the group (ns).
    starts: BinaryHeap<Reverse<u64>>,
    /// Mean of the time to think beyond the least one (ns).
    think_ns: f64,
    sizes: SizeDistribution,
    /// Flows that may still start.
    left: u64,
    rng: Pcg64Mcg,
}

impl Sessions {
    pub(crate) fn new(
        count: u64,
        think: Duration,
        sizes: SizeDistribution,
        flows: u64,
        rng: Pcg64Mcg,
    ) -> Sessions {
        let think_ns = (think - MIN_THINK).ns().max(0) as f64;
        let mut sessions = Sessions { starts: BinaryHeap::new(), think_ns, sizes, left: flows, rng };
        (0..count).for_each(|_| sessions.complete(Duration::ZERO));
        sessions
    }

    /// Returns when the next flow starts, counted from the start of the group; `None` when no session thinks.
    pub fn next(&self) -> Option<Duration> {
        let Reverse(at) = self.starts.peek().filter(|_| self.left > 0)?;
        Some(Duration::from_ns(*at as i64))
    }

    /// Starts the next flow.
    pub fn start(&mut self) -> Option<Arrival> {
        let at = self.next()?;
        self.starts.pop();
        self.left -= 1;
        Some(Arrival { at, size: self.sizes.sample(&mut self.rng) })
    }

    /// The flow of a session completed at `at`, counted from the start of the group: the session thinks.
    pub fn complete(&mut self, at: Duration) {
        let think = MIN_THINK.ns() as f64 + self.think_ns * exponential(&mut self.rng);
        self.starts.push(Reverse((at.ns() + think as i64) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrivalSpec;

    #[test]
    fn sessions_fetch_think_and_fetch_again() {
        let spec: ArrivalSpec = toml::from_str(
            "sessions = 200\nthink = '100 ms'\nsize-distribution = { kind = 'fixed', size = '9 kB' }",
        )
        .unwrap();
        let mut sessions = spec.sessions(spec.sizes(None).unwrap(), 7, 0).unwrap();
        let (mut flows, mut last, end) = (0, Duration::ZERO, Duration::from_ms(20_000));
        while let Some(at) = sessions.next().filter(|at| *at < end) {
            assert!(at >= last);
            last = at;
            let flow = sessions.start().unwrap();
            // Every flow takes 25 ms.
            sessions.complete(flow.at + Duration::from_ms(25));
            flows += 1;
        }
        // 200 sessions need 125 ms a flow, and 20 s have 160 such cycles: 32 000 flows, less what
        // the first ones miss.
        assert!((31_300..=32_500).contains(&flows), "{flows}");
    }

    #[test]
    fn a_limit_of_flows_ends_all_sessions() {
        let spec: ArrivalSpec = toml::from_str(
            "sessions = 3\nthink = '2 ms'\nflows = 5\nsize-distribution = { kind = 'fixed', size = '9 kB' }",
        )
        .unwrap();
        let mut sessions = spec.sessions(spec.sizes(None).unwrap(), 7, 0).unwrap();
        let mut flows = 0;
        while let Some(flow) = sessions.start() {
            assert!(flow.at >= MIN_THINK);
            sessions.complete(flow.at);
            flows += 1;
        }
        assert_eq!(flows, 5);
    }
}
