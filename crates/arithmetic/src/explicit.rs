//! A queue of an explicit router: XCP, XCP-b, self-tuning kappa, ErrorS, WXCP and RCP (xcp-rcp 2).
//!
//! Times are in ns; RTT and X of the header in s with [`TIME_BITS`] fraction bits; rates in B/s and queues in
//! bytes, those in state and records with [`FRACTION_BITS`] fraction bits. The documentation of
//! `c/explicit.h` shows how the parts work together.

mod config;
pub mod end;
mod header;
mod queue;
mod record;
pub mod wire;

pub use config::{Config, Detector, Fault, Law, chi, flags};
pub use header::{ANY_RATE, Format, Header, VERSION_RCP, VERSION_XCP};
pub use queue::{Event, ExplicitQueue, Heard, Verdict};
pub use record::Record;

/// Fraction bits of rates and queues in state and records, and of parameters without a unit.
pub const FRACTION_BITS: u32 = 16;
/// One, with these fraction bits.
pub const ONE: u32 = 1 << FRACTION_BITS;
/// Fraction bits of RTT and X in the header, in s (xcp-rcp 1.4).
pub const TIME_BITS: u32 = 28;
/// Largest rate in B/s and largest queue in bytes.
pub const LARGEST: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    unsafe extern "C" {
        safe static headway_explicit_sizes: [u32; 4];
    }

    #[test]
    fn structures_are_as_large_as_in_c() {
        let sizes = [
            size_of::<super::Config>(),
            size_of::<super::Header>(),
            size_of::<super::Record>(),
            size_of::<super::queue::State>(),
        ];
        assert_eq!(headway_explicit_sizes.map(|size| size as usize), sizes);
    }
}
