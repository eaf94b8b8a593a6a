//! The delay of a path as FAST reads it, by one of four clocks.

use super::super::Ack;
use headway_units::{Duration, Instant};

/// Weight of a sample in the smoothed RTT, as a part of a window of samples, and the largest (Wei et al.).
const WEIGHT: (f64, f64) = (3.0, 0.25);
/// The unit of the clocks, ns.
const MILLISECOND: u64 = 1_000_000;
const MICROSECOND: u64 = 1_000;

/// How a flow reads the delay of its path.
///
/// All but the first are those of the thesis on Rapid, which takes the minimum over the last window of ACKs
/// (rapid 2.23 and 6.1 #32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The smoothed RTT in full precision (Wei et al.).
    Smoothed,
    /// RTTs by a clock of milliseconds, as a kernel reads it: its ticks between departure
    /// and ACK (Fast-vanilla).
    Milliseconds,
    /// RTTs by a clock of microseconds, read when the ACK arrives (Fast-us).
    Microseconds,
    /// The minimum RTT and what the one-way delay has grown by, from the receiver's stamps (Fast-Qdisc).
    OneWay,
}

/// The delays of a flow.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    reading: Reading,
    /// The unit of the receiver's stamps, ns.
    unit: u64,
    /// Minimum RTT of the flow; absent before the first sample.
    base: Option<Duration>,
    /// Smoothed RTT, s.
    smoothed: f64,
    /// Minimum RTT of the current window.
    least: Option<Duration>,
    one_way: OneWay,
}

/// One-way delays in units of the receiver's stamps.
///
/// The clocks of both ends differ by an unknown constant and stamps wrap at 2^32, so delays
/// count from the first.
#[derive(Clone, Copy, Debug, Default)]
struct OneWay {
    /// The first delay, modulo 2^32.
    first: Option<u32>,
    /// Minimum of the flow.
    base: i32,
    /// Minimum of the current window.
    least: Option<i32>,
}

impl OneWay {
    /// Takes the delay of a segment that left at `departed` and arrived at `stamp`, both in units of stamps.
    fn take(&mut self, departed: u32, stamp: u32) {
        let delay = stamp.wrapping_sub(departed);
        let first = *self.first.get_or_insert(delay);
        let delay = delay.wrapping_sub(first).cast_signed();
        self.base = self.base.min(delay);
        self.least = Some(self.least.map_or(delay, |least| least.min(delay)));
    }

    /// The minimum of the current window above that of the flow; `None` if no segment of
    /// the window was stamped.
    fn queueing(&self) -> Option<i64> {
        self.least.map(|least| i64::from(least) - i64::from(self.base))
    }
}

impl Delay {
    /// Nothing is known yet; the receiver's stamps have this unit.
    pub(super) fn new(reading: Reading, unit: Duration) -> Delay {
        Delay {
            reading,
            unit: unit.ns().unsigned_abs().max(1),
            base: None,
            smoothed: 0.0,
            least: None,
            one_way: OneWay::default(),
        }
    }

    /// Whether the receiver's stamps count.
    pub(super) fn needs_stamps(&self) -> bool {
        self.reading == Reading::OneWay
    }

    /// Takes the samples of an ACK by a flow with this window, segments.
    pub(super) fn take(&mut self, ack: &Ack, window: f64) {
        let Some(rtt) = ack.rtt else { return };
        match self.reading {
            Reading::Smoothed => self.smooth(rtt, window),
            Reading::Milliseconds => self.take_least(between(ack.now, rtt, MILLISECOND)),
            Reading::Microseconds => self.take_least(between(ack.now, rtt, MICROSECOND)),
            Reading::OneWay => {
                self.take_least(between(ack.now, rtt, MICROSECOND));
                // The RTT is that of the segment with the stamp.
                if let Some(stamp) = ack.arrival.and_then(|arrival| arrival.stamp) {
                    self.one_way.take((departure(ack.now, rtt) / self.unit) as u32, stamp);
                }
            }
        }
    }

    fn smooth(&mut self, rtt: Duration, window: f64) {
        match &mut self.base {
            None => (self.base, self.smoothed) = (Some(rtt), rtt.secs_f64()),
            Some(base) => {
                *base = rtt.min(*base);
                let weight = (WEIGHT.0 / window).min(WEIGHT.1);
                self.smoothed += weight * (rtt.secs_f64() - self.smoothed);
            }
        }
    }

    fn take_least(&mut self, rtt: Duration) {
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    /// Starts a new window of ACKs.
    pub(super) fn begin_window(&mut self) {
        (self.least, self.one_way.least) = (None, None);
    }

    /// The RTT of the empty path as a part of the present RTT, above 0 and up to 1; `None` if
    /// one of them is unknown.
    pub(super) fn ratio(&self) -> Option<f64> {
        let base = self.base?.secs_f64();
        let rtt = self.rtt()?;
        (base > 0.0).then(|| (base / rtt).min(1.0))
    }

    /// The present RTT, s.
    fn rtt(&self) -> Option<f64> {
        match self.reading {
            Reading::Smoothed => Some(self.smoothed),
            Reading::Milliseconds | Reading::Microseconds => self.least.map(Duration::secs_f64),
            Reading::OneWay => self.rtt_by_stamps().or(self.least.map(Duration::secs_f64)),
        }
    }

    /// (minOWD - baseOWD) + baseRTT, s (rapid 2.23, equation 9.1); `None` if the receiver stamped nothing.
    fn rtt_by_stamps(&self) -> Option<f64> {
        let queueing = self.one_way.queueing()? as f64 * self.unit as f64 / 1e9;
        Some(queueing + self.base?.secs_f64())
    }
}

/// When the segment left whose ACK arrived at `now` after `rtt`, ns.
fn departure(now: Instant, rtt: Duration) -> u64 {
    now.ns().saturating_sub(rtt.ns().unsigned_abs())
}

/// The RTT as a clock with units of `unit` ns shows it, at least one unit.
fn between(now: Instant, rtt: Duration, unit: u64) -> Duration {
    let units = (now.ns() / unit).saturating_sub(departure(now, rtt) / unit).max(1);
    Duration::from_ns((units * unit) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::testing::ack;
    use super::super::super::{Ack, Arrival};
    use super::*;

    const UNIT: Duration = Duration::from_us(1);

    fn is(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-12)
    }

    /// The ACK at `now` ns of a segment that left `rtt` ns before, with the receiver's stamp.
    fn stamped(now: u64, rtt: i64, stamp: Option<u32>) -> Ack {
        let (now, rtt) = (Instant::from_ns(now), Some(Duration::from_ns(rtt)));
        Ack { now, rtt, arrival: Some(Arrival { segment: 0, stamp }), ..ack(1) }
    }

    /// Acknowledges segments with these one-way delays, us, by a receiver whose clock is ahead by
    /// `offset`; ACKs take 10 ms.
    fn take_one_way(delay: &mut Delay, begin: u64, offset: u32, delays: &[u32]) {
        for (number, one_way) in delays.iter().enumerate() {
            let left = begin + 20_000 * number as u64;
            let stamp = (left as u32).wrapping_add(*one_way).wrapping_add(offset);
            let rtt = i64::from(*one_way) + 10_000;
            delay
                .take(&stamped((left + u64::from(*one_way) + 10_000) * 1000, rtt * 1000, Some(stamp)), 100.0);
        }
    }

    #[test]
    fn a_clock_of_milliseconds_reads_a_path_of_5_ms_as_5_or_6() {
        let mut seen = [0; 2];
        for phase in 0..1000 {
            let now = Instant::from_ns(20_000_000 + 1000 * phase);
            let rtt = between(now, Duration::from_us(5_150), MILLISECOND);
            assert!([5, 6].contains(&(rtt.ns() / 1_000_000)), "{rtt}");
            seen[(rtt.ns() / 1_000_000 - 5) as usize] += 1;
        }
        assert_eq!(seen, [850, 150], "as often as the phase of the clock has it");
        assert_eq!(between(Instant::from_ns(400), Duration::from_ns(300), MILLISECOND), Duration::from_ms(1));
        assert_eq!(between(Instant::from_ns(5_999), Duration::from_ns(1_001), 1_000), Duration::from_us(1));
    }

    #[test]
    fn the_least_of_a_window_by_milliseconds_misses_a_queue_of_less_than_one() {
        let mut delay = Delay::new(Reading::Milliseconds, UNIT);
        let window = |delay: &mut Delay, rtt: i64| {
            delay.begin_window();
            (0..700).for_each(|k| delay.take(&stamped(100_000_000 + 7_230 * k, rtt, None), 700.0));
            delay.ratio()
        };
        assert_eq!(window(&mut delay, 5_020_000), Some(1.0));
        assert_eq!(window(&mut delay, 5_850_000), Some(1.0));
        assert_eq!(window(&mut delay, 7_100_000), Some(5.0 / 7.0));
    }

    #[test]
    fn the_least_of_a_window_by_microseconds_is_exact() {
        let mut delay = Delay::new(Reading::Microseconds, UNIT);
        delay.take(&stamped(100_000_000, 5_000_900, None), 700.0);
        delay.begin_window();
        assert_eq!(delay.ratio(), None, "no sample in this window");
        for rtt in [5_300_000, 5_250_000, 5_400_000] {
            delay.take(&stamped(110_000_000, rtt, None), 700.0);
        }
        assert!(is(delay.ratio(), 5_001.0 / 5_250.0), "{:?}", delay.ratio());
    }

    #[test]
    fn the_rtt_is_its_minimum_and_the_growth_of_the_one_way_delay() {
        let mut delay = Delay::new(Reading::OneWay, UNIT);
        take_one_way(&mut delay, 0, 0, &[5_000, 5_700]);
        delay.begin_window();
        take_one_way(&mut delay, 100_000, 0, &[5_900, 5_500, 6_000]);
        // Equation 9.1: (5.5 - 5) + 15 ms.
        assert!(is(delay.rtt(), 0.0155), "{:?}", delay.rtt());
        assert!(is(delay.ratio(), 15.0 / 15.5), "{:?}", delay.ratio());
        // ACKs that are late do not count.
        delay.begin_window();
        let stamp = Some(200_000 + 5_500);
        delay.take(&stamped(200_000_000 + 45_500_000, 45_500_000, stamp), 100.0);
        assert!(is(delay.rtt(), 0.0155), "{:?}", delay.rtt());
    }

    #[test]
    fn the_offset_of_the_receivers_clock_and_wraps_of_its_stamps_cancel() {
        let read = |begin, offset| {
            let mut delay = Delay::new(Reading::OneWay, UNIT);
            take_one_way(&mut delay, begin, offset, &[5_200, 5_000, 5_700]);
            delay.begin_window();
            take_one_way(&mut delay, begin + 70_000, offset, &[5_900, 5_400, 6_000]);
            delay.ratio()
        };
        let usual = read(0, 0);
        assert!(is(usual, 15.0 / 15.4), "{usual:?}");
        for begin in [0, u64::from(u32::MAX) - 75_000, u64::from(u32::MAX) + 1] {
            for offset in [1, 1 << 31, u32::MAX - 30_000, u32::MAX] {
                assert_eq!(read(begin, offset), usual, "{begin} {offset}");
            }
        }
    }

    #[test]
    fn stamps_of_another_unit_count_in_that() {
        let mut delay = Delay::new(Reading::OneWay, Duration::from_ms(1));
        delay.take(&stamped(15_000_000, 15_000_000, Some(1005)), 100.0);
        delay.take(&stamped(57_000_000, 17_000_000, Some(1048)), 100.0);
        delay.begin_window();
        delay.take(&stamped(97_000_000, 17_000_000, Some(1087)), 100.0);
        // The second was 3 ms later than the first, the third 2 ms.
        assert!(is(delay.rtt(), 0.017), "{:?}", delay.rtt());
    }

    #[test]
    fn without_stamps_the_rtt_is_that_of_the_ack() {
        let mut by_stamps = Delay::new(Reading::OneWay, UNIT);
        let mut by_acks = Delay::new(Reading::Microseconds, UNIT);
        for (number, rtt) in [5_000_000, 5_600_000, 5_400_000].into_iter().enumerate() {
            for delay in [&mut by_stamps, &mut by_acks] {
                delay.begin_window();
                delay.take(&stamped(1_000_000_000 + 20_000_000 * number as u64, rtt, None), 100.0);
            }
            assert_eq!(by_stamps.ratio(), by_acks.ratio());
        }
        assert!(is(by_stamps.ratio(), 5.0 / 5.4), "{:?}", by_stamps.ratio());
    }

    proptest! {
        /// Whatever a receiver writes into its ACKs, the ratio is one of two positive times.
        #[test]
        fn forged_stamps_leave_a_ratio_up_to_one(
            acks in prop::collection::vec((any::<u32>(), 0_u64..1 << 62, 0_i64..1 << 62, any::<bool>()), 1..100),
            unit in prop_oneof![Just(0), Just(1_000), Just(1_000_000), 0..i64::MAX],
        ) {
            for reading in [Reading::Milliseconds, Reading::Microseconds, Reading::OneWay] {
                let mut delay = Delay::new(reading, Duration::from_ns(unit));
                for &(stamp, now, rtt, ends) in &acks {
                    delay.take(&stamped(now, rtt, Some(stamp).filter(|stamp| *stamp > 0)), 10.0);
                    let ratio = delay.ratio().expect("a sample");
                    prop_assert!(ratio > 0.0 && ratio <= 1.0, "{ratio}");
                    if ends {
                        delay.begin_window();
                        prop_assert_eq!(delay.ratio(), None);
                    }
                }
            }
        }
    }
}
