//! Groups of a scenario whose flows arrive and leave.

use headway_core::{Bytes, Duration, Instant};
use headway_record::{Completed, CompletionTally, Group};
use headway_scenario::Scenario;
use headway_traffic::Arrivals;

use crate::config::GroupId;
use crate::network::{Completion, Network};

/// A group of flows that arrive and leave.
#[derive(Debug)]
pub struct ArrivingGroup {
    /// Index of its `[[flow]]`.
    pub flow: usize,
    pub(crate) group: GroupId,
    arrivals: Arrivals,
    start: Instant,
    stop: Instant,
    /// Start and payload of the next flow.
    next: Option<(Instant, Bytes)>,
    tally: CompletionTally,
}

impl ArrivingGroup {
    /// Returns a group none of whose flows has arrived yet.
    pub(crate) fn new(
        flow: usize,
        group: GroupId,
        arrivals: Arrivals,
        (start, stop): (Instant, Instant),
    ) -> ArrivingGroup {
        let tally = CompletionTally::default();
        let mut group = ArrivingGroup { flow, group, arrivals, start, stop, next: None, tally };
        group.advance();
        group
    }

    /// Returns when the next flow arrives; `None` when no more do.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }

    /// Starts the flows that have arrived; returns false when the network has no room for one.
    pub(crate) fn poll(&mut self, network: &mut Network) -> bool {
        while let Some((at, size)) = self.next
            && at <= network.now()
        {
            if network.start_flow(self.group, at, size).is_none() {
                return false;
            }
            self.tally.arrive();
            self.advance();
        }
        true
    }

    /// Counts a completed flow of this group.
    pub(crate) fn complete(&mut self, completion: &Completion) {
        self.tally.complete(&Completed {
            size: completion.size,
            time: completion.end - completion.start,
            sent: completion.sent,
            retransmitted: completion.retransmitted,
            timeouts: completion.timeouts,
        });
    }

    /// Discards what was counted, at the end of warm-up.
    pub(crate) fn reset(&mut self) {
        self.tally.reset();
    }

    /// Returns the group as it appears in the summary.
    pub(crate) fn summary(&self, scenario: &Scenario, counted: Duration) -> Group {
        self.tally.group(scenario.flow[self.flow].group_name(), counted)
    }

    fn advance(&mut self) {
        let arrival = self.arrivals.next();
        self.next = arrival.map(|flow| (self.start + flow.at, flow.size)).filter(|(at, _)| *at < self.stop);
    }
}
