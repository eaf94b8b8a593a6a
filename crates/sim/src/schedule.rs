//! The scheduler: a priority queue of pending events.
//!
//! It is a 4-ary heap of 24-byte records. Every link keeps its packets in a ring and has one pending event,
//! and timers are re-armed lazily. The heap therefore stays small, and replacing its top is far more
//! frequent than inserting.
//!
//! `benches/scheduler.rs` compares it with other data structures under that load. Time per operation
//! relative to this heap:
//!
//! | busy links | far timers | binary heap | calendar queue | timing wheel |
//! |-----------:|-----------:|------------:|---------------:|-------------:|
//! |          2 |          0 |         3.2 |            3.7 |          6.0 |
//! |          2 |      1,000 |         2.2 |            2.4 |          3.9 |
//! |          6 |      1,000 |         0.8 |            1.4 |          1.2 |
//! |         20 |      1,000 |         1.0 |            1.4 |          0.7 |
//! |         50 |      1,000 |         1.0 |            1.6 |          0.6 |
//! |         50 |    100,000 |         0.9 |            1.2 |          0.4 |
//!
//! The time of a timing wheel does not depend on the number of pending events; it wins from about a dozen
//! busy links on. Most simulations have fewer, and there the heap wins.

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// The first packet in flight on a link arrives.
    Arrival,
    /// A link that serves its queue packet by packet has finished a transmission.
    Served,
    /// A sender may send: it starts, its pacer releases a segment, its application has written, or its
    /// reordering timer fires.
    Send,
    /// The retransmission timer of a sender fires.
    Retransmit,
    /// The delayed-ACK timer of a receiver fires, or a window update is due.
    Acknowledge,
    /// The next datagram of a source is due.
    Source,
    /// The next packet of a prober is due.
    Probe,
    /// A NIC raises an interrupt or passes a packet up.
    Nic,
}

const EVENT_KINDS: [EventKind; 8] = [
    EventKind::Arrival,
    EventKind::Served,
    EventKind::Send,
    EventKind::Retransmit,
    EventKind::Acknowledge,
    EventKind::Source,
    EventKind::Probe,
    EventKind::Nic,
];

/// Bits for the number of a component.
const INDEX_BITS: u32 = 22;
/// Maximum number of components of one kind.
pub(crate) const MAX_COMPONENTS: usize = 1 << INDEX_BITS;
/// Bits for kind and component; the 39 bits above them are a sequence number that breaks ties.
const TARGET_BITS: u32 = INDEX_BITS + 3;
/// Increment of the sequence number in `Event::low`.
const SEQUENCE_STEP: u64 = 1 << TARGET_BITS;

/// A pending event. The order of the fields defines the order of events: time, time of
/// insertion, sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    time: u64,
    since: u64,
    /// Sequence number, kind and component.
    low: u64,
}

impl Event {
    /// Returns when the event is due (ns).
    pub fn time(self) -> u64 {
        self.time
    }

    /// Returns the kind of the event.
    pub(crate) fn kind(self) -> EventKind {
        EVENT_KINDS[(self.low as usize >> INDEX_BITS) & 7]
    }

    /// Returns the number of the component that handles it.
    pub fn index(self) -> usize {
        self.low as usize & (MAX_COMPONENTS - 1)
    }

    /// Whether this event precedes `other`; branch-free, as the branches would be mispredicted.
    #[inline(always)]
    fn is_before(&self, other: &Event) -> bool {
        let high = |event: &Event| u128::from(event.time) << 64 | u128::from(event.since);
        let (one, two) = (high(self), high(other));
        (one < two) | ((one == two) & (self.low < other.low))
    }
}

/// Returns the index of the first of four events. Their times nearly always differ, so that these suffice;
/// without branches, as those would be mispredicted.
#[inline(always)]
fn least_of_four(events: [&Event; 4]) -> usize {
    let [a, b, c, d] = events.map(|event| event.time);
    let earliest = a.min(b).min(c.min(d));
    let [a, b, c, d] = [a, b, c, d].map(|time| usize::from(time == earliest));
    if a + b + c + d > 1 { least_of(&events.map(|event| *event)) } else { b + 2 * c + 3 * d }
}

/// Returns the index of the first of several events.
fn least_of(events: &[Event]) -> usize {
    (1..events.len()).fold(0, |least, i| if events[i].is_before(&events[least]) { i } else { least })
}

/// The bits of [`Event::low`] below the sequence number.
#[inline(always)]
fn target(kind: EventKind, index: usize) -> u64 {
    (kind as u64) << INDEX_BITS | index as u64
}

/// Pending events in order of time; ties are broken by time of insertion, then by order of insertion.
#[derive(Debug)]
pub struct Schedule {
    heap: Vec<Event>,
    /// No event but the first is due before this time (ns).
    others_from: u64,
    /// Sequence number of the event inserted last, in multiples of [`SEQUENCE_STEP`].
    sequence: u64,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::with_sequence(0)
    }
}

impl Schedule {
    /// Returns an empty queue whose events follow those numbered up to `sequence`.
    pub(crate) fn with_sequence(sequence: u64) -> Schedule {
        Schedule { heap: Vec::new(), others_from: u64::MAX, sequence }
    }

    /// Returns the sequence number of the event inserted last.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn memory(&self) -> usize {
        self.heap.capacity() * size_of::<Event>()
    }

    /// Returns the first event.
    pub fn peek(&self) -> Option<Event> {
        self.heap.first().copied()
    }

    /// Returns the sequence number of a new event, for [`Schedule::replace_first_with`].
    #[inline(always)]
    pub(crate) fn next_sequence(&mut self) -> u64 {
        let (sequence, over) = self.sequence.overflowing_add(SEQUENCE_STEP);
        self.sequence = sequence;
        if over {
            self.renumber();
        }
        self.sequence
    }

    /// Renumbers all events when the sequence numbers are exhausted: after 5.5e11 insertions, about a day.
    #[cold]
    fn renumber(&mut self) {
        // A sorted array is a heap.
        self.heap.sort_unstable();
        self.sequence = 0;
        for event in &mut self.heap {
            self.sequence += SEQUENCE_STEP;
            event.low = self.sequence | event.low & (SEQUENCE_STEP - 1);
        }
        self.sequence += SEQUENCE_STEP;
    }

    /// Inserts an event at `time` that counts as inserted at `since` (ns).
    pub fn insert(&mut self, since: u64, time: u64, kind: EventKind, index: usize) {
        let low = self.next_sequence() | target(kind, index);
        self.put(Event { time, since, low });
    }

    /// Inserts an event.
    pub(crate) fn put(&mut self, event: Event) {
        let mut hole = self.heap.len();
        if let Some(first) = self.heap.first() {
            self.others_from = self.others_from.min(event.time.max(first.time));
        }
        self.heap.push(event);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.heap[parent].is_before(&event) {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = event;
    }

    /// Replaces the first event by one at `time` that counts as inserted at `since` (ns).
    pub fn replace_first(&mut self, since: u64, time: u64, kind: EventKind, index: usize) {
        let sequence = self.next_sequence();
        self.replace_first_with(sequence, since, time, kind, index);
    }

    /// Whether an event at `time` certainly precedes all pending events except the first.
    #[inline(always)]
    pub(crate) fn is_next(&self, time: u64) -> bool {
        time < self.others_from
    }

    /// Replaces the first event as [`Schedule::replace_first`] does, by one with a number of
    /// [`Schedule::next_sequence`].
    pub(crate) fn replace_first_with(
        &mut self,
        sequence: u64,
        since: u64,
        time: u64,
        kind: EventKind,
        index: usize,
    ) {
        self.sift_down(Event { time, since, low: sequence | target(kind, index) });
    }

    /// Removes and returns all events, in no particular order.
    pub(crate) fn take_all(&mut self) -> Vec<Event> {
        self.others_from = u64::MAX;
        std::mem::take(&mut self.heap)
    }

    /// Removes the first event.
    pub(crate) fn remove_first(&mut self) {
        match self.heap.pop() {
            Some(last) if !self.heap.is_empty() => self.sift_down(last),
            _ => self.others_from = u64::MAX,
        }
    }

    /// Moves `event` from the top down to its place.
    fn sift_down(&mut self, event: Event) {
        let heap = &mut self.heap[..];
        let mut hole = 0;
        loop {
            let first = hole * 4 + 1;
            let Some(children) = heap.get(first..(first + 4).min(heap.len())).filter(|c| !c.is_empty())
            else {
                break;
            };
            let least = match children {
                [a, b, c, d] => least_of_four([a, b, c, d]),
                _ => least_of(children),
            };
            if event.is_before(&children[least]) {
                break;
            }
            heap[hole] = children[least];
            hole = first + least;
        }
        heap[hole] = event;
        let others = self.heap.iter().skip(1).take(4);
        self.others_from = others.map(|event| event.time).min().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_order_of_time_and_age(steps in prop::collection::vec((0u64..50, 0u8..3), 1..300)) {
            let mut schedule = Schedule::default();
            let mut model: Vec<(u64, usize)> = Vec::new();
            for (sequence, (time, action)) in steps.into_iter().enumerate() {
                let first = model.iter().enumerate().min_by_key(|(_, event)| **event).map(|(i, _)| i);
                prop_assert_eq!(schedule.peek().map(|e| (e.time(), e.index())), first.map(|i| model[i]));
                match (action, first) {
                    (1, Some(i)) => { model.remove(i); schedule.remove_first(); }
                    (2, Some(i)) => {
                        model.remove(i);
                        model.push((time, sequence));
                        schedule.replace_first(0, time, EventKind::Source, sequence);
                    }
                    _ => { model.push((time, sequence)); schedule.insert(0, time, EventKind::Arrival, sequence); }
                }
            }
        }
    }

    #[test]
    fn the_order_survives_more_insertions_than_the_age_has_bits_for() {
        let mut schedule =
            Schedule { sequence: 0_u64.wrapping_sub(6 * SEQUENCE_STEP), ..Schedule::default() };
        let mut expected = Vec::new();
        for sequence in 0..12 {
            let time = if sequence % 3 == 0 { 7 } else { 9 };
            schedule.insert(0, time, EventKind::Send, sequence);
            expected.push((time, sequence));
        }
        // Events of equal time are in order of insertion.
        expected.sort_unstable();
        let next = |_| {
            let event = schedule.peek().expect("as many as were inserted");
            schedule.remove_first();
            (event.time(), event.index())
        };
        assert_eq!((0..12).map(next).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_event_keeps_topic_and_component() {
        let mut schedule = Schedule::default();
        schedule.insert(0, 7, EventKind::Nic, MAX_COMPONENTS - 1);
        let event = schedule.peek().expect("one event");
        assert_eq!((event.time(), event.kind(), event.index()), (7, EventKind::Nic, MAX_COMPONENTS - 1));
    }
}
