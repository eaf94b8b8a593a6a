//! Flows that come and go.

use std::collections::HashMap;

use crate::support::{drop_tail, link, mbps, segments, us};
use headway_control::Kind;
use headway_sim::{Completion, GroupId, LinkConfig, Network, TcpConfig};
use headway_units::{Bytes, Duration, Instant};

/// A network with one link in either direction, and a group of hosts' flows over it.
fn network(forward: &LinkConfig) -> (Network, GroupId, TcpConfig) {
    let mut network = Network::new(3);
    let reverse = link(mbps(1000.0), Duration::from_ms(5), drop_tail(None));
    let (there, back) = (network.add_link(forward), network.add_link(&reverse));
    let config = TcpConfig::new(Kind::Cubic, vec![there], vec![back]);
    let group = network.add_group(&config);
    (network, group, config)
}

fn clean() -> LinkConfig {
    link(mbps(1000.0), Duration::from_ms(5), drop_tail(Some(2_000_000)))
}

/// The start of flow `number` of those that come every 300 us, in no order of size.
fn arrival(number: u64) -> (Instant, Bytes) {
    (us(number as i64 * 300), segments(1 + number * 7 % 40))
}

/// Lets flows come until there have been `count`; gives their ends, and the most memory and
/// flows that there were.
fn churn(count: u64) -> (Vec<Completion>, Bytes, usize) {
    let (mut network, group, _) = network(&clean());
    let (mut ended, mut memory, mut alive) = (Vec::new(), Bytes::ZERO, 0);
    for (start, size) in (0..count).map(arrival) {
        network.run_until(start);
        network.start_flow(group, start, size).expect("there is room");
        ended.extend(network.take_completions());
        (memory, alive) = (memory.max(network.memory()), alive.max(network.flows_alive()));
    }
    network.run_until(arrival(count).0 + Duration::from_ms(2_000));
    ended.extend(network.take_completions());
    assert_eq!(network.flows_alive(), 0);
    (ended, memory, alive)
}

#[test]
fn every_flow_ends_and_memory_is_that_of_those_alive() {
    let (few, _, _) = churn(10);
    assert!(few.iter().all(|flow| flow.end - flow.start >= Duration::from_ms(10)));
    let (_, memory_before, alive_before) = churn(2_000);
    let (ended, memory, alive) = churn(20_000);
    assert_eq!(ended.len(), 20_000);
    assert!(alive < 500 && alive <= alive_before * 5 / 4, "{alive} of {alive_before}");
    assert!(memory.get() < memory_before.get() * 5 / 4, "{memory} after {memory_before}");
    let sizes: u64 = ended.iter().map(|flow| flow.size.get()).sum();
    assert_eq!(sizes, (0..20_000).map(|number| arrival(number).1.get()).sum::<u64>());
}

#[test]
fn a_flow_in_the_slot_of_another_ends_when_one_in_its_own_would() {
    let (mut own, _, config) = network(&clean());
    let flows: Vec<_> = (0..600)
        .map(arrival)
        .map(|(start, size)| own.add_tcp(&TcpConfig { start, size: Some(size), ..config.clone() }))
        .collect();
    own.run_until(us(2_000_000));
    // A network opens connections ahead; they are added so long before.
    let lead = Duration::from_ms(100);
    let (mut shared, group, _) = network(&clean());
    let mut slots = HashMap::new();
    let mut ends = HashMap::new();
    for (start, size) in (0..600).map(arrival) {
        shared.run_until(Instant::ZERO + ((start - Instant::ZERO) - lead).max(Duration::ZERO));
        *slots.entry(shared.start_flow(group, start, size).expect("there is room")).or_insert(0) += 1;
        ends.extend(shared.take_completions().map(|flow| (flow.start, flow.end)));
    }
    shared.run_until(us(2_000_000));
    ends.extend(shared.take_completions().map(|flow| (flow.start, flow.end)));
    assert!(slots.values().any(|uses| *uses > 1));
    for (flow, (start, _)) in flows.into_iter().zip((0..600).map(arrival)) {
        assert_eq!(own.flow(flow).finished, ends.get(&start).copied(), "{start:?}");
    }
}

#[test]
fn a_late_packet_of_a_former_flow_does_not_reach_the_next() {
    let overtaking =
        LinkConfig { jitter: Duration::from_ms(80).into(), reordering: true, loss: 0.05, ..clean() };
    let (mut network, group, _) = network(&overtaking);
    let (mut repeated, mut reused) = (0, 0);
    for _ in 0..300 {
        let flow = network.start_flow(group, network.now(), segments(20)).expect("there is room");
        reused += u32::from(flow.0 == 0);
        let mut end = None;
        while end.is_none() {
            let next = network.next_event().expect("the flow has not ended");
            network.run_until(next);
            end = network.take_completions().next();
        }
        let statistics = network.flow(flow);
        assert_eq!(statistics.delivered, 20);
        assert!(statistics.received <= 20 + statistics.retransmitted, "{statistics:?}");
        repeated += statistics.retransmitted;
        network.run_until(network.now() + Duration::from_us(1));
    }
    assert!(reused == 300 && repeated > 300, "{repeated} segments were sent again");
}
