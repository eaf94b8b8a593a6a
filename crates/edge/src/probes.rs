//! When a router probes its link, and for how many bytes (wan F69).
//!
//! Pairs tell the capacity of the narrow link for a few packets, also while the link is used. A measurement
//! of what is available costs more and is disturbed by one's own traffic, so it waits until nobody needs the
//! link. Both keep to a budget.

use std::collections::VecDeque;

use headway_units::{Budget, Bytes, Duration, Instant, PerSide, Rate, Side};

use crate::evaluate::{Estimate, Facts, Input, Quantity};
use crate::snapshot::{ProbeState, RateState};

/// What a budget is for.
const HOUR: Duration = Duration::from_ms(3_600_000);
/// A capacity is measured anew after so long: it changes with the route, or when a modem trains again. Half
/// the time for which evaluations believe it (wan 2.20).
const PAIRS_EVERY: Duration = Duration::from_ms(300_000);
/// Flows that use all they may have, without a queue, might have more: after so long the capacity is measured
/// anew. Doubled each time it is as it was, up to [`PAIRS_EVERY`]. Range 2 to 60 s.
const PRESSED: Duration = Duration::from_ms(10_000);
/// Time after the first failure; doubled with each further one, up to [`PAIRS_EVERY`]. Range 2 to 60 s.
const RETRY: Duration = Duration::from_ms(10_000);
/// What is available is measured at most so often: each time takes [`MEASUREMENT`]. Range 10 s to 1 h.
const AVAILABLE_EVERY: Duration = Duration::from_ms(60_000);
/// Nobody needs the link while it carries less than this part of its capacity. Range 0.05 to 0.5.
const NEEDED: f64 = 0.2;
/// The same while the capacity is not known. Range 100 kb/s to 5 Mb/s.
const LITTLE: Rate = Rate::from_bps(1_000_000);
/// A capacity that differs by less than this part is the same. Range 0.02 to 0.2.
const SAME: f64 = 0.1;
/// What is asked for of a measurement: enough up to 200 Mb/s (`headway measure --budget`).
const MEASUREMENT: Bytes = Bytes::new(1_000_000);
/// The same of pairs: 20 of them, and what it takes to connect.
const PAIRS: Bytes = Bytes::new(100_000);
/// Who says it.
const SOURCE: &str = "probes";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// The capacity of the narrow link, by pairs.
    Pairs,
    /// What is available.
    Available,
}

/// A measurement that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The side towards which it is sent.
    pub side: Side,
    /// What is measured.
    pub kind: ProbeKind,
    /// The most that it may cost.
    pub most: Bytes,
}

/// What a measurement found: rates of payload, each with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// The capacity of the narrow link.
    pub capacity: Option<[Rate; 3]>,
    /// What was available beside the flows that there were.
    pub available: Option<[Rate; 3]>,
}

/// What flows do with the link, by which it is decided when to probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// What passes towards each side.
    pub rate: PerSide<Rate>,
    /// Whether flows use all that they may have there, and there is no standing queue.
    pub presses: PerSide<bool>,
}

/// What is known of a direction.
#[derive(Clone, Debug, Default)]
struct Known {
    capacity: Option<(Instant, [Rate; 3])>,
    available: Option<(Instant, [Rate; 3])>,
    /// When pairs and measurements were begun last.
    begun: [Option<Instant>; 2],
    /// How long flows may press before the capacity is measured anew.
    patience: Duration,
    /// Since when they do.
    pressed: Option<Instant>,
    failures: u32,
}

/// Decides when to probe, and keeps what that has found.
#[derive(Clone, Debug)]
pub struct Prober {
    budget: Budget,
    found: VecDeque<Instant>,
    sides: PerSide<Known>,
    is_busy: bool,
    /// What it did last, or why it waits.
    state: String,
}

impl Prober {
    /// Creates one that spends at most `budget` in an hour.
    pub fn new(budget: Bytes) -> Prober {
        let known = Known { begun: [None; 2], patience: PRESSED, ..Known::default() };
        Prober {
            budget: Budget::hourly(budget),
            found: VecDeque::new(),
            sides: PerSide::both(known),
            is_busy: false,
            state: "has not probed yet".to_owned(),
        }
    }

    /// Returns what is to be measured now, if anything is; one at a time, until [`Prober::report`]. To be
    /// called every second.
    pub fn next(&mut self, now: Instant, demand: &Demand) -> Option<Probe> {
        for (side, known) in self.sides.iter_mut() {
            known.pressed = demand.presses[side].then(|| known.pressed.unwrap_or(now));
        }
        self.forget(now);
        if self.is_busy {
            return None;
        }
        let probe = self.wanted(now, demand)?;
        if !self.budget.allows(now, probe.most) {
            let (limit, spent) = (self.budget.limit(), self.budget.spent(now));
            self.state = format!("waits: of {limit} an hour, {spent} are spent");
            return None;
        }
        self.sides[probe.side].begun[probe.kind as usize] = Some(now);
        self.is_busy = true;
        Some(probe)
    }

    fn wanted(&mut self, now: Instant, demand: &Demand) -> Option<Probe> {
        let pairs = |side| Probe { side, kind: ProbeKind::Pairs, most: PAIRS };
        if let Some(side) = Side::BOTH.into_iter().find(|side| self.sides[*side].wants_pairs(now)) {
            return Some(pairs(side));
        }
        let wants = |side: &Side| self.sides[*side].wants_available(now, self.available_every());
        let side = Side::BOTH.into_iter().find(wants)?;
        let is_needed = Side::BOTH.into_iter().any(|side| self.sides[side].is_needed(demand.rate[side]));
        let has_failed = self.sides.iter().any(|(_, known)| known.failures > 0);
        if is_needed && !has_failed {
            self.state = "waits: connections need the link".to_owned();
        }
        if is_needed {
            return None;
        }
        Some(Probe { side, kind: ProbeKind::Available, most: MEASUREMENT })
    }

    /// Returns the time between measurements of a direction that spend half of the budget;
    /// the rest is for pairs.
    fn available_every(&self) -> Duration {
        let rounds = self.budget.limit().get() as f64 / 2.0 / (2 * MEASUREMENT.get()) as f64;
        HOUR.scale(1.0 / rounds.max(0.01)).max(AVAILABLE_EVERY)
    }

    /// Takes what came of a probe, and what it has cost.
    pub fn report(&mut self, now: Instant, probe: Probe, cost: Bytes, result: Result<Probed, String>) {
        self.is_busy = false;
        self.budget.spend(now, cost);
        let known = &mut self.sides[probe.side];
        let way = match probe.side {
            Side::Lan => "towards the hosts",
            Side::Wan => "from the hosts",
        };
        match result {
            Ok(probed) if probed != Probed::default() => {
                known.take(now, probed);
                self.found.push_back(now);
                let what = |name: &str, rates: Option<[Rate; 3]>| {
                    rates.map(|[rate, ..]| format!("{name} of {rate}"))
                };
                let parts =
                    [what("a capacity", probed.capacity), what("available bandwidth", probed.available)];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                self.state = format!("found {} {way}, for {cost}", parts.join(" and "));
            }
            Ok(_) => {
                known.fail();
                self.state = format!(
                    "found nothing {way}: its packets did not agree; tries again in {}",
                    known.retry()
                );
            }
            Err(why) => {
                known.fail();
                self.state = format!("failed {way}: {why}; tries again in {}", known.retry());
            }
        }
    }

    /// Returns what was measured towards a side, as pages show it: what is available, and the capacity.
    pub fn rates(&self, now: Instant, side: Side) -> [Option<RateState>; 2] {
        let known = &self.sides[side];
        [known.available, known.capacity].map(|known| {
            let (at, [rate, low, high]) = known?;
            Some(RateState {
                rate_bps: rate.bps(),
                low_bps: low.bps(),
                high_bps: high.bps(),
                age_ms: ((now - at).ns() / 1_000_000).max(0) as u64,
                source: SOURCE.to_owned(),
            })
        })
    }

    /// Returns what it cost and bought in the last hour.
    pub fn state(&mut self, now: Instant) -> ProbeState {
        self.forget(now);
        ProbeState {
            budget_bytes: self.budget.limit().get(),
            spent_bytes: self.budget.spent(now).get(),
            estimates: self.found.len() as u64,
            state: self.state.clone(),
        }
    }

    fn forget(&mut self, now: Instant) {
        while self.found.front().is_some_and(|at| now - *at >= HOUR) {
            self.found.pop_front();
        }
    }
}

impl Known {
    fn wants_pairs(&self, now: Instant) -> bool {
        let since = self.begun[ProbeKind::Pairs as usize].map(|begun| now - begun);
        let Some(since) = since else { return true };
        if self.failures > 0 {
            return since >= self.retry();
        }
        let is_pressed = self.pressed.is_some_and(|begun| now - begun >= self.patience);
        since >= PAIRS_EVERY || is_pressed && since >= self.patience
    }

    fn wants_available(&self, now: Instant, every: Duration) -> bool {
        let since = self.begun[ProbeKind::Available as usize].map(|begun| now - begun);
        self.failures == 0 && since.is_none_or(|since| since >= every)
    }

    fn is_needed(&self, rate: Rate) -> bool {
        rate > self.capacity.map_or(LITTLE, |(_, [capacity, ..])| capacity.scale(NEEDED))
    }

    fn take(&mut self, now: Instant, probed: Probed) {
        self.failures = 0;
        if let Some(capacity) = probed.capacity {
            let is_same = self.capacity.is_some_and(|(_, before)| {
                (capacity[0].bps_f64() - before[0].bps_f64()).abs() <= SAME * before[0].bps_f64()
            });
            self.patience = if is_same { (self.patience * 2).min(PAIRS_EVERY) } else { PRESSED };
            self.capacity = Some((now, capacity));
        }
        if let Some(available) = probed.available {
            self.available = Some((now, available));
        }
    }

    /// A capacity that cannot be confirmed is not believed for long: the path may be another one.
    fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
        if self.failures > 2 {
            self.capacity = None;
        }
    }

    fn retry(&self) -> Duration {
        (RETRY * (1 << self.failures.saturating_sub(1).min(5))).min(PAIRS_EVERY)
    }
}

impl Input for Prober {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        for (side, found) in self.sides.iter() {
            for (quantity, known) in
                [(Quantity::Narrow, found.capacity), (Quantity::Available, found.available)]
            {
                let Some((at, [rate, low, high])) = known else { continue };
                facts.estimates.push(Estimate { source: SOURCE.into(), quantity, side, rate, low, high, at });
            }
        }
    }
}
