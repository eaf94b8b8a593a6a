//! Errors of gaps: how far those at the next hop are from the intended ones.

use std::collections::BTreeMap;

use headway_units::statistics::{closest, deviation, mean, sorted};
use headway_units::{Duration, Instant};
use serde::Serialize;

use super::arrivals::Arrival;
use super::hosts::MTU;

/// A full packet with its Ethernet header.
const FULL: u32 = MTU + 14;

/// Errors of one run in microseconds: positive where a gap is too long.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Errors {
    pub(super) gaps: usize,
    pub(super) mean_us: f64,
    pub(super) deviation_us: f64,
    pub(super) p1_us: f64,
    pub(super) p99_us: f64,
}

impl Errors {
    /// Compares gaps with an intended one; `None` without any.
    pub(super) fn of(gaps: impl Iterator<Item = Duration>, intended: Duration) -> Option<Errors> {
        let errors = sorted(gaps.map(|gap| (gap - intended).us()).collect());
        Some(Errors {
            gaps: errors.len(),
            mean_us: mean(&errors),
            deviation_us: deviation(&errors),
            p1_us: closest(&errors, 0.01)?,
            p99_us: closest(&errors, 0.99)?,
        })
    }
}

/// Returns the times at which full packets arrived, for each source port.
pub(super) fn by_flow(arrivals: &[Arrival]) -> Vec<Vec<Instant>> {
    let mut flows: BTreeMap<u16, Vec<Instant>> = BTreeMap::new();
    for arrival in arrivals.iter().filter(|arrival| arrival.port != 0 && arrival.len == FULL) {
        flows.entry(arrival.port).or_default().push(arrival.at);
    }
    flows.into_values().collect()
}

/// Returns the gaps between the packets of each flow.
pub(super) fn gaps(flows: &[Vec<Instant>]) -> impl Iterator<Item = Duration> {
    flows.iter().flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(us: u64, port: u16) -> Arrival {
        Arrival { at: Instant::from_ns(us * 1000), len: FULL, ethertype: 0x0800, port }
    }

    #[test]
    fn flows_that_interleave_have_their_own_gaps() {
        let acknowledgement = Arrival { len: 66, ..full(130, 7) };
        let arrivals = [full(0, 7), full(50, 8), full(100, 7), acknowledgement, full(160, 8), full(220, 7)];
        let flows = by_flow(&arrivals);
        let found: Vec<i64> = gaps(&flows).map(|gap| gap.ns() / 1000).collect();
        assert_eq!(found, [100, 120, 110]);
        let errors = Errors::of(gaps(&flows), Duration::from_us(100)).expect("gaps");
        assert_eq!((errors.gaps, errors.mean_us, errors.p1_us, errors.p99_us), (3, 10.0, 0.0, 20.0));
        assert!(Errors::of(std::iter::empty(), Duration::from_us(100)).is_none());
    }
}
