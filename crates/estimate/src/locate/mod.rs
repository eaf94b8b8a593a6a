//! Locates the narrow and the tight link of a path: a conversation with the receiver, without any I/O.
//!
//! [`Locator`] says which trains to send and reads what became of them:
//!
//! ```text
//! survey     one hidden packet of every TTL: the number of hops, and the addresses of routers that answer
//! pairs      the capacity of the narrow link                              (wan 2.15, 2.16)
//! trains     groups whose hidden packets die at hop N, N - 1, ...         (wan 2.17, 2.18)
//! prefixes   the capacities of the links before it, if wanted            (wan 2.19)
//! tight      loads whose hidden packets die at some hop, if wanted: at which hop does the path have least to spare?
//! recheck    a short survey: is it still the same path?
//! ```
//!
//! # How it works
//!
//! [`Locator`] is a state machine like that of [`crate::measure`], for `headway path`. It composes the
//! estimators of pairs (`estimate/ppdd`) and of trains (`estimate/hire`), and adds what a path needs: the
//! number of hops, times between trains, a budget, and the rules by which it refuses. Its streams are
//! `TrainSchedule`s: packets without gaps between them, which `net` hands to the kernel in one `sendmmsg`
//! call, each with the TTL it needs as a control message. The announcement of a stream tells the receiver
//! which packets are hidden, so that they do not count as lost; hidden packets that arrive are reported apart
//! and show the number of hops. Routers' Time Exceeded messages are read from the socket's error queue, which
//! needs no privileges, and are believed only if they quote the session's random number. Servers send no
//! hidden packets. Trains to the server can be carried by ICMP Echo Replies instead of UDP
//! (`net::protocol::echo`): a raw socket takes the place of the UDP socket at both ends, and `net::envelope`
//! knows how the two differ.

mod answer;
mod phases;
pub(crate) mod spacing;
mod survey;
mod tight;

pub use answer::{Answer, Group, Node, Refused};
pub use survey::MOST_HOPS;
pub use tight::Tight;

use std::net::IpAddr;

use crate::constants::constants;
use crate::hire::{self, Location, NotMeasured, Rule, Search, Unlocated, prefix_capacity};
use crate::ppdd::{self, Bandwidth, Capacity, Dropped, Pairs};
use crate::stream::{Arrival, Refusal, StreamRecord, Train, TrainRecord, TrainSchedule};
use crate::{Bound, slcs};
use headway_units::{Bytes, Duration, Instant, Rate};

use spacing::Spacing;
use survey::{Addresses, Changed, Unknown};
use tight::TightSearch;

#[cfg(any(test, feature = "sensitivity"))]
pub(crate) use {survey::SURVEY, tight::TIGHT};

/// Streams in a row that may fail, because the sender was interrupted or a clock stepped, before it is given
/// up. A machine that is only busy sends one of this many well, and until then bytes and time are the limit.
/// Range: streams, from 1.
const FAILURES: u32 = 12;
/// A train is late if it left in more than this multiple of the usual time. Range: times, from 1.
const LATE: f64 = 2.0;
/// But not if the path stretched it by at least this factor. Range: factor, from 1.
const SPREAD: f64 = 2.0;
/// Prefixes whose capacities differ by less have the same narrow link. Range: share, 0 to 0.2.
const SAME: f64 = 0.03;

constants! {
    /// How pairs and trains are sent, and which are believed.
    LOCATE: LocateConstants {
        /// Mean time between pairs and trains (wan 2.15). Half: time -17 %. Double: time +29 %.
        mean_gap: Duration = Duration::from_ms(20), "time, 1 to 100 ms";
        /// The same in multiples of the time that the narrow link needs for one train, so that they do not
        /// queue behind each other. Half: time -8 %.
        mean_trains: f64 = 5.0, "times of a train, from 1.5";
        /// The smallest gap.
        least_trains: f64 = 1.5, "times of a train, from 1";
        /// Smallest time between the small packets of a survey.
        survey_least: Duration = Duration::from_ms(1), "time, 0 to 10 ms";
        /// Mean time between them.
        survey_mean: Duration = Duration::from_ms(4), "time, 1 to 40 ms";
        /// Pairs of the first stream, which sets the times between further ones.
        first_pairs: usize = 50, "pairs, from 10";
        /// The longest stream; a path that changes should not spoil more than this.
        stream_time: Duration = Duration::from_ms(8_000), "time, 1 to 30 s";
        /// What pairs may use of bytes and time. Half: error +3.3 points (tight first +7), right hops -7
        /// points, time -10 %.
        pairs_share: f64 = 0.35, "share, 0 to 1";
        /// Hidden packets per train (wan 2.17): enough for links up to six times as fast as the narrow one.
        hidden: u8 = 5, "packets, 1 to 30";
        /// Most trains per group.
        most_in_group: usize = 20, "trains, from 10";
        /// Standard deviation of the rates of pairs that left the narrow link back to back: hosts and routers
        /// delay packets by a few us.
        host_noise: f64 = 0.007, "share, 0 to 0.05";
        /// Pairs or trains below which rules about shares do not apply.
        few: usize = 10, "pairs or trains, from 1";
        /// Bytes that are kept for the tight link, if it is wanted. Double: error +100.0 points (fast +100),
        /// right hops -77 points, bytes -100 %, time -98 %.
        tight_bytes: f64 = 0.75, "share, 0 to 1";
        /// Time that is kept for it. Double: error +100.0 points (fast +100), right hops -77 points, bytes
        /// -100 %, time -98 %.
        tight_time: f64 = 0.5, "share, 0 to 1";
        /// Groups of trains that die before the narrow link are faster than its capacity by more than this on
        /// average. No group that crosses it is: such trains have at most its rate, and 2 to 4 % more where
        /// later links compress them. Half: right hops -33 points. Double: right hops -26 points.
        faster: f64 = 1.05, "factor, from 1";
    }
}

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Size of the packets of pairs and trains on the wire.
    pub packet: Bytes,
    /// Size of the packets of surveys on the wire.
    pub small: Bytes,
    /// Maximum number of bytes to send, on the wire.
    pub budget: Bytes,
    /// Maximum duration. A stream in progress is completed.
    pub time: Duration,
    /// How the step at the narrow link is recognised.
    pub rule: Rule,
    /// Whether to measure the capacities of all prefixes before the narrow link.
    pub all: bool,
    /// Whether to locate the tight link, too; three quarters of the bytes and half of the
    /// time are kept for it.
    pub tight: bool,
    /// Resolution and noise of timestamps.
    pub quantum: Duration,
    /// Maximum number of packets in a stream.
    pub most_packets: u32,
    /// Seed of the random times between trains.
    pub seed: u64,
}

/// The next action that a measurement requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send these trains and report them with [`Locator::observe`].
    Send {
        /// The trains.
        schedule: TrainSchedule,
        /// Whether to wait for routers' reports about hidden packets, too.
        replies: bool,
    },
    /// The measurement is over and its answer final.
    Done,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Counting hops.
    Survey,
    /// Measuring the capacity of the narrow link.
    Pairs,
    /// Sending trains whose hidden packets die at this hop.
    Trains(u8),
    /// Measuring the capacity of the links up to this hop.
    Prefix(u8),
    /// Locating the tight link.
    Tight,
    /// Counting hops again.
    Recheck,
    /// Nothing more.
    Done,
}

/// A measurement of one path.
#[derive(Clone, Debug)]
pub struct Locator {
    config: Config,
    started: Instant,
    phase: Phase,
    spacing: Spacing,
    surveys: u32,
    /// Streams other than surveys, and the unusable ones of them: all, those since the last usable one,
    /// and why the last was.
    streams: u32,
    unusable: u32,
    failures: u32,
    latest_refusal: Option<Refusal>,
    hops: u8,
    addresses: Addresses,
    /// All pairs as observed, and those that are usable.
    observed: Vec<TrainRecord>,
    pairs: Pairs,
    capacity: Option<Capacity>,
    search: Option<Search>,
    /// The trains seen by the search, to answer from fewer when bytes or time are used up.
    history: Vec<(u8, StreamRecord)>,
    /// Trains of each hop whose hidden packets arrived, and all trains, by hop.
    arrived: Vec<(usize, usize)>,
    location: Option<Location>,
    /// Trains of the prefix that is measured, and the results, by hop from the first.
    prefix: Option<Pairs>,
    prefixes: Vec<Option<Result<Rate, NotMeasured>>>,
    /// The search for the tight link, and its end.
    tight: Option<TightSearch>,
    tight_found: Option<Result<Tight, Refused>>,
    /// Why the narrow link is unknown, although the path can still be measured.
    unclear: Option<Refused>,
    refused: Option<Refused>,
    bytes: Bytes,
    trains: usize,
    /// Packets that were to arrive, and those that arrived twice.
    packets: usize,
    duplicates: usize,
    /// Pairs and trains of prefixes not used because the sender was interrupted.
    late: usize,
}

impl Locator {
    /// Starts a measurement at `now`, on any monotonic clock that later calls share.
    pub fn new(config: Config, now: Instant) -> Locator {
        Locator {
            config,
            started: now,
            phase: Phase::Survey,
            spacing: Spacing::new(config.seed),
            surveys: 0,
            streams: 0,
            unusable: 0,
            failures: 0,
            latest_refusal: None,
            hops: 0,
            addresses: Addresses::default(),
            observed: Vec::new(),
            pairs: Pairs::new(config.packet, pair_settings(config.quantum)),
            capacity: None,
            search: None,
            history: Vec::new(),
            arrived: Vec::new(),
            location: None,
            prefix: None,
            prefixes: Vec::new(),
            tight: None,
            tight_found: None,
            unclear: None,
            refused: None,
            bytes: Bytes::ZERO,
            trains: 0,
            packets: 0,
            duplicates: 0,
            late: 0,
        }
    }

    /// Returns what is being done.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the share of the work that is done, from 0 to 1, and the bytes sent so far.
    pub fn progress(&self, now: Instant) -> (f64, Bytes) {
        let bytes = self.bytes.get() as f64 / self.config.budget.get().max(1) as f64;
        let time = (now - self.started).secs_f64() / self.config.time.secs_f64().max(1e-9);
        let share = if self.phase == Phase::Done { 1.0 } else { bytes.max(time).min(0.99) };
        (share, self.bytes)
    }

    /// Returns the pairs that the capacity is computed from.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// Returns the next trains to send, or that the measurement is over.
    pub fn next_step(&mut self, now: Instant) -> Step {
        loop {
            let schedule = match self.phase {
                Phase::Survey | Phase::Recheck => Some(self.survey()),
                Phase::Pairs => self.more_pairs(now),
                Phase::Trains(_) => self.more_trains(now),
                Phase::Prefix(hop) => self.more_of_prefix(hop, now),
                Phase::Tight => self.more_loads(now),
                Phase::Done => return Step::Done,
            };
            if self.refused.is_some() {
                self.phase = Phase::Done;
            } else if let Some(schedule) = schedule {
                let replies = matches!(self.phase, Phase::Survey | Phase::Recheck);
                self.bytes += schedule.bytes();
                return Step::Send { schedule, replies };
            }
        }
    }

    /// Records how many packets of the last step's trains arrived twice; to be called before
    /// [`Locator::observe`].
    pub fn observe_duplicates(&mut self, count: usize) {
        self.duplicates += count;
    }

    /// Records the fate of the trains of the last step: what both ends saw of them, the addresses of the
    /// nodes at which hidden packets died, and the reason if the sender or a clock made the stream unusable.
    pub fn observe(&mut self, trains: &[TrainRecord], replies: &[(u8, IpAddr)], refusal: Option<Refusal>) {
        self.packets += 2 * trains.len();
        let (hops, addresses) = (self.hops, Addresses::of_replies(replies));
        let changed =
            if self.phase == Phase::Recheck { self.addresses.changed(&addresses, hops) } else { None };
        self.addresses.extend(addresses);
        if !matches!(self.phase, Phase::Survey | Phase::Recheck) {
            self.streams += 1;
            if let Some(refusal) = refusal {
                self.unusable += 1;
                self.failures += 1;
                self.latest_refusal = Some(refusal);
                if self.failures >= FAILURES {
                    self.give_up(Refused::Stream(refusal));
                }
                return;
            }
            self.failures = 0;
        }
        match self.phase {
            Phase::Survey => self.count_hops(trains),
            Phase::Recheck => self.compare_hops(trains, changed),
            Phase::Pairs => self.add_pairs(trains),
            Phase::Trains(hop) => self.observe_group(hop, trains),
            Phase::Prefix(hop) => {
                self.note_arrivals(hop, trains);
                if let Some(prefix) = &mut self.prefix {
                    self.late += add(prefix, trains);
                }
            }
            Phase::Tight => self.observe_loads(trains),
            Phase::Done => {}
        }
        if matches!(self.phase, Phase::Pairs | Phase::Trains(_)) {
            self.trains += trains.len();
        }
    }

    /// Returns the answer, final once [`Locator::next_step`] has returned [`Step::Done`].
    pub fn answer(&self) -> Answer {
        let nodes = (1..=self.hops).map(|hop| Node {
            hop,
            addresses: self.addresses.of(hop),
            prefix: self.prefixes.get(usize::from(hop) - 1).copied().flatten(),
        });
        let refused = || self.refused.clone().or_else(|| self.unclear.clone());
        let narrow = match (refused(), self.location) {
            (Some(refused), _) => Err(refused),
            (None, Some(location)) => Ok(location),
            (None, None) => Err(Refused::Unfinished),
        };
        let tight = match (&self.refused, &self.tight_found) {
            (Some(refused), _) => Err(refused.clone()),
            (None, Some(found)) => found.clone(),
            (None, None) => Err(Refused::Unfinished),
        };
        Answer {
            nodes: nodes.collect(),
            capacity: self.capacity,
            narrow,
            tight: self.config.tight.then_some(tight),
            groups: self.groups().filter_map(|(hop, trains)| group(hop, trains)).collect(),
            slcs: self.slcs(),
            bytes: self.bytes,
            trains: self.trains,
            dropped: self.dropped(),
            duplicates: self.duplicates,
        }
    }

    /// Returns the number of pairs and trains not used, by reason.
    fn dropped(&self) -> Dropped {
        let mut dropped = self.pairs.dropped();
        for trains in self.groups().map(|(_, trains)| trains.dropped()) {
            dropped.lost += trains.lost;
            dropped.reordered += trains.reordered;
            dropped.duplicated += trains.duplicated;
            dropped.late += trains.late;
        }
        dropped.late += self.late;
        dropped
    }

    /// Iterates over the groups of the search, from the receiver towards the sender.
    fn groups(&self) -> impl Iterator<Item = (u8, &Pairs)> {
        let search = self.search.iter();
        search.flat_map(|search| (1..=self.hops).rev().map(|hop| (hop, search.group(u32::from(hop)))))
    }

    /// Returns the links that are the narrow link of some prefix, if all prefixes were wanted.
    fn slcs(&self) -> Vec<slcs::Member> {
        let (Some(location), Some(capacity)) = (self.location, self.capacity) else { return Vec::new() };
        let before = self.prefixes.iter().take(location.hop as usize - 1);
        let mut measured: Vec<Option<Rate>> = before.map(|prefix| (*prefix)?.ok()).collect();
        if measured.len() + 1 < location.hop as usize || measured.contains(&None) {
            return Vec::new();
        }
        measured.push(Some(capacity.rate));
        slcs::of_prefixes(&measured, SAME)
    }

    /// Returns the bytes and the time that the current phase and those before it may use together.
    fn allowed(&self) -> (Bytes, Duration) {
        let Config { budget, time, .. } = self.config;
        if self.config.tight && self.phase != Phase::Tight {
            let bytes = (budget.get() as f64 * (1.0 - LOCATE.tight_bytes)) as u64;
            (Bytes::new(bytes), time.scale(1.0 - LOCATE.tight_time))
        } else {
            (budget, time)
        }
    }

    fn time_left(&self, now: Instant) -> Duration {
        self.allowed().1 - (now - self.started)
    }

    /// Returns the bytes that may still be sent before the second survey.
    fn bytes_left(&self) -> u64 {
        let survey = self.config.small * survey::packets();
        self.allowed().0.get().saturating_sub((self.bytes + survey).get())
    }

    /// Returns the size on the wire of one train.
    fn train_bytes(&self, hidden: u8) -> u64 {
        self.config.packet.get() * Train { hidden, hops: 1 }.packets() as u64
    }

    /// Returns the time that the narrow link needs for a train.
    fn train_time(&self, hidden: u8) -> Duration {
        let packets = Train { hidden, hops: 1 }.packets() as i64;
        self.capacity.map_or(Duration::ZERO, |capacity| capacity.rate.time_for(self.config.packet) * packets)
    }

    /// Returns a schedule of up to `wanted` equal trains, as many as bytes, time and the server allow; `None`
    /// if not even a few fit.
    fn equal_trains(&mut self, train: Train, wanted: usize, limits: Limits) -> Option<TrainSchedule> {
        let mean = limits.mean.max(Duration::from_us(1));
        let in_time = limits.time.min(LOCATE.stream_time).ns().max(0) / mean.ns();
        let count = wanted
            .min((limits.bytes / self.train_bytes(train.hidden)) as usize)
            .min(in_time as usize)
            .min(self.config.most_packets as usize / train.packets());
        (count >= LOCATE.few.min(wanted)).then(|| {
            let packet = self.config.packet;
            self.spacing.schedule(packet, vec![train; count], limits.least, limits.mean)
        })
    }
}

/// What a stream may cost, and the times between its trains.
#[derive(Clone, Copy, Debug)]
struct Limits {
    bytes: u64,
    time: Duration,
    least: Duration,
    mean: Duration,
}

/// Returns the parameters of the capacity of the path for stamps that are off by `quantum`.
pub fn pair_settings(quantum: Duration) -> ppdd::Settings {
    ppdd::Settings {
        quantum,
        bandwidth: Bandwidth::Relative(LOCATE.host_noise),
        ..ppdd::Settings::lowest_delays()
    }
}

/// Adds trains, except those that the sender was interrupted in, and returns the number of these.
///
/// Such a train left much more slowly than the others, and in so much time that the path did not spread it.
fn add(pairs: &mut Pairs, trains: &[TrainRecord]) -> usize {
    let mut gaps: Vec<Duration> = trains.iter().map(TrainRecord::sent_gap).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(Duration::ZERO);
    let mut late = 0;
    for (train, ends) in trains.iter().zip(record(trains, pairs.packet()).arrivals.chunks_exact(2)) {
        let gap = train.sent_gap();
        let spread = train.arrivals().is_none_or(|[first, last]| gap.scale(SPREAD) <= last - first);
        if gap > usual.scale(LATE) && !spread {
            late += 1;
        } else {
            // A fault is counted; there are other pairs.
            let _ = pairs.push(&ends[0], &ends[1]);
        }
    }
    late
}

/// Returns the first and last packets of trains as the record that estimators read.
fn record(trains: &[TrainRecord], packet: Bytes) -> StreamRecord {
    let mut arrivals = Vec::with_capacity(2 * trains.len());
    for (number, train) in trains.iter().enumerate() {
        let packets = train.train.packets();
        for (end, position) in [0, packets - 1].into_iter().enumerate() {
            arrivals.push(Arrival {
                index: (number * packets + position) as u32,
                size: packet,
                sent: train.sent[end],
                received: train.received[end],
            });
        }
    }
    StreamRecord { id: 0, packet, average: Rate::ZERO, intended: Vec::new(), arrivals }
}

/// Returns the mean rate of a group of trains; `None` if it has none.
fn group(hop: u8, trains: &Pairs) -> Option<Group> {
    let bits = trains.packet().get() as f64 * 8e9 * (f64::from(trains.hidden()) + 1.0);
    let rates: Vec<f64> = trains.triplets().iter().map(|train| bits / train.dispersion.ns() as f64).collect();
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let deviation = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt();
    let (rate, deviation) = (Rate::from_bps_f64(mean), Rate::from_bps_f64(deviation));
    (!rates.is_empty()).then_some(Group { hop, trains: rates.len(), rate, deviation })
}

#[cfg(test)]
mod tests;
