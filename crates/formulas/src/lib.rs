//! Closed formulas: windows, rates and queues of equal flows that share a link (ls-aimd 1.1, 2.19, 4.6), and
//! token-bucket shapers (wan 2.6); a saturated 802.11 channel (xcp-rcp 6.3); in [`explicit`] the limits and
//! queues of routers that tell rates.

mod bucket;
mod dcf;
pub mod explicit;
mod increase;
mod shared_link;
mod tables;

pub use bucket::{TokenBucketShaper, highest_rate, least_burst};
pub use dcf::SaturatedChannel;
pub use increase::{Constants, Constraint, CutOrder, Increase, growth_exponent};
pub use shared_link::{DELTA, FRAME_OVERHEAD, SEGMENT_OVERHEAD, SharedLink};
pub use tables::{WINDOW_TABLES, WindowTable};
