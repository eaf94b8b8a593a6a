//! The cross traffic of rapid's Table 3.1, built from host pairs.
//!
//! The captures behind the table are not public. Web traffic is therefore modelled as browsers for each pair
//! of hosts, behind the pair's 1 Gb/s line. The mean rate, the mean file size of 100 KB and the number of
//! browsers are published. The access rate, at which a file is sent, is calibrated so that the 5 % and 95 %
//! quantiles of 1 ms samples agree with the table. Files last from milliseconds to seconds, so larger time
//! scales are bursty too. Nothing reacts to the network.

use headway_units::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;

use super::batches::Batches;
use super::cbr::Cbr;
use super::distribution::Lognormal;
use super::egress::{Bucket, Egress};
use super::web::Web;
use super::{Emission, FULL_PACKET, Generator, Kind, MEAN_FILE, SPREAD};
use crate::random::generator;

/// Line rate of every host that sends cross traffic (rapid 4.0).
const LINE: Rate = Rate::from_bps(1_000_000_000);
/// Browsers of a pair: 2500 with 4 sessions each (rapid 4.0).
const BROWSERS: u32 = 10_000;

/// Web traffic of several pairs of hosts.
pub(super) struct WebProfile {
    pairs: u32,
    /// Mean rate of all pairs together (Table 3.1).
    mean: Rate,
    /// Rate at which a file is sent; calibrated.
    access: Rate,
    /// Token bucket of each pair: rate and burst.
    bucket: Option<(Rate, Bytes)>,
}

/// B-CT, bursty: nine pairs.
pub(super) const BCT: WebProfile = WebProfile {
    pairs: 9,
    mean: Rate::from_bps(2_510_000_000),
    access: Rate::from_bps(330_000_000),
    bucket: None,
};
/// S-CT, smooth: B-CT with a token bucket in every pair.
///
/// The bucket's 300 KB are published; its rate is calibrated. At the published 289 Mb/s, 4 % above the
/// mean of a pair, our pairs would nearly always be backlogged and their sum smoother than in the table
/// (1.98 to 2.90 Gb/s).
pub(super) const SCT: WebProfile = WebProfile {
    mean: Rate::from_bps(2_490_000_000),
    bucket: Some((Rate::from_bps(345_000_000), Bytes::new(300_000))),
    ..BCT
};
/// The first trace of a campus link, replayed by ten hosts.
pub(super) const UNC1: WebProfile = WebProfile {
    pairs: 10,
    mean: Rate::from_bps(3_100_000_000),
    access: Rate::from_bps(105_000_000),
    bucket: None,
};
/// The second trace.
pub(super) const UNC2: WebProfile =
    WebProfile { mean: Rate::from_bps(2_750_000_000), access: Rate::from_bps(130_000_000), ..UNC1 };
/// The third trace.
pub(super) const UNC3: WebProfile =
    WebProfile { mean: Rate::from_bps(3_280_000_000), access: Rate::from_bps(115_000_000), ..UNC1 };

/// Mean rate of "CBR" (Table 3.1, where it is called UDP).
const CBR_MEAN: Rate = Rate::from_bps(2_470_000_000);
/// Number of pairs that send it, with a user-space program.
const CBR_PAIRS: u32 = 9;
/// Number of pairs with constant gaps; timer errors turn the streams of the others into Poisson
/// streams. Calibrated.
const CBR_EXACT_PAIRS: u32 = 2;

/// Pairs of hosts, whose packets are merged in order of time.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    /// The next packet of each pair; `None` after its last.
    next_packets: Vec<Option<Emission>>,
}

#[derive(Clone, Debug)]
struct Pair {
    source: Generator,
    egress: Egress,
}

impl Pair {
    fn next(&mut self) -> Option<Emission> {
        self.source.next().map(|packet| self.egress.pass(packet))
    }
}

impl Pairs {
    /// Creates web traffic with all rates multiplied and all times divided by `scale`: the same
    /// traffic at another speed.
    pub(super) fn web(profile: &WebProfile, scale: f64, seed: u64, id: u64) -> Pairs {
        let pair = |pair| {
            let bucket = profile.bucket.map(|(rate, burst)| Bucket::new(rate.scale(scale), burst));
            let source = Kind::Web(profile.browsers(scale, pair_generator(seed, id, pair)));
            Pair { source: Generator { kind: source }, egress: Egress::new(bucket, LINE.scale(scale)) }
        };
        Pairs::merge((0..profile.pairs).map(pair).collect())
    }

    /// Creates datagrams at nearly constant intervals.
    pub(super) fn cbr(scale: f64, seed: u64, id: u64) -> Pairs {
        let rate = CBR_MEAN.scale(scale / f64::from(CBR_PAIRS));
        let pair = |pair| {
            let mut rng = pair_generator(seed, id, pair);
            let kind = if pair < CBR_EXACT_PAIRS {
                Kind::Cbr(Cbr::new(rate, FULL_PACKET, &mut rng))
            } else {
                Kind::Batches(Batches::new(rate, FULL_PACKET, 1.0, rng))
            };
            Pair { source: Generator { kind }, egress: Egress::new(None, LINE.scale(scale)) }
        };
        Pairs::merge((0..CBR_PAIRS).map(pair).collect())
    }

    fn merge(mut pairs: Vec<Pair>) -> Pairs {
        let next_packets = pairs.iter_mut().map(Pair::next).collect();
        Pairs { pairs, next_packets }
    }

    /// Returns the next packet of any pair. For ten pairs a linear search is faster than a heap.
    pub(super) fn next(&mut self) -> Option<Emission> {
        let time = |head: &Option<Emission>| head.map_or(Duration::MAX, |packet| packet.at);
        let (first, _) = self.next_packets.iter().enumerate().min_by_key(|(_, head)| time(head))?;
        std::mem::replace(&mut self.next_packets[first], self.pairs[first].next())
    }
}

impl WebProfile {
    fn browsers(&self, scale: f64, rng: Pcg64Mcg) -> Web {
        // In one cycle a browser sends a file and then thinks; its share of the rate determines the
        // length of the cycle.
        let share = self.mean.bps_f64() / f64::from(self.pairs) / f64::from(BROWSERS);
        let cycle = Duration::from_secs_f64(MEAN_FILE.get() as f64 * 8.0 / share);
        let think = cycle - self.access.time_for(MEAN_FILE);
        let file = Lognormal::with_mean(MEAN_FILE.get() as f64, SPREAD);
        let access = self.access.scale(scale);
        Web::new(BROWSERS, think.scale(1.0 / scale), (MEAN_FILE, file), access, FULL_PACKET, rng)
    }
}

fn pair_generator(seed: u64, id: u64, pair: u32) -> Pcg64Mcg {
    generator(seed, &format!("traffic of pair {pair}"), id)
}
