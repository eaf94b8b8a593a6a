//! A choice among parallel paths for hours or days, and how good it was.
//!
//! The truth is a mean rate of cross traffic for every link and time. Packets, by the same network as in all
//! runs, exist only around questions, measurements and transfers, so that a day takes a minute. The selector
//! is the one that chooses among live paths.

mod contestant;
mod packets;
mod runs;
mod timeline;
mod users;
mod window;
mod world;

pub use contestant::{Contestant, GET, IPERF, LONGEST_GET, wire};
pub use packets::{Chooser, PacketLink, PacketPath, PacketRun, PacketWorld, Statement};
pub use runs::{Selections, world};
pub use timeline::{Score, Timeline};
pub use users::Fetches;
pub use world::{Moves, MovingLink, MovingPath, PathsWorld};
