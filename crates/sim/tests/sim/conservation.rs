//! Packets are conserved in random networks: none appears or disappears.

use crate::support::*;
use headway_control::{FixedRate, FixedWindow, Kind};
use headway_host::nic::Coalescing;
use headway_queue::{
    ADAPTATION, ClassesConfig, CodelConfig, DropTailConfig, DualPi2Config, ExplicitConfig, FqCodelConfig,
    PieConfig, QueueSpec, RedConfig, StepConfig,
};
use headway_sim::config::{AckPolicy, Ecn, Service};
use headway_sim::{
    FlowId, Link, LinkConfig, LinkId, Network, NicId, QueueChange, SourceConfig, SourceId, TcpConfig,
};
use headway_traffic::Traffic;
use headway_traffic::channel::{DelayTrace, EcnField, LossBursts};
use headway_units::{Bytes, Duration, Rate};
use proptest::prelude::*;

fn services() -> impl Strategy<Value = Service> {
    let rate = || (2.0..40.0f64).prop_map(mbps);
    prop_oneof![
        4 => rate().prop_map(Service::Constant),
        1 => Just(Service::Unlimited),
        2 => (rate(), 3_000..50_000u64)
            .prop_map(|(rate, burst)| Service::TokenBucket { rate, burst: Bytes::new(burst), peak: None }),
        2 => prop::collection::vec(0..5_000i64, 1..20).prop_map(|mut times| {
            times.sort_unstable();
            let opportunities = times.into_iter().map(Duration::from_us).collect();
            Service::Trace { opportunities, period: Duration::from_us(5_000) }
        }),
    ]
}

fn queues() -> impl Strategy<Value = QueueSpec> {
    let limit = Some(Bytes::new(60_000));
    let red = RedConfig {
        min: Bytes::new(10_000),
        max: Bytes::new(30_000),
        probability: 0.3,
        adaptive: true,
        adaptation: ADAPTATION,
        ecn: true,
        burst: None,
        packet: Bytes::new(1_538),
        limit,
        packets: None,
    };
    prop_oneof![
        3 => (2..60u32).prop_map(|count| {
            QueueSpec::DropTail(DropTailConfig { limit: None, packets: Some(count) })
        }),
        1 => Just(QueueSpec::DropTail(DropTailConfig::default())),
        1 => Just(QueueSpec::Step(StepConfig { threshold: Bytes::new(9_000).into(), limit, packets: None })),
        1 => Just(QueueSpec::Red(red)),
        1 => Just(QueueSpec::Pie(PieConfig { limit, ..PieConfig::default() })),
        1 => Just(QueueSpec::Xcp(ExplicitConfig { limit, ..ExplicitConfig::default() })),
        1 => Just(QueueSpec::DualPi2(DualPi2Config { limit, ..DualPi2Config::default() })),
        1 => (1..8u32).prop_map(move |flows| {
            QueueSpec::FqCodel(FqCodelConfig { flows, limit, ..FqCodelConfig::default() })
        }),
        2 => Just(QueueSpec::Classes(ClassesConfig { limit, ..ClassesConfig::default() })),
        3 => (any::<bool>(), 1..10i64).prop_map(move |(ecn, target)| {
            QueueSpec::Codel(CodelConfig {
                ecn,
                limit,
                target: Duration::from_ms(target),
                interval: Duration::from_ms(20),
                ..CodelConfig::default()
            })
        }),
    ]
}

fn links() -> impl Strategy<Value = LinkConfig> {
    let jitter = prop_oneof![Just(0i64), 1..8_000i64];
    let loss = prop_oneof![Just(0.0), 0.0..0.1f64];
    let policer = prop::option::weighted(0.2, (1.0..20.0f64, 2_000..30_000u64));
    // With more loss, a flow whose timer backs off to two minutes would need days.
    let bursts = (10..5_000i64, 10..5_000i64, 0.1..0.9f64).prop_map(|(good, bad, loss)| LossBursts {
        good: Duration::from_us(good),
        bad: Duration::from_us(bad),
        loss,
    });
    let varies = (prop::option::weighted(0.2, bursts), any::<bool>());
    let trace = prop::option::weighted(0.2, traces());
    let ecn = prop_oneof![4 => Just(EcnField::Keep), 1 => Just(EcnField::Clear)];
    let share = || prop_oneof![3 => Just(0.0), 1 => 0.0..0.1f64];
    let wire = (share(), share(), ecn, trace, prop::bool::weighted(0.3));
    (services(), queues(), 0..20_000i64, jitter, any::<bool>(), loss, policer, (varies, wire)).prop_map(
        |(service, queue, delay, jitter, reordering, loss, policer, (varies, wire))| {
            let ((loss_bursts, changes), (duplicate, corrupt, ecn, delay_trace, filter)) = (varies, wire);
            use QueueSpec::{Codel, DropTail, FqCodel, Red, Step};
            let fits = matches!(queue, DropTail(_) | Red(_) | Step(_) | Codel(_) | FqCodel(_));
            LinkConfig {
                ack_filter: filter && fits && !changes,
                delay_trace,
                duplicate,
                corrupt,
                ecn,
                jitter: Duration::from_us(jitter).into(),
                reordering,
                loss,
                loss_bursts,
                changes,
                policer: policer.map(|(rate, burst)| (mbps(rate), Bytes::new(burst))),
                ..LinkConfig::new(service, Duration::from_us(delay), queue.build(Some(mbps(20.0)), 9))
            }
        },
    )
}

/// Delays that change every 20 ms.
fn traces() -> impl Strategy<Value = DelayTrace> {
    prop::collection::vec(0..20u64, 1..20).prop_map(|delays| {
        let points = delays.iter().enumerate();
        let points: Vec<[String; 2]> =
            points.map(|(index, delay)| [format!("{} ms", index * 20), format!("{delay} ms")]).collect();
        serde_json::from_value(serde_json::json!(points)).expect("a trace")
    })
}

/// Controllers whose packets every queue passes.
fn controllers() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Reno),
        Just(Kind::Cubic),
        Just(Kind::Dctcp),
        (1..100u32).prop_map(|segments| Kind::FixedWindow(FixedWindow::new(segments))),
        (1.0..20.0f64).prop_map(|rate| Kind::FixedRate(FixedRate::new(mbps(rate)))),
    ]
}

/// Any controllers: routers drop congestion headers of a version that they do not serve.
fn any_controllers() -> impl Strategy<Value = Kind> {
    let explicit = |text: &str| Just(text.parse().expect("a controller"));
    prop_oneof![
        5 => controllers(),
        1 => explicit("xcp:demand=9 Mb/s"),
        1 => explicit("rcp:demand=9 Mb/s"),
    ]
}

/// A flow without its links, and whether it uses the NIC; it takes a part of the forward path and
/// all of the way back.
fn flows(kinds: impl Strategy<Value = Kind>) -> impl Strategy<Value = (TcpConfig, bool)> {
    let ecn = prop_oneof![Just(Ecn::Off), Just(Ecn::Classic), Just(Ecn::Dctcp)];
    let rates = || prop::option::weighted(0.3, (0.5..20.0f64).prop_map(mbps));
    let size = prop::option::of((1..500_000u64).prop_map(Bytes::new));
    (kinds, ecn, rates(), rates(), size, 1..6u32, any::<bool>(), any::<bool>()).prop_map(
        |(kind, ecn, application_rate, read_rate, size, every, pacing, nic)| {
            let config = TcpConfig {
                ecn,
                ect1: ecn == Ecn::Dctcp && pacing,
                application_rate,
                read_rate,
                size,
                pacing,
                ack: AckPolicy { every, timeout: Duration::from_ms(40) },
                receive_buffer: Bytes::new(100_000),
                ..flow(kind, LinkId(0), LinkId(0))
            };
            (config, nic)
        },
    )
}

fn sources() -> impl Strategy<Value = Traffic> {
    let rate = || (0.5..20.0f64).prop_map(mbps);
    let size = || (64..1_538u64).prop_map(Bytes::new);
    prop_oneof![
        (rate(), size()).prop_map(|(rate, size)| Traffic::Cbr { rate, size }),
        (rate(), size(), 1.0..10.0f64).prop_map(|(rate, size, batch)| Traffic::Batches { rate, size, batch }),
    ]
}

/// A network and the ids of its components.
#[derive(Debug)]
struct World {
    network: Network,
    there: Vec<LinkId>,
    back: Vec<LinkId>,
    flows: Vec<FlowId>,
    sources: Vec<SourceId>,
    nic: NicId,
    /// Links whose queue may change.
    changing: Vec<LinkId>,
}

/// Returns the part of a path selected by `part` (start and length, each from 0 to 1), at least one link.
fn stretch(path: &[LinkId], part: (f64, f64)) -> Vec<LinkId> {
    let start = ((path.len() as f64 * part.0) as usize).min(path.len() - 1);
    let count = 1 + ((path.len() - start) as f64 * part.1) as usize;
    path[start..(start + count).min(path.len())].to_vec()
}

fn worlds() -> impl Strategy<Value = World> {
    let part = || (0.0..1.0f64, 0.0..1.0f64);
    (
        any::<u64>(),
        prop::collection::vec(links(), 1..5),
        prop::collection::vec(links(), 1..3),
        prop::collection::vec((flows(any_controllers()), part()), 1..5),
        prop::collection::vec((sources(), part()), 0..4),
    )
        .prop_map(|(seed, there, back, flows, sources)| {
            let mut network = Network::new(seed);
            let changing = there.iter().chain(&back).enumerate().filter(|(_, link)| link.changes);
            let changing = changing.map(|(number, _)| LinkId(number as u32)).collect();
            let there: Vec<LinkId> = there.iter().map(|link| network.add_link(link)).collect();
            // Damaged segments are counted where they are dropped, and ACKs must not count there.
            let whole = back.iter().map(|link| LinkConfig { corrupt: 0.0, ..link.clone() });
            let back: Vec<LinkId> = whole.map(|link| network.add_link(&link)).collect();
            let nic = network.add_nic(Coalescing::Fixed {
                interval: Duration::from_us(250),
                jitter: 0.2,
                frames: Some(16),
            });
            let flows = flows
                .into_iter()
                .map(|((config, coalesced), part)| {
                    network.add_tcp(&TcpConfig {
                        forward: stretch(&there, part),
                        reverse: back.clone(),
                        nic: coalesced.then_some(nic),
                        ..config
                    })
                })
                .collect();
            let sources = sources
                .into_iter()
                .map(|(traffic, part)| {
                    let path = stretch(&there, part);
                    network.add_source(&SourceConfig { path, ..source(LinkId(0), traffic) })
                })
                .collect();
            World { network, there, back, flows, sources, nic, changing }
        })
}

/// Packets of TCP, sources and probes that have left the queue of a link.
fn served(link: &Link) -> u64 {
    let statistics = link.statistics();
    statistics.served_tcp.packets + statistics.served_other.packets + statistics.served_probe.packets
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let network = &world.network;
    for id in world.there.iter().chain(&world.back) {
        let link = network.link(*id);
        let counts = link.statistics();
        let queued = link.queued();
        prop_assert_eq!(
            counts.arrived.packets,
            served(link)
                + queued.packets
                + counts.dropped.packets
                + counts.policed.packets
                + counts.thinned.packets
        );
        let thinned = counts.thinned.bytes;
        let bytes = counts.served_tcp.bytes + counts.served_other.bytes + queued.bytes + thinned;
        prop_assert_eq!(counts.arrived.bytes, bytes + counts.dropped.bytes + counts.policed.bytes);
        let left = served(link) + counts.copies.packets;
        prop_assert_eq!(left, counts.delivered.packets + counts.lost.packets + link.in_flight());
        prop_assert!(queued.packets > 0 || queued.bytes == Bytes::ZERO);
    }
    let flows = || world.flows.iter().map(|id| network.flow(*id));
    let sources = || world.sources.iter().map(|id| network.source_statistics(*id));
    let sent = flows().map(|flow| flow.sent).sum::<u64>() + sources().map(|s| s.sent.packets).sum::<u64>();
    let there: u64 = world
        .there
        .iter()
        .map(|id| {
            let link = network.link(*id);
            let counts = link.statistics();
            let gone = counts.dropped.packets + counts.policed.packets + counts.lost.packets;
            gone + link.queued().packets + link.in_flight()
        })
        .sum();
    let received = flows().map(|flow| flow.received).sum::<u64>();
    let delivered = sources().map(|s| s.delivered.packets).sum::<u64>();
    let copies: u64 = world.there.iter().map(|id| network.link(*id).statistics().copies.packets).sum();
    let arrived = received + delivered + network.discarded();
    prop_assert_eq!(sent + copies, arrived + there + network.held(world.nic));
    for flow in flows() {
        prop_assert!(flow.delivered <= flow.received && flow.retransmitted <= flow.sent);
        prop_assert!(flow.goodput.get() <= flow.delivered * 1448);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_accounted_for_at_every_instant(
        mut world in worlds(),
        steps in prop::collection::vec((1..100_000i64, any::<prop::sample::Index>(), queues()), 5..25),
    ) {
        for (step, index, spec) in steps {
            let next = world.network.now() + Duration::from_us(step);
            world.network.run_until(next);
            check(&world)?;
            if !world.changing.is_empty() && step % 3 == 0 {
                let change = QueueChange { spec, rate: Some(mbps(20.0)), rates: None, seed: 7 };
                world.network.change_queue(*index.get(&world.changing), &change);
                check(&world)?;
            }
        }
    }

    #[test]
    fn a_finite_flow_delivers_what_it_was_given(
        there in prop::collection::vec(links(), 1..4),
        back in links(),
        (config, _) in flows(controllers()),
        size in 1..60_000u64,
    ) {
        let mut network = Network::new(1);
        let forward = there.iter().map(|link| network.add_link(link)).collect();
        let reverse = vec![network.add_link(&back)];
        let id = network.add_tcp(&TcpConfig { forward, reverse, size: Some(Bytes::new(size)), ..config });
        let mut end = at(10.0);
        while network.flow(id).finished.is_none() && end < at(100_000.0) {
            network.run_until(end);
            end += Duration::from_ms(10_000);
        }
        let flow = network.flow(id);
        prop_assert!(flow.finished.is_some(), "{:?}", flow);
        prop_assert_eq!((flow.goodput.get(), flow.delivered), (size, size.div_ceil(1448)));
        // Nothing is left over: no timer keeps a finished flow alive.
        network.run_until(end + Duration::from_ms(600_000));
        prop_assert_eq!(network.next_event(), None);
    }
}

#[test]
fn statistics_that_are_reset_still_add_up() {
    let mut pipe = Pipe::new(
        Kind::Reno,
        &link(mbps(10.0), Duration::from_ms(10), drop_tail(Some(30_000))),
        Duration::from_ms(10),
        |_| (),
    );
    pipe.run(1.03);
    let before = pipe.network.link(pipe.forward);
    let (queued, flying) = (before.queued().packets, before.in_flight());
    pipe.network.reset_statistics();
    let flow = pipe.run(2.0);
    let link = pipe.network.link(pipe.forward);
    let counts = link.statistics();
    assert_eq!(
        counts.arrived.packets + queued,
        served(link) + link.queued().packets + counts.dropped.packets
    );
    assert_eq!(served(link) + flying, counts.delivered.packets + link.in_flight());
    assert_eq!((counts.arrived.packets, counts.delivered.packets), (flow.sent, flow.received));
    assert_eq!(counts.arrived.bytes.get(), flow.sent * SEGMENT);
    let rate = Rate::from_bps(served(link) * SEGMENT * 8 * 100 / 97);
    assert!((rate.mbps() - 10.0).abs() < 0.2, "{rate}");
}
