//! Sweeps over chains of links, compared with the event simulator.

use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::Service;
use headway_sim::sweep::{ChainLink, Probe, sweep};
use headway_sim::{LinkConfig, LinkId, Network, ProberId, SourceConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

/// A chain of three links with cross traffic of mixed sizes.
fn chain(buffer: Option<Bytes>) -> Vec<ChainLink> {
    let link = |(mbps, load): (u64, f64)| ChainLink {
        rate: Rate::from_bps(mbps * 1_000_000),
        delay: Duration::from_ms(3),
        buffer,
        cross: vec![
            Traffic::Pareto {
                rate: Rate::from_mbps(mbps as f64 * load / 2.0),
                sources: 16,
                shape: 1.9,
                size: Bytes::new(1_500),
                least_size: Some(Bytes::new(40)),
                silence: Duration::ZERO,
                period: Duration::ZERO,
            },
            Traffic::Poisson { rate: Rate::from_mbps(mbps as f64 * load / 2.0), size: Bytes::new(1_500) },
        ],
    };
    [(90, 0.5), (50, 0.8), (70, 0.6)].map(link).to_vec()
}

/// Trains of six packets of which some expire after the first or second link.
fn probes() -> Vec<Probe> {
    let probe = |index: u64| {
        let at = Instant::from_ns(100_000_000 + index / 6 * 4_000_003 + index % 6 * 40_000);
        Probe { at, size: Bytes::new(1_500), links: [3, 1, 2, 2, 1, 3][index as usize % 6] }
    };
    (0..1_200).map(probe).collect()
}

/// Sends the same packets through the event simulator: a prober for each number of links that packets cross.
fn by_events(chain: &[ChainLink], probes: &[Probe], seed: u64) -> Vec<Option<Instant>> {
    let mut network = Network::new(seed);
    let add = |link: &ChainLink| {
        let queue = QueueSpec::DropTail(DropTailConfig { limit: link.buffer, packets: None });
        let queue = queue.build(Some(link.rate), seed);
        network.add_link(&LinkConfig::new(Service::Constant(link.rate), link.delay, queue))
    };
    let links: Vec<LinkId> = chain.iter().map(add).collect();
    for (link, id) in chain.iter().zip(&links) {
        for traffic in &link.cross {
            let (traffic, path) = (traffic.clone(), vec![*id]);
            network.add_source(&SourceConfig { path, traffic, start: Instant::ZERO, stop: None });
        }
    }
    let probers: Vec<ProberId> =
        (1..=links.len()).map(|end| network.add_prober(&links[..end], None)).collect();
    for probe in probes {
        network.send_probe(probers[probe.links as usize - 1], probe.at, probe.size);
    }
    network.run_until(Instant::from_ns(2_000_000_000));
    let mut logs: Vec<_> = probers.iter().map(|prober| network.take_probe_log(*prober).into_iter()).collect();
    let arrived = |probe: &Probe| logs[probe.links as usize - 1].next().and_then(|log| log.arrived);
    probes.iter().map(arrived).collect()
}

#[test]
fn a_sweep_gives_the_times_of_the_event_simulator_to_the_nanosecond() {
    for (buffer, seed) in [(None, 1), (None, 2), (Some(Bytes::new(20_000)), 3)] {
        let (chain, probes) = (chain(buffer), probes());
        let swept = sweep(&chain, &probes, seed);
        let lost = swept.iter().filter(|time| time.is_none()).count();
        assert_eq!(lost > 0, buffer.is_some(), "{lost}");
        assert!(swept == by_events(&chain, &probes, seed), "seed {seed}");
    }
}

#[test]
fn without_cross_traffic_a_packet_takes_its_serialisation_times_and_delays() {
    let idle: Vec<ChainLink> =
        chain(None).into_iter().map(|link| ChainLink { cross: Vec::new(), ..link }).collect();
    let probe = Probe { at: Instant::from_ns(5), size: Bytes::new(1_500), links: 3 };
    // 133.33 + 240 + 171.43 us; rounded down at each link.
    assert_eq!(
        sweep(&idle, &[probe], 1),
        [Some(Instant::from_ns(5 + 9_000_000 + 133_333 + 240_000 + 171_428))]
    );
}
