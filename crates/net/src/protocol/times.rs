//! Compact encodings of many times: the gaps of a schedule and the timestamps of a stream.

use headway_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Run-length encoded gaps: a p-stream has few different gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapRuns(Vec<(u64, u32)>);

impl GapRuns {
    /// Encodes gaps; negative ones become zero.
    pub fn encode(gaps: &[Duration]) -> GapRuns {
        let mut runs: Vec<(u64, u32)> = Vec::new();
        for gap in gaps {
            let ns = gap.ns().max(0) as u64;
            match runs.last_mut() {
                Some((run, count)) if *run == ns => *count += 1,
                _ => runs.push((ns, 1)),
            }
        }
        GapRuns(runs)
    }

    /// Decodes the gaps; `None` if there are more than `most` of them or one is out of range.
    pub fn decode(&self, most: usize) -> Option<Vec<Duration>> {
        let mut gaps = Vec::new();
        for (ns, count) in &self.0 {
            let gap = Duration::from_ns(i64::try_from(*ns).ok()?);
            let count = *count as usize;
            if count > most - gaps.len() {
                return None;
            }
            gaps.extend(std::iter::repeat_n(gap, count));
        }
        Some(gaps)
    }
}

/// Delta-encoded times, which take about three bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeList {
    first: u64,
    differences: Vec<i64>,
}

impl TimeList {
    /// Encodes times in the given order; they need not increase.
    pub fn encode(times: impl IntoIterator<Item = Instant>) -> TimeList {
        let mut times = times.into_iter();
        let Some(first) = times.next() else {
            return TimeList::default();
        };
        let mut last = first;
        let differences = times
            .map(|time| {
                let difference = (time - last).ns();
                last = time;
                difference
            })
            .collect();
        TimeList { first: first.ns(), differences }
    }

    /// Decodes exactly `count` times; `None` if the list has another length.
    pub fn decode(&self, count: usize) -> Option<Vec<Instant>> {
        if count == 0 {
            return (self.first == 0 && self.differences.is_empty()).then(Vec::new);
        }
        if self.differences.len() != count - 1 {
            return None;
        }
        let mut time = self.first;
        let mut times = Vec::with_capacity(count);
        times.push(Instant::from_ns(time));
        for difference in &self.differences {
            time = time.wrapping_add_signed(*difference);
            times.push(Instant::from_ns(time));
        }
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_survive_run_lengths() {
        let gaps: Vec<Duration> = [12, 12, 12, 9, 9, 12].map(Duration::from_us).to_vec();
        let runs = GapRuns::encode(&gaps);
        assert_eq!(runs.0.len(), 3);
        assert_eq!(runs.decode(6), Some(gaps));
        assert_eq!(runs.decode(5), None);
        assert_eq!(GapRuns(vec![(1, u32::MAX), (1, u32::MAX)]).decode(10), None);
        assert_eq!(GapRuns(vec![(u64::MAX, 1)]).decode(10), None);
    }

    #[test]
    fn times_survive_differences() {
        let times: Vec<Instant> = [10, 30, 20, u64::MAX].map(Instant::from_ns).to_vec();
        let list = TimeList::encode(times.iter().copied());
        assert_eq!(list.decode(4), Some(times));
        assert_eq!(list.decode(3), None);
        assert_eq!(TimeList::encode([]).decode(0), Some(Vec::new()));
        assert_eq!(list.decode(0), None);
    }
}
