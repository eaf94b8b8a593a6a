//! The laws in closed loops of a few flows.

use headway_arithmetic::explicit::{Config, ExplicitQueue, Law, Record, flags};

use crate::network::{Network, fairness};
use crate::support::{CAPACITY, LINE, Random, signed};

const REAL: f64 = CAPACITY as f64;

fn network(config: &Config) -> Network {
    let router = ExplicitQueue::new(config, 0, 1 << 31).expect("in range");
    Network::new(router, REAL, 75_000, 1500)
}

/// Four flows that begin 10 s apart, with an RTT of 100 ms.
fn four(config: &Config) -> Network {
    let mut network = network(config);
    for begin in [0.0, 10.0, 20.0, 30.0] {
        network.flow(begin, begin + 60.0, 0.1);
    }
    network
}

fn between(network: &Network, begin: f64, end: f64) -> impl Iterator<Item = &Record> {
    network.records.iter().filter(move |r| (begin * 1e9..end * 1e9).contains(&(r.time as f64)))
}

/// xcp-rcp F21.
#[test]
fn unequal_flows_become_equal_within_thirty_intervals() {
    let mut network = network(&Config::new(Law::Xcp, CAPACITY, LINE));
    network.flow(0.0, 100.0, 0.1);
    network.run(10.0);
    network.flow(10.0, 100.0, 0.1);
    network.run(10.4);
    assert!(network.flows[0].rate() > 4.0 * network.flows[1].rate());
    network.run(13.4);
    assert!(fairness(&network.flows) > 0.98, "{}", fairness(&network.flows));
}

#[test]
fn the_link_is_full_under_every_law() {
    // WXCP would need a channel, not a link.
    for law in Law::ALL.into_iter().filter(|law| *law != Law::Wxcp) {
        let mut network = four(&Config::new(law, CAPACITY, LINE));
        let utilisation = network.utilisation(20.0, 60.0);
        let fairness = fairness(&network.flows);
        assert!(utilisation > 0.9 && fairness > 0.9, "{law:?}: {utilisation}, {fairness}");
    }
}

/// xcp-rcp F34.
#[test]
fn errors_finds_the_error_of_the_capacity() {
    for (believed, tolerance) in [(0, 0.05), (CAPACITY, 0.05), (2 * CAPACITY, 0.05)] {
        let mut network = four(&Config::new(Law::Errors, believed, LINE));
        network.run(60.0);
        let expected = believed as f64 - REAL;
        let (sum, count) = between(&network, 35.0, 60.0)
            .fold((0.0, 0.0), |(sum, count), r| (sum + signed(r.xi) / 0.6, count + 1.0));
        assert!(
            (sum / count - expected).abs() < tolerance * REAL,
            "{believed}: {} of {expected}",
            sum / count
        );
    }
}

/// xcp-rcp F35: the queue of XCP that believes in too large a capacity.
#[test]
fn a_capacity_too_large_leaves_a_queue_and_one_too_small_leaves_capacity() {
    for error in [0.1, 0.2, 0.4] {
        let believed = (REAL * (1.0 + error)) as u64;
        let mut network = four(&Config::new(Law::Xcp, believed, LINE));
        network.run(60.0);
        let ratio = 0.4 / 0.226;
        let expected = ratio * error * REAL * 0.1 / (1.0 - ratio * error);
        let (sum, count) =
            between(&network, 40.0, 60.0).fold((0, 0), |(sum, count), r| (sum + r.queue_bytes, count + 1));
        let found = sum as f64 / f64::from(count);
        assert!((found / expected - 1.0).abs() < 0.2, "{error}: {found} of {expected}");
    }
    let mut network = four(&Config::new(Law::Xcp, CAPACITY * 8 / 10, LINE));
    let utilisation = network.utilisation(40.0, 60.0);
    assert!((utilisation - 0.8).abs() < 0.02, "{utilisation}");
}

/// xcp-rcp F56.
#[test]
fn rcp_without_a_capacity_bounds_the_queue_of_a_varying_link() {
    for law in [Law::RcpBlind, Law::RcpKappa, Law::RcpErrors] {
        let mut random = Random(9);
        let mut network = four(&Config::new(law, 0, LINE));
        network.run(40.0);
        network.peak = 0;
        let (mut used, mut offered) = (0.0, 0.0);
        for k in 20..30 {
            network.capacity = REAL * (0.7 + 0.3 * random.unit());
            used += network.utilisation(f64::from(2 * k), f64::from(2 * k + 2)) * network.capacity;
            offered += network.capacity;
        }
        assert!(used / offered > 0.9 && network.peak <= 30_000, "{law:?}: {}", network.peak);
    }
}

/// xcp-rcp F42: the law and the senders change their version; the link stays full.
#[test]
fn a_switch_of_the_protocol_at_run_time_keeps_the_link_full() {
    let laws = [Law::Rcp, Law::Xcp, Law::Errors, Law::RcpBlind, Law::Blind, Law::Rcp];
    let mut network = network(&Config::new(Law::Xcp, CAPACITY, LINE));
    (0..3).for_each(|_| network.flow(0.0, 100.0, 0.1));
    for (k, law) in (1..).zip(laws) {
        let end = f64::from(10 * k);
        network.run(end);
        network.router.set_config(&Config::new(law, CAPACITY, LINE)).expect("in range");
        let utilisation = network.utilisation(end + 5.0, end + 10.0);
        assert!(utilisation > 0.85, "{law:?}: {utilisation}");
    }
}

/// Flows that begin around 10 s as a Laplace distribution with b = 1 s says, at 10 Mb/s
/// with packets of 100 B.
fn crowd(switches: u32) -> u64 {
    let config = Config { flags: switches, rate_min: 10, ..Config::new(Law::Rcp, 1_250_000, LINE) };
    let router = ExplicitQueue::new(&config, 0, 1 << 31).expect("in range");
    let mut network = Network::new(router, 1_250_000.0, u64::MAX, 100);
    network.paced = true;
    network.flow(0.0, 100.0, 0.1);
    let mut random = Random(5);
    for _ in 0..1500 {
        let share = random.unit() - 0.5;
        let begin = 10.0 - share.signum() * (1.0 - 2.0 * share.abs()).ln();
        network.flow(begin.max(0.1), 100.0, 0.1);
    }
    assert_eq!(network.begins().len(), 1501);
    network.run(22.0);
    network.peak
}

/// xcp-rcp F55.
#[test]
fn surge_measures_lower_the_queue_of_a_flash_crowd() {
    let plain = crowd(0);
    for switches in [flags::RAISE_BETA, flags::ADMISSION, flags::RAISE_BETA | flags::ADMISSION] {
        let with = crowd(switches);
        assert!(with < plain, "{switches}: {with} of {plain}");
    }
}

/// xcp-rcp 4.4: R is one for all, so the k-th flow adds 1 / (k - 1) of the capacity until it is heard.
#[test]
fn each_new_flow_of_rcp_queues_less_than_the_one_before() {
    let mut network = four(&Config::new(Law::Rcp, CAPACITY, LINE));
    let mut last = 32_500;
    for k in 1..4 {
        let begin = 10.0 * f64::from(k);
        network.run(begin);
        network.peak = 0;
        network.run(begin + 0.5);
        let fairness = fairness(&network.flows[..k as usize + 1]);
        network.run(begin + 9.0);
        assert!(network.peak < last && (k > 1 || network.peak >= 19_500), "{k}: {}", network.peak);
        assert!(fairness > 0.99, "{k}: {fairness}");
        last = network.peak;
    }
}
