//! When a measurement looks for a policer, and what follows.

use crate::bend::bend;
use crate::stream::{Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::evaluation::Received;
use super::method::Method;
use super::phase::{CARRIED, Interrupted, Phase};
use super::policed::Policed;
use super::shaped::Shaped;
use super::shaper_search::Shaper;
use super::startup::Range;
use super::{Measurement, delay, probe};

/// The rate of the last train as a share of what is available: it must not fill a queue.
const BELOW: f64 = 0.97;
/// The same where losses have shown that the queue is short.
const FAR_BELOW: f64 = 0.9;
/// The same where the interval is wide, and on slow paths, where others wait for every packet.
const LEAST: f64 = 0.7;
const SLOW: Rate = Rate::from_bps(30_000_000);
/// Where "at least" is doubtful, this much of its rate is what seems to be available.
const DOUBTFUL: f64 = 0.9;
/// The last train exhausts a bucket of this size, and a few packets more, ...
const LARGEST_BUCKET: f64 = 300_000.0 + 60_000.0;
/// ... at a policer of this share of the capacity, through which all others pass, too.
const POLICED_SHARE: f64 = 0.8;
/// Size and duration of the longest train.
const LARGEST: f64 = 2_000_000.0;
const LONGEST: Duration = Duration::from_ms(1_200);
const LONGEST_SLOW: Duration = Duration::from_ms(800);
/// The second train that is to show a bend is this many times as long as the first one before its bend.
const BEHIND_BEND: f64 = 2.5;
/// A sustained rate is at most this share of the peak rate: otherwise there is no shaper.
const BELOW_PEAK: f64 = 0.95;
/// A shaper with a peak rate may cost this much more, because every stream exhausts the bucket, and
/// takes this much longer.
const SHAPED_EXTRA: Bytes = Bytes::new(2_000_000);
const SHAPED_TIME: Duration = Duration::from_ms(2_500);
/// A train of fewer packets would not be longer than other streams.
const MIN_PACKETS: u64 = 128;

impl Measurement {
    /// Begins the trains that decide about a policer if a stream was suspicious.
    pub(super) fn check_for_policer(&mut self, now: Instant) {
        let interruptible = matches!(self.phase, Phase::Capacity(_) | Phase::ShaperSearch(_))
            || self.phase.may_hide_policer();
        if self.config.method == Method::Response && interruptible && self.policer_search.is_suspicious() {
            self.policer_search.begin();
            self.interrupt(now, None);
        }
    }

    /// Begins the last train of a measurement, which looks for larger buckets than other streams exhaust.
    pub(super) fn begin_last_train(&mut self, now: Instant) -> Option<Schedule> {
        if !self.last_train_is_due() {
            return None;
        }
        self.policer_search.check();
        let train = self.no_longer(self.last_train(now)?);
        self.interrupt(now, Some(train.clone()));
        Some(train)
    }

    /// Returns whether streams are to leave a part of the budget for that train.
    pub(super) fn last_train_is_due(&self) -> bool {
        self.config.method == Method::Response
            && self.phase.may_hide_policer()
            && !self.phase.evaluation().is_some_and(|phase| phase.is_jittery())
            && !self.policer_search.is_checked()
            && self.stalls().is_none()
            && !self.harms()
            && !self.config.gentle
    }

    fn last_train(&self, now: Instant) -> Option<Schedule> {
        let available = self.available().ok()?;
        let capacity = self.capacity.unwrap_or(available.rate).max(available.rate).bps_f64();
        let share = match available.rate {
            // A slower one would not contradict "at least".
            _ if available.high.is_none() => BELOW,
            rate if rate < SLOW => LEAST,
            _ if self.queue_limit.is_known(&self.baseline) => FAR_BELOW,
            _ => BELOW,
        };
        // A policer below the interval need not be found at more than its lower end, where
        // bursts have more room.
        let rate = available.rate.scale(share).min(available.low.max(available.rate.scale(LEAST)));
        let behind_policer = available.rate.bps_f64() - (1.0 - POLICED_SHARE) * capacity;
        let kept = 1.0 - behind_policer.max(0.0) / rate.bps_f64().max(1.0);
        let bytes = if kept > 0.0 { (LARGEST_BUCKET / kept).min(LARGEST) } else { LARGEST };
        let longest = if available.rate < SLOW { LONGEST_SLOW } else { LONGEST };
        let longest = longest.min(self.time_left(now).unwrap_or(longest));
        let left = Bytes::new(self.budget().get().saturating_sub(self.tally.bytes.get()));
        let bytes = Bytes::new(bytes as u64).min(rate.bytes_in(longest)).min(left);
        let packet = probe::small_enough(self.config.packet, available.rate);
        let packets = (bytes.get() / packet.get().max(1)).min(super::MAX_STREAM_PACKETS.into());
        (packets >= MIN_PACKETS).then(|| Schedule::single_rate(rate, packets as usize - 1, packet))
    }

    /// Returns how much time the settings leave for a train, if they limit it.
    fn time_left(&self, now: Instant) -> Option<Duration> {
        let limits = self.config.duration.into_iter().chain(self.within).min()?;
        Some((limits - (now.max(self.ready) - self.started) - self.overhead).max(Duration::ZERO))
    }

    fn interrupt(&mut self, now: Instant, train: Option<Schedule>) {
        let (time, bytes) =
            train.as_ref().map_or_else(Default::default, |train| (train.duration(), train.bytes()));
        self.before_search = (now - self.started + time, self.tally.bytes + bytes);
        let phase = std::mem::replace(&mut self.phase, Phase::AtLeast(Rate::ZERO));
        self.phase = Phase::PolicerSearch(Box::new(Interrupted { phase, train }));
    }

    /// Looks for a shaper with a peak rate in the last train; returns whether the train is to be repeated, or
    /// has ended the phase.
    fn check_bend(&mut self, train: &Schedule, record: &StreamRecord) -> bool {
        let Some(bend) = bend(record) else { return false };
        let Phase::PolicerSearch(search) = &mut self.phase else { return false };
        let spread = search.phase.evaluation().and_then(|phase| phase.spread());
        let (Some(peak), Some(spread)) = (self.capacity, spread) else { return false };
        let Some(before) = self.bend.replace(bend) else {
            // A load that sets in bends a train, too, but not a second one at the same packet.
            let packets = (f64::from(bend.before) * BEHIND_BEND) as usize;
            let again = Schedule::single_rate(train.average, packets.min(train.gaps.len()), train.packet);
            search.train = Some(again);
            return true;
        };
        let (capacity, bytes) = bend.shaper(peak.saturating_sub(spread.median), record.packet);
        if !bend.is_at(&before) || capacity.bps_f64() > peak.bps_f64() * BELOW_PEAK {
            return false;
        }
        self.searched.0 += SHAPED_TIME;
        self.searched.1 += SHAPED_EXTRA;
        self.capacity = Some(capacity);
        let top = spread.median.scale(FAR_BELOW);
        let shaped = Shaped::new(record.packet, Shaper { capacity, bytes }, top).with_bends(&[before, bend]);
        self.phase = Phase::Evaluation(Box::new(shaped));
        self.sampled_from = None;
        true
    }

    /// Measures what is available after all if the last train was delayed more and more, or filled a queue:
    /// the streams that found "at least" may have met a pause between bursts.
    fn check_at_least(&mut self, now: Instant, record: &StreamRecord) {
        let growth = delay::trend(record);
        let filled = record.lost() > 0 && self.queue_limit.is_full_in(record, &self.baseline);
        if matches!(self.phase, Phase::AtLeast(_)) && (growth > CARRIED || filled) {
            self.measure_after_all(now, record.average.scale(1.0 / (1.0 + growth)));
        }
    }

    /// The same where streams have filled a queue, so that no train follows.
    pub(super) fn check_for_overflow(&mut self, now: Instant) {
        if let Some(rate) = self.phase.at_least().filter(|_| self.harms()) {
            self.measure_after_all(now, rate.scale(DOUBTFUL));
        }
    }

    /// Measures what is available, with a budget of its own, once.
    fn measure_after_all(&mut self, now: Instant, near: Rate) {
        if std::mem::replace(&mut self.is_doubtful, true) {
            return;
        }
        self.searched.0 += now - self.started;
        self.searched.1 += self.tally.bytes;
        self.enter(Range::Near(near));
    }

    /// Takes in a train, and continues with the method if it decides.
    pub(super) fn leave_policer_search(&mut self, now: Instant, record: &StreamRecord) {
        let Phase::PolicerSearch(search) = &mut self.phase else { return };
        if let Some(train) = search.train.take() {
            self.policer_search.notice(record, true, false);
            if !self.policer_search.is_suspicious() {
                if let Phase::Evaluation(phase) = &mut search.phase {
                    let train = Received { record, at: now - self.config.rtt / 2, overtaken: false };
                    phase.observe_last(&train, &mut self.baseline, &mut self.probe);
                }
                if !self.check_bend(&train, record) {
                    self.resume();
                    self.check_at_least(now, record);
                }
                return;
            }
            self.policer_search.begin();
        } else {
            self.policer_search.observe(record);
        }
        if let Some(policer) = self.policer_search.policer() {
            let mut policed = Policed::new(self.config.packet, policer, self.used_by_others(), self.longest);
            self.policer_search.trains().iter().for_each(|train| policed.add(train));
            self.phase = Phase::Evaluation(Box::new(policed));
            self.sampled_from = None;
        } else if !self.policer_search.open(self.harms()) {
            self.allow_search(now);
            self.resume();
            // Something else than a policer dropped the packets that made one likely.
            if let Some(rate) = self.phase.at_least() {
                self.measure_after_all(now, rate.scale(DOUBTFUL));
            }
        }
    }

    /// Returns the traffic of others on the narrow link, if streams have shown it.
    fn used_by_others(&self) -> Rate {
        let spread = self.phase.evaluation().and_then(|phase| phase.spread());
        self.capacity
            .zip(spread)
            .map_or(Rate::ZERO, |(capacity, spread)| capacity.saturating_sub(spread.median))
    }

    /// Allows as much more as a search took that found nothing, but not the bytes where others
    /// lose packets with them.
    fn allow_search(&mut self, now: Instant) {
        let (time, bytes) = self.before_search;
        self.searched.0 += now - self.started - time;
        if !self.harms() {
            self.searched.1 += Bytes::new(self.tally.bytes.get().saturating_sub(bytes.get()));
        }
    }

    /// Returns to the phase before the trains.
    pub(super) fn resume(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::AtLeast(Rate::ZERO));
        self.phase = match phase {
            Phase::PolicerSearch(search) => search.phase,
            phase => phase,
        };
    }
}
