//! The live measurement, run over simulated paths that two cores could not emulate.

use headway_estimate::measure::{Answer, Config, Method};
use headway_host::gap::Mechanism;
use headway_host::nic::{Coalescing, Stamp};
use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::Service;
use headway_sim::measurement::{MeasurementConfig, Measurements};
use headway_sim::{LinkConfig, Network, SourceConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

/// Measures a path with cross traffic, if any, and a round trip of 20 ms.
fn measure(
    capacity: Rate,
    cross: Option<Traffic>,
    packet: u64,
    coalescing: Option<Coalescing>,
    seed: u64,
) -> Answer {
    let mut network = Network::new(seed);
    let buffer = capacity.bytes_in(Duration::from_ms(50));
    let queue = QueueSpec::DropTail(DropTailConfig { limit: Some(buffer), packets: None })
        .build(Some(capacity), seed);
    let link = network.add_link(&LinkConfig::new(Service::Constant(capacity), Duration::from_ms(10), queue));
    if let Some(traffic) = cross {
        network.add_source(&SourceConfig { path: vec![link], traffic, start: Instant::ZERO, stop: None });
    }
    let measure = Config {
        method: Method::Response,
        packet: Bytes::new(packet),
        budget: None,
        gentle: false,
        duration: None,
        rtt: Duration::from_ms(20),
        top_rate: capacity.scale(2.0),
        train_rate: capacity.scale(2.0),
    };
    let config = MeasurementConfig {
        path: vec![link],
        narrow: link,
        start: Instant::from_ns(1_000_000_000),
        every: None,
        measure,
        model: None,
        line: capacity.scale(4.0),
        mechanism: Mechanism::Exact,
        coalescing,
        stamp: Stamp::Driver,
    };
    let mut simulated = Measurements::new(&mut network, config, seed, 0);
    while let Some(next) = simulated.next() {
        network.run_until(next);
        simulated.poll(&mut network);
    }
    simulated.ended()[0].answer.clone()
}

/// Median relative error of the estimate over seeds; `free` follows from the mean load.
fn median_error(
    capacity: Rate,
    cross: &Traffic,
    free: Rate,
    packet: u64,
    coalescing: Option<Coalescing>,
) -> f64 {
    let mut errors: Vec<f64> = (1..=9)
        .map(|seed| {
            let answer = measure(capacity, Some(cross.clone()), packet, coalescing, seed);
            let interval = answer.available.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
            interval.rate.bps_f64() / free.bps_f64() - 1.0
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    errors[4]
}

#[test]
fn what_is_free_is_found_from_100_megabits_to_10_gigabits() {
    for (gbps, packet) in [(0.1, 1538), (1.0, 1538), (10.0, 1538)] {
        for load in [0.2, 0.6] {
            let capacity = Rate::from_mbps(gbps * 1e3);
            let cross = Traffic::Poisson { rate: capacity.scale(load), size: Bytes::new(1538) };
            let error = median_error(capacity, &cross, capacity.scale(1.0 - load), packet, None);
            assert!(error.abs() < 0.06, "{capacity}, load {load}: off by {:.1} %", error * 100.0);
        }
    }
}

#[test]
fn a_coalescing_nic_does_not_hide_what_is_free_at_10_gigabits() {
    let capacity = Rate::from_mbps(10_000.0);
    let coalescing = Coalescing::Fixed { interval: Duration::from_us(120), jitter: 0.2, frames: None };
    // At higher loads many small cross packets fit between two large probes, and the
    // capacity is underestimated.
    for load in [0.1, 0.25] {
        let cross = Traffic::Poisson { rate: capacity.scale(load), size: Bytes::new(1538) };
        let error = median_error(capacity, &cross, capacity.scale(1.0 - load), 9038, Some(coalescing));
        assert!(error.abs() < 0.06, "load {load}: off by {:.1} %", error * 100.0);
    }
}

/// Asserts that the interval holds `free` and is within 5 % of `capacity` around it.
fn assert_narrow(answer: &Answer, capacity: Rate, free: Rate) {
    let interval = answer.available.unwrap_or_else(|failure| panic!("{capacity}: {failure}"));
    let (low, high) = (interval.low, interval.high.unwrap_or_else(|| panic!("{capacity}: {interval:?}")));
    let most = capacity.scale(0.05);
    assert!(low <= free && free <= high, "{capacity}: {interval:?}");
    assert!(low >= free.saturating_sub(most) && high <= free + most, "{capacity}: {interval:?}");
}

#[test]
fn an_idle_path_is_known_within_5_percent_at_any_rate_from_1_megabit_to_10_gigabits() {
    let rates = [1.0, 1.5, 3.0, 7.0, 13.0, 20.0, 45.0, 60.0, 90.0, 200.0, 622.0, 2_500.0, 10_000.0];
    for (mbps, seed) in rates.into_iter().zip(1..) {
        let capacity = Rate::from_mbps(mbps);
        assert_narrow(&measure(capacity, None, 1538, None, seed), capacity, capacity);
    }
}

#[test]
fn jumbo_frames_do_not_make_an_idle_path_harder() {
    for mbps in [20.0, 75.0, 5_000.0] {
        let capacity = Rate::from_mbps(mbps);
        assert_narrow(&measure(capacity, None, 9038, None, 1), capacity, capacity);
    }
}

#[test]
fn an_idle_path_of_1_to_10_megabits_costs_little_more_than_the_gaps_it_takes() {
    for mbps in [2.0, 3.0, 5.0, 10.0] {
        let answer = measure(Rate::from_mbps(mbps), None, 1538, None, 1);
        // A stream takes 25 to 30 kB, and the train that looks for a policer at the end 0.8 s.
        let train = Rate::from_mbps(mbps).bytes_in(Duration::from_ms(800));
        assert!(answer.streams_used <= 35, "{mbps}: {answer:?}");
        assert!(answer.bytes <= Bytes::new(1_000_000) + train, "{mbps}: {answer:?}");
    }
}
