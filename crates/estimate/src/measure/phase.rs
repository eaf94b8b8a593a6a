//! The phases of a measurement and the transitions between them.

use crate::MultiRate;
use crate::stream::{Refusal, Schedule};
use headway_units::{Bytes, Rate};

use super::answer::SLOWEST;
use super::capacity::Capacity;
use super::evaluation::Evaluation;
use super::method::Method;
use super::pairs::IsolatedPairs;
use super::path_kind::PathKind;
use super::response::Response;
use super::search::Search;
use super::shaped::Shaped;
use super::shaper_search::{Shaper, ShaperSearch};
use super::startup::{Range, Startup};
use super::track::Track;
use super::{Measurement, probe};

/// The assumed capacity as a multiple of the available bandwidth while the capacity is unknown.
const UNKNOWN_CAPACITY: f64 = 2.0;

/// Start-up may by chance find up to this many times the capacity available, but not more.
const CONTRADICTION: f64 = 1.5;

/// The share of the highest rate sent so far that the sender can sustain reliably.
const SENDABLE: f64 = 0.8;

/// Trains whose gaps a sender did not keep are followed by slower ones, at this share of their rate.
const SLOWER: f64 = 0.5;

/// A path carries trains whose delay grows by no more than this per time: timestamps of microseconds are that
/// uncertain in trains of the highest rates.
pub(super) const CARRIED: f64 = 0.05;

#[derive(Debug)]
pub(super) enum Phase {
    Startup(Startup),
    Capacity(Capacity),
    /// Pairs, where the trains do not show the capacity.
    Pairs(Box<IsolatedPairs>),
    /// Trains grow until one exhausts a token bucket, or until it is certain that there is none.
    ShaperSearch(Fallback),
    /// Trains that decide about a policer, and the phase before.
    PolicerSearch(Box<Interrupted>),
    /// Streams that sample the available bandwidth.
    Evaluation(Box<dyn Evaluation>),
    /// The sender's limit was reached without filling the path.
    AtLeast(Rate),
}

/// A phase that continues after trains that look for a policer.
#[derive(Debug)]
pub(super) struct Interrupted {
    pub(super) phase: Phase,
    /// The train to send; `None` for the next one of a search.
    pub(super) train: Option<Schedule>,
}

impl Phase {
    /// Returns what evaluates, also while trains look for a policer.
    pub(super) fn evaluation(&self) -> Option<&dyn Evaluation> {
        match self {
            Phase::Evaluation(evaluation) => Some(evaluation.as_ref()),
            Phase::PolicerSearch(search) => search.phase.evaluation(),
            _ => None,
        }
    }

    /// Returns the rate that the path carried, if it is the answer so far.
    pub(super) fn at_least(&self) -> Option<Rate> {
        match self {
            Phase::AtLeast(rate) | Phase::ShaperSearch(Fallback::AtLeast(rate)) => Some(*rate),
            _ => None,
        }
    }

    /// Returns whether streams are known to pass a policer, which delays nothing.
    pub(super) fn is_policed(&self) -> bool {
        matches!(self, Phase::Evaluation(phase) if phase.path_kind() == Some(PathKind::Policed))
    }

    /// Returns whether its streams are trains of use whatever the gaps, because they are sent as fast as
    /// possible or must only be long. One that a host which paces badly, `is_limited`, has interrupted was not long.
    pub(super) fn accepts_any_gaps(&self, is_limited: bool) -> bool {
        match self {
            Phase::Capacity(_) | Phase::Pairs(_) => true,
            Phase::ShaperSearch(_) | Phase::PolicerSearch(_) => !is_limited,
            _ => false,
        }
    }

    /// Returns whether streams look for a policer or pass one: every one exhausts its bucket.
    pub(super) fn meets_policer(&self) -> bool {
        matches!(self, Phase::PolicerSearch(_)) || self.is_policed()
    }

    /// Returns whether there is an answer, or will be one, that takes no token bucket into account.
    pub(super) fn may_hide_policer(&self) -> bool {
        match self {
            Phase::Evaluation(phase) => {
                !matches!(phase.path_kind(), Some(PathKind::Shaped | PathKind::Policed))
            }
            phase => matches!(phase, Phase::AtLeast(_)),
        }
    }
}

/// The knowledge about a path that applies unless a shaper is found.
#[derive(Clone, Debug)]
pub(super) enum Fallback {
    /// At least this much is available.
    AtLeast(Rate),
    /// The capacity trains are complete.
    Trains(Capacity),
}

impl Measurement {
    pub(super) fn enter(&mut self, range: Range) {
        self.phase = match range {
            Range::Failed(refusal) => {
                self.given_up = Some(refusal);
                return;
            }
            Range::TooSlow(rate) => {
                self.capacity = Some(rate);
                return;
            }
            // More is available than may be probed.
            Range::Near(rate) if rate >= self.config.top_rate => self.search_for_shaper(self.config.top_rate),
            Range::Near(rate) => {
                self.available = Some(rate);
                Phase::Capacity(Capacity::new(&self.config, self.train_packet(rate), rate, self.jitter))
            }
            Range::AtLeast(rate) => self.search_for_shaper(rate),
            Range::SenderLimit(rate) if self.config.method == Method::Response => self.verify_limit(rate),
            Range::SenderLimit(_) => match self.paced {
                Some(paced) => Phase::AtLeast(paced),
                None => {
                    self.given_up = Some(Refusal::SenderGaps);
                    return;
                }
            },
        };
    }

    /// Returns the packet size of trains at this available bandwidth.
    fn train_packet(&self, available: Rate) -> Bytes {
        match self.config.method {
            Method::Response => probe::small_enough(self.config.packet, available),
            _ => self.config.packet,
        }
    }

    /// Looks for a token bucket before the rate of the fastest stream counts as available.
    fn search_for_shaper(&mut self, rate: Rate) -> Phase {
        let open = self.config.method == Method::Response && self.shaper_search.open(false);
        if open { Phase::ShaperSearch(Fallback::AtLeast(rate)) } else { Phase::AtLeast(rate) }
    }

    /// Sends trains, as those that look for a token bucket, to verify what a sender that paces badly can show.
    /// Only those count whose gaps it keeps, and the rate falls until it keeps some.
    fn verify_limit(&mut self, rate: Rate) -> Phase {
        self.is_limited = true;
        // Its trains were sent by this sender.
        self.capacity = None;
        self.sampled_from = None;
        // What failed so far leaves as much time and bytes as there were.
        self.searched = (self.observed - self.started, self.tally.bytes);
        self.tally.refused_in_a_row = 0;
        self.shaper_search = ShaperSearch::default();
        self.search_for_shaper(rate)
    }

    /// Returns whether only trains count whose gaps the sender keeps.
    pub(super) fn is_verifying(&self) -> bool {
        self.is_limited && matches!(self.phase, Phase::ShaperSearch(Fallback::AtLeast(_)))
    }

    /// Returns whether it kept none so far.
    pub(super) fn is_unverified(&self) -> bool {
        self.is_verifying() && !self.shaper_search.has_any()
    }

    /// Returns the next train of the search for a token bucket.
    pub(super) fn longer_train(&self, fallback: &Fallback) -> Schedule {
        let (rate, carried) = match fallback {
            // The measured rate may slightly exceed the configured limit.
            Fallback::AtLeast(rate) => (self.config.top_rate.min(*rate), *rate),
            Fallback::Trains(_) => {
                (self.config.top_rate, self.capacity.or(self.available).unwrap_or_default())
            }
        };
        // Gaps between large packets are longer.
        let packet = match self.is_verifying() {
            true => self.config.packet,
            false => probe::small_enough(self.config.packet, carried),
        };
        self.shaper_search.schedule(rate, packet)
    }

    pub(super) fn leave_capacity(&mut self) {
        let Phase::Capacity(trains) = &self.phase else { return };
        if !trains.done() {
            return;
        }
        if self.config.method == Method::Response {
            if let Some(shaper) = self.shaper_search.shaper() {
                return self.enter_shaped(shaper);
            }
            self.shaper_search.begin();
            if self.shaper_search.open(trains.narrow() && !self.contradicted()) {
                self.phase = Phase::ShaperSearch(Fallback::Trains(trains.clone()));
                return;
            }
        }
        let trains = trains.clone();
        self.phase = match self.pairs_after(&trains) {
            Some(pairs) => Phase::Pairs(Box::new(pairs)),
            None => return self.enter_method(trains),
        };
    }

    /// Returns the pairs to send after these trains, if they are worthwhile.
    fn pairs_after(&self, trains: &Capacity) -> Option<IsolatedPairs> {
        let available = self.available.filter(|_| self.config.method == Method::Response)?;
        IsolatedPairs::after(trains, available, self.budget(), self.started.ns())
    }

    pub(super) fn leave_pairs(&mut self) {
        let Phase::Pairs(pairs) = &self.phase else { return };
        if pairs.done() {
            let trains = pairs.trains().clone();
            self.capacity = pairs.capacity().filter(|capacity| trains.allows(*capacity)).or(self.capacity);
            self.enter_method(trains);
        }
    }

    /// Returns whether start-up found far more available than the trains allow for the narrow link.
    fn contradicted(&self) -> bool {
        self.available.zip(self.capacity).is_some_and(|(free, capacity)| free > capacity.scale(CONTRADICTION))
    }

    pub(super) fn leave_shaper_search(&mut self) {
        let Phase::ShaperSearch(fallback) = &self.phase else { return };
        if let Some(shaper) = self.shaper_search.shaper() {
            return self.enter_shaped(shaper);
        }
        match fallback.clone() {
            Fallback::AtLeast(rate) if !self.shaper_search.open(false) => {
                if !self.is_unverified() {
                    self.conclude_at_least(rate);
                } else if rate < SLOWEST.scale(1.0 / SLOWER) {
                    self.given_up = Some(Refusal::SenderGaps);
                } else {
                    self.enter(Range::SenderLimit(rate.scale(SLOWER)));
                }
            }
            Fallback::Trains(trains) if !self.shaper_search.open(trains.narrow() && !self.contradicted()) => {
                self.enter_method(trains)
            }
            _ => {}
        }
    }

    /// Answers "at least" this rate, unless trains were delayed more and more: then less is available.
    fn conclude_at_least(&mut self, rate: Rate) {
        let growth = self.shaper_search.growth();
        if growth > CARRIED {
            self.enter(Range::Near(rate.scale(1.0 / (1.0 + growth))));
        } else {
            // At a link no faster than the trains, the growth is the share of their rate
            // that was not available.
            self.phase = Phase::AtLeast(rate.scale((1.0 - growth) * self.shaper_search.shown()));
        }
    }

    fn enter_shaped(&mut self, shaper: Shaper) {
        self.capacity = Some(shaper.capacity);
        let top = self.config.top_rate.min(self.tally.highest.scale(SENDABLE));
        let packet = probe::small_enough(self.config.packet, shaper.capacity);
        self.phase = Phase::Evaluation(Box::new(Shaped::new(packet, shaper, top)));
    }

    fn enter_method(&mut self, trains: Capacity) {
        let Some(start) = self.available else { return };
        let narrow = trains.narrow();
        let limit = self.timestamp_resolution.limit(self.config.packet, trains.driver());
        self.stamp_limit = limit.filter(|limit| self.capacity.is_some_and(|capacity| capacity > *limit));
        if let Some(limit) = self.stamp_limit {
            self.capacity = Some(limit);
        }
        let capacity = self.capacity.unwrap_or(start.scale(UNKNOWN_CAPACITY));
        let capacity = self.stamp_limit.unwrap_or(capacity.max(start));
        let packet = self.config.packet;
        self.phase = Phase::Evaluation(match self.config.method {
            Method::Response if narrow => {
                let top =
                    self.stamp_limit.map_or(self.config.top_rate, |limit| limit.min(self.config.top_rate));
                let packet = probe::small_enough(packet, capacity);
                Box::new(Response::new(
                    packet,
                    capacity,
                    start,
                    top,
                    self.jitter,
                    trains.coalesced(),
                    self.stamp_limit,
                ))
            }
            // Without the capacity, the growth of the delay is meaningless, but it still shows which rates
            // are too high.
            Method::Response => {
                Box::new(Track::new(MultiRate::Bass, packet, start, capacity).without_capacity())
            }
            Method::MultiRate(method) => {
                let track = Track::new(method, packet, start, capacity);
                Box::new(track.with_model(self.model.as_ref(), self.capacity))
            }
            Method::SingleRate(method) => {
                let search = Search::new(method, packet, start, capacity);
                Box::new(search.with_model(self.model.as_ref(), self.capacity))
            }
        });
    }
}
