//! What a sender writes into the header (xcp-rcp 2.1).

use headway_arithmetic::explicit::TIME_BITS;

use crate::units::{Bytes, Duration, Rate};

const NS_PER_S: i128 = 1_000_000_000;
/// Fraction bits of the rest that rounding leaves.
const FRACTION_BITS: u32 = 16;

/// Converts an RTT or the time between packets for the header: s with 28 fraction bits, at most 16 s. What is not
/// positive is unknown and becomes 0; nothing else does.
pub fn to_header_time(time: Duration) -> u32 {
    if time <= Duration::ZERO {
        return 0;
    }
    let units = ((i128::from(time.ns()) << TIME_BITS) + NS_PER_S / 2) / NS_PER_S;
    u32::try_from(units).unwrap_or(u32::MAX).max(1)
}

/// Returns the throughput of a window of `bytes` per `srtt`; zero while the RTT is unknown (xcp-rcp 2.1).
pub fn throughput(window: Bytes, srtt: Duration) -> Rate {
    Rate::of(window, srtt).unwrap_or(Rate::ZERO)
}

/// Returns the time between packets of `packet` bytes at a rate, X; zero at rate zero (xcp-rcp 2.1).
///
/// It is right also for senders with less than a packet per round trip, whose spacing exceeds the RTT.
pub fn spacing_at_rate(packet: Bytes, rate: Rate) -> Duration {
    if rate == Rate::ZERO { Duration::ZERO } else { rate.time_for(packet) }
}

/// The change of throughput that a sender of XCP asks for, packet by packet (xcp-rcp 2.1).
///
/// What rounding takes from one packet is asked for with the next, so the sum over a round trip is right however small
/// the parts are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    remainder: i128,
}

impl Request {
    /// Returns the share of the next packet in the change from `throughput` to `desired`, in B/s; 0 while the RTT is
    /// unknown.
    pub fn delta(&mut self, throughput: Rate, desired: Rate, srtt: Duration, mss: Bytes) -> i32 {
        if srtt <= Duration::ZERO {
            return 0;
        }
        let change = i128::from(desired.bps()) - i128::from(throughput.bps());
        // The product of the three parts fits for all rates below 2^46 b/s; beyond, the share is at its limit anyway.
        let numerator = change
            .saturating_mul(i128::from(mss.get().min(1 << 16)) * NS_PER_S)
            .saturating_mul(1 << FRACTION_BITS);
        let packets = (i128::from(throughput.bps()) * i128::from(srtt.ns())).max(1);
        let share = (numerator / packets).saturating_add(self.remainder);
        let whole = share.saturating_add(1 << (FRACTION_BITS - 1)) >> FRACTION_BITS;
        let delta = whole.clamp(-i128::from(i32::MAX), i128::from(i32::MAX));
        self.remainder = if delta == whole { share - (whole << FRACTION_BITS) } else { 0 };
        delta as i32
    }
}
