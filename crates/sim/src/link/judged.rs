//! Disciplines that judge departures, but accept all: the verdicts are left until somebody can see them.
//!
//! The times of departures follow from the arrivals, so the link needs no event for them. A departure is
//! judged before the next arrival, before the packet leaves the wire, and before the run pauses, always with
//! the time and the queue of its turn. Packets that join in the nanosecond of a departure count as behind it
//! only if they were there before.

use headway_queue::{Backlog, Discipline, Verdict};
use headway_units::{Bytes, Duration, Instant};

use super::Link;
use crate::packet::{Packet, Reports};

impl Link {
    /// Counts the transmissions that have ended by `now`, and lets the discipline judge those that
    /// have begun, in order.
    pub(super) fn judge_until(&mut self, now: u64, reports: &mut Reports) {
        while self.unjudged < self.flight.tail() {
            let start = self.flight.at(self.unjudged).joined.max(self.judged_until);
            if start > now {
                break;
            }
            self.judge_next(start, reports);
        }
        // Only the last one that has begun may go on.
        while self.unserved < self.unjudged && (self.unserved + 1 < self.unjudged || self.judged_until <= now)
        {
            self.count_served();
        }
    }

    /// Lets the discipline judge the departure of the first packet, which is about to leave the wire.
    pub(super) fn judge_first(&mut self, reports: &mut Reports) {
        if self.unjudged == self.flight.head() {
            let start = self.flight.at(self.unjudged).joined.max(self.judged_until);
            self.judge_next(start, reports);
        }
    }

    /// Lets the discipline judge the departure of the next packet, whose transmission begins at `start`.
    fn judge_next(&mut self, start: u64, reports: &mut Reports) {
        while self.unserved < self.unjudged {
            self.count_served();
        }
        let packet = *self.flight.at(self.unjudged);
        let verdict = self.judge(start, start - packet.joined, &packet, reports);
        debug_assert!(verdict != Verdict::Drop, "the packet is on its way");
        if verdict == Verdict::Mark {
            let mark = self.mark();
            self.flight.at_mut(self.unjudged).flags |= mark;
        }
        self.judged_until = packet.at - self.delay;
        self.unjudged += 1;
    }

    /// Asks the discipline about the departure of a packet at `now`, the first of the queue, which has
    /// waited for `waited`.
    #[inline(always)]
    pub(super) fn judge(&mut self, now: u64, waited: u64, packet: &Packet, reports: &mut Reports) -> Verdict {
        let size = Bytes::new(packet.size.into());
        let queued = self.totals.queued();
        let behind = Backlog {
            bytes: Bytes::new(queued.bytes.get() - size.get()),
            packets: queued.packets as u32 - 1,
            idle: Duration::ZERO,
            delay: Duration::ZERO,
        };
        let seen = &mut packet.seen_with(reports.header(packet));
        self.queue.on_departure(Instant::from_ns(now), &behind, Duration::from_ns(waited as i64), seen)
    }

    /// Counts the transmission of the first packet that has not been counted.
    fn count_served(&mut self) {
        let packet = self.flight.at(self.unserved);
        let (kind, size) = (packet.kind, packet.size);
        self.totals.transmitted(kind, size);
        self.totals.on_wire.add(size);
        self.unserved += 1;
    }
}

#[cfg(test)]
mod tests {
    use headway_queue::QueueSpec;
    use headway_queue::explicit::{Format, Header, VERSION_RCP, VERSION_XCP};
    use headway_units::Rate;
    use proptest::prelude::*;

    use super::*;
    use crate::config::{LinkConfig, Service};
    use crate::link::Count;
    use crate::link::driven::Driven;
    use crate::packet::{REPORT, Report};

    /// A link, and the packets that have arrived: time, number and header.
    struct Run {
        driven: Driven,
        arrived: Vec<(u64, u64, Option<Header>)>,
    }

    impl Run {
        fn new(kind: &str, rate: Rate, changes: bool) -> Run {
            let spec: QueueSpec =
                serde_json::from_value(serde_json::json!({ "kind": kind, "limit": "40 kB" })).unwrap();
            let config = LinkConfig {
                changes,
                delay: Duration::from_us(700),
                ..LinkConfig::new(Service::Constant(rate), Duration::ZERO, spec.build(Some(rate), 1))
            };
            Run { driven: Driven::new(&config), arrived: Vec::new() }
        }

        /// Handles the events up to `until`.
        fn run(&mut self, until: u64) {
            self.driven.run(until, |at, packet, reports| {
                let header = packet.has(REPORT).then(|| reports.take(packet.extra).header);
                self.arrived.push((at, packet.seq, header.flatten()));
            });
        }

        fn push(&mut self, now: u64, seq: u64, size: u16, header: Option<Header>) {
            let mut packet = Packet { seq, size, sent: now, ..Packet::default() };
            if header.is_some() {
                packet.extra = self.driven.reports.keep(Report { header, ..Report::default() });
                packet.flags = REPORT;
            }
            self.driven.push(now, packet);
        }

        /// Returns the packets queued, and served, delivered and dropped so far.
        fn counts(&mut self, now: u64) -> [Count; 4] {
            let Driven { link, reports, .. } = &mut self.driven;
            link.catch_up(now, reports);
            let statistics = link.statistics();
            [link.queued(), statistics.served_other, statistics.delivered, statistics.dropped]
        }
    }

    proptest! {
        /// A link whose queue will change has an event for each departure.
        #[test]
        fn verdicts_are_those_of_a_link_with_an_event_for_each_departure(
            is_rcp in any::<bool>(),
            mbps in 1_u32..2_000,
            packets in prop::collection::vec((1_u64..3_000_000, 100_u16..1_538, 0_u32..4, any::<u32>()), 1..300),
        ) {
            let (kind, version) = if is_rcp { ("rcp", VERSION_RCP) } else { ("xcp", VERSION_XCP) };
            let rate = Rate::from_mbps(mbps.into());
            let (mut judged, mut staged) = (Run::new(kind, rate, false), Run::new(kind, rate, true));
            let mut now = 0;
            for (seq, (pause, size, choice, feedback)) in (0..).zip(packets) {
                // A third of the packets in bursts.
                now += if choice == 0 { pause % 1_000 + 1 } else { pause };
                let header = (choice < 3).then(|| Header {
                    rtt: 1 << 24,
                    x: 1 << 20,
                    feedback,
                    ..Header::new(version, Format::Standard)
                });
                for run in [&mut judged, &mut staged] {
                    run.run(now);
                    run.push(now, seq, size, header);
                }
                if choice == 1 {
                    prop_assert_eq!(judged.counts(now), staged.counts(now));
                }
            }
            now += 10_000_000_000;
            for run in [&mut judged, &mut staged] {
                run.run(now);
            }
            prop_assert_eq!(&judged.arrived, &staged.arrived);
            prop_assert_eq!(judged.counts(now), staged.counts(now));
            let delays = [&judged, &staged].map(|run| run.driven.link.statistics().delay.clone());
            prop_assert!(delays[0] == delays[1], "the delays differ");
        }
    }
}
