//! The capacity of the narrow link from packets that TCP sends together anyway: ppdd without probes
//! (wan 2.15, 2.16, 6.2).
//!
//! In slow start, after a pause and with segmentation offload, a sender's packets leave together. Two ACKs
//! that follow each other are then a pair: the RTTs of the last packets that they acknowledge stand for the
//! one-way delays, and the time between them is the dispersion. So it needs no queue that stands, as trains
//! do (`narrow.rs`), and answers for transfers that their application limits. What makes a clean but wrong
//! number is refused: a token bucket lets a pair pass at the rate of its line, but not a burst.

use std::fmt;

use super::reservoir::Reservoir;
use super::settings::Settings;
use crate::ppdd::{self, Bandwidth, Pairs};
use crate::stream::Arrival;
use headway_units::{Bytes, Duration, Instant, Rate};

/// Most packets that the second ACK of a pair may acknowledge: receivers acknowledge each,
/// or every second one.
const MOST_PACKETS: usize = 2;
/// Pairs of each number of packets that are kept. Range 100 to 500: ppdd takes some 50 at little load, and
/// each takes 16 bytes.
const KEPT: usize = 200;
/// The fewest pairs and bursts for an answer. Range 12 to 50, and 2 to 8.
const FEWEST: usize = 20;
const FEWEST_BURSTS: usize = 3;
/// Of so many times as many ACKs, the fewest pairs should have left together. Range 2 to 10.
const PACED: u64 = 3;
/// A pair left within this part of the time in which it arrived, and a burst within this share. Range 3 to
/// 10, and 0.6 to 0.9: packets clocked by ACKs in slow start leave twice as fast as they arrive.
const TOGETHER: i64 = 4;
const FASTER: f64 = 0.8;
/// Packets of a burst. Range 6 to 10: the second ACK to the last one of an initial window of ten.
const BURST: f64 = 8.0;
const KEPT_BURSTS: usize = 128;
/// The share of the pairs' rate that one of four bursts must have. Range 0.4 to 0.7: other traffic slows
/// bursts by its load, buckets by far more.
const LEAST_BURST: f64 = 0.5;
/// The share that eleven of twelve must have. Range 0.05 to 0.2: what did not fit into a large bucket has far
/// less, and only other traffic of nine tenths does so, too.
const SLOWEST_BURST: f64 = 0.1;
/// The share of pairs that may be faster than the NIC, and by how much. As for samples (`batch.rs`).
const BATCHED: f64 = 0.1;
const IMPOSSIBLE: f64 = 1.1;
/// One of so many pairs has to pass the filter. Range 5 to 20: with the published six in all, the
/// noise of hosts decides.
const SELECTED: usize = 10;
/// The noise of stamps, and how far apart rates of one mode are. Range 1 to 20 us, and 0.003 to 0.02: of
/// hosts that are not busy.
const NOISE: Duration = Duration::from_us(2);
const WIDTH: f64 = 0.01;
/// How many times its lower end the upper end of an interval may be. Range 1.1 to 1.5: some pairs that a
/// bucket lets pass at the rate of its line show here.
const WIDEST: f64 = 1.2;
/// The error that all pairs may have in common, by headers and hosts. Range 0.01 to 0.03: over emulated links
/// the worst of 50 was 2.1 % off.
const COMMON: f64 = 0.025;

/// Why packets that were sent together do not tell the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum PairRefusal {
    /// The tap does not see when packets leave their sender.
    NoDepartures,
    /// There were fewer than twenty pairs of full packets, or three bursts.
    TooFew,
    /// Packets left no faster than they arrived.
    Paced,
    /// ACKs have the stamps of batches.
    Coalesced,
    /// Pairs arrived as fast as they had left: the narrow link is faster than they show.
    Unspread,
    /// Bursts were far slower than pairs, as behind a token bucket or beside much other traffic.
    SlowBursts,
    /// Pairs do not agree.
    Unclear,
    /// What passed in a second, or while there was a queue, tells otherwise.
    Contradicted,
}

impl PairRefusal {
    /// Returns the reason as a name for results, such as `slow-bursts`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for PairRefusal {
    /// Writes a phrase for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PairRefusal::NoDepartures => "departures not seen",
            PairRefusal::TooFew => "too few pairs",
            PairRefusal::Paced => "packets were paced",
            PairRefusal::Coalesced => "stamps coalesced",
            PairRefusal::Unspread => "pairs not spread",
            PairRefusal::SlowBursts => "bursts slower than pairs",
            PairRefusal::Unclear => "pairs disagree",
            PairRefusal::Contradicted => "contradicted",
        })
    }
}

/// The capacity that packets which were sent together tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairCapacity {
    /// The rate of the narrow link on the wire.
    pub rate: Rate,
    /// Lower end of the 90 % interval of resampled pairs, and of what all pairs may have in common.
    pub low: Rate,
    /// Its upper end.
    pub high: Rate,
    /// How many pairs there were in all.
    pub pairs: u64,
}

/// An ACK that advanced, and what it acknowledges.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairAck {
    pub(super) at: Instant,
    /// The time since the ACK before; `None` if it does not continue that.
    pub(super) gap: Option<Duration>,
    /// When the last packet that it acknowledges left; `None` if that was not seen, or it was sent again.
    pub(super) sent: Option<Instant>,
    /// Bytes on the wire since the ACK before, and how many full packets they are; 0 if not all are full.
    pub(super) bytes: f64,
    pub(super) packets: u32,
}

/// A pair: times in ns.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// RTT of the first packet.
    first: i64,
    left: u32,
    dispersion: u32,
}

/// A burst since the ACK of its first packet.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    sent: Instant,
    at: Instant,
    bytes: f64,
}

/// Collects the pairs of a transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct AckPairs {
    /// When the last packet left that is acknowledged.
    last: Option<Instant>,
    kept: [Reservoir<Kept>; MOST_PACKETS],
    /// ACKs that continued another one, and those that were faster than the NIC.
    seen: u64,
    impossible: u64,
    burst: Burst,
    bursts: Reservoir<f32>,
    /// What was found last, and from how many pairs.
    found: Option<(u64, Result<PairCapacity, PairRefusal>)>,
}

impl AckPairs {
    /// Takes an ACK that advanced; nothing is faster than `nic`.
    pub(super) fn add(&mut self, ack: &PairAck, nic: Rate) {
        let last = std::mem::replace(&mut self.last, ack.sent);
        let (Some(last), Some(sent), Some(gap)) = (last, ack.sent, ack.gap) else {
            self.burst = Burst { sent: ack.sent.unwrap_or_default(), at: ack.at, bytes: 0.0 };
            return;
        };
        self.extend(ack, sent);
        let Some(kept) = self.kept.get_mut((ack.packets as usize).wrapping_sub(1)) else { return };
        self.seen += 1;
        self.impossible += u64::from(ack.bytes * 8.0 > gap.secs_f64() * nic.bps_f64() * IMPOSSIBLE);
        let (left, first) = (sent - last, ack.at - gap - last);
        if left * TOGETHER <= gap
            && gap > Duration::ZERO
            && let (Ok(left), Ok(dispersion)) = (u32::try_from(left.ns()), u32::try_from(gap.ns()))
        {
            kept.push(Kept { first: first.ns(), left, dispersion }, KEPT);
        }
    }

    /// Adds what is acknowledged to the burst, or begins another one.
    fn extend(&mut self, ack: &PairAck, sent: Instant) {
        let Burst { sent: begin, at, bytes } = self.burst;
        let bytes = bytes + ack.bytes;
        let (left, took) = ((sent - begin).secs_f64(), (ack.at - at).secs_f64());
        let continues = ack.packets > 0 && left <= took * FASTER;
        if continues && bytes < BURST * ack.bytes / f64::from(ack.packets) {
            self.burst.bytes = bytes;
            return;
        }
        if continues && took > 0.0 {
            self.bursts.push((bytes * 8.0 / took) as f32, KEPT_BURSTS);
        }
        self.burst = Burst { sent, at: ack.at, bytes: 0.0 };
    }

    /// Looks for the capacity, if there are half as many pairs more than at the last look; `packet` is the
    /// size of a full packet on the wire.
    pub(super) fn look(&mut self, packet: f64, settings: &Settings) {
        let pairs = self.count();
        if self.found.is_none_or(|(before, _)| pairs > before + before / 2) {
            self.found = Some((pairs, self.search(packet, settings)));
        }
    }

    /// Returns the number of pairs so far.
    pub(super) fn count(&self) -> u64 {
        self.kept.iter().map(Reservoir::seen).sum()
    }

    /// Returns what the last look found.
    pub(super) fn found(&self) -> Result<PairCapacity, PairRefusal> {
        self.found.map_or(Err(PairRefusal::TooFew), |(_, found)| found)
    }

    fn search(&self, packet: f64, settings: &Settings) -> Result<PairCapacity, PairRefusal> {
        let groups = self.kept.iter().zip(0_u32..);
        let Some((kept, hidden)) = groups.max_by_key(|(kept, _)| kept.seen()) else {
            return Err(PairRefusal::TooFew);
        };
        if self.impossible as f64 > BATCHED * self.seen as f64 {
            return Err(PairRefusal::Coalesced);
        }
        if kept.kept().len() < FEWEST {
            let paced = self.seen >= PACED * FEWEST as u64;
            return Err(if paced { PairRefusal::Paced } else { PairRefusal::TooFew });
        }
        let bandwidth = Bandwidth::Relative(WIDTH);
        let alpha = kept.kept().len() / SELECTED;
        let ppdd = ppdd::Settings { alpha, bandwidth, quantum: NOISE, ..ppdd::Settings::quantiles() };
        let mut pairs = Pairs::of_trains(Bytes::new(packet.round() as u64), hidden, ppdd);
        for pair in kept.kept() {
            // Both delays are by one clock, so that times of pairs must not tell its skew.
            let arrival = |index, sent: u32, received: i64| Arrival {
                index,
                size: pairs.packet(),
                sent: Instant::from_ns(sent.into()),
                received: Some(Instant::from_ns(received.unsigned_abs())),
            };
            let [first, second] =
                [arrival(0, 0, pair.first), arrival(1, pair.left, pair.first + i64::from(pair.dispersion))];
            // One that is not in order is counted there.
            let _ = pairs.push(&first, &second);
        }
        let found = pairs.capacity().map_err(|_| PairRefusal::TooFew)?;
        if !found.is_clear() || found.high > found.low.scale(WIDEST) {
            return Err(PairRefusal::Unclear);
        }
        if found.rate > settings.nic {
            return Err(PairRefusal::Unspread);
        }
        let mut bursts = self.bursts.kept().to_vec();
        if bursts.len() < FEWEST_BURSTS {
            return Err(PairRefusal::TooFew);
        }
        bursts.sort_unstable_by(f32::total_cmp);
        let [slow, fast] = [1, 9].map(|twelfth| f64::from(bursts[bursts.len() * twelfth / 12]));
        if fast < LEAST_BURST * found.rate.bps_f64() || slow < SLOWEST_BURST * found.rate.bps_f64() {
            return Err(PairRefusal::SlowBursts);
        }
        let [low, high] = [found.low.scale(1.0 - COMMON), found.high.scale(1.0 + COMMON)];
        Ok(PairCapacity { rate: found.rate, low, high, pairs: kept.seen() })
    }

    /// Returns the bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        self.kept.iter().map(Reservoir::memory).sum::<usize>() + self.bursts.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: f64 = 1_538.0;

    /// Rounds of ten packets that leave together every 100 ms, acknowledged one by one over a path
    /// with an RTT of 20 ms; `service` is the time in ns after which the packet with this number
    /// follows the one before.
    fn rounds(count: u64, service: impl Fn(u64) -> u64) -> Result<PairCapacity, PairRefusal> {
        let settings = Settings::default();
        let mut pairs = AckPairs::default();
        let mut before = Instant::ZERO;
        for number in 0..count * 10 {
            let sent = Instant::from_ns(1_000_000_000 + number / 10 * 100_000_000);
            let is_first = number % 10 == 0;
            let at = if is_first {
                sent + Duration::from_ms(20)
            } else {
                before + Duration::from_ns(service(number) as i64)
            };
            let gap = (number > 0).then(|| at - before);
            pairs.add(&PairAck { at, gap, sent: Some(sent), bytes: PACKET, packets: 1 }, settings.nic);
            before = at;
        }
        pairs.look(PACKET, &settings);
        pairs.found()
    }

    #[test]
    fn packets_that_leave_together_arrive_at_the_rate_of_the_narrow_link() {
        // 1538 B in 123.04 us are 100 Mb/s. Another packet comes between those of one pair in three.
        let found = rounds(8, |number| 123_040 * if number % 3 == 1 { 2 } else { 1 }).unwrap();
        assert!((found.rate.mbps() - 100.0).abs() < 0.5, "{found:?}");
        assert!(found.low.mbps() < 100.0 && found.high.mbps() > 100.0 && found.pairs == 72, "{found:?}");
    }

    #[test]
    fn what_is_no_narrow_link_is_refused_with_a_reason() {
        let why = |found: Result<PairCapacity, PairRefusal>| found.unwrap_err();
        assert_eq!(why(rounds(2, |_| 123_040)), PairRefusal::TooFew);
        // A bucket of four packets at 800 Mb/s, then 20 Mb/s: most pairs agree on what no burst has.
        let bucket = |number| if number % 10 < 7 { 15_380 } else { 615_200 };
        assert_eq!(why(rounds(20, bucket)), PairRefusal::SlowBursts);
        // Rates from 30 to 300 Mb/s, each as often.
        assert_eq!(why(rounds(20, |number| 40_000 + number * 7_919 % 360_000)), PairRefusal::Unclear);
        assert_eq!(why(rounds(20, |_| 1_000)), PairRefusal::Coalesced);
    }

    #[test]
    fn packets_that_leave_one_by_one_show_nothing() {
        let mut pairs = AckPairs::default();
        for number in 0..200 {
            let sent = Instant::from_ns(1_000_000_000 + number * 123_040);
            let (at, gap) = (sent + Duration::from_ms(20), (number > 0).then(|| Duration::from_ns(123_040)));
            pairs.add(
                &PairAck { at, gap, sent: Some(sent), bytes: PACKET, packets: 1 },
                Settings::default().nic,
            );
        }
        pairs.look(PACKET, &Settings::default());
        assert_eq!(pairs.found(), Err(PairRefusal::Paced));
    }
}
