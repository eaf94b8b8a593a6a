//! What was free while a probe stream was under way.

use headway_core::{Duration, Instant, Rate};

/// A stream that was sent, and what was free while it was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTruth {
    /// When its first packet left.
    pub sent: Instant,
    /// The average rate it was made with.
    pub rate: Rate,
    /// Packets sent, and packets lost.
    pub packets: (u32, u32),
    /// Capacity of the narrow link less the other packets that left it between the first and the last packet (rapid 2.16); `None`
    /// when that cannot be known.
    pub free: Option<Rate>,
    /// The longest that a packet of others, right behind one of the stream, had to wait because of the probing, on all links together.
    pub added_delay: Duration,
}
