//! The laws of feedback: XCP, XCP-b, self-tuning kappa and ErrorS.

use headway_arithmetic::explicit::{Config, Detector, Law, Record, chi, flags};

use crate::support::{CAPACITY, LINE, Router, assert_close, real, signed, xcp};

/// xcp-rcp F15.
#[test]
fn feedback_of_xcp_has_the_value_of_the_specification() {
    let mut router = Router::published(Law::Xcp);
    router.settle(3000, 2);
    let record = router.interval(15_000);
    assert_close(real(record.input_rate), 150_000.0, 1e-6);
    assert_close(signed(record.feedback), 8220.0, 1e-4);
}

/// xcp-rcp F16.
#[test]
fn a_tenth_of_the_input_is_shuffled_less_the_feedback() {
    let mut router = Router::published(Law::Xcp);
    router.settle(0, 0);
    let record = router.interval(18_750);
    assert_close(real(record.negative) / real(record.input_rate), 0.1, 1e-3);
    let record = router.interval(17_500);
    let (input, feedback) = (real(record.input_rate), signed(record.feedback));
    assert!(feedback > 0.0);
    assert_close(real(record.negative), 0.1 * input - feedback, 1e-3);
    assert_close(real(record.positive), 0.1 * input, 1e-3);
    assert_eq!(router.interval(60_000).positive, 0);
}

/// xcp-rcp F26.
#[test]
fn chi_follows_from_alpha_and_beta() {
    assert_close(f64::from(chi(26_214, 14_811)) / 65_536.0, 0.228_624, 5e-5);
    assert_close(f64::from(chi(39_322, 13_107)) / 65_536.0, 0.238_095, 5e-5);
    let config = Config { chi: 15_000, ..Config::new(Law::Blind, 0, LINE) };
    assert!(config.check().is_err() && Config { chi: 10_000, ..config }.check().is_ok());
}

/// xcp-rcp F23.
#[test]
fn feedback_of_xcp_b_has_two_branches_and_signed_differences() {
    let mut router = Router::published(Law::Blind);
    router.settle(0, 0);
    assert_close(signed(router.interval(9000).feedback), 0.228_624 * 20_000.0 / 0.1, 1e-4);
    // The average is near 6000 B, so the queue is followed.
    router.settle(6000, 4);
    (0..60).for_each(|_| _ = router.interval(18_750));
    assert_close(signed(router.queue.record().feedback), 0.0, 0.0);
    let mut last = 6000;
    for backlog in [9000, 3000, 3000, 4500, 12_000, 6000] {
        // A queue counts once a whole measurement has seen it.
        router.backlog = (backlog, 0);
        let mut seen = router.interval(18_750);
        if seen.queue_bytes != backlog {
            seen = router.interval(18_750);
        }
        assert_eq!(seen.queue_bytes, backlog);
        let q = backlog as f64;
        assert_close(signed(seen.feedback), -4.0 * (q - f64::from(last)) - 2.26 * (q - 6000.0), 1e-3);
        last = backlog as i32;
        let again = router.interval(18_750);
        assert_close(signed(again.feedback), -2.26 * (q - 6000.0), 1e-3);
    }
}

/// xcp-rcp F24: from lambda = kappa an empty queue takes n intervals to tau kappa, and
/// another one to cross it.
#[test]
fn the_average_queue_takes_n_empty_intervals_to_the_threshold() {
    for n in [1, 3, 6] {
        let mut router = Router::new(&Config { n, ..Config::new(Law::Blind, 0, LINE) });
        router.settle(6000, 4);
        (0..60).for_each(|_| _ = router.interval(18_750));
        router.backlog = (0, 0);
        while router.interval(18_750).queue_bytes > 0 {}
        let mut empty = 1;
        let probe = 0.228_624 * 20_000.0 / 0.1;
        while (signed(router.queue.record().feedback) - probe).abs() > 10.0 {
            router.interval(18_750);
            empty += 1;
            assert!(empty < 20);
        }
        assert!((n..=n + 1).contains(&empty), "n = {n}: {empty} intervals");
    }
}

/// xcp-rcp F25.
#[test]
fn kappa_changes_while_the_queue_runs() {
    let mut router = Router::published(Law::Blind);
    router.settle(6000, 4);
    (0..60).for_each(|_| _ = router.interval(18_750));
    let config = Config { kappa: 9000, ..*router.queue.config() };
    router.queue.set_config(&config).expect("in range");
    let record = router.interval(18_750);
    assert_close(signed(record.feedback), 0.226 * 3000.0 / 0.1, 1e-3);
    assert_close(real(record.kappa), 9000.0, 0.0);
    assert_close(real(record.weighted), 6000.0, 1e-3);
    let wrong = Config { n: 65, ..config };
    assert!(router.queue.set_config(&wrong).is_err());
    assert_eq!(router.queue.config(), &config, "the old one stays");
}

/// xcp-rcp F28: kappa and the average of a queue, interval by interval, for each detector.
#[test]
fn detectors_move_kappa_as_in_the_specification() {
    let (rho, tau) = (14_418.0 / 65_536.0, 14_746.0 / 65_536.0);
    for detector in [Detector::Empty, Detector::EmptyForN, Detector::LowAverage] {
        let mut router = Router::new(&Config { detector, n: 3, ..Config::new(Law::Kappa, 0, LINE) });
        let (mut kappa, mut average, mut empty) = (75_000.0_f64, 0.0, 0);
        let mut probes = 0;
        for k in 0_u64..400 {
            let level = if k / 25 % 2 == 0 { 25_000 + k % 3 * 9000 } else { 0 };
            router.backlog = (level, 0);
            router.queue.depart(None, 1, level, 0);
            let record = router.interval(18_750);
            let q = record.queue_bytes as f64;
            average = rho * q + (1.0 - rho) * average;
            empty = if record.queue_bytes == 0 { empty + 1 } else { 0 };
            let under = match detector {
                Detector::Empty => record.queue_bytes == 0,
                Detector::EmptyForN => empty >= 3,
                Detector::LowAverage => average < tau * kappa,
            };
            probes += i32::from(under);
            let deviation = if under { 75_000.0 - average } else { (q - average).abs() };
            kappa = (rho * deviation + (1.0 - rho) * kappa).clamp(6000.0, 75_000.0);
            assert_close(real(record.weighted), average, 1e-6);
            assert_close(real(record.kappa), kappa, 1e-6);
        }
        assert!((50..350).contains(&probes), "{detector:?}: both cases occur: {probes}");
    }
}

/// xcp-rcp F29 and F30: kappa stays within its bounds, and there is one branch.
#[test]
fn self_tuning_kappa_stays_in_bounds_and_has_no_second_branch() {
    let mut router = Router::published(Law::Kappa);
    let mut last = 0.0;
    router.settle(0, 0);
    for k in 0_u64..2000 {
        router.backlog = (k.wrapping_mul(2_654_435_761) % 100_000 * (k / 50 % 2), 0);
        let record = router.interval(18_750);
        let kappa = real(record.kappa);
        assert!((6000.0..=75_000.0).contains(&kappa), "{kappa}");
        let q = record.queue_bytes as f64;
        let alpha_beta = (26_214.0 / 65_536.0, 14_811.0 / 65_536.0);
        let expected = (-alpha_beta.0 * (q - last) - alpha_beta.1 * (q - kappa)) / 0.1;
        assert_close(signed(record.feedback), expected, 1e-4);
        last = q;
    }
}

/// xcp-rcp F31: 40 B packets that queue 20 long are too many packets, although 800 B are few bytes.
#[test]
fn targets_in_packets_bound_packets_of_any_size() {
    let bytes = Config::new(Law::Blind, 0, LINE);
    let packets = Config { kappa: 4, queue_max: 13, flags: flags::PACKETS, ..bytes };
    let feedback = |config: &Config| {
        let mut router = Router::new(config);
        router.settle(800, 20);
        for _ in 0..60 {
            router.arrive(&xcp(0.1, 0.001, 0), 40, 100);
            router.control();
        }
        signed(router.queue.record().feedback)
    };
    assert!(feedback(&bytes) > 0.0);
    assert_close(feedback(&packets), -0.226 * 16.0 * 40.0 / 0.1, 1e-3);
    for law in [Law::Kappa, Law::Errors] {
        let config =
            Config { kappa: 4, queue_max: 13, flags: flags::PACKETS, ..Config::new(law, CAPACITY, LINE) };
        let mut router = Router::new(&config);
        router.settle(520, 13);
        (0..200).for_each(|_| _ = router.interval(40));
        assert_close(real(router.queue.record().kappa), 4.0, 1e-3);
        assert_close(real(router.queue.record().weighted), 13.0, 1e-3);
    }
}

/// xcp-rcp F32: a constant distance from kappa adds psi epsilon to xi in every interval.
#[test]
fn a_constant_queue_integrates_to_a_straight_line() {
    let mut router = Router::published(Law::Errors);
    router.settle(16_000, 11);
    (0..200).for_each(|_| _ = router.interval(18_750));
    let before = *router.queue.record();
    assert_close(real(before.kappa), 6000.0, 1e-6);
    assert_close(signed(before.epsilon), 0.2 / 0.6 * 10_000.0 / 0.1, 1e-3);
    for k in 1..=20 {
        let record = router.interval(18_750);
        let line = signed(before.xi) + f64::from(k) * 0.15 * signed(before.epsilon);
        assert_close(signed(record.xi), line, 1e-3);
        let spare = 0.6 * (187_500.0 - real(record.input_rate));
        assert_close(signed(record.feedback), spare - line - 0.2 * 10_000.0 / 0.1, 1e-3);
    }
}

/// Otherwise a sender that cannot send more would seem to leave ever more capacity to the next one.
#[test]
fn an_empty_queue_raises_the_capacity_found_no_further_than_senders_follow() {
    let mut router = Router::new(&Config::new(Law::Errors, 0, LINE));
    router.settle(0, 0);
    let found = |record: &Record| -signed(record.xi) / 0.6;
    (0..200).for_each(|_| _ = router.interval(6_000));
    // One step of psi times 66 667 B/s more than the 60 000 B/s that arrive.
    let limited = found(router.queue.record());
    assert!((60_000.0..78_000.0).contains(&limited), "{limited}");
    (0..3).for_each(|_| _ = router.interval(12_000));
    assert!(found(router.queue.record()) > limited + 30_000.0);
    // A queue lowers it, whatever arrives.
    router.settle(40_000, 27);
    let before = found(router.queue.record());
    assert!(found(&router.interval(100)) < before);
}

/// xcp-rcp 2.10: no error of a capacity can be larger than that of the interface.
#[test]
fn the_integrated_error_is_bounded() {
    let mut router = Router::published(Law::Errors);
    router.settle(1_000_000, 700);
    for _ in 0..2000 {
        router.interval(18_750);
    }
    let record = router.queue.record();
    assert_eq!(record.bounded, 1);
    assert_close(signed(record.xi), 0.6 * LINE as f64, 1e-4);
}

/// xcp-rcp F33.
#[test]
fn ten_idle_seconds_reset_the_integrated_error() {
    let mut router = Router::published(Law::Errors);
    router.settle(16_000, 11);
    (0..100).for_each(|_| _ = router.interval(18_750));
    assert!(router.queue.record().xi > 0);
    router.backlog = (0, 0);
    for _ in 0..100 {
        let record = router.control();
        assert_eq!((record.xi, record.epsilon, record.feedback), (0, 0, 0));
    }
}
