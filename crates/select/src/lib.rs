//! Chooses among paths by what they have free, and asks only what decides (wan 2.20).
//!
//! [`Selector`] does no I/O. It keeps a distribution for each path of what is free there, which loses weight with time, and compares
//! distributions: a path replaces another if it is better with 90 % odds by more than a tolerance. It asks what raises the expected rate
//! most for each byte: mostly whether one rate is free on one path, which takes two or three streams ([`headway_estimate::question`]),
//! and rarely for a whole measurement. Whoever drives it sends, and tells what came of it; the command line and the simulator drive the
//! same object.

mod ask;
mod belief;
mod bucket;
mod decide;
mod decision;
mod distribution;
mod hold;
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
