//! Groups of a scenario whose flows arrive and leave.

use headway_record::{Completed, CompletionTally, Group, Histogram};
use headway_scenario::Scenario;
use headway_traffic::{Arrival, Arrivals, Sessions};
use headway_units::{Duration, Instant};

use crate::config::GroupId;
use crate::network::{Completion, Network};

/// A group of flows that arrive and leave.
#[derive(Debug)]
pub struct ArrivingGroup {
    /// Index of its `[[flow]]`.
    pub flow: usize,
    pub(crate) group: GroupId,
    starts: Starts,
    start: Instant,
    stop: Instant,
    tally: CompletionTally,
}

/// What decides when flows start.
#[derive(Debug)]
pub(crate) enum Starts {
    /// A process that the network does not influence, and its next arrival.
    Process(Arrivals, Option<Arrival>),
    /// Sessions, whose next flows start after the last ones have completed.
    Sessions(Sessions),
}

impl ArrivingGroup {
    /// Returns a group none of whose flows has arrived yet.
    pub(crate) fn new(
        flow: usize,
        group: GroupId,
        mut starts: Starts,
        (start, stop): (Instant, Instant),
    ) -> ArrivingGroup {
        if let Starts::Process(arrivals, next) = &mut starts {
            *next = arrivals.next();
        }
        ArrivingGroup { flow, group, starts, start, stop, tally: CompletionTally::default() }
    }

    /// Returns when the next flow arrives; `None` when no more do for now.
    pub(crate) fn next(&self) -> Option<Instant> {
        let at = match &self.starts {
            Starts::Process(_, next) => next.map(|arrival| arrival.at),
            Starts::Sessions(sessions) => sessions.next(),
        };
        at.map(|at| self.start + at).filter(|at| *at < self.stop)
    }

    /// Whether completions of flows decide about later arrivals.
    pub(crate) fn depends_on_completions(&self) -> bool {
        matches!(self.starts, Starts::Sessions(_))
    }

    /// Starts the flows that have arrived; returns false when the network has no room for one.
    pub(crate) fn poll(&mut self, network: &mut Network) -> bool {
        while self.next().is_some_and(|at| at <= network.now()) {
            let arrival = match &mut self.starts {
                Starts::Process(arrivals, next) => std::mem::replace(next, arrivals.next()),
                Starts::Sessions(sessions) => sessions.start(),
            };
            let Some(arrival) = arrival else { break };
            if network.start_flow(self.group, self.start + arrival.at, arrival.size).is_none() {
                return false;
            }
            self.tally.arrive();
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
        if let Starts::Sessions(sessions) = &mut self.starts {
            sessions.complete(completion.end - self.start);
        }
    }

    /// Discards what was counted, at the end of warm-up.
    pub(crate) fn reset(&mut self) {
        self.tally.reset();
    }

    /// Returns the name of the group and the completion times of its flows.
    pub(crate) fn completion_times(&self, scenario: &Scenario) -> (String, Histogram) {
        (scenario.flow[self.flow].group_name(), self.tally.times().clone())
    }

    /// Returns the group as it appears in the summary.
    pub(crate) fn summary(&self, scenario: &Scenario, counted: Duration) -> Group {
        self.tally.group(scenario.flow[self.flow].group_name(), counted)
    }
}
