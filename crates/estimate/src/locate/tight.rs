//! The search for the tight link: the rate that overloads it, and then the first hop at which load does so.
//!
//! A *load* is a stream of trains of which most packets are hidden. Its first packets, which all arrive, show
//! whether delays grow. Loads whose hidden packets arrive, too, tell the rate. It should be about 1.5 times
//! what is free on the tight link: other links then have room for it. At this rate, the first hop up to which
//! hidden packets must travel for delays to grow is the tight link.

use std::iter::repeat_n;

use super::spacing::Spacing;
use super::{LOCATE, Phase, Refused};
use crate::constants::constants;
use crate::stream::{Arrival, StreamRecord, Train, TrainRecord, TrainSchedule};
use crate::tight::{Loaded, NotLocated, TightLink, growth, locate, midmean};
use headway_units::{Bytes, Duration, Instant, Rate};

/// What the time that trains of a load took to leave may differ from that intended by. Range: share, 0 to
/// 0.5.
const PACE_ERROR: f64 = 0.1;
/// Two trains belong to different loads if they left farther apart than this. Range: gaps between
/// trains, from 2.
const APART: f64 = 6.0;
/// How often the rate may then be changed. Range: times, from 0.
const CORRECTIONS: u32 = 2;

constants! {
    /// How loads are sent, and which are believed.
    TIGHT: TightConstants {
        /// Hidden packets per train: a quarter of the packets survive, which the links beyond must carry.
        /// Half: bytes -18 %, time -7 %. Double: bytes +26 %, time +7 %.
        hidden: u8 = 6, "packets, 1 to 30";
        /// Trains per load. The longer a load, the more do delays grow beside the noise of cross traffic, and
        /// the more bytes does it take. Half: right hops -42 points, bytes +74 %, time +36 %. Double: bytes
        /// +40 %, time +10 %.
        trains: usize = 16, "trains, from 8";
        /// Trains of a load that must be usable. Double: right hops -42 points, bytes +73 %, time +29 %.
        least_trains: usize = 12, "trains, 4 to 16";
        /// Loads at one rate while the rate is sought, and for each hop at first. Double: bytes +12 %, time
        /// +7 %.
        at_a_time: usize = 3, "loads, from 1";
        /// Fewest loads of each hop next to the answer, and with load on all links, before an answer. Half:
        /// bytes -16 %, time -7 %. Double: right hops -5 points, bytes +42 %, time +13 %.
        fewest: usize = 5, "loads, from 2";
        /// Most such loads. Half: right hops -2 points, bytes -7 %, time -5 %.
        most: usize = 15, "loads, from 5";
        /// The rate of loads. The more, the clearer do delays grow, and the more often other links are
        /// overloaded, too. Half: right hops -42 points, bytes -7 %, time +13 %. Double: right hops -13
        /// points, time -17 %.
        above: f64 = 1.5, "times what is free on the tight link, from 1.1";
        /// The rate is suitable if it differs from that by up to this. Half: right hops -7 points, bytes +34
        /// %, time +11 %.
        suitable: f64 = 1.15, "factor, from 1";
        /// It stays so if more loads have shown that it differs by up to this. Double: right hops +2 points.
        still_suitable: f64 = 1.25, "factor, from 1";
        /// Loads on all links after which the rate is checked again. Double: right hops +2 points.
        checked: usize = 7, "loads, from 1";
        /// Most rates tried.
        rates: usize = 7, "rates, from 1";
        /// The first rate. Half: right hops -6 points, bytes +16 %, time +11 %. Double: bytes +8 %.
        first: f64 = 0.7, "times the capacity, 0 to 1";
        /// The lowest rate.
        lowest: f64 = 0.03, "times the capacity, 0 to 0.2";
        /// The largest step down and the largest step up from rate to rate. Half: right hops -33 points, time
        /// +16 %.
        steps: [f64; 2] = [1.0 / 3.0, 1.6], "factors, 0 to 3";
        /// Delays that grow by less than this per time may do so by chance.
        least_growth: f64 = 0.04, "seconds per second, 0 to 0.2";
        /// Capacities of the tight link that are considered.
        capacities: [f64; 6] = [1.0, 1.4, 2.0, 2.8, 4.0, 5.6], "times the capacity of the narrow link, from 1";
        /// The likeliest one. Double: bytes +7 %.
        likely: f64 = 1.4, "times the capacity of the narrow link, from 1";
        /// How much less likely others are.
        unlikely: f64 = 0.1, "on the scale of squared errors, from 0";
        /// Error of the growth in one load.
        growth_error: f64 = 0.04, "seconds per second, from 0";
        /// The share of the growth that adds to it.
        growth_error_share: f64 = 0.3, "share, from 0";
        /// Answers with less confidence ask for more loads, and in the end are refused. Half: right hops +5
        /// points, bytes -16 %, time -14 %. Double: right hops -42 points, bytes +63 %, time +19 %.
        sure: f64 = 0.95, "confidence, 0.5 to 1";
        /// The smallest time between two loads: queues must become empty.
        rest_least: f64 = 1.0, "times of a load, from 0";
        /// The mean time between two loads. Half: time -10 %. Double: time +11 %.
        rest_mean: f64 = 2.0, "times of a load, from 1";
    }
}

/// The tight link of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tight {
    /// Its position, counted from 1 at the sender.
    pub hop: u32,
    /// The share of resampled sets of loads that say the same.
    pub confidence: f64,
    /// The rate of the loads that overloaded it, but not more than the capacity of the narrow link: less is
    /// free, in the bytes on the wire.
    pub rate: Rate,
}

/// What the search wants next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// One load for each entry, whose hidden packets die at this hop.
    Loads(Vec<u8>),
    /// The search is over.
    Done(Result<Tight, Refused>),
}

/// A rate, and what loads at it showed that had all links to cross.
#[derive(Clone, Copy, Debug)]
struct Tried {
    rate: Rate,
    /// Growth of delays per time.
    growth: f64,
    /// Number of loads.
    loads: usize,
}

/// A search for the tight link.
#[derive(Clone, Debug, Default)]
pub(super) struct TightSearch {
    packet: Bytes,
    capacity: Rate,
    rate: Rate,
    /// The rates tried before this one.
    tried: Vec<Tried>,
    /// Whether the rate is found, and how often it was corrected since.
    settled: bool,
    corrections: u32,
    /// Growths at the rate by hop, counted from 0.
    growths: Vec<Vec<f64>>,
    /// Steps in a row without a usable load because packets were lost.
    failures: usize,
    /// Loads that were usable, and those that were not sent at their rate.
    usable: usize,
    uneven: usize,
}

/// Why the growth of delays during a load is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusable {
    /// This host did not send it at its rate.
    Uneven,
    /// Too few of its packets arrived.
    Lost,
}

impl TightSearch {
    /// Starts a search on a path of `hops` links, of which the narrowest has this capacity.
    pub(super) fn new(packet: Bytes, capacity: Rate, hops: u8) -> TightSearch {
        TightSearch {
            packet,
            capacity,
            rate: capacity.scale(TIGHT.first),
            growths: vec![Vec::new(); usize::from(hops)],
            ..TightSearch::default()
        }
    }

    /// Returns the time from a train to the next one of its load.
    fn gap(&self) -> Duration {
        self.rate.time_for(self.packet * train(0).packets() as u64)
    }

    /// Returns loads whose hidden packets die at these hops, one after the other.
    pub(super) fn schedule(&self, hops: &[u8], spacing: &mut Spacing) -> TrainSchedule {
        let mut trains = Vec::with_capacity(hops.len() * TIGHT.trains);
        let mut gaps = Vec::with_capacity(hops.len() * TIGHT.trains);
        for hops in hops {
            trains.extend(repeat_n(train(*hops), TIGHT.trains));
            gaps.extend(repeat_n(self.gap(), TIGHT.trains - 1));
            let time = self.load_time();
            gaps.push(spacing.gap(time.scale(TIGHT.rest_least), time.scale(TIGHT.rest_mean)));
        }
        gaps.pop();
        TrainSchedule { packet: self.packet, trains, gaps }
    }

    /// Returns the number of packets of one load.
    pub(super) fn load_packets() -> u64 {
        (train(0).packets() * TIGHT.trains) as u64
    }

    /// Returns the bytes of one load on the wire.
    pub(super) fn load_bytes(&self) -> Bytes {
        self.packet * TightSearch::load_packets()
    }

    /// Returns the time from the first train of a load to the last one.
    pub(super) fn load_time(&self) -> Duration {
        self.gap() * (TIGHT.trains as i64 - 1)
    }

    /// Adds the loads of a step.
    pub(super) fn observe(&mut self, trains: &[TrainRecord]) {
        let apart = self.gap().scale(APART);
        let together = |a: &TrainRecord, b: &TrainRecord| {
            a.train == b.train && (Duration::ZERO..apart).contains(&(b.sent[0] - a.sent[0]))
        };
        let (mut usable, mut lost) = (0, false);
        for load in trains.chunk_by(together) {
            match self.growth(load) {
                Ok(growth) => {
                    if let Some(growths) = self.growths.get_mut(usize::from(load[0].train.hops) - 1) {
                        growths.push(growth);
                        usable += 1;
                    }
                }
                Err(Unusable::Lost) => lost = true,
                Err(Unusable::Uneven) => self.uneven += 1,
            }
        }
        self.usable += usable;
        if usable > 0 {
            self.failures = 0;
            self.judge_rate();
        } else if lost {
            // A busy host may send the next one evenly; a path that loses this much goes on doing so.
            self.failures += 1;
        }
    }

    /// Returns how fast delays grew during a load, or why that is unknown.
    fn growth(&self, load: &[TrainRecord]) -> Result<f64, Unusable> {
        let (Some(first), Some(last)) = (load.first(), load.last()) else { return Err(Unusable::Lost) };
        let expected = self.gap() * (load.len() as i64 - 1);
        let pace = (last.sent[0] - first.sent[0]).ns() as f64 / expected.ns().max(1) as f64;
        if load.len() < TIGHT.least_trains || (pace - 1.0).abs() > PACE_ERROR {
            return Err(Unusable::Uneven);
        }
        let arrivals: Vec<Arrival> = (0..)
            .zip(load)
            .map(|(index, train)| Arrival {
                index,
                size: self.packet,
                sent: train.sent[0],
                received: train.received[0],
            })
            .collect();
        let arrived = arrivals.iter().filter(|arrival| arrival.received.is_some()).count();
        let record =
            StreamRecord { id: 0, packet: self.packet, average: self.rate, intended: Vec::new(), arrivals };
        if arrived < TIGHT.least_trains { Err(Unusable::Lost) } else { growth(&record).ok_or(Unusable::Lost) }
    }

    /// Decides whether the rate is suitable, and chooses another one if not.
    fn judge_rate(&mut self) {
        let now = self.now();
        let ratio = self.rate.bps_f64() / (TIGHT.above * self.free());
        let within = |factor: f64| (1.0 / factor..=factor).contains(&ratio);
        if self.settled {
            let checked = now.loads < TIGHT.checked || within(TIGHT.still_suitable);
            if checked || self.corrections >= CORRECTIONS {
                return;
            }
            self.corrections += 1;
        } else if now.loads < TIGHT.at_a_time {
            return;
        }
        self.settled =
            within(TIGHT.suitable) && now.growth >= TIGHT.least_growth || self.tried.len() + 1 >= TIGHT.rates;
        if !self.settled {
            let step = (1.0 / ratio).clamp(TIGHT.steps[0], TIGHT.steps[1]);
            self.tried.push(now);
            self.growths.iter_mut().for_each(Vec::clear);
            self.rate = self.rate.scale(step).max(self.capacity.scale(TIGHT.lowest));
        }
    }

    /// Returns what loads at the current rate show.
    fn now(&self) -> Tried {
        let growths = self.growths.last().cloned().unwrap_or_default();
        Tried { rate: self.rate, loads: growths.len(), growth: midmean(growths) }
    }

    /// Returns what seems to be free on the tight link, in bits per second: the rate from
    /// which on delays grow.
    ///
    /// Beyond it, they grow by the excess over it divided by the capacity of the tight link, which is at
    /// least that of the narrow link. Both are chosen so that they fit the rates tried best; strong growth
    /// may come from several links, so it need not fit as well.
    fn free(&self) -> f64 {
        let narrow = self.capacity.bps_f64();
        let mut points = self.tried.clone();
        points.extend([self.now()].into_iter().filter(|now| now.loads > 0));
        let (mut least, mut best) = (f64::INFINITY, 1.0);
        for capacity in TIGHT.capacities {
            // In steps of 5 % from 3 % to 140 % of the narrow link's capacity.
            for free in (0..80).map(|step| TIGHT.lowest * 1.05f64.powi(step)) {
                let misfit = |point: &Tried| {
                    let expected = ((point.rate.bps_f64() / narrow - free) / capacity).max(0.0);
                    let scale = TIGHT.growth_error + TIGHT.growth_error_share * point.growth.max(0.0);
                    point.loads as f64 * ((point.growth - expected) / scale).powi(2)
                };
                let unlikely = TIGHT.unlikely * (capacity / TIGHT.likely).ln().powi(2);
                let sum = points.iter().map(misfit).sum::<f64>() + unlikely;
                if sum < least {
                    (least, best) = (sum, free);
                }
            }
        }
        best * narrow
    }

    /// Returns what to send next, or the answer.
    pub(super) fn wanted(&self) -> Wanted {
        let last = self.growths.len() as u8;
        if self.failures >= TIGHT.at_a_time {
            return Wanted::Done(Err(Refused::LoadsUnusable));
        }
        if !self.settled {
            return Wanted::Loads(vec![last; TIGHT.at_a_time]);
        }
        let found = match self.locate() {
            Ok(found) => found,
            Err(reason) => return Wanted::Done(Err(Refused::TightUnlocated(reason))),
        };
        let measured = |hop: u8| self.growths.get(usize::from(hop) - 1).map_or(0, Vec::len);
        let hop = found.hop as u8;
        let before = (1..hop).rev().find(|hop| measured(*hop) > 0).unwrap_or(0);
        if hop - before > 1 {
            return Wanted::Loads(vec![before + (hop - before) / 2; TIGHT.at_a_time]);
        }
        let mut deciding = vec![before, hop, last];
        deciding.retain(|hop| *hop > 0);
        deciding.dedup();
        let fewest = deciding.iter().map(|hop| measured(*hop)).min().unwrap_or(0);
        if fewest >= TIGHT.fewest && found.confidence >= TIGHT.sure {
            let TightLink { hop, confidence } = found;
            // What is free on the tight link is free on the path, and no path has more than its
            // narrow link carries.
            return Wanted::Done(Ok(Tight { hop, confidence, rate: self.rate.min(self.capacity) }));
        }
        if fewest >= TIGHT.most {
            return Wanted::Done(Err(self.unsure()));
        }
        // One after the other, so that a change of cross traffic affects all alike.
        deciding.retain(|hop| measured(*hop) <= fewest + 1);
        Wanted::Loads(deciding.repeat(2))
    }

    /// Returns the reason for ending now.
    pub(super) fn unsure(&self) -> Refused {
        match self.locate() {
            _ if self.uneven > self.usable => Refused::LoadsUnusable,
            Ok(TightLink { hop, confidence }) if self.settled => Refused::TightUnsure { hop, confidence },
            _ => Refused::Spent("what the tight link may cost", "--budget and --duration"),
        }
    }

    fn locate(&self) -> Result<TightLink, NotLocated> {
        let group = |(ttl, growths): (u32, &Vec<f64>)| Loaded { ttl, growths: growths.clone() };
        locate(&(1..).zip(&self.growths).map(group).collect::<Vec<_>>())
    }
}

/// A train of a load, without its hops.
fn train(hops: u8) -> Train {
    Train { hidden: TIGHT.hidden, hops }
}

impl super::Locator {
    /// Goes on with the tight link if it is wanted, otherwise with the last survey.
    pub(super) fn begin_tight(&mut self) {
        self.phase = Phase::Recheck;
        if let (true, Some(capacity)) = (self.config.tight, self.capacity) {
            self.tight = Some(TightSearch::new(self.config.packet, capacity.rate, self.hops));
            self.phase = Phase::Tight;
            self.failures = 0;
        }
    }

    /// Returns the loads that the search for the tight link asks for, as many as bytes and
    /// time allow, or ends it.
    pub(super) fn more_loads(&mut self, now: Instant) -> Option<TrainSchedule> {
        let search = self.tight.as_ref()?;
        let found = match search.wanted() {
            Wanted::Done(found) => found,
            Wanted::Loads(hops) => {
                let time = search.load_time().scale(1.0 + TIGHT.rest_mean).ns().max(1);
                let in_time = self.time_left(now).min(LOCATE.stream_time).ns().max(0) / time;
                let in_bytes = self.bytes_left() / search.load_bytes().get();
                let in_stream = u64::from(self.config.most_packets) / TightSearch::load_packets();
                let count = in_bytes.min(in_stream).min(in_time as u64) as usize;
                if count > 0 {
                    let hops = &hops[..hops.len().min(count)];
                    return Some(search.schedule(hops, &mut self.spacing));
                }
                Err(search.unsure())
            }
        };
        self.tight_found = Some(found.map_err(|reason| self.cause(reason)));
        self.phase = Phase::Recheck;
        None
    }

    /// Adds loads to the search for the tight link.
    pub(super) fn observe_loads(&mut self, trains: &[TrainRecord]) {
        for same in trains.chunk_by(|a, b| a.train.hops == b.train.hops) {
            self.note_arrivals(same[0].train.hops, same);
        }
        if let Some(search) = &mut self.tight {
            search.observe(trains);
        }
    }
}
