//! One direction of a link: a policer, a queue with its discipline, a server and a wire.
//!
//! Most disciplines decide about a packet when it arrives. Its departure and its arrival at the far end are
//! then known at once, so the link keeps a single ring of packets in order of arrival and has one pending
//! event. A discipline that also drops packets as they depart, and a wire with jitter, need a second event
//! per packet; see [`Link::serve`]. One that judges departures and accepts all is asked later, before anybody
//! can see its verdict; see [`Link::judge_until`].

mod ack_filter;
#[cfg(test)]
mod driven;
mod judged;
#[cfg(test)]
mod reference_tests;
mod staged;
mod state;
mod statistics;
mod train;
mod wire;

use std::collections::BTreeMap;

use headway_queue::{Backlog, Discipline, Queue, TokenBucket, Verdict};
use headway_units::{Bytes, Duration, Instant, Rate};

use self::staged::Staged;
use self::statistics::Totals;
pub use self::statistics::{Count, LinkStatistics};
use self::wire::Wire;
use crate::config::{LinkConfig, QueueChange};
use crate::packet::{CE, Kind, LOST, Packet, REPORT, Reports};
use crate::shadow::Shadow;
use headway_link::Ring;
use headway_link::{RandomLosses, Server, Spacing, Waiting};
use headway_traffic::channel::DelayTrace;
use headway_traffic::random::{self, Pcg64Mcg};

/// Bytes of the packet in service, which counts as a whole, and of the arriving one.
const ADMISSION_MARGIN: u64 = 2 * u16::MAX as u64;

/// Times that differ by no more than this are the same, ns: ACKs make bursts begin exactly when the
/// transmission of an earlier packet ends, and rounding on the way must not decide which comes first. Of a
/// host's burst the first packet joins the queue before the next one is taken out of it (as in Linux), and
/// those behind it afterwards, because they follow it at the rate of the host.
const ROUNDING: u64 = 8;

/// The event that a link asks its network to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextEvent {
    None,
    /// Call [`Link::arrive`] at the time `at`. Among events of the same time it is ordered as if inserted at
    /// `since`, when it became the next event of the link. The two ends of a link may run at different times,
    /// so `since` need not be the current time.
    Arrival {
        at: u64,
        since: u64,
    },
    /// Call [`Link::serve`] at this time.
    Serve(u64),
    /// Call [`Link::serve`] once the radio channel of the link has sent a packet of this
    /// size, or given it up.
    Contend(u16),
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    queue: Queue,
    server: Server,
    /// Propagation delay, the shortest one if it changes (ns).
    delay: u64,
    losses: RandomLosses,
    /// Whether any packet may be lost.
    is_lossy: bool,
    rng: Pcg64Mcg,
    /// When the transmission of the last accepted packet ends (ns).
    free: u64,
    /// Packets on the wire in order of arrival; without `staged` it also holds the queued ones.
    flight: Ring<Packet>,
    /// Position in `flight` of the first packet or train whose transmission had not ended at the last update.
    unserved: u64,
    /// When the queue was last asked about an arriving packet (ns), and whether hosts send
    /// segments that pass here.
    asked: u64,
    has_hosts: bool,
    /// When the last packet arrived (ns).
    last_arrival: u64,
    /// Packets of that train whose transmission has ended; arrival time and carried
    /// remainder of its next one.
    train_served: u64,
    train_next: (u64, u64),
    /// The spacing of the train that arrived or was examined last.
    spacing: Option<Spacing>,
    /// The queue accepts every packet while the remaining transmission time is below this (ns).
    /// That time follows from `free`, so such packets need no update of the queue; zero when every
    /// packet has to be checked.
    admit_below: u64,
    policer: Option<TokenBucket>,
    /// The long-run rate of the policer.
    policed: Option<Rate>,
    staged: Option<Box<Staged>>,
    /// The discipline judges departures, which are known without it.
    judges: bool,
    /// ACKs that wait make room for newer ones; only with `staged`.
    filters_acks: bool,
    /// A radio channel says how long transmissions take; only with `staged`.
    is_wifi: bool,
    /// Position in `flight` of the first packet whose departure has not been judged, and when the
    /// transmission of the one before ends (ns); both only where the discipline `judges` them.
    unjudged: u64,
    judged_until: u64,
    /// Packets since the start of the run, and at the last reset.
    totals: Totals,
    reset: Totals,
    statistics: LinkStatistics,
    /// Packets without queueing delay that `statistics` does not contain yet.
    undelayed: u64,
    /// Bytes of the datagrams accepted so far, and bytes of the packets other than probes that were dropped
    /// on departure: with `totals` the ground truth of measurements.
    accepted_datagrams: u64,
    withdrawn: u64,
    /// The queue as it would be without probes; on paths of measurements.
    shadow: Option<Box<Shadow>>,
    /// Numbers of the reports of packets that were dropped or lost.
    discarded: Vec<u32>,
}

impl Link {
    /// Returns an idle link; `seed` and `id` determine its random numbers.
    pub(crate) fn new(config: &LinkConfig, seed: u64, id: u64) -> Link {
        let staged =
            config.queue.delays_departures() || !config.is_plain() || config.changes || config.ack_filter;
        let staged = staged || config.wifi.is_some();
        let judges = !staged && config.queue.judges_departures();
        let server = Server::new(&config.service, Instant::ZERO);
        let losses = RandomLosses::new(config.loss, config.loss_bursts, Instant::ZERO, seed, id);
        Link {
            queue: config.queue.clone(),
            admit_below: match &config.queue {
                Queue::DropTail(queue) if !staged && config.policer.is_none() => queue
                    .room()
                    .and_then(|room| room.get().checked_sub(ADMISSION_MARGIN))
                    .and_then(|bytes| server.max_time_for(bytes))
                    .map_or(0, |time| time + 1),
                _ => 0,
            },
            server,
            delay: config.delay_trace.as_ref().map_or(config.delay, DelayTrace::least).ns().unsigned_abs(),
            is_lossy: losses.may_occur(),
            losses,
            rng: random::generator(seed, "link", id),
            free: 0,
            flight: Ring::new(),
            unserved: 0,
            asked: u64::MAX,
            has_hosts: false,
            last_arrival: 0,
            train_served: 0,
            train_next: (0, 0),
            spacing: None,
            policer: config.policer.map(|(rate, burst)| TokenBucket::new(rate, burst)),
            policed: config.policer.map(|(rate, _)| rate),
            staged: staged.then(|| {
                Box::new(Staged {
                    waiting: Waiting::new(&config.queue),
                    sending: None,
                    wire: Wire::new(config, seed, id),
                    last: 0,
                    overtaking: config.reordering.then(BTreeMap::new),
                    entered: 0,
                })
            }),
            judges,
            filters_acks: config.ack_filter,
            is_wifi: config.wifi.is_some(),
            unjudged: 0,
            judged_until: 0,
            totals: Totals::default(),
            reset: Totals::default(),
            statistics: LinkStatistics::default(),
            undelayed: 0,
            accepted_datagrams: 0,
            withdrawn: 0,
            shadow: None,
            discarded: Vec::new(),
        }
    }

    /// Accepts a packet, or drops it.
    #[inline(always)]
    pub(crate) fn push(&mut self, now: u64, packet: Packet, reports: &mut Reports) -> NextEvent {
        if self.free.saturating_sub(now) >= self.admit_below {
            return self.push_checked(now, &packet, reports);
        }
        self.count_accepted(&packet);
        self.transmit(now, packet)
    }

    /// The slow path of [`Link::push`]: asks policer and queue.
    #[inline(never)]
    fn push_checked(&mut self, now: u64, packet: &Packet, reports: &mut Reports) -> NextEvent {
        let size = Bytes::new(packet.size.into());
        if let Some(shadow) = &mut self.shadow
            && packet.kind != Kind::Probe
        {
            shadow.arrive(now, packet);
        }
        if let Some(policer) = &mut self.policer
            && !policer.conforms(Instant::from_ns(now), size)
        {
            self.statistics.policed.add(packet.size);
            self.reject(packet);
            return NextEvent::None;
        }
        let backlog = self.backlog(now, reports);
        if self.queue.sorts_by_label() {
            self.queue.sort(None, packet.label());
        }
        let at = Instant::from_ns(now);
        let verdict = if packet.has(REPORT) {
            self.judge_with_report(at, &backlog, packet, reports)
        } else {
            self.queue.on_arrival(at, &backlog, &packet.seen())
        };
        let mark = match verdict {
            Verdict::Accept => 0,
            Verdict::Mark => self.mark(),
            Verdict::Drop => {
                self.statistics.dropped.add(packet.size);
                self.reject(packet);
                return NextEvent::None;
            }
        };
        self.count_accepted(packet);
        let packet = Packet { flags: packet.flags | mark, ..*packet };
        if self.staged.is_some() { self.enqueue(now, &packet, reports) } else { self.transmit(now, packet) }
    }

    /// Judges an arriving packet that has a report, and so perhaps a congestion header.
    #[inline(never)]
    fn judge_with_report(
        &mut self,
        at: Instant,
        backlog: &Backlog,
        packet: &Packet,
        reports: &mut Reports,
    ) -> Verdict {
        self.queue.on_arrival(at, backlog, &packet.seen_with(reports.header(packet)))
    }

    /// Counts an accepted packet.
    #[inline(always)]
    fn count_accepted(&mut self, packet: &Packet) {
        self.totals.accepted.add(packet.size);
        if packet.kind == Kind::Datagram {
            self.accepted_datagrams += u64::from(packet.size);
        }
    }

    /// Transmits a packet whose departure and arrival are known at once.
    #[inline(always)]
    fn transmit(&mut self, now: u64, packet: Packet) -> NextEvent {
        let start = now.max(self.free);
        if start == now {
            self.undelayed += 1;
        } else {
            self.statistics.delay.add(start - now);
        }
        self.free = self.server.finish(start, packet.size);
        let at = self.free + self.delay;
        let lost = if self.loses(self.free) { LOST } else { 0 };
        let first = self.flight.is_empty();
        self.flight.push(Packet {
            at,
            joined: now,
            route: packet.route + 1,
            flags: packet.flags | lost,
            ..packet
        });
        if first { self.first_arrival(now, at) } else { NextEvent::None }
    }

    /// The event for a packet that joins an empty link and arrives at `at`.
    fn first_arrival(&self, now: u64, at: u64) -> NextEvent {
        NextEvent::Arrival { at, since: now.max(self.last_arrival) }
    }

    /// Drops a packet that policer or queue rejected.
    #[cold]
    fn reject(&mut self, packet: &Packet) {
        if let Some(shadow) = &mut self.shadow
            && packet.kind != Kind::Probe
        {
            shadow.count_rejected();
        }
        self.totals.refused.add(packet.size);
        self.discard(packet);
    }

    /// Remembers the report of a dropped or lost packet, so that it can be reused.
    fn discard(&mut self, packet: &Packet) {
        if packet.has(REPORT) {
            self.discarded.push(packet.extra);
        }
    }

    /// Returns the numbers of the reports of packets that were dropped or lost since the last call.
    pub(crate) fn take_discarded(&mut self) -> std::vec::Drain<'_, u32> {
        self.discarded.drain(..)
    }

    /// Whether a packet is lost that leaves at `at`.
    fn loses(&mut self, at: u64) -> bool {
        self.is_lossy && self.draw_loss(at)
    }

    #[inline(never)]
    fn draw_loss(&mut self, at: u64) -> bool {
        self.losses.draw(Instant::from_ns(at), &mut self.rng)
    }

    fn mark(&mut self) -> u8 {
        self.statistics.marked += 1;
        CE
    }

    fn backlog(&mut self, now: u64, reports: &mut Reports) -> Backlog {
        if self.judges {
            self.judge_until(now, reports);
        } else if self.staged.is_none() {
            let begins = std::mem::replace(&mut self.asked, now) != now && self.has_hosts;
            self.update_served(if begins { now.saturating_sub(ROUNDING) } else { now + ROUNDING });
        }
        let queued = self.totals.queued();
        Backlog {
            bytes: queued.bytes,
            packets: queued.packets as u32,
            idle: Duration::from_ns(now.saturating_sub(self.free) as i64),
            delay: Duration::from_ns(self.remaining(now) as i64),
        }
    }

    /// Returns how long the transmission of all accepted packets takes from `now` on (ns).
    fn remaining(&self, now: u64) -> u64 {
        let sending = self.free.saturating_sub(now);
        let behind = self.staged.as_ref().map_or(0, |staged| {
            let queued = self.totals.queued().bytes.get();
            self.server.estimate(now + sending, queued - staged.bytes_sending())
        });
        sending + behind
    }

    /// Counts and judges the packets whose times are known in advance, up to `now`.
    fn advance(&mut self, now: u64, reports: &mut Reports) {
        if self.judges {
            self.judge_until(now, reports);
        } else if self.staged.is_none() {
            self.update_served(now);
        }
    }

    /// Brings the statistics up to `now`.
    pub(crate) fn catch_up(&mut self, now: u64, reports: &mut Reports) {
        self.advance(now, reports);
        self.statistics.delay.add_all(0, 0, std::mem::take(&mut self.undelayed), 0);
        self.statistics.update(&self.totals, &self.reset);
    }

    /// Counts the transmissions that have ended by `now`.
    fn update_served(&mut self, now: u64) {
        while self.unserved < self.flight.tail() {
            let packet = *self.flight.at(self.unserved);
            let (at, mut carry) =
                if self.train_served == 0 { (packet.at, packet.joined) } else { self.train_next };
            if at - self.delay > now {
                break;
            }
            self.train_served += 1;
            self.totals.transmitted(packet.kind, packet.size);
            self.totals.on_wire.add(packet.size);
            if self.train_served == packet.count() {
                (self.unserved, self.train_served) = (self.unserved + 1, 0);
            } else if let Some(spacing) = self.spacing_of(packet.size) {
                self.train_next = (spacing.after(at, &mut carry), carry);
            }
        }
    }

    /// Takes the first packet off the wire, if this event is its arrival; returns also the event of the next
    /// one. The packet may be [`LOST`].
    pub(crate) fn arrive(&mut self, now: u64, reports: &mut Reports) -> (Option<Packet>, NextEvent) {
        if let Some(staged) = &mut self.staged
            && let Some(flight) = &mut staged.overtaking
        {
            // This event belongs to a packet that another has overtaken since.
            if flight.first_key_value().is_none_or(|((at, _), _)| *at > now) {
                return (None, NextEvent::None);
            }
            let packet = flight.pop_first().map(|(_, packet)| packet);
            let next = flight
                .first_key_value()
                .map_or(NextEvent::None, |((at, _), _)| NextEvent::Arrival { at: *at, since: now });
            if let Some(packet) = &packet {
                self.totals.on_wire.remove(packet.size);
                if packet.has(LOST) {
                    self.count_lost(packet);
                }
            }
            return (packet, next);
        }
        let packet = (!self.flight.is_empty()).then(|| self.take(now, reports));
        let next = self.next_arrival(now);
        (packet, next.map_or(NextEvent::None, |(at, since)| NextEvent::Arrival { at, since }))
    }

    /// Takes the first packet, which is not a train, off a wire that keeps the order of packets. The
    /// packet may be [`LOST`].
    #[inline(always)]
    pub(crate) fn take(&mut self, now: u64, reports: &mut Reports) -> Packet {
        if self.judges {
            self.judge_first(reports);
        }
        let packet = *self.flight.first();
        self.last_arrival = now;
        self.flight.skip();
        if self.totals.on_wire.packets > 0 {
            self.totals.on_wire.remove(packet.size);
        } else {
            // Its transmission has not been counted yet.
            self.unserved = self.flight.head();
            self.totals.transmitted(packet.kind, packet.size);
        }
        if packet.has(LOST) {
            self.count_lost(&packet);
        }
        packet
    }

    /// Returns the time of the next arrival, and since when it has been the next one (ns).
    #[inline(always)]
    pub(crate) fn next_arrival(&self, now: u64) -> Option<(u64, u64)> {
        self.flight.front().map(|packet| (packet.at, now.max(packet.joined())))
    }

    #[cold]
    fn count_lost(&mut self, packet: &Packet) {
        self.totals.lost.add(packet.size);
        self.discard(packet);
    }

    /// Returns the counters since the start or the last reset, up to the time that the network has reached.
    pub fn statistics(&self) -> &LinkStatistics {
        &self.statistics
    }

    /// Returns the discipline of the queue.
    pub(crate) fn discipline(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Replaces the discipline, which takes over the packets that wait; the link must have been told
    /// that its queue changes.
    pub(crate) fn change_queue(&mut self, now: u64, change: &QueueChange, reports: &mut Reports) {
        let waiting = self.staged.as_ref().map_or((0, 0), |staged| staged.waiting());
        if let Some(shadow) = &mut self.shadow {
            shadow.change_queue(now, change);
        }
        let (had_classes, had_several) = (matches!(self.queue, Queue::Classes(_)), self.queue.queues() > 1);
        change.apply(&mut self.queue, now, waiting);
        // Classes that stay classes keep what waits in them.
        let keeps = had_classes && matches!(self.queue, Queue::Classes(_));
        if !keeps && (had_several || self.queue.queues() > 1) {
            self.regroup(reports);
        }
    }

    /// A host will send segments over this link.
    pub(crate) fn expect_host(&mut self) {
        self.has_hosts = true;
    }

    /// Tracks how probes affect other packets; the link must be idle.
    pub(crate) fn watch(&mut self) {
        let (server, queue, policer) = (self.server.clone(), self.queue.clone(), self.policer.clone());
        self.admit_below = 0;
        self.shadow.get_or_insert_with(|| Box::new(Shadow::new(server, queue, policer)));
    }

    /// Resets the statistics at the end of the warm-up.
    pub(crate) fn reset(&mut self) {
        self.statistics = LinkStatistics::default();
        self.undelayed = 0;
        self.reset = self.totals.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Service;
    use headway_queue::{DropTailConfig, QueueSpec};

    #[test]
    fn a_limit_in_bytes_counts_the_whole_packet_being_sent() {
        // One byte per nanosecond, and a buffer of two and a half packets.
        let spec = QueueSpec::DropTail(DropTailConfig { limit: Some(Bytes::new(2_500)), packets: None });
        let service = Service::Constant(Rate::from_bps(8_000_000_000));
        let mut link = Link::new(&LinkConfig::new(service, Duration::from_us(1), spec.build(None, 1)), 1, 0);
        let packet = Packet { size: 1_000, ..Packet::default() };
        // The first packet has left at 1000 ns, and for those that arrive within the rounding
        // of times before that.
        for (now, dropped) in [(0, 0), (0, 0), (0, 1), (991, 2), (992, 2), (1_001, 3), (2_000, 3)] {
            link.push(now, packet, &mut Reports::default());
            assert_eq!(link.statistics().dropped.packets, dropped, "at {now} ns");
        }
        link.catch_up(2_000, &mut Reports::default());
        assert_eq!((link.queued().packets, link.in_flight()), (2, 2));
        assert_eq!(
            link.arrive(2_000, &mut Reports::default()).1,
            NextEvent::Arrival { at: 3_000, since: 2_000 }
        );
        link.catch_up(2_000, &mut Reports::default());
        assert_eq!((link.statistics().served_other.packets, link.statistics().delivered.packets), (2, 1));
    }

    #[test]
    fn a_burst_of_a_host_begins_before_the_packet_leaves_whose_transmission_ends_then() {
        let spec = QueueSpec::DropTail(DropTailConfig { limit: None, packets: Some(2) });
        let service = Service::Constant(Rate::from_bps(8_000_000_000));
        let mut link = Link::new(&LinkConfig::new(service, Duration::from_us(1), spec.build(None, 1)), 1, 0);
        link.expect_host();
        let packet = Packet { size: 1_000, ..Packet::default() };
        // Two packets fit, and the transmission of the first ends at 1000 ns.
        for (now, dropped) in [(0, 0), (0, 0), (1_000, 1), (1_000, 1), (1_500, 2), (2_009, 2)] {
            link.push(now, packet, &mut Reports::default());
            assert_eq!(link.statistics().dropped.packets, dropped, "at {now} ns");
        }
    }
}
