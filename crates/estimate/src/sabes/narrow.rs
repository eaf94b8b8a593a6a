//! The capacity of the narrow link, from trains of several lengths.
//!
//! Phase 1 as published (`Phase` in `capacity.rs`) takes the highest strong bin of a few samples. Repeated,
//! that rises with the length of a transfer, because a maximum does: packets that pass a token bucket, or
//! were held up together behind the link, are faster than it. So all samples count here, of the times only in
//! which there was a queue, and a capacity is a rate at which many trains agree and which few exceed. Short
//! trains are looked at first: between two packets there may be none of others. Where jitter or a bucket
//! spreads those, longer trains show the rate. Where none agree, there is no capacity.

use super::reservoir::Reservoir;
use super::sample::Step;
use headway_units::Rate;

/// Full packets in a train. Four times as many each, so that some length fits between a bucket
/// and a short transfer.
const LENGTHS: [f64; 4] = [1.0, 8.0, 32.0, 128.0];
/// Trains of each length that are kept. Range 64 to 1024: half of them give the rate within 1 %, but those
/// that stand out are few.
const KEPT: [usize; 4] = [512, 128, 128, 128];
/// The fewest trains of each length that can agree.
const FEWEST: [usize; 4] = [24, 12, 8, 6];
/// How far rates that agree are apart, as a share. Range 0.03 to 0.08: what is claimed is 5 %.
const WIDTH: f32 = 0.05;
/// The share of trains of each length that must agree. Packets of others come between most pairs at a load of
/// a half, but not all; of long trains that are slowed by others, hardly any are alike.
const SHARES: [f64; 4] = [0.3, 0.5, 0.6, 0.7];
/// The share of trains that is enough if they stand out, how many times fewer there must then be beside them,
/// and of how many: among few trains some are alike by chance. Range 0.05 to 0.2, 2 to 5, and 200 to 512.
const SHARP: f64 = 0.1;
const CONTRAST: usize = 3;
const MANY: usize = 400;
/// The largest share of trains that may be faster than those that agree by [`APART`]. Range 0.1 to 0.25:
/// nothing is faster than the link but by delays behind it.
const FASTER: f64 = 0.15;
/// How far a rate is from another one, as a share, so that a host's delays do not explain
/// it. Range 0.1 to 0.3.
const APART: f32 = 0.15;
/// The smallest share of a rate that all samples together must have. Range 0.1 to 0.3: others may use most of
/// a link, but what passes a token bucket at the rate of the line is followed by pauses.
const LEAST_MEAN: f64 = 0.15;
/// Trains of one packet between looks: a part of those before, and at least this many. Range
/// 2 to 8, and 4 to 16.
const LOOKS: u64 = 3;
const LEAST_LOOKS: u64 = 8;

/// The capacity of the narrow link of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// The median of the trains that agree.
    pub rate: Rate,
    /// The slowest of these trains.
    pub low: Rate,
    /// The fastest of these trains.
    pub high: Rate,
    /// How many samples there were in all.
    pub samples: u64,
}

/// A train that is not complete.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    bytes: f64,
    seconds: f64,
}

impl Train {
    fn add(&mut self, part: Train) {
        self.bytes += part.bytes;
        self.seconds += part.seconds;
    }

    /// Returns the rate in bits per second.
    fn rate(&self) -> f32 {
        (self.bytes * 8.0 / self.seconds) as f32
    }
}

/// Collects trains, and finds the capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Narrow {
    trains: [Train; LENGTHS.len()],
    rates: [Reservoir<f32>; LENGTHS.len()],
    all: Train,
    found: Option<Capacity>,
    /// The number of samples at which to look again.
    next: u64,
}

impl Narrow {
    /// What follows does not continue what was before.
    pub(super) fn restart(&mut self) {
        self.trains = Default::default();
    }

    /// Takes a step during which there was a queue; `packet` is the size of a full packet on the wire, and
    /// nothing is faster than `nic`.
    pub(super) fn add(&mut self, step: &Step, packet: f64, nic: Rate) {
        let mut part = Train { bytes: step.bytes, seconds: step.gap.secs_f64() };
        self.all.add(part);
        // A train that is complete is a part of the next longer one.
        let places = self.trains.iter_mut().zip(&mut self.rates).zip(LENGTHS).zip(KEPT);
        for (((train, rates), length), kept) in places {
            train.add(part);
            // A packet is smaller by options that only some carry.
            if train.bytes < (length - 0.1) * packet {
                break;
            }
            part = std::mem::take(train);
            rates.push(part.rate(), kept);
        }
        if self.rates[0].seen() >= self.next {
            self.look(nic);
        }
    }

    /// Returns the capacity as of the last look.
    pub(super) fn found(&self) -> Option<Capacity> {
        self.found
    }

    /// Looks for a capacity in all trains so far, if there are some more than at the last look.
    pub(super) fn look_early(&mut self, nic: Rate) {
        if self.next - self.rates[0].seen() < self.rates[0].seen() / LOOKS / 2 {
            self.look(nic);
        }
    }

    fn look(&mut self, nic: Rate) {
        self.found = self.search(nic);
        self.next = self.rates[0].seen() + (self.rates[0].seen() / LOOKS).max(LEAST_LOOKS);
    }

    fn search(&self, nic: Rate) -> Option<Capacity> {
        let most = self.all.rate() / LEAST_MEAN as f32;
        let rates = self.rates.iter().zip(FEWEST).zip(SHARES);
        let found = rates
            .filter(|((rates, fewest), _)| rates.kept().len() >= *fewest)
            .filter_map(|((rates, _), share)| mode(rates.kept(), share))
            .find(|[_, rate, _]| *rate <= most)?;
        let [low, rate, high] = found.map(|rate| Rate::from_bps_f64(rate.into()));
        (rate <= nic).then_some(Capacity { rate, low, high, samples: self.rates[0].seen() })
    }

    /// Returns the bytes of memory that it may use.
    pub(super) const fn memory() -> usize {
        let [short, long, longer, longest] = KEPT;
        size_of::<Narrow>() + (short + long + longer + longest) * size_of::<f32>()
    }
}

/// Ascending rates, and how many agree with each.
struct Sorted {
    rates: Vec<f32>,
    /// The end of those from each that are not faster by more than [`WIDTH`].
    ends: Vec<usize>,
}

impl Sorted {
    fn new(rates: &[f32]) -> Sorted {
        let mut rates = rates.to_vec();
        rates.sort_unstable_by(f32::total_cmp);
        let mut end = 0;
        let ends = rates.iter().map(|from| {
            end += rates[end..].iter().take_while(|rate| **rate <= from * (1.0 + WIDTH)).count();
            end
        });
        let ends = ends.collect();
        Sorted { rates, ends }
    }

    fn agree(&self, from: usize) -> usize {
        self.ends[from] - from
    }

    /// Returns the number of rates that are not above this one.
    fn below(&self, rate: f32) -> usize {
        self.rates.partition_point(|other| *other <= rate)
    }

    /// Returns where most agree of those places that are lower by no more than [`WIDTH`]. Of a broad mode,
    /// the highest part that is enough is not the middle.
    fn middle(&self, highest: usize) -> usize {
        let lowest = self.below(self.rates[highest] / (1.0 + WIDTH)).min(highest);
        (lowest..=highest).max_by_key(|from| self.agree(*from)).unwrap_or(highest)
    }

    /// Whether there are hardly any beside those that agree from here on.
    fn stands_out(&self, from: usize) -> bool {
        let (low, number) = (self.rates[from], self.agree(from));
        let before = from - self.below(low / (1.0 + WIDTH)).min(from);
        let behind = self.below(low * (1.0 + WIDTH) * (1.0 + WIDTH)) - self.ends[from];
        before.max(behind) * CONTRAST <= number
    }

    /// Returns the highest place from which so many agree that stand out, above another place.
    fn sharp(&self, needed: usize, above: Option<usize>) -> Option<usize> {
        let mut next = self.rates.len();
        while let Some(highest) = (0..next).rev().find(|from| self.agree(*from) >= needed) {
            let from = self.middle(highest);
            if Some(from) <= above {
                return None;
            }
            if self.stands_out(from) {
                return Some(from);
            }
            next = self.below(self.rates[from] / (1.0 + WIDTH)).min(from);
        }
        None
    }
}

/// Returns the slowest, the median and the fastest of the highest rates that agree; `None` if none do, or
/// too many are faster.
///
/// Either this share of all agree, or fewer that stand out.
fn mode(rates: &[f32], share: f64) -> Option<[f32; 3]> {
    let sorted = Sorted::new(rates);
    let count = rates.len();
    let of_all = |share: f64| (share * count as f64).ceil() as usize;
    let enough = (0..count).rev().find(|from| sorted.agree(*from) >= of_all(share));
    let enough = enough.map(|highest| sorted.middle(highest));
    let sharp = if count >= MANY { sorted.sharp(of_all(SHARP), enough) } else { None };
    let from = sharp.or(enough)?;
    let to = sorted.ends[from];
    let rate = sorted.rates[(from + to) / 2];
    let faster = count - sorted.below(rate * (1.0 + APART));
    (faster <= of_all(FASTER)).then(|| [sorted.rates[from], rate, sorted.rates[to - 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::{Duration, Instant};

    const NIC: Rate = Rate::from_bps(1_000_000_000);
    const PACKET: f64 = 1_538.0;

    /// The capacity in Mb/s after pairs of packets with these gaps, in us.
    fn capacity(gaps: impl IntoIterator<Item = f64>) -> Option<f64> {
        let mut narrow = Narrow::default();
        for gap in gaps {
            let gap = Duration::from_ns((gap * 1e3) as i64);
            narrow.add(
                &Step {
                    at: Instant::ZERO,
                    gap,
                    bytes: 2.0 * PACKET,
                    wait: None,
                    presses: true,
                    is_full: true,
                },
                PACKET,
                NIC,
            );
        }
        let used: usize = narrow.rates.iter().map(Reservoir::memory).sum();
        assert!(used + size_of::<Narrow>() <= Narrow::memory());
        narrow.found().map(|found| found.rate.mbps())
    }

    /// Numbers from 0 to 1 that look random.
    fn random() -> impl FnMut() -> f64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// Two packets at 10 Mb/s, us.
    const PAIR: f64 = 2_460.8;

    #[test]
    fn the_capacity_does_not_rise_with_the_length_of_a_transfer() {
        for pairs in [150, 1_500, 40_000] {
            let mut random = random();
            // One of twenty was held up behind the link together with the next.
            let mut late = 0.0;
            let found = capacity((0..pairs).map(|_| {
                let held = if random() < 0.05 { random() * 2_000.0 } else { 0.0 };
                PAIR + held - std::mem::replace(&mut late, held)
            }));
            let found = found.expect("nearly all agree");
            assert!((found / 10.0 - 1.0).abs() < 0.01, "{pairs} {found}");
        }
    }

    #[test]
    fn between_packets_of_others_pairs_show_the_link() {
        let mut random = random();
        let gaps = (0..2_000).map(|_| PAIR + if random() < 0.5 { PAIR * (1.0 + random()) } else { 0.0 });
        let found = capacity(gaps).expect("half of the pairs agree");
        assert!((found / 10.0 - 1.0).abs() < 0.01, "{found}");
    }

    #[test]
    fn a_source_whose_packets_come_between_most_pairs_does_not_hide_the_link() {
        // One packet of 40 Mb/s between four of five pairs, two at times.
        let mut random = random();
        let gaps = (0..2_000).map(|_| {
            let packets = [0.0, 1.0, 1.0, 1.0, 2.0][(random() * 5.0) as usize];
            (2.0 + packets) * 123.04
        });
        let found = capacity(gaps).expect("a fifth of the pairs stand out");
        assert!((found / 100.0 - 1.0).abs() < 0.01, "{found}");
    }

    #[test]
    fn jitter_is_averaged_over_longer_trains_or_there_is_no_capacity() {
        let with_jitter = |pairs: usize| {
            let mut random = random();
            let mut before = 0.0;
            capacity((0..pairs).map(move |_| {
                let jitter = random() * 2_000.0;
                PAIR + jitter - std::mem::replace(&mut before, jitter)
            }))
        };
        let found = with_jitter(3_000).expect("long trains agree");
        assert!((found / 10.0 - 1.0).abs() < 0.02, "{found}");
        assert!(with_jitter(40).is_none_or(|found| (found / 10.0 - 1.0).abs() < 0.05));
    }

    #[test]
    fn packets_that_pass_a_token_bucket_at_the_rate_of_the_line_are_no_capacity() {
        // 50 kB at 800 Mb/s, then a pause that the tokens need at 20 Mb/s.
        let line = PAIR / 80.0;
        let gaps = (0..4_000).map(|pair| if pair % 16 == 0 { 16.0 * PAIR / 2.0 - 15.0 * line } else { line });
        let found = capacity(gaps).expect("trains longer than the bucket agree");
        assert!((found / 20.0 - 1.0).abs() < 0.05, "{found}");
        assert_eq!(capacity([1.0; 200]), None, "faster than the NIC");
    }
}
