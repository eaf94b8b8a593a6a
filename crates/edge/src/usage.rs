//! How much of their shares flows use.

use headway_units::Rate;

use crate::MOST_CLASSES;
use crate::allocator::share_rate;

/// How many flows of each class would share, beside those that do, if none left anything of its share: towards each side, a sum of
/// parts of flows.
pub type Unused = [[f64; 2]; MOST_CLASSES];

/// A flow that has this part of its share uses all of it. Range 0.6 to 0.9: windows are whole segments.
const USES: f64 = 0.8;
/// What is left in a second of the rate that a flow had, if it has less: who pauses keeps its share for some seconds.
const KEPT: f64 = 0.8;
/// A flow that has begun says nothing about what it will use for so many seconds. Range 1 to 5: slow start is over then.
const BEGINS: u32 = 2;
/// What it leaves meanwhile. Most are short: if all of a share were kept for each, a page that opens one after the other would halve
/// a download. Where many begin at once, a quarter for each is enough. Range 0.5 to 0.9.
pub(crate) const NEW: [f64; 2] = [0.75; 2];

/// What a flow uses of its share towards a side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    rate: Rate,
    seconds: u32,
}

impl Usage {
    /// Takes what it would have had in a second; returns what is left of its share, as
    /// [`Allocator::shares`](crate::Allocator::shares) has it, in parts of that.
    pub(crate) fn unused(&mut self, asks: Rate, share: u64) -> f64 {
        self.seconds = self.seconds.saturating_add(1);
        self.rate = self.rate.scale(KEPT).max(asks);
        match share_rate(share) {
            Some(share) if self.seconds > BEGINS => {
                1.0 - (self.rate.bps_f64() / (USES * share.bps_f64())).min(1.0)
            }
            Some(_) => NEW[0],
            None => 0.0,
        }
    }
}
