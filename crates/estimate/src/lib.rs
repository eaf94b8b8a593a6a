//! Available bandwidth from the gaps of probe streams, and from what TCP connections show of themselves.
//!
//! [`stream`] has the gaps to send and the arrivals observed, [`denoise`] removes what interrupt coalescing and bursts do
//! to them, and there is a file or folder for each estimator. [`measure`] and [`locate`] are complete measurements,
//! sans-IO. Nothing here reads a clock, opens a socket or keeps global state: time and random numbers are arguments.
//!
//! References such as `rapid 2.9` name the section of `papers/rapid/spec.md` that a rule or constant comes from.

pub(crate) mod agreement;
pub(crate) mod belief;
pub(crate) mod bend;
pub mod denoise;
pub mod excursion;
pub mod hire;
pub mod imr;
pub mod kde;
pub(crate) mod knee;
pub mod locate;
pub mod measure;
mod method;
mod normal;
pub mod null;
pub mod offline;
pub(crate) mod onset;
pub mod pathchirp;
pub mod pathload;
pub mod ppdd;
pub mod prc_mt;
pub(crate) mod reflected;
pub mod response;
pub mod sabes;
pub mod series;
pub mod skew;
pub mod slcs;
pub mod stream;
pub mod tight;
pub mod trend;
pub mod vhf;

pub use excursion::Excursion;
pub use method::{MultiRate, Scratch, Settings, SingleRate};
pub use pathchirp::PathChirp;
pub use pathload::RateSearch;
pub use prc_mt::LengthTuning;
pub use stream::{Arrival, Gaps, Refusal, Schedule, Shape, StreamRecord, Train, TrainRecord, TrainSchedule};
pub use trend::Trend;

use headway_units::Rate;

/// The relation between a stream's estimate and the rates that the stream probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// No rate showed congestion: at least this much is available, possibly more.
    AtLeast,
    /// Congestion began or ended within the stream's range of rates.
    Within,
    /// Every rate showed congestion: at most this much is available, possibly less.
    AtMost,
}

/// An estimate of the available bandwidth from one multi-rate stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEstimate {
    /// The estimate, which counts the same bytes as the packet size it was computed with.
    pub rate: Rate,
    /// Whether the true value may lie beyond the rates probed.
    pub bound: Bound,
}

/// The verdict of one single-rate stream about its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The rate is above the available bandwidth.
    Above,
    /// The rate is not above the available bandwidth.
    NotAbove,
    /// The stream is inconclusive.
    Ambiguous,
}
