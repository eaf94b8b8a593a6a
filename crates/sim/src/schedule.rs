//! The scheduler: what happens next.
//!
//! A 4-ary heap of 24-byte records. Links keep their packets in rings and have one pending event each, and timers are moved
//! lazily, so the heap stays small and its top is replaced far more often than anything is inserted.
//!
//! `benches/scheduler.rs` compares it with others under that load. Their time per operation as a multiple of this heap's:
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
//! A wheel takes the same time whatever is pending and wins from about a dozen busy links on; below that, where most
//! simulations are, the heap does.

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Topic {
    /// The first packet in flight on a link arrives.
    Arrival,
    /// A link that serves its queue packet by packet has sent one.
    Served,
    /// A sender may send: it starts, its pacing allows it, its application has written, or reordering has been waited for.
    Send,
    /// The retransmission timer of a sender.
    Retransmit,
    /// The delayed acknowledgement or window update of a receiver.
    Acknowledge,
    /// The next datagram of a source.
    Source,
    /// The next packet of a prober.
    Probe,
    /// A network card interrupts or hands over a packet.
    Card,
}

const TOPICS: [Topic; 8] = [
    Topic::Arrival,
    Topic::Served,
    Topic::Send,
    Topic::Retransmit,
    Topic::Acknowledge,
    Topic::Source,
    Topic::Probe,
    Topic::Card,
];

/// Bits of the number of a component.
const INDEX_BITS: u32 = 22;
/// Most components of one kind.
pub(crate) const MAX_COMPONENTS: usize = 1 << INDEX_BITS;
/// Bits that hold topic and component; the 39 bits above them count insertions, so that ties go by age.
const TARGET_BITS: u32 = INDEX_BITS + 3;
/// What an insertion adds to the age.
const OLDER: u64 = 1 << TARGET_BITS;

/// A pending event. The order of the fields is the order of the events: time, when it was inserted, age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    time: u64,
    since: u64,
    /// Age and target.
    low: u64,
}

impl Event {
    /// When it happens (ns).
    #[inline]
    pub fn time(self) -> u64 {
        self.time
    }

    /// What it is about.
    #[inline]
    pub fn topic(self) -> Topic {
        TOPICS[(self.low as usize >> INDEX_BITS) & 7]
    }

    /// The number of the component it is for.
    #[inline]
    pub fn index(self) -> usize {
        self.low as usize & (MAX_COMPONENTS - 1)
    }

    /// Whether it comes before another; without a branch that could be mispredicted.
    #[inline(always)]
    fn is_before(&self, other: &Event) -> bool {
        let high = |event: &Event| u128::from(event.time) << 64 | u128::from(event.since);
        let (one, two) = (high(self), high(other));
        (one < two) | ((one == two) & (self.low < other.low))
    }
}

/// Pending events in order of time; equal times in the order of the times at which they were inserted, and then of insertion.
#[derive(Debug, Default)]
pub struct Schedule {
    heap: Vec<Event>,
    /// That of the event inserted last, in multiples of [`OLDER`].
    age: u64,
}

impl Schedule {
    /// One whose events are younger than `age` tells.
    pub(crate) fn aged(age: u64) -> Schedule {
        Schedule { heap: Vec::new(), age }
    }

    /// The age of the event inserted last.
    pub(crate) fn age(&self) -> u64 {
        self.age
    }

    pub(crate) fn memory(&self) -> usize {
        self.heap.capacity() * size_of::<Event>()
    }

    /// The first event.
    #[inline]
    pub fn peek(&self) -> Option<Event> {
        self.heap.first().copied()
    }

    /// An event at `time` that is inserted at `since` (ns).
    #[inline]
    pub(crate) fn event(&mut self, since: u64, time: u64, topic: Topic, index: usize) -> Event {
        let (age, over) = self.age.overflowing_add(OLDER);
        self.age = age;
        if over {
            self.rejuvenate();
        }
        let target = (topic as u64) << INDEX_BITS | index as u64;
        Event { time, since, low: self.age | target }
    }

    /// Counts ages from the beginning again, when there are no higher ones: after 5.5e11 insertions, which is about a day.
    #[cold]
    fn rejuvenate(&mut self) {
        // Events in order are a heap.
        self.heap.sort_unstable();
        self.age = 0;
        for event in &mut self.heap {
            self.age += OLDER;
            event.low = self.age | event.low & (OLDER - 1);
        }
        self.age += OLDER;
    }

    /// Adds an event at `time` that is inserted at `since` (ns).
    #[inline]
    pub fn insert(&mut self, since: u64, time: u64, topic: Topic, index: usize) {
        let event = self.event(since, time, topic, index);
        self.put(event);
    }

    /// Adds an event.
    pub(crate) fn put(&mut self, event: Event) {
        let mut hole = self.heap.len();
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

    /// Puts an event at `time` that is inserted at `since` (ns) in the place of the first one.
    #[inline]
    pub fn replace_first(&mut self, since: u64, time: u64, topic: Topic, index: usize) {
        let event = self.event(since, time, topic, index);
        self.sink(event);
    }

    /// Whether nothing but the first event comes before this one.
    #[inline(always)]
    pub(crate) fn is_next(&self, event: Event) -> bool {
        match &self.heap[..] {
            [_, a, b, c, d, ..] => {
                event.is_before(a) & event.is_before(b) & event.is_before(c) & event.is_before(d)
            }
            [_, few @ ..] => few.iter().all(|other| event.is_before(other)),
            [] => true,
        }
    }

    /// Puts an event of [`Schedule::event`] in the place of the first one.
    #[inline]
    pub(crate) fn replace_by(&mut self, event: Event) {
        self.sink(event);
    }

    /// Takes out all events, in no order.
    pub(crate) fn take_all(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.heap)
    }

    /// Removes the first event.
    #[inline]
    pub fn remove_first(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sink(last);
        }
    }

    /// Lets `event` sink from the top to its place.
    #[inline]
    fn sink(&mut self, event: Event) {
        let heap = &mut self.heap[..];
        let mut hole = 0;
        loop {
            let first = hole * 4 + 1;
            let Some(children) = heap.get(first..(first + 4).min(heap.len())).filter(|c| !c.is_empty())
            else {
                break;
            };
            let least = match children {
                // Two pairs and their winners.
                [a, b, c, d] => {
                    let (left, right) = (usize::from(b.is_before(a)), 2 + usize::from(d.is_before(c)));
                    if children[right].is_before(&children[left]) { right } else { left }
                }
                _ => (1..children.len())
                    .fold(0, |l, i| if children[i].is_before(&children[l]) { i } else { l }),
            };
            if event.is_before(&children[least]) {
                break;
            }
            heap[hole] = children[least];
            hole = first + least;
        }
        heap[hole] = event;
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
            for (age, (time, action)) in steps.into_iter().enumerate() {
                let first = model.iter().enumerate().min_by_key(|(_, event)| **event).map(|(i, _)| i);
                prop_assert_eq!(schedule.peek().map(|e| (e.time(), e.index())), first.map(|i| model[i]));
                match (action, first) {
                    (1, Some(i)) => { model.remove(i); schedule.remove_first(); }
                    (2, Some(i)) => {
                        model.remove(i);
                        model.push((time, age));
                        schedule.replace_first(0, time, Topic::Source, age);
                    }
                    _ => { model.push((time, age)); schedule.insert(0, time, Topic::Arrival, age); }
                }
            }
        }
    }

    #[test]
    fn the_order_survives_more_insertions_than_the_age_has_bits_for() {
        let mut schedule = Schedule { age: 0_u64.wrapping_sub(6 * OLDER), ..Schedule::default() };
        let mut expected = Vec::new();
        for age in 0..12 {
            let time = if age % 3 == 0 { 7 } else { 9 };
            schedule.insert(0, time, Topic::Send, age);
            expected.push((time, age));
        }
        // Those of the same time in the order of insertion.
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
        schedule.insert(0, 7, Topic::Card, MAX_COMPONENTS - 1);
        let event = schedule.peek().expect("one event");
        assert_eq!((event.time(), event.topic(), event.index()), (7, Topic::Card, MAX_COMPONENTS - 1));
    }
}
