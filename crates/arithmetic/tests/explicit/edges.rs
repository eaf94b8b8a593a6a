//! The edge cases of xcp-rcp 2.16 that routers decide; those of senders and receivers are
//! tested with the codec.

use headway_arithmetic::explicit::{Config, Fault, Header, Law, Verdict};

use crate::support::{CAPACITY, LINE, MOST, Router, assert_close, rcp, real, signed, xcp};

#[test]
fn rtt_zero_at_a_router_counts_bytes_and_gets_the_rate_but_no_change() {
    let mut router = Router::published(Law::Xcp);
    router.settle(0, 0);
    let before = router.queue.record().average_rtt;
    router.arrive(&xcp(0.0, 0.01, MOST), 1500, 3);
    let record = router.control();
    assert_eq!((record.input_bytes, record.average_rtt, record.positive_scale), (4500, before, 0));
    assert_eq!(router.depart(xcp(0.0, 0.01, MOST), 1500), 0);
    let mut router = Router::published(Law::Rcp);
    assert_eq!(router.depart(rcp(0.0, 0.0), 60), CAPACITY as u32);
}

#[test]
fn an_interval_without_a_known_rtt_keeps_d_and_shares_by_bytes() {
    let mut router = Router::published(Law::Xcp);
    router.settle(0, 0);
    let before = router.queue.record().average_rtt;
    router.arrive(&xcp(0.0, 0.0, 0), 30_000, 1);
    let record = router.control();
    assert_eq!(record.average_rtt, before);
    assert!(record.negative_scale > 0 && record.positive_scale == 0);
    let mut router = Router::published(Law::Rcp);
    router.settle(0, 0);
    let rate = router.queue.rate();
    router.arrive(&rcp(0.0, 0.0), 60_000, 1);
    assert!(router.control().rate < rate, "the rate is updated as usual");
}

#[test]
fn an_interval_without_packets_shares_nothing_and_freezes_the_rate() {
    for law in Law::ALL {
        let mut router = Router::published(law);
        router.settle(3000, 2);
        for _ in 0..3 {
            router.interval(30_000);
        }
        let rate = router.queue.rate();
        let record = router.control();
        assert_eq!((record.feedback, record.positive, record.negative), (0, 0, 0), "{law:?}");
        assert_eq!((record.positive_scale, record.negative_scale), (0, 0));
        assert_eq!((record.rate, record.xi), (rate, 0));
    }
}

#[test]
fn kappa_rises_to_the_largest_queue_while_nothing_arrives() {
    for law in Law::ALL.into_iter().filter(|law| law.tunes()) {
        let mut router = Router::published(law);
        // Above what the detector takes for too short a queue.
        router.settle(router.queue.config().queue_max / 3, 5);
        (0..100).for_each(|_| _ = router.interval(18_750));
        assert!(real(router.queue.record().kappa) < 0.9 * router.queue.config().queue_max as f64);
        router.backlog = (0, 0);
        (0..100).for_each(|_| _ = router.control());
        assert_close(real(router.queue.record().kappa), router.queue.config().queue_max as f64, 1e-6);
    }
}

#[test]
fn a_queue_that_drains_without_input_moves_the_averages() {
    for law in Law::ALL {
        let mut router = Router::published(law);
        router.settle(20_000, 14);
        (0..30).for_each(|_| _ = router.interval(1000));
        let full = router.queue.record().weighted;
        router.backlog = (0, 0);
        router.control();
        router.control();
        assert!(router.control().weighted < full, "{law:?}");
    }
}

#[test]
fn a_very_large_rtt_counts_as_one_second() {
    let mut router = Router::published(Law::Xcp);
    router.arrive(&Header { rtt: u32::MAX, ..xcp(0.0, 0.01, 0) }, 1500, 1);
    assert_eq!(router.control().average_rtt, 1_000_000_000);
    router.arrive(&xcp(0.1, 0.01, 0), 1500, 1);
    router.arrive(&Header { rtt: u32::MAX, ..xcp(0.0, 0.01, 0) }, 1500, 1);
    assert_close(router.control().average_rtt as f64, 5.5e8, 1e-6);
}

#[test]
fn x_zero_with_an_rtt_gets_negative_feedback_only() {
    let mut router = Router::published(Law::Xcp);
    router.settle(0, 0);
    router.arrive(&xcp(0.1, 0.0, 0), 1500, 1);
    router.arrive(&xcp(0.1, 0.01, 0), 16_500, 1);
    let record = router.control();
    assert!(record.positive > 0 && record.negative > 0);
    assert!(router.depart(xcp(0.1, 0.0, MOST), 1500).cast_signed() < 0);
    router.arrive(&xcp(0.1, 0.0, 0), 1500, 1);
    assert_eq!(router.control().positive_scale, 0, "all of them");
}

#[test]
fn an_rtt_below_the_shortest_interval_still_counts_in_the_queue_term() {
    let mut router = Router::published(Law::Xcp);
    router.backlog = (1500, 1);
    for _ in 0..12 {
        router.arrive(&xcp(0.001, 0.01, 0), 1500, 1);
        router.control();
    }
    let record = router.queue.record();
    assert_eq!(record.interval, 5_000_000);
    let expected = 0.4 * (187_500.0 - real(record.input_rate)) - 0.226 * 1500.0 / 0.001;
    assert_close(signed(record.feedback), expected, 1e-4);
}

#[test]
fn an_input_above_the_capacity_for_long_takes_all_of_the_surplus() {
    let mut router = Router::published(Law::Xcp);
    router.settle(50_000, 34);
    for _ in 0..100 {
        let record = router.interval(10_000_000);
        assert!(signed(record.feedback) < -0.39 * 9.9e7);
        let granted = router.depart(xcp(0.1, 0.01, MOST), 10_000_000).cast_signed();
        assert!((f64::from(granted) - signed(record.feedback)).abs() <= 2.0);
    }
}

#[test]
fn nothing_is_shuffled_while_the_feedback_exceeds_the_share() {
    let mut router = Router::published(Law::Xcp);
    router.settle(0, 0);
    let record = router.interval(1000);
    assert!(real(record.input_rate) / 10.0 < signed(record.feedback));
    assert_eq!((record.positive, record.negative), (record.feedback.unsigned_abs(), 0));
    let record = router.interval(60_000);
    assert_eq!((record.positive, record.negative), (0, record.feedback.unsigned_abs()));
}

#[test]
fn a_change_of_n_at_run_time_counts_from_the_next_interval() {
    let mut router = Router::published(Law::Blind);
    router.settle(0, 0);
    let tau = |n: i32| 0.75_f64.powi(n);
    let of = |fixed: u64| fixed as f64 / 4_294_967_296.0;
    assert_close(of(router.queue.record().tau), tau(6), 1e-6);
    let config = Config { n: 2, ..*router.queue.config() };
    router.queue.set_config(&config).expect("in range");
    assert_close(of(router.queue.record().tau), tau(6), 1e-6);
    assert_close(of(router.control().tau), tau(2), 1e-6);
}

#[test]
fn n_zero_probes_whenever_the_average_is_below_kappa() {
    let mut router = Router::new(&Config { n: 0, ..Config::new(Law::Blind, 0, LINE) });
    router.settle(5999, 4);
    (0..60).for_each(|_| _ = router.interval(18_750));
    let probe = 20_000.0 / (5.0 - 0.4 - 0.226) / 0.1;
    assert_close(signed(router.interval(18_750).feedback), probe, 1e-3);
    router.settle(6001, 4);
    (0..60).for_each(|_| _ = router.interval(18_750));
    assert!(signed(router.interval(18_750).feedback) < 0.0);
}

#[test]
fn kappa_zero_probes_exactly_while_the_queue_is_empty() {
    let mut router = Router::new(&Config { kappa: 0, ..Config::new(Law::Blind, 0, LINE) });
    router.settle(0, 0);
    let probe = 20_000.0 / (5.0 - 0.4 - 0.226) / 0.1;
    assert_close(signed(router.interval(18_750).feedback), probe, 1e-3);
    router.settle(100, 1);
    assert_close(signed(router.interval(18_750).feedback), -0.226 * 100.0 / 0.1, 1e-3);
}

#[test]
fn a_smallest_kappa_above_the_largest_queue_is_refused() {
    for law in Law::ALL {
        let config = Config { kappa: 30_000, queue_max: 20_000, ..Config::new(law, CAPACITY, LINE) };
        assert_eq!(config.check(), if law.tunes() { Err(Fault::Kappa) } else { Ok(()) }, "{law:?}");
    }
}

#[test]
fn capacity_zero_is_legal_only_where_the_law_does_not_need_one() {
    for law in Law::ALL {
        let checked = Config::new(law, 0, LINE).check();
        let needed = matches!(law, Law::Xcp | Law::Rcp);
        assert_eq!(checked, if needed { Err(Fault::Capacity) } else { Ok(()) }, "{law:?}");
    }
}

#[test]
fn a_rate_that_would_round_to_zero_becomes_the_smallest() {
    for law in Law::ALL.into_iter().filter(|law| law.is_rate()) {
        let mut router = Router::new(&Config { rate_min: 1, ..Config::new(law, CAPACITY, LINE) });
        router.settle(1 << 30, 1000);
        for _ in 0..1000 {
            // So many flows that an equal part of the capacity is less than the smallest rate.
            router.arrive(&rcp(0.1, 15.0), 1500, if law == Law::Rcp { 10_000 } else { 0 });
            router.interval(u32::MAX);
        }
        assert_eq!((real(router.queue.rate()), router.depart(rcp(0.1, 0.01), 1500)), (1.0, 1), "{law:?}");
        router.settle(0, 0);
        // Without input, ErrorS forgets the error that it blames for the queue.
        router.control();
        (0..200).for_each(|_| _ = router.interval(1));
        assert!(real(router.queue.rate()) > 1000.0, "{law:?}: it grows again");
    }
}

#[test]
fn an_unknown_version_at_a_router_is_dropped() {
    for law in Law::ALL {
        let mut router = Router::published(law);
        for version in [0, 1, 3, 14] {
            let header = Header { version, ..xcp(0.1, 0.01, 0) };
            assert_eq!(router.queue.arrive(Some(&header), 1500), Verdict::BadVersion);
        }
        assert_eq!(router.control().rejected, 4);
    }
}

#[test]
fn the_magnitude_of_the_feedback_has_more_than_32_bits() {
    // 100 Gb/s: a feedback of 2^32 B/s must not look like one of 0.
    let capacity = 12_500_000_000;
    let mut router = Router::new(&Config { line: capacity, ..Config::new(Law::Xcp, capacity, capacity) });
    router.settle(0, 0);
    let bytes = ((12.5e9 - 4_294_967_296.0 / 0.4) * 0.1) as u32;
    let record = router.interval(bytes);
    assert_close(signed(record.feedback), 4_294_967_296.0, 1e-4);
    assert_eq!((record.positive, record.negative), (record.feedback.unsigned_abs(), 0));
}

/// xcp-rcp F42: packets that wait while the law changes must not leave with all that they asked for.
#[test]
fn a_packet_that_waits_while_the_law_changes_is_granted_nothing_new() {
    let mut router = Router::published(Law::Rcp);
    router.settle(50_000, 34);
    (0..40).for_each(|_| _ = router.interval(20_000));
    let rate = router.depart(rcp(0.1, 0.01), 1500);
    router.queue.set_config(&Config::new(Law::Xcp, CAPACITY, LINE)).expect("in range");
    assert_eq!(router.depart(rcp(0.1, 0.01), 1500), rate);
    router.queue.set_config(&Config::new(Law::Rcp, CAPACITY, LINE)).expect("in range");
    assert_eq!(router.depart(xcp(0.1, 0.01, MOST), 1500), 0);
    assert_eq!(router.depart(xcp(0.1, 0.01, 5_u32.wrapping_neg()), 1500).cast_signed(), -5);
}

#[test]
fn parameters_out_of_range_are_refused_by_their_name() {
    let (xcp, rcp) = (Config::new(Law::Xcp, CAPACITY, LINE), Config::new(Law::Rcp, CAPACITY, LINE));
    let kappa = Config::new(Law::Kappa, CAPACITY, LINE);
    let wrong = [
        ("flags", Config { flags: 1024, ..xcp }),
        ("flags", Config { flags: 4, ..xcp }),
        ("capacity", Config { capacity: (1 << 40) + 1, ..xcp }),
        ("line", Config { line: 0, ..xcp }),
        ("rate_min", Config { rate_min: 0, ..rcp }),
        ("rate_min", Config { rate_min: CAPACITY + 1, ..rcp }),
        ("kappa", Config { kappa: u64::MAX, ..xcp }),
        ("kappa", Config { kappa: 75_001, ..kappa }),
        ("queue_max", Config { queue_max: 0, ..xcp }),
        ("base_rtt", Config { base_rtt: 999, ..rcp }),
        ("update_limit", Config { update_limit: 1, ..rcp }),
        ("interval_min", Config { interval_min: 999, ..xcp }),
        ("alpha", Config { alpha: 0, ..xcp }),
        ("beta", Config { beta: 65_537, ..xcp }),
        ("beta", Config { beta: 39_323, flags: 4, ..rcp }),
        ("gamma", Config { gamma: 65_537, ..xcp }),
        ("psi", Config { psi: 65_537, ..xcp }),
        ("chi", Config { chi: 14_984, ..xcp }),
        ("rho", Config { rho: 0, ..xcp }),
        ("tau", Config { tau: 65_537, ..xcp }),
        ("n", Config { n: 65, ..xcp }),
        ("overhead", Config { overhead: 65_536, ..xcp }),
    ];
    for (key, config) in wrong {
        let fault = config.check().expect_err(key);
        assert_eq!(fault.key(), key);
        assert!(fault.to_string().starts_with(key), "{fault}");
    }
}
