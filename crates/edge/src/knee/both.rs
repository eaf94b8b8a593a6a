//! What is tried where both directions have bulk.
//!
//! Data there waits behind ACKs and ACKs behind data, so that both leave at once, and each direction has
//! pauses (Zhang, Shenker and Clark, 1991). An RTT is that of both directions: what is tried in one
//! changes delays and what is delivered in the other, and experiments in turn only make both queues
//! longer. So there are none. Windows become wider where less is delivered than the direction carries,
//! within bounds, and narrower else.

use headway_units::Rate;

use super::Seen;
use crate::load::Passed;

/// How many times what the rate needs without a queue windows are at first, and at least and at most. Each
/// direction carries nine tenths with the first, and more than the last only adds to queues. Range 1 to 2,
/// and below and above that.
const WINDOWS: f64 = 1.4;
/// See [`WINDOWS`].
const RANGE: [f64; 2] = [0.5, 2.5];
/// The part of what it carries that a direction is to have, if that was given, and if it is the most that was
/// seen, which one look may have too high. Range 0.9 to 0.98.
const USES: [f64; 2] = [0.97, 0.94];
/// How fast windows become wider, in parts of what is missing in a second. Range 0.5 to 4.
const FOLLOWS: f64 = 2.0;
/// The other one has no more queue than it should if an RTT is less than so many without a
/// queue. Range 1.4 to 2.5.
const SHORT: f64 = 2.0;
/// What it has counts by this part where that is unknown, and neither it nor the other direction
/// has much of a queue: it may carry more. Range 0.3 to 0.7.
const MAY_HAVE_MORE: f64 = 0.5;
/// A direction with a queue of this part of the RTT without one is full, and more than that. Range 0.3
/// to 0.7, and 1 to 1.2.
const STANDS: f64 = 0.5;
/// See [`STANDS`].
const FULL: f64 = 1.05;
/// What is left for data at least, beside ACKs. Range 0.1 to 0.5.
const LEAST: f64 = 0.3;

/// What is tried in a direction while the other one has bulk, too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Both {
    /// How many times what it carries windows are; none while the other one has no bulk.
    windows: Option<f64>,
    /// The most that has passed since then, in bit/s.
    most: f64,
    /// What it carries of data.
    carries: f64,
}

impl Both {
    /// Takes what passed with the least RTT of both directions, what `besides`, what the direction is known
    /// to carry, and the highest rate that was seen before; returns what it carries of data, in bit/s, and
    /// how many times what that needs windows are to be.
    pub(crate) fn look(
        &mut self,
        (passed, least): (&Passed, f64),
        besides: Rate,
        goal: Option<Rate>,
        highest: f64,
    ) -> [f64; 2] {
        let besides = besides.bps_f64();
        let windows = self.windows.unwrap_or_else(|| {
            self.most = highest;
            WINDOWS
        });
        // No windows make such a queue if the direction carries what it did.
        if passed.is_told && passed.queue > windows * passed.least {
            self.most = 0.0;
        }
        self.most = self.most.max(passed.rate + besides);
        self.carries = goal.map_or((self.most - besides).max(LEAST * self.most), Rate::bps_f64);
        let is_short = passed.rtt < SHORT * passed.least && !Seen::of(passed).shows_queue();
        let may_have_more = goal.is_none() && is_short;
        let counts = if may_have_more { MAY_HAVE_MORE } else { 1.0 };
        let used = match passed.is_told && passed.queue > STANDS * passed.least.min(2.0 * least) {
            true => FULL,
            false => (counts * passed.rate / self.carries.max(1.0)).min(1.0),
        };
        let uses = USES[usize::from(goal.is_none())];
        let windows = windows * (1.0 + FOLLOWS * (uses - used) * passed.time);
        let windows = windows.clamp(RANGE[0], RANGE[1]);
        self.windows = Some(windows);
        [self.carries, windows]
    }

    /// Returns what the direction carries, if this has begun.
    pub(crate) fn carries(&self) -> Option<f64> {
        self.windows.map(|_| self.carries)
    }

    /// Returns the most that has passed, if this has begun, in bit/s.
    pub(crate) fn most(&self) -> Option<f64> {
        self.windows.map(|_| self.most)
    }

    /// Ends, if it has begun; returns what the direction carries.
    pub(crate) fn end(&mut self) -> Option<f64> {
        self.windows.take().map(|_| self.carries)
    }
}
