//! Disciplines with several queues: DualPI2 for scalable senders beside others, and FQ-CoDel.

use crate::support::*;
use headway_control::Kind;
use headway_queue::{CodelConfig, DualPi2Config, FqCodelConfig, QueueSpec};
use headway_sim::config::Ecn;
use headway_sim::{FlowId, Network, SourceConfig, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// A network with a link of 40 Mb/s, 10 ms away and back, with this queue.
fn network(spec: &QueueSpec) -> (Network, [headway_sim::LinkId; 2]) {
    let mut network = Network::new(1);
    let queue = spec.build(Some(mbps(40.0)), 1);
    let there = network.add_link(&link(mbps(40.0), MS(10), queue));
    let back = network.add_link(&wire(MS(10)));
    (network, [there, back])
}

/// What flows and their queue showed from 10 to 40 s.
struct Shown {
    /// Goodput of each flow in Mb/s.
    goodput: Vec<f64>,
    /// Share of the segments of each flow that were marked.
    marks: Vec<f64>,
    /// Mean queueing delay in ms.
    delay: f64,
}

fn run(spec: &QueueSpec, flows: &[(Kind, Ecn, bool)]) -> Shown {
    let (mut network, [there, back]) = network(spec);
    let add = |(kind, ecn, ect1): &(Kind, Ecn, bool)| {
        let config = flow(*kind, there, back);
        network.add_tcp(&TcpConfig { ecn: *ecn, ect1: *ect1, pacing: true, ..config })
    };
    let ids: Vec<FlowId> = flows.iter().map(add).collect();
    network.run_until(at(10.0));
    network.reset_statistics();
    network.run_until(at(40.0));
    let seen = || ids.iter().map(|id| network.flow(*id));
    Shown {
        goodput: seen().map(|flow| flow.goodput.get() as f64 * 8e-6 / 30.0).collect(),
        marks: seen().map(|flow| flow.marked as f64 / flow.received as f64).collect(),
        delay: network.link(there).statistics().delay.mean().ms(),
    }
}

const L4S: (Kind, Ecn, bool) = (Kind::Dctcp, Ecn::Dctcp, true);
const CLASSIC: (Kind, Ecn, bool) = (Kind::Reno, Ecn::Classic, false);

#[test]
fn a_scalable_flow_waits_for_a_millisecond_where_a_classic_one_waits_for_the_target() {
    let spec = QueueSpec::DualPi2(DualPi2Config::default());
    let Shown { goodput, delay, .. } = run(&spec, &[L4S]);
    assert!(goodput[0] > 0.9 * 37.6 && delay < 1.3, "{goodput:?} {delay} ms");
    // Without ECT(1), and for a flow of Reno, it is the other queue.
    for flow in [(Kind::Dctcp, Ecn::Dctcp, false), CLASSIC] {
        let Shown { goodput, delay, .. } = run(&spec, &[flow]);
        assert!(goodput[0] > 0.9 * 37.6 && (5.0..20.0).contains(&delay), "{goodput:?} {delay} ms");
    }
}

#[test]
fn scalable_flows_are_marked_twice_the_root_of_what_others_are_and_share_the_link_with_them() {
    let spec = QueueSpec::DualPi2(DualPi2Config::default());
    for (scalable, classic) in [(1, 1), (2, 2), (1, 3)] {
        let flows: Vec<_> =
            std::iter::repeat_n(L4S, scalable).chain(std::iter::repeat_n(CLASSIC, classic)).collect();
        let Shown { goodput, marks, .. } = run(&spec, &flows);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let [marked, others] = [&marks[..scalable], &marks[scalable..]].map(mean);
        // p' varies, and the mean of its square is more than the square of its mean.
        let coupling = marked / others.sqrt();
        assert!((1.4..2.2).contains(&coupling), "{scalable} {classic}: {coupling}");
        // Windows of DCTCP do not grow in the round trip after a mark, so it gets less
        // than equal shares here.
        let ratio = mean(&goodput[..scalable]) / mean(&goodput[scalable..]);
        assert!((0.35..2.0).contains(&ratio), "{scalable} {classic}: {ratio} {goodput:?}");
        assert!(goodput.iter().sum::<f64>() > 0.93 * 37.6, "{goodput:?}");
    }
}

#[test]
fn a_flow_gets_half_of_the_link_beside_unresponsive_traffic() {
    let fq =
        QueueSpec::FqCodel(FqCodelConfig { limit: Some(Bytes::new(500_000)), ..FqCodelConfig::default() });
    let codel = QueueSpec::Codel(CodelConfig { limit: Some(Bytes::new(500_000)), ..CodelConfig::default() });
    let goodput = |spec: &QueueSpec| {
        let (mut network, [there, back]) = network(spec);
        let flow = network.add_tcp(&flow(Kind::Cubic, there, back));
        let traffic = Traffic::Cbr { rate: mbps(60.0), size: Bytes::new(SEGMENT) };
        network.add_source(&SourceConfig { start: at(1.0), ..source(there, traffic) });
        network.run_until(at(10.0));
        network.reset_statistics();
        network.run_until(at(40.0));
        network.flow(flow).goodput.get() as f64 * 8e-6 / 30.0
    };
    // 1448 of 1538 bytes are payload.
    let half = 20.0 * 1448.0 / 1538.0;
    assert!(goodput(&fq) > 0.9 * half && goodput(&fq) < 1.01 * half, "{}", goodput(&fq));
    assert!(goodput(&codel) < 0.1 * half, "{}", goodput(&codel));
}

#[test]
fn sparse_packets_do_not_wait_behind_long_queues() {
    let fq = QueueSpec::FqCodel(FqCodelConfig::default());
    let (mut network, [there, back]) = network(&fq);
    network.add_tcp(&flow(window(400), there, back));
    // Ten packets a second, of another flow.
    let sparse = TcpConfig { application_rate: Some(mbps(0.1158)), ..flow(window(4), there, back) };
    let sparse = network.add_tcp(&sparse);
    network.run_until(at(10.0));
    let srtt = network.flow(sparse).srtt.map_or(0.0, Duration::ms);
    // The path, its own transmission, and at most two packets before it.
    assert!(srtt < 20.0 + 4.0 * 0.31, "{srtt} ms");
}
