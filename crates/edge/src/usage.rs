//! How much of their shares flows use.

use headway_units::{Duration, PerSide};

use crate::allocator::share_rate;
use crate::{Load, Policy};

/// A flow that has this part of its share uses all of it. Range 0.6 to 0.9: windows are whole segments.
const USES: f64 = 0.8;
/// What is left in a second of the rate that a flow had, if it has less: who pauses keeps its
/// share for some seconds. Range 0 to 0.7.
const KEPT: f64 = 0.3;
/// What a connection leaves of its share towards each side until it was looked at. What has only begun costs
/// nothing: else whoever opens many connections would take the link from others.
pub(crate) const NEW: PerSide<f64> = PerSide([1.0; 2]);

/// Returns what a connection leaves of its share towards each side until it was looked at.
pub(crate) fn new_unused(policy: &Policy) -> PerSide<f64> {
    if policy.follows_rtt() { NEW } else { PerSide::default() }
}

/// What a flow uses of its share towards a side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    rate: f64,
}

impl Usage {
    /// Takes what it did in a time in which the queue of the link was this long, in s; returns what is left
    /// of its share, as [`Allocator::shares`](crate::Allocator::shares) has it, in parts of that.
    pub(crate) fn unused(&mut self, time: Duration, load: &Load, queue: f64, share: u64) -> f64 {
        self.rate = (self.rate * KEPT.powf(time.secs_f64())).max(load.asks_here(queue));
        match share_rate(share) {
            Some(share) => 1.0 - (self.rate / (USES * share.bps_f64())).min(1.0),
            None => 0.0,
        }
    }
}
