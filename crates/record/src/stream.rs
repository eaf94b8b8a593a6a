//! The ground truth during a probe stream.

use headway_units::{Duration, Instant, Rate};

/// A probe stream, and the available bandwidth while it was in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTruth {
    /// Departure time of its first packet.
    pub sent: Instant,
    /// Its nominal average rate.
    pub rate: Rate,
    /// Packets sent, and packets lost.
    pub packets: (u32, u32),
    /// Capacity of the narrow link less the other traffic that left it between the first and the last packet
    /// of the stream (rapid 2.16); `None` when that cannot be determined.
    pub free: Option<Rate>,
    /// The largest delay that the probes added to another packet right behind one of the stream, summed over
    /// all links.
    pub added_delay: Duration,
}
