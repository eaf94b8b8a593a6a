//! Sends packets at scheduled times.
//!
//! Every packet has an absolute target on CLOCK_MONOTONIC. The thread sleeps while more than 200 us are left,
//! then it spins on the clock: a sleeping thread wakes 30 to 60 us late, a spinning one is within 0.1 us.
//!
//! A packet that is late by less than the gap after it does not change the targets: the next gap becomes
//! shorter by the lateness, small errors do not add up, and the stream keeps its average rate. A packet that
//! is later than that shifts all following targets. Catching up would send packets back to back, at a rate
//! the schedule does not contain, and build queues that the estimator would attribute to the path. After a
//! shift the gaps, and with them the probing rates, are as intended, and the estimator sees the one long gap
//! in the departure times.

use crate::clock::monotonic;
use headway_units::{Duration, Instant};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

/// The thread sleeps for waits longer than this; for shorter ones the wake-up margin leaves
/// too little to sleep.
pub(crate) const SPIN_BELOW: Duration = Duration::from_us(200);

/// A sleep ends this long before the target. Waking takes 30 us, and 60 us in one of a hundred cases.
const WAKE_MARGIN: Duration = Duration::from_us(120);

/// Longest sleep between two checks of the stop flag; gaps may be much longer.
const STOP_CHECK: Duration = Duration::from_ms(50);

/// The first packet leaves this long after pacing starts, so that caches and branch predictors are warm.
const LEAD_IN: Duration = Duration::from_us(50);

/// The time from first to last packet may differ from the intended one by this fraction. This is the error of
/// the stream's average rate and must stay below the accuracy of estimates (about 5 %).
const DURATION_SHARE: f64 = 0.05;

/// ... or by this much, the error of two timestamps.
const DURATION_FLOOR: Duration = Duration::from_us(5);

/// A single gap may exceed the intended one by this much ...
///
/// The departure times record the actual gap, so short hiccups do no harm. A pause of a millisecond or more
/// is another program's time slice: queues drain in it, and the stream falls into two.
const GAP_EXCESS_FLOOR: Duration = Duration::from_ms(1);

/// ... or by this multiple of the gap, for slow streams.
const GAP_EXCESS_FACTOR: i64 = 4;

/// How a thread waits for the time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It looks at the clock all the time, from a short while before.
    Spin,
    /// It sleeps until a timer of the kernel wakes it.
    Sleep,
}

/// Calls `send` for each of `gaps.len() + 1` packets at its time. Passes CLOCK_MONOTONIC to `stop` repeatedly
/// and stops early when it returns true.
///
/// Returns whether all packets were sent.
pub fn run(
    gaps: &[Duration],
    wait: Wait,
    mut stop: impl FnMut(Instant) -> bool,
    mut send: impl FnMut(u32),
) -> bool {
    // The kernel may add the thread's timer slack, 50 us by default, to every sleep.
    let slack = nix::sys::prctl::get_timerslack();
    let _ = nix::sys::prctl::set_timerslack(1);
    let complete = send_all(gaps, wait, &mut stop, &mut send);
    if let Ok(slack) = slack {
        let _ = nix::sys::prctl::set_timerslack(slack as _);
    }
    complete
}

/// The loop of [`run`].
fn send_all(
    gaps: &[Duration],
    wait: Wait,
    stop: &mut impl FnMut(Instant) -> bool,
    send: &mut impl FnMut(u32),
) -> bool {
    let mut target = monotonic() + LEAD_IN;
    for index in 0..=gaps.len() {
        let Some(actual) = wait_until(target, wait, stop) else {
            return false;
        };
        send(index as u32);
        if let Some(gap) = gaps.get(index) {
            target = next_target(target, actual, *gap);
        }
    }
    true
}

/// Returns the target of the packet after one that was due at `target` and left at `actual`.
fn next_target(target: Instant, actual: Instant, gap: Duration) -> Instant {
    if actual - target < gap { target + gap } else { actual + gap }
}

/// Returns as soon as possible after `target`, with the current time; `None` if `stop` returns true first.
fn wait_until(target: Instant, wait: Wait, stop: &mut impl FnMut(Instant) -> bool) -> Option<Instant> {
    loop {
        let now = monotonic();
        if stop(now) {
            return None;
        }
        if now >= target {
            return Some(now);
        }
        if wait == Wait::Sleep {
            sleep_until(target.min(now + STOP_CHECK));
        } else if target - now > SPIN_BELOW {
            sleep_until((target - WAKE_MARGIN).min(now + STOP_CHECK));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Sleeps until an absolute time on CLOCK_MONOTONIC or a signal.
pub(crate) fn sleep_until(time: Instant) {
    let time = nix::sys::time::TimeSpec::from_duration(std::time::Duration::from_nanos(time.ns()));
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &time);
}

/// Whether the departure times match the intended gaps well enough for the stream to count.
pub(crate) fn gaps_kept(intended: &[Duration], sent: &[Instant]) -> bool {
    if sent.len() != intended.len() + 1 {
        return false;
    }
    let total: Duration = intended.iter().copied().sum();
    let actual = sent[sent.len() - 1] - sent[0];
    let allowed = total.scale(DURATION_SHARE).max(DURATION_FLOOR);
    if (actual - total).ns().abs() > allowed.ns() {
        return false;
    }
    sent.windows(2).zip(intended).all(|(pair, gap)| {
        let excess = (pair[1] - pair[0]) - *gap;
        excess <= GAP_EXCESS_FLOOR.max(*gap * GAP_EXCESS_FACTOR)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn us(us: i64) -> Duration {
        Duration::from_us(us)
    }

    fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1000)
    }

    #[test]
    fn a_little_late_keeps_the_targets_and_very_late_moves_them() {
        assert_eq!(next_target(at(100), at(105), us(10)), at(110));
        assert_eq!(next_target(at(100), at(110), us(10)), at(120));
        assert_eq!(next_target(at(100), at(150), us(10)), at(160));
        assert_eq!(next_target(at(100), at(100), us(0)), at(100));
    }

    #[test]
    fn wrong_gaps_are_noticed() {
        let gaps = [us(100); 4];
        assert!(gaps_kept(&gaps, &[0, 100, 200, 300, 400].map(at)));
        assert!(gaps_kept(&gaps, &[0, 110, 200, 300, 415].map(at)));
        assert!(!gaps_kept(&gaps, &[0, 100, 200, 300, 430].map(at)), "30 us of 400 too long");
        assert!(!gaps_kept(&gaps, &[0, 100, 200, 300, 370].map(at)), "30 us of 400 too short");
        assert!(!gaps_kept(&gaps, &[0, 100, 200, 300].map(at)), "one packet missing");
        let long = vec![us(100); 1000];
        let mut sent: Vec<Instant> = (0..=1000).map(|i| at(i * 100)).collect();
        assert!(gaps_kept(&long, &sent));
        for time in &mut sent[500..] {
            *time += us(1100);
        }
        assert!(!gaps_kept(&long, &sent), "one pause of 1.2 ms");
    }

    #[test]
    fn packets_leave_at_their_times() {
        let mut times = Vec::new();
        let gaps = [us(300), us(20), us(500)];
        assert!(run(&gaps, Wait::Spin, |_| false, |_| times.push(monotonic())));
        assert_eq!(times.len(), 4);
        // A busy machine allows only a lower bound: the first packet may be late by up to its gap
        // and the rest on time.
        assert!(times[3] - times[0] >= us(520));
        assert!(!run(&gaps, Wait::Sleep, |_| true, |_| times.push(monotonic())));
    }

    #[test]
    fn a_long_gap_does_not_keep_it_from_stopping() {
        let stop = Cell::new(false);
        let start = monotonic();
        assert!(!run(&[us(30_000_000)], Wait::Sleep, |_| stop.get(), |_| stop.set(true)));
        assert!(monotonic() - start < us(5_000_000));
    }
}
