//! The laws as published: what each of them does without the repairs of this project.

use headway_arithmetic::explicit::{Config, Law, flags};

use crate::support::{CAPACITY, LINE, Router, assert_close, rcp, real, signed, xcp};

/// Returns a law without one repair, that knows the capacity if it needs one.
fn without(part: u32, law: Law) -> Config {
    let capacity = if law.needs_capacity() { CAPACITY } else { 0 };
    Config { flags: flags::RESIDUES | part, ..Config::new(law, capacity, LINE) }
}

/// xcp-rcp 2.10: the error falls by psi epsilon in every interval, to its bound, while 60 000 B/s arrive.
#[test]
fn errors_finds_ever_more_capacity_while_the_queue_is_empty() {
    for law in [Law::Errors, Law::RcpErrors] {
        let part = flags::PUBLISHED_INTEGRATOR | flags::PUBLISHED_STEPS;
        let mut router = Router::new(&without(part, law));
        router.settle(0, 0);
        (0..30).for_each(|_| _ = router.interval(6_000));
        let before = signed(router.queue.record().xi);
        for k in 1..=10 {
            let record = router.interval(6_000);
            // kappa is Qmax, 20 kB, and the queue empty.
            let line = before - f64::from(k) * 0.15 * 0.2 / 0.6 * 20_000.0 / 0.1;
            assert_close(signed(record.xi), line, 2e-3);
        }
        (0..2000).for_each(|_| _ = router.interval(6_000));
        assert_close(signed(router.queue.record().xi), -0.6 * LINE as f64, 1e-4);
        assert_eq!(router.queue.record().bounded, 1);
    }
}

/// xcp-rcp 2.12: forty flows that have not heard of anything but C take R to its smallest.
#[test]
fn rcp_falls_to_its_smallest_rate_when_many_flows_begin() {
    let mut router = Router::new(&without(flags::PUBLISHED_FALL, Law::Rcp));
    router.settle(75_000, 50);
    for _ in 0..20 {
        router.arrive(&rcp(0.1, 0.008), 1500, 500);
        router.control();
    }
    assert_eq!(real(router.queue.rate()), 100.0);
}

/// xcp-rcp 2.12: T = d, however long the time between packets of a flow is.
#[test]
fn intervals_of_rcp_are_the_rtt() {
    for law in [Law::Rcp, Law::RcpBlind] {
        let part = flags::PUBLISHED_INTERVALS | flags::PUBLISHED_STEPS;
        let mut router = Router::new(&without(part, law));
        for _ in 0..2 {
            router.arrive(&rcp(0.1, 0.8), 1500, 10);
            router.control();
        }
        for _ in 0..3 {
            // Also without packets.
            assert_close(router.control().interval as f64, 1e8, 1e-5);
        }
    }
}

/// xcp-rcp 2.12: initial rate C.
#[test]
fn rcp_begins_with_the_capacity_also_after_a_law_of_xcp() {
    for (part, rate) in [(0, 187_500.0 / 5.0), (flags::PUBLISHED_START, 187_500.0)] {
        let mut router = Router::new(&Config::new(Law::Xcp, CAPACITY, LINE));
        router.settle(0, 0);
        // Five flows that send a packet of 1500 B in 40 ms each.
        for _ in 0..20 {
            router.arrive(&xcp(0.1, 0.02, 0), 1500, 25);
            router.control();
        }
        router.queue.set_config(&without(part, Law::Rcp)).expect("in range");
        assert_close(real(router.queue.rate()), rate, 0.01);
    }
}

/// xcp-rcp F56: R (1 + F / y), once in d.
#[test]
fn rcp_without_a_capacity_takes_input_over_rate_for_the_number_of_flows() {
    let mut router = Router::new(&without(flags::PUBLISHED_STEPS, Law::RcpBlind));
    router.settle(6000, 4);
    (0..40).for_each(|_| _ = router.interval(18_750));
    router.backlog = (9000, 6);
    for _ in 0..3 {
        let before = real(router.queue.rate());
        let record = router.interval(18_750);
        assert_close(record.interval as f64, 1e8, 1e-5);
        let factor = 1.0 + (signed(record.feedback) / real(record.input_rate)).clamp(-0.5, 1.0);
        assert_close(real(record.rate), before * factor, 1e-3);
    }
}

/// xcp-rcp 2.8: only the queue counts, so a full buffer looks like an input that is the capacity.
#[test]
fn drops_are_no_change_of_the_queue() {
    for law in [Law::Blind, Law::Kappa] {
        let feedback = |drops: u32| {
            let mut router = Router::new(&without(flags::PUBLISHED_DROPS, law));
            router.settle(15_000, 10);
            (0..100).for_each(|_| _ = router.interval(18_750));
            router.queue.arrive(Some(&xcp(0.1, 0.01, 0)), 1500);
            (0..drops).for_each(|_| router.queue.drop_packet());
            router.control().feedback
        };
        assert_eq!(feedback(0), feedback(5));
    }
}

/// Every switch is for laws that have the part; others ignore it.
#[test]
fn laws_that_do_not_have_a_part_ignore_its_switch() {
    let part = flags::PUBLISHED_INTEGRATOR | flags::PUBLISHED_FALL | flags::PUBLISHED_INTERVALS;
    for law in [Law::Xcp, Law::Blind, Law::Kappa] {
        let mut routers = [0, part].map(|part| Router::new(&without(part, law)));
        routers.iter_mut().for_each(|router| router.settle(3000, 2));
        for bytes in [30_000, 100, 0, 18_750, 25_000] {
            let [plain, switched] = routers.each_mut().map(|router| router.interval(bytes));
            assert_eq!(plain, switched, "{law:?}");
        }
    }
}
