//! The truth about a lab, written by the emulator: what was free, carried and dropped on every
//! link in every interval.

use std::path::Path;

use headway_record::row;
use headway_units::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::spec::Direction;
use crate::truths::Truths;

/// Traffic in one direction of a link during one interval; all rates and bits count wire bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Start of the interval, on `CLOCK_REALTIME`.
    pub start: Instant,
    /// Length.
    pub length: Duration,
    /// Rate of the link, or of its policer if lower, averaged over the interval.
    pub capacity: Rate,
    /// Bits of cross traffic that arrived at the queue.
    pub cross_offered_bits: u64,
    /// Bits of cross traffic sent over the wire.
    pub cross_bits: u64,
    /// Bits of host packets sent over the wire.
    pub host_bits: u64,
    /// The part of them in TCP segments.
    pub host_tcp_bits: u64,
    /// Host packets that the queue dropped.
    pub host_drops: u64,
    /// Host packets that the queue marked CE.
    pub host_marks: u64,
    /// Host packets lost on the wire.
    pub host_lost: u64,
    /// Second copies of host packets that the wire made.
    pub host_copies: u64,
    /// Host packets damaged on the wire.
    pub host_damaged: u64,
    /// Frames of hosts for the next station only (EtherType 0x8808, such as PAUSE), which were
    /// dropped before the queue.
    pub control_frames: u64,
    /// Host packets that the emulator did not read in time (a fault of the machine, not of the path).
    pub host_missed: u64,
    /// Cross packets that the queue dropped.
    pub cross_drops: u64,
    /// Cross packets that were dropped only because of the hosts' packets.
    pub cross_drops_due_to_hosts: u64,
    /// Largest backlog of the queue.
    pub max_queue: Bytes,
    /// Packets that the queue accepted, of hosts and of cross traffic.
    pub queued: u64,
    /// Sum of these packets' queueing delays, from arrival to the beginning of transmission.
    pub queued_time: Duration,
    /// The largest of these delays.
    pub max_queued_time: Duration,
    /// Host packets delivered.
    pub released: u64,
    /// Packets delivered more than 0.25 ms after they were due.
    pub late: u64,
    /// Packets delivered more than 1 ms after they were due.
    pub very_late: u64,
    /// Largest lateness of a delivery.
    pub max_late: Duration,
    /// Histogram of queueing delays: delay in whole microseconds and number of packets, ascending;
    /// empty unless logged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<(u32, u32)>,
}

impl Interval {
    /// Returns an interval in which nothing happened.
    pub(crate) fn empty(start: Instant, length: Duration, capacity: Rate) -> Interval {
        Interval { start, length, capacity, ..Interval::default() }
    }

    /// Returns the capacity that the cross traffic left.
    pub fn free(&self) -> Rate {
        self.capacity.saturating_sub(self.rate_of(self.cross_bits))
    }

    /// Returns the rate at which cross traffic arrived.
    pub fn cross_offered(&self) -> Rate {
        self.rate_of(self.cross_offered_bits)
    }

    /// Returns the rate of the hosts' packets on the wire.
    pub fn host(&self) -> Rate {
        self.rate_of(self.host_bits)
    }

    fn rate_of(&self, bits: u64) -> Rate {
        Rate::from_bps_f64(bits as f64 / self.length.secs_f64())
    }

    /// Returns the line of this interval; `lane` names link and direction. The first columns are those of a
    /// run's `truth.csv`, in whole bytes; what is read back is exact and stands behind them.
    pub(crate) fn row<'a>(&self, lane: &'a str) -> impl Serialize + use<'a> {
        let delays = self.delays.iter().map(|(delay, packets)| format!("{delay}:{packets}"));
        let (capacity, cross) = (self.capacity.bytes_in(self.length).get(), self.cross_bits / 8);
        row! {
            begin_ns: self.start,
            end_ns: self.end(),
            link: lane,
            capacity_bytes: capacity,
            measured_bytes: self.host_bits / 8,
            cross_bytes: cross,
            free_bytes: capacity.saturating_sub(cross),
            dropped_packets: self.host_drops + self.cross_drops,
            queue_bytes: self.max_queue.get(),
            capacity_bps: self.capacity.bps(),
            cross_offered_bits: self.cross_offered_bits,
            cross_bits: self.cross_bits,
            host_bits: self.host_bits,
            host_drops: self.host_drops,
            host_lost: self.host_lost,
            host_missed: self.host_missed,
            cross_drops: self.cross_drops,
            cross_drops_due_to_hosts: self.cross_drops_due_to_hosts,
            queued: self.queued,
            queued_ns: self.queued_time.ns(),
            max_queued_ns: self.max_queued_time.ns(),
            released: self.released,
            late_250us: self.late,
            late_1ms: self.very_late,
            max_late_ns: self.max_late.ns(),
            host_marks: self.host_marks,
            host_copies: self.host_copies,
            host_damaged: self.host_damaged,
            host_tcp_bits: self.host_tcp_bits,
            control_frames: self.control_frames,
            delays_us: delays.collect::<Vec<_>>().join(" "),
        }
    }

    /// Reads the line of [`Interval::row`] back as the name of the lane and the interval.
    pub(crate) fn read_csv(line: &str) -> Option<(&str, Interval)> {
        let [begin, end, lane, rest] = line.splitn(4, ',').collect::<Vec<_>>().try_into().ok()?;
        let (start, end): (u64, u64) = (begin.parse().ok()?, end.parse().ok()?);
        (start <= end).then_some(())?;
        // Capacity, measured, cross, free and dropped follow from other fields.
        let mut fields = rest.split(',').skip(5);
        let mut number = || fields.next()?.parse::<u64>().ok();
        let bin = |text: &str| {
            let (delay, packets) = text.split_once(':')?;
            Some((delay.parse().ok()?, packets.parse().ok()?))
        };
        // Fields are read in the order of the line.
        let interval = Interval {
            start: Instant::from_ns(start),
            length: Instant::from_ns(end) - Instant::from_ns(start),
            max_queue: Bytes::new(number()?),
            capacity: Rate::from_bps(number()?),
            cross_offered_bits: number()?,
            cross_bits: number()?,
            host_bits: number()?,
            host_drops: number()?,
            host_lost: number()?,
            host_missed: number()?,
            cross_drops: number()?,
            cross_drops_due_to_hosts: number()?,
            queued: number()?,
            queued_time: Duration::from_ns(number()? as i64),
            max_queued_time: Duration::from_ns(number()? as i64),
            released: number()?,
            late: number()?,
            very_late: number()?,
            max_late: Duration::from_ns(number()? as i64),
            host_marks: number()?,
            host_copies: number()?,
            host_damaged: number()?,
            host_tcp_bits: number()?,
            control_frames: number()?,
            delays: fields.next()?.split_ascii_whitespace().map(bin).collect::<Option<_>>()?,
        };
        fields.next().is_none().then_some((lane, interval))
    }

    fn end(&self) -> Instant {
        self.start + self.length
    }

    /// Returns the share of this interval that lies in the window.
    fn share(&self, from: Instant, to: Instant) -> f64 {
        let inside = self.end().min(to) - self.start.max(from);
        (inside.secs_f64() / self.length.secs_f64()).max(0.0)
    }
}

/// How punctual the emulator was in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Largest lateness of a delivery.
    pub max: Duration,
    /// Share of packets more than 0.25 ms late; 0 if there were none.
    pub late_share: f64,
    /// Share of packets more than 1 ms late; 0 if there were none.
    pub very_late_share: f64,
    /// Packets delivered.
    pub released: u64,
    /// Packets that the emulator lost because it did not read them in time.
    pub missed: u64,
}

/// The truth about one link.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Of each direction.
    ways: [Vec<Interval>; 2],
}

impl Truth {
    /// Reads the truth file of a lab of one link and ignores an incomplete last line, which is
    /// still being written.
    ///
    /// # Errors
    /// If the file cannot be read, has an invalid line, or is about several links.
    pub fn load(path: &Path) -> Result<Truth, Error> {
        Truths::load(path)?.into_only()
    }

    /// Appends an interval.
    pub(crate) fn push(&mut self, direction: Direction, interval: Interval) {
        self.ways[direction as usize].push(interval);
    }

    /// Prepends the intervals of `earlier`.
    pub(crate) fn prepend(&mut self, earlier: Truth) {
        for (later, earlier) in self.ways.iter_mut().zip(earlier.ways) {
            later.splice(..0, earlier);
        }
    }

    /// Returns all intervals of a direction, in order of time.
    pub fn intervals(&self, direction: Direction) -> &[Interval] {
        &self.ways[direction as usize]
    }

    /// Returns the mean rate that cross traffic left free in the window; `None` if the log does
    /// not cover all of it.
    ///
    /// Intervals that lie partly in the window are weighted by the part inside.
    pub fn free_between(&self, direction: Direction, from: Instant, to: Instant) -> Option<Rate> {
        self.mean(direction, from, to, |i| i.capacity.bps_f64() - i.cross_bits as f64 / i.length.secs_f64())
            .map(Rate::from_bps_f64)
    }

    /// Returns the mean rate that neither cross traffic nor TCP of the hosts used in the window; `None` if
    /// the log does not cover all of it.
    pub fn free_beside_tcp_between(&self, direction: Direction, from: Instant, to: Instant) -> Option<Rate> {
        let used = |i: &Interval| (i.cross_bits + i.host_tcp_bits) as f64 / i.length.secs_f64();
        self.mean(direction, from, to, |i| i.capacity.bps_f64() - used(i)).map(Rate::from_bps_f64)
    }

    /// Returns the mean capacity; `None` if the log does not cover all of the window.
    pub fn capacity_between(&self, direction: Direction, from: Instant, to: Instant) -> Option<Rate> {
        self.mean(direction, from, to, |i| i.capacity.bps_f64()).map(Rate::from_bps_f64)
    }

    /// Counts cross packets dropped in the intervals that overlap the window: all of them, and those dropped
    /// because of the hosts' packets.
    pub fn cross_drops_between(&self, direction: Direction, from: Instant, to: Instant) -> (u64, u64) {
        self.touching(direction, from, to)
            .iter()
            .fold((0, 0), |(all, due), i| (all + i.cross_drops, due + i.cross_drops_due_to_hosts))
    }

    /// Returns how punctual the emulator was in the intervals that overlap the window.
    pub fn lateness_between(&self, direction: Direction, from: Instant, to: Instant) -> Lateness {
        let part = self.touching(direction, from, to);
        let sum = |count: fn(&Interval) -> u64| part.iter().map(count).sum::<u64>();
        let released = sum(|i| i.released);
        let share = |late: u64| if released == 0 { 0.0 } else { late as f64 / released as f64 };
        Lateness {
            max: part.iter().map(|i| i.max_late).max().unwrap_or_default(),
            late_share: share(sum(|i| i.late)),
            very_late_share: share(sum(|i| i.very_late)),
            released,
            missed: sum(|i| i.host_missed),
        }
    }

    /// Returns the time up to which the log covers both directions.
    pub fn end(&self) -> Option<Instant> {
        let [forward, reverse] = &self.ways;
        Some(forward.last()?.end().min(reverse.last()?.end()))
    }

    fn mean(
        &self,
        direction: Direction,
        from: Instant,
        to: Instant,
        value: impl Fn(&Interval) -> f64,
    ) -> Option<f64> {
        let part = self.touching(direction, from, to);
        let covered = part.first()?.start <= from && part.last()?.end() >= to;
        let (weight, sum) = part.iter().fold((0.0, 0.0), |(weight, sum), i| {
            let time = i.share(from, to) * i.length.secs_f64();
            (weight + time, sum + time * value(i))
        });
        (covered && weight > 0.0).then(|| sum / weight)
    }

    fn touching(&self, direction: Direction, from: Instant, to: Instant) -> &[Interval] {
        let all = self.intervals(direction);
        let first = all.partition_point(|i| i.end() <= from);
        let last = all.partition_point(|i| i.start < to);
        all.get(first..last).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use headway_record::csv::lines;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(1_700_000_000_000_000_000 + ms * 1_000_000)
    }

    fn interval(ms: u64, cross_bits: u64) -> Interval {
        Interval {
            cross_bits,
            cross_offered_bits: cross_bits,
            host_bits: 1_000,
            host_tcp_bits: 400,
            cross_drops: 3,
            cross_drops_due_to_hosts: 2,
            max_queue: Bytes::new(4_000),
            queued: 7,
            queued_time: Duration::from_us(70),
            max_queued_time: Duration::from_us(20),
            released: 10,
            late: 2,
            very_late: 1,
            max_late: Duration::from_us(300 + ms as i64),
            host_drops: 4,
            host_lost: 5,
            host_missed: 6,
            host_marks: 8,
            host_copies: 9,
            host_damaged: 10,
            control_frames: 11,
            delays: vec![(0, 3), (12, 4)],
            ..Interval::empty(at(ms), Duration::from_ms(10), Rate::from_mbps(100.0))
        }
    }

    fn truth() -> Truth {
        let mut truth = Truth::default();
        for (ms, bits) in [(0, 400_000), (10, 600_000), (20, 800_000)] {
            truth.push(Direction::Forward, interval(ms, bits));
            truth.push(Direction::Reverse, interval(ms, 0));
        }
        truth
    }

    #[test]
    fn a_line_reads_back_as_written() {
        let text = lines([interval(10, 600_000).row("forward")]);
        assert_eq!(Interval::read_csv(text.trim_end()), Some(("forward", interval(10, 600_000))));
        assert_eq!(Interval::read_csv("nonsense"), None);
        assert_eq!(truth().end(), Some(at(30)));
    }

    #[test]
    fn windows_weigh_intervals_by_overlap() {
        let truth = truth();
        let free = |from, to| truth.free_between(Direction::Forward, at(from), at(to)).map(|r| r.mbps());
        assert_eq!(free(0, 10), Some(60.0));
        assert_eq!(free(0, 30), Some(40.0));
        assert_eq!(free(5, 15), Some(50.0));
        assert_eq!(free(12, 18), Some(40.0));
        assert_eq!(free(5, 12), Some((5.0 * 60.0 + 2.0 * 40.0) / 7.0).map(|m: f64| (m * 1e6).round() / 1e6));
    }

    #[test]
    fn tcp_of_the_hosts_may_count_as_used() {
        // Of 100 Mb/s cross traffic leaves 60 in the first interval and 40 in the second; TCP
        // sends 400 bits in each.
        let free =
            |from, to| truth().free_beside_tcp_between(Direction::Forward, at(from), at(to)).map(Rate::bps);
        assert_eq!(free(0, 10), Some(60_000_000 - 40_000));
        assert_eq!(free(5, 15), Some(50_000_000 - 40_000));
        assert_eq!(free(20, 31), None);
    }

    #[test]
    fn a_window_outside_the_log_has_no_answer() {
        let truth = truth();
        assert_eq!(truth.free_between(Direction::Forward, at(20), at(31)), None);
        assert_eq!(truth.free_between(Direction::Forward, at(100), at(110)), None);
        assert_eq!(truth.free_between(Direction::Forward, at(10), at(10)), None);
    }

    #[test]
    fn drops_and_lateness_cover_all_touched_intervals() {
        let truth = truth();
        assert_eq!(truth.cross_drops_between(Direction::Forward, at(5), at(15)), (6, 4));
        let lateness = truth.lateness_between(Direction::Forward, at(5), at(15));
        assert_eq!(lateness.max, Duration::from_us(310));
        assert_eq!((lateness.released, lateness.missed), (20, 12));
        assert!((lateness.late_share - 0.2).abs() < 1e-12);
    }
}
