//! Waits in queues between sender and tap, from the sender's time stamps (RFC 7323 4).

use headway_units::{Duration, Instant};

/// Ticks of clocks in use, ns: Linux and most others count milliseconds, older kernels 4 or 10 ms.
const TICKS: [i64; 3] = [1_000_000, 4_000_000, 10_000_000];
/// How far the ticks seen may be from one of those, as a share.
const CLOSE: f64 = 0.15;
/// The ticks are counted over this time, again and again until queues change it by less than that.
const LONG: Duration = Duration::from_ms(500);
/// How long a shortest delay counts, at least: clocks that differ by 100 ppm drift apart by 1 ms.
const MEMORY: Duration = Duration::from_ms(10_000);

/// The one-way delays of segments, but for a constant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneWay {
    first: Option<(Instant, u32)>,
    clock: Clock,
}

/// What is known of the sender's clock.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// It is looked for since this segment; the least delays so far by each of [`TICKS`].
    Unknown {
        since: Option<(Instant, u32)>,
        least: [i64; TICKS.len()],
    },
    Known(Delays),
}

/// Delays by a clock whose tick is known.
#[derive(Clone, Copy, Debug)]
struct Delays {
    tick: i64,
    least: i64,
    earlier: Option<i64>,
    since: Instant,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::Unknown { since: None, least: [i64::MAX; TICKS.len()] }
    }
}

impl OneWay {
    /// Returns how long a segment waited, beyond the resolution of its stamp; `None` while the
    /// clock is not understood.
    pub(super) fn wait(&mut self, at: Instant, stamp: u32) -> Option<Duration> {
        let (begin, first) = *self.first.get_or_insert((at, stamp));
        let elapsed = (at - begin).ns();
        let ticks = i64::from(stamp.wrapping_sub(first) as i32);
        match &mut self.clock {
            Clock::Known(delays) => Some(delays.wait(at, elapsed - ticks * delays.tick)),
            Clock::Unknown { since, least } => {
                for (least, tick) in least.iter_mut().zip(TICKS) {
                    *least = (*least).min(elapsed - ticks * tick);
                }
                let (from, before) = *since.get_or_insert((at, stamp));
                if at - from < LONG {
                    return None;
                }
                // A queue that grows or shrinks looks like another clock; the next time it may stand.
                *since = Some((at, stamp));
                let place = tick(at - from, i64::from(stamp.wrapping_sub(before) as i32))?;
                let (tick, least) = (TICKS[place], least[place]);
                self.clock = Clock::Known(Delays { tick, least, earlier: None, since: at });
                None
            }
        }
    }
}

impl Delays {
    fn wait(&mut self, at: Instant, delay: i64) -> Duration {
        if at - self.since > MEMORY {
            self.earlier = Some(std::mem::replace(&mut self.least, delay));
            self.since = at;
        }
        self.least = self.least.min(delay);
        let least = self.earlier.map_or(self.least, |earlier| self.least.min(earlier));
        Duration::from_ns((delay - least - self.tick).max(0))
    }
}

/// Returns the place of the tick in [`TICKS`] of which this many passed; `None` if it is none of them.
fn tick(elapsed: Duration, ticks: i64) -> Option<usize> {
    let seen = elapsed.ns() as f64 / ticks.max(1) as f64;
    TICKS.iter().position(|tick| (seen / *tick as f64 - 1.0).abs() < CLOSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_shows_beyond_a_tick_of_the_clock() {
        for tick in [1_u64, 4, 10] {
            let mut delays = OneWay::default();
            let mut seen = Vec::new();
            for ms in 0..2_000_u64 {
                let queue = if ms < 1_500 { 0 } else { 25 };
                let stamp = (u32::MAX - 20).wrapping_add((ms / tick) as u32);
                seen.push(delays.wait(Instant::from_ns((ms + queue) * 1_000_000), stamp));
            }
            assert_eq!((seen[499], seen[1_499]), (None, Some(Duration::ZERO)));
            let waited = seen[1_999].map_or(0.0, |wait| wait.ms());
            assert!((25.0 - tick as f64..=25.0).contains(&waited), "{tick} {waited}");
        }
        // While a queue grows by half a second in a second, the clock cannot be recognised, but the least
        // delay is of the time before.
        let mut delays = OneWay::default();
        let seen: Vec<_> = (0..2_500_u64)
            .map(|ms| delays.wait(Instant::from_ns((ms + (ms / 2).min(500)) * 1_000_000), ms as u32))
            .collect();
        assert!(seen[..1_000].iter().all(Option::is_none));
        assert_eq!(seen[2_499].map(|wait| wait.ms()), Some(499.0));
        let mut random = OneWay::default();
        let waits = (0..2_000_u64).map(|ms| random.wait(Instant::from_ns(ms * 1_000_000), (ms * 37) as u32));
        assert!(waits.flatten().next().is_none());
    }
}
