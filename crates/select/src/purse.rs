//! What may be spent on a path, and what a full measurement costs.

use headway_units::{Budget, Bytes, Instant};

use crate::settings::Settings;

/// What has not been spent is kept for this part of an hour, so that bytes are left when something changes.
/// Range 0 to 1.
const KEPT: f64 = 0.1;
/// What a full measurement costs, before the first one: a usual one up to 100 Mb/s. Range 1 to 10 MB.
const USUAL_MEASUREMENT: Bytes = Bytes::new(2_500_000);
/// A measurement that did not come to an end, as behind large token buckets, is repeated for
/// twice as much, so often. Range 0 to 4.
const RAISES: u32 = 2;
/// The most of an hour's budget that a full measurement may cost: questions need the rest. Range 0.3 to 0.9.
const MEASUREMENT_SHARE: f64 = 0.6;
/// The same before there was an answer, when nothing could be asked for with the rest. Range up to 1.
const FIRST_SHARE: f64 = 0.95;

/// The bytes that are there to measure a path.
#[derive(Clone, Debug)]
pub(crate) struct Purse {
    pub(crate) hour: Budget,
    pub(crate) month: Option<Budget>,
    /// Bytes that may be spent now, so that an hour's are not spent at once; and when that was computed.
    saved: f64,
    saved_at: Instant,
    /// What was spent since the beginning.
    pub(crate) total: Bytes,
    measurement_cost: Bytes,
    /// How often that was raised before there was an answer.
    raises: u32,
    pub(crate) measured_at: Option<Instant>,
}

impl Purse {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Purse {
        Purse {
            hour: Budget::hourly(settings.max_bytes_per_hour),
            month: settings.max_bytes_per_month.map(Budget::monthly),
            saved: settings.max_bytes_per_hour.get() as f64,
            saved_at: now,
            total: Bytes::ZERO,
            measurement_cost: USUAL_MEASUREMENT,
            raises: 0,
            measured_at: None,
        }
    }

    /// Returns how many bytes may be spent now.
    pub(crate) fn affordable(&mut self, now: Instant) -> Bytes {
        self.save(now);
        let hard = self.month.as_mut().map_or(u64::MAX, |month| month.left(now).get());
        Bytes::new((self.saved.max(0.0) as u64).min(self.hour.left(now).get()).min(hard))
    }

    /// Returns how much of what may be saved up is there, 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        let most = KEPT * self.hour.limit().get() as f64;
        (self.saved / most.max(1.0)).clamp(0.0, 1.0)
    }

    /// Returns what was spent in the last hour.
    pub(crate) fn spent(&mut self, now: Instant) -> Bytes {
        self.hour.spent(now)
    }

    /// Adds what has become available since the last time. What a first measurement did
    /// not need is kept, too.
    fn save(&mut self, now: Instant) {
        let limit = self.hour.limit().get() as f64;
        let added = self.pace(now) * (now - self.saved_at).secs_f64().max(0.0);
        let most = (KEPT * limit).max(self.measurement_cost().get() as f64);
        self.saved = if self.saved > most { self.saved } else { (self.saved + added).min(most) };
        self.saved_at = self.saved_at.max(now);
    }

    /// Returns how many bytes become available in a second: as many as make up the budget in an hour, or
    /// fewer, so that some are left until the first measurement is an hour ago.
    fn pace(&mut self, now: Instant) -> f64 {
        let period = self.hour.period().secs_f64();
        let usual = self.hour.limit().get() as f64 / period;
        let left = self.hour.left(now).get() as f64;
        let Some((oldest, _)) = self.hour.parts().next() else { return usual };
        usual.min(left / (period - (now - oldest).secs_f64()).max(1.0))
    }

    /// Counts what was sent.
    pub(crate) fn spend(&mut self, now: Instant, bytes: Bytes) {
        self.save(now);
        // After the first measurement the rest of the hour's bytes come one after the other.
        self.saved = self.saved.min(KEPT * self.hour.limit().get() as f64 + bytes.get() as f64);
        self.saved -= bytes.get() as f64;
        self.total += bytes;
        self.hour.spend(now, bytes);
        if let Some(month) = &mut self.month {
            month.spend(now, bytes);
        }
    }

    /// Returns the most that a full measurement may cost.
    pub(crate) fn measurement_cost(&self) -> Bytes {
        self.measurement_cost.min(self.most_for_measurement())
    }

    fn most_for_measurement(&self) -> Bytes {
        let share = if self.measured_at.is_some() { MEASUREMENT_SHARE } else { FIRST_SHARE };
        Bytes::new((self.hour.limit().get() as f64 * share) as u64)
    }

    /// Notes what a full measurement has cost: the next one costs about as much.
    pub(crate) fn measured(&mut self, now: Instant, bytes: Bytes) {
        self.measured_at = Some(now);
        let most = USUAL_MEASUREMENT.max(self.measurement_cost);
        self.measurement_cost = most.min(Bytes::new(bytes.get() * 5 / 4).max(Bytes::new(200_000)));
    }

    /// Notes that nothing can be read from packets for so many bytes; those of a full
    /// measurement were too few.
    pub(crate) fn unclear(&mut self, bytes: Bytes) {
        if self.measured_at.is_none() && bytes.get() >= self.measurement_cost().get() / 2 {
            self.raises += 1;
            self.measurement_cost = self.measurement_cost * 2;
        }
    }

    /// Whether questions about one rate can be asked: before a measurement it is unknown whether a token
    /// bucket passes them all.
    pub(crate) fn may_be_questioned(&self) -> bool {
        let is_most = self.measurement_cost > self.most_for_measurement();
        self.measured_at.is_some() || self.raises > RAISES || (self.raises > 0 && is_most)
    }
}
