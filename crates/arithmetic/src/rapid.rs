//! The sender of TCP Rapid: p-streams, denoising, the bandwidth estimate, and the rate that
//! follows it (rapid 2).
//!
//! Rates count all bytes on the wire, in bit/s, up to [`MAX_RATE`]; times are in ns.

mod acks;
mod clock;
mod config;
mod departures;
mod flight;
mod gaps;
mod sender;
mod stream;

pub use acks::{Acks, Packet};
pub use clock::{Clock, Stamps};
pub use config::{Config, Excursion, Preset, Thresholds, flags};
pub use departures::Departures;
pub use flight::{Ack, Flight, Sent};
pub use gaps::{Bound, Estimate, Gaps, Pass, Refusal};
pub use sender::Rapid;
pub use stream::{LineClock, Shape, Stream};

/// Packets in a p-stream, at most.
pub const MAX_PACKETS: usize = 192;
/// Rates in a p-stream, at most.
pub const MAX_RATES: usize = 8;
/// Largest rate, in bit/s: 550 Gb/s.
pub const MAX_RATE: u64 = 1 << 39;
/// Smallest rate, in bit/s.
pub const MIN_RATE: u64 = 100_000;
/// Longest send gap, in ns: 18 minutes.
pub const MAX_GAP: u64 = 1 << 40;
/// Largest packet on the wire, in bytes.
pub const MAX_PACKET: u32 = 65_573;

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    unsafe extern "C" {
        safe static headway_rapid_sizes: [u32; 12];
    }

    #[test]
    fn structures_are_as_large_as_in_c() {
        let sizes = [
            size_of::<super::Config>(),
            size_of::<super::Stream>(),
            size_of::<super::Gaps>(),
            size_of::<super::Pass>(),
            size_of::<super::Packet>(),
            size_of::<super::acks::State>(),
            size_of::<super::sender::State>(),
            size_of::<super::Estimate>(),
            size_of::<super::departures::State>(),
            size_of::<super::flight::State>(),
            size_of::<super::Sent>(),
            size_of::<super::clock::State>(),
        ];
        assert_eq!(headway_rapid_sizes.map(|size| size as usize), sizes);
    }
}
