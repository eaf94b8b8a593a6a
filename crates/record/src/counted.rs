//! The time that a summary counts, and the rates of flows in it.

use headway_units::{Bytes, Duration, Rate};

use crate::completions::Completions;
use crate::summary::FlowResult;

/// The part of a run that its summary counts: from the end of warm-up to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// When it begins, since the start of the run.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
}

impl Counted {
    /// Returns the time after `warmup` that has `length`.
    pub fn new(warmup: Duration, length: Duration) -> Counted {
        let from_ns = warmup.ns().unsigned_abs();
        Counted { from_ns, to_ns: from_ns + length.ns().unsigned_abs() }
    }

    /// Returns the rate at which a flow delivered `bytes` in the counted time: over the part of it in which
    /// the flow lived if it has finished, otherwise over all of it.
    pub fn goodput(&self, bytes: u64, start_ns: u64, finished_ns: Option<u64>) -> u64 {
        let (from, to) = match finished_ns {
            Some(finished) => (self.from_ns.max(start_ns), self.to_ns.min(finished)),
            None => (self.from_ns, self.to_ns),
        };
        let time = Duration::from_ns(to.saturating_sub(from) as i64);
        Rate::of(Bytes::new(bytes), time).unwrap_or_default().bps()
    }

    /// Returns the goodput of several flows together: over the time from the first start to the last end
    /// if all have finished.
    pub(crate) fn goodput_of_all<'a>(&self, flows: impl Iterator<Item = &'a FlowResult> + Clone) -> u64 {
        let finished = flows.clone().map(|flow| flow.finished_ns).collect::<Option<Vec<u64>>>();
        let last = finished.and_then(|all| all.into_iter().max());
        let start = flows.clone().map(|flow| flow.start_ns).min().unwrap_or_default();
        match last {
            Some(last) => self.goodput(flows.map(|flow| flow.goodput_bytes).sum(), start, Some(last)),
            None => flows.map(|flow| self.goodput(flow.goodput_bytes, 0, None)).sum(),
        }
    }

    /// Returns the completion times of the flows that finished in the counted time, exact to the
    /// nanosecond; `None` if none did.
    pub(crate) fn completions(&self, flows: &[FlowResult]) -> Option<Completions> {
        let finished = |flow: &FlowResult| flow.finished_ns.filter(|end| *end >= self.from_ns);
        let mut times: Vec<u64> =
            flows.iter().filter_map(|flow| Some(finished(flow)?.saturating_sub(flow.start_ns))).collect();
        times.sort_unstable();
        let (max_ns, count) = (*times.last()?, times.len());
        let at = |part: f64| times[((count as f64 * part) as usize).min(count - 1)];
        let alive = |at: u64| {
            let lives =
                |flow: &&FlowResult| flow.start_ns <= at && flow.finished_ns.is_none_or(|end| end > at);
            flows.iter().filter(lives).count() as u64
        };
        // The number only grows when a flow starts.
        let starts = flows.iter().map(|flow| flow.start_ns.max(self.from_ns));
        let mut starts: Vec<u64> = starts.filter(|start| *start < self.to_ns).collect();
        starts.sort_unstable();
        starts.dedup();
        Some(Completions {
            flows: count as u64,
            mean_ns: (times.iter().map(|time| u128::from(*time)).sum::<u128>() / count as u128) as u64,
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            max_ns,
            most_alive: starts.into_iter().map(alive).max().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(start_ms: u64, finished_ms: Option<u64>, bytes: u64) -> FlowResult {
        let ns = |ms: u64| ms * 1_000_000;
        FlowResult {
            start_ns: ns(start_ms),
            finished_ns: finished_ms.map(ns),
            goodput_bytes: bytes,
            ..FlowResult::default()
        }
    }

    const COUNTED: Counted = Counted { from_ns: 1_000_000_000, to_ns: 11_000_000_000 };

    #[test]
    fn a_flow_that_has_finished_is_judged_by_its_own_time() {
        let goodput =
            |flow: &FlowResult| COUNTED.goodput(flow.goodput_bytes, flow.start_ns, flow.finished_ns);
        // 1 MB from 2 s to 3 s is 8 Mb/s; from 0 s to 2 s, of which 1 s counts, as much;
        // without an end, 0.8 Mb/s.
        assert_eq!(goodput(&flow(2_000, Some(3_000), 1_000_000)), 8_000_000);
        assert_eq!(goodput(&flow(0, Some(2_000), 1_000_000)), 8_000_000);
        assert_eq!(goodput(&flow(2_000, None, 1_000_000)), 800_000);
        assert_eq!(goodput(&flow(0, Some(500), 0)), 0);
        // Two, one after the other, share 4 s.
        let both = [flow(2_000, Some(3_000), 1_000_000), flow(3_000, Some(6_000), 1_000_000)];
        assert_eq!(COUNTED.goodput_of_all(both.iter()), 4_000_000);
        let mixed = [flow(2_000, Some(3_000), 1_000_000), flow(2_000, None, 1_000_000)];
        assert_eq!(COUNTED.goodput_of_all(mixed.iter()), 1_600_000);
    }

    #[test]
    fn completion_times_count_from_the_start_of_each_flow() {
        let flows = [
            flow(0, Some(500), 1),
            flow(2_000, Some(3_000), 1),
            flow(2_500, Some(5_500), 1),
            flow(4_000, None, 1),
        ];
        let seen = COUNTED.completions(&flows).expect("two finished in the counted time");
        assert_eq!((seen.flows, seen.mean_ns, seen.max_ns), (2, 2_000_000_000, 3_000_000_000));
        assert_eq!((seen.p50_ns, seen.p99_ns, seen.most_alive), (3_000_000_000, 3_000_000_000, 2));
        assert_eq!(COUNTED.completions(&flows[3..]), None);
    }
}
