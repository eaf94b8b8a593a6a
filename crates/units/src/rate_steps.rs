//! Rates that change at given times.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::rate::Rate;
use super::time::{Duration, Instant};

/// Work per byte. One unit is what one bit per second does in one nanosecond, so neither times nor
/// sizes leave a remainder.
pub const WORK_PER_BYTE: u64 = 8_000_000_000;

/// The most bytes whose work surely fits into 64 bits with a remainder.
const MAX_PART: u64 = 1 << 30;

/// A rate that changes at given times; the last one stays.
///
/// In files a list of times and rates, such as `[["0 s", "10 Gb/s"], ["5 s", "2 Gb/s"]]`: the first time is
/// 0, the others ascend, and no rate is zero. Only [`RateSteps::with_outages`] makes steps with a rate of
/// zero. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(Duration, Rate)>", into = "Vec<(Duration, Rate)>")]
pub struct RateSteps {
    /// The instant from which the times of the list count (ns).
    origin: u64,
    /// Start (ns) and rate (bits per second) of every step; never empty, ascending. Neither the first nor
    /// the last rate is zero.
    steps: Arc<[(u64, u64)]>,
}

/// Reasons why a list of times and rates is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateStepsError {
    /// The list is empty.
    #[error("needs at least one time with a rate, such as `[\"0 s\", \"10 Mb/s\"]`")]
    Empty,
    /// The first time is not zero.
    #[error("begins at {0}, but the rate from 0 s on must be known")]
    Start(Duration),
    /// A time is not later than the one before.
    #[error("has {later} after {earlier}: times must ascend")]
    Order {
        /// The time before.
        earlier: Duration,
        /// The time at fault.
        later: Duration,
    },
    /// A rate is zero.
    #[error("has a rate of 0 from {0} on; rates must be more than 0")]
    Zero(Duration),
}

impl TryFrom<Vec<(Duration, Rate)>> for RateSteps {
    type Error = RateStepsError;

    fn try_from(list: Vec<(Duration, Rate)>) -> Result<RateSteps, RateStepsError> {
        let (first, _) = list.first().ok_or(RateStepsError::Empty)?;
        if *first != Duration::ZERO {
            return Err(RateStepsError::Start(*first));
        }
        if let Some(pair) = list.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
            return Err(RateStepsError::Order { earlier: pair[0].0, later: pair[1].0 });
        }
        if let Some((time, _)) = list.iter().find(|(_, rate)| *rate == Rate::ZERO) {
            return Err(RateStepsError::Zero(*time));
        }
        let steps = list.iter().map(|(time, rate)| (time.ns().unsigned_abs(), rate.bps())).collect();
        Ok(RateSteps { origin: 0, steps })
    }
}

impl From<RateSteps> for Vec<(Duration, Rate)> {
    fn from(rates: RateSteps) -> Vec<(Duration, Rate)> {
        rates.list().collect()
    }
}

impl RateSteps {
    /// Returns a rate that never changes; zero becomes one bit per second.
    pub fn constant(rate: Rate) -> RateSteps {
        RateSteps { origin: 0, steps: Arc::new([(0, rate.bps().max(1))]) }
    }

    /// Returns the same rates with times that count from `origin`; the first rate also applies before.
    pub fn starting_at(&self, origin: Instant) -> RateSteps {
        let moved = |(start, rate): &(u64, u64)| (start - self.origin + origin.ns(), *rate);
        RateSteps { origin: origin.ns(), steps: self.steps.iter().map(moved).collect() }
    }

    /// Returns the rates that apply this much later: what is over by then is left out, and the first rate
    /// also applies before. A negative time delays them.
    pub fn after(&self, time: Duration) -> RateSteps {
        let first = self.step_at(time.ns().try_into().unwrap_or(0));
        let moved =
            |(start, rate): &(u64, u64)| (start.saturating_add_signed(time.ns().saturating_neg()), *rate);
        RateSteps { origin: 0, steps: self.steps[first..].iter().map(moved).collect() }
    }

    /// Returns the same rates but for outages, in which the rate is zero: from each of these times on, for so
    /// long. Times count from the origin; outages must begin after it, ascend and not touch each other.
    pub fn with_outages(&self, outages: impl IntoIterator<Item = (Duration, Duration)>) -> RateSteps {
        let mut rest = self.steps.iter().copied().peekable();
        let (mut steps, mut rate) = (Vec::with_capacity(self.steps.len()), self.steps[0].1);
        for (start, length) in outages {
            let start = self.origin + start.ns().unsigned_abs();
            let end = start.saturating_add(length.ns().unsigned_abs());
            while let Some(step) = rest.next_if(|(at, _)| *at < start) {
                steps.push(step);
                rate = step.1;
            }
            while let Some((_, during)) = rest.next_if(|(at, _)| *at <= end) {
                rate = during;
            }
            steps.extend([(start, 0), (end, rate)]);
        }
        steps.extend(rest);
        RateSteps { origin: self.origin, steps: steps.into() }
    }

    /// Returns the list with times multiplied and rates divided by `factor`; no rate becomes zero.
    pub fn dilated(&self, factor: u32) -> RateSteps {
        let factor = u64::from(factor);
        let slower = |(start, rate): &(u64, u64)| {
            (self.origin + (start - self.origin).saturating_mul(factor), (rate / factor).max(1.min(*rate)))
        };
        RateSteps { origin: self.origin, steps: self.steps.iter().map(slower).collect() }
    }

    /// Iterates over times, which count from the origin, and rates.
    pub fn list(&self) -> impl Iterator<Item = (Duration, Rate)> + '_ {
        let since = |start: u64| Duration::from_ns(i64::try_from(start - self.origin).unwrap_or(i64::MAX));
        self.steps.iter().map(move |(start, rate)| (since(*start), Rate::from_bps(*rate)))
    }

    /// Returns the rate at `time`.
    pub fn at(&self, time: Instant) -> Rate {
        Rate::from_bps(self.steps[self.step_at(time.ns())].1)
    }

    /// Returns the highest rate.
    pub fn highest(&self) -> Rate {
        self.list().map(|(_, rate)| rate).max().unwrap_or_default()
    }

    /// Returns the lowest rate outside of outages.
    pub fn lowest(&self) -> Rate {
        self.list().map(|(_, rate)| rate).filter(|rate| *rate > Rate::ZERO).min().unwrap_or_default()
    }

    /// Returns the whole bytes that pass between two instants; zero if `to` is not after `from`.
    pub fn bytes_between(&self, from: Instant, to: Instant) -> Bytes {
        let bytes = self.work_between(from.ns(), to.ns()) / u128::from(WORK_PER_BYTE);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Returns the mean rate between two instants; the rate at `from` if `to` is not after it.
    pub fn mean(&self, from: Instant, to: Instant) -> Rate {
        match u128::from(to.ns().saturating_sub(from.ns())) {
            0 => self.at(from),
            time => {
                let mean = (self.work_between(from.ns(), to.ns()) + time / 2) / time;
                Rate::from_bps(u64::try_from(mean).unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns the work between two instants (ns), in bits per second times nanoseconds: bits times 10^9.
    pub fn work_between(&self, from: u64, to: u64) -> u128 {
        if to <= from {
            return 0;
        }
        let first = self.step_at(from);
        let mut work = 0;
        for (index, (start, rate)) in self.steps.iter().enumerate().skip(first) {
            let end = self.end(index).min(to);
            let begin = if index == first { from } else { *start };
            work += u128::from(end - begin) * u128::from(*rate);
            if end == to {
                break;
            }
        }
        work
    }

    /// Returns when `work`, in bits times 10^9, is done that begins at `start` (ns), rounded down to
    /// nanoseconds, and the work that is left then: less than the rate at that time does in one nanosecond.
    #[inline]
    pub fn done_at(&self, start: u64, work: u64) -> (u64, u64) {
        let (mut at, mut work) = (start, work);
        let mut index = self.step_at(start);
        loop {
            let (rate, time) = (self.steps[index].1, self.end(index) - at);
            // Nothing is done in an outage.
            if let Some(needed) = work.checked_div(rate)
                && needed < time
            {
                return (at + needed, work % rate);
            }
            // No more than the work, so it does not overflow.
            work -= time * rate;
            (at, index) = (self.end(index), index + 1);
        }
    }

    /// Returns the time to transfer `size` from `start` on, rounded down to nanoseconds.
    pub fn time_for(&self, start: Instant, size: Bytes) -> Duration {
        let (mut at, mut carry, mut left) = (start.ns(), 0, size.get());
        while left > 0 {
            let part = left.min(MAX_PART);
            (at, carry) = self.done_at(at, carry + part * WORK_PER_BYTE);
            left -= part;
        }
        Instant::from_ns(at) - start
    }

    /// Whether the rate is the same at both instants (ns) and does not change in between.
    #[inline]
    pub fn is_constant_between(&self, from: u64, to: u64) -> bool {
        self.step_at(from) == self.step_at(to)
    }

    /// Returns the index of the step at `time` (ns).
    #[inline]
    fn step_at(&self, time: u64) -> usize {
        self.steps.partition_point(|(start, _)| *start <= time).saturating_sub(1)
    }

    /// Returns when a step ends (ns): the largest time for the last one.
    #[inline]
    fn end(&self, index: usize) -> u64 {
        self.steps.get(index + 1).map_or(u64::MAX, |(start, _)| *start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(list: &[(i64, u64)]) -> RateSteps {
        let list: Vec<_> =
            list.iter().map(|(ns, bps)| (Duration::from_ns(*ns), Rate::from_bps(*bps))).collect();
        RateSteps::try_from(list).unwrap()
    }

    fn read(text: &str) -> Result<RateSteps, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_reads_back_as_it_is_written() {
        let steps = read(r#"[["0 s", "10 Gb/s"], ["5 s", "2 Gb/s"]]"#).unwrap();
        assert_eq!(steps, rates(&[(0, 10_000_000_000), (5_000_000_000, 2_000_000_000)]));
        assert_eq!(read(&serde_json::to_string(&steps).unwrap()).unwrap(), steps);
        assert_eq!((steps.highest().mbps(), steps.lowest().mbps()), (10_000.0, 2_000.0));
        let slower = steps.dilated(10);
        assert_eq!(slower, rates(&[(0, 1_000_000_000), (50_000_000_000, 200_000_000)]));
    }

    #[test]
    fn lists_that_make_no_sense_are_refused_with_the_reason() {
        for (text, reason) in [
            ("[]", "needs at least one time"),
            (r#"[["1 s", "1 Mb/s"]]"#, "begins at 1.00 s"),
            (r#"[["0 s", "1 Mb/s"], ["0 s", "2 Mb/s"]]"#, "has 0 ns after 0 ns: times must ascend"),
            (r#"[["0 s", "1 Mb/s"], ["2 s", "2 Mb/s"], ["1 s", "3 Mb/s"]]"#, "has 1.00 s after 2.00 s"),
            (r#"[["0 s", "1 Mb/s"], ["3 s", "0"]]"#, "has a rate of 0 from 3.00 s on"),
            (r#"[["0 s", "fast"]]"#, "`fast` is not a rate"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_transmission_that_ends_at_a_change_leaves_nothing() {
        let list = rates(&[(0, 1_000_000_000), (10_000, 100_000_000)]);
        assert_eq!(list.done_at(0, 1250 * WORK_PER_BYTE), (10_000, 0));
        assert_eq!(list.bytes_between(Instant::ZERO, Instant::from_ns(110_000)), Bytes::new(2_500));
        assert_eq!(list.time_for(Instant::ZERO, Bytes::new(2_500)), Duration::from_us(110));
        let huge = list.time_for(Instant::from_ns(10_000), Bytes::new(12_500_000_000));
        assert_eq!(huge, Duration::from_ms(1_000_000));
        assert_eq!(list.mean(Instant::ZERO, Instant::from_ns(20_000)), Rate::from_mbps(550.0));
        assert_eq!(list.at(Instant::from_ns(9_999)), Rate::from_mbps(1_000.0));
        assert_eq!(list.at(Instant::from_ns(10_000)), Rate::from_mbps(100.0));
    }

    #[test]
    fn later_the_same_rates_apply_at_earlier_times() {
        let list = rates(&[(0, 8_000), (1_000, 16_000), (2_000, 24_000)]);
        assert_eq!(list.after(Duration::from_ns(1_400)), rates(&[(0, 16_000), (600, 24_000)]));
        assert_eq!(list.after(Duration::from_ns(9_000)), rates(&[(0, 24_000)]));
        let delayed = list.after(Duration::from_ns(-500));
        let at = [0, 1_499, 1_500, 2_500].map(|ns| delayed.at(Instant::from_ns(ns)).bps());
        assert_eq!(at, [8_000, 8_000, 16_000, 24_000]);
    }

    #[test]
    fn nothing_is_done_in_outages() {
        let list = rates(&[(0, 1_000_000_000), (10_000, 100_000_000), (30_000, 1_000_000_000)]);
        let us = Duration::from_us;
        let cut = list.with_outages([(us(2), us(3)), (us(9), us(11)), (us(40), us(5))]);
        let steps: Vec<_> = cut.list().map(|(start, rate)| (start.ns() / 1_000, rate.mbps())).collect();
        let expected = [
            (0, 1_000.0),
            (2, 0.0),
            (5, 1_000.0),
            (9, 0.0),
            (20, 100.0),
            (30, 1_000.0),
            (40, 0.0),
            (45, 1_000.0),
        ];
        assert_eq!(steps, expected);
        assert_eq!((cut.lowest().mbps(), cut.highest().mbps()), (100.0, 1_000.0));
        // 250 bytes are sent in 2 us; the next one waits for the end of the outage.
        assert_eq!(cut.done_at(0, 250 * WORK_PER_BYTE), (5_000, 0));
        assert_eq!(cut.done_at(0, 251 * WORK_PER_BYTE), (5_008, 0));
        assert_eq!(cut.bytes_between(Instant::from_ns(1_000), Instant::from_ns(6_000)), Bytes::new(250));
        assert_eq!(cut.mean(Instant::from_ns(10_000), Instant::from_ns(20_000)), Rate::ZERO);
        assert_eq!(list.with_outages([]), list);
        let moved = list.starting_at(Instant::from_ns(7)).with_outages([(us(2), us(3))]);
        assert_eq!(moved.at(Instant::from_ns(2_006)).mbps(), 1_000.0);
        assert_eq!(moved.at(Instant::from_ns(2_007)), Rate::ZERO);
        assert_eq!(cut.dilated(10).at(Instant::from_ns(20_000)), Rate::ZERO);
    }

    #[test]
    fn times_count_from_the_origin() {
        let moved = rates(&[(0, 8_000), (1_000, 16_000)]).starting_at(Instant::from_ns(500));
        assert_eq!(moved.at(Instant::ZERO), Rate::from_bps(8_000));
        assert_eq!(moved.at(Instant::from_ns(1_499)), Rate::from_bps(8_000));
        assert_eq!(moved.at(Instant::from_ns(1_500)), Rate::from_bps(16_000));
        assert_eq!(moved.list().nth(1), Some((Duration::from_us(1), Rate::from_bps(16_000))));
    }
}
