//! Waits in queues between sender and tap, from the sender's time stamps (RFC 7323 4).

use headway_units::{Duration, Instant};

/// Ticks of clocks in use, ns: Linux and most others count milliseconds, older kernels 4 or 10 ms.
const TICKS: [i64; 3] = [1_000_000, 4_000_000, 10_000_000];
/// How far the ticks seen may be from one of those, as a share.
const CLOSE: f64 = 0.15;
/// The ticks are counted over this time; queues change it by much less.
const LONG: Duration = Duration::from_ms(500);
/// How long a shortest delay counts, at least: clocks that differ by 100 ppm drift apart by 1 ms.
const MEMORY: Duration = Duration::from_ms(10_000);

/// The one-way delays of segments, but for a constant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneWay {
    first: Option<(Instant, u32)>,
    /// Length of a tick in ns; 0 where it is none of the known ones.
    tick: Option<i64>,
    least: Option<i64>,
    earlier: Option<i64>,
    since: Instant,
}

impl OneWay {
    /// Returns how long a segment waited, beyond the resolution of its stamp; `None` while the clock is not understood.
    pub(super) fn wait(&mut self, at: Instant, stamp: u32) -> Option<Duration> {
        let (begin, first) = *self.first.get_or_insert((at, stamp));
        let elapsed = at - begin;
        let ticks = i64::from(stamp.wrapping_sub(first) as i32);
        let tick = match self.tick {
            Some(tick) => tick,
            None if elapsed < LONG => return None,
            None => *self.tick.insert(tick(elapsed, ticks)),
        };
        if tick == 0 {
            return None;
        }
        let delay = elapsed.ns() - ticks * tick;
        if at - self.since > MEMORY {
            self.earlier = self.least.take();
            self.since = at;
        }
        let least = self.least.map_or(delay, |least| least.min(delay));
        self.least = Some(least);
        let least = self.earlier.map_or(least, |earlier| least.min(earlier));
        Some(Duration::from_ns((delay - least - tick).max(0)))
    }
}

fn tick(elapsed: Duration, ticks: i64) -> i64 {
    let seen = elapsed.ns() as f64 / ticks.max(1) as f64;
    TICKS.into_iter().find(|tick| (seen / *tick as f64 - 1.0).abs() < CLOSE).unwrap_or(0)
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
        let mut random = OneWay::default();
        let waits = (0..2_000_u64).map(|ms| random.wait(Instant::from_ns(ms * 1_000_000), (ms * 37) as u32));
        assert!(waits.flatten().next().is_none());
    }
}
