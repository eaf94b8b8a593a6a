//! Classes of packets that share a link: those of XCP, those of RCP, and those without a congestion
//! header (xcp-rcp F43).
//!
//! Each class has a queue and a discipline of its own. They send in turns, a full packet's worth each
//! (deficit round robin, Shreedhar and Varghese 1996), so a class gets at least an equal part of the link
//! while it has packets, and the rest goes to those that have. A router that knows its capacity learns what
//! its class can have: the link less what other classes use of their parts.

use serde::{Deserialize, Serialize};

use super::waiting::Waiting;
use super::{Backlog, Discipline, DropTailConfig, Explicit, ExplicitConfig, Packet, Verdict};
use crate::explicit::{Header, Record, VERSION_RCP};
use crate::{Queue, QueueSpec, QueueSpecError};
use headway_units::{Bytes, Duration, Instant, Rate, WIRE_OVERHEAD};

/// Number of classes.
pub const CLASSES: usize = 3;
/// Their numbers.
const XCP: usize = 0;
const RCP: usize = 1;
const OTHER: usize = 2;
const NAMES: [&str; CLASSES] = ["xcp", "rcp", "other"];
/// Bytes that a class may send in its turn: a full packet. More would make the others wait, less
/// would take more turns.
const QUANTUM: u64 = 1538;
/// How often the use of the classes is measured (ns), about an RTT.
const MEASURED: u64 = 100_000_000;
/// One over the weight of the newest measurement: a quarter, so that single packets do not
/// move capacities much.
const WEIGHT: u64 = 4;

/// Queues of the classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassesConfig {
    /// Of packets with a header of XCP; default `xcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xcp: Option<Box<QueueSpec>>,
    /// Of packets with a header of RCP; default `rcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcp: Option<Box<QueueSpec>>,
    /// Of packets without such a header; default `drop-tail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Box<QueueSpec>>,
    /// Limit of each class in wire bytes, unless it has its own; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit of each class in packets, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

impl ClassesConfig {
    /// Returns the queue of every class with its limit.
    fn specs(&self) -> [QueueSpec; CLASSES] {
        let defaults = [
            QueueSpec::Xcp(ExplicitConfig::default()),
            QueueSpec::Rcp(ExplicitConfig::default()),
            QueueSpec::DropTail(DropTailConfig::default()),
        ];
        let given = [&self.xcp, &self.rcp, &self.other];
        let mut given = given.into_iter();
        defaults.map(|default| {
            let spec = given.next().and_then(|spec| spec.as_deref().cloned()).unwrap_or(default);
            spec.with_default_limits(self.limit, self.packets)
        })
    }

    /// Checks the queues of all classes.
    pub(super) fn validate(&self) -> Result<(), QueueSpecError> {
        for (class, spec) in self.specs().iter().enumerate() {
            let fits = match spec.explicit() {
                Some((law, _)) => !spec.needs_wifi() && class == if law.is_rate() { RCP } else { XCP },
                None => class == OTHER && !spec.has_several_queues(),
            };
            let reason = match class {
                XCP => "must be `xcp`, `xcp-b`, `xcp-kappa` or `errors`",
                RCP => "must be `rcp`, `rcp-b`, `rcp-kappa` or `rcp-errors`",
                _ => "must be a single queue that tells senders no rate",
            };
            if !fits {
                return Err(QueueSpecError { key: format!("{}.kind", NAMES[class]).into(), reason });
            }
            spec.validate().map_err(|error| QueueSpecError {
                key: format!("{}.{}", NAMES[class], error.key).into(),
                ..error
            })?;
        }
        Ok(())
    }
}

/// A class and what waits in it.
#[derive(Clone, Debug)]
struct Class {
    queue: Queue,
    /// The capacity of the link in B/s that its router believes in; `None` if it has none, or knows none.
    believed: Option<u64>,
    waiting: Waiting,
    /// Wire bytes that it may still send in this round.
    deficit: u64,
    /// Wire bytes that arrived since the last measurement, and the average in B/s.
    arrived: u64,
    used: u64,
}

/// Three queues that send in turns.
#[derive(Clone, Debug)]
pub struct Classes {
    classes: [Class; CLASSES],
    /// The class whose turn it is.
    turn: usize,
    /// When the use was measured last (ns).
    measured: u64,
}

impl Classes {
    /// Creates the queues of a link of `rate` at `start`; the parameters must be valid.
    pub(super) fn new(config: &ClassesConfig, start: Instant, rate: Option<Rate>, seed: u64) -> Classes {
        let mut number = 0;
        let classes = config.specs().map(|spec| {
            number += 1;
            Class {
                queue: spec.build_at(start, rate, seed.rotate_left(number)),
                believed: believed(&spec, rate),
                waiting: Waiting::default(),
                deficit: 0,
                arrived: 0,
                used: 0,
            }
        });
        Classes { classes, turn: 0, measured: start.ns() }
    }

    /// Adopts other queues at `now`; packets stay where they wait.
    pub(super) fn adopt(&mut self, config: &ClassesConfig, now: Instant, rate: Option<Rate>, seed: u64) {
        let mut number = 0;
        for (class, spec) in self.classes.iter_mut().zip(config.specs()) {
            number += 1;
            let Waiting { bytes, packets } = class.waiting;
            let waiting = (bytes - u64::from(packets) * WIRE_OVERHEAD.get(), packets);
            class.queue.adopt(now, &spec, rate, waiting, seed.rotate_left(number));
            class.believed = believed(&spec, rate);
        }
    }

    /// Takes over a packet that already waits: of `size` on the wire.
    pub(crate) fn take_over(&mut self, header: Option<&Header>, size: Bytes) {
        let class = &mut self.classes[class_of(header)];
        class.waiting.add(size);
        if let Queue::Explicit(router) = &mut class.queue {
            router.take_over(size);
        }
    }

    /// Returns the number of the queue, below [`CLASSES`], in which a packet waits.
    pub(crate) fn class(&self, header: Option<&Header>) -> usize {
        class_of(header)
    }

    /// Returns the class that sends next, and takes `first`, the sizes of the first packets of all classes,
    /// from what it may send; `None` if all are empty.
    pub fn next_class(&mut self, first: [Option<Bytes>; CLASSES]) -> Option<usize> {
        first.iter().any(Option::is_some).then(|| {
            loop {
                let class = &mut self.classes[self.turn];
                match first[self.turn] {
                    Some(size) if size.get() <= class.deficit => {
                        class.deficit -= size.get();
                        return self.turn;
                    }
                    Some(_) => {}
                    None => class.deficit = 0,
                }
                self.turn = (self.turn + 1) % CLASSES;
                self.classes[self.turn].deficit += QUANTUM;
            }
        })
    }

    /// Keeps a record of every control interval of both routers from now on.
    pub(crate) fn keep_records(&mut self) {
        self.routers().for_each(Explicit::keep_records);
    }

    /// Returns the records of the control intervals that ended since the last call, in order of time.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        let mut records: Vec<Record> = self.routers().flat_map(Explicit::take_records).collect();
        records.sort_by_key(|record| record.time);
        records
    }

    fn routers(&mut self) -> impl Iterator<Item = &mut Explicit> {
        self.classes.iter_mut().filter_map(|class| match &mut class.queue {
            Queue::Explicit(router) => Some(&mut **router),
            _ => None,
        })
    }

    /// Measures what the classes use, if it is time, and tells routers what they can have.
    fn measure(&mut self, now: Instant) {
        let elapsed = now.ns().saturating_sub(self.measured);
        if elapsed < MEASURED {
            return;
        }
        self.measured = now.ns();
        for class in &mut self.classes {
            let rate = u128::from(class.arrived) * 1_000_000_000 / u128::from(elapsed);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            class.used = ((class.used / WEIGHT) * (WEIGHT - 1)).saturating_add(rate / WEIGHT);
            class.arrived = 0;
        }
        // What senders without a header want is unknown while they wait.
        let wanted: [u64; CLASSES] = std::array::from_fn(|number| {
            let class = &self.classes[number];
            if number == OTHER && class.waiting.packets > 0 { u64::MAX } else { class.used }
        });
        for (number, class) in self.classes.iter_mut().enumerate() {
            if let (Queue::Explicit(router), Some(capacity)) = (&mut class.queue, class.believed) {
                let others = std::array::from_fn(|other| wanted[(number + 1 + other) % CLASSES]);
                router.set_capacity(part(capacity, others));
            }
        }
    }
}

/// Returns the class of a packet. Headers of unknown versions go to XCP's router, which
/// drops and counts them.
fn class_of(header: Option<&Header>) -> usize {
    match header {
        None => OTHER,
        Some(header) if header.version == VERSION_RCP => RCP,
        Some(_) => XCP,
    }
}

/// Returns the capacity in B/s that the router of a class shares; `None` if there is none to share.
fn believed(spec: &QueueSpec, rate: Option<Rate>) -> Option<u64> {
    let (_, config) = spec.explicit()?;
    config.capacity.or(rate).map(|rate| rate.bps() / 8).filter(|capacity| *capacity > 0)
}

/// Returns the part of `capacity` for a class that wants all of it, where the two others want this much: an
/// equal part, and of what they leave of theirs.
fn part(capacity: u64, mut others: [u64; CLASSES - 1]) -> u64 {
    others.sort_unstable();
    let (mut left, mut among) = (capacity, CLASSES as u64);
    for wanted in others {
        if wanted >= left / among {
            break;
        }
        (left, among) = (left - wanted, among - 1);
    }
    left / among
}

impl Discipline for Classes {
    #[inline(never)]
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        self.measure(now);
        let class = &mut self.classes[class_of(packet.header.as_deref())];
        class.arrived += packet.size.get();
        let own = class.waiting.part_of(backlog);
        let verdict = class.queue.on_arrival(now, &own, packet);
        if verdict != Verdict::Drop {
            class.waiting.add(packet.size);
        }
        verdict
    }

    #[inline(never)]
    fn on_departure(
        &mut self,
        now: Instant,
        backlog: &Backlog,
        waited: Duration,
        packet: &mut Packet<'_>,
    ) -> Verdict {
        self.measure(now);
        let class = &mut self.classes[class_of(packet.header.as_deref())];
        class.waiting.remove(packet.size);
        let own = class.waiting.part_of(backlog);
        class.queue.on_departure(now, &own, waited, packet)
    }

    fn judges_departures(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_gets_an_equal_part_and_what_others_leave_of_theirs() {
        let all = u64::MAX;
        for (others, expected) in [
            ([0, 0], 900),
            ([0, all], 450),
            ([all, all], 300),
            ([100, all], 400),
            ([all, 100], 400),
            ([100, 200], 600),
            ([300, 500], 300),
            ([250, 310], 340),
        ] {
            assert_eq!(part(900, others), expected, "{others:?}");
        }
    }

    #[test]
    fn classes_send_equal_bytes_whatever_the_size_of_their_packets() {
        let mut classes =
            Classes::new(&ClassesConfig::default(), Instant::ZERO, Some(Rate::from_mbps(8.0)), 1);
        let sizes = [1538, 538, 9038].map(Bytes::new);
        let mut sent = [0; CLASSES];
        for _ in 0..100_000 {
            let class = classes.next_class(sizes.map(Some)).expect("packets");
            sent[class] += sizes[class].get();
        }
        let mean = sent.iter().sum::<u64>() / 3;
        assert!(sent.iter().all(|bytes| bytes.abs_diff(mean) <= 2 * 9038), "{sent:?}");
        // A class that was empty has saved nothing up.
        let before = classes.classes[OTHER].deficit;
        for _ in 0..100 {
            assert_eq!(classes.next_class([None, Some(sizes[1]), None]), Some(RCP));
        }
        assert!(classes.classes[OTHER].deficit <= before.max(QUANTUM));
        assert_eq!(classes.next_class([None; CLASSES]), None);
    }
}
