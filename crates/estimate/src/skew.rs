//! The difference between the rates of two clocks, from the lower envelope of one-way delays.

use headway_units::{Duration, Instant};

/// A line is believed if at least this many more delays lie on it than on the lowest delay ...
const MORE_ON_LINE: usize = 4;
/// ... or if the mean distance of all delays from it is below this share of that from the lowest delay.
const CLOSER: f64 = 0.5;
/// Minimum number of delays.
const LEAST: usize = 8;

/// How fast one-way delays grow because the clocks of sender and receiver run at different rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Skew {
    /// Growth per time sent, as a number: 50e-6 is 50 ppm.
    pub slope: f64,
    origin: Instant,
}

impl Skew {
    /// Fits the line below all `delays` (send time, delay; in order of time) that is closest to them.
    ///
    /// The line is an edge of their lower convex hull, the one below the mean send time (Moon, Skelly,
    /// Towsley, INFOCOM 1999). Returns a slope of zero unless the line explains the delays clearly better
    /// than equal clocks do: under load few packets meet empty queues, and an envelope through two of the
    /// others has a random slope. Delays within `quantum` of a line lie on it.
    pub(crate) fn of(delays: &[(Instant, Duration)], quantum: Duration) -> Skew {
        let none = Skew { slope: 0.0, origin: delays.first().map_or(Instant::ZERO, |first| first.0) };
        if delays.len() < LEAST {
            return none;
        }
        let lowest = delays.iter().map(|delay| delay.1).min().unwrap_or_default();
        // Relative to the first and the lowest, nanoseconds of days fit into floats.
        let points: Vec<(f64, f64)> = delays
            .iter()
            .map(|(sent, delay)| ((*sent - none.origin).ns() as f64, (*delay - lowest).ns() as f64))
            .collect();
        let Some((start, slope)) = envelope(&points) else { return none };
        let above_line = points.iter().map(|(x, y)| y - (start.1 + slope * (x - start.0)));
        let above_lowest = points.iter().map(|point| point.1);
        let quantum = quantum.ns() as f64;
        let count = |above: &mut dyn Iterator<Item = f64>| above.filter(|above| *above <= quantum).count();
        let on_line = count(&mut above_line.clone());
        let more = on_line >= count(&mut above_lowest.clone()) + MORE_ON_LINE;
        let closer = above_line.sum::<f64>() < CLOSER * above_lowest.sum::<f64>();
        if more || closer { Skew { slope, ..none } } else { none }
    }

    /// Returns `delay` of a packet sent at `sent` as with equal clocks.
    pub fn corrected(&self, sent: Instant, delay: Duration) -> Duration {
        delay - (sent - self.origin).scale(self.slope)
    }
}

/// Returns a point and the slope of the edge of the lower convex hull below the mean x; `points` ascend in x.
fn envelope(points: &[(f64, f64)]) -> Option<((f64, f64), f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., a, b] = hull[..] {
            // Drops b unless it is below the line from a to the new point.
            if (b.0 - a.0) * (point.1 - a.1) > (b.1 - a.1) * (point.0 - a.0) {
                break;
            }
            hull.pop();
        }
        match hull.last_mut() {
            // Of two at the same time, the lower one counts.
            Some(last) if last.0 == point.0 => last.1 = last.1.min(point.1),
            _ => hull.push(point),
        }
    }
    let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
    let edge = hull.windows(2).find(|edge| edge[1].0 >= mean)?;
    Some((edge[0], (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays of packets every 20 ms: 5 s of offset, the skew, and queueing delay of 0 to 90 us.
    fn delays(slope: f64, count: u64, queueing: impl Fn(u64) -> i64) -> Vec<(Instant, Duration)> {
        let delay = |index: u64| {
            let sent = index * 20_000_000;
            let skewed = 5_000_000_000 + (sent as f64 * slope).round() as i64;
            (Instant::from_ns(sent), Duration::from_ns(skewed + queueing(index)))
        };
        (0..count).map(delay).collect()
    }

    #[test]
    fn the_slope_of_the_envelope_is_the_skew() {
        for slope in [50e-6, -50e-6, 1e-6] {
            let delays = delays(slope, 300, |index| (index * 7 % 10) as i64 * 10_000);
            let skew = Skew::of(&delays, Duration::from_ns(2));
            assert!((skew.slope - slope).abs() < 1e-9, "{} {slope}", skew.slope);
            let corrected = |index: usize| skew.corrected(delays[index].0, delays[index].1);
            assert!((corrected(290) - corrected(0)).ns().abs() <= 2);
        }
    }

    #[test]
    fn queues_that_are_hardly_ever_empty_make_no_skew() {
        // Every delay differs, as under high load.
        let delays = delays(0.0, 300, |index| 1_000 + (index * 7_919 % 9_973) as i64 * 100);
        assert_eq!(Skew::of(&delays, Duration::from_ns(2)).slope, 0.0);
    }

    #[test]
    fn a_few_packets_tell_nothing() {
        assert_eq!(Skew::of(&delays(50e-6, 7, |_| 0), Duration::from_ns(2)).slope, 0.0);
        assert_eq!(Skew::of(&[], Duration::from_ns(2)), Skew::default());
    }
}
