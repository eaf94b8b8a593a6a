//! The laws in fixed point beside those in double precision, over random intervals (xcp-rcp F57).

use headway_arithmetic::explicit::{Config, Detector, Law, TIME_BITS, flags};

use crate::reference::Reference;
use crate::support::{Random, Router, rcp, real, signed, xcp};

/// xcp-rcp 2.15: on F and R.
const SHARE: f64 = 0.005;
/// xcp-rcp 2.15: on averages of the queue and on kappa.
const AVERAGE_SHARE: f64 = 1.0 / 65_536.0;

/// Runs both for `steps` intervals of random input and queues. Feedback is a sum of terms that may cancel, so
/// where it is small, 2^-14 of its largest term and of kappa per RTT counts.
fn compare(config: &Config, steps: u32, seed: u64) {
    let mut random = Random(seed);
    let mut router = Router::new(config);
    let mut reference = Reference::new(config);
    let scale = if config.capacity > 0 { config.capacity } else { 1_250_000 } as f64;
    let seconds = |units: u32| f64::from(units) / f64::from(1_u32 << TIME_BITS);
    let mut interval = 0.04;
    for step in 0..steps {
        let packets = if random.next().is_multiple_of(64) { 0 } else { 1 + random.next() % 2 };
        let offered = scale * interval * 2.0 * random.unit();
        for _ in 0..packets {
            let (rtt, x) = (0.005 + 0.5 * random.unit().powi(4), 1e-5 + 0.1 * random.unit().powi(4));
            let header = if config.law.is_rate() { rcp(rtt, x) } else { xcp(rtt, x, 0) };
            let bytes = (offered / packets as f64) as u32 + 40;
            router.arrive(&header, bytes, 1);
            reference.arrive(seconds(header.rtt), seconds(header.x), f64::from(bytes));
        }
        if random.next().is_multiple_of(4) {
            let bytes = (random.unit().powi(3) * scale * 0.2) as u64;
            router.backlog = (bytes, (bytes / 1500) as u32);
        } else if random.next().is_multiple_of(8) {
            router.backlog = (0, 0);
        }
        router.queue.depart(None, 40, router.backlog.0, router.backlog.1);
        let record = router.control();
        let elapsed = record.interval as f64 / 1e9;
        let found = signed(record.feedback);
        let queue = (record.queue_bytes as f64, f64::from(record.queue_packets));
        let expected = reference.control(elapsed, queue.0, queue.1, found);
        interval = record.average_rtt as f64 / 1e9;

        let law = config.law;
        let terms = reference.largest + reference.kappa.max(4.0) * reference.per_unit();
        let allowed = (SHARE * expected.abs()).max(terms / 16_384.0 + 0.01);
        assert!((found - expected).abs() <= allowed, "{law:?}, {step}: F {found} is not {expected}");
        let near = |name: &str, found: f64, expected: f64, share: f64, least: f64| {
            let allowed = share * expected.max(least);
            assert!((found - expected).abs() <= allowed, "{law:?}, {step}: {name} {found} is not {expected}");
        };
        near("the average queue", real(record.weighted), reference.weighted, AVERAGE_SHARE, 4.0);
        if law.tunes() {
            near("kappa", real(record.kappa), reference.kappa, AVERAGE_SHARE, 4.0);
        }
        if law.is_rate() {
            near("R", real(record.rate), reference.rate, SHARE, 0.0);
        }
    }
}

#[test]
fn a_million_random_intervals_do_not_part_fixed_from_double_for_changes() {
    for (seed, law) in (1..).zip(Law::ALL).filter(|(_, law)| !law.is_rate()) {
        compare(&Config::new(law, 1_250_000, 125_000_000), 1_000_000, seed);
    }
}

#[test]
fn a_million_random_intervals_do_not_part_fixed_from_double_for_rates() {
    for (seed, law) in (1..).zip(Law::ALL).filter(|(_, law)| law.is_rate()) {
        compare(&Config::new(law, 1_250_000, 125_000_000), 1_000_000, seed);
    }
}

#[test]
fn other_parameters_do_not_part_fixed_from_double() {
    for (seed, law) in (1..).zip(Law::ALL) {
        let plain = Config::new(law, 187_500, 12_500_000);
        let variants = [
            Config {
                capacity: 1_250_000_000,
                line: 12_500_000_000,
                kappa: 60_000,
                queue_max: 4_000_000,
                ..plain
            },
            Config { detector: Detector::Empty, overhead: 38, n: 1, ..plain },
            Config { detector: Detector::EmptyForN, update_limit: 20_000_000, rate_min: 1, ..plain },
            Config { flags: flags::PACKETS, kappa: 4, queue_max: 50, ..plain },
            Config { flags: flags::PUBLISHED_INTEGRATOR | flags::PUBLISHED_FALL, ..plain },
            Config { flags: flags::PUBLISHED_INTERVALS | flags::PUBLISHED_STEPS, ..plain },
        ];
        for config in variants {
            compare(&config, 20_000, seed);
        }
        if !matches!(law, Law::Xcp | Law::Rcp) {
            compare(&Config { capacity: 0, ..plain }, 20_000, seed);
        }
    }
}
