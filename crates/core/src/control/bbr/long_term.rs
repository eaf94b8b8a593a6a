//! Whether a policer limits the flow, and to which rate (Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016).
//!
//! A token bucket lets bursts pass at full speed and drops the rest, so that the largest sample of the bandwidth is far above
//! what gets through in the long run. Rates are measured from one loss to another, when the bucket is empty. Two intervals in
//! a row with many losses and about the same rate give the policed rate away.

use super::{SCALE, UNIT};
use crate::units::Instant;

/// Fewest round trips in an interval; four times as many are too many.
const ROUNDS: u32 = 4;
/// Losses per delivery of an interval that count as many, in parts of 256: a fifth.
const LOSSES: u64 = 50;
/// Rates that differ by less than this part of [`UNIT`], an eighth, are the same.
const SIMILAR: u64 = UNIT / 8;
/// Rates that differ by less, in bytes per second (4 kb/s), are the same.
pub(super) const CLOSE: u64 = 4000 / 8;
/// Round trips for which the policed rate is used, before the path is probed again.
const USE_ROUNDS: u32 = 48;

/// What a flow has seen so far, in segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// When the last was delivered.
    pub(super) at: Instant,
}

/// What a sample led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing yet.
    Open,
    /// There is a policer.
    Policed,
}

/// The detector of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct LongTerm {
    /// Rate of the last interval, or the policed one, segments per microsecond times 2^24.
    bandwidth: Option<u64>,
    used: bool,
    sampling: bool,
    /// Round trips of the present interval, or of use.
    rounds: u32,
    start: Totals,
}

impl LongTerm {
    /// The policed rate while there is one.
    #[inline]
    pub(super) fn in_use(&self) -> Option<u64> {
        if self.used { self.bandwidth } else { None }
    }

    /// Counts a round trip of use; true when it was the last.
    pub(super) fn expires(&mut self) -> bool {
        self.rounds += 1;
        self.rounds >= USE_ROUNDS
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self, totals: &Totals) {
        *self = LongTerm { start: *totals, ..LongTerm::default() };
    }

    /// Takes in an acknowledgement; `lossy` when it told of losses, `close` says whether a difference of rates is negligible.
    pub(super) fn sample(
        &mut self,
        totals: &Totals,
        lossy: bool,
        app_limited: bool,
        round_start: bool,
        close: impl Fn(u64) -> bool,
    ) -> Verdict {
        if !self.sampling {
            if !lossy {
                return Verdict::Open;
            }
            self.begin(totals);
            self.sampling = true;
        }
        self.rounds += u32::from(round_start);
        if app_limited || self.rounds > 4 * ROUNDS {
            self.reset(totals);
            return Verdict::Open;
        }
        if self.rounds < ROUNDS || !lossy {
            return Verdict::Open;
        }
        match self.rate(totals) {
            Some(rate) => self.interval_done(rate, totals, close),
            None => Verdict::Open,
        }
    }

    /// An interval begins.
    fn begin(&mut self, totals: &Totals) {
        (self.start, self.rounds) = (*totals, 0);
    }

    /// The rate of the present interval, when it has lost enough.
    fn rate(&self, totals: &Totals) -> Option<u64> {
        let lost = totals.lost - self.start.lost;
        let delivered = totals.delivered - self.start.delivered;
        // Whole milliseconds, as in Linux.
        let ms = totals.at.ns() / 1_000_000 - self.start.at.ns() / 1_000_000;
        if delivered == 0 || lost << 8 < LOSSES * delivered || ms == 0 {
            return None;
        }
        Some((delivered << SCALE) / (ms * 1000))
    }

    fn interval_done(&mut self, rate: u64, totals: &Totals, close: impl Fn(u64) -> bool) -> Verdict {
        if let Some(before) = self.bandwidth {
            let difference = rate.abs_diff(before);
            if difference * UNIT <= SIMILAR * before || close(difference) {
                self.bandwidth = Some(u64::midpoint(rate, before));
                (self.used, self.rounds) = (true, 0);
                return Verdict::Policed;
            }
        }
        self.bandwidth = Some(rate);
        self.begin(totals);
        Verdict::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs intervals of `rounds` round trips of 10 ms with these deliveries and losses each; a loss ends each.
    fn run(intervals: &[(u64, u64)], rounds: u32) -> LongTerm {
        let mut policer = LongTerm::default();
        let mut totals = Totals::default();
        policer.sample(&totals, true, false, false, |_| false);
        for (delivered, lost) in intervals {
            for _ in 1..rounds {
                policer.sample(&totals, false, false, true, |_| false);
            }
            totals.delivered += delivered;
            totals.lost += lost;
            totals.at = Instant::from_ns(totals.at.ns() + u64::from(rounds) * 10_000_000);
            policer.sample(&totals, true, false, true, |_| false);
        }
        policer
    }

    #[test]
    fn two_lossy_intervals_of_one_rate_show_a_policer() {
        // 100 and 110 segments in 40 ms: 105 on average, 2.625 per millisecond.
        let policer = run(&[(100, 20), (110, 30)], 4);
        let rate = policer.in_use().expect("policed");
        assert_eq!(rate, u64::midpoint((100 << SCALE) / 40_000, (110 << SCALE) / 40_000));
    }

    #[test]
    fn few_losses_different_rates_and_long_intervals_do_not() {
        assert_eq!(run(&[(100, 10), (100, 10)], 4).in_use(), None);
        assert_eq!(run(&[(100, 30), (120, 30)], 4).in_use(), None);
        assert_eq!(run(&[(100, 30), (100, 30)], 17).in_use(), None);
        assert!(run(&[(100, 30), (200, 50), (200, 50)], 4).in_use().is_some());
    }

    #[test]
    fn the_policed_rate_is_used_for_48_round_trips() {
        let mut policer = run(&[(100, 20), (100, 20)], 4);
        assert!((1..48).all(|_| !policer.expires()));
        assert!(policer.expires());
    }
}
