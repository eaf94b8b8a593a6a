//! What a phase does whose streams sample the available bandwidth: another one touches its own file and the
//! place that enters it.

use std::fmt::Debug;

use crate::stream::{Refusal, Schedule, StreamRecord};
use headway_learned::Outside;
use headway_units::{Bytes, Duration, Instant, Rate};

use super::answer::Interval;
use super::bucket::Account;
use super::delay::Baseline;
use super::mixture::Spread;
use super::probe::Probe;
use super::queue_limit::QueueLimit;
use super::{Change, PathKind};

/// What the next stream is planned by, besides the streams of the phase itself.
pub(super) struct Known<'a> {
    pub(super) account: &'a Account,
    pub(super) queue_limit: &'a QueueLimit,
    pub(super) baseline: &'a Baseline,
    /// Whether streams overflow a queue more often than other traffic should bear.
    pub(super) overflows: bool,
    /// Time since the last packet was to be sent.
    pub(super) since_sent: Duration,
    /// Time since the last report, and a round trip more.
    pub(super) since_report: Duration,
}

/// A stream that arrived.
pub(super) struct Received<'a> {
    pub(super) record: &'a StreamRecord,
    /// When its last packet arrived, half a round trip before the report.
    pub(super) at: Instant,
    /// Whether some of its packets overtook others.
    pub(super) overtaken: bool,
}

/// A phase that evaluates.
pub(super) trait Evaluation: Debug + Send {
    /// Returns the next stream; `None` once further ones are not worth their bytes.
    fn schedule(&self, known: &Known<'_>) -> Option<Schedule>;

    /// Adds a stream.
    fn observe(
        &mut self,
        stream: &Received<'_>,
        baseline: &Baseline,
        probe: &mut Probe,
    ) -> Result<(), Refusal>;

    /// Adds the last train of the measurement, if it tells more than that there is no policer.
    fn observe_last(&mut self, _: &Received<'_>, _: &mut Baseline, _: &mut Probe) {}

    /// Counts a stream that is of no use.
    fn refused(&mut self, _: Refusal) {}

    /// Discards all samples but keeps the estimate that determines the next rate: delays from before the step
    /// of a clock cannot be compared with later ones.
    fn restart(&mut self) {}

    /// Returns the answer so far as a distribution, where the method has one.
    fn spread(&self) -> Option<Spread> {
        None
    }

    /// Returns the answer so far.
    fn interval(&self) -> Option<Interval> {
        self.spread().map(Interval::from)
    }

    /// Returns whether there are enough streams for an answer if time is short.
    fn can_answer(&self) -> bool {
        self.interval().is_some()
    }

    /// Returns the latest available bandwidth.
    fn newest(&self) -> Option<Rate> {
        self.spread().map(|spread| spread.median)
    }

    /// Returns the kind of path, where the method determines it.
    fn path_kind(&self) -> Option<PathKind> {
        None
    }

    /// Returns the change of the available bandwidth, where the method detects one.
    fn change(&self) -> Option<Change> {
        None
    }

    /// Returns the capacity if these streams show it rather than the trains before them.
    fn capacity(&self) -> Option<Rate> {
        None
    }

    /// Returns the size of the token bucket that they exhaust.
    fn bucket(&self, _: &Account, _: &Baseline) -> Option<Bytes> {
        None
    }

    /// Returns why the streams are unlike those that a trained model has seen, if too many are for an answer.
    fn outside(&self) -> Option<Outside> {
        None
    }

    /// Returns whether delays vary on their own, which hides whether packets before a loss were delayed.
    fn is_jittery(&self) -> bool {
        false
    }
}
