//! When windows are lowered for a moment, so that connections see their RTT without a queue of their own.

use std::collections::HashMap;

use headway_arithmetic::flow::{Flow, Key};
use headway_units::{Duration, Instant};

/// Time between two drains. With an RTT of 100 ms, 2 % of the time is spent in drains.
const EVERY: Duration = Duration::from_ms(10_000);
/// Time from a drain that made RTTs smaller to the next one, so that a deep queue is gone within seconds.
const AGAIN: Duration = Duration::from_ms(1_000);
/// Longest RTT for which a drain waits. What is longer is a queue that several drains empty.
const LONGEST_RTT: Duration = Duration::from_ms(1_000);
/// A drain lasts this many of the longest RTT: a sender that has too much in flight pauses in the first, and its packets find the
/// shorter queue in the second.
const RTTS: i64 = 2;
/// An RTT has become smaller if it fell by this part. A drain takes a quarter away from a queue of one's own.
const FALL: u64 = 16;

/// The RTT of a connection in ns, by which a drain is judged.
pub type Rtts = HashMap<Key, u64>;

/// When windows are lowered, and whether that made RTTs smaller.
///
/// Windows that were computed from an RTT in a full queue keep that queue full: whatever the RTT is, as much is in flight as makes
/// it stay. While all windows are lowered by a quarter ([`Allocator::set_drained`](crate::Allocator::set_drained)), a queue that
/// they made becomes shorter, connections see a smaller RTT, and keep to it from then on.
#[derive(Clone, Debug)]
pub struct Drain {
    /// When the next one begins, or the present one ends.
    due: Instant,
    /// The RTTs before the present drain.
    before: Option<Rtts>,
}

/// A connection is active if its latest packet is not older.
const ACTIVE: Duration = Duration::from_ms(1_000);

/// Returns the RTTs of the connections that are active and have one, for [`Drain::turn`].
pub fn active<'f>(flows: impl Iterator<Item = (Key, &'f Flow)>, now: Instant) -> Rtts {
    let is_active = |flow: &Flow| now - Instant::from_ns(flow.seen()) <= ACTIVE;
    flows.filter(|(_, flow)| is_active(flow)).filter_map(|(key, flow)| Some((key, flow.rtt()?))).collect()
}

impl Drain {
    /// Creates one that begins its first drain 10 s from `now`.
    pub fn new(now: Instant) -> Drain {
        Drain { due: now + EVERY, before: None }
    }

    /// Returns when [`Drain::turn`] has something to do.
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Begins or ends a drain that is due, with the RTTs of the connections that are active; returns whether there is one now.
    pub fn turn(&mut self, now: Instant, rtts: Rtts) -> bool {
        let Some(before) = self.before.take() else {
            let Some(longest) = rtts.values().max().copied() else {
                self.due = now + EVERY;
                return false;
            };
            let longest = Duration::from_ns(i64::try_from(longest).unwrap_or(i64::MAX)).min(LONGEST_RTT);
            self.due = now + longest * RTTS;
            self.before = Some(rtts);
            return true;
        };
        self.due = now + if have_fallen(&before, &rtts) { AGAIN } else { EVERY };
        false
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
    fn drains_last_two_rtts_and_come_soon_again_while_they_help() {
        let mut drain = Drain::new(at(0));
        assert_eq!(drain.due(), at(10_000));
        assert!(!drain.turn(at(10_000), Rtts::new()));
        assert!(drain.turn(at(20_000), rtts(&[40, 100])));
        assert_eq!(drain.due(), at(20_200));
        // One of two is a sixteenth smaller.
        assert!(!drain.turn(at(20_200), rtts(&[37, 100])));
        assert_eq!(drain.due(), at(21_200));
        assert!(drain.turn(at(21_200), rtts(&[37, 100, 5_000])));
        assert_eq!(drain.due(), at(23_200));
        // One that has gone does not count, and one of three is too few.
        assert!(!drain.turn(at(23_200), rtts(&[30, 100, 5_000])));
        assert_eq!(drain.due(), at(33_200));
    }
}
