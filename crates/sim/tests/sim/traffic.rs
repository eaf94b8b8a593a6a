//! The traffic models compared with their parameters and with published figures.

use headway_traffic::Traffic;
use headway_traffic::percentiles::Percentiles;
use headway_units::{Bytes, Duration, Rate};

const PACKET: Bytes = Bytes::new(1538);

fn gbps(gbps: f64) -> Rate {
    Rate::from_mbps(gbps * 1e3)
}

fn measure(traffic: &Traffic, seconds: i64) -> Percentiles {
    Percentiles::measure(traffic, 1, 0, Duration::from_ms(seconds * 1_000))
}

fn assert_near(what: &str, value: Rate, expected: Rate, part: f64) {
    let error = value.bps_f64() / expected.bps_f64() - 1.0;
    assert!(error.abs() < part, "{what}: {value} instead of {expected}");
}

#[test]
fn means_are_within_one_percent() {
    let rate = gbps(1.0);
    let web = Traffic::Web {
        browsers: 10_000,
        think: Duration::from_ms(7_990),
        access: Rate::from_mbps(80.0),
        file: Bytes::new(100_000),
        spread: 1.0,
        size: PACKET,
    };
    let on_off = Traffic::ParetoOnOff {
        sources: 100,
        peak: Rate::from_mbps(40.0),
        on: Duration::from_ms(10),
        off: Duration::from_ms(30),
        shape: 1.9,
        size: PACKET,
    };
    let pareto = Traffic::Pareto {
        rate,
        sources: 16,
        shape: 1.9,
        size: PACKET,
        least_size: Some(Bytes::new(78)),
        silence: Duration::from_ms(10),
        period: Duration::from_ms(200),
    };
    let models = [
        pareto,
        Traffic::Cbr { rate, size: PACKET },
        Traffic::Poisson { rate, size: PACKET },
        Traffic::Batches { rate, size: PACKET, batch: 12.4 },
        on_off,
        web,
    ];
    for traffic in models {
        assert_near(&format!("{traffic:?}"), measure(&traffic, 60).mean, rate, 0.01);
    }
}

#[test]
fn every_millisecond_of_constant_traffic_is_alike() {
    let traffic = Traffic::Cbr { rate: gbps(1.0), size: Bytes::new(1_250) };
    let expected =
        "mean 1.00 Gb/s, 5 % 1.00 Gb/s, median 1.00 Gb/s, 95 % 1.00 Gb/s, burstiness 0.00 b/s (1 ms samples)";
    assert_eq!(measure(&traffic, 1).to_string(), expected);
}

#[test]
fn milliseconds_of_poisson_batches_spread_as_computed() {
    // rapid 4.0: 0.573 Gb/s between the 5 % and 95 % quantiles at 2.47 Gb/s, times sqrt(2 m - 1)
    // for batches of mean m.
    let spread = |batch: f64| {
        let traffic = Traffic::Batches { rate: gbps(2.47), size: PACKET, batch };
        measure(&traffic, 60).burstiness()
    };
    assert_near("Poisson", spread(1.0), gbps(0.573), 0.04);
    assert_near("batches of 4.1", spread(4.1), gbps(0.573 * 7.2f64.sqrt()), 0.04);
}

#[test]
fn the_profiles_agree_with_table_3_1_within_ten_percent() {
    let scale = 1.0;
    let table = [
        (Traffic::Bct { scale }, 2.51, 1.15, 3.94),
        (Traffic::Sct { scale }, 2.49, 1.78, 3.31),
        (Traffic::CbrProfile { scale }, 2.47, 2.21, 2.72),
        (Traffic::Unc1 { scale }, 3.10, 2.23, 4.05),
        (Traffic::Unc2 { scale }, 2.75, 1.84, 3.77),
        (Traffic::Unc3 { scale }, 3.28, 2.31, 4.29),
    ];
    for (traffic, mean, p5, p95) in table {
        let measured = measure(&traffic, 60);
        let name = format!("{traffic:?}, {measured}");
        println!("{name}");
        assert_near(&name, measured.mean, gbps(mean), 0.1);
        assert_near(&name, measured.p5, gbps(p5), 0.1);
        assert_near(&name, measured.p95, gbps(p95), 0.1);
        assert_near(&name, measured.burstiness(), gbps(p95 - p5), 0.1);
    }
}

#[test]
fn a_scaled_profile_is_as_bursty_in_proportion() {
    for scale in [0.25, 2.0] {
        let measured = measure(&Traffic::Bct { scale }, 60);
        assert_near("mean", measured.mean, gbps(2.51 * scale), 0.05);
        // A millisecond averages over more packets at a higher speed and over fewer at a lower speed.
        assert_near("burstiness", measured.burstiness(), gbps(2.79 * scale), 0.25);
    }
}

#[test]
fn packets_are_frozen_by_the_seed() {
    // A hash over times and sizes for each model; a change here changes the results of every run.
    let sum = |traffic: &Traffic| {
        let mut source = traffic.generator(11, 2);
        (0..10_000).filter_map(|_| source.next()).fold(0u64, |sum, packet| {
            sum.wrapping_mul(31).wrapping_add(packet.at.ns() as u64 ^ packet.size.get())
        })
    };
    let sums = [Traffic::Bct { scale: 1.0 }, Traffic::Sct { scale: 1.0 }, Traffic::CbrProfile { scale: 1.0 }]
        .map(|t| sum(&t));
    assert_eq!(sums, [16866931433544139753, 16419719487472575270, 6664768640713102913]);
}
