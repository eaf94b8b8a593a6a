//! The state of a choice, as programs and pages show it.

use headway_units::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use crate::decision::DecisionState;
use crate::presence::Trouble;
use crate::selector::Selector;
use crate::settings::Strategy;
use crate::transfer::time_of;

/// The state of a choice at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// When, by the clock of the caller, which means nothing to others.
    #[serde(skip)]
    pub at: Instant,
    /// By what is chosen.
    pub strategy: Strategy,
    /// The name of the chosen path.
    pub chosen: String,
    /// Why it is chosen.
    pub decision: DecisionState,
    /// How often the choice has changed.
    pub changes: u64,
    /// How many questions about one rate there were.
    pub questions: u64,
    /// How many whole measurements there were.
    pub measurements: u64,
    /// The size of a usual transfer, if paths are compared by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_bytes: Option<u64>,
    /// How long the choice stays after a change.
    pub hold_ms: u64,
    /// The paths, in their order.
    pub paths: Vec<PathState>,
}

/// The state of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathState {
    /// Its name.
    pub name: String,
    /// Whether it is chosen.
    pub is_chosen: bool,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// What is free, with the ends of the 90 % interval; absent before the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bps: Option<[u64; 3]>,
    /// Age of the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// How long what is free lasts, as far as was seen.
    pub lasts_ms: u64,
    /// The capacity of the narrow link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
    /// The round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<u64>,
    /// The share of packets that it is thought to lose by chance.
    pub loss: f64,
    /// How long a transfer of the usual size takes, with the ends of the 90 % interval; only
    /// where that is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_ns: Option<[u64; 3]>,
    /// The odds that it is better than the chosen one by more than the tolerance.
    pub odds: f64,
    /// The odds that it shares the tight link of the chosen one.
    pub shares: f64,
    /// The share of traffic that it should get.
    pub weight: f64,
    /// Whether it is preferred until it is full.
    pub preferred: bool,
    /// Whether it is full, if it is preferred.
    pub is_full: bool,
    /// What its interface may carry within 30 days, and what is left of that, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// What is left of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_left_bytes: Option<u64>,
    /// What was sent to measure it within the last hour, and the most that may be.
    pub spent_bytes: u64,
    /// The most that may be sent within an hour.
    pub budget_bytes: u64,
    /// What was sent to measure it since the beginning.
    pub total_bytes: u64,
}

impl Selector {
    /// Returns the state at `now`.
    pub fn snapshot(&mut self, now: Instant) -> Snapshot {
        let weights = self.weights(now);
        let paths = weights.into_iter().enumerate().map(|(path, weight)| self.path_state(now, path, weight));
        let paths = paths.collect();
        Snapshot {
            at: now,
            strategy: self.settings.strategy,
            chosen: self.names[self.chosen].to_string(),
            decision: (&self.current).into(),
            changes: self.changes,
            questions: self.asked[0],
            measurements: self.asked[1],
            transfer_bytes: self.compares_times().then(|| self.sizes.usual().get()),
            hold_ms: (self.hold.time().ns() / 1_000_000).unsigned_abs(),
            paths,
        }
    }

    fn compares_times(&self) -> bool {
        self.settings.strategy == Strategy::TransferTime
    }

    fn path_state(&mut self, now: Instant, path: usize, weight: f64) -> PathState {
        let odds = self.odds(now, path);
        let speeds = self.compares_times().then(|| self.prospect(now, path).value.interval());
        let is_chosen = path == self.chosen;
        let shares = if is_chosen { 1.0 } else { self.shared.odds(self.chosen, path) };
        let state = &mut self.paths[path];
        let is_known = state.belief.is_known();
        PathState {
            name: self.names[path].to_string(),
            is_chosen,
            trouble: state.presence.trouble,
            free_bps: is_known.then(|| state.belief.at(now).interval().map(|rate| rate.bps())),
            age_ms: is_known.then(|| (state.belief.age(now).ns() / 1_000_000).unsigned_abs()),
            lasts_ms: (1e3 / state.belief.hazard()) as u64,
            capacity_bps: state.belief.capacity().map(|rate| rate.bps()),
            rtt_ns: state.rtt.map(|rtt| rtt.ns().unsigned_abs()),
            loss: state.losses.mean(),
            // The faster, the less time it takes.
            transfer_ns: speeds.filter(|_| is_known).map(|[median, low, high]| {
                [median, high, low].map(|speed| time_of(speed).ns().unsigned_abs())
            }),
            odds,
            shares,
            weight,
            preferred: state.wished.preferred,
            is_full: state.wished.is_full,
            quota_bytes: state.wished.quota.as_ref().map(|quota| quota.limit().get()),
            quota_left_bytes: state.wished.left(now).map(Bytes::get),
            spent_bytes: state.purse.spent(now).get(),
            budget_bytes: self.settings.max_bytes_per_hour.get(),
            total_bytes: state.purse.total.get(),
        }
    }
}
