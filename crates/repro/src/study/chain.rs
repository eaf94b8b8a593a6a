//! Chains of links with Pareto traffic on every link (wan 4.7).

use headway_sim::sweep::ChainLink;
use headway_sim::trains::Trains;
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};
use serde::Deserialize;

/// Packet sizes of the cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sizes {
    /// All of 1500 bytes.
    Fixed,
    /// Uniform between 40 and 1500 bytes.
    Random,
}

impl Sizes {
    /// Returns the name in tables and keys.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Sizes::Fixed => "fixed",
            Sizes::Random => "random",
        }
    }
}

/// Size of probes and of the largest cross packet.
pub(super) const PACKET: Bytes = Bytes::new(1_500);
/// Mean time between trains. It is not published; with 20 ms results are the same, and runs take three times as long.
const APART: Duration = Duration::from_ms(6);
/// Time that queues have to fill before the first train.
const WARMUP: Instant = Instant::from_ns(100_000_000);
/// Length of a period of which part is silent.
const PERIOD: Duration = Duration::from_ms(200);

/// Returns links with these capacities in Mb/s, loaded to `load` per cent each by 16 Pareto sources, except during
/// `silent` per cent of the time.
pub(super) fn chain(links: &[u64], load: u32, sizes: Sizes, silent: u32) -> Vec<ChainLink> {
    let link = |mbps: &u64| {
        let rate = Rate::from_bps(mbps * 1_000_000);
        let traffic = Traffic::Pareto {
            rate: rate.scale(f64::from(load) / 100.0),
            sources: 16,
            shape: 1.9,
            size: PACKET,
            least_size: (sizes == Sizes::Random).then_some(Bytes::new(40)),
            silence: PERIOD.scale(f64::from(silent) / 100.0),
            period: PERIOD,
        };
        // Propagation only shifts all delays; without it, probes meet the silence of all links at once.
        ChainLink { rate, delay: Duration::ZERO, buffer: None, cross: vec![traffic] }
    };
    links.iter().map(link).collect()
}

/// Returns trains with the timing of these studies.
pub(super) fn trains(gaps: Vec<Duration>, hidden_links: u32, count: usize) -> Trains {
    Trains { start: WARMUP, apart: APART, ..Trains::of(PACKET, gaps, hidden_links, count) }
}

/// Returns pairs that leave at 1 Gb/s.
pub(super) fn pairs(count: usize) -> Trains {
    trains(vec![Duration::from_us(12)], 0, count)
}

/// Returns the capacity of the narrow link.
pub(super) fn narrow(links: &[u64]) -> Rate {
    Rate::from_bps(links.iter().min().copied().unwrap_or_default() * 1_000_000)
}
