//! What a sender writes into the header (xcp-rcp 2.1).

use headway_arithmetic::explicit::end;
pub use headway_arithmetic::explicit::end::{Request, Share};

use headway_units::{Bytes, Duration, Rate};

/// Converts an RTT or the time between packets for the header: s with 28 fraction bits, at most 16 s. What is
/// not positive is unknown and becomes 0; nothing else does.
pub fn to_header_time(time: Duration) -> u32 {
    positive(time).map_or(0, |time| end::header_time(time))
}

/// Returns the throughput of a window of `bytes` per `srtt`; zero while the RTT is unknown (xcp-rcp 2.1).
pub fn throughput(window: Bytes, srtt: Duration) -> Rate {
    positive(srtt).map_or(Rate::ZERO, |srtt| Rate::from_bps(end::throughput(window.get(), srtt)))
}

/// Returns the time between packets of `packet` bytes at a rate, X; zero at rate zero (xcp-rcp 2.1).
///
/// It is right also for senders with less than a packet per round trip, whose spacing exceeds the RTT.
pub fn spacing_at_rate(packet: Bytes, rate: Rate) -> Duration {
    Duration::from_ns(i64::try_from(end::spacing(packet.get(), rate.bps())).unwrap_or(i64::MAX))
}

/// Returns the share of a packet of `mss` bytes in the change from `throughput` to `desired`, of which all
/// packets of a round trip ask for the whole (xcp-rcp 2.1); none while the RTT is unknown.
pub fn share(throughput: Rate, desired: Rate, srtt: Duration, mss: Bytes) -> Share {
    let Some(srtt) = positive(srtt) else { return Share::default() };
    Share::new(throughput.bps(), desired.bps(), srtt, u32::try_from(mss.get()).unwrap_or(u32::MAX))
}

/// Returns a time that is known, in ns.
pub(super) fn positive(time: Duration) -> Option<u64> {
    u64::try_from(time.ns()).ok().filter(|ns| *ns > 0)
}
