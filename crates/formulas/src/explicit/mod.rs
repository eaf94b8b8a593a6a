//! Explicit congestion control by formula (xcp-rcp 2.13, 2.14): RCP while the number of flows grows, and XCP
//! with a wrong capacity.
//!
//! Growth is the relative increase of the number of flows per d0, the round-trip time without queue.
//! Queues are given as multiples of C d0, the bytes that the link carries in that time;
//! [`queue_bytes`] converts them.

mod capacity_error;
mod crowd;
mod fluid;
mod search;
mod surge;

pub use capacity_error::CapacityError;
pub use crowd::{Above, Arrivals, Crowd, MAX_SHAPE};
pub use fluid::{Flows, Fluid, Point, STEPS, Trajectory};
pub use surge::{Limit, Surge, queue_bytes};
