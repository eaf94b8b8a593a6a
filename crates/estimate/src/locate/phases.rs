//! The phases of a measurement: what each sends, and how it ends.

use headway_units::statistics::upper_median;

use super::*;

/// Surveys before the number of hops counts as unknown. Range: surveys, from 1.
const SURVEYS: u32 = 2;
/// A search that ends without an answer blames this host if it spoiled at least this share of the streams, or
/// of the pairs and trains. Range: share, 0 to 1.
const TO_BLAME: f64 = 0.25;
/// Fewest trains per group; long paths have smaller groups. Range: trains, from 3.
const FEWEST_IN_GROUP: usize = 10;
/// Hosts and routers may delay packets of prefixes by this share of the usual time between the arrivals of a
/// pair, by which delays that count as equal may differ. Fewer trains would pass the filter otherwise, and
/// these by chance. Range: share, 0 to 0.2.
const TOLERANCE: f64 = 0.04;
/// Hidden packets may arrive against expectation in this share of trains before the path counts as changed.
/// Range: share, 0 to 1.
const STRAYS: f64 = 0.2;
/// More pairs and trains lost than this is refused. Range: share, 0 to 1.
const MOST_LOST: f64 = 0.4;
/// The same for pairs too close together. Range: share, 0 to 1.
const MOST_GROUPED: f64 = 0.3;
/// The same for pairs in the wrong order: where this many are, the gaps of the others mean little, too. Unit
/// share, range 0 to 1.
const MOST_REORDERED: f64 = 0.1;
/// The same for packets that arrived twice: each spreads the pair or train that it is part of. Range: share,
/// 0 to 1.
const MOST_DUPLICATED: f64 = 0.2;
/// Trains per prefix when all capacities are wanted (wan 2.19). Range: trains, from 100.
const PREFIX_TRAINS: usize = 1000;

impl Locator {
    /// Returns a survey.
    pub(super) fn survey(&mut self) -> TrainSchedule {
        self.spacing.schedule(self.config.small, survey::trains(), LOCATE.survey_least, LOCATE.survey_mean)
    }

    /// Counts the hops by a survey; asks for another one if they are unclear.
    pub(super) fn count_hops(&mut self, trains: &[TrainRecord]) {
        self.surveys += 1;
        match survey::hop_count(trains) {
            Ok(hops) => {
                self.hops = hops;
                self.arrived = vec![(0, 0); usize::from(hops)];
                self.prefixes = vec![None; usize::from(hops)];
                self.phase = Phase::Pairs;
            }
            Err(_) if self.surveys < SURVEYS => {}
            Err(Unknown::NoneArrived) => self.refused = Some(Refused::NoneArrived),
            Err(Unknown::Unclear) => self.refused = Some(Refused::HopsUnclear),
        }
    }

    /// Compares the hops at the end with those at the beginning; `changed` is one that has another address.
    pub(super) fn compare_hops(&mut self, trains: &[TrainRecord], changed: Option<Changed>) {
        self.phase = Phase::Done;
        let other_node =
            changed.map(|Changed { hop, before, after }| Refused::NodeChanged { hop, before, after });
        self.refused = match survey::hop_count(trains) {
            Ok(after) if after != self.hops => Some(Refused::PathChanged { before: self.hops, after }),
            _ => other_node.or_else(|| self.duplicated()),
        };
    }

    /// Returns a refusal if many packets arrived twice.
    fn duplicated(&self) -> Option<Refused> {
        let (duplicates, packets) = (self.duplicates, self.packets);
        let many = packets >= LOCATE.few && duplicates as f64 > MOST_DUPLICATED * packets as f64;
        many.then_some(Refused::Duplicated { duplicates, packets })
    }

    /// Returns more pairs, or moves on to the trains.
    pub(super) fn more_pairs(&mut self, now: Instant) -> Option<TrainSchedule> {
        let dispersion = self.median_dispersion();
        let (bytes, time) = self.allowed();
        let limits = Limits {
            bytes: self.bytes_left().saturating_sub((bytes.get() as f64 * (1.0 - LOCATE.pairs_share)) as u64),
            time: self.time_left(now) - time.scale(1.0 - LOCATE.pairs_share),
            least: dispersion.scale(2.0 * LOCATE.least_trains),
            mean: LOCATE.mean_gap.max(dispersion.scale(2.0 * LOCATE.mean_trains)),
        };
        if let Err(reason) = self.check_pairs() {
            // More of them would be no better.
            self.give_up(reason);
            return None;
        }
        let wanted = if self.pairs.is_empty() { Some(LOCATE.first_pairs) } else { self.pairs.wanted() };
        let schedule = wanted.and_then(|wanted| self.equal_trains(Train::PAIR, wanted, limits));
        if schedule.is_none()
            && let Err(reason) = self.finish_pairs()
        {
            self.give_up(reason);
        }
        schedule
    }

    /// Ends the search for the narrow link without an answer, or that for the tight link. The latter only
    /// needs to know about how much the path carries.
    pub(super) fn give_up(&mut self, reason: Refused) {
        let reason = self.cause(reason);
        let enough = matches!(
            reason,
            Refused::Unlocated(_)
                | Refused::Spent(..)
                | Refused::CapacityUnclear(_)
                | Refused::Stream(_)
                | Refused::Interrupted { .. }
                | Refused::NotFaster { .. }
                | Refused::FasterBehind { .. }
        );
        if self.phase == Phase::Tight {
            self.tight_found = Some(Err(reason));
            self.phase = Phase::Recheck;
        } else if self.config.tight && enough && self.capacity.is_some() {
            self.unclear = Some(reason);
            self.begin_tight();
        } else if matches!(reason, Refused::CapacityUnclear(_)) {
            // Pairs over two paths look like this, too.
            self.unclear = Some(reason);
            self.phase = Phase::Recheck;
        } else {
            self.refused = Some(reason);
        }
    }

    /// Returns why a search really ended: if bytes and time were too few because this host spoiled many
    /// streams, more of them would not help.
    pub(super) fn cause(&self, reason: Refused) -> Refused {
        let few = matches!(
            reason,
            Refused::Spent(..)
                | Refused::Capacity(_)
                | Refused::CapacityUnclear(_)
                | Refused::Unlocated(_)
                | Refused::TightUnsure { .. }
        );
        let many = |part: f64, whole: f64| few && part > 0.0 && part >= TO_BLAME * whole;
        let late = self.dropped().late;
        match self.latest_refusal {
            Some(refusal) if many(self.unusable.into(), self.streams.into()) => Refused::Stream(refusal),
            _ if many(late as f64, self.trains as f64) => Refused::Interrupted { late, sent: self.trains },
            _ => reason,
        }
    }

    /// Adds pairs; which of them the sender was interrupted in depends on all of them.
    pub(super) fn add_pairs(&mut self, pairs: &[TrainRecord]) {
        self.observed.extend_from_slice(pairs);
        self.pairs = Pairs::new(self.config.packet, pair_settings(self.config.quantum));
        self.late = add(&mut self.pairs, &self.observed);
    }

    /// Returns the median time between the arrivals of a pair; zero without pairs.
    fn median_dispersion(&self) -> Duration {
        let all = self.pairs.triplets().iter().map(|pair| pair.dispersion).collect();
        upper_median(all).unwrap_or(Duration::ZERO)
    }

    /// Computes the capacity and prepares the search for the narrow link.
    fn finish_pairs(&mut self) -> Result<(), Refused> {
        let capacity = self.pairs.capacity().map_err(Refused::Capacity)?;
        self.capacity = Some(capacity);
        if capacity.bound == Bound::AtLeast {
            return Err(Refused::SenderSlow(capacity.rate));
        }
        if !capacity.is_clear() {
            return Err(Refused::CapacityUnclear(capacity));
        }
        let groups = u64::from(self.hops) + 1;
        let affordable = self.bytes_left() / groups / self.train_bytes(LOCATE.hidden);
        let settings = hire::Settings {
            trains: (affordable as usize).clamp(FEWEST_IN_GROUP, LOCATE.most_in_group),
            hidden: u32::from(LOCATE.hidden),
            rule: self.config.rule,
            quantum: self.tolerance(),
            ..hire::Settings::for_hops(u32::from(self.hops))
        };
        self.search = Some(Search::new(self.config.packet, capacity.rate, settings));
        self.phase = Phase::Trains(self.hops);
        Ok(())
    }

    /// Refuses pairs that were lost or whose gaps something on the way destroyed.
    fn check_pairs(&self) -> Result<(), Refused> {
        let (pairs, dropped) = (self.pairs.len(), self.pairs.dropped());
        let sent = pairs + dropped.total();
        let many = |count: usize, share: f64| sent >= LOCATE.few && count as f64 > share * sent as f64;
        if many(dropped.lost, MOST_LOST) {
            return Err(Refused::Lost { lost: dropped.lost, sent });
        }
        let reordered = self.observed.iter().filter(|pair| pair.is_reordered()).count();
        if many(reordered, MOST_REORDERED) {
            return Err(Refused::Reordered { reordered, sent });
        }
        // Some receivers see the packets that they read together at the same time.
        let at_once = dropped.reordered.saturating_sub(reordered);
        let closer = |pair: &&ppdd::Triplet| pair.dispersion < pair.gap;
        let close = at_once + self.pairs.triplets().iter().filter(closer).count();
        if many(close, MOST_GROUPED) {
            return Err(Refused::Grouped { close, pairs: sent });
        }
        self.duplicated().map_or(Ok(()), Err)
    }

    /// Returns the time in which trains may leave whatever time others take: that of one packet on the narrow
    /// link, in which the paper sends all trains. The search uses its quantum for nothing else.
    fn tolerance(&self) -> Duration {
        self.capacity.map_or(self.config.quantum, |capacity| capacity.rate.time_for(self.config.packet))
    }

    /// Returns the trains that the search asks for, or ends it.
    pub(super) fn more_trains(&mut self, now: Instant) -> Option<TrainSchedule> {
        let step = self.search.as_ref()?.next_step();
        let (ttl, wanted) = match step {
            hire::Step::Done(result) => {
                self.finish_search(result);
                return None;
            }
            hire::Step::Send { ttl, trains } => (ttl, trains),
        };
        let hop = u8::try_from(ttl).unwrap_or(self.hops);
        self.phase = Phase::Trains(hop);
        let schedule = self.group(hop, LOCATE.hidden, wanted, now);
        if schedule.is_none() {
            let result = self.location_so_far();
            self.finish_search(result);
        }
        schedule
    }

    /// Returns trains whose hidden packets die at `hop`, if bytes and time are left for them.
    fn group(&mut self, hop: u8, hidden: u8, wanted: usize, now: Instant) -> Option<TrainSchedule> {
        let time = self.train_time(hidden);
        let limits = Limits {
            bytes: self.bytes_left(),
            time: self.time_left(now),
            least: time.scale(LOCATE.least_trains),
            mean: LOCATE.mean_gap.max(time.scale(LOCATE.mean_trains)),
        };
        self.equal_trains(Train { hidden, hops: hop }, wanted, limits)
    }

    /// Adds a group of trains to the search.
    pub(super) fn observe_group(&mut self, hop: u8, trains: &[TrainRecord]) {
        self.note_arrivals(hop, trains);
        let record = record(trains, self.config.packet);
        if let Some(search) = &mut self.search {
            search.observe(u32::from(hop), &record);
        }
        self.history.push((hop, record));
    }

    /// Checks that hidden packets arrive exactly if the number of hops says so.
    pub(super) fn note_arrivals(&mut self, hop: u8, trains: &[TrainRecord]) {
        let Some((seen, all)) = self.arrived.get_mut(usize::from(hop) - 1) else { return };
        *seen += trains.iter().filter(|train| train.hidden_seen > 0).count();
        *all += trains.iter().filter(|train| train.arrivals().is_some()).count();
        let strays = if hop < self.hops { *seen } else { all.saturating_sub(*seen) };
        if *all >= LOCATE.few && strays as f64 > STRAYS * *all as f64 {
            self.refused = Some(Refused::HiddenArrived { hop, arrived: hop < self.hops });
        }
    }

    /// Returns the answer of the search without the trains that it would like to have.
    fn location_so_far(&self) -> Result<Location, Unlocated> {
        let sure = hire::Settings::for_hops(1).sure;
        let spent = Unlocated::TooFewTrains { ttl: u32::from(self.hops), usable: 0 };
        let (Some(capacity), false) = (self.capacity, self.history.is_empty()) else { return Err(spent) };
        let settings = hire::Settings {
            trains: 1,
            most_trains: 0,
            sure: 0.0,
            hidden: u32::from(LOCATE.hidden),
            rule: self.config.rule,
            quantum: self.tolerance(),
            ..hire::Settings::for_hops(u32::from(self.hops))
        };
        let mut search = Search::new(self.config.packet, capacity.rate, settings);
        self.history.iter().for_each(|(hop, record)| search.observe(u32::from(*hop), record));
        match search.next_step() {
            hire::Step::Done(Ok(Location { hop, confidence })) if confidence < sure => {
                Err(Unlocated::Unsure { hop, confidence })
            }
            hire::Step::Done(result) => result,
            hire::Step::Send { ttl, .. } => Err(Unlocated::TooFewTrains { ttl, usable: 0 }),
        }
    }

    /// Ends the search, and goes on with the prefixes if they are wanted.
    fn finish_search(&mut self, result: Result<Location, Unlocated>) {
        match result {
            Ok(location) => {
                if let Some(contradiction) = self.contradiction(location.hop) {
                    return self.give_up(contradiction);
                }
                self.location = Some(location);
                if self.config.all && location.hop > 1 {
                    self.begin_prefix(location.hop as u8 - 1, LOCATE.hidden);
                } else {
                    self.begin_tight();
                }
            }
            Err(Unlocated::TooFewTrains { usable: 0, .. })
                if self.bytes_left() < self.train_bytes(LOCATE.hidden) * 10 =>
            {
                self.give_up(Refused::Spent("the byte budget", "--budget"));
            }
            Err(reason) => self.give_up(Refused::Unlocated(reason)),
        }
    }

    /// Returns what speaks against a narrow link at `hop`, comparing the rates of trains with the
    /// capacity. A loaded link stretches trains, too, and makes a step that looks like one of capacity.
    /// The original rule does not ask.
    fn contradiction(&self, hop: u32) -> Option<Refused> {
        let Rule::Step(_) = self.config.rule else { return None };
        let capacity = self.capacity?.rate;
        let groups: Vec<Group> = self.groups().filter_map(|(hop, trains)| group(hop, trains)).collect();
        let behind =
            |group: &&Group| u32::from(group.hop) >= hop && group.rate > capacity.scale(LOCATE.faster);
        if let Some(faster) = groups.iter().find(behind) {
            return Some(Refused::FasterBehind { hop, group: faster.hop, rate: faster.rate, capacity });
        }
        let before: Vec<Rate> =
            groups.iter().filter(|group| u32::from(group.hop) < hop).map(|group| group.rate).collect();
        let sum: f64 = before.iter().map(|rate| rate.bps_f64()).sum();
        let rate = Rate::from_bps_f64(sum / before.len().max(1) as f64);
        // The first of them died just before the link in question.
        let faster =
            before.first().is_none_or(|next| *next >= capacity && rate >= capacity.scale(LOCATE.faster));
        let rate = before.first().map_or(rate, |next| rate.min(*next));
        (!faster).then_some(Refused::NotFaster { hop, rate, capacity })
    }

    /// Starts to measure the capacity of the links up to `hop`.
    fn begin_prefix(&mut self, hop: u8, hidden: u8) {
        let quantum = self.config.quantum.max(self.median_dispersion().scale(TOLERANCE));
        // Most trains are spread by a link behind the prefix, so only those with the lowest delays tell.
        let settings = ppdd::Settings { quantum, ..ppdd::Settings::quantiles() };
        let prefix = Pairs::of_trains(self.config.packet, u32::from(hidden), settings);
        self.prefix = Some(prefix);
        self.phase = Phase::Prefix(hop);
    }

    /// Returns more trains for the prefix up to `hop`, or moves on to the one before it.
    pub(super) fn more_of_prefix(&mut self, hop: u8, now: Instant) -> Option<TrainSchedule> {
        let prefix = self.prefix.as_ref()?;
        let hidden = prefix.hidden() as u8;
        let wanted = prefix.wanted().map(|wanted| wanted.min(PREFIX_TRAINS.saturating_sub(prefix.len())));
        if let Some(wanted) = wanted.filter(|wanted| *wanted > 0)
            && let Some(schedule) = self.group(hop, hidden, wanted, now)
        {
            return Some(schedule);
        }
        self.finish_prefix(hop, hidden);
        None
    }

    /// Computes the capacity of the prefix up to `hop`; measures it again if it needs more hidden packets.
    fn finish_prefix(&mut self, hop: u8, hidden: u8) {
        let (Some(prefix), Some(capacity)) = (self.prefix.take(), self.capacity) else { return };
        let measured = prefix_capacity(&prefix, capacity.rate);
        if let Err(NotMeasured::TooFewHidden { needed, .. }) = measured
            && needed > u32::from(hidden)
            && needed <= u32::from(Train::MAX_HIDDEN)
        {
            return self.begin_prefix(hop, needed as u8);
        }
        self.prefixes[usize::from(hop) - 1] = Some(measured);
        if hop > 1 { self.begin_prefix(hop - 1, LOCATE.hidden) } else { self.begin_tight() }
    }
}
