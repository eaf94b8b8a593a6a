//! How closely the throughput of a run follows the capacity that cross traffic leaves.

use headway_record::Series;
use headway_units::{Bytes, Duration, Instant};

use super::{BOTTLENECK, Setup, Statistics};
use crate::outcome::{Measures, named};
use crate::statistics::{correlation, mean, percent, quantile, sorted};

/// Length of the means whose correlation says whether a flow follows slow changes. A flow can only follow
/// changes that last longer than its RTT.
const SLOW: Duration = Duration::from_ms(100);
/// Length of the time series that is kept for a figure.
const DRAWN: Duration = Duration::from_ms(1_000);

/// Evaluates the intervals after warm-up, and adds throughput and free capacity at the exit of the
/// bottleneck: the median of one over the other (`share`); intervals in percent in which less than half is
/// used; the correlation with the free capacity one RTT earlier; and the same of means over 100 ms.
pub(crate) fn add_tracking(statistics: &mut Statistics, series: &Series, setup: &Setup<'_>) {
    let (mut throughput, mut free, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::ZERO + setup.warmup;
    for (index, begin, end, length) in series.intervals().filter(|(_, begin, ..)| *begin >= start) {
        let link = &series.links[BOTTLENECK][index];
        let gbps = |bytes: Bytes| bytes.get() as f64 * 8.0 / length.ns() as f64;
        throughput.push(gbps(link.measured));
        free.push(link.free().map_or(f64::NAN, gbps));
        if begin - start < DRAWN {
            ends.push((end - start).ms());
        }
    }
    statistics.drawn =
        ends.iter().zip(&throughput).zip(&free).map(|((end, used), free)| [*end, *used, *free]).collect();
    let intervals = |time: Duration| (time.ns() / setup.interval.ns()).max(1).unsigned_abs() as usize;
    statistics.numbers.extend(follow(&throughput, &free, intervals(setup.rtt), intervals(SLOW)));
}

/// Compares throughput and free capacity; `rtt` and `slow` count intervals.
fn follow(throughput: &[f64], free: &[f64], rtt: usize, slow: usize) -> Measures {
    let both = throughput.iter().zip(free).filter(|(_, free)| **free > 0.0);
    let shares: Vec<f64> = both.map(|(used, free)| used / free).collect();
    let later = throughput.get(rtt..).unwrap_or_default();
    let earlier = &free[..later.len()];
    let means = |values: &[f64]| values.chunks_exact(slow).map(mean).collect::<Vec<_>>();
    named([
        ("below-half", percent(&shares, |share| share < 0.5)),
        ("share", quantile(&sorted(shares), 0.5)),
        ("correlation", correlation(later, earlier)),
        ("slow-correlation", correlation(&means(later), &means(earlier))),
    ])
}

#[cfg(test)]
mod tests {
    use headway_record::Interval;

    use super::*;
    use crate::closed_loop::Cross;

    #[test]
    fn a_flow_that_repeats_what_was_free_one_rtt_earlier_follows_it() {
        // Slow steps of 4 intervals, with an alternation on top.
        let free: Vec<f64> = (0..48).map(|i| [4.0, 8.0, 6.0][i / 4 % 3] + (i % 2) as f64).collect();
        let delayed: Vec<f64> = (0..48).map(|i: usize| free[i.saturating_sub(3)] / 2.0).collect();
        let seen = follow(&delayed, &free, 3, 4);
        assert!((seen["correlation"] - 1.0).abs() < 1e-12 && (seen["slow-correlation"] - 1.0).abs() < 1e-12);
        // A flow that does the opposite.
        let opposite: Vec<f64> = delayed.iter().map(|used| 5.0 - used).collect();
        assert!((follow(&opposite, &free, 3, 4)["slow-correlation"] + 1.0).abs() < 1e-12);
        // A constant rate follows nothing.
        assert!(follow(&[5.0; 48], &free, 3, 4)["correlation"].is_nan());
    }

    #[test]
    fn shares_of_known_values() {
        let seen = follow(&[8.0, 2.0, 6.0, 4.0, 0.0], &[8.0, 8.0, 8.0, 4.0, 0.0], 1, 2);
        // 1, 1/4, 3/4 and 1; where nothing is free there is no share.
        assert_eq!((seen["share"], seen["below-half"]), (1.0, 25.0));
    }

    #[test]
    fn only_the_time_after_warm_up_counts() {
        let link = |measured: u64, cross: u64| Interval {
            capacity: Some(Bytes::new(1_250_000)),
            measured: Bytes::new(measured),
            cross: Bytes::new(cross),
            ..Interval::default()
        };
        let series = Series {
            ends: (1..=3).map(|i| Instant::ZERO + Duration::from_ms(i)).collect(),
            links: vec![vec![link(0, 0), link(750_000, 250_000), link(500_000, 250_000)]],
            ..Series::default()
        };
        let millisecond = Duration::from_ms(1);
        let setup = Setup {
            flows: Vec::new(),
            cross: Cross::Bct,
            rtt: millisecond,
            loss: 0.0,
            buffer: Bytes::ZERO,
            warmup: millisecond,
            measured: millisecond * 2,
            interval: millisecond,
        };
        let mut statistics = Statistics::default();
        add_tracking(&mut statistics, &series, &setup);
        let seen = &statistics.numbers;
        assert_eq!(statistics.drawn, [[1.0, 6.0, 8.0], [2.0, 4.0, 8.0]]);
        assert_eq!((seen["share"], seen["below-half"]), (0.75, 0.0));
    }
}
