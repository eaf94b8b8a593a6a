//! DualPI2: a queue with low latency for scalable senders, coupled to one for all others
//! (RFC 9332, appendix A).
//!
//! Packets with ECT(1) or CE wait in the L queue, all others in the C queue. A PI controller holds the delay
//! of the C queue at its target with a base probability p': packets of the C queue are marked or dropped with
//! p'^2, those of the L queue marked with k p', so that a scalable flow and a Reno flow get the same rate.
//! The L queue marks by itself once its own delay exceeds a ramp, which is far shorter than the target.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::pi::Pi;
use super::{Backlog, Discipline, Label, Packet, Verdict};
use crate::{QueueSpecError, require};
use headway_units::{Bytes, Duration, Instant};

/// Numbers of the two queues.
const CLASSIC: usize = 0;
const SCALABLE: usize = 1;
/// Number of the queues.
pub(super) const QUEUES: usize = 2;

/// Parameters of DualPI2; defaults are those of RFC 9332, appendix A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DualPi2Config {
    /// Target delay of the C queue; default 15 ms.
    pub target: Duration,
    /// Interval between updates of the base probability; default 16 ms.
    pub update: Duration,
    /// Weight of the deviation from the target in an update, in Hz; default 0.16.
    pub alpha: f64,
    /// Weight of the change since the last update, in Hz; default 3.2.
    pub beta: f64,
    /// Coupling factor k, 1 to 10; default 2.
    pub coupling: f64,
    /// Delay of the L queue from which on it marks by itself; default 800 us.
    pub ramp: Duration,
    /// Further delay over which this grows to all packets; default 400 us.
    pub range: Duration,
    /// Share of the link that the C queue gets at least while both have packets; default 1/16.
    pub classic_share: f64,
    /// Limit of both queues together in wire bytes; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit of both queues together in packets; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

impl Default for DualPi2Config {
    /// Returns the parameters of RFC 9332 without a limit.
    fn default() -> DualPi2Config {
        DualPi2Config {
            target: Duration::from_ms(15),
            update: Duration::from_ms(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            ramp: Duration::from_us(800),
            range: Duration::from_us(400),
            classic_share: 1.0 / 16.0,
            limit: None,
            packets: None,
        }
    }
}

impl DualPi2Config {
    /// Checks the parameters.
    pub(super) fn validate(&self) -> Result<(), QueueSpecError> {
        require(self.target > Duration::ZERO, "target", "must be above zero")?;
        require(self.update > Duration::ZERO, "update", "must be above zero")?;
        require((0.0..=1_000.0).contains(&self.alpha), "alpha", "must be from 0 to 1000 Hz")?;
        require((0.0..=1_000.0).contains(&self.beta), "beta", "must be from 0 to 1000 Hz")?;
        require((1.0..=10.0).contains(&self.coupling), "coupling", "must be from 1 to 10")?;
        require(self.ramp >= Duration::ZERO, "ramp", "must not be negative")?;
        require(self.range >= Duration::ZERO, "range", "must not be negative")?;
        let share = 0.0 < self.classic_share && self.classic_share < 1.0;
        require(share, "classic-share", "must be above 0 and below 1")
    }
}

/// Decides which packets get a signal, in equal distances instead of at random (RFC 9332, figure 5: `recur`).
#[derive(Clone, Copy, Debug, Default)]
struct Recurrence {
    sum: f64,
}

impl Recurrence {
    fn hits(&mut self, probability: f64) -> bool {
        self.sum += probability;
        let hits = self.sum > 1.0;
        if hits {
            self.sum -= 1.0;
        }
        hits
    }
}

/// Two coupled queues.
#[derive(Clone, Debug)]
pub struct DualPi2 {
    limit: Limit,
    config: DualPi2Config,
    /// The queue of the packet that is judged next.
    queue: usize,
    /// When the packets that wait in the C queue arrived, and how many wait in the L queue.
    classic: VecDeque<Instant>,
    scalable: u32,
    /// p', 0 to 1.
    base: f64,
    /// Follows the delay of the C queue.
    pi: Pi,
    classic_signals: Recurrence,
    scalable_marks: Recurrence,
    scalable_drops: Recurrence,
    /// Bytes, in units of shares, that the C queue may send before the L queue; negative
    /// while the L queue may.
    credit: f64,
}

impl DualPi2 {
    /// Creates two empty queues.
    pub(crate) fn new(config: &DualPi2Config) -> DualPi2 {
        DualPi2 {
            limit: Limit::new(config.limit, config.packets),
            config: config.clone(),
            queue: CLASSIC,
            classic: VecDeque::new(),
            scalable: 0,
            base: 0.0,
            pi: Pi::new(config.target, config.update, (config.alpha, config.beta)),
            classic_signals: Recurrence::default(),
            scalable_marks: Recurrence::default(),
            scalable_drops: Recurrence::default(),
            credit: 0.0,
        }
    }

    /// The next packet to be judged has this label; returns the number of its queue.
    pub(crate) fn label(&mut self, label: Label) -> usize {
        self.queue = if label.is_scalable { SCALABLE } else { CLASSIC };
        self.queue
    }

    /// Takes over a packet of the queue labelled last, which has waited since `arrived`.
    pub(crate) fn take_over(&mut self, arrived: Instant) {
        match self.queue {
            SCALABLE => self.scalable += 1,
            _ => self.classic.push_back(arrived),
        }
    }

    /// Returns the queue that sends next: the L queue, unless the C queue has got less than its share.
    /// `first` are the sizes of the first packets of both; `None` if both are empty.
    pub(crate) fn next_queue(&mut self, first: [Option<Bytes>; QUEUES]) -> Option<usize> {
        let share = self.config.classic_share;
        match first {
            [Some(classic), Some(_)] if self.credit > 0.0 => {
                self.credit -= (1.0 - share) * classic.get() as f64;
                Some(CLASSIC)
            }
            [Some(_), Some(scalable)] => {
                self.credit += share * scalable.get() as f64;
                Some(SCALABLE)
            }
            [classic, scalable] => {
                self.credit = 0.0;
                classic.map(|_| CLASSIC).or(scalable.map(|_| SCALABLE))
            }
        }
    }

    /// Makes the updates that have become due since the last packet.
    fn update(&mut self, now: Instant) {
        while let Some(due) = self.pi.due(now) {
            if self.classic.is_empty() && self.base == 0.0 && self.pi.delay() == Duration::ZERO {
                self.pi.skip(now);
            }
            let delay =
                self.classic.front().map_or(Duration::ZERO, |first| (due - *first).max(Duration::ZERO));
            self.base = (self.base + self.pi.update(delay)).clamp(0.0, 1.0);
        }
    }

    /// The probability by which the L queue marks because of its own delay, with packets behind
    /// the one that leaves.
    fn native(&self, waited: Duration) -> f64 {
        if self.scalable == 0 || waited < self.config.ramp {
            return 0.0;
        }
        let above = (waited - self.config.ramp).secs_f64();
        let range = self.config.range.secs_f64();
        if above >= range { 1.0 } else { above / range }
    }

    fn judge_scalable(&mut self, waited: Duration) -> Verdict {
        let coupled = self.config.coupling * self.base;
        if coupled >= 1.0 {
            // Saturated: senders do not react enough.
            if self.scalable_drops.hits(self.base * self.base) {
                return Verdict::Drop;
            }
            return Verdict::Mark;
        }
        let marks = self.scalable_marks.hits(self.native(waited).max(coupled));
        if marks { Verdict::Mark } else { Verdict::Accept }
    }

    fn judge_classic(&mut self, ect: bool) -> Verdict {
        let saturated = self.config.coupling * self.base >= 1.0;
        if !self.classic_signals.hits(self.base * self.base) {
            return Verdict::Accept;
        }
        Verdict::congested(ect && !saturated)
    }
}

impl Discipline for DualPi2 {
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        self.update(now);
        if !self.limit.admits(backlog, packet.size) {
            return Verdict::Drop;
        }
        self.take_over(now);
        Verdict::Accept
    }

    fn on_departure(
        &mut self,
        now: Instant,
        _backlog: &Backlog,
        waited: Duration,
        packet: &mut Packet<'_>,
    ) -> Verdict {
        self.update(now);
        if self.queue == SCALABLE {
            self.scalable = self.scalable.saturating_sub(1);
            return self.judge_scalable(waited);
        }
        self.classic.pop_front();
        self.judge_classic(packet.ect)
    }

    fn judges_departures(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::backlog;
    use super::*;

    const MS: fn(i64) -> Duration = Duration::from_ms;
    const SIZE: Bytes = Bytes::new(1500);

    fn scalable(is_scalable: bool) -> Label {
        Label { flow: 0, is_scalable }
    }

    /// A queue in which one packet of the C queue has waited since time zero, after updates until `ms`.
    fn after(ms: i64) -> DualPi2 {
        let mut queue = DualPi2::new(&DualPi2Config::default());
        queue.label(scalable(false));
        queue.on_arrival(Instant::ZERO, &backlog(0), &Packet::new(SIZE, false));
        queue.update(Instant::ZERO + MS(ms));
        queue
    }

    /// The share of 100 000 packets of one queue that get each verdict, with the base probability and
    /// a delay of `waited`.
    fn shares(base: f64, label: Label, ect: bool, waited: Duration) -> [f64; 3] {
        let config = DualPi2Config { alpha: 0.0, beta: 0.0, ..DualPi2Config::default() };
        let mut queue = DualPi2 { base, scalable: 1_000_000, ..DualPi2::new(&config) };
        let mut counts = [0.0; 3];
        for _ in 0..100_000 {
            queue.label(label);
            let verdict = queue.on_departure(Instant::ZERO, &backlog(0), waited, &mut Packet::new(SIZE, ect));
            counts[verdict as usize] += 1e-5;
        }
        counts
    }

    #[track_caller]
    fn near(found: [f64; 3], expected: [f64; 3]) {
        let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-4);
        assert!(close, "{found:?}, expected {expected:?}");
    }

    #[test]
    fn updates_are_those_of_the_rfc() {
        // p' += alpha (q - target) + beta (q - q'), with q of 16 and 32 ms at the first two updates.
        let first = 0.16 * 0.001 + 3.2 * 0.016;
        let second = first + 0.16 * 0.017 + 3.2 * 0.016;
        assert!((after(16).base - first).abs() < 1e-12, "{}", after(16).base);
        assert!((after(40).base - second).abs() < 1e-12, "{}", after(40).base);
        assert_eq!(after(15).base, 0.0);
        // With an empty queue it falls to zero, and updates cost nothing.
        let mut queue = after(40);
        queue.label(scalable(false));
        queue.on_departure(Instant::ZERO + MS(41), &backlog(0), MS(41), &mut Packet::new(SIZE, false));
        queue.update(Instant::ZERO + MS(1_000_000_000));
        assert_eq!(queue.base, 0.0);
    }

    #[test]
    fn scalable_packets_are_marked_k_times_the_base_and_others_by_its_square() {
        let short = Duration::from_us(100);
        near(shares(0.1, scalable(true), true, short), [0.8, 0.2, 0.0]);
        near(shares(0.1, scalable(false), true, MS(20)), [0.99, 0.01, 0.0]);
        near(shares(0.1, scalable(false), false, MS(20)), [0.99, 0.0, 0.01]);
        // From 50 % on the classic queue drops a quarter, whatever the packets say, and so
        // does the scalable one.
        near(shares(0.5, scalable(false), true, MS(20)), [0.75, 0.0, 0.25]);
        near(shares(0.5, scalable(true), true, short), [0.0, 0.75, 0.25]);
    }

    #[test]
    fn a_delay_within_the_ramp_marks_by_its_share() {
        for (us, share) in [(799, 0.0), (900, 0.25), (1_000, 0.5), (1_200, 1.0), (5_000, 1.0)] {
            let [accepted, marked, _] = shares(0.0, scalable(true), true, Duration::from_us(us));
            assert!(
                (marked - share).abs() < 1e-4 && (accepted + marked - 1.0).abs() < 1e-6,
                "{us}: {marked}"
            );
        }
    }

    #[test]
    fn the_scalable_queue_goes_first_but_leaves_the_other_its_share() {
        let mut queue = DualPi2::new(&DualPi2Config::default());
        let both = [Some(Bytes::new(1538)); 2];
        let classic = (0..16_000).filter(|_| queue.next_queue(both) == Some(CLASSIC)).count();
        assert!(classic.abs_diff(1_000) <= 1, "{classic}");
        assert_eq!(queue.next_queue([Some(SIZE), None]), Some(CLASSIC));
        assert_eq!(queue.next_queue([None, Some(SIZE)]), Some(SCALABLE));
        assert_eq!(queue.next_queue([None, None]), None);
    }
}
