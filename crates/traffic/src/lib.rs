//! Non-responsive traffic models: departure times and sizes of packets.
//!
//! # Decisions
//!
//! - **What varies with time is a function of seed and time,** so every world sees the same outages and
//!   capacities.

mod arrivals;
mod batches;
mod cbr;
pub mod channel;
mod crowd;
pub mod distribution;
mod egress;
mod on_off;
mod pareto;
pub mod pcap;
pub mod percentiles;
mod profile;
pub mod random;
mod sessions;
mod web;

use headway_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

pub use self::arrivals::{Arrival, ArrivalSpec, Arrivals, SizeDistribution};
use self::batches::Batches;
use self::cbr::Cbr;
pub use self::crowd::{Crowd, CrowdKind};
use self::distribution::{Lognormal, Pareto};
use self::on_off::OnOff;
use self::pareto::{Renewal, Silence};
use self::pcap::{Capture, Replay};
use self::profile::Pairs;
pub use self::sessions::{MIN_THINK, Sessions};
use self::web::Web;
use crate::random::generator;

/// A packet of MTU 1500 with all overhead on the wire, the usual size of cross traffic (rapid 4.0).
const FULL_PACKET: Bytes = Bytes::new(1538);

/// Mean size of a web file (rapid 4.0).
const MEAN_FILE: Bytes = Bytes::new(100_000);
/// Standard deviation of the logarithm of a file's size. With it, 1 % of the files make up a
/// quarter of the bytes.
///
/// The publication only calls files heavy-tailed; with this value the profiles meet Table 3.1.
const SPREAD: f64 = 1.7;

headway_units::defaults! {
    full_packet: Bytes = FULL_PACKET;
    mean_file: Bytes = MEAN_FILE;
    spread: f64 = SPREAD;
    sources: u32 = PARETO_SOURCES;
    shape: f64 = PARETO_SHAPE;
    /// Mean number of packets in a batch of bursty traffic (rapid 4.0).
    batch: f64 = 12.4;
    unscaled: f64 = 1.0;
}

/// Default number of sources of Pareto traffic (wan 4.7).
pub(crate) const PARETO_SOURCES: u32 = 16;
/// Default shape of its gaps (wan 4.7).
pub(crate) const PARETO_SHAPE: f64 = 1.9;

/// A packet that a source emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emission {
    /// The departure time, since the source's start.
    pub at: Duration,
    /// Its size on the wire, with preamble, frame check sequence and inter-frame gap.
    pub size: Bytes,
}

/// A description of traffic. Rates count all bytes on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(tag = "model", rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Traffic {
    /// Equal packets at equal intervals with a random phase; the rate is exact in the long run.
    Cbr {
        /// Rate; zero sends nothing.
        rate: Rate,
        /// Size of each packet on the wire; default 1538 B.
        #[serde(default = "full_packet")]
        size: Bytes,
    },
    /// Equal packets with exponential gaps.
    Poisson {
        /// Mean rate; zero sends nothing.
        rate: Rate,
        /// Size of each packet on the wire; default 1538 B.
        #[serde(default = "full_packet")]
        size: Bytes,
    },
    /// Batches of packets, each batch at one instant, with exponential gaps between batches (rapid 4.0).
    #[serde(alias = "bursty")]
    Batches {
        /// Mean rate; zero sends nothing.
        rate: Rate,
        /// Size of each packet on the wire; default 1538 B.
        #[serde(default = "full_packet")]
        size: Bytes,
        /// Mean number of packets in a batch, at least 1; the distribution is geometric; default 12.4, that
        /// of `bct`.
        #[serde(default = "batch")]
        batch: f64,
    },
    /// On-off sources with Pareto times, which send at their peak rate while on.
    ParetoOnOff {
        /// Number of sources.
        sources: u32,
        /// Rate of a source that is on; zero sends nothing.
        peak: Rate,
        /// Mean on-time, positive.
        on: Duration,
        /// Mean off-time, positive.
        off: Duration,
        /// Shape of both times, above 1; below 2 the traffic is self-similar.
        shape: f64,
        /// Size of each packet on the wire; default 1538 B.
        #[serde(default = "full_packet")]
        size: Bytes,
    },
    /// Sources with Pareto gaps between their packets (wan 4.7), which may all fall silent regularly.
    Pareto {
        /// Mean rate of all sources together, silent times included; zero sends nothing.
        rate: Rate,
        /// Number of sources; default 16.
        #[serde(default = "sources")]
        sources: u32,
        /// Shape of the gaps, above 1; below 2 their variance is infinite; default 1.9.
        #[serde(default = "shape")]
        shape: f64,
        /// Size of the largest packet on the wire; default 1538 B.
        #[serde(default = "full_packet")]
        size: Bytes,
        /// Size of the smallest packet on the wire: sizes are uniform between the two; default `size`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        least_size: Option<Bytes>,
        /// Time at the start of every `period` during which nothing is sent; the same for all traffic with
        /// these keys; default 0.
        #[serde(default)]
        silence: Duration,
        /// Length of a period, longer than `silence`; default none.
        #[serde(default)]
        period: Duration,
    },
    /// Browsers that fetch lognormal files and think for exponential times (rapid 4.0); not responsive.
    Web {
        /// Number of browsers.
        browsers: u32,
        /// Mean time between the end of a file and the start of the next, positive.
        think: Duration,
        /// Rate at which a file is sent; zero sends nothing.
        access: Rate,
        /// Mean size of a file, in bytes on the wire; default 100 kB.
        #[serde(default = "mean_file")]
        file: Bytes,
        /// Standard deviation of the logarithm of a file's size, at least 0; default 1.7.
        #[serde(default = "spread")]
        spread: f64,
        /// Size on the wire of all packets of a file but the last; default 1538 B.
        #[serde(default = "full_packet")]
        size: Bytes,
    },
    /// Bursty web traffic of nine host pairs: 2.51 Gb/s, 1.15 to 3.94 Gb/s in 90 % of the
    /// milliseconds (rapid Table 3.1).
    Bct {
        /// Factor on all rates, above 0; times are divided by it; default 1.
        #[serde(default = "unscaled")]
        scale: f64,
    },
    /// Smooth web traffic of nine host pairs, each through a token bucket: 2.49 Gb/s, 1.78 to 3.31 Gb/s in
    /// 90 % of the milliseconds (rapid Table 3.1).
    Sct {
        /// Factor on all rates, above 0; times are divided by it; default 1.
        #[serde(default = "unscaled")]
        scale: f64,
    },
    /// Datagrams of nine host pairs at nearly constant intervals, "CBR" or "UDP": 2.47 Gb/s, 2.21 to 2.72
    /// Gb/s in 90 % of the milliseconds (rapid Table 3.1).
    CbrProfile {
        /// Factor on all rates, above 0; times are divided by it; default 1.
        #[serde(default = "unscaled")]
        scale: f64,
    },
    /// The first trace of a campus link, replayed by ten hosts: 3.10 Gb/s, 2.23 to 4.05 Gb/s in 90 % of the
    /// milliseconds (rapid Table 3.1).
    Unc1 {
        /// Factor on all rates, above 0; times are divided by it; default 1.
        #[serde(default = "unscaled")]
        scale: f64,
    },
    /// The second trace of a campus link, replayed by ten hosts: 2.75 Gb/s, 1.84 to 3.77 Gb/s in 90 % of the
    /// milliseconds (rapid Table 3.1).
    Unc2 {
        /// Factor on all rates, above 0; times are divided by it; default 1.
        #[serde(default = "unscaled")]
        scale: f64,
    },
    /// The third trace of a campus link, replayed by ten hosts: 3.28 Gb/s, 2.31 to 4.29 Gb/s in 90 % of the
    /// milliseconds (rapid Table 3.1).
    Unc3 {
        /// Factor on all rates, above 0; times are divided by it; default 1.
        #[serde(default = "unscaled")]
        scale: f64,
    },
    /// A packet capture.
    Pcap {
        /// The file, in pcap or pcapng format.
        file: Capture,
        /// Whether to start over at its end; default no.
        #[serde(default)]
        repeat: bool,
    },
}

impl Traffic {
    /// Packets of 1500 bytes of IP at equal intervals.
    pub fn cbr(rate: Rate) -> Traffic {
        Traffic::Cbr { rate, size: FULL_PACKET }
    }

    /// Packets of 1500 bytes of IP at exponential intervals.
    pub fn poisson(rate: Rate) -> Traffic {
        Traffic::Poisson { rate, size: FULL_PACKET }
    }

    /// Batches of packets of 1500 bytes of IP, of the usual size.
    pub fn batches(rate: Rate) -> Traffic {
        Traffic::Batches { rate, size: FULL_PACKET, batch: batch() }
    }

    /// Returns the mean rate, where the parameters say it.
    pub fn mean_rate(&self) -> Option<Rate> {
        match *self {
            Traffic::Cbr { rate, .. }
            | Traffic::Poisson { rate, .. }
            | Traffic::Batches { rate, .. }
            | Traffic::Pareto { rate, .. } => Some(rate),
            Traffic::ParetoOnOff { sources, peak, on, off, .. } => {
                Some(peak.scale(f64::from(sources) * on.secs_f64() / (on + off).secs_f64()))
            }
            _ => None,
        }
    }

    /// The model's name in scenario files.
    pub fn model(&self) -> &'static str {
        self.into()
    }

    /// Creates source `id` of a run with this seed; the scenario must have checked the parameters.
    pub fn generator(&self, seed: u64, id: u64) -> Generator {
        let mut rng = generator(seed, "traffic", id);
        let web = |profile, scale| Kind::Pairs(Pairs::web(profile, scale, seed, id));
        let kind = match *self {
            Traffic::Cbr { rate: Rate::ZERO, .. }
            | Traffic::Poisson { rate: Rate::ZERO, .. }
            | Traffic::Batches { rate: Rate::ZERO, .. }
            | Traffic::ParetoOnOff { peak: Rate::ZERO, .. }
            | Traffic::Pareto { rate: Rate::ZERO, .. }
            | Traffic::Web { access: Rate::ZERO, .. } => Kind::Silent,
            Traffic::Cbr { rate, size } => Kind::Cbr(Cbr::new(rate, size, &mut rng)),
            Traffic::Poisson { rate, size } => Kind::Batches(Batches::new(rate, size, 1.0, rng)),
            Traffic::Batches { rate, size, batch } => Kind::Batches(Batches::new(rate, size, batch, rng)),
            Traffic::ParetoOnOff { sources, peak, on, off, shape, size } => {
                let [on, off] = [on, off].map(|mean| Pareto::with_mean(mean.ns() as f64, shape));
                Kind::OnOff(OnOff::new(sources, peak, size, on, off, rng))
            }
            Traffic::Pareto { sources, rate, shape, size, least_size, silence, period } => {
                let silence = (silence > Duration::ZERO).then_some(Silence { silence, period });
                let sizes = [least_size.unwrap_or(size), size];
                Kind::Renewal(Renewal::new(sources, rate, sizes, shape, silence, rng))
            }
            Traffic::Web { browsers, think, access, file, spread, size } => {
                let sizes = Lognormal::with_mean(file.get() as f64, spread);
                Kind::Web(Web::new(browsers, think, (file, sizes), access, size, rng))
            }
            Traffic::Bct { scale } => web(&profile::BCT, scale),
            Traffic::Sct { scale } => web(&profile::SCT, scale),
            Traffic::CbrProfile { scale } => Kind::Pairs(Pairs::cbr(scale, seed, id)),
            Traffic::Unc1 { scale } => web(&profile::UNC1, scale),
            Traffic::Unc2 { scale } => web(&profile::UNC2, scale),
            Traffic::Unc3 { scale } => web(&profile::UNC3, scale),
            Traffic::Pcap { ref file, repeat } => Kind::Replay(Replay::new(file.clone(), repeat)),
        };
        Generator { kind }
    }
}

/// A running source, which yields its packets in order of time.
#[derive(Clone, Debug)]
pub struct Generator {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Silent,
    Cbr(Cbr),
    Batches(Batches),
    OnOff(OnOff),
    Renewal(Renewal),
    Web(Web),
    Pairs(Pairs),
    Replay(Replay),
}

impl Generator {
    /// Returns the next packet, which is not earlier than the previous one; `None` after the last.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Emission> {
        match &mut self.kind {
            Kind::Silent => None,
            Kind::Cbr(cbr) => Some(cbr.next()),
            Kind::Batches(batches) => Some(batches.next()),
            Kind::OnOff(group) => group.next(),
            Kind::Renewal(group) => group.next(),
            Kind::Web(web) => web.next(),
            Kind::Pairs(pairs) => pairs.next(),
            Kind::Replay(replay) => replay.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate::from_bps(2_470_000_000);

    fn emissions(traffic: &Traffic, seed: u64, seconds: f64) -> Vec<Emission> {
        let mut source = traffic.generator(seed, 0);
        let end = Duration::from_secs_f64(seconds);
        std::iter::from_fn(|| source.next()).take_while(|emission| emission.at < end).collect()
    }

    #[test]
    fn cbr_has_the_exact_rate_and_equal_gaps() {
        let rate = Rate::from_bps(289_000_001);
        let packets = emissions(&Traffic::Cbr { rate, size: FULL_PACKET }, 3, 20.0);
        let gaps: Vec<i64> = packets.windows(2).map(|pair| (pair[1].at - pair[0].at).ns()).collect();
        assert!(gaps.iter().max().unwrap() - gaps.iter().min().unwrap() <= 1);
        let last = gaps.iter().map(|gap| i128::from(*gap)).sum::<i128>();
        let exact = gaps.len() as i128 * 1538 * 8_000_000_000 / 289_000_001;
        assert!((last - exact).abs() <= 1, "{last} {exact}");
    }

    #[test]
    fn traffic_reads_as_text_and_refuses_unknown_keys() {
        let read: Traffic = toml::from_str("model = 'batches'\nrate = '2.47 Gb/s'\nbatch = 12.4").unwrap();
        assert_eq!(read, Traffic::Batches { rate: RATE, size: FULL_PACKET, batch: 12.4 });
        assert_eq!(toml::from_str::<Traffic>(&toml::to_string(&read).unwrap()).unwrap(), read);
        assert!(toml::from_str::<Traffic>("model = 'poisson'\nrate = '1 Gb/s'\nbatch = 2").is_err());
    }

    #[test]
    fn pareto_traffic_has_defaults_for_everything_but_its_rate() {
        let read: Traffic = toml::from_str("model = 'pareto'\nrate = '60 Mb/s'").unwrap();
        let plain = Traffic::Pareto {
            rate: Rate::from_mbps(60.0),
            sources: 16,
            shape: 1.9,
            size: FULL_PACKET,
            least_size: None,
            silence: Duration::ZERO,
            period: Duration::ZERO,
        };
        assert_eq!(read, plain);
        assert_eq!(toml::from_str::<Traffic>(&toml::to_string(&read).unwrap()).unwrap(), read);
        let mixed =
            "model = 'pareto'\nrate = '60 Mb/s'\nleast-size = '78 B'\nsilence = '20 ms'\nperiod = '1 s'";
        assert!(toml::from_str::<Traffic>(mixed).is_ok());
    }

    #[test]
    fn nothing_comes_at_rate_zero() {
        assert_eq!(Traffic::Poisson { rate: Rate::ZERO, size: FULL_PACKET }.generator(1, 0).next(), None);
    }

    fn models() -> impl Strategy<Value = Traffic> {
        let rate = || (1u64..20_000_000_000).prop_map(Rate::from_bps);
        let size = || (64u64..9_100).prop_map(Bytes::new);
        let time = || (1i64..10_000_000_000).prop_map(Duration::from_ns);
        let scale = || 0.01..10.0f64;
        prop_oneof![
            (rate(), size()).prop_map(|(rate, size)| Traffic::Cbr { rate, size }),
            (rate(), size()).prop_map(|(rate, size)| Traffic::Poisson { rate, size }),
            (rate(), size(), 1.0..50.0f64).prop_map(|(rate, size, batch)| Traffic::Batches {
                rate,
                size,
                batch
            }),
            (0u32..50, (1_000_000u64..10_000_000_000), time(), time(), 1.1..3.0f64, size()).prop_map(
                |(sources, peak, on, off, shape, size)| {
                    Traffic::ParetoOnOff { sources, peak: Rate::from_bps(peak), on, off, shape, size }
                }
            ),
            (1u32..50, rate(), 1.1..3.0f64, (64u64..9_100, 64u64..9_100), time(), any::<bool>()).prop_map(
                |(sources, rate, shape, sizes, silence, silent)| Traffic::Pareto {
                    sources,
                    rate,
                    shape,
                    size: Bytes::new(sizes.0.max(sizes.1)),
                    least_size: Some(Bytes::new(sizes.0.min(sizes.1))),
                    silence: if silent { silence } else { Duration::ZERO },
                    period: silence * 2,
                }
            ),
            (0u32..500, time(), rate(), 1u64..1_000_000, 0.0..5.0f64, size()).prop_map(
                |(browsers, think, access, file, spread, size)| {
                    Traffic::Web { browsers, think, access, file: Bytes::new(file), spread, size }
                }
            ),
            scale().prop_map(|scale| Traffic::Bct { scale }),
            scale().prop_map(|scale| Traffic::Sct { scale }),
            scale().prop_map(|scale| Traffic::CbrProfile { scale }),
            scale().prop_map(|scale| Traffic::Unc2 { scale }),
        ]
    }

    proptest! {
        #[test]
        fn times_never_decrease_and_depend_on_nothing_but_seed_and_number(traffic in models(), seed: u64, id: u64) {
            let packets = |mut source: Generator| -> Vec<_> {
                std::iter::from_fn(|| source.next()).take(2_000).collect()
            };
            let first = packets(traffic.generator(seed, id));
            prop_assert!(first.is_sorted_by_key(|emission| emission.at));
            prop_assert!(first.iter().all(|emission| emission.at >= Duration::ZERO && emission.size > Bytes::ZERO));
            prop_assert_eq!(first, packets(traffic.generator(seed, id)));
        }
    }
}
