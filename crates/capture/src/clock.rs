//! Clocks that are set, and time stamps that are wrong.

use std::collections::VecDeque;

use headway_units::Instant;

/// Largest difference either way that counts as packets out of order, ns, and not as a clock that was set or
/// a wrong stamp: several queues of a NIC are read one after the other, capture programs write the packets of
/// several interfaces in turns, and files are merged. After a longer pause the packets behind it decide.
pub const DISORDER: i64 = 1_000_000_000;
/// Interfaces that are set together differ by less than this behind it, ns.
const TOGETHER: i64 = 100_000_000;
/// A clock that is set back again before it went on for this many times the step is none: packets are out of
/// order. Range 3 to 100: two queues in blocks go on for one or two times the step.
const AGAIN: i64 = 10;
/// Longest pause, ns, after which two packets are enough to decide.
const SHORT: i64 = 10_000_000_000;
/// Longest pause, ns, that is believed at the end of a capture, where nothing follows: a day.
const DAY: i64 = 86_400_000_000_000;
/// Longest pause of a capture, ns: a year. A larger difference that stays is a clock that was set.
const YEAR: i64 = 366 * DAY;
/// Largest time stamp, ns: 140 years after 1970. Later ones are errors; with twice as many years,
/// differences would overflow.
const LATEST: i64 = 140 * 365 * DAY;
/// Packets that decide whether one before them has a wrong time stamp; a run of fewer
/// wrong ones is recognised.
const VOTES: usize = 4;
/// Most packets that wait until later ones tell whether their time stamps are right.
const WAITING: usize = 64;
/// Most interfaces with a clock of their own; later ones share the last.
const CLOCKS: usize = 64;

/// What was odd about the time stamps of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCounts {
    /// Packets that came behind later ones, by a second at most.
    pub disordered: u64,
    /// Those of them that came too late to be sorted, and got the time of the packet before.
    pub late: u64,
    /// Packets more than a second behind others: of an interface with another clock, or left out though they
    /// are from the time of the capture.
    pub behind: u64,
    /// Times that packets went back by more than a second in a way that no clock does. What
    /// follows is not in order.
    pub unsorted: u64,
    /// Times the clock was set: back by more than a second, or ahead by more than a year. What follows is
    /// moved so that no time passed.
    pub steps: u64,
}

/// The clock of an interface.
#[derive(Clone, Copy, Debug)]
struct Clock {
    interface: u32,
    /// The time of the latest packet, ns; `None` before the first.
    latest: Option<i64>,
    /// What earlier steps took back, ns; negative for steps ahead.
    shift: i64,
    /// The first stamp, and that behind the last step back.
    first: i64,
    back: Option<i64>,
}

impl Clock {
    fn time(&self, stamp: Instant) -> i64 {
        (raw(stamp) + self.shift).max(0)
    }

    /// Whether a step back to a stamp, from the stamp `before`, shows packets out of order: it goes back over
    /// most of the capture, or is the second one within a short time.
    fn is_unsorted(&self, before: i64, stamp: i64) -> bool {
        let step = before - stamp;
        let whole = before - self.first;
        let over = stamp >= self.first - DISORDER && step > whole / 2;
        over || self.back.is_some_and(|back| before - back <= step.saturating_mul(AGAIN))
    }
}

/// Returns a time stamp in ns.
fn raw(stamp: Instant) -> i64 {
    stamp.ns().min(LATEST as u64) as i64
}

/// A time stamp as an interface wrote it.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    interface: u32,
    at: Instant,
}

/// How a time stamp follows the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// Soon after, or slightly before.
    Follows,
    /// The first one of a clock.
    First,
    /// After a pause of this many ns.
    Ahead(i64),
    /// Too early.
    Behind,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It has this time.
    At(Instant),
    /// Its time stamp is wrong.
    Wrong,
}

/// Gives packets the times when they passed, in the order in which they come. Those whose time stamps leap
/// wait until the packets behind them have shown whether they are right.
#[derive(Debug)]
pub struct Timing<T> {
    clocks: Clocks,
    waiting: VecDeque<(Stamp, T)>,
}

impl<T> Default for Timing<T> {
    fn default() -> Timing<T> {
        Timing { clocks: Clocks::new(), waiting: VecDeque::with_capacity(WAITING) }
    }
}

impl<T> Timing<T> {
    /// Returns what was odd about the time stamps.
    pub fn counts(&self) -> ClockCounts {
        self.clocks.counts
    }

    /// Returns them to be counted further by who sorts the packets.
    pub fn counts_mut(&mut self) -> &mut ClockCounts {
        &mut self.clocks.counts
    }

    /// Returns the time of the next packet, with its interface and time stamp; `None` if it must
    /// wait ([`Timing::push`]).
    pub fn next(&mut self, interface: u32, at: Instant) -> Option<Instant> {
        if self.waiting.is_empty() { self.clocks.next(Stamp { interface, at }) } else { None }
    }

    /// Lets a packet wait.
    pub fn push(&mut self, interface: u32, at: Instant, packet: T) {
        self.waiting.push_back((Stamp { interface, at }, packet));
    }

    /// Returns the first packet that has waited, with its interface and its time, which is `None` if its
    /// stamp is wrong; in any case if this is the `last` occasion.
    pub fn pop(&mut self, last: bool) -> Option<(u32, Option<Instant>, T)> {
        let (stamp, _) = self.waiting.front()?;
        let behind = self.waiting.iter().skip(1).map(|(stamp, _)| *stamp);
        let last = last || self.waiting.len() >= WAITING;
        let verdict = self.clocks.judge(*stamp, behind, last)?;
        let (stamp, packet) = self.waiting.pop_front()?;
        match verdict {
            Verdict::At(at) => Some((stamp.interface, Some(at), packet)),
            Verdict::Wrong => Some((stamp.interface, None, packet)),
        }
    }
}

/// The clocks of all interfaces.
#[derive(Debug)]
struct Clocks {
    clocks: Vec<Clock>,
    /// The clock of the last packet.
    current: usize,
    /// The latest time of all clocks, ns.
    now: Option<i64>,
    counts: ClockCounts,
}

impl Clocks {
    fn new() -> Clocks {
        Clocks { clocks: Vec::new(), current: 0, now: None, counts: ClockCounts::default() }
    }

    /// Returns the time of the next packet; `None` if only later packets can tell whether its stamp is right.
    fn next(&mut self, stamp: Stamp) -> Option<Instant> {
        let place = self.of(stamp.interface);
        let clock = &mut self.clocks[place];
        let time = clock.time(stamp.at);
        // Nearly every packet.
        if let (Some(latest), Some(now)) = (clock.latest, self.now)
            && (latest..=now + DISORDER).contains(&time)
        {
            (clock.latest, self.now) = (Some(time), Some(now.max(time)));
            return Some(Instant::from_ns(time as u64));
        }
        (self.fit(place, stamp.at) == Fit::Follows).then(|| self.accept(place, stamp.at))
    }

    /// Judges a packet by those behind it; `None` if there are too few of them and `last` is false.
    fn judge(&mut self, stamp: Stamp, behind: impl Iterator<Item = Stamp>, last: bool) -> Option<Verdict> {
        let clock = self.of(stamp.interface);
        let fit = self.fit(clock, stamp.at);
        let needed = match fit {
            Fit::Follows => return Some(Verdict::At(self.accept(clock, stamp.at))),
            Fit::Ahead(pause) if pause <= SHORT => VOTES / 2,
            _ => VOTES,
        };
        let [mut agree, mut disagree] = [0, 0];
        for other in behind {
            match self.vote(clock, stamp, fit, other) {
                Some(true) => agree += 1,
                Some(false) => disagree += 1,
                None => {}
            }
            if agree >= needed || disagree >= needed {
                break;
            }
        }
        if agree < needed && disagree < needed && !last {
            return None;
        }
        let undecided = match fit {
            Fit::Ahead(pause) => pause <= DAY,
            Fit::Behind => false,
            Fit::First | Fit::Follows => true,
        };
        let right = agree > disagree || agree == disagree && undecided;
        let within = fit == Fit::Behind && raw(stamp.at) >= self.clocks[clock].first;
        self.counts.behind += u64::from(within && !right);
        Some(if right { Verdict::At(self.accept(clock, stamp.at)) } else { Verdict::Wrong })
    }

    /// Returns the place of an interface's clock; a new one is set as the last one used.
    fn of(&mut self, interface: u32) -> usize {
        if self.clocks.get(self.current).is_some_and(|clock| clock.interface == interface) {
            return self.current;
        }
        self.current = match self.clocks.iter().position(|clock| clock.interface == interface) {
            Some(place) => place,
            None if self.clocks.len() == CLOCKS => CLOCKS - 1,
            None => {
                let shift = self.clocks.get(self.current).map_or(0, |clock| clock.shift);
                self.clocks.push(Clock { interface, latest: None, shift, first: 0, back: None });
                self.clocks.len() - 1
            }
        };
        self.current
    }

    fn fit(&self, clock: usize, stamp: Instant) -> Fit {
        let clock = &self.clocks[clock];
        let time = clock.time(stamp);
        // Other interfaces are witnesses: usually they share one clock.
        let now = self.now.unwrap_or(i64::MIN);
        let Some(latest) = clock.latest else {
            return if self.now.is_some_and(|now| (time - now).abs() <= DISORDER) {
                Fit::Follows
            } else {
                Fit::First
            };
        };
        if time < latest - DISORDER {
            return Fit::Behind;
        }
        if time <= latest.max(now) + DISORDER { Fit::Follows } else { Fit::Ahead(time - latest) }
    }

    /// Whether a later packet confirms or contradicts a stamp; `None` if it does not tell.
    fn vote(&self, clock: usize, stamp: Stamp, fit: Fit, other: Stamp) -> Option<bool> {
        let own = other.interface == self.clocks[clock].interface;
        let clock = &self.clocks[clock];
        let (time, later) = (clock.time(stamp.at), clock.time(other.at));
        if !own {
            // It may have another clock.
            return ((later - time).abs() <= DISORDER && fit != Fit::Behind).then_some(true);
        }
        let latest = clock.latest.unwrap_or(0);
        match fit {
            Fit::Ahead(_) if later >= time - DISORDER => Some(true),
            Fit::Ahead(_) => (later >= latest - DISORDER).then_some(false),
            Fit::Behind if later > latest + YEAR => None,
            Fit::Behind => Some(later < latest - DISORDER),
            Fit::First | Fit::Follows => Some((-DISORDER..=YEAR).contains(&(later - time))),
        }
    }

    /// Takes the stamp of a packet, and returns its time.
    fn accept(&mut self, clock: usize, stamp: Instant) -> Instant {
        let mut time = self.clocks[clock].time(stamp);
        let latest = self.clocks[clock].latest;
        match latest {
            Some(latest) if time < latest - DISORDER || time > latest + YEAR => {
                time = self.step(clock, stamp, latest);
            }
            Some(_) => {}
            None => self.clocks[clock].first = raw(stamp),
        }
        self.clocks[clock].latest = latest.max(Some(time));
        self.now = self.now.max(Some(time));
        Instant::from_ns(time as u64)
    }

    /// Sets a clock so that no time passed since its latest packet; the interfaces of a
    /// host are set together.
    fn step(&mut self, clock: usize, stamp: Instant, latest: i64) -> i64 {
        self.counts.steps += 1;
        let (now, before) = (raw(stamp), latest - self.clocks[clock].shift);
        if now < before {
            self.counts.unsorted += u64::from(self.clocks[clock].is_unsorted(before, now));
            self.clocks[clock].back = Some(now);
        }
        let with = |shift: i64| Clock { shift, ..self.clocks[clock] }.time(stamp);
        let follows = |shift: &i64| (latest..=latest + TOGETHER).contains(&with(*shift));
        let alone = latest - now;
        let shift = self.clocks.iter().map(|clock| clock.shift).find(follows).unwrap_or(alone);
        let time = with(shift).max(latest);
        self.clocks[clock].shift = shift.clamp(-LATEST, LATEST);
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// In September 2020, ms.
    const START: u64 = 1_600_000_000_000;

    /// Plays stamps in ms of one interface, or of several; returns the times of those that are right.
    fn play(stamps: &[(u32, u64)]) -> (Vec<u64>, ClockCounts) {
        let mut clocks = Clocks::new();
        let stamps: Vec<Stamp> = stamps
            .iter()
            .map(|(interface, ms)| Stamp {
                interface: *interface,
                at: Instant::from_ns(ms.saturating_mul(MS)),
            })
            .collect();
        let (mut first, mut times) = (0, Vec::new());
        for end in 1..=stamps.len() {
            while first < end {
                let behind = stamps[first + 1..end].iter().copied();
                match clocks.judge(stamps[first], behind, end == stamps.len()) {
                    Some(Verdict::At(at)) => times.push(at.ns() / MS),
                    Some(Verdict::Wrong) => {}
                    None => break,
                }
                first += 1;
            }
        }
        assert_eq!(first, stamps.len());
        (times, clocks.counts)
    }

    fn times(stamps: &[u64]) -> (Vec<u64>, ClockCounts) {
        play(&stamps.iter().map(|ms| (0, *ms)).collect::<Vec<_>>())
    }

    #[test]
    fn a_step_back_takes_no_time() {
        let (after, counts) = times(&[8_000, 8_010, 8_020, 9_000, 9_010, 2_000, 2_010, 1_990, 2_020]);
        let moved = [8_000, 8_010, 8_020, 9_000, 9_010, 9_010, 9_020, 9_000, 9_030];
        assert_eq!(after, moved, "and those out of order stay so");
        assert_eq!(counts, ClockCounts { steps: 1, ..ClockCounts::default() });
    }

    #[test]
    fn stamps_out_of_order_within_a_second_are_right() {
        for (early, late) in [(107, 0), (0, 107), (900, 0), (950, 20)] {
            let stamps =
                [START + early, START + early + 10, START + late, START + late + 1, START + early + 30];
            assert_eq!(times(&stamps), (stamps.to_vec(), ClockCounts::default()));
        }
    }

    #[test]
    fn steps_back_of_a_clock_are_told_from_packets_out_of_order() {
        let run = |from: u64, to: u64| (from..to).step_by(50).map(|ms| START + ms);
        let unsorted = |stamps: Vec<u64>| times(&stamps).1.unsorted;
        // Set by 3 s after 30, after 10, and by an hour.
        assert_eq!(unsorted(run(0, 30_000).chain(run(27_000, 60_000)).collect()), 0);
        assert_eq!(unsorted(run(0, 10_000).chain(run(7_000, 60_000)).collect()), 0);
        assert_eq!(unsorted(run(3_600_000, 3_610_000).chain(run(0, 60_000)).collect()), 0);
        // Set every hour.
        assert_eq!(unsorted((0..3).flat_map(|k| run(k * 3_597_000, (k + 1) * 3_600_000)).collect()), 0);
        // One direction behind the other, and two queues in blocks of 3 s, behind some time in order.
        assert_eq!(unsorted(run(0, 10_000).chain(run(30, 10_000)).collect()), 1);
        let blocks = (10..20).flat_map(|k| [0, 7].map(|queue| run(k * 3_000 + queue, (k + 1) * 3_000)));
        assert!(unsorted(run(0, 30_000).chain(blocks.flatten()).collect()) > 5);
    }

    #[test]
    fn a_stamp_that_the_others_contradict_is_left_out_wherever_it_is() {
        let year = 365 * 86_400_000;
        let good: Vec<u64> = (0..12).map(|k| START + 20 * k).collect();
        for wrong in [
            0,
            START - 2 * year,
            START - 3_000,
            START + 1_300,
            START + 60_000,
            START + 10 * year,
            u64::MAX / MS,
        ] {
            for at in 0..=good.len() {
                for count in 1..=3 {
                    let left = good.len() - at;
                    let pause = at == 0 && (START - year..START).contains(&wrong)
                        || left == 0 && (START..START + year).contains(&wrong);
                    let short = count > 1 && (left < 4 || (START..START + 10_000).contains(&wrong));
                    // Before the first and after the last packet it may be right, and several in a row, too.
                    if pause || short {
                        continue;
                    }
                    let mut stamps = good.clone();
                    stamps.splice(at..at, (0..count as u64).map(|k| wrong.saturating_add(k)));
                    let (after, counts) = times(&stamps);
                    assert_eq!(after, good, "{count} of {wrong} at {at}");
                    assert_eq!(counts, ClockCounts::default(), "{count} of {wrong} at {at}");
                }
            }
        }
    }

    #[test]
    fn scattered_wrong_stamps_are_left_out() {
        let mut stamps: Vec<u64> = (0..40).map(|k| START + 20 * k).collect();
        for (at, wrong) in [(3, 0), (9, START + 4_000), (10, 7), (20, u64::MAX / MS), (30, START - 5_000)] {
            stamps[at] = wrong;
        }
        let good: Vec<u64> =
            (0..40).filter(|k| ![3, 9, 10, 20, 30].contains(k)).map(|k| START + 20 * k).collect();
        assert_eq!(times(&stamps), (good, ClockCounts::default()));
    }

    #[test]
    fn pauses_stay_and_a_clock_that_is_set_by_years_takes_no_time() {
        let pauses = [START, START + 5_000, START + 3_600_000, START + 3_600_001, START + 90_000_000];
        assert_eq!(times(&pauses), (pauses.to_vec(), ClockCounts::default()));
        // A host without a battery starts in 1970.
        let stamps = [[7_000, 7_010, 7_020, 7_030, 7_040], [0, 10, 20, 30, 40].map(|ms| START + ms)].concat();
        let (after, counts) = times(&stamps);
        assert_eq!(after, [7_000, 7_010, 7_020, 7_030, 7_040, 7_040, 7_050, 7_060, 7_070, 7_080]);
        assert_eq!(counts, ClockCounts { steps: 1, ..ClockCounts::default() });
    }

    #[test]
    fn interfaces_are_witnesses_for_each_other_and_are_set_together() {
        // The second interface is idle, and its first packet needs no packets behind it.
        let mut stamps: Vec<(u32, u64)> = (0..10).map(|k| (0, START + 20 * k)).collect();
        stamps.push((1, START + 190));
        assert_eq!(play(&stamps).0.last(), Some(&(START + 190)));
        // Both go back by 100 s; the packets of the second stay between those of the first.
        let mut stamps: Vec<(u32, u64)> = (0..30).map(|k| ((k % 2) as u32, START + 20 * k)).collect();
        let good: Vec<u64> = stamps.iter().map(|(_, ms)| *ms).collect();
        stamps[15..].iter_mut().for_each(|(_, ms)| *ms -= 100_000);
        let (after, counts) = play(&stamps);
        assert_eq!(counts.steps, 2);
        let gaps =
            |times: &[u64]| times.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<Vec<_>>();
        assert_eq!(gaps(&after)[16..], gaps(&good)[16..], "{after:?}");
    }

    #[test]
    fn the_largest_stamps_do_not_overflow() {
        let (_, counts) = times(&[u64::MAX / MS, 0, u64::MAX / MS, 1, u64::MAX / MS, 0, 0, 0, 0, 0, 0]);
        assert!(counts.steps <= 1);
    }
}
