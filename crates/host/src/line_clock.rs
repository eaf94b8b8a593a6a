//! Actual departure times: a schedule may ask for a higher rate than the sender's link carries.

use headway_units::{Bytes, Instant, Rate};

/// The sender's own link, which transmits packets one after another (rapid 2.2).
///
/// The top rates of a p-stream may exceed the line rate. The schedule still stays as it is, to preserve the
/// average rate of the stream: late packets leave back to back until they have caught up with the schedule,
/// and estimators use the actual departure times.
#[derive(Clone, Copy, Debug)]
pub struct LineClock {
    line: Rate,
    free: Instant,
}

impl LineClock {
    /// Creates an idle link of the given rate.
    pub const fn new(line: Rate) -> LineClock {
        LineClock { line, free: Instant::ZERO }
    }

    /// Returns when a packet scheduled for `scheduled` starts to leave: max(t_s, start of the previous
    /// packet + its P / C).
    pub fn depart(&mut self, scheduled: Instant, size: Bytes) -> Instant {
        let start = scheduled.max(self.free);
        self.free = start + self.line.time_for(size);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_estimate::{Schedule, Shape};
    use headway_units::Duration;

    #[test]
    fn near_the_line_rate_gaps_stay_possible_and_the_average_is_kept() {
        let packet = Bytes::new(9038);
        let average = Rate::from_mbps(9_500.0);
        let shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
        let schedule = Schedule::p_stream(shape, average, packet);
        assert!(schedule.top_rate() > Rate::from_mbps(10_000.0));

        let mut line = LineClock::new(Rate::from_mbps(10_000.0));
        let mut scheduled = Instant::ZERO;
        let first = line.depart(scheduled, packet);
        let mut last = first;
        let mut shortest = Duration::MAX;
        for gap in schedule.gaps.iter().cycle().take(100 * 64) {
            scheduled += *gap;
            let departure = line.depart(scheduled, packet);
            shortest = shortest.min(departure - last);
            last = departure;
        }
        assert_eq!(shortest, Duration::from_ns(7_230));
        let sent = Rate::of(packet * 6_400, last - first).expect("time passed");
        assert!((sent.bps_f64() / average.bps_f64() - 1.0).abs() < 0.005, "{sent}");
        assert!(sent > Rate::from_mbps(9_300.0));
    }
}
