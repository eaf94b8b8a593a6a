//! Detects a policer and its rate (Flach et al., An Internet-Wide Analysis of Traffic
//! Policing, SIGCOMM 2016).
//!
//! A token bucket lets bursts pass at full speed and drops the rest, so the maximum bandwidth sample is far
//! above the long-term rate. Rates are measured from one loss to another, when the bucket is empty. Two
//! consecutive intervals with many losses and about the same rate show a policer.

use super::{SCALE, UNIT};
use headway_units::Instant;

/// Fewest round trips in an interval; the most are four times as many.
const ROUNDS: u32 = 4;
/// Least ratio of losses to deliveries in a lossy interval, in units of 1/256: a fifth.
const LOSSES: u64 = 50;
/// Rates are the same if they differ by at most an eighth (in units of 1/[`UNIT`]).
const SIMILAR: u64 = UNIT / 8;
/// Rates are also the same if they differ by at most this, in bytes per second: 4 kb/s.
pub(super) const CLOSE: u64 = 4000 / 8;
/// Round trips for which the policed rate is used before BBR probes again.
const USE_ROUNDS: u32 = 48;

/// Segments delivered and lost so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// When the last was delivered.
    pub(super) at: Instant,
}

/// The result of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No policer so far.
    Open,
    /// A policer was found.
    Policed,
}

/// The detector of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct LongTerm {
    /// The rate of the last interval, or the policed rate, in segments per microsecond times 2^24.
    bandwidth: Option<u64>,
    used: bool,
    sampling: bool,
    /// Round trips of the present interval, or since the policed rate is in use.
    rounds: u32,
    start: Totals,
}

impl LongTerm {
    /// The policed rate while it is in use.
    pub(super) fn in_use(&self) -> Option<u64> {
        if self.used { self.bandwidth } else { None }
    }

    /// Counts a round trip of use; returns true if it was the last.
    pub(super) fn expires(&mut self) -> bool {
        self.rounds += 1;
        self.rounds >= USE_ROUNDS
    }

    /// Resets the detector.
    pub(super) fn reset(&mut self, totals: &Totals) {
        *self = LongTerm { start: *totals, ..LongTerm::default() };
    }

    /// Takes in an ACK; `lossy` if it showed losses. `close` says whether a difference of
    /// rates is negligible.
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

    /// Begins an interval.
    fn begin(&mut self, totals: &Totals) {
        (self.start, self.rounds) = (*totals, 0);
    }

    /// The rate of the present interval if it is lossy enough.
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

    /// Runs intervals of `rounds` round trips of 10 ms, each with these deliveries and losses
    /// and a loss at its end.
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
