//! The pending events of a network.

use super::air::Air;
use super::partitions::Partitions;
use crate::link::NextEvent;
use crate::schedule::{Event, EventKind, Schedule};

/// The current time and the pending events: one event queue per partition.
#[derive(Debug)]
pub(super) struct EventQueues {
    /// The current time (ns).
    pub(super) now: u64,
    queues: Vec<Schedule>,
    /// The partition being run.
    pub(super) current: usize,
    pub(super) partitions: Partitions,
    /// The radio channels.
    pub(super) air: Air,
}

impl EventQueues {
    pub(super) fn new() -> EventQueues {
        EventQueues {
            now: 0,
            queues: vec![Schedule::default()],
            current: 0,
            partitions: Partitions::default(),
            air: Air::default(),
        }
    }

    /// Returns the time and the partition of the next event.
    pub(super) fn earliest(&self) -> Option<(u64, usize)> {
        let times = self.queues.iter().map(|queue| queue.peek().map(|event| event.time()));
        times.enumerate().filter_map(|(partition, time)| Some((time?, partition))).min()
    }

    /// Distributes the pending events among new partitions; `partition_of` says which one handles an event.
    pub(super) fn redistribute(
        &mut self,
        partitions: Partitions,
        partition_of: impl Fn(&Partitions, Event) -> usize,
    ) {
        let mut events: Vec<Event> = self.queues.iter_mut().flat_map(Schedule::take_all).collect();
        events.sort_unstable();
        let sequence = self.queues.iter().map(Schedule::sequence).max().unwrap_or(0);
        self.queues = partitions.lookahead.iter().map(|_| Schedule::with_sequence(sequence)).collect();
        for event in events {
            self.queues[partition_of(&partitions, event)].put(event);
        }
        self.partitions = partitions;
    }

    /// Returns the event queue of the partition being run.
    #[inline(always)]
    pub(super) fn queue(&mut self) -> &mut Schedule {
        &mut self.queues[self.current]
    }

    /// Adds an event of a component of the partition being run.
    #[inline(never)]
    pub(super) fn add(&mut self, at: u64, kind: EventKind, index: usize) {
        self.queues[self.current].insert(self.now, at, kind, index);
    }

    /// Adds an event of a component of any partition.
    pub(super) fn add_to(&mut self, partition: usize, at: u64, kind: EventKind, index: usize) {
        self.queues[partition].insert(self.now, at, kind, index);
    }

    /// Replaces the event being handled by another of its component, or removes it.
    pub(super) fn replace_first(&mut self, at: Option<u64>, kind: EventKind, index: usize) {
        let now = self.now;
        match at {
            Some(at) => self.queue().replace_first(now, at, kind, index),
            None => self.queue().remove_first(),
        }
    }

    /// Adds the next event of a link, if it has one.
    #[inline(always)]
    pub(super) fn add_link_event(&mut self, link: usize, event: NextEvent) {
        if event != NextEvent::None {
            self.add_some_link_event(link, event);
        }
    }

    #[inline(never)]
    fn add_some_link_event(&mut self, link: usize, event: NextEvent) {
        match event {
            NextEvent::None => {}
            NextEvent::Arrival { at, since } => {
                let partition = self.partitions.egress(link as u32);
                self.queues[partition].insert(since, at, EventKind::Arrival, link);
            }
            NextEvent::Serve(at) => self.add(at, EventKind::Served, link),
            NextEvent::Contend(size) => {
                if let Some((at, first)) = self.air.offer(link, self.now, size) {
                    self.add(at, EventKind::Served, first);
                }
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.queues.iter().map(Schedule::memory).sum()
    }
}
