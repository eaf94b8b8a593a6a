//! The start times and time limits of the measurements in a series.

use headway_units::{Duration, Instant};

/// Delay that the next measurement can make up for, as a share of the interval.
const SLACK: f64 = 0.1;
/// Number of consecutive late measurements after which the interval is too short for the path.
const MAX_LATE: u32 = 3;
/// Ratio of the new interval to the duration of the measurement that made it necessary.
const HEADROOM: f64 = 1.1;

/// Measurements that start at regular intervals, as far as the path permits.
#[derive(Clone, Debug)]
pub struct Series {
    interval: Duration,
    /// The scheduled start of the current measurement.
    due: Instant,
    late: u32,
}

impl Series {
    /// Creates a series with an answer every `interval`, the first one starting at `begin`.
    ///
    /// With a zero interval, measurements follow each other without a time limit.
    pub fn new(interval: Duration, begin: Instant) -> Series {
        Series { interval, due: begin, late: 0 }
    }

    /// Returns the current interval: the requested one, or a longer one if that proved too short.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the time left at `now` until the next measurement is due, or `None` without a limit.
    pub fn room(&self, now: Instant) -> Option<Duration> {
        (self.interval > Duration::ZERO).then(|| (self.due + self.interval - now).max(Duration::ZERO))
    }

    /// Returns when to start the next measurement after one that ended at `now`; this may
    /// lengthen the interval.
    pub fn next(&mut self, now: Instant) -> Instant {
        if self.interval == Duration::ZERO {
            self.due = now;
            return now;
        }
        let took = now - self.due;
        if took <= self.interval.scale(1.0 + SLACK) {
            self.late = 0;
            self.due += self.interval;
            return self.due.max(now);
        }
        self.late += 1;
        if self.late >= MAX_LATE {
            self.late = 0;
            self.interval = round_up(took.scale(HEADROOM));
            self.due = now;
        } else {
            // The grid stays fixed; measurements that cannot be completed in time are skipped.
            let missed = (took.secs_f64() / self.interval.secs_f64()).ceil() as i64;
            self.due += self.interval * missed;
        }
        self.due
    }
}

/// Rounds up to the next time with two significant digits.
fn round_up(time: Duration) -> Duration {
    let mut unit = 1;
    while time.ns() > 100 * unit {
        unit *= 10;
    }
    Duration::from_ns((time.ns() + unit - 1) / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    /// Returns the start times of measurements with these durations in milliseconds, and the final interval.
    fn begins(interval_ms: i64, took_ms: &[i64]) -> (Vec<i64>, i64) {
        let mut series = Series::new(Duration::from_ms(interval_ms), at(0));
        let mut begin = at(0);
        let mut begins = Vec::new();
        for took in took_ms {
            begins.push((begin - at(0)).ns() / 1_000_000);
            begin = series.next(begin + Duration::from_ms(*took));
        }
        (begins, series.interval().ns() / 1_000_000)
    }

    #[test]
    fn measurements_that_fit_begin_on_a_grid() {
        assert_eq!(begins(1_000, &[300, 900, 1_000, 10, 500]), (vec![0, 1_000, 2_000, 3_000, 4_000], 1_000));
    }

    #[test]
    fn a_little_lateness_does_not_move_the_grid() {
        assert_eq!(begins(1_000, &[1_080, 950, 900, 500]), (vec![0, 1_080, 2_030, 3_000], 1_000));
    }

    #[test]
    fn a_single_long_measurement_leaves_answers_out() {
        assert_eq!(
            begins(1_000, &[2_300, 900, 1_400, 900, 900]),
            (vec![0, 3_000, 4_000, 6_000, 7_000], 1_000)
        );
    }

    #[test]
    fn a_path_that_needs_longer_gets_a_longer_interval_on_which_it_stays() {
        assert_eq!(
            begins(1_000, &[1_340, 1_340, 1_340, 1_340, 1_340]),
            (vec![0, 2_000, 4_000, 5_340, 6_840], 1_500)
        );
    }

    #[test]
    fn without_an_interval_one_follows_the_other() {
        assert_eq!(begins(0, &[300, 900, 100]), (vec![0, 300, 1_200], 0));
        assert_eq!(Series::new(Duration::ZERO, at(0)).room(at(5)), None);
    }

    #[test]
    fn a_measurement_has_until_the_next_is_due() {
        let mut series = Series::new(Duration::from_ms(1_000), at(0));
        assert_eq!(series.room(at(0)), Some(Duration::from_ms(1_000)));
        let begin = series.next(at(1_050));
        assert_eq!(series.room(begin), Some(Duration::from_ms(950)));
        assert_eq!(series.room(at(9_000)), Some(Duration::ZERO));
    }
}
