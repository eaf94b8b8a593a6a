//! Packet pairs, sent where trains do not show the capacity of the narrow link.
//!
//! Queues behind the narrow link change the gaps of a train: few of them are equal then, and their median is
//! not the packet time. Pairs that are far apart find these queues empty now and then, and their delays tell
//! which of them did (wan 2.16). The mode of the pairs with short delays is believed if the pair with the
//! shortest delays has its rate, and both packets of some pair were as fast as the fastest: otherwise no pair
//! may have found the queues empty (Kapoor et al., "CapProbe", SIGCOMM 2004).

use crate::locate::spacing::Spacing;
use crate::ppdd::{Pairs, Settings};
use crate::stream::{Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Rate};

use super::capacity::Capacity;

/// Pairs that have the estimated rate, the one with the shortest delays among them ...
const AGREEING: usize = 3;
/// ... within this share. Otherwise the median gap of the trains remains the better estimate.
const AGREE: f64 = 0.02;
/// Rounds of pairs, each as large as all trains together; the second one follows if too few
/// pairs of the first agree.
const ROUNDS: usize = 2;
/// All rounds together take at most this share of the budget.
const BUDGET_SHARE: f64 = 0.1;
/// Mean rate of a stream of pairs, as a share of the available bandwidth: queues drain between pairs.
const MEAN_RATE: f64 = 0.5;
/// Delays that differ by less than this share of a packet time are equal: at 100 Mb/s, this is about the
/// noise of stamps in a kernel.
const QUANTUM: f64 = 1.0 / 50.0;

/// Sends pairs and finds the capacity of the narrow link in them.
#[derive(Clone, Debug)]
pub(super) struct IsolatedPairs {
    trains: Capacity,
    available: Rate,
    seed: u64,
    tried: usize,
    pairs: Pairs,
}

impl IsolatedPairs {
    /// Creates pairs that follow these trains; `None` if the trains show the capacity, or if pairs would take
    /// too much of `budget`. The same seed gives the same times between pairs.
    pub(super) fn after(
        trains: &Capacity,
        available: Rate,
        budget: Bytes,
        seed: u64,
    ) -> Option<IsolatedPairs> {
        let most = trains.bytes() * ROUNDS as u64;
        if most.get() as f64 > BUDGET_SHARE * budget.get() as f64 {
            return None;
        }
        let packet_time = trains.scattered()?;
        let quantum = packet_time.scale(QUANTUM).max(Duration::from_ns(1));
        let pairs = Pairs::new(trains.packet(), Settings { quantum, ..Settings::default() });
        Some(IsolatedPairs { trains: trains.clone(), available, seed, tried: 0, pairs })
    }

    /// Returns the trains that were sent before.
    pub(super) fn trains(&self) -> &Capacity {
        &self.trains
    }

    /// Returns the next stream, which is as large as a train: pairs at the rate of the
    /// trains, with random pauses.
    pub(super) fn schedule(&self) -> Schedule {
        let train = self.trains.schedule();
        let packet_time = self.available.time_for(train.packet);
        let mean = packet_time.scale(2.0 / MEAN_RATE);
        let mut spacing = Spacing::new(self.seed.wrapping_add(self.tried as u64));
        let pairs = (train.packets() / 2).max(1);
        let mut gaps = Vec::with_capacity(2 * pairs - 1);
        gaps.push(train.gaps[0]);
        for _ in 1..pairs {
            gaps.push(spacing.gap(packet_time, mean));
            gaps.push(train.gaps[0]);
        }
        let time = gaps.iter().copied().sum();
        let average = Rate::of(train.packet * gaps.len() as u64, time).unwrap_or(train.average);
        Schedule { gaps, average, ..train }
    }

    pub(super) fn observe(&mut self, record: &StreamRecord) {
        self.tried += 1;
        self.pairs.add_stream(record);
    }

    pub(super) fn refused(&mut self) {
        self.tried += 1;
    }

    /// Returns whether no further pairs are worthwhile.
    pub(super) fn done(&self) -> bool {
        let round = self.trains.streams();
        self.tried >= round * ROUNDS || self.tried == round && self.capacity().is_some()
    }

    /// Returns the capacity of the narrow link, if enough pairs agree on it.
    pub(super) fn capacity(&self) -> Option<Rate> {
        let estimate = self.pairs.first(self.pairs.len()).ok().filter(|estimate| estimate.clean > 0)?.rate;
        let agrees = |rate: &Rate| (rate.bps_f64() / estimate.bps_f64() - 1.0).abs() <= AGREE;
        let dispersions = self.pairs.triplets().iter().map(|triplet| triplet.dispersion);
        let rates = dispersions.filter_map(|dispersion| Rate::of(self.pairs.packet(), dispersion));
        let enough = rates.filter(agrees).count() >= AGREEING;
        (enough && self.pairs.capprobe().is_some_and(|fastest| agrees(&fastest))).then_some(estimate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::probe::Probe;
    use crate::measure::{Config, Method};
    use crate::stream::Arrival;
    use headway_units::Instant;

    const PACKET: Bytes = Bytes::new(1_500);
    const AVAILABLE: Rate = Rate::from_bps(60_000_000);
    const BUDGET: Bytes = Bytes::new(3_000_000);

    /// Packets of `schedule`, of which number i is received `received(i)` us after the first was sent.
    fn record(schedule: &Schedule, received: impl Fn(u64) -> u64) -> StreamRecord {
        let mut sent = Instant::from_ns(1_000_000_000);
        let start = sent;
        let arrivals = (0..schedule.packets() as u64).map(|index| {
            sent += index.checked_sub(1).map_or(Duration::ZERO, |gap| schedule.gaps[gap as usize]);
            let received = Some(start + Duration::from_us(received(index) as i64));
            Arrival { index: index as u32, size: PACKET, sent, received }
        });
        let arrivals = arrivals.collect();
        StreamRecord {
            id: 0,
            packet: PACKET,
            average: schedule.average,
            intended: schedule.gaps.clone(),
            arrivals,
        }
    }

    /// When the packets of `schedule` leave, in us.
    fn sent_us(schedule: &Schedule) -> Vec<u64> {
        let mut sent = vec![0];
        sent.extend(schedule.gaps.iter().scan(0, |at, gap| {
            *at += gap.ns() as u64 / 1_000;
            Some(*at)
        }));
        sent
    }

    /// Trains whose gaps at the receiver are these in turn, in us.
    fn trains(gaps: [u64; 3]) -> Capacity {
        let config = Config {
            method: Method::Response,
            packet: PACKET,
            budget: None,
            gentle: false,
            duration: None,
            rtt: Duration::from_ms(20),
            top_rate: Rate::from_bps(1_000_000_000),
            train_rate: Rate::from_bps(1_000_000_000),
        };
        let mut trains = Capacity::new(&config, PACKET, AVAILABLE, None);
        let mut probe = Probe::default();
        while !trains.done() {
            let at = |index: u64| (0..index).map(|gap| gaps[gap as usize % 3]).sum::<u64>() + 500;
            let train = record(&trains.schedule(), at);
            trains.observe(&train, &mut probe).expect("a train");
        }
        trains
    }

    /// Sends all pairs over a link of 100 Mb/s; every `late`-th one meets a packet behind it.
    fn measured(mut pairs: IsolatedPairs, late: u64) -> IsolatedPairs {
        while !pairs.done() {
            let schedule = pairs.schedule();
            let sent = sent_us(&schedule);
            let at = |index: u64| {
                let queued = if index.is_multiple_of(late) { 70 + index } else { 0 };
                sent[index as usize / 2 * 2] + 500 + 120 * (index % 2) + queued
            };
            pairs.observe(&record(&schedule, at));
        }
        pairs
    }

    #[test]
    fn pairs_follow_only_trains_whose_gaps_differ() {
        let after = |gaps, budget| IsolatedPairs::after(&trains(gaps), AVAILABLE, budget, 1);
        assert!(after([120; 3], BUDGET).is_none());
        assert!(after([90, 120, 200], BUDGET).is_some());
        assert!(after([90, 120, 200], Bytes::new(500_000)).is_none(), "too expensive");
    }

    #[test]
    fn a_stream_of_pairs_is_as_large_as_a_train_and_leaves_pauses() {
        let trains = trains([90, 120, 200]);
        let pairs = IsolatedPairs::after(&trains, AVAILABLE, BUDGET, 1).expect("pairs");
        let schedule = pairs.schedule();
        assert!(schedule.packets() <= trains.schedule().packets());
        let least = AVAILABLE.time_for(PACKET);
        for (number, gap) in schedule.gaps.iter().enumerate() {
            let within = number % 2 == 0;
            assert!(
                if within { *gap == trains.schedule().gaps[0] } else { *gap >= least },
                "{number}: {gap:?}"
            );
        }
    }

    #[test]
    fn pairs_that_met_nothing_tell_the_capacity() {
        let pairs = IsolatedPairs::after(&trains([90, 120, 200]), AVAILABLE, BUDGET, 1).expect("pairs");
        let capacity = measured(pairs, 3).capacity().expect("a capacity");
        assert!((capacity.mbps() - 100.0).abs() < 2.0, "{capacity}");
    }

    #[test]
    fn without_agreement_the_trains_decide_after_two_rounds() {
        let mut pairs = IsolatedPairs::after(&trains([90, 120, 200]), AVAILABLE, BUDGET, 1).expect("pairs");
        let mut streams = 0;
        while !pairs.done() {
            let schedule = pairs.schedule();
            // All gaps are at least 5 % apart, and the first packets meet more and more others.
            let at = |index: u64| {
                let pair = index / 2 * 6 + streams;
                let gap = (100.0 * 1.05_f64.powi(pair as i32)) as u64;
                sent_us(&schedule)[index as usize / 2 * 2] + 500 + pair * 40 + gap * (index % 2)
            };
            pairs.observe(&record(&schedule, at));
            streams += 1;
        }
        assert_eq!(streams as usize, ROUNDS * pairs.trains().streams());
        assert_eq!(pairs.capacity(), None);
    }

    #[test]
    fn two_packets_that_pass_as_fast_as_they_were_sent_are_no_capacity() {
        // A shaper of 48 Mb/s that lets two packets pass at once: trains show it, pairs the line before it.
        let trains = trains([235, 250, 265]);
        assert!(trains.allows(Rate::from_bps(60_000_000)) && !trains.allows(Rate::from_bps(1_700_000_000)));
    }
}
