//! Windows of samples and the estimates that they give.

use std::sync::Arc;

use super::batch::Batches;
use super::change::Change;
use super::heuristic::{self, FEWEST};
use super::interval::{self, Interval, Shown};
use super::learned::Judge;
use super::limit::Limit;
use super::sample::{Sample, Samples, Step};
use super::settings::{Form, Settings, Side, Windows};
use super::window_counts::{WindowCounts, WindowRefusal};
use headway_learned::{Model, Outside};
use headway_units::{Bytes, Duration, Instant, Rate};

/// A window is no longer than this (wan 2.10).
const LONGEST_WINDOW: Duration = Duration::from_ms(1_000);
/// A sample with a longer gap than this many RTTs says nothing (wan 2.8).
const LONGEST_GAP: i64 = 2;
/// The smallest share of the bytes of a window that must have passed while the path was the
/// limit. Range 0.3 to 0.8.
const LEAST_PRESSED: f64 = 0.5;
/// The smallest share of a window during which the queue of the tight link must not have been empty.
const LEAST_BUSY: f64 = 0.2;

/// An estimate of the available bandwidth from one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The end of the window.
    pub at: Instant,
    /// The length of the window.
    pub window: Duration,
    /// The available bandwidth: the capacity of the tight link minus its cross traffic, without the
    /// transfers that are observed.
    pub rate: Rate,
    /// Lower end of an interval made to hold the truth in 80 % of windows; it does in 94 % or more of those
    /// of E13, and in 73 % at worst beside one source that switches on and off.
    pub low: Rate,
    /// Upper end of that interval.
    pub high: Rate,
    /// Number of samples used.
    pub samples: u32,
    /// Bytes on the wire of all samples of the window.
    pub bytes: Bytes,
}

/// A window that the published rules have judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement<'a> {
    /// The end of the window.
    pub at: Instant,
    /// Its length.
    pub window: Duration,
    /// The capacity of the narrow link as known then.
    pub capacity: Rate,
    /// The rates of all its samples in bits per second, ascending.
    pub samples: &'a [f32],
    /// The rates without outliers: at least four.
    pub rates: &'a [f32],
    /// Whether it gave an estimate, which is the mean of the rates (Eq. 6.5).
    pub passed: bool,
}

/// The same without the rates, which stay with the samples.
#[derive(Clone, Copy, Debug)]
struct Judged {
    at: Instant,
    window: Duration,
    capacity: Rate,
    passed: bool,
}

/// What is known about the path when a window is evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) rtt: Option<Duration>,
    pub(super) capacity: Option<Rate>,
    pub(super) limit: Limit,
    /// Whether steps tell how long their segments waited in queues.
    pub(super) knows_waits: bool,
}

impl Known {
    /// Returns the longest gap of a sample.
    pub(super) fn longest_gap(&self) -> Duration {
        self.rtt.map_or(LONGEST_WINDOW, |rtt| rtt * LONGEST_GAP)
    }

    /// Returns by how much of a window its ACKs may be later than what they show, at most 1: by an RTT if the
    /// tight link is next to the tap.
    fn lateness(&self, window: Duration) -> f64 {
        self.rtt.map_or(1.0, |rtt| (rtt.secs_f64() / window.secs_f64()).min(1.0))
    }

    /// Returns why a window says nothing of the path, if it does not for what limits the transfer.
    fn refusal(&self) -> WindowRefusal {
        match self.limit {
            Limit::Application => WindowRefusal::ApplicationLimited,
            Limit::ReceiveWindow => WindowRefusal::WindowLimited,
            Limit::Path | Limit::Unknown => WindowRefusal::QueueEmpty,
        }
    }

    /// Returns the length of a window: an RTT, at most a second.
    fn window(&self) -> Duration {
        self.rtt.unwrap_or(LONGEST_WINDOW).min(LONGEST_WINDOW)
    }
}

/// Collects steps of one transfer, or of all over one path, and evaluates windows of them.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    settings: Settings,
    batches: Batches,
    samples: Samples,
    /// When the present tumbling window began.
    begin: Option<Instant>,
    /// Bytes on the wire acknowledged since `begin`, and the rate of the last complete window.
    recent: f64,
    throughput: Option<Rate>,
    /// The share of the last evaluated window during which the queue of the tight link was never empty.
    busy: f64,
    change: Change,
    counts: WindowCounts,
    judged: Option<Judged>,
    /// A trained model in place of the rules of the settings.
    learned: Option<Box<Judge>>,
}

impl Meter {
    pub(super) fn new(settings: &Settings) -> Meter {
        Meter {
            settings: *settings,
            batches: Batches::default(),
            samples: Samples::new(settings.samples),
            begin: None,
            recent: 0.0,
            throughput: None,
            busy: 0.0,
            change: Change::default(),
            counts: WindowCounts::default(),
            judged: None,
            learned: None,
        }
    }

    /// Lets a trained model judge windows from now on.
    pub(super) fn set_model(&mut self, model: Arc<Model>) {
        self.learned = Some(Box::new(Judge::new(model)));
    }

    pub(super) fn has_model(&self) -> bool {
        self.learned.is_some()
    }

    pub(super) fn outside(&self) -> Option<Outside> {
        self.learned.as_ref().and_then(|judge| judge.outside())
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn move_to(&mut self, side: Side) {
        self.settings.side = side;
    }

    /// Whether stamps come in batches.
    pub(super) fn is_batched(&self) -> bool {
        self.batches.active()
    }

    pub(super) fn counts(&self) -> &WindowCounts {
        &self.counts
    }

    pub(super) fn throughput(&self) -> Option<Rate> {
        self.throughput
    }

    pub(super) fn busy(&self) -> f64 {
        self.busy
    }

    pub(super) fn rates(&self) -> impl Iterator<Item = Rate> {
        self.samples.iter().map(|sample| Rate::from_bps_f64(sample.rate().into()))
    }

    /// Counts bytes on the wire that were acknowledged.
    pub(super) fn acknowledged(&mut self, bytes: f64) {
        self.recent += bytes;
    }

    /// Forgets the samples of the present window.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    /// The next step does not continue the one before.
    pub(super) fn restart(&mut self) {
        self.batches.clear();
    }

    /// Takes a step, alone or with the others of its batch, and calls `take` for what it gives:
    /// single steps and whole batches. `packet` is the size of a full packet on the wire. Returns
    /// whether there was a sample.
    pub(super) fn step(&mut self, step: Step, packet: f64, mut take: impl FnMut(&Step)) -> bool {
        if let Some(step) = self.batches.push(step, self.settings.nic) {
            return self.sample(&step, &mut take);
        }
        if self.batches.is_full() {
            return self.ungroup(packet, take);
        }
        false
    }

    /// Turns the complete batches seen so far into samples.
    fn ungroup(&mut self, packet: f64, mut take: impl FnMut(&Step)) -> bool {
        let mut batches = std::mem::take(&mut self.batches);
        let mut any = false;
        batches.drain(packet, self.settings.nic, |step| any |= self.sample(&step, &mut take));
        self.batches = batches;
        any
    }

    fn sample(&mut self, step: &Step, take: &mut impl FnMut(&Step)) -> bool {
        if step.gap <= Duration::ZERO {
            return false;
        }
        let gap = u32::try_from(step.gap.ns()).unwrap_or(u32::MAX);
        self.samples.push(Sample {
            at: step.at,
            gap,
            bytes: step.bytes as f32,
            busy: step.is_busy(),
            presses: step.presses,
        });
        take(step);
        true
    }

    /// Evaluates the sliding window that ends with an ACK.
    pub(super) fn slide(&mut self, at: Instant, known: &Known) -> Option<Estimate> {
        let length = known.window();
        self.samples.forget_before(at - length);
        self.throughput = Rate::of(Bytes::new(self.samples.bytes() as u64), length);
        let result = self.evaluate(at, length, known);
        self.counts.count(result)
    }

    /// Returns the end of the tumbling window that is over at `now`, if one is.
    pub(super) fn is_over(&mut self, now: Instant) -> Option<Instant> {
        let Windows::Tumbling(period) = self.settings.windows else { return None };
        let begin = *self.begin.get_or_insert(now);
        if now - begin >= period {
            return Some(begin + period);
        }
        // A step of the clock back begins a new window. Stamps that are only out of order do not.
        if begin - now > period {
            self.begin = Some(now);
        }
        None
    }

    /// Evaluates the tumbling window that ended at `end`.
    pub(super) fn tumble(
        &mut self,
        (end, now): (Instant, Instant),
        known: &Known,
        packet: f64,
        take: impl FnMut(&Step),
    ) -> Option<Estimate> {
        let Windows::Tumbling(period) = self.settings.windows else { return None };
        if self.batches.active() {
            self.ungroup(packet, take);
        }
        let bytes = Bytes::new(std::mem::take(&mut self.recent) as u64);
        self.throughput = Rate::of(bytes, period);
        self.begin = Some(if now - end < period { end } else { now });
        // A time without any ACK is no window of the transfer.
        if bytes == Bytes::ZERO {
            return None;
        }
        let length = match self.settings.form {
            Form::Literal => known.window().min(period),
            Form::Guarded => period,
        };
        self.samples.forget_before(end - length);
        let result = self.evaluate(end, length, known);
        self.samples.clear();
        self.counts.count(result)
    }

    fn evaluate(&mut self, at: Instant, window: Duration, known: &Known) -> Result<Estimate, WindowRefusal> {
        let guarded = self.settings.form == Form::Guarded;
        // Of a window with more samples than there is memory for, the last part is evaluated.
        let window = self.samples.begin_if_full().map_or(window, |begin| window.min(at - begin));
        let (found, samples) = if self.learned.is_some() {
            self.ask((at, window), known)?
        } else if guarded && known.knows_waits {
            self.busy_rate(at, window, known)?
        } else {
            self.mean((at, window), known)?
        };
        // What something else limits says nothing of the path, however its packets came together.
        if guarded && self.learned.is_none() && self.samples.pressed() < LEAST_PRESSED {
            return Err(known.refusal());
        }
        let Interval { rate, low, high } = found;
        let bytes = Bytes::new(self.samples.bytes() as u64);
        Ok(Estimate { at, window, rate, low, high, samples, bytes })
    }

    /// The rate while the queue of the tight link was never empty. All that it served then was observed or
    /// cross traffic, so this is the capacity minus the cross traffic, whatever the capacity is.
    fn busy_rate(
        &mut self,
        at: Instant,
        window: Duration,
        known: &Known,
    ) -> Result<(Interval, u32), WindowRefusal> {
        self.busy = 0.0;
        if self.samples.len() < FEWEST {
            return Err(self.too_few());
        }
        let busy = self.samples.busy();
        let share = busy.time / window.secs_f64();
        self.busy = share.min(1.0);
        if busy.samples < FEWEST || share < LEAST_BUSY {
            return Err(known.refusal());
        }
        let rate = busy.bits / busy.time;
        self.change.add(at, window, rate);
        let shown = Shown {
            rate,
            error: busy.error,
            busy: share,
            observed: busy.all_bits / window.secs_f64(),
            change: self.change.typical() * known.lateness(window),
        };
        let interval = interval::of_busy_rate(&shown, known.capacity.map(Rate::bps_f64));
        Ok((interval, busy.samples as u32))
    }

    /// The mean of the samples of a window, if their distribution is wide and symmetric.
    fn mean(
        &mut self,
        (at, window): (Instant, Duration),
        known: &Known,
    ) -> Result<(Interval, u32), WindowRefusal> {
        self.judged = None;
        let capacity = known.capacity.ok_or(WindowRefusal::NoCapacity)?;
        let rates = self.samples.rates(at - window, known.longest_gap());
        if rates.len() < FEWEST {
            return Err(self.too_few());
        }
        let mean = heuristic::judge(rates, capacity.bps_f64());
        self.judged = Some(Judged { at, window, capacity, passed: mean.is_ok() });
        let mean = mean?;
        Ok((interval::of_mean(mean.rate, capacity.bps_f64()), mean.kept.len() as u32))
    }

    /// What the model says of the samples of a window.
    fn ask(
        &mut self,
        (at, window): (Instant, Duration),
        known: &Known,
    ) -> Result<(Interval, u32), WindowRefusal> {
        let rates = self.samples.rates(at - window, known.longest_gap());
        match &mut self.learned {
            Some(judge) if rates.len() >= FEWEST => judge.judge(rates, known.capacity),
            _ => Err(self.too_few()),
        }
    }

    /// Returns the window that the published rules judged last; `None` if it had too few samples.
    pub(super) fn judgement(&self) -> Option<Judgement<'_>> {
        let Judged { at, window, capacity, passed } = self.judged?;
        let samples = self.samples.sorted();
        let rates = heuristic::without_outliers(samples);
        (rates.len() >= FEWEST).then_some(Judgement { at, window, capacity, samples, rates, passed })
    }

    fn too_few(&self) -> WindowRefusal {
        if self.batches.active() { WindowRefusal::StampsCoalesced } else { WindowRefusal::TooFewAcks }
    }

    pub(super) fn memory(&self) -> usize {
        let judge = self.learned.as_ref().map_or(0, |judge| judge.memory());
        self.batches.memory() + self.samples.memory() + judge
    }
}
