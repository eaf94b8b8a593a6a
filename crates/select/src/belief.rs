//! What is thought to be free on a path, and how that ages.
//!
//! The model is plain: what is free stays as it is until it changes, and then it is anything that this path
//! has had before, or might have. How often it changes is learned from answers that what was known before
//! does not explain. So an estimate loses weight with time, and faster where it was seen to change.

use headway_estimate::measure::Interval;
use headway_estimate::question::{NOISES, Reply};
use headway_units::{Duration, Instant, Rate};

use crate::distribution::{Distribution, POINTS, STEP, position, rate_at};

/// Before anything is known of a path, what is free there lasts so long. Range 1 minute to 1 hour.
const LASTS: f64 = 400.0;
/// After this time half of what was learned about changes, and of what a path has had, is forgotten. Range
/// 30 minutes to a week.
const FORGETS: f64 = 3.0 * 3_600.0;
/// Changes for each one that is seen: small ones look like none. Range 1 to 2.
const UNSEEN: f64 = 1.3;
/// What a path might have counts as much as what it has had for so many seconds. Range 60 to [`FORGETS`].
const MIGHT: f64 = 900.0;
/// Slow drift of what is free besides changes: its standard deviation after a minute, as a share. Range 0
/// to 0.1.
const DRIFT: f64 = 0.03;
/// Capacities of the tight link, in times of the rate that was asked for, while it is not known. Range 1
/// to 20.
const CAPACITIES: [f64; 5] = [1.05, 1.5, 2.2, 4.0, 8.0];
/// More than this many times the capacity is never free: measured ones may be low. Range 1 to 1.3.
const OVER: f64 = 1.1;
/// Likelihood of an answer that has nothing to do with the truth, of its best one. Range 0 to 0.1.
const STRAY: f64 = 0.003;
/// Exponent of the likelihood of a reply of several streams, which meet the same seconds: traffic is alike
/// for longer than the model thinks. Range 0.4 to 1.
const TEMPER: f64 = 0.85;
/// Degrees of freedom of the errors of intervals: tails are longer than those of the normal
/// distribution. Range 2 to 30.
const TAIL: f64 = 4.0;
/// The ends of a 90 % interval are so many standard deviations away (of the normal distribution).
const Z90: f64 = 1.645;
/// Standard deviation of what own traffic carries, as a share: it is counted over a few seconds. Range 0.04
/// to 0.3.
const CARRIED_ERROR: f64 = 0.1;
/// Likelihood of traffic that has passed although less is free: it has taken that from
/// others. Range 1e-6 to 0.01.
const CARRIED_STRAY: f64 = 1e-4;
/// Least standard deviation of an answer, as a share: one step of the grid, below which
/// rates are not told apart. Range 0.02 to 0.2.
const LEAST_ERROR: f64 = 0.04;

/// The part of each kind of noise that is forgotten with an answer, so that none is excluded for
/// ever. Range 0.001 to 0.1.
const NOISE_FORGETS: f64 = 0.02;

/// What is thought of a path.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    /// As of the last answer.
    settled: Distribution,
    at: Instant,
    /// What the path has had, weighted by seconds, and their sum.
    had: Vec<f64>,
    seconds: f64,
    /// Expected number of changes seen.
    changes: f64,
    capacity: Option<Rate>,
    noise: [f64; NOISES],
    is_known: bool,
}

impl Belief {
    pub(crate) fn new(now: Instant) -> Belief {
        Belief {
            settled: might(None),
            at: now,
            had: vec![0.0; POINTS],
            seconds: 0.0,
            changes: 0.0,
            capacity: None,
            noise: [1.0 / NOISES as f64; NOISES],
            is_known: false,
        }
    }

    /// Returns the capacity of the narrow link, if it is known.
    pub(crate) fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// Whether there was any answer.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the time since the last answer.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        (now - self.at).max(Duration::ZERO)
    }

    /// Returns when the last answer came.
    pub(crate) fn answered_at(&self) -> Instant {
        self.at
    }

    /// Returns how many changes are expected in a second.
    pub(crate) fn hazard(&self) -> f64 {
        UNSEEN * (1.0 + self.changes) / (LASTS + self.seconds)
    }

    /// Returns what is thought at `now`.
    pub(crate) fn at(&self, now: Instant) -> Distribution {
        let (still, changed) = self.alternatives(now);
        still.mixed(&changed, self.changed_by(now))
    }

    /// Returns the probability that what is free has changed since the last answer.
    fn changed_by(&self, now: Instant) -> f64 {
        1.0 - (-self.hazard() * self.age(now).secs_f64()).exp()
    }

    /// Returns what is thought if nothing has changed since the last answer, and if something has.
    fn alternatives(&self, now: Instant) -> (Distribution, Distribution) {
        let mut still = self.settled.clone();
        let steps = DRIFT / STEP.ln();
        still.blur(steps * steps * self.age(now).secs_f64() / 60.0);
        let might = might(self.capacity);
        let had: f64 = self.had.iter().sum();
        let changed = if had > 0.0 {
            let past = Distribution::of(|bps| self.had[position(bps).round() as usize]);
            might.mixed(&past, self.seconds / (self.seconds + MIGHT))
        } else {
            might
        };
        (still, changed)
    }

    /// Takes likelihoods of the rates.
    fn learn(&mut self, now: Instant, likelihood: &[f64]) {
        let (still, changed) = self.alternatives(now);
        let age = self.age(now).secs_f64();
        let before = self.changed_by(now);
        let ((still, as_before), (changed, otherwise)) = (still.given(likelihood), changed.given(likelihood));
        let (as_before, otherwise) = ((1.0 - before) * as_before, before * otherwise);
        let sum = as_before + otherwise;
        if sum <= 0.0 || !sum.is_finite() {
            return;
        }
        let has_changed = otherwise / sum;
        if self.is_known {
            self.remember(age, before, has_changed);
        }
        self.settled = still.mixed(&changed, has_changed);
        self.at = self.at.max(now);
        self.is_known = true;
    }

    /// Counts what was seen in the time since the last answer.
    fn remember(&mut self, age: f64, before: f64, has_changed: f64) {
        let kept = 0.5f64.powf(age / FORGETS);
        // If it has changed at all, perhaps more than once.
        let each = if before > 1e-9 { self.hazard() * age / before / UNSEEN } else { 1.0 };
        self.changes = kept * self.changes + has_changed * each;
        self.seconds = kept * self.seconds + age;
        for (sum, mass) in self.had.iter_mut().zip(self.settled.mass()) {
            *sum = kept * *sum + age * mass;
        }
    }

    /// Takes the reply to a question about one rate, asked while `own` traffic used the path; returns how
    /// likely it was at each rate.
    pub(crate) fn reply(&mut self, now: Instant, reply: &Reply, own: Rate) -> Vec<f64> {
        let capacities: Vec<Rate> = match self.capacity {
            Some(capacity) => vec![capacity.max(reply.rate.scale(0.5))],
            None => CAPACITIES.iter().map(|factor| reply.rate.scale(*factor)).collect(),
        };
        let all = self.likelihoods(reply, &capacities, own);
        let prior = self.at(now);
        let weigh = |noise: usize| -> f64 {
            all.iter().zip(prior.mass()).map(|(one, mass)| one[noise] * mass).sum::<f64>() * self.noise[noise]
        };
        let temper = if reply.streams > 1 { TEMPER } else { 1.0 };
        let likely = |one: &[f64; NOISES]| {
            one.iter().zip(&self.noise).map(|(one, weight)| one * weight).sum::<f64>().powf(temper)
        };
        let likelihood: Vec<f64> = all.iter().map(likely).collect();
        let weights: Vec<f64> = (0..NOISES).map(weigh).collect();
        let sum: f64 = weights.iter().sum();
        if sum > 0.0 && sum.is_finite() {
            // Noise changes, too, so that no kind of it becomes impossible.
            self.noise = std::array::from_fn(|kind| {
                (1.0 - NOISE_FORGETS) * weights[kind] / sum + NOISE_FORGETS / NOISES as f64
            });
        }
        let likelihood = with_stray(likelihood);
        self.learn(now, &likelihood);
        likelihood
    }

    /// Returns how likely a reply is at each rate, for each kind of noise.
    fn likelihoods(&self, reply: &Reply, capacities: &[Rate], own: Rate) -> Vec<[f64; NOISES]> {
        let mut all = vec![[0.0; NOISES]; POINTS];
        for point in (0..POINTS).step_by(2) {
            let free = Rate::from_bps_f64(rate_at(point)).saturating_sub(own);
            for capacity in capacities.iter().filter(|capacity| free <= capacity.scale(OVER)) {
                let ln = reply.ln_likelihoods(*capacity, free);
                let part = ln.map(|ln| ln.exp() / capacities.len() as f64);
                all[point].iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
        }
        // Neighbours hardly differ.
        for point in (1..POINTS - 1).step_by(2) {
            all[point] = std::array::from_fn(|kind| (all[point - 1][kind] + all[point + 1][kind]) / 2.0);
        }
        all
    }

    /// Returns the logarithm of how much more likely a reply is if streams of `rate` over another
    /// path took from this one.
    pub(crate) fn ln_shares(&self, now: Instant, reply: &Reply, rate: Rate, own: Rate) -> f64 {
        let Some(capacity) = self.capacity else { return 0.0 };
        let prior = self.at(now);
        let likelihood = |taken: Rate| -> f64 {
            let point = |(point, mass): (usize, &f64)| {
                let free = Rate::from_bps_f64(rate_at(point)).saturating_sub(own + taken);
                let each = reply.ln_likelihoods(capacity, free).map(f64::exp);
                let sum: f64 = each.iter().zip(&self.noise).map(|(one, weight)| one * weight).sum();
                mass * sum
            };
            prior.mass().iter().enumerate().filter(|(_, mass)| **mass > 1e-6).map(point).sum()
        };
        let (shared, alone) = (likelihood(rate), likelihood(Rate::ZERO));
        if shared > 0.0 && alone > 0.0 { (shared / alone).ln() } else { 0.0 }
    }

    /// Takes an interval of what is free besides `own` traffic, from a measurement or from traffic that is
    /// there anyway; returns how likely it was at each rate.
    pub(crate) fn interval(&mut self, now: Instant, interval: &Interval, own: Rate) -> Vec<f64> {
        let (rate, low) = ((interval.rate + own).bps_f64(), (interval.low + own).bps_f64());
        let error = |end: f64| ((end / rate).ln().abs() / Z90).clamp(LEAST_ERROR, 3.0);
        let below = error(low.max(rate * 1e-3).max(1.0));
        let above = interval.high.map(|high| error((high + own).bps_f64()));
        let likelihood = |point: usize| {
            let away = (rate_at(point) / rate.max(1.0)).ln();
            match above {
                _ if away < 0.0 => student(away / below),
                Some(above) => student(away / above),
                None => 1.0,
            }
        };
        let likelihood = with_stray((0..POINTS).map(likelihood).collect());
        self.learn(now, &likelihood);
        likelihood
    }

    /// Takes that at least so much is free: bytes that have passed are no estimate, so nothing is
    /// left of rates far below.
    pub(crate) fn at_least(&mut self, now: Instant, least: Rate) {
        let likelihood = |point: usize| {
            let below = (rate_at(point) / least.bps_f64().max(1.0)).ln().min(0.0) / CARRIED_ERROR;
            (-0.5 * below * below).exp().max(CARRIED_STRAY)
        };
        let likelihood: Vec<f64> = (0..POINTS).map(likelihood).collect();
        self.learn(now, &likelihood);
    }

    /// Takes the capacity of the narrow link.
    pub(crate) fn set_capacity(&mut self, capacity: Rate) {
        if !self.is_known {
            self.settled = might(Some(capacity));
        }
        self.capacity = Some(capacity);
    }
}

/// Returns what might be free: up to the capacity anything in equal parts, and by orders of magnitude.
fn might(capacity: Option<Rate>) -> Distribution {
    match capacity {
        Some(capacity) => {
            let most = capacity.bps_f64();
            Distribution::of(|bps| {
                let beyond = (bps / most - 1.0).max(0.0) / 0.03;
                (0.1 + bps / most) * (-0.5 * beyond * beyond).exp()
            })
        }
        None => Distribution::of(|bps| if (1e6..1e9).contains(&bps) { 1.0 } else { 0.02 }),
    }
}

/// Returns the density of Student's distribution, of that in its middle.
fn student(away: f64) -> f64 {
    (1.0 + away * away / TAIL).powf(-(TAIL + 1.0) / 2.0)
}

/// Returns likelihoods, the highest of which is one, with room for answers that mean nothing.
fn with_stray(mut likelihood: Vec<f64>) -> Vec<f64> {
    let most = likelihood.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        likelihood.iter_mut().for_each(|one| *one = (1.0 - STRAY) * *one / most + STRAY);
    }
    likelihood
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(seconds)
    }

    fn measured(mbps: f64) -> Interval {
        let rate = Rate::from_mbps(mbps);
        Interval { rate, low: rate.scale(0.9), high: Some(rate.scale(1.1)) }
    }

    #[test]
    fn an_estimate_loses_weight_with_time() {
        let mut belief = Belief::new(at(0.0));
        belief.set_capacity(Rate::from_mbps(50.0));
        belief.interval(at(0.0), &measured(20.0), Rate::ZERO);
        let near = |seconds: f64| {
            let now = belief.at(at(seconds));
            now.above(Rate::from_mbps(17.0)) - now.above(Rate::from_mbps(23.0))
        };
        assert!(near(0.0) > 0.8, "{}", near(0.0));
        assert!(near(300.0) < near(0.0) - 0.2 && near(300.0) > near(3_600.0), "{}", near(300.0));
    }

    #[test]
    fn where_it_changes_often_it_loses_weight_faster() {
        let hazard = |levels: [f64; 2]| {
            let mut belief = Belief::new(at(0.0));
            belief.set_capacity(Rate::from_mbps(50.0));
            for number in 0..120 {
                let mbps = levels[(number / 4) % 2];
                belief.interval(at(30.0 * number as f64), &measured(mbps), Rate::ZERO);
            }
            belief.hazard()
        };
        let (steady, moving) = (hazard([20.0, 20.0]), hazard([10.0, 40.0]));
        assert!(moving > 3.0 * steady, "{moving} {steady}");
        // Every 120 s.
        assert!((1.0 / 200.0..1.0 / 80.0).contains(&moving), "{moving}");
    }

    #[test]
    fn own_traffic_counts_as_free() {
        let mut belief = Belief::new(at(0.0));
        belief.set_capacity(Rate::from_mbps(50.0));
        belief.interval(at(1.0), &measured(5.0), Rate::from_mbps(25.0));
        let median = belief.at(at(1.0)).quantile(0.5).mbps();
        assert!((median - 30.0).abs() < 3.0, "{median}");
    }
}
