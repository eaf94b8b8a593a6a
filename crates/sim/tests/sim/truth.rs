//! The truth about available bandwidth during a measurement, compared with closed forms.

use crate::support::*;
use headway_control::Kind;
use headway_estimate::measure::PathKind;
use headway_sim::measurement::{Measured, Truth};
use headway_sim::{LinkConfig, LinkId, Network, SourceConfig, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

const MS: fn(i64) -> Duration = Duration::from_ms;

fn cbr(rate: f64) -> Traffic {
    Traffic::Cbr { rate: mbps(rate), size: Bytes::new(1538) }
}

fn measure(network: &mut Network, path: &[LinkId]) -> Measured {
    measure_path(network, path, mbps(1000.0), 1)
}

fn truth(measured: &Measured) -> Truth {
    measured.truth.unwrap_or_else(|| panic!("there is a link with a rate"))
}

#[test]
fn the_tight_link_is_the_one_with_the_least_left_not_the_narrow_one() {
    let mut network = Network::new(1);
    let rates = [100.0, 250.0, 400.0];
    let path = rates.map(|rate| network.add_link(&link(mbps(rate), MS(3), drop_tail(Some(1_000_000)))));
    for (id, load) in path.iter().zip([10.0, 200.0, 100.0]) {
        network.add_source(&source(*id, cbr(load)));
    }
    let measured = measure(&mut network, &path);
    let truth = truth(&measured);
    assert_eq!(truth.tight, path[1]);
    assert_near("capacity", truth.capacity.mbps(), 100.0, 1e-6);
    assert_near("free", truth.free.mbps(), 50.0, 0.001);
    assert_eq!(truth.free_without_tcp, truth.free);
    assert_eq!(measured.displaced, 0);
}

#[test]
fn a_host_as_slow_as_the_link_is_not_told_at_least() {
    // Its fastest stream arrives more slowly than it was sent.
    for load in [0.2, 0.5, 0.8] {
        let mut network = Network::new(1);
        let path = [network.add_link(&link(mbps(1000.0), MS(5), drop_tail(Some(2_500_000))))];
        network.add_source(&source(path[0], cbr(1000.0 * load)));
        let measured = measure(&mut network, &path);
        let available = measured.answer.available.expect("an answer");
        let free = truth(&measured).free;
        assert!(available.high.is_some_and(|high| high >= free) && available.low <= free, "{available:?}");
    }
}

#[test]
fn a_pause_between_bursts_is_not_told_at_least() {
    // A line as fast as the link, and a burst of 24 packets on average every 81 ms: streams that fall between
    // them all arrive as fast as they were sent.
    for seed in 1..=40 {
        let mut network = Network::new(seed);
        let path = [network.add_link(&link(mbps(8.5), MS(1), drop_tail(Some(76_900))))];
        let bursts = Traffic::Batches { rate: mbps(3.655), size: Bytes::new(1538), batch: 24.0 };
        network.add_source(&source(path[0], bursts));
        let measured = measure_path(&mut network, &path, mbps(8.5), seed);
        let (free, available) = (truth(&measured).free, measured.answer.available);
        let is_wrong = available.is_ok_and(|interval| interval.high.is_none() && interval.low > free);
        assert!(!is_wrong, "{free}: {:?}", measured.answer);
    }
}

#[test]
fn beside_greedy_tcp_the_answer_is_the_little_that_is_left() {
    // 20 flows keep the queue full: every stream loses packets, and is used only up to the first. Of
    // intervals that hold the truth nine times in ten, one of twenty answers may miss it.
    let (mut rates, mut missed) = (Vec::new(), 0);
    for seed in 1..=60 {
        let mut network = Network::new(seed);
        let there = network.add_link(&link(mbps(96.0), MS(8), drop_tail(Some(146_110))));
        let back = network.add_link(&wire(MS(8)));
        network.add_source(&source(there, cbr(5.0)));
        (0..20).for_each(|_| _ = network.add_tcp(&flow(Kind::Bbr, there, back)));
        let measured = measure_path(&mut network, &[there], mbps(3840.0), seed);
        let free = truth(&measured).free;
        assert!(free < mbps(10.0), "{free}");
        if let Ok(available) = measured.answer.available {
            rates.push(available.rate);
            missed += u32::from(available.low > free);
        }
    }
    rates.sort();
    assert!(rates.len() >= 10 && missed <= 1, "{missed} missed of {rates:?}");
    assert!(rates[rates.len() / 2] < mbps(12.0), "{rates:?}");
}

#[test]
fn queues_in_series_are_in_the_interval_and_not_called_one() {
    // 50 of 100 Mb/s are free on both links: as one queue, their delays would look like those of 43 Mb/s.
    for seed in 1..=4 {
        let mut network = Network::new(seed);
        let path =
            [MS(5), MS(5)].map(|delay| network.add_link(&link(mbps(100.0), delay, drop_tail(Some(500_000)))));
        for id in path {
            let traffic = Traffic::Poisson { rate: mbps(50.0), size: Bytes::new(1538) };
            network.add_source(&source(id, traffic));
        }
        let measured = measure(&mut network, &path);
        let (available, free) = (measured.answer.available.expect("an answer"), truth(&measured).free);
        assert!(
            available.low <= free && available.high.is_some_and(|high| free <= high),
            "{free}: {measured:?}"
        );
        assert_ne!(measured.answer.path_kind, Some(PathKind::OneQueue), "{measured:?}");
    }
}

#[test]
fn a_step_of_the_load_is_said_and_the_answer_is_the_average() {
    let mut network = Network::new(1);
    let path = [network.add_link(&link(mbps(100.0), MS(5), drop_tail(Some(250_000))))];
    network.add_source(&source(path[0], cbr(20.0)));
    let step = Instant::ZERO + MS(1_390);
    let second = SourceConfig { path: path.to_vec(), traffic: cbr(40.0), start: step, stop: None };
    network.add_source(&second);
    let measured = measure(&mut network, &path);
    // 80 Mb/s until the step, which is in transit for 5 ms, and 40 Mb/s from then on.
    let from = measured.sampled_from;
    let share = (step - from).secs_f64() / (measured.end - from).secs_f64();
    assert!((0.3..0.9).contains(&share), "{share}");
    let average = 40.0 + 40.0 * share;
    assert_near("free", truth(&measured).free.mbps(), average, 0.01);
    let change = measured.answer.change.expect("a change");
    assert_near("before", change.before.mbps(), 80.0, 0.06);
    assert_near("after", change.after.mbps(), 40.0, 0.06);
    let available = measured.answer.available.expect("an answer");
    let high = available.high.expect("an interval");
    assert!(available.low.mbps() <= average && average <= high.mbps(), "{available:?}");
    assert!(change.after < available.rate && available.rate < change.before, "{available:?}");
}

#[test]
fn traffic_over_several_links_counts_on_each_of_them() {
    let mut network = Network::new(1);
    let path = [60.0, 100.0].map(|rate| network.add_link(&link(mbps(rate), MS(3), drop_tail(None))));
    let over_both =
        SourceConfig { path: path.to_vec(), traffic: cbr(20.0), start: Instant::ZERO, stop: None };
    network.add_source(&over_both);
    network.add_source(&source(path[1], cbr(50.0)));
    let truth = truth(&measure(&mut network, &path));
    assert_eq!(truth.tight, path[1]);
    assert_near("free", truth.free.mbps(), 30.0, 0.001);
}

#[test]
fn a_policer_is_a_limit_like_a_rate() {
    let mut network = Network::new(1);
    let policed = LinkConfig {
        policer: Some((mbps(60.0), Bytes::new(30_000))),
        ..link(mbps(100.0), MS(5), drop_tail(None))
    };
    let path = [network.add_link(&policed)];
    network.add_source(&source(path[0], cbr(20.0)));
    let truth = truth(&measure(&mut network, &path));
    assert_near("capacity", truth.capacity.mbps(), 60.0, 1e-6);
    // Probing makes the policer drop some packets of others, which then do not use its rate.
    assert_near("free", truth.free.mbps(), 40.0, 0.03);
}

#[test]
fn tcp_is_not_free_unless_it_is_said_to_yield() {
    let mut network = Network::new(1);
    let there = network.add_link(&link(mbps(100.0), MS(5), drop_tail(Some(250_000))));
    let back = network.add_link(&wire(MS(5)));
    // An application that writes 30 Mb/s on the wire: segments with 1448 bytes of payload take 1538 bytes.
    let payload = 30.0 * 1448.0 / 1538.0;
    network.add_tcp(&TcpConfig { application_rate: Some(mbps(payload)), ..flow(Kind::Cubic, there, back) });
    network.add_source(&source(there, cbr(20.0)));
    let truth = truth(&measure(&mut network, &[there]));
    assert_near("free", truth.free.mbps(), 50.0, 0.01);
    assert_near("free without TCP", truth.free_without_tcp.mbps(), 80.0, 0.001);
}

#[test]
fn other_measurements_are_others_and_ones_own_probes_are_not() {
    let mut network = Network::new(1);
    let path = [network.add_link(&link(mbps(100.0), MS(5), drop_tail(None)))];
    let other = network.add_prober(&path, None);
    let every = mbps(25.0).time_for(Bytes::new(1538));
    for packet in 0..20_000 {
        network.send_probe(other, Instant::ZERO + every * packet, Bytes::new(1538));
    }
    let truth = truth(&measure(&mut network, &path));
    assert_near("free", truth.free.mbps(), 75.0, 0.001);
}

/// Sends `count` packets of 1538 bytes back to back at `at`, and returns the largest delay that they added.
fn burst(network: &mut Network, path: &[LinkId], at: Instant, count: u32) -> Duration {
    let prober = network.add_prober(path, None);
    network.watch(path);
    for _ in 0..count {
        network.send_probe(prober, at, Bytes::new(1538));
    }
    network.run_until(at + MS(1_000));
    let log = network.take_probe_log(prober);
    log.iter().map(|log| log.added_delay).max().unwrap_or_default()
}

#[test]
fn probes_add_their_own_transmission_times_to_the_delay_of_others() {
    // 1538 bytes at 12.304 Mb/s take a millisecond.
    let rate = Rate::from_bps(12_304_000);
    for load in [0.0, 0.5] {
        let mut network = Network::new(1);
        let path = [network.add_link(&link(rate, MS(1), drop_tail(None)))];
        network.add_source(&source(path[0], Traffic::Cbr { rate: rate.scale(load), size: Bytes::new(1538) }));
        assert_eq!(burst(&mut network, &path, at(0.5), 7), MS(7), "load {load}");
    }
}

#[test]
fn two_queues_in_a_row_add_both_delays() {
    let rate = Rate::from_bps(12_304_000);
    let mut network = Network::new(1);
    let path = [rate, rate.scale(0.5)].map(|rate| network.add_link(&link(rate, MS(1), drop_tail(None))));
    // At the first link the last of three probes waits 3 ms, including its own transmission. When it reaches
    // the second, one of the others has left, and 4 ms remain.
    assert_eq!(burst(&mut network, &path, at(0.5), 3), MS(3 + 4));
}

#[test]
fn on_a_full_link_every_probe_that_gets_through_displaces_a_packet() {
    let rate = Rate::from_bps(12_304_000);
    for (load, probes) in [(0.5, 0), (0.5, 100), (1.5, 0), (1.5, 100)] {
        let mut network = Network::new(1);
        let path = [network.add_link(&link(rate, MS(1), drop_tail(Some(10 * 1538))))];
        network.add_source(&source(path[0], Traffic::Cbr { rate: rate.scale(load), size: Bytes::new(1538) }));
        let prober = network.add_prober(&path, None);
        network.watch(&path);
        for probe in 0..probes {
            network.send_probe(prober, at(0.5) + Duration::from_us(3_300) * probe, Bytes::new(1538));
        }
        network.run_until(at(2.0));
        let through = network.take_probe_log(prober).iter().filter(|log| log.arrived.is_some()).count();
        // Losses that the probes did not cause do not count.
        let expected = if load > 1.0 { through as i64 } else { 0 };
        let displaced = network.displaced(path[0]);
        println!("load {load}: {through} of {probes} probes got through, {displaced} displaced");
        assert!((displaced - expected).abs() <= 1, "load {load}, {probes} probes: {displaced}");
        assert!(probes == 0 || through > 10);
    }
}

#[test]
fn on_a_slow_path_others_hardly_wait_for_probes() {
    let mut network = Network::new(1);
    let path = [network.add_link(&link(mbps(4.0), MS(10), drop_tail(Some(60_000))))];
    network.add_source(&source(path[0], cbr(2.0)));
    let measured = measure(&mut network, &path);
    let free = measured.answer.available.expect("an answer").rate.mbps();
    assert_near("free", free, 2.0, 0.1);
    assert!(measured.added_delay <= MS(14), "{}", measured.added_delay);
    assert!(measured.added_delay_max <= MS(20), "{}", measured.added_delay_max);
    assert_eq!(measured.displaced, 0);
}
