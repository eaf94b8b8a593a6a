//! The cost of an experiment, in probe packets.

use headway_units::{Duration, Rate};

use crate::closed_loop;
use crate::context::Size;
use crate::experiment::{Experiment, Study};
use crate::procedure;
use crate::shared_link::{SETTINGS, Setting};
use crate::study::{cells_of, packets_of_crowds, packets_of_groups, packets_of_rivals};

/// Packets of one PRC-MT length tuning besides its train: about eight pairs of streams, whose lengths bisect the
/// range from 60 to 3000.
const TUNING: usize = 2 * 8 * 700;

/// Trains per hop of a search for the narrow link, and their packets.
const TRAINS: usize = 20;
const PACKETS_PER_TRAIN: usize = 7;

/// Returns the full packets that the bottleneck of closed-loop studies carries in this time.
fn full_packets(milliseconds: usize) -> usize {
    let time = Duration::from_ms(milliseconds as i64);
    (closed_loop::CAPACITY.bytes_in(time).get() / u64::from(closed_loop::MTU)) as usize
}

impl Experiment {
    /// Estimates the number of probe packets sent by a run of this size. One core simulates a million of them,
    /// with cross traffic, in a few seconds.
    pub fn packets(&self, size: Size) -> u64 {
        let packets = match &self.study {
            Study::GapErrors(study) => {
                let seconds = size.of(study.milliseconds) as f64 / 1e3;
                let bits: f64 = study.rates.values().iter().map(|rate| rate * 1e9 * seconds).sum();
                let each = study.packets.iter().map(|packet| bits / 8.0 / packet.get() as f64);
                each.sum::<f64>() as usize * study.mechanisms.len()
            }
            Study::GapSeries(study) => size.of(study.gaps),
            Study::GapEstimates(study) => {
                study.mechanisms.len() * size.of(study.streams) * study.shape.length()
            }
            Study::GapFlows(study) => {
                let seconds = size.of(study.milliseconds) as f64 / 1e3;
                let bits = study.rates.iter().sum::<f64>() * 1e9 * seconds;
                let packets = bits / 8.0 / self.path.packet.get() as f64;
                packets as usize * study.mechanisms.len() * study.flows.len()
            }
            Study::GapBursts(study) => {
                let seconds = study.interval.secs_f64() * size.of(study.intervals) as f64;
                let bits: f64 = study.rates.values().iter().map(|rate| rate * 1e9 * seconds).sum();
                (bits / 8.0 / self.path.packet.get() as f64) as usize * study.mechanisms.len()
            }
            Study::Lengths(study) => size.of(study.runs) * (study.train + TUNING),
            Study::Decisions(study) => {
                let lengths: usize = study.lengths.iter().sum();
                study.rates.values().len() * lengths * size.of(study.streams)
            }
            Study::Errors(study) => {
                let packets = study.streams_read().into_iter();
                packets
                    .map(|read| read.averages.values().len() * read.together * read.shape.length())
                    .sum::<usize>()
                    * size.of(study.streams)
            }
            Study::SharedLink(study) => {
                let here =
                    SETTINGS.iter().filter(|setting| study.settings.iter().any(|name| name == setting.name));
                let seconds = size.of(study.milliseconds) as f64 / 1e3;
                let bits = |setting: &Setting| (setting.mbps * setting.seconds) as f64 * 1e6 * seconds;
                let packets: f64 = here.map(|setting| bits(setting) / 8.0 / setting.mtu as f64).sum();
                packets as usize * study.variants.len() * size.of(study.runs)
            }
            Study::ClosedLoop(study) => {
                let time = size.of(study.warmup) + size.of(study.milliseconds);
                full_packets(time) * cells_of(study, size) * size.of(study.runs)
            }
            Study::Staggered(study) => {
                let end = study.flows.iter().map(|(_, stop)| *stop).fold(0.0, f64::max);
                let time = (end * size.of(study.milliseconds) as f64) as usize;
                let controllers =
                    if size == Size::Full { study.controllers.len() } else { study.quick_controllers.len() };
                full_packets(time) * controllers * size.of(study.runs)
            }
            Study::Shapers(study) => {
                let time = (size.of(study.warmup) + size.of(study.milliseconds)) as f64 / 1e3;
                let bits: f64 = study.rates.iter().map(|rate| rate.bps_f64() * time).sum();
                (bits / 8.0 / 1538.0) as usize * study.buckets.len()
            }
            Study::Procedure(study) => {
                let bytes = procedure::CAPACITY.bytes_in(procedure::END).get();
                (bytes / 1538) as usize * study.variants.len() * size.of(study.runs)
            }
            Study::Rivals(study) => packets_of_rivals(study, size),
            Study::Groups(study) => packets_of_groups(study, size),
            Study::Passive(study) => {
                let segments = study.size.get() as usize / 1448 * study.flows;
                segments * study.rtts.len() * study.loads.len() * size.of(study.runs)
            }
            Study::AckStamps(study) => {
                let line = Rate::from_bps(1_000_000_000);
                let bytes = line.bytes_in(Duration::from_ms(size.of(study.milliseconds) as i64)).get();
                (bytes / 1538) as usize * study.cards.len()
            }
            Study::Series(study) => size.of(study.streams) * study.shape.length(),
            Study::Windows(study) => size.of(study.streams) * study.length,
            Study::Capacities(study) => {
                let pairs: usize = study.pairs.iter().sum();
                let traffic = study.sizes.len() * study.silent.len() * study.loads.len();
                2 * pairs * traffic * size.of(study.runs)
            }
            Study::PairDelays(study) => 2 * size.of(study.pairs),
            Study::NarrowLinks(study) => {
                let searches =
                    study.rules.len() * study.sizes.len() * study.loads.len() * size.of(study.runs);
                let trains: usize = study.paths.iter().map(|links| links.len() * TRAINS).sum();
                searches * trains * PACKETS_PER_TRAIN
            }
            Study::Prefixes(study) => {
                let trains = study.trains * study.prefixes.len() * study.sizes.len() * size.of(study.runs);
                trains * (study.hidden as usize + 2)
            }
            Study::Compensation(_) => 0,
            Study::Crowds(study) => packets_of_crowds(study, size),
        };
        packets as u64
    }
}
