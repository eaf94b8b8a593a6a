//! When windows are lowered for a moment, so that connections see their RTT without a queue of their own.

use std::collections::HashMap;

use headway_arithmetic::flow::{Flow, Key};
use headway_units::{Duration, Instant};

/// Time between two drains: with an RTT of 40 ms they cost 0.6 % of what windows let through, with 140 ms 2 %.
const EVERY: Duration = Duration::from_ms(15_000);
/// How long before a drain it is noted what connections have got, to see whose data there is. After a drain that made RTTs smaller, that
/// is at once, so that a deep queue is gone within seconds.
const LOOK: Duration = Duration::from_ms(1_000);
/// A drain waits for the RTTs of the connections that got so much of the data. Range 0.75 to 0.95: the others make a small part of a
/// queue, and anybody can have a connection with a long RTT, but not with much data.
const MOST_DATA: f64 = 0.9;
/// Longest RTT for which a drain waits. What is longer is a queue that several drains empty.
const LONGEST_RTT: Duration = Duration::from_ms(1_000);
/// The steps of a drain: what is left of windows, and for how many of that RTT.
///
/// A quarter empties the queue wherever windows are up to four times too large for the path. A sender that has too much in flight
/// pauses in the first RTT, and its packets find the shorter queue in the second. Then windows open in three steps, as each is sent
/// at once.
const STEPS: [(f64, i64); 3] = [(0.25, 2), (0.5, 1), (0.75, 1)];
/// The step after the last one.
const END: usize = STEPS.len();
/// An RTT has become smaller if it fell by this part, more than what RTTs vary by where nothing waits.
const FALL: u64 = 16;
/// A connection is active if its latest packet is not older: ten times as long as that may be noted late.
const ACTIVE: Duration = Duration::from_ms(1_000);

/// What drains know of the connections that are active.
pub type Rtts = HashMap<Key, Heard>;

/// What a drain knows of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// In ns.
    rtt: u64,
    /// What each end has acknowledged last.
    acknowledged: [u32; 2],
}

impl Heard {
    /// Returns how much data both ends have got since it was noted.
    fn data_since(&self, noted: &Heard) -> u64 {
        let got = |end: usize| self.acknowledged[end].wrapping_sub(noted.acknowledged[end]);
        u64::from(got(0)) + u64::from(got(1))
    }
}

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
    /// Whether a drain is next, and not a look.
    has_looked: bool,
    /// For which RTT the present drain waits.
    waits: Duration,
    /// What was known at the look, or before the present drain.
    before: Rtts,
    /// Whether the present drain has made RTTs smaller.
    helps: bool,
    /// How many have begun.
    begun: u32,
}

/// Returns the RTTs of the connections that are active and have one, for [`Drain::turn`].
pub fn active<'f>(flows: impl Iterator<Item = (Key, &'f Flow)>, now: Instant) -> Rtts {
    let is_active = |flow: &Flow| now - Instant::from_ns(flow.seen()) <= ACTIVE;
    let heard = |flow: &Flow| {
        Some(Heard { rtt: flow.rtt()?, acknowledged: [flow.acknowledged(0), flow.acknowledged(1)] })
    };
    flows.filter(|(_, flow)| is_active(flow)).filter_map(|(key, flow)| Some((key, heard(flow)?))).collect()
}

impl Drain {
    /// Creates one that begins its first drain 15 s from `now`.
    pub fn new(now: Instant) -> Drain {
        Drain {
            due: now + EVERY - LOOK,
            step: None,
            has_looked: false,
            waits: Duration::ZERO,
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

    /// Looks, or begins or ends a step that is due, with what is known of the connections that are active; returns what is to be left
    /// of windows from now on, at most 1.
    pub fn turn(&mut self, now: Instant, rtts: Rtts) -> f64 {
        match self.step {
            None if !self.has_looked => self.look(now, rtts),
            None if rtts.is_empty() => self.wait(now),
            None => {
                self.begin(rtts);
                self.set_step(now, 0)
            }
            Some(step) => {
                // In the first step queues are shortest.
                if step == 0 {
                    self.helps = have_fallen(&std::mem::take(&mut self.before), &rtts);
                }
                match step + 1 {
                    END if self.helps => self.look(now, rtts),
                    END => self.wait(now),
                    step => self.set_step(now, step),
                }
            }
        }
    }

    fn set_step(&mut self, now: Instant, step: usize) -> f64 {
        let (part, waits) = STEPS[step];
        self.step = Some(step);
        self.due = now + self.waits * waits;
        part
    }

    /// Notes what connections have got before a drain.
    fn look(&mut self, now: Instant, rtts: Rtts) -> f64 {
        (self.step, self.has_looked, self.before) = (None, true, rtts);
        self.due = now + LOOK;
        1.0
    }

    fn wait(&mut self, now: Instant) -> f64 {
        (self.step, self.has_looked, self.before) = (None, false, Rtts::new());
        self.due = now + EVERY - LOOK;
        1.0
    }

    fn begin(&mut self, rtts: Rtts) {
        let waits = i64::try_from(rtt_of_most_data(&self.before, &rtts)).unwrap_or(i64::MAX);
        self.waits = Duration::from_ns(waits).min(LONGEST_RTT);
        self.before = rtts;
        self.begun = self.begun.wrapping_add(1);
    }
}

/// Returns the least RTT for which connections whose RTT is not longer got most of the data between two looks. Where none was seen, each
/// counts alike, and half of them are most.
fn rtt_of_most_data(before: &Rtts, after: &Rtts) -> u64 {
    let data = |(key, heard): (&Key, &Heard)| {
        (heard.rtt, before.get(key).map_or(0, |noted| heard.data_since(noted)))
    };
    let mut data: Vec<(u64, u64)> = after.iter().map(data).collect();
    data.sort_unstable();
    let all: u64 = data.iter().map(|(_, data)| data).sum();
    if all == 0 {
        return data.get(data.len() / 2).map_or(0, |(rtt, _)| *rtt);
    }
    let (mut sum, most) = (0, MOST_DATA * all as f64);
    let reached = data.iter().find(|(_, data)| {
        sum += data;
        sum as f64 >= most
    });
    reached.map_or(0, |(rtt, _)| *rtt)
}

/// Whether the RTT of every second connection is smaller than before, or of more.
fn have_fallen(before: &Rtts, after: &Rtts) -> bool {
    let both = after.iter().filter_map(|(key, after)| Some((before.get(key)?.rtt, after.rtt)));
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

    /// Connections with these RTTs in ms, which have got so many bytes until now.
    fn heard(of: &[(u64, u32)]) -> Rtts {
        let host = |last| IpAddr::from([10, 0, 0, last]);
        let key = |port| *Packet::between((host(1), port), (host(2), 80)).key();
        let heard = |(rtt, bytes): &(u64, u32)| Heard { rtt: rtt * MS, acknowledged: [7, *bytes] };
        of.iter().zip(1..).map(|(of, port)| (key(port), heard(of))).collect()
    }

    /// As many connections with these RTTs in ms, without data.
    fn rtts(of: &[u64]) -> Rtts {
        heard(&of.iter().map(|rtt| (*rtt, 0)).collect::<Vec<_>>())
    }

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * MS)
    }

    #[test]
    fn drains_open_windows_in_steps_and_come_soon_again_while_they_help() {
        let mut drain = Drain::new(at(0));
        assert_eq!((drain.due(), drain.period()), (at(14_000), 0));
        assert_eq!(drain.turn(at(14_000), Rtts::new()), 1.0);
        assert_eq!(drain.due(), at(15_000));
        assert_eq!(drain.turn(at(15_000), Rtts::new()), 1.0);
        assert_eq!((drain.due(), drain.period()), (at(29_000), 0));
        assert_eq!(drain.turn(at(29_000), rtts(&[40, 100])), 1.0);
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
        assert_eq!((drain.due(), drain.period()), (at(31_600), 2));
        drain.turn(at(31_600), rtts(&[30, 100, 5_000]));
        drain.turn(at(31_700), Rtts::new());
        assert_eq!(drain.turn(at(31_800), Rtts::new()), 1.0);
        assert_eq!(drain.due(), at(45_800));
    }

    /// How long the first step of a drain takes, in ms, for connections with these RTTs in ms and bytes at the look and at its beginning.
    fn first_step(of: &[(u64, u32, u32)]) -> u64 {
        let mut drain = Drain::new(at(0));
        let part = |bytes: fn(&(u64, u32, u32)) -> u32| {
            of.iter().map(move |of| (of.0, bytes(of))).collect::<Vec<_>>()
        };
        drain.turn(at(14_000), heard(&part(|of| of.1)));
        drain.turn(at(15_000), heard(&part(|of| of.2)));
        (drain.due() - at(15_000)).ns() as u64 / MS
    }

    #[test]
    fn a_drain_waits_for_the_rtts_of_most_data() {
        // The far one has a fifth, and one that began since nobody knows how much.
        assert_eq!(first_step(&[(40, 0, 800_000), (200, u32::MAX, 199_999), (900, 5, 5)]), 2 * 200);
        // It has all.
        assert_eq!(first_step(&[(40, 9, 9), (600, 0, 1_000_000)]), 2 * 600);
        assert_eq!(first_step(&[(5_000, 0, 1)]), 2 * 1_000);
    }

    #[test]
    fn strangers_with_long_rtts_and_little_data_do_not_prolong_a_drain() {
        let mut all = vec![(40, 0, 1_000_000), (30, 0, 300_000)];
        all.extend((0..200).map(|_| (1_000, 0, 500)));
        assert_eq!(first_step(&all), 2 * 40);
    }
}
