//! Counts the packets of a link per interval, including transmissions that lie in the future but
//! are already scheduled.

use std::collections::VecDeque;

use headway_link::Server;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::queue::{HostFrame, Transmission};
use crate::truth::Interval;
use crate::wire::Changed;

/// A later release counts as late: the tail of delays that a busy machine shows (0.1 to 1 ms is sensible).
pub(crate) const LATE: Duration = Duration::from_us(250);
/// A later release spoils a measurement (1 ms: ten packets at 100 Mb/s).
pub(crate) const VERY_LATE: Duration = Duration::from_ms(1);

/// The owner of a packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A packet of the two hosts, other than TCP.
    Host,
    /// A TCP segment of the two hosts.
    Tcp,
    /// A packet of the cross traffic.
    Cross,
}

impl Owner {
    /// Returns the owner of a host's frame.
    pub(crate) fn of(frame: HostFrame) -> Owner {
        if frame.is_tcp { Owner::Tcp } else { Owner::Host }
    }
}

/// The open intervals of one direction.
#[derive(Clone, Debug)]
pub struct Meter {
    length: u64,
    server: Server,
    /// The rate of a policer before the queue, which is the capacity where it is lower.
    policed: Option<Rate>,
    /// Number of the first open interval since the epoch; intervals start at whole multiples of their length.
    first: u64,
    open: VecDeque<Open>,
    logs_delays: bool,
}

#[derive(Clone, Debug)]
struct Open {
    interval: Interval,
    max_backlog: Bytes,
    /// Queueing delay of every packet in microseconds, if logged.
    delays: Vec<u32>,
}

impl Meter {
    /// Creates a meter of a link with this server, behind a policer of the rate `policed` if there is one,
    /// whose first interval contains `start`.
    pub(crate) fn new(start: Instant, length: Duration, server: Server, policed: Option<Rate>) -> Meter {
        let length = length.ns().max(1) as u64;
        let first = start.ns() / length;
        Meter { length, server, policed, first, open: VecDeque::new(), logs_delays: false }
    }

    /// Turns on logging of every packet's queueing delay.
    pub(crate) fn log_delays(&mut self) {
        self.logs_delays = true;
    }

    /// Replaces the server and the rate of the policer from `at` on. Open intervals get the mean of the
    /// capacities before and after.
    pub(crate) fn set_capacity(&mut self, at: Instant, server: Server, policed: Option<Rate>) {
        self.at(at);
        (self.server, self.policed) = (server, policed);
        for index in 0..self.open.len() {
            let start = self.open[index].interval.start;
            let end = start + Duration::from_ns(self.length as i64);
            let old = at.ns().saturating_sub(start.ns()).min(self.length) as f64 / self.length as f64;
            let new = self.capacity(start.max(at), end).bps_f64();
            let capacity = &mut self.open[index].interval.capacity;
            *capacity = Rate::from_bps_f64(capacity.bps_f64() * old + new * (1.0 - old));
        }
    }

    /// Returns what can pass between two instants.
    fn capacity(&self, from: Instant, to: Instant) -> Rate {
        let served = if from < to { self.server.mean(from, to) } else { None };
        served.into_iter().chain(self.policed).min().unwrap_or_default()
    }

    /// Counts a packet of `size` that occupies the wire, with its bits spread over the intervals in
    /// which they are sent.
    pub(crate) fn carried(&mut self, owner: Owner, transmission: Transmission, size: Bytes) {
        let bits = size.get() * 8;
        let Transmission { start, finish } = transmission;
        let (start, finish) = (start.ns(), finish.ns().max(start.ns() + 1));
        let (first, last) = (start / self.length, (finish - 1) / self.length);
        let mut left = bits;
        let mut from = start;
        let whole = if first < last { self.server.work_between(start, finish) } else { 0 };
        // What leaves all at once counts at the end.
        for number in if whole == 0 { last..last } else { first..last } {
            let end = (number + 1) * self.length;
            let part = (u128::from(bits) * self.server.work_between(from, end) / whole) as u64;
            self.add(owner, number, part);
            left -= part;
            from = end;
        }
        self.add(owner, last, left);
    }

    /// Counts a cross packet that arrived at the queue, dropped or not.
    pub(crate) fn cross_offered(&mut self, at: Instant, size: Bytes) {
        self.at(at).interval.cross_offered_bits += size.get() * 8;
    }

    /// Counts a cross packet that the queue dropped; `by_hosts` if the queue would have accepted it
    /// without the hosts' packets.
    pub(crate) fn cross_dropped(&mut self, at: Instant, by_hosts: bool) {
        let interval = &mut self.at(at).interval;
        interval.cross_drops += 1;
        interval.cross_drops_due_to_hosts += u64::from(by_hosts);
    }

    /// Counts a host packet that the queue marked.
    pub(crate) fn host_marked(&mut self, at: Instant) {
        self.at(at).interval.host_marks += 1;
    }

    /// Counts a host packet that the queue dropped.
    pub(crate) fn host_dropped(&mut self, at: Instant) {
        self.at(at).interval.host_drops += 1;
    }

    /// Counts a host packet that was lost on the wire.
    pub(crate) fn host_lost(&mut self, at: Instant) {
        self.at(at).interval.host_lost += 1;
    }

    /// Counts what the wire did to a host packet that arrives at `at`.
    pub(crate) fn host_changed(&mut self, at: Instant, changed: Changed) {
        let interval = &mut self.at(at).interval;
        interval.host_copies += u64::from(changed.doubled);
        interval.host_damaged += u64::from(changed.damaged);
    }

    /// Counts a frame that a host sent to the next station only.
    pub(crate) fn control_frame(&mut self, at: Instant) {
        self.at(at).interval.control_frames += 1;
    }

    /// Counts `count` host packets that never reached the queue because the emulator did
    /// not read them in time.
    pub(crate) fn host_missed(&mut self, at: Instant, count: u64) {
        self.at(at).interval.host_missed += count;
    }

    /// Counts a packet that arrived at `at` and whose transmission begins at `start`.
    pub(crate) fn queued(&mut self, at: Instant, start: Instant) {
        let waits = start - at;
        let logs = self.logs_delays;
        let Open { interval, delays, .. } = self.at(at);
        interval.queued += 1;
        interval.queued_time += waits;
        interval.max_queued_time = interval.max_queued_time.max(waits);
        if logs {
            delays.push(u32::try_from(waits.ns() / 1_000).unwrap_or(u32::MAX));
        }
    }

    /// Records the queue's backlog just after an arrival.
    pub(crate) fn backlog(&mut self, at: Instant, backlog: Bytes) {
        let open = self.at(at);
        open.max_backlog = open.max_backlog.max(backlog);
    }

    /// Counts a host packet that was due at `due` and left `late` after it.
    pub(crate) fn released(&mut self, due: Instant, late: Duration) {
        let interval = &mut self.at(due).interval;
        interval.released += 1;
        interval.late += u64::from(late > LATE);
        interval.very_late += u64::from(late > VERY_LATE);
        interval.max_late = interval.max_late.max(late);
    }

    /// Whether the oldest interval not yet taken ended by `time`.
    pub(crate) fn has_finished(&self, time: Instant) -> bool {
        (self.first + 1) * self.length <= time.ns()
    }

    /// Returns the oldest interval not yet taken, if it ended by `time`.
    ///
    /// Everything that arrived before `time` must have been counted.
    pub(crate) fn take_finished(&mut self, time: Instant) -> Option<Interval> {
        if !self.has_finished(time) {
            return None;
        }
        self.slot(self.first);
        self.first += 1;
        let open = self.open.pop_front()?;
        Some(Interval { max_queue: open.max_backlog, delays: bins(open.delays), ..open.interval })
    }

    fn add(&mut self, owner: Owner, number: u64, bits: u64) {
        let interval = &mut self.slot(number).interval;
        match owner {
            Owner::Host => interval.host_bits += bits,
            Owner::Tcp => {
                interval.host_bits += bits;
                interval.host_tcp_bits += bits;
            }
            Owner::Cross => interval.cross_bits += bits,
        }
    }

    fn at(&mut self, time: Instant) -> &mut Open {
        self.slot(time.ns() / self.length)
    }

    /// Returns the interval with this number. An event for an interval that was already taken counts in
    /// the oldest open one.
    fn slot(&mut self, number: u64) -> &mut Open {
        let index = number.saturating_sub(self.first) as usize;
        while self.open.len() <= index {
            let start = Instant::from_ns((self.first + self.open.len() as u64) * self.length);
            let length = Duration::from_ns(self.length as i64);
            let interval = Interval::empty(start, length, self.capacity(start, start + length));
            self.open.push_back(Open { interval, max_backlog: Bytes::ZERO, delays: Vec::new() });
        }
        &mut self.open[index]
    }
}

/// Returns each distinct value and its count, ascending.
fn bins(mut values: Vec<u32>) -> Vec<(u32, u32)> {
    values.sort_unstable();
    values.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
}

#[cfg(test)]
mod tests {
    use headway_link::Service;
    use headway_units::RateSteps;

    use super::*;

    const MS10: Duration = Duration::from_ms(10);

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    fn constant(mbps: f64) -> Server {
        Server::new(&Service::Constant(Rate::from_mbps(mbps)), Instant::ZERO)
    }

    #[test]
    fn bits_are_counted_where_they_are_sent() {
        let mut meter = Meter::new(at(100), MS10, constant(1.0), None);
        let service = Transmission { start: at(105), finish: at(125) };
        meter.carried(Owner::Cross, service, Bytes::new(2500));
        let parts: Vec<u64> = (0..3).map(|_| meter.take_finished(at(1000)).unwrap().cross_bits).collect();
        assert_eq!(parts, [5_000, 10_000, 5_000]);
    }

    proptest::proptest! {
        #[test]
        fn no_bit_is_lost_or_counted_twice(
            packets in proptest::collection::vec((0u64..100_000_000, 0u64..50_000_000, 1u64..10_000), 1..50),
        ) {
            let mut meter = Meter::new(Instant::ZERO, MS10, constant(1.0), None);
            for (start, length, size) in &packets {
                let service = Transmission { start: Instant::from_ns(*start), finish: Instant::from_ns(start + length) };
                meter.carried(Owner::Host, service, Bytes::new(*size));
            }
            let mut sum = 0;
            while let Some(interval) = meter.take_finished(at(200)) {
                sum += interval.host_bits;
            }
            proptest::prop_assert_eq!(sum, packets.iter().map(|p| p.2 * 8).sum::<u64>());
        }
    }

    #[test]
    fn delays_are_logged_in_bins_of_a_microsecond() {
        let mut meter = Meter::new(at(100), MS10, constant(1.0), None);
        meter.queued(at(100), at(101));
        meter.log_delays();
        for ns in [2_999, 0, 2_000, 77_000, 999] {
            meter.queued(at(100), at(100) + Duration::from_ns(ns));
        }
        assert_eq!(meter.take_finished(at(110)).unwrap().delays, [(0, 2), (2, 2), (77, 1)]);
        assert_eq!(meter.take_finished(at(120)).unwrap().delays, []);
    }

    #[test]
    fn intervals_without_events_are_reported_too() {
        let mut meter = Meter::new(at(100), MS10, constant(1.0), None);
        assert!(meter.take_finished(at(109)).is_none());
        assert_eq!(meter.take_finished(at(110)).unwrap().start, at(100));
        assert_eq!(meter.take_finished(at(130)).unwrap().start, at(110));
        assert_eq!(meter.take_finished(at(130)).unwrap().start, at(120));
        assert!(meter.take_finished(at(130)).is_none());
    }

    #[test]
    fn a_change_of_capacity_is_averaged_in_its_interval() {
        let mut meter = Meter::new(at(100), MS10, constant(1.0), None);
        meter.set_capacity(at(115), constant(3.0), None);
        let rates: Vec<u64> = (0..3).map(|_| meter.take_finished(at(200)).unwrap().capacity.bps()).collect();
        assert_eq!(rates, [1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn capacity_and_bits_follow_rates_that_change() {
        let list =
            vec![(Duration::ZERO, Rate::from_mbps(3.0)), (Duration::from_ms(15), Rate::from_mbps(1.0))];
        let rates = RateSteps::try_from(list).unwrap().starting_at(at(100));
        let server = Server::new(&Service::Steps(rates), at(100));
        let mut meter = Meter::new(at(100), MS10, server, None);
        // 15 ms at 3 Mb/s and 15 ms at 1 Mb/s.
        meter.carried(Owner::Cross, Transmission { start: at(100), finish: at(130) }, Bytes::new(7_500));
        let seen: Vec<(u64, u64)> = (0..3)
            .map(|_| meter.take_finished(at(200)).unwrap())
            .map(|interval| (interval.capacity.bps(), interval.cross_bits))
            .collect();
        assert_eq!(seen, [(3_000_000, 30_000), (2_000_000, 20_000), (1_000_000, 10_000)]);
    }

    #[test]
    fn a_late_event_goes_to_the_oldest_open_interval() {
        let mut meter = Meter::new(at(100), MS10, constant(1.0), None);
        meter.take_finished(at(110));
        meter.released(at(105), Duration::from_ms(6));
        let interval = meter.take_finished(at(120)).unwrap();
        assert_eq!((interval.released, interval.late, interval.very_late), (1, 1, 1));
        assert_eq!(interval.max_late, Duration::from_ms(6));
    }
}
