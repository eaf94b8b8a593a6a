//! When windows are lowered for a moment, so that connections see their RTT without a queue of their own.

use std::collections::HashMap;

use headway_arithmetic::flow::{Flow, Key};
use headway_units::{Duration, Instant};

/// Time between two drains: with an RTT of 40 ms they cost 0.6 % of what windows let through, with 140 ms 2 %.
const EVERY: Duration = Duration::from_ms(15_000);
/// Time from a drain that made RTTs smaller to the next one, so that a deep queue is gone within seconds.
const AGAIN: Duration = Duration::from_ms(1_000);
/// Longest RTT for which a drain waits. What is longer is a queue that several drains empty.
const LONGEST_RTT: Duration = Duration::from_ms(1_000);
/// The steps of a drain: what is left of windows, and for how many of the longest RTT.
///
/// A quarter empties the queue wherever windows are up to four times too large for the path. A sender that has too much in flight
/// pauses in the first RTT, and its packets find the shorter queue in the second. Then windows open in three steps, as each is sent
/// at once.
const STEPS: [(f64, i64); 3] = [(0.25, 2), (0.5, 1), (0.75, 1)];
/// An RTT has become smaller if it fell by this part, more than what RTTs vary by where nothing waits.
const FALL: u64 = 16;
/// A connection is active if its latest packet is not older: ten times as long as that may be noted late.
const ACTIVE: Duration = Duration::from_ms(1_000);

/// The RTT of a connection in ns, by which a drain is judged.
pub type Rtts = HashMap<Key, u64>;

/// When windows are lowered, and whether that made RTTs smaller.
///
/// Windows that were computed from an RTT in a full queue keep that queue full: whatever the RTT is, as much is in flight as makes
/// it stay. While all windows are lowered ([`Allocator::set_part`](crate::Allocator::set_part)), a queue that they made becomes
/// shorter, and connections see a smaller RTT. A drain begins a period of RTTs, so each has a time without a queue of one's own,
/// and an RTT only becomes larger where it is larger without such a queue.
#[derive(Clone, Debug)]
pub struct Drain {
    /// When the next step begins, or the next drain.
    due: Instant,
    /// The present step; none between drains.
    step: Option<usize>,
    /// The longest RTT before the present drain.
    longest: Duration,
    /// The RTTs before the present drain.
    before: Rtts,
    /// Whether the present drain has made RTTs smaller.
    helps: bool,
    /// How many have begun.
    begun: u32,
}

/// Returns the RTTs of the connections that are active and have one, for [`Drain::turn`].
pub fn active<'f>(flows: impl Iterator<Item = (Key, &'f Flow)>, now: Instant) -> Rtts {
    let is_active = |flow: &Flow| now - Instant::from_ns(flow.seen()) <= ACTIVE;
    flows.filter(|(_, flow)| is_active(flow)).filter_map(|(key, flow)| Some((key, flow.rtt()?))).collect()
}

impl Drain {
    /// Creates one that begins its first drain 15 s from `now`.
    pub fn new(now: Instant) -> Drain {
        Drain {
            due: now + EVERY,
            step: None,
            longest: Duration::ZERO,
            before: Rtts::new(),
            helps: false,
            begun: 0,
        }
    }

    /// Returns when [`Drain::turn`] has something to do.
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Returns the number of the period of RTTs, of which each drain begins one.
    pub const fn period(&self) -> u32 {
        self.begun
    }

    /// Begins or ends a step that is due, with the RTTs of the connections that are active; returns what is to be left of windows
    /// from now on, at most 1.
    pub fn turn(&mut self, now: Instant, rtts: Rtts) -> f64 {
        let step = match self.step {
            None if rtts.is_empty() => {
                self.due = now + EVERY;
                return 1.0;
            }
            None => {
                self.begin(rtts);
                0
            }
            Some(step) => {
                // In the first step queues are shortest.
                if step == 0 {
                    self.helps = have_fallen(&std::mem::take(&mut self.before), &rtts);
                }
                step + 1
            }
        };
        let Some((part, rtts)) = STEPS.get(step) else {
            self.step = None;
            self.due = now + if self.helps { AGAIN } else { EVERY };
            return 1.0;
        };
        self.step = Some(step);
        self.due = now + self.longest * *rtts;
        *part
    }

    fn begin(&mut self, rtts: Rtts) {
        let longest = rtts.values().max().copied().unwrap_or(0);
        self.longest = Duration::from_ns(i64::try_from(longest).unwrap_or(i64::MAX)).min(LONGEST_RTT);
        self.before = rtts;
        self.begun = self.begun.wrapping_add(1);
    }
}

/// Whether the RTT of every second connection is smaller than before, or of more.
fn have_fallen(before: &Rtts, after: &Rtts) -> bool {
    let both = after.iter().filter_map(|(key, rtt)| Some((*before.get(key)?, *rtt)));
    let (mut fallen, mut all) = (0, 0);
    for (before, after) in both {
        all += 1;
        fallen += usize::from(after < before - before / FALL);
    }
    fallen > 0 && 2 * fallen >= all
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use headway_arithmetic::flow::Packet;

    use super::*;

    const MS: u64 = 1_000_000;

    /// As many connections with these RTTs in ms.
    fn rtts(of: &[u64]) -> Rtts {
        let host = |last| IpAddr::from([10, 0, 0, last]);
        let key = |port| *Packet::between((host(1), port), (host(2), 80)).key();
        of.iter().zip(1..).map(|(rtt, port)| (key(port), rtt * MS)).collect()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * MS)
    }

    #[test]
    fn drains_open_windows_in_steps_and_come_soon_again_while_they_help() {
        let mut drain = Drain::new(at(0));
        assert_eq!((drain.due(), drain.period()), (at(15_000), 0));
        assert_eq!(drain.turn(at(15_000), Rtts::new()), 1.0);
        assert_eq!((drain.due(), drain.period()), (at(30_000), 0));
        assert_eq!(drain.turn(at(30_000), rtts(&[40, 100])), 0.25);
        assert_eq!((drain.due(), drain.period()), (at(30_200), 1));
        // One of two is a sixteenth smaller.
        assert_eq!(drain.turn(at(30_200), rtts(&[37, 100])), 0.5);
        assert_eq!(drain.due(), at(30_300));
        assert_eq!(drain.turn(at(30_300), rtts(&[37, 100])), 0.75);
        assert_eq!(drain.turn(at(30_400), rtts(&[37, 100])), 1.0);
        assert_eq!((drain.due(), drain.period()), (at(31_400), 1));
        // One that has gone does not count, and one of three is too few.
        assert_eq!(drain.turn(at(31_400), rtts(&[37, 100, 5_000, 50])), 0.25);
        assert_eq!((drain.due(), drain.period()), (at(33_400), 2));
        drain.turn(at(33_400), rtts(&[30, 100, 5_000]));
        drain.turn(at(34_400), Rtts::new());
        assert_eq!(drain.turn(at(35_400), Rtts::new()), 1.0);
        assert_eq!(drain.due(), at(50_400));
    }
}
