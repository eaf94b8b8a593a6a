//! The order in which trains are sent until the narrow link is located.

use super::decision::{Decision, Location, Rule, Unlocated, confidence, decide, mean_rate};
use crate::ppdd::{self, Pairs};
use crate::stream::{Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Rate};

/// Minimum number of usable trains in a group.
const LEAST_TRAINS: usize = 5;
/// The number of times that a group is asked for before it is given up: routers may lose
/// or limit some trains.
const ATTEMPTS: u32 = 3;
/// The path must spread trains by at least this factor.
const SPREAD: f64 = 1.05;

/// The parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The number of hops to the receiver, N.
    pub last_hop: u32,
    /// Trains per group, N_t.
    pub trains: usize,
    /// Maximum number of trains per group when the answer is not sure yet.
    pub most_trains: usize,
    /// Hidden packets per train, H.
    pub hidden: u32,
    /// How a step is recognised.
    pub rule: Rule,
    /// Answers less likely than this ask for more trains, and in the end are refused.
    pub sure: f64,
    /// Resolution of the timestamps.
    pub quantum: Duration,
}

impl Settings {
    /// The parameters of the thesis with the rule by steps between neighbouring groups, for a path
    /// of `last_hop` links.
    pub fn for_hops(last_hop: u32) -> Settings {
        Settings {
            last_hop: last_hop.max(1),
            trains: 20,
            most_trains: 60,
            hidden: 5,
            rule: Rule::Step(0.2),
            sure: 0.95,
            quantum: ppdd::Settings::default().quantum,
        }
    }
}

/// What a search wants next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send this many trains whose hidden packets expire at hop `ttl`, then call [`Search::observe`].
    Send {
        /// The TTL or hop limit of hidden packets.
        ttl: u32,
        /// The number of trains.
        trains: usize,
    },
    /// The search is over.
    Done(Result<Location, Unlocated>),
}

/// A search for the narrow link, without I/O.
#[derive(Clone, Debug)]
pub struct Search {
    settings: Settings,
    packet: Bytes,
    narrow: Rate,
    /// One for each hop from the last one down.
    groups: Vec<Pairs>,
    attempts: Vec<u32>,
}

impl Search {
    /// Starts a search with packets of this size for a narrow link of this capacity, in the same bytes.
    pub fn new(packet: Bytes, narrow: Rate, settings: Settings) -> Search {
        let filter = ppdd::Settings { quantum: settings.quantum, ..ppdd::Settings::default() };
        let groups = vec![Pairs::of_trains(packet, settings.hidden, filter); settings.last_hop as usize];
        Search { attempts: vec![0; groups.len()], settings, packet, narrow, groups }
    }

    /// Returns the schedule of one train: its first and last packet are as far apart as the
    /// narrow link spreads them.
    pub fn train(&self) -> Schedule {
        train(self.packet, self.narrow, self.settings.hidden)
    }

    /// Returns the group of trains that expire at hop `ttl`, counted from 1.
    pub(crate) fn group(&self, ttl: u32) -> &Pairs {
        &self.groups[self.index(ttl)]
    }

    /// Adds trains, one after the other in a record, of which hidden packets had this TTL.
    pub fn observe(&mut self, ttl: u32, record: &StreamRecord) {
        let index = self.index(ttl);
        self.groups[index].add_stream(record);
        self.attempts[index] += 1;
    }

    /// Returns what to send next, or the answer.
    pub fn next_step(&self) -> Step {
        match self.outcome() {
            Ok(Ok(location)) => Step::Done(Ok(location)),
            Ok(Err(unlocated)) => Step::Done(Err(unlocated)),
            Err((ttl, trains)) => Step::Send { ttl, trains },
        }
    }

    /// Returns the answer, or else the group that is needed and how many trains of it.
    fn outcome(&self) -> Result<Result<Location, Unlocated>, (u32, usize)> {
        let mut measured = 0;
        let location = loop {
            let rates: Vec<f64> = self.groups[..measured].iter().map(mean_rate).collect();
            let ttl = match decide(&rates, self.settings.last_hop, self.settings.rule) {
                Decision::Needs(ttl) => ttl,
                Decision::Hop(hop) => break self.location(hop, measured),
            };
            let group = self.group(ttl);
            let missing = self.settings.trains.saturating_sub(group.len());
            let enough = group.len() >= LEAST_TRAINS.max(self.settings.trains / 2);
            if missing > 0 && !enough {
                if self.attempts[self.index(ttl)] >= ATTEMPTS {
                    return Ok(Err(Unlocated::TooFewTrains { ttl, usable: group.len() }));
                }
                return Err((ttl, missing));
            }
            measured += 1;
        };
        if self.groups[..measured].iter().all(sender_too_slow) {
            return Ok(Err(Unlocated::SenderTooSlow));
        }
        if location.confidence >= self.settings.sure {
            return Ok(Ok(location));
        }
        let Location { hop, confidence } = location;
        let smallest = (0..measured).min_by_key(|index| self.groups[*index].len()).unwrap_or(0);
        let ttl = self.settings.last_hop - smallest as u32;
        let most = self.settings.most_trains.div_ceil(self.settings.trains.max(1)) as u32;
        let more = self.groups[smallest].len() + self.settings.trains / 2 <= self.settings.most_trains;
        if more && self.attempts[smallest] < most + ATTEMPTS {
            return Err((ttl, self.settings.trains));
        }
        Ok(Err(Unlocated::Unsure { hop, confidence }))
    }

    fn location(&self, hop: u32, measured: usize) -> Location {
        Location { hop, confidence: confidence(&self.groups[..measured], &self.settings, hop) }
    }

    fn index(&self, ttl: u32) -> usize {
        (self.settings.last_hop - ttl.clamp(1, self.settings.last_hop)) as usize
    }
}

/// Returns the schedule of one train of which first and last packet leave at `rate`: the time between them is
/// that of one packet at this rate.
pub fn train(packet: Bytes, rate: Rate, hidden: u32) -> Schedule {
    let gaps = hidden as usize + 1;
    let time = rate.time_for(packet);
    let gap = |index: i64| time * (index + 1) / gaps as i64 - time * index / gaps as i64;
    let average = Rate::of(packet * gaps as u64, time).unwrap_or(rate);
    Schedule { packet, gaps: (0..gaps as i64).map(gap).collect(), average }
}

/// Returns whether most trains arrived as far apart as they were sent.
fn sender_too_slow(trains: &Pairs) -> bool {
    let spread = trains.triplets().iter().filter(|train| train.dispersion > train.gap.scale(SPREAD)).count();
    spread * 2 < trains.len()
}
