//! Times in which a path delivers nothing, as a radio link between two cells or a link that
//! is down for a moment.
//!
//! A packet that meets a stall arrives later than the one before it by what is left of the stall, and those
//! behind it close together. Streams last some milliseconds and seldom meet a stall, so their samples tell
//! what is available between stalls. How long the stalls lasted is known much better: a stall delays the next
//! packet also if it began between two streams. The mean follows from both.
//!
//! A burst of other packets delays a stream in the same way. Up to a certain size it is left to the samples.

use std::ops::Range;

use crate::stream::StreamRecord;
use headway_units::statistics::upper_median;
use headway_units::{Duration, Instant, Rate};

use super::answer::Interval;
use super::probe::FULL_PACKET;

/// The shortest stall. Range 20 to 50 ms: hosts may be descheduled for a few time slices, and radio links
/// pause from 50 ms on.
const LEAST: Duration = Duration::from_ms(40);
/// A stall lasts at least as long as this many full packets of others take at the narrow link. Range 32 to
/// 128: bursts of TCP and of applications have up to some tens.
const BURST: u64 = 48;
/// The shortest stall while the capacity is not known: on slow links bursts take as long as short
/// stalls. Range 80 to 200 ms.
const LONG: Duration = Duration::from_ms(100);
/// This many streams before the method begins may be left out: the capacity is not known then, and a
/// burst looks like a stall.
const LEFT_OUT: u32 = 3;
/// This many packets lost in a row during [`LEAST`] were lost in a stall, which filled the buffer.
const LOST: usize = 8;
/// A stall delays a packet by this many times the jitter and this many of the usual gaps, which may be long
/// on slow paths. Range 1.2 to 2 and 4 to 16.
const JITTER: f64 = 1.5;
const UNUSUAL: i64 = 8;
/// Error of the length of all stalls together, as a share of it: others that waited for the end of a stall
/// delay the packet that shows it. Range 0.02 to 0.1.
const ERROR: f64 = 0.05;
/// 95 % quantile of the normal distribution, for a two-sided 90 % interval.
const Z90: f64 = 1.645;
/// A queue as short as this behind a stall tells nothing about the traffic in it. Range 5 to 20 ms.
const SHORT_QUEUE: Duration = Duration::from_ms(10);
/// The share of the traffic in stalls that is kept for later, and its standard error, where no queue has told
/// it: most buffers of links that stall are long.
const UNKNOWN: (f64, f64) = (0.75, 0.3);
/// The standard error where one has.
const KEPT_ERROR: f64 = 0.1;
/// At most this much of the time is taken to be stalls.
const MOST: f64 = 0.95;

/// What is known of the stalls of a path.
#[derive(Clone, Debug, Default)]
pub(super) struct StallSearch {
    /// The packet that arrived last.
    last: Option<Passed>,
    /// The lowest delay, which clocks that differ shift.
    lowest: Option<Duration>,
    found: Vec<Stall>,
    /// The last stall that a packet showed, which left a queue behind if others sent meanwhile.
    behind: Option<Stall>,
    kept: Kept,
    /// When streams began, and how long no packet had been under way before.
    unwatched: Vec<(Instant, Duration)>,
    left_out: u32,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
struct Passed {
    sent: Instant,
    delay: Duration,
}

/// A stall with the end of what it delayed, by the clock of the measurement, and limits of its length.
#[derive(Clone, Copy, Debug)]
struct Stall {
    end: Instant,
    least: Duration,
    most: Duration,
}

/// What packets behind stalls waited, and what they would have waited if nothing had been dropped meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    waited: Duration,
    expected: Duration,
}

impl Kept {
    fn add(&mut self, waited: Duration, expected: Duration) {
        if expected > SHORT_QUEUE {
            self.waited += waited.clamp(Duration::ZERO, expected);
            self.expected += expected;
        }
    }

    /// Returns the share of what others sent in stalls that was kept for later, with its standard error.
    fn share(&self) -> (f64, f64) {
        if self.expected == Duration::ZERO {
            return UNKNOWN;
        }
        (self.waited.secs_f64() / self.expected.secs_f64(), KEPT_ERROR)
    }
}

/// The stalls of the time that an answer is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// The longest one.
    pub longest: Duration,
    /// Their share of the time, 0 to 0.95.
    pub share: f64,
    /// What is available between them.
    pub between: Rate,
    /// The standard error of the share.
    error: f64,
    /// What is carried between them, and not in them.
    capacity: Rate,
    /// The share of what others send in stalls that is carried later, and its standard error.
    kept: (f64, f64),
}

impl Stalls {
    /// Returns the average of what is available in stalls and between them, where `between` is an interval
    /// for the latter, `width` times as wide as one of 90 %.
    ///
    /// Others send in stalls, too. What is kept of it takes its share of the time between stalls.
    pub(super) fn averaged(&self, between: Interval, width: f64) -> Interval {
        let rate = between.rate.bps_f64();
        let others = self.capacity.saturating_sub(between.rate).bps_f64();
        let lost = rate + self.kept.0 * others;
        let less = self.share * lost;
        let error = (self.error * lost).hypot(self.share * self.kept.1 * others) * Z90 * width;
        let away = |end: Rate, sign: f64| {
            Rate::from_bps_f64((rate - less + sign * (end.bps_f64() - rate).hypot(error)).max(0.0))
        };
        Interval {
            rate: Rate::from_bps_f64((rate - less).max(0.0)),
            low: away(between.low, -1.0),
            high: between.high.map(|high| away(high, 1.0)),
        }
    }
}

/// What the length of a stall depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// When the stream was requested, by the clock of the measurement.
    pub(super) asked: Instant,
    /// The capacity of the narrow link, once it is known, and the share of it that is free.
    pub(super) capacity: Option<Rate>,
    pub(super) free: f64,
    /// By how much delays vary without a queue.
    pub(super) jitter: Duration,
    /// Whether a policer may drop many packets in a row.
    pub(super) drops: bool,
}

impl Context {
    /// Returns the shortest delay between two packets of a stream that is a stall.
    fn least(&self, record: &StreamRecord) -> Duration {
        let burst = self.capacity.map_or(LONG, |capacity| capacity.time_for(FULL_PACKET * BURST));
        let gaps = record.arrivals.windows(2).filter_map(|pair| Some(pair[1].received? - pair[0].received?));
        let usual = upper_median(gaps.collect()).unwrap_or_default();
        LEAST.max(burst).max(self.jitter.scale(JITTER)).max(usual * UNUSUAL)
    }
}

impl StallSearch {
    /// Looks for stalls in and before a stream. Returns its longest part without one, as a range of its
    /// packets, if there was one in it.
    pub(super) fn observe(&mut self, record: &StreamRecord, context: &Context) -> Option<Range<usize>> {
        let arrived: Vec<(usize, Passed)> = (record.arrivals.iter().enumerate())
            .filter_map(|(place, one)| Some((place, Passed { sent: one.sent, delay: one.one_way_delay()? })))
            .collect();
        let least_delay = arrived.iter().map(|(_, one)| one.delay).min()?;
        let lowest = self.lowest.map_or(least_delay, |lowest| lowest.min(least_delay));
        self.lowest = Some(lowest);
        let first_sent = record.arrivals.first()?.sent;
        let before = self.last.replace(arrived.last()?.1);
        let unknown = Passed { sent: first_sent, delay: lowest };
        let mut previous = (None, before.unwrap_or(unknown));
        self.unwatched.push((context.asked, (first_sent - previous.1.sent).max(Duration::ZERO)));
        if let (Some(stall), Some((_, first))) = (self.behind.take(), arrived.first()) {
            let drained = (context.asked - stall.end).scale(context.free);
            self.kept.add(first.delay - lowest, stall.least.scale(1.0 - context.free) - drained);
        }
        let least = context.least(record);
        let (mut from, mut longest, mut cut) = (0, 0..0, false);
        for (place, one) in arrived {
            let gap = (one.sent - previous.1.sent).max(Duration::ZERO);
            // What had waited at the packet before has become less meanwhile.
            let drained = (previous.1.delay - lowest - gap.scale(context.free)).max(Duration::ZERO);
            let late = one.delay - lowest - drained;
            let lost = previous.0.map_or(place, |before: usize| place - before - 1);
            let silent = lost >= LOST && gap >= LEAST && !context.drops;
            if late >= least || silent {
                let stall = Stall {
                    end: context.asked + (one.sent - first_sent) + (one.delay - lowest),
                    least: late.max(Duration::ZERO),
                    most: late.max(Duration::ZERO) + gap.scale(context.free),
                };
                self.found.push(stall);
                self.behind = Some(stall);
                if silent && late < least {
                    self.behind = None;
                    self.kept.add(late, (stall.most / 2).scale(1.0 - context.free));
                }
                if previous.0.is_some() || silent {
                    longest = longer(longest, from..previous.0.map_or(0, |before| before + 1));
                    (from, cut) = (place, true);
                }
            }
            previous = (Some(place), one);
        }
        cut.then(|| longer(longest, from..record.arrivals.len()))
    }

    /// Returns whether a stream that met a stall is left out before the method begins, once more.
    pub(super) fn leave_out(&mut self) -> bool {
        self.left_out += 1;
        self.left_out <= LEFT_OUT
    }

    /// Forgets delays, because a clock was stepped.
    pub(super) fn restart(&mut self) {
        (self.last, self.lowest) = (None, None);
    }

    /// Returns the longest stall so far.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.found.iter().map(|stall| (stall.least + stall.most) / 2).max()
    }

    /// Returns the stalls of this time, if there was one.
    pub(super) fn within(&self, time: &Range<Instant>, between: Rate, capacity: Rate) -> Option<Stalls> {
        let whole = (time.end - time.start).secs_f64();
        let lengths = || {
            let known = self.found.iter().filter(|stall| stall.end > time.start);
            known.map(|stall| {
                let most = stall.end - time.start;
                (stall.least.min(most).secs_f64(), stall.most.min(most).secs_f64())
            })
        };
        let count = lengths().count() as f64;
        if count == 0.0 || whole <= 0.0 {
            return None;
        }
        let sum: f64 = lengths().map(|(least, most)| (least + most) / 2.0).sum();
        let variance: f64 = lengths().map(|(least, most)| (most - least).powi(2) / 12.0).sum();
        // Some stalls may have passed between two streams.
        let usual = sum / count;
        let seen = (usual - LEAST.secs_f64()).max(0.0);
        let slots = self.unwatched.iter().filter(|(at, _)| *at > time.start);
        let hidden: f64 = slots.map(|(_, gap)| (gap.secs_f64() - seen).max(0.0)).sum();
        let unseen = count * (hidden / (whole - hidden).max(whole / 4.0));
        let share = (sum + unseen * usual) / whole;
        let error = (variance + unseen * usual * usual).sqrt() / whole;
        let longest = lengths().map(|(least, most)| (least + most) / 2.0).fold(0.0, f64::max);
        Some(Stalls {
            longest: Duration::from_secs_f64(longest),
            share: share.min(MOST),
            between,
            error: error.hypot(ERROR * share),
            capacity,
            kept: self.kept.share(),
        })
    }
}

fn longer(one: Range<usize>, other: Range<usize>) -> Range<usize> {
    if other.len() > one.len() { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Arrival;
    use headway_units::Bytes;

    const CAPACITY: Rate = Rate::from_bps(100_000_000);
    const HALF: Rate = Rate::from_bps(50_000_000);

    fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// Packets 1 ms apart from `start` on that arrive after these delays in ms, or never.
    fn record(start: u64, delays: &[Option<u64>]) -> StreamRecord {
        let arrival = |(index, delay): (u64, &Option<u64>)| Arrival {
            index: index as u32,
            size: Bytes::new(1_538),
            sent: ms(start + index),
            received: delay.map(|delay| ms(start + index + delay)),
        };
        StreamRecord {
            id: 0,
            packet: Bytes::new(1_538),
            average: Rate::from_mbps(12.0),
            intended: vec![Duration::from_ms(1); delays.len() - 1],
            arrivals: (0..).zip(delays).map(arrival).collect(),
        }
    }

    fn context(start: u64) -> Context {
        Context {
            asked: ms(start),
            capacity: Some(CAPACITY),
            free: 0.5,
            jitter: Duration::ZERO,
            drops: false,
        }
    }

    fn calm() -> Vec<Option<u64>> {
        vec![Some(10); 30]
    }

    fn within(search: &StallSearch) -> Option<Stalls> {
        search.within(&(ms(0)..ms(1_000)), HALF, CAPACITY)
    }

    #[test]
    fn a_stall_in_a_stream_leaves_its_longest_part_and_its_length() {
        let mut search = StallSearch::default();
        // Packets that met it arrive together, 120 ms after the one before.
        let delays: Vec<Option<u64>> = (0..200)
            .map(|index| Some(if index < 20 { 10 } else { 10 + 120_u64.saturating_sub(index - 20) }))
            .collect();
        assert_eq!(search.observe(&record(0, &calm()), &context(0)), None);
        assert_eq!(search.observe(&record(100, &delays), &context(100)), Some(20..200));
        let stalls = within(&search).expect("a stall");
        assert!(
            (stalls.longest.ms() - 120.0).abs() < 1.0 && (stalls.share - 0.12).abs() < 0.005,
            "{stalls:?}"
        );
    }

    #[test]
    fn a_stall_that_began_between_two_streams_is_known_within_the_time_between_them() {
        let mut search = StallSearch::default();
        search.observe(&record(0, &calm()), &context(0));
        let late: Vec<Option<u64>> = (0..30).map(|index| Some(110 - index)).collect();
        assert_eq!(search.observe(&record(50, &late), &context(50)), None, "its packets are all behind it");
        let stalls = within(&search).expect("a stall");
        assert!((100.0..112.0).contains(&stalls.longest.ms()), "{stalls:?}");
    }

    #[test]
    fn a_burst_of_others_on_a_slow_link_is_none() {
        let delays: Vec<Option<u64>> = (0..60).map(|index| Some(if index < 20 { 10 } else { 110 })).collect();
        let slow = Context { capacity: Some(Rate::from_mbps(2.7)), ..context(0) };
        let mut search = StallSearch::default();
        assert_eq!(search.observe(&record(0, &delays), &slow), None);
        assert_eq!(within(&search), None);
    }

    #[test]
    fn packets_lost_in_a_row_for_long_were_lost_in_a_stall_unless_a_policer_drops_them() {
        let delays: Vec<Option<u64>> =
            (0..160).map(|index| (!(20..90).contains(&index)).then_some(10)).collect();
        let found = |drops: bool| {
            let mut search = StallSearch::default();
            let part = search.observe(&record(0, &delays), &Context { drops, ..context(0) });
            (part, within(&search).is_some())
        };
        assert_eq!(found(false), (Some(90..160), true));
        assert_eq!(found(true), (None, false));
    }

    #[test]
    fn the_average_loses_what_the_link_does_not_carry_and_what_others_send_later() {
        let stalls = |kept: (f64, f64)| Stalls {
            longest: Duration::from_ms(100),
            share: 0.2,
            between: HALF,
            error: 0.0,
            capacity: CAPACITY,
            kept,
        };
        let between = Interval { rate: HALF, low: HALF.scale(0.9), high: Some(HALF.scale(1.1)) };
        // A fifth of the time the link is silent; the others, who take half of it, have the rest of their
        // traffic carried later.
        let kept = stalls((1.0, 0.0)).averaged(between, 1.0);
        assert_eq!((kept.rate.mbps(), kept.low.mbps(), kept.high.map(Rate::mbps)), (30.0, 25.0, Some(35.0)));
        let dropped = stalls((0.0, 0.0)).averaged(between, 1.0);
        assert_eq!(dropped.rate.mbps(), 40.0);
    }
}
