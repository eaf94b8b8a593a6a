//! A run is a function of its configuration and seed.

use crate::support::*;
use headway_control::Kind;
use headway_host::nic::Coalescing;
use headway_queue::{CodelConfig, DropTailConfig, QueueSpec};
use headway_sim::config::{AckPolicy, Ecn, Service};
use headway_sim::{FlowId, LinkConfig, LinkId, Network, SourceConfig, SourceId, TcpConfig};
use headway_traffic::Traffic;
use headway_traffic::channel::{Delays, Jitter};
use headway_units::{Bytes, Duration};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// A network that uses every kind of randomness.
fn network(seed: u64) -> Network {
    let mut network = Network::new(seed);
    let mut first = link(mbps(50.0), MS(5), drop_tail(Some(60_000)));
    (first.loss, first.jitter, first.reordering) = (0.001, MS(1).into(), true);
    let codel = QueueSpec::Codel(CodelConfig::default()).build(None, 1);
    let mut second = LinkConfig::new(
        Service::TokenBucket { rate: mbps(40.0), burst: Bytes::new(20_000), peak: None },
        MS(3),
        codel,
    );
    let distribution = Delays::Pareto { mean: Duration::from_us(300), shape: 2.5 };
    (second.duplicate, second.corrupt) = (0.01, 0.001);
    second.jitter = Jitter { distribution, correlation: 0.3 };
    let mut back = wire(MS(8));
    back.loss = 0.01;
    let there = [network.add_link(&first), network.add_link(&second)];
    let back = network.add_link(&back);
    let nic =
        network.add_nic(Coalescing::Fixed { interval: Duration::from_us(100), jitter: 0.2, frames: None });
    for (controller, ecn) in [(Kind::Reno, Ecn::Off), (Kind::Cubic, Ecn::Classic), (Kind::Dctcp, Ecn::Dctcp)]
    {
        network.add_tcp(&TcpConfig {
            forward: there.to_vec(),
            ecn,
            ack: AckPolicy { every: 2, timeout: MS(40) },
            pacing: ecn == Ecn::Classic,
            nic: (ecn == Ecn::Dctcp).then_some(nic),
            ..flow(controller, there[0], back)
        });
    }
    network.add_source(&source(there[0], Traffic::Poisson { rate: mbps(5.0), size: Bytes::new(500) }));
    let web = Traffic::Web {
        browsers: 20,
        think: MS(300),
        access: mbps(10.0),
        file: Bytes::new(20_000),
        spread: 1.5,
        size: Bytes::new(1_538),
    };
    network.add_source(&source(there[1], web));
    network
}

/// Returns all observable state of the first components of a network.
fn text(network: &Network) -> String {
    let mut text = String::new();
    for link in 0..3 {
        let link = network.link(LinkId(link));
        text += &format!("{:?} {:?} {}\n", link.statistics(), link.queued(), link.in_flight());
    }
    for flow in 0..3 {
        text += &format!("{:?}\n", network.flow(FlowId(flow)));
    }
    for source in 0..2 {
        text += &format!("{:?}\n", network.source_statistics(SourceId(source)));
    }
    text
}

fn run(mut network: Network) -> Network {
    network.run_until(at(5.0));
    network
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let runs = [1, 1, 2].map(|seed| run(network(seed)));
    assert_eq!(text(&runs[0]), text(&runs[1]));
    assert_eq!(runs[0].events(), runs[1].events());
    assert_ne!(text(&runs[0]), text(&runs[2]));
    let flow = runs[0].flow(FlowId(0));
    assert!(flow.delivered > 1_000 && flow.retransmitted > 0, "{flow:?}");
}

#[test]
fn a_run_in_slices_is_the_same_run() {
    let whole = run(network(1));
    let mut sliced = network(1);
    for slice in 1..=50_000 {
        sliced.run_until(us(slice * 100));
    }
    assert_eq!(text(&whole), text(&sliced));
    assert_eq!(whole.events(), sliced.events());
    let mut stepped = network(1);
    while let Some(next) = stepped.next_event().filter(|next| *next <= at(5.0)) {
        stepped.run_until(next);
    }
    stepped.run_until(at(5.0));
    assert_eq!(text(&whole), text(&stepped));
}

#[test]
fn components_elsewhere_change_nothing() {
    let alone = run(network(1));
    let mut more = network(1);
    let mut elsewhere = link(mbps(20.0), MS(2), drop_tail(Some(40_000)));
    (elsewhere.loss, elsewhere.jitter) = (0.01, MS(3).into());
    let (there, back) = (more.add_link(&elsewhere), more.add_link(&elsewhere));
    let flow = more.add_tcp(&flow(Kind::Cubic, there, back));
    more.add_source(&source(there, Traffic::Poisson { rate: mbps(3.0), size: Bytes::new(700) }));
    more.add_nic(Coalescing::Adaptive { interval: MS(1), frames: 8 });
    let more = run(more);
    assert_eq!(text(&alone), text(&more));
    assert!(more.flow(flow).delivered > 100 && more.events() > alone.events());
}

#[test]
fn resetting_the_statistics_does_not_change_the_run() {
    let whole = run(network(1));
    let mut reset = network(1);
    reset.run_until(at(2.0));
    reset.reset_statistics();
    reset.run_until(at(5.0));
    assert_eq!(whole.events(), reset.events());
    for flow in 0..3 {
        let (whole, reset) = (whole.flow(FlowId(flow)), reset.flow(FlowId(flow)));
        assert_eq!((whole.cwnd, whole.ssthresh, whole.srtt), (reset.cwnd, reset.ssthresh, reset.srtt));
        assert!(reset.sent < whole.sent);
    }
}

#[test]
fn a_link_that_serves_packet_by_packet_does_the_same_as_one_that_plans_ahead() {
    // A CoDel that never finds a packet late equals a drop-tail queue, except that it judges departures.
    let codel =
        CodelConfig { target: MS(1_000_000), limit: Some(Bytes::new(50_000)), ..CodelConfig::default() };
    // A limit in packets makes the drop-tail queue count whole packets, as CoDel does.
    let whole = DropTailConfig { limit: Some(Bytes::new(50_000)), packets: Some(100_000) };
    let queues = [QueueSpec::DropTail(whole).build(None, 1), QueueSpec::Codel(codel).build(None, 1)];
    let services = [
        Service::Constant(mbps(30.000_007)),
        Service::TokenBucket { rate: mbps(30.000_007), burst: Bytes::new(15_000), peak: None },
        Service::Trace {
            opportunities: (1..=97).map(|i| Duration::from_ns(i * i * 4_001)).collect(),
            period: MS(40),
        },
    ];
    for service in services {
        let runs = queues.each_ref().map(|queue| {
            let mut network = Network::new(1);
            // At the end both queues are empty: a waiting time is counted when it becomes known.
            let stop = Some(at(18.0));
            let config = LinkConfig::new(service.clone(), MS(7), queue.clone());
            let (there, back) = (network.add_link(&config), network.add_link(&wire(MS(9))));
            network.add_tcp(&TcpConfig { pacing: true, stop, ..flow(Kind::Cubic, there, back) });
            let poisson = Traffic::Poisson { rate: mbps(6.0), size: Bytes::new(601) };
            network.add_source(&SourceConfig { stop, ..source(there, poisson) });
            network.run_until(at(20.0));
            (format!("{:?}", network.link(there).statistics()), network.flow(FlowId(0)))
        });
        assert!(runs[0].1.recoveries > 1, "{:?}", runs[0].1);
        assert_eq!(runs[0].1, runs[1].1, "{service:?}");
        assert_eq!(runs[0].0, runs[1].0, "{service:?}");
    }
}
