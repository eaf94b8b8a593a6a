//! Passive estimation: capacity, available bandwidth and what limits a TCP transfer, from the segments and
//! ACKs that pass a tap (SABES, wan 2.8-2.12).
//!
//! A tap near the sender sees when segments leave and when their ACKs return; a tap near the receiver sees
//! when they arrive and when they are acknowledged. Either way the distance of ACKs in time shows the
//! distance of the segments behind the tight link. [`Transfer`] reads one direction of a connection: data
//! one way, ACKs the other. It does no I/O and reads no clock; the simulator and readers of captures feed it
//! the same [`Segment`]s.

mod anomalies;
mod batch;
mod capacity;
mod chain;
mod change;
mod flight;
mod handshake;
mod heuristic;
mod histogram;
mod interval;
mod learned;
mod limit;
mod limiter;
mod meter;
mod narrow;
mod on_the_way;
mod one_way;
mod pairs;
mod path;
mod reservoir;
mod round_trip;
mod sample;
mod segment;
mod settings;
mod transfer;
mod window_counts;
mod wire;

pub use anomalies::Anomalies;
pub use handshake::{Handshake, Opening};
pub use histogram::Histogram;
pub use limit::{Limit, Limits};
pub use meter::{Estimate, Judgement};
pub use narrow::Capacity;
pub use pairs::{PairCapacity, PairRefusal};
pub use path::{Passed, Path};
pub use reservoir::Reservoir;
pub use segment::{Flags, Segment, Way};
pub use settings::{Form, Settings, Side, Windows};
pub use transfer::Transfer;
pub use window_counts::{WindowCounts, WindowRefusal};
