//! Paths: the transfers between this side and one peer, in one direction.

use std::fmt;
use std::net::IpAddr;

use headway_estimate::sabes::{
    self, Anomalies, Capacity, Estimate, Histogram, Limit, PairCapacity, PairRefusal, Passed, Reservoir,
    Settings, Transfer, WindowRefusal,
};
use headway_units::{Duration, Instant, Rate};

use crate::conclude::Peak;
use crate::headers;

/// Most estimates of a path that are kept.
const KEPT: usize = 256;

/// Which transfers share a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Those whose peers are in the same network: /24 of IPv4, /56 of IPv6.
    #[default]
    Prefix,
    /// Those with the same peer.
    Address,
}

/// The direction of the data relative to the tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Direction {
    /// Towards the peer.
    #[default]
    To,
    /// From the peer.
    From,
}

impl Direction {
    /// Returns the direction as a name for results: `to` or `from`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The peers of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// A host.
    Host(IpAddr),
    /// A network, by its first address: /24 of IPv4, /56 of IPv6.
    Network(IpAddr),
    /// All that did not fit the table of paths.
    #[default]
    Others,
}

impl Peer {
    pub(crate) fn new(address: IpAddr, grouping: Grouping) -> Peer {
        match grouping {
            Grouping::Prefix => Peer::Network(headers::prefix(address)),
            Grouping::Address => Peer::Host(address),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Host(address) => write!(f, "{address}"),
            Peer::Network(address) => write!(f, "{address}/{}", if address.is_ipv4() { 24 } else { 56 }),
            Peer::Others => f.write_str("others"),
        }
    }
}

/// What identifies a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathKey {
    /// The hosts at its other end.
    pub peer: Peer,
    /// Where the data goes.
    pub direction: Direction,
}

/// What is free on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Free {
    /// The median of the estimates.
    pub rate: Rate,
    /// The median of the lower ends of their intervals.
    pub low: Rate,
    /// The median of the upper ends.
    pub high: Rate,
    /// The number of estimates.
    pub windows: u64,
    /// Bytes on the wire in their windows.
    pub bytes: u64,
}

/// Estimates from many windows, of which a bounded number is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimates {
    /// Rate, lower and upper end, bit/s.
    rates: Reservoir<[f32; 3]>,
    bytes: u64,
}

impl Estimates {
    pub(crate) fn push(&mut self, estimate: &Estimate) {
        self.rates.push([estimate.rate, estimate.low, estimate.high].map(|rate| rate.bps_f64() as f32), KEPT);
        self.bytes += estimate.bytes.get();
    }

    /// Returns medians; `None` without estimates.
    pub(crate) fn free(&self) -> Option<Free> {
        let median = |part: usize| {
            let mut rates: Vec<f32> = self.rates.kept().iter().map(|estimate| estimate[part]).collect();
            let middle = rates.len() / 2;
            let bps = |rates: &mut [f32]| *rates.select_nth_unstable_by(middle, f32::total_cmp).1;
            (!rates.is_empty()).then(|| Rate::from_bps_f64(bps(&mut rates).into()))
        };
        let [rate, low, high] = [median(0)?, median(1)?, median(2)?];
        Some(Free { rate, low, high, windows: self.rates.seen(), bytes: self.bytes })
    }

    fn memory(&self) -> usize {
        self.rates.memory()
    }
}

/// Times between segments and their ACKs at the tap, without those of segments that were sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// The shortest.
    pub least: Duration,
    /// The median, within 1/32.
    pub median: Duration,
    /// The 95th percentile, within 1/32.
    pub p95: Duration,
}

impl RoundTrips {
    pub(crate) fn of(times: &Histogram) -> Option<RoundTrips> {
        let (median, p95) = (times.quantile(0.5)?, times.quantile(0.95)?);
        Some(RoundTrips { least: times.least()?, median, p95 })
    }
}

/// Sums over transfers: windows, limits and anomalies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Windows that gave an estimate.
    pub used: u64,
    /// Windows refused, in the order of [`WindowRefusal::ALL`].
    pub refused: [u64; WindowRefusal::ALL.len()],
    /// For how long each limit held, in the order of [`Limit::ALL`]: of a transfer in seconds, of a path in
    /// bytes of payload that its transfers carried meanwhile.
    pub limits: [f64; Limit::ALL.len()],
    /// What went wrong.
    pub anomalies: Anomalies,
}

impl Sums {
    /// Returns the sums of one transfer.
    pub(crate) fn of(transfer: &Transfer) -> Sums {
        let limits = transfer.limits();
        Sums {
            used: transfer.windows().used(),
            refused: WindowRefusal::ALL.map(|reason| transfer.windows().refused(reason)),
            limits: Limit::ALL.map(|limit| limits.time(limit).secs_f64()),
            anomalies: transfer.anomalies(),
        }
    }

    pub(crate) fn merge(&mut self, other: &Sums) {
        self.used += other.used;
        self.refused.iter_mut().zip(other.refused).for_each(|(sum, more)| *sum += more);
        self.limits.iter_mut().zip(other.limits).for_each(|(sum, more)| *sum += more);
        self.anomalies.merge(other.anomalies);
    }

    /// Divides this many bytes between the limits as they held in time; returns whether any did.
    pub(crate) fn weigh_limits(&mut self, bytes: f64) -> bool {
        let total: f64 = self.limits.iter().sum();
        let each = if total > 0.0 { bytes / total } else { 0.0 };
        self.limits.iter_mut().for_each(|limit| *limit *= each);
        total > 0.0
    }

    /// Returns what was added since these sums were `earlier`.
    pub(crate) fn since(&self, earlier: &Sums) -> Sums {
        let mut sums = *self;
        sums.used -= earlier.used;
        sums.refused.iter_mut().zip(earlier.refused).for_each(|(sum, before)| *sum -= before);
        // The end of a burst may change its limit.
        sums.limits.iter_mut().zip(earlier.limits).for_each(|(sum, before)| *sum = (*sum - before).max(0.0));
        sums.anomalies = sums.anomalies.since(earlier.anomalies);
        sums
    }

    /// Returns the share, 0 to 1, for which a limit held; 0 if none is known.
    pub fn share(&self, limit: Limit) -> f64 {
        let total: f64 = self.limits.iter().sum();
        if total > 0.0 { self.limits[limit as usize] / total } else { 0.0 }
    }

    /// Returns the limit with the largest share; `None` if none is known.
    pub fn main_limit(&self) -> Option<Limit> {
        let longest = Limit::ALL.into_iter().max_by(|a, b| self.share(*a).total_cmp(&self.share(*b)));
        longest.filter(|limit| self.share(*limit) > 0.0)
    }

    /// Returns the most frequent reason for which windows were refused.
    pub fn main_refusal(&self) -> Option<WindowRefusal> {
        let reason = WindowRefusal::ALL.into_iter().max_by_key(|reason| self.refused[*reason as usize])?;
        (self.refused[reason as usize] > 0).then_some(reason)
    }
}

/// Bytes and packets of data on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets, after segmentation.
    pub packets: u64,
    /// Bytes on the wire.
    pub wire: u64,
}

/// A path while its transfers are observed.
#[derive(Debug, Default)]
pub(crate) struct Path {
    /// Directions of connections in the table that belong to it.
    pub(crate) live: u32,
    /// All transfers so far.
    pub(crate) transfers: u64,
    pub(crate) volume: Volume,
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) capacity: Option<Capacity>,
    /// What packets that left together tell of the capacity, in the transfer with most of them.
    pub(crate) pairs: Option<Result<PairCapacity, PairRefusal>>,
    /// How many there were.
    pub(crate) paired: u64,
    /// The most that passed in a second.
    pub(crate) peak: Peak,
    /// Whether the ends of its transfers are the same host.
    pub(crate) is_loopback: bool,
    /// Whether a trained model judges their windows.
    pub(crate) by_model: bool,
    pub(crate) estimates: Both,
    /// Of all transfers, as of the last interval for those in the table.
    pub(crate) sums: Sums,
    /// Since the last interval: estimates, and what the totals were then.
    pub(crate) recent: Both,
    pub(crate) volume_before: Volume,
    pub(crate) sums_before: Sums,
    /// Times between segments and their ACKs, before and since the last interval.
    pub(crate) round_trips: Histogram,
    pub(crate) recent_round_trips: Histogram,
    /// RTT of the transfer with the most data, when it was looked at last.
    pub(crate) rtt: Option<Duration>,
    /// All transfers taken together, while there are several.
    pub(crate) together: Option<Box<sabes::Path>>,
}

/// Estimates of transfers by themselves, to which the others are cross traffic, and of all taken together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Both {
    single: Estimates,
    together: Estimates,
}

impl Both {
    /// Returns what the traffic that is not in the capture leaves free; `None` without estimates.
    pub(crate) fn free(&self) -> Option<Free> {
        self.together.free().or_else(|| self.single.free())
    }

    fn memory(&self) -> usize {
        self.single.memory() + self.together.memory()
    }
}

/// Returns the capacity of more samples. The largest of many would be that of the largest error.
fn surer(known: Option<Capacity>, found: Capacity) -> Option<Capacity> {
    Some(known.filter(|known| known.samples > found.samples).unwrap_or(found))
}

impl Path {
    pub(crate) fn new(at: Instant) -> Path {
        Path { first: at, last: at, ..Path::default() }
    }

    /// Adds a transfer with the data that it had so far; while there are several, they are
    /// also taken together.
    pub(crate) fn join(&mut self, settings: &Settings, volume: Volume) {
        self.live += 1;
        self.transfers += 1;
        self.volume.packets += volume.packets;
        self.volume.wire += volume.wire;
        if self.live > 1 && self.together.is_none() {
            let mut together = sabes::Path::new(settings);
            together.learn(self.capacity.map(|capacity| capacity.rate), self.rtt);
            self.together = Some(Box::new(together));
        }
    }

    /// Removes a transfer.
    pub(crate) fn leave(&mut self) {
        self.live -= 1;
        if self.live == 0 {
            self.together = None;
        }
    }

    /// A transfer that has left, with its data so far, never was on this path.
    pub(crate) fn give_up(&mut self, volume: Volume) {
        self.transfers -= 1;
        self.volume.packets -= volume.packets;
        self.volume.wire -= volume.wire;
        // An interval may have ended since its first data.
        self.volume_before.packets = self.volume_before.packets.min(self.volume.packets);
        self.volume_before.wire = self.volume_before.wire.min(self.volume.wire);
    }

    /// Takes an estimate of a transfer by itself.
    pub(crate) fn estimate(&mut self, estimate: &Estimate) {
        self.estimates.single.push(estimate);
        self.recent.single.push(estimate);
    }

    /// Takes the capacity that a transfer has found.
    pub(crate) fn learn(&mut self, capacity: Capacity) {
        self.capacity = surer(self.capacity, capacity);
    }

    /// Takes what the last segment of a transfer acknowledged.
    pub(crate) fn pass(&mut self, passed: &Passed, transfer: &Transfer) {
        let Some(together) = &mut self.together else { return };
        together.learn(transfer.capacity(), transfer.rtt());
        if let Some(estimate) = together.observe(passed) {
            if let Some(found) = together.narrow_link() {
                self.capacity = surer(self.capacity, found);
            }
            self.estimates.together.push(&estimate);
            self.recent.together.push(&estimate);
        }
    }

    /// Returns the times between segments and their ACKs since the last interval, which ends now.
    pub(crate) fn end_round_trips(&mut self) -> Option<RoundTrips> {
        let recent = std::mem::take(&mut self.recent_round_trips);
        self.round_trips.merge(&recent);
        RoundTrips::of(&recent)
    }

    /// Returns the bytes that the path uses while there are several transfers.
    pub(crate) fn shared_memory(&self) -> usize {
        self.together.as_ref().map_or(0, |together| together.memory())
    }

    /// Returns the bytes that estimates use.
    pub(crate) fn memory(&self) -> usize {
        let round_trips = self.round_trips.memory() + self.recent_round_trips.memory();
        self.estimates.memory() + self.recent.memory() + round_trips
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Bytes;

    fn estimate(mbps: f64) -> Estimate {
        let rate = Rate::from_mbps(mbps);
        Estimate {
            at: Instant::ZERO,
            rate,
            low: rate.scale(0.5),
            high: rate.scale(2.0),
            samples: 9,
            window: Duration::ZERO,
            bytes: Bytes::new(100),
        }
    }

    #[test]
    fn a_bounded_number_of_estimates_keeps_the_median() {
        let mut estimates = Estimates::default();
        assert_eq!(estimates.free(), None);
        for k in 0..100_000 {
            estimates.push(&estimate(f64::from(k % 1_001)));
        }
        assert!(estimates.rates.kept().len() <= KEPT);
        let free = estimates.free().unwrap();
        assert_eq!((free.windows, free.bytes), (100_000, 10_000_000));
        assert!((free.rate.mbps() - 500.0).abs() < 60.0, "{}", free.rate);
        assert!((free.low.mbps() * 2.0 - free.rate.mbps()).abs() < 1e-3);
    }
}
