//! Chooses among paths by what they have free, and asks only what decides (wan 2.20).
//!
//! [`Selector`] does no I/O. It keeps a distribution for each path of what is free there, which loses weight
//! with time, and compares distributions: a path replaces another if it is better with 90 % odds by more
//! than a tolerance. It asks what raises the expected rate most for each byte: mostly whether one rate is
//! free on one path, which takes two or three streams ([`headway_estimate::question`]), and rarely for a
//! whole measurement. Whoever drives it sends, and tells what came of it; the command line and the simulator
//! drive the same object.
//!
//! # Decisions
//!
//! - **A path is chosen by distributions, not by points.** An estimate is mixed with what the path has had
//!   before, the more the older it is, so there is no separate rule for stale values.
//! - **Paths are compared by one number for each rate that may be free:** that rate, or how fast transfers
//!   are then. So odds, the worth of an answer and the next question follow from the same distributions for
//!   every strategy.
//! - **Bytes become dear when few are saved up,** so that some are left when a choice is open.
//! - **Own traffic is an answer only over seconds.** What it sends in one second may be in a queue, and what
//!   a stream meets beside a transfer that begins is that transfer.

mod ask;
mod belief;
mod bucket;
mod decide;
mod decision;
mod distribution;
mod hold;
mod multipath;
mod path;
mod presence;
mod purse;
mod selector;
mod settings;
mod shared;
mod snapshot;
mod spending;
mod stays;
mod transfer;
mod wishes;
mod worth;

pub use decision::{Decision, DecisionState, Why};
pub use distribution::Distribution;
pub use presence::Trouble;
pub use selector::{Action, Answer, Selector};
pub use settings::{Settings, Strategy, UnknownStrategy};
pub use snapshot::{PathState, Snapshot};
pub use spending::Spending;
pub use wishes::Wishes;
