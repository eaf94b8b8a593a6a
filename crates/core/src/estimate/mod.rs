//! From the gaps of a stream to the bandwidth that the path has left.

pub(crate) mod agreement;
pub(crate) mod belief;
pub mod excursion;
pub mod imr;
pub(crate) mod knee;
mod method;
mod normal;
pub mod null;
pub mod pathchirp;
pub mod pathload;
pub mod prc_mt;
pub(crate) mod reflected;
pub mod response;
pub mod trend;

pub use excursion::Excursion;
pub use method::{MultiRate, Scratch, Settings, SingleRate};
pub use pathchirp::PathChirp;
pub use pathload::RateSearch;
pub use prc_mt::LengthTuning;
pub use trend::Trend;

use crate::units::Rate;

/// How a stream's estimate relates to the rates that the stream probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// No congestion was seen at any rate: at least this much is available, possibly more.
    AtLeast,
    /// Congestion began and ended inside the stream's range of rates.
    Within,
    /// Congestion was seen at every rate: at most this much is available, possibly less.
    AtMost,
}

/// What one stream of several rates says about the available bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEstimate {
    /// The estimate, counting the same bytes as the packet size it was made with.
    pub rate: Rate,
    /// Whether the true value may lie beyond the rates probed.
    pub bound: Bound,
}

/// What one stream of a single rate says about that rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The rate is above the available bandwidth.
    Above,
    /// It is not.
    NotAbove,
    /// The stream does not tell.
    Ambiguous,
}
