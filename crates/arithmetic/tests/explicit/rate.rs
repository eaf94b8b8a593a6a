//! The rate of RCP, with and without a capacity, switches between laws, and measures against surges.

use headway_arithmetic::explicit::{Config, Event, Law, flags};

use crate::support::{CAPACITY, LINE, Router, assert_close, rcp, real, signed, units, xcp};

/// xcp-rcp F38: T = d.
#[test]
fn the_rate_moves_by_the_feedback_over_the_number_of_flows() {
    let mut router = Router::published(Law::Rcp);
    router.settle(9000, 6);
    for bytes in [30_000, 18_750, 25_000, 10_000, 18_000] {
        let before = real(router.queue.rate());
        let record = router.interval(bytes);
        let y = real(record.input_rate);
        let (alpha, beta) = (26_214.0 / 65_536.0, 14_811.0 / 65_536.0);
        let feedback = alpha * (187_500.0 - y) - beta * 9000.0 / 0.1;
        assert_close(signed(record.feedback), feedback, 1e-4);
        assert_close(real(record.rate), before * (1.0 + feedback / 187_500.0), 1e-5);
    }
}

/// xcp-rcp F38: T = min(tau, d).
#[test]
fn with_a_limit_intervals_are_shorter_and_so_are_steps() {
    let config = Config { update_limit: 20_000_000, ..Config::new(Law::Rcp, CAPACITY, LINE) };
    let mut router = Router::new(&config);
    router.settle(0, 0);
    for bytes in [8000, 3750, 5000, 1000] {
        let before = real(router.queue.rate());
        let record = router.interval(bytes);
        assert_eq!(record.interval, 20_000_000);
        let step = 0.2 * 0.4 * (187_500.0 - real(record.input_rate)) / 187_500.0;
        assert_close(real(record.rate), (before * (1.0 + step)).min(187_500.0), 1e-4);
    }
}

/// A quarter of an equal part, however far the input exceeds the capacity and however long that lasts.
#[test]
fn many_flows_at_once_do_not_take_the_rate_to_its_minimum() {
    let mut router = Router::published(Law::Rcp);
    router.settle(75_000, 50);
    for _ in 0..20 {
        // Forty flows that have not heard of anything but C.
        router.arrive(&rcp(0.1, 0.008), 1500, 500);
        router.control();
    }
    assert_close(real(router.queue.rate()), 187_500.0 / 160.0, 1e-3);
    // Input without a header counts as flows that send at the rate: R (10 + y / R) = C / 4 with a y of C / 8.
    let mut router = Router::published(Law::Rcp);
    router.settle(75_000, 50);
    for _ in 0..100 {
        let rate = real(router.queue.rate());
        router.queue.arrive(None, 18_750 / 8);
        router.arrive(&rcp(0.1, 0.1), (rate * 0.1) as u32, 10);
        router.control();
    }
    assert_close(real(router.queue.rate()), 187_500.0 / 80.0, 0.01);
}

/// Ten flows that hear of a low rate together send a packet each, and are still ten.
#[test]
fn packets_that_come_together_are_of_one_flow_each() {
    let mut router = Router::published(Law::Rcp);
    router.settle(1_000_000, 700);
    router.arrive(&rcp(0.1, 5.0), 1500, 10);
    router.control();
    assert_close(real(router.queue.rate()), 187_500.0 / 40.0, 0.02);
}

/// A packet in an interval shorter than its transmission exceeds the capacity, and may be of a single flow.
#[test]
fn a_packet_in_a_short_interval_is_not_many_flows() {
    let config = Config { update_limit: 10_000_000, ..Config::new(Law::Rcp, CAPACITY / 10, LINE) };
    let mut router = Router::new(&config);
    router.settle(75_000, 50);
    for _ in 0..100 {
        router.arrive(&rcp(0.1, 0.08), 1500, 1);
        router.control();
    }
    // Eight at most: one packet in 10 ms, each of which says 80 ms.
    assert!(real(router.queue.rate()) > 18_750.0 / 33.0, "{}", real(router.queue.rate()));
}

/// Flows that send a packet in 0.8 s cannot learn earlier what to do next.
#[test]
fn intervals_are_no_shorter_than_the_time_between_packets_of_a_flow() {
    for law in [Law::Rcp, Law::Xcp] {
        let mut router = Router::published(law);
        let header = if law.is_rate() { rcp(0.1, 0.8) } else { xcp(0.1, 0.8, 0) };
        router.arrive(&header, 1500, 10);
        router.control();
        router.arrive(&header, 1500, 10);
        let record = router.control();
        assert_close(record.interval as f64, if law.is_rate() { 8e8 } else { 1e8 }, 1e-5);
        assert_close(record.average_rtt as f64, 1e8, 1e-5);
    }
}

/// One flow at three quarters of the capacity, whose packets are five intervals apart.
#[test]
fn intervals_without_packets_belong_to_the_next_one_with_some() {
    let config = Config { update_limit: 10_000_000, ..Config::new(Law::Rcp, CAPACITY, LINE) };
    let mut router = Router::new(&config);
    let mut now = router.queue.due();
    for packet in 0..40 {
        router.arrive(&rcp(0.01, 0.05), 7031, 1);
        now += 50_000_000;
        while let Some(event) = router.queue.run_timer(0, 0, now) {
            let record = router.queue.record();
            if event == Event::Controlled && packet > 10 {
                assert_close(real(record.input_rate), 0.75 * 187_500.0, 0.01);
            }
        }
    }
    // Where R is is the capacity: nothing takes the first flow for more than it is.
    assert_close(real(router.queue.rate()), 187_500.0, 0.01);
}

/// xcp-rcp F39.
#[test]
fn an_hour_of_silence_leaves_the_rate_where_it_was() {
    for law in Law::ALL.into_iter().filter(|law| law.is_rate()) {
        let mut router = Router::published(law);
        let first = real(router.queue.rate());
        assert_close(first, 187_500.0, 0.0);
        router.settle(0, 0);
        (0..20).for_each(|_| _ = router.interval(40_000));
        let rate = router.queue.rate();
        assert!(rate > 0);
        let end = router.queue.due() + 3_600_000_000_000;
        while router.queue.run_timer(0, 0, end).is_some() {}
        assert_eq!(router.queue.rate(), rate, "{law:?}");
        let unused = Config::new(law, CAPACITY, LINE);
        let top = if law == Law::Rcp { CAPACITY } else { LINE };
        (0..1000).for_each(|_| _ = router.interval(1));
        assert!(real(router.queue.rate()) <= top as f64, "{unused:?}");
    }
}

/// xcp-rcp F40.
#[test]
fn a_rate_is_lowered_only_if_it_is_larger() {
    let mut router = Router::published(Law::Rcp);
    let rate = CAPACITY as u32;
    assert_eq!(router.depart(rcp(0.1, 0.01), 1500), rate);
    for brought in [1, rate - 1, rate, rate + 1] {
        let header = headway_arithmetic::explicit::Header { feedback: brought, ..rcp(0.1, 0.01) };
        assert_eq!(router.depart(header, 1500), brought.min(rate));
    }
}

/// xcp-rcp F56: without a capacity, what X counts is the number of flows. R moves twice in d.
#[test]
fn without_a_capacity_flows_share_the_feedback() {
    let mut router = Router::new(&Config::new(Law::RcpBlind, 0, LINE));
    assert_close(real(router.queue.rate()), 30_000.0, 0.0);
    router.settle(6000, 4);
    let half = |router: &mut Router| {
        router.arrive(&rcp(0.1, 0.05), 2400, 4);
        router.control()
    };
    (0..100).for_each(|_| _ = half(&mut router));
    router.backlog = (9000, 6);
    for _ in 0..3 {
        let before = real(router.queue.rate());
        let record = half(&mut router);
        assert_close(record.interval as f64, 5e7, 1e-5);
        let step = signed(record.feedback) / 4.0 / 2.0;
        assert_close(real(record.rate), (before + step).max(before / 2.0), 1e-3);
    }
    router.settle(0, 0);
    // Without X: y / R.
    (0..400).for_each(|_| _ = router.control());
    let before = real(router.queue.rate());
    let record = half(&mut router);
    assert!(signed(record.feedback) > 0.0 && real(router.queue.rate()) <= 2.0 * before);
}

/// What does not fit into a full buffer is input that exceeds the capacity, though the queue stays as it is.
#[test]
fn drops_count_as_growth_of_the_queue() {
    for law in [Law::Blind, Law::Kappa] {
        let feedback = |drops: u32| {
            let mut router = Router::published(law);
            router.settle(15_000, 10);
            (0..100).for_each(|_| _ = router.interval(18_750));
            router.queue.arrive(Some(&xcp(0.1, 0.01, 0)), 1500);
            (0..drops).for_each(|_| router.queue.drop_packet());
            signed(router.control().feedback)
        };
        let alpha = 26_214.0 / 65_536.0;
        assert_close(feedback(0) - feedback(5), alpha * 5.0 * 1500.0 / 0.1, 1e-3);
    }
}

/// xcp-rcp F42: laws follow one another at run time, and what they share stays.
#[test]
fn a_switch_between_laws_keeps_what_they_share() {
    for from in Law::ALL {
        for to in Law::ALL {
            let mut router = Router::published(from);
            router.settle(7500, 5);
            // 0.2 MB/s, however long intervals are.
            let bytes = |router: &Router| (router.queue.record().interval / 5000) as u32;
            (0..160).for_each(|_| _ = router.interval(bytes(&router)));
            let before = *router.queue.record();
            router.queue.set_config(&Config::new(to, CAPACITY, LINE)).expect("in range");
            let record = router.interval(bytes(&router));
            assert_eq!((record.average_rtt, record.queue_bytes), (before.average_rtt, 7500));
            assert_eq!(record.interval, before.interval, "{from:?} to {to:?}");
            if from.tunes() == to.tunes() {
                assert_close(real(record.weighted), 7500.0, 1e-2);
            }
            if from.is_rate() && to.is_rate() {
                let kept = if to == Law::Rcp { before.rate.min(before.capacity) } else { before.rate };
                assert!(real(record.rate) / real(kept) > 0.49, "{from:?} to {to:?}");
            }
            let header = if to.is_rate() { rcp(0.1, 0.01) } else { xcp(0.1, 0.01, 0x7fff_ffff) };
            assert!(router.depart(header, 1500) != header.feedback, "{from:?} to {to:?}");
        }
    }
}

/// Flows multiply, so the rate falls: by 1 / (1 + L) in each interval.
fn surge(config: &Config, growth: f64, intervals: u32) -> Router {
    let mut router = Router::new(config);
    router.settle(0, 0);
    let mut flows = 20.0;
    for k in 0..60 + intervals {
        // The rate of twenty flows settles first.
        flows *= if k < 60 { 1.0 } else { 1.0 + growth };
        // Everybody sends at the last rate, so the input exceeds the capacity by the growth.
        let each = real(router.queue.rate()) * 0.1;
        router.arrive(&rcp(0.1, 0.1), each as u32, flows as u32);
        router.control();
    }
    router
}

/// xcp-rcp F55: the growth of the number of flows is seen in the rate.
#[test]
fn the_rate_shows_how_fast_flows_multiply() {
    let config = Config {
        flags: flags::RAISE_BETA | flags::ADMISSION,
        ..Config::new(Law::Rcp, CAPACITY * 100, LINE * 100)
    };
    for growth in [0.01, 0.05, 0.1] {
        let router = surge(&config, growth, 25);
        let found = signed(router.queue.record().growth).exp2() - 1.0;
        assert!((found / growth - 1.0).abs() < 0.05, "{found} of {growth}");
    }
}

/// xcp-rcp F55: beta is the smallest whose limit is above 1.25 times the growth.
#[test]
fn beta_rises_with_growth_and_falls_after_ten_calm_intervals() {
    let config = Config { flags: flags::RAISE_BETA, ..Config::new(Law::Rcp, CAPACITY * 100, LINE * 100) };
    for (growth, beta) in [(0.01, 0.226), (0.045, 0.226), (0.055, 0.3), (0.09, 0.4), (0.3, 0.6)] {
        let router = surge(&config, growth, 25);
        assert_close(f64::from(router.queue.record().beta) / 65_536.0, beta, 1e-3);
    }
    let mut router = surge(&config, 0.09, 25);
    let mut calm = 0;
    while router.queue.record().beta != 14_811 {
        router.arrive(&rcp(0.1, 0.01), 1_875_000, 1);
        router.control();
        calm += 1;
        assert!(calm < 30);
    }
    assert!(calm >= 10, "{calm}");
    let plain = Config { flags: 0, ..config };
    assert_eq!(surge(&plain, 0.09, 25).queue.record().beta, 14_811);
}

/// xcp-rcp F55: above the limit, flows that do not know their RTT yet get the smallest rate.
#[test]
fn new_flows_get_the_smallest_rate_in_a_surge() {
    let config = Config { flags: flags::ADMISSION, ..Config::new(Law::Rcp, CAPACITY * 100, LINE * 100) };
    for (growth, admits_slowly) in [(0.05, false), (0.08, true)] {
        let mut router = surge(&config, growth, 25);
        let rate = real(router.queue.rate()).round() as u32;
        assert_eq!(router.depart(rcp(0.1, 0.01), 1500), rate);
        assert_eq!(router.depart(rcp(0.0, 0.01), 60), if admits_slowly { 100 } else { rate });
        assert_eq!(router.queue.record().admits_slowly, u32::from(admits_slowly));
    }
    assert_eq!(units(0.0), 0);
}
