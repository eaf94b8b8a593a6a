//! Location of the narrow link with trains whose inner packets die on the way (HIRE, wan 2.17 to 2.19).
//!
//! A train is a first packet, hidden packets that expire at hop t, and a last packet. The links up to t
//! serialise all of it, later links only the two survivors. So the dispersion of the survivors falls as t
//! falls below the narrow link: the first step marks it.

mod decision;
mod model;
mod search;

pub use decision::{Location, Rule, Unlocated};
pub use model::{dispersion, hidden_for};
pub use search::{Search, Settings, Step, train};

use crate::Bound;
use crate::ppdd::{Insufficient, Pairs};
use headway_units::Rate;

/// A prefix's capacity above this share of the highest one that trains can show is at that limit.
const LIMIT: f64 = 0.97;

/// The reason why trains do not tell the capacity of the links that their hidden packets crossed (wan F66).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NotMeasured {
    /// Too few trains passed the filter.
    #[error(transparent)]
    Insufficient(#[from] Insufficient),
    /// The links did not spread the trains beyond the spacing at which they were sent.
    #[error("trains were sent no faster than these links carry them, {0}")]
    NotSpread(Rate),
    /// The narrow link alone spread the survivors: m > (H + 1) C_n.
    #[error(
        "{hidden} hidden packets show at most {limit} above this narrow link, {needed} or more are needed"
    )]
    TooFewHidden {
        /// Hidden packets per train, H.
        hidden: u32,
        /// The highest capacity that they can show, (H + 1) C_n.
        limit: Rate,
        /// A number that shows twice as much.
        needed: u32,
    },
}

/// Estimates the capacity of the narrowest of the links that hidden packets crossed, from `trains` of which
/// they all expired at the same hop before the narrow link (wan 2.19).
///
/// `narrow` is the capacity of the narrow link. About 1000 trains are needed where the path is loaded.
///
/// # Errors
/// Says which condition the trains do not meet.
pub fn prefix_capacity(trains: &Pairs, narrow: Rate) -> Result<Rate, NotMeasured> {
    let capacity = trains.capacity()?;
    let limit = narrow.scale(f64::from(trains.hidden()) + 1.0);
    if capacity.rate > limit.scale(LIMIT) {
        let needed = 2 * trains.hidden() + 1;
        return Err(NotMeasured::TooFewHidden { hidden: trains.hidden(), limit, needed });
    }
    if capacity.bound == Bound::AtLeast {
        return Err(NotMeasured::NotSpread(capacity.rate));
    }
    Ok(capacity.rate)
}

#[cfg(test)]
mod tests;
