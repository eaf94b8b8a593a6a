//! FQ-CoDel: a queue with CoDel for each of many groups of flows, which send in turns (RFC 8290).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::waiting::Waiting;
use super::{Backlog, Codel, CodelConfig, Discipline, Label, Packet, Verdict};
use crate::{QueueSpecError, require};
use headway_units::{Bytes, Duration, Instant};

/// Most queues; more would take megabytes for each link.
const MOST_FLOWS: u32 = 65_536;

/// Parameters of FQ-CoDel; defaults are those of RFC 8290 and of Linux.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct FqCodelConfig {
    /// Number of queues, 1 to 65536; default 1024. Flows are spread over them by a hash.
    pub flows: u32,
    /// Wire bytes that a queue may send in its turn; default 1538 B, a packet of 1500 B.
    pub quantum: Bytes,
    /// Acceptable queueing delay of each queue; default 5 ms.
    pub target: Duration,
    /// How long the delay may stay above the target; default 100 ms.
    pub interval: Duration,
    /// Whether ECN-capable packets are marked instead of dropped; default yes.
    pub ecn: bool,
    /// Limit of all queues together in wire bytes; unlimited when absent. Above it the longest queue
    /// loses its first packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit of all queues together in packets; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

impl Default for FqCodelConfig {
    /// Returns the parameters of RFC 8290 without a limit.
    fn default() -> FqCodelConfig {
        FqCodelConfig {
            flows: 1024,
            quantum: Bytes::new(1538),
            target: CodelConfig::default().target,
            interval: CodelConfig::default().interval,
            ecn: true,
            limit: None,
            packets: None,
        }
    }
}

impl FqCodelConfig {
    /// Checks the parameters.
    pub(super) fn validate(&self) -> Result<(), QueueSpecError> {
        require((1..=MOST_FLOWS).contains(&self.flows), "flows", "must be from 1 to 65536")?;
        require((1..=10_000_000).contains(&self.quantum.get()), "quantum", "must be from 1 B to 10 MB")?;
        require(self.target > Duration::ZERO, "target", "must be above zero")?;
        require(self.interval > Duration::ZERO, "interval", "must be above zero")
    }
}

/// Which list a queue is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    None,
    New,
    Old,
}

/// A queue of some flows.
#[derive(Clone, Debug)]
struct Group {
    codel: Codel,
    waiting: Waiting,
    /// Wire bytes that it may still send; it must wait for its turn from zero on.
    deficit: i64,
    list: List,
}

/// Many queues that send in turns, new ones first.
#[derive(Clone, Debug)]
pub struct FqCodel {
    groups: Vec<Group>,
    /// Numbers of the queues that have begun to wait since they were empty, and of the others that wait.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// The queue of the packet that is judged next.
    group: usize,
    /// What waits in all of them.
    waiting: Waiting,
    limit: Limit,
    quantum: i64,
    key: u64,
}

impl FqCodel {
    /// Creates empty queues; `seed` decides which flows share one.
    pub(crate) fn new(config: &FqCodelConfig, seed: u64) -> FqCodel {
        let codel = CodelConfig {
            target: config.target,
            interval: config.interval,
            ecn: config.ecn,
            ..CodelConfig::default()
        };
        let waiting = Waiting::default();
        let group = Group { codel: Codel::new(&codel), waiting, deficit: 0, list: List::None };
        FqCodel {
            groups: vec![group; config.flows as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            group: 0,
            waiting,
            limit: Limit::new(config.limit, config.packets),
            quantum: config.quantum.get() as i64,
            key: seed,
        }
    }

    /// Returns the number of queues.
    pub(crate) fn queues(&self) -> usize {
        self.groups.len()
    }

    /// The next packet to be judged has this label; returns the number of its queue.
    pub(crate) fn label(&mut self, label: Label) -> usize {
        self.group = (mixed(self.key ^ u64::from(label.flow)) % self.groups.len() as u64) as usize;
        self.group
    }

    /// Takes over a packet of the queue labelled last: of `size` on the wire.
    pub(crate) fn take_over(&mut self, size: Bytes) {
        self.waiting.add(size);
        let group = &mut self.groups[self.group];
        group.waiting.add(size);
        if group.list == List::None {
            (group.list, group.deficit) = (List::New, self.quantum);
            self.new.push_back(self.group);
        }
    }

    /// Removes a packet of this size from what waits in a queue.
    fn remove(&mut self, number: usize, size: Bytes) {
        self.waiting.remove(size);
        self.groups[number].waiting.remove(size);
    }

    /// Returns the longest queue if all together are longer than the limit: its first packet is to be dropped
    /// (RFC 8290 4.1), which [`FqCodel::dropped`] gets.
    pub fn overfull(&self) -> Option<usize> {
        let bytes = |number: &usize| self.groups[*number].waiting.bytes;
        self.limit.is_exceeded(&self.waiting).then(|| (0..self.groups.len()).max_by_key(bytes)).flatten()
    }

    /// A packet that waited in a queue, of `size` on the wire, was dropped: the first one because all
    /// together were too long, or one that others made redundant.
    pub fn dropped(&mut self, number: usize, size: Bytes) {
        self.remove(number, size);
    }

    /// Returns the queue that sends next (RFC 8290 4.2); `None` if nothing waits.
    pub(crate) fn next_queue(&mut self) -> Option<usize> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let group = &mut self.groups[number];
            if group.deficit <= 0 {
                list.pop_front();
                group.deficit += self.quantum;
                group.list = List::Old;
                self.old.push_back(number);
            } else if group.waiting.packets > 0 {
                return Some(number);
            } else {
                list.pop_front();
                // A new queue that has become empty passes through the old ones, so that it is
                // not new again at once.
                if is_new && !self.old.is_empty() {
                    group.list = List::Old;
                    self.old.push_back(number);
                } else {
                    group.list = List::None;
                }
            }
        }
    }
}

impl Discipline for FqCodel {
    fn on_arrival(&mut self, _now: Instant, _backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        self.take_over(packet.size);
        Verdict::Accept
    }

    fn on_departure(
        &mut self,
        now: Instant,
        backlog: &Backlog,
        waited: Duration,
        packet: &mut Packet<'_>,
    ) -> Verdict {
        self.remove(self.group, packet.size);
        let group = &mut self.groups[self.group];
        let own = group.waiting.part_of(backlog);
        let verdict = group.codel.on_departure(now, &own, waited, packet);
        if verdict != Verdict::Drop {
            group.deficit -= packet.size.get() as i64;
        }
        verdict
    }

    fn judges_departures(&self) -> bool {
        true
    }
}

/// Returns a number that looks random (the output function of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::testing::backlog;
    use super::*;

    /// Queues with packets of the given flows and sizes, and what they send, by flow; all leave at time zero.
    struct Sent {
        fq: FqCodel,
        lines: Vec<VecDeque<(u32, u64)>>,
    }

    impl Sent {
        fn new(config: &FqCodelConfig) -> Sent {
            let fq = FqCodel::new(config, 7);
            Sent { lines: vec![VecDeque::new(); fq.queues()], fq }
        }

        fn push(&mut self, flow: u32, size: u64) {
            let line = self.fq.label(Label { flow, is_scalable: false });
            self.fq.on_arrival(Instant::ZERO, &backlog(0), &Packet::new(Bytes::new(size), false));
            self.lines[line].push_back((flow, size));
            while let Some(line) = self.fq.overfull() {
                let (_, size) = self.lines[line].pop_front().unwrap();
                self.fq.dropped(line, Bytes::new(size));
            }
        }

        fn pop(&mut self) -> Option<u32> {
            let line = self.fq.next_queue()?;
            let (flow, size) = self.lines[line].pop_front().unwrap();
            self.fq.label(Label { flow, is_scalable: false });
            let size = Bytes::new(size);
            self.fq.on_departure(Instant::ZERO, &backlog(0), Duration::ZERO, &mut Packet::new(size, false));
            Some(flow)
        }
    }

    #[test]
    fn flows_with_packets_of_any_size_send_equal_bytes() {
        let mut sent = Sent::new(&FqCodelConfig::default());
        for _ in 0..3_000 {
            sent.push(1, 1_500);
            for _ in 0..10 {
                sent.push(2, 150);
            }
        }
        let mut bytes = [0; 3];
        for _ in 0..11_000 {
            let flow = sent.pop().unwrap() as usize;
            bytes[flow] += if flow == 1 { 1_500 } else { 150 };
        }
        assert!(u64::abs_diff(bytes[1], bytes[2]) < 2 * 1538 + 1_500, "{bytes:?}");
    }

    #[test]
    fn a_flow_that_begins_goes_before_those_that_wait() {
        let mut sent = Sent::new(&FqCodelConfig::default());
        (0..10).for_each(|_| sent.push(1, 1_500));
        (0..4).for_each(|_| _ = sent.pop());
        sent.push(2, 100);
        assert_eq!(sent.pop(), Some(2));
        // While its first quantum lasts it goes on, and then the others have their turn (RFC 8290 4.2).
        sent.push(2, 100);
        assert_eq!(std::array::from_fn(|_| sent.pop()), [Some(2), Some(1), Some(1)]);
        while sent.pop().is_some() {}
        assert_eq!((sent.fq.waiting.packets, sent.fq.waiting.bytes), (0, 0));
    }

    #[test]
    fn the_longest_queue_loses_its_first_packet_when_all_are_full() {
        let mut sent = Sent::new(&FqCodelConfig { packets: Some(10), ..FqCodelConfig::default() });
        (0..20).for_each(|_| sent.push(1, 1_500));
        sent.push(2, 100);
        assert_eq!(sent.lines.iter().map(VecDeque::len).sum::<usize>(), 10);
        assert!(sent.lines.iter().flatten().any(|(flow, _)| *flow == 2));
    }

    #[test]
    fn a_hash_spreads_flows() {
        let mut fq = FqCodel::new(&FqCodelConfig::default(), 3);
        let lines: std::collections::HashSet<usize> =
            (0..100).map(|flow| fq.label(Label { flow, is_scalable: false })).collect();
        // 100 (1 - e^-(100/1024)) / (100/1024) on average.
        assert!(lines.len() > 85, "{}", lines.len());
    }
}
