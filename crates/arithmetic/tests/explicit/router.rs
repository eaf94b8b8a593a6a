//! What all laws share: arrivals, average RTT, persistent queue, intervals, and the departures of XCP.

use headway_arithmetic::explicit::{
    Config, Event, ExplicitQueue, Format, Header, Law, VERSION_RCP, VERSION_XCP, Verdict, flags,
};

use crate::support::{CAPACITY, LINE, MOST, Random, Router, assert_close, rcp, real, signed, units, xcp};

/// xcp-rcp F11.
#[test]
fn input_counts_packets_with_their_overhead() {
    let mut router = Router::new(&Config { overhead: 24, ..Config::new(Law::Xcp, CAPACITY, LINE) });
    router.arrive(&xcp(0.1, 0.01, 0), 1000, 100);
    let record = router.control();
    assert_eq!((record.input_bytes, record.input_packets), (100_000, 100));
    assert_close(real(record.input_rate) * record.interval as f64 / 1e9, 102_400.0, 1e-6);
}

/// xcp-rcp F12.
#[test]
fn the_average_rtt_is_that_of_flows_with_equal_rates() {
    let mut router = Router::published(Law::Xcp);
    for rtt in [0.05, 0.15] {
        router.arrive(&xcp(rtt, 0.01, 0), 1500, 10);
    }
    assert_close(router.control().average_rtt as f64, 1e8, 1e-6);
    // Ten times as many packets at a tenth of the distance are still one flow.
    router.arrive(&xcp(0.05, 0.001, 0), 1500, 100);
    router.arrive(&xcp(0.15, 0.01, 0), 1500, 10);
    assert_close(router.control().average_rtt as f64, 1e8, 1e-6);
}

/// At 10 Gb/s, X is 1.2 us: its product with the RTT is below the last bit of the sums.
#[test]
fn the_average_rtt_is_right_at_ten_gigabits() {
    let mut router = Router::published(Law::Xcp);
    for rtt in [0.000_5, 0.001_5] {
        router.arrive(&xcp(rtt, 1.2e-6, 0), 1500, 1000);
    }
    assert_close(router.control().average_rtt as f64, 1e6, 1e-5);
}

/// xcp-rcp F13.
#[test]
fn the_persistent_queue_is_what_never_drained() {
    let mut router = Router::published(Law::Xcp);
    router.settle(4500, 3);
    assert_eq!((router.queue.queue_bytes(), router.queue.queue_packets()), (4500, 3));
    for left in [2, 1, 0] {
        router.backlog = (left * 1500, left as u32);
        router.queue.depart(None, 1500, left * 1500, left as u32);
    }
    let record = router.control();
    assert_eq!((record.queue_bytes, record.queue_packets), (0, 0), "a burst with an idle gap");
    router.settle(6000, 4);
    for _ in 0..20 {
        router.queue.depart(None, 1500, 6000, 4);
        router.control();
    }
    let record = router.queue.record();
    assert_eq!((record.queue_bytes, record.queue_packets), (6000, 4), "four standing packets");
}

/// xcp-rcp F14: half of what the RTT leaves after the queue has drained, and at least 2 ms.
#[test]
fn the_queue_is_measured_more_often_the_longer_it_is() {
    let gap = |law, capacity, backlog| {
        let mut router = Router::new(&Config::new(law, capacity, LINE));
        router.settle(backlog, 0);
        let mut due = 0;
        loop {
            let now = router.queue.due();
            match router.queue.run_timer(backlog, 0, now) {
                Some(Event::Measured) if due > 0 => return now - due,
                Some(Event::Measured) => due = now,
                _ => due = 0,
            }
            // An event in between, so that the measurement is repeated.
            router.queue.depart(None, 1, backlog, 0);
            router.queue.arrive(None, 1);
        }
    };
    assert_eq!(gap(Law::Xcp, CAPACITY, 0) / 1000, 50_000);
    assert_eq!(gap(Law::Xcp, CAPACITY, 9375) / 1000, 25_000);
    assert_eq!(gap(Law::Xcp, CAPACITY, 50_000), 2_000_000);
    assert_eq!(gap(Law::Blind, 0, 50_000) / 1000, 50_000, "without a capacity the queue does not count");
}

/// xcp-rcp F20.
#[test]
fn intervals_follow_the_average_rtt_within_their_limits() {
    let mut router = Router::published(Law::Xcp);
    for (rtt, interval) in [(0.1, 1e8), (0.03, 3e7), (0.001, 5e6), (0.9, 9e8), (3.0, 1e9), (15.0, 1e9)] {
        router.arrive(&xcp(rtt, 0.01, 0), 1500, 1);
        let record = router.control();
        assert_close(record.average_rtt as f64, (rtt * 1e9_f64).min(1e9), 1e-5);
        let next = router.control();
        assert_close(next.interval as f64, interval, 1e-5);
        assert_eq!(next.time - record.time, next.interval);
    }
}

#[test]
fn the_first_interval_is_random_within_a_fifth() {
    let due = |random| {
        let config = Config::new(Law::Rcp, CAPACITY, LINE);
        ExplicitQueue::new(&config, 7, random).expect("in range").due() - 7
    };
    assert_eq!((due(0), due(1 << 31)), (40_000_000, 50_000_000));
    assert!((59_999_000..60_000_000).contains(&due(u32::MAX)));
}

/// xcp-rcp F10.
#[test]
fn a_first_packet_adds_bytes_but_not_to_the_sums_and_gets_no_change() {
    let mut router = Router::published(Law::Xcp);
    router.settle(0, 0);
    router.arrive(&xcp(0.0, 0.5, MOST), 60, 1);
    router.arrive(&xcp(0.2, 0.01, 0), 1500, 1);
    let record = router.control();
    assert_eq!(record.input_bytes, 1560);
    assert_close(record.average_rtt as f64, 2e8, 1e-5);
    assert_eq!(router.depart(xcp(0.0, 0.5, MOST), 60), 0);
}

/// xcp-rcp F04.
#[test]
fn a_minimal_packet_counts_as_input_and_is_not_rewritten() {
    for law in [Law::Xcp, Law::Rcp] {
        let version = if law.is_rate() { VERSION_RCP } else { VERSION_XCP };
        let minimal = Header { version, format: Format::Minimal as u8, ..xcp(0.5, 0.5, 77) };
        let mut router = Router::published(law);
        router.settle(0, 0);
        router.arrive(&minimal, 40, 10);
        router.arrive(&Header { version, ..xcp(0.1, 0.01, 0) }, 1000, 1);
        let record = router.control();
        assert_eq!((record.input_bytes, record.input_packets), (1400, 11));
        assert_close(record.average_rtt as f64, 1e8, 1e-5);
        assert_eq!(router.depart(minimal, 40), 77);
    }
}

#[test]
fn packets_without_a_header_count_as_input_only() {
    let mut router = Router::published(Law::Xcp);
    router.settle(0, 0);
    assert_eq!(router.queue.arrive(None, 900), Verdict::Accepted);
    let record = router.interval(1000);
    assert_eq!((record.input_bytes, record.input_packets), (1900, 2));
    assert!(!router.queue.depart(None, 900, 0, 0));
}

/// xcp-rcp F44.
#[test]
fn a_router_of_xcp_drops_packets_of_rcp_and_counts_them() {
    let mut router = Router::published(Law::Xcp);
    for count in 1..=5 {
        assert_eq!(router.queue.arrive(Some(&rcp(0.1, 0.01)), 1500), Verdict::BadVersion);
        assert_eq!(router.queue.rejected(), count);
    }
    let record = router.control();
    assert_eq!((record.rejected, record.input_bytes), (5, 7500));
    let mut rate = Router::published(Law::Rcp);
    assert_eq!(rate.queue.arrive(Some(&xcp(0.1, 0.01, 0)), 1500), Verdict::BadVersion);
    assert_eq!(rate.queue.arrive(Some(&Header { format: 3, ..rcp(0.1, 0.01) }), 1500), Verdict::BadFormat);
}

/// xcp-rcp F17: over the packets that made the sums, the grants sum to the feedback.
#[test]
fn grants_to_the_packets_of_an_interval_sum_to_the_feedback() {
    let mut random = Random(1);
    for round in 0..200 {
        let flags = if round % 2 == 0 { 0 } else { flags::RESIDUES };
        let capacity = random.logarithmic(1e5, 1e9);
        let mut router = Router::new(&Config { flags, ..Config::new(Law::Xcp, capacity as u64, LINE) });
        router.settle((random.unit() * capacity * 0.1) as u64, 0);
        let packets: Vec<(Header, u32)> = (0..100)
            .map(|_| {
                let x = random.logarithmic(1e-6, 0.1);
                let size = capacity * 0.2 * random.unit() / 100.0;
                (xcp(random.logarithmic(0.001, 0.9), x, MOST), size as u32 + 40)
            })
            .collect();
        for (header, size) in &packets {
            router.arrive(header, *size, 1);
        }
        let record = router.control();
        let granted: i64 =
            packets.iter().map(|(header, size)| i64::from(router.depart(*header, *size).cast_signed())).sum();
        let feedback = real(record.positive) - real(record.negative);
        assert_close(feedback, signed(record.feedback), 1e-9);
        let gross = real(record.positive) + real(record.negative);
        // What rounding keeps is less than one; the scale factors have 16 and 32 fraction bits.
        assert!((granted as f64 - feedback).abs() <= 1.0 + gross * 1e-5, "{granted} of {feedback}");
    }
}

/// xcp-rcp F18: a positive change follows X, a negative one the size, which the thesis prints
/// the wrong way round.
#[test]
fn positive_feedback_follows_x_and_negative_feedback_the_size() {
    let mut router = Router::new(&Config { gamma: 0, flags: 0, ..Config::new(Law::Xcp, CAPACITY, LINE) });
    router.settle(0, 0);
    router.arrive(&xcp(0.1, 0.01, 0), 500, 10);
    let record = router.control();
    let feedback = signed(record.feedback);
    assert!(feedback > 50_000.0, "{feedback}");
    for (x, size) in [(0.01, 500), (0.01, 1500), (0.02, 500)] {
        let granted = router.depart(xcp(0.1, x, MOST), size).cast_signed();
        assert!((f64::from(granted) - feedback * x / 0.1).abs() <= 1.0, "{granted}");
    }
    router.settle(0, 0);
    router.arrive(&xcp(0.1, 0.01, 0), 10_000, 10);
    let feedback = signed(router.control().feedback);
    assert!(feedback < -300_000.0, "{feedback}");
    for (x, size) in [(0.01, 500), (0.01, 1500), (0.02, 500)] {
        let granted = router.depart(xcp(0.1, x, MOST), size).cast_signed();
        assert!((f64::from(granted) - feedback * f64::from(size) / 100_000.0).abs() <= 1.0, "{granted}");
    }
}

/// xcp-rcp F18 and F22: the smallest on the path wins.
#[test]
fn a_packet_leaves_with_the_smaller_of_what_it_brings_and_what_it_is_granted() {
    let mut routers = [200_000, 150_000, 180_000].map(|capacity| {
        let config = Config { gamma: 0, flags: 0, ..Config::new(Law::Xcp, capacity, LINE) };
        let mut router = Router::new(&config);
        router.settle(0, 0);
        router.arrive(&xcp(0.1, 0.01, 0), 1000, 10);
        router.control();
        router
    });
    let alone: Vec<i32> =
        routers.iter_mut().map(|r| r.depart(xcp(0.1, 0.01, MOST), 1000).cast_signed()).collect();
    let tightest = alone.iter().min().copied().expect("there are three");
    let along = |routers: &mut [Router], asked: i32| {
        routers
            .iter_mut()
            .fold(asked.cast_unsigned(), |asked, router| router.depart(xcp(0.1, 0.01, asked), 1000))
            .cast_signed()
    };
    assert!((along(&mut routers, i32::MAX) - tightest).abs() <= 1);
    assert_eq!(along(&mut routers, 5), 5);
    assert_eq!(along(&mut routers, -500_000), -500_000);
}

/// xcp-rcp F19.
#[test]
fn residues_bound_what_an_interval_grants() {
    for (limited, repeats) in [(true, 5), (false, 5)] {
        let flags = if limited { flags::RESIDUES } else { 0 };
        let mut router = Router::new(&Config { flags, ..Config::new(Law::Xcp, CAPACITY, LINE) });
        router.settle(0, 0);
        router.arrive(&xcp(0.1, 0.01, 0), 1000, 10);
        let feedback = signed(router.control().feedback);
        let granted: i64 = (0..10 * repeats)
            .map(|_| i64::from(router.depart(xcp(0.1, 0.01, MOST), 1000).cast_signed()))
            .sum();
        let expected = if limited { feedback } else { feedback * f64::from(repeats) };
        assert!((granted as f64 - expected).abs() <= 2.0, "{granted} of {expected}");
    }
}

/// xcp-rcp 2.7: what a packet does not want is left to those behind it.
#[test]
fn what_one_packet_does_not_ask_for_others_may_have() {
    let mut router = Router::new(&Config { gamma: 0, ..Config::new(Law::Xcp, CAPACITY, LINE) });
    router.settle(0, 0);
    router.arrive(&xcp(0.1, 0.01, 0), 1000, 10);
    let feedback = signed(router.control().feedback);
    for _ in 0..10 {
        assert_eq!(router.depart(xcp(0.1, 0.01, 7), 1000), 7);
    }
    let later: i64 =
        (0..30).map(|_| i64::from(router.depart(xcp(0.1, 0.01, MOST), 1000).cast_signed())).sum();
    assert!((later as f64 - (feedback - 70.0)).abs() <= 2.0, "{later} of {feedback}");
}

/// xcp-rcp 2.15: without the remainder, none of 10^5 packets would get any of 20 000 B/s.
#[test]
fn a_share_of_less_than_a_byte_per_second_is_not_lost() {
    let mut router = Router::new(&Config { gamma: 0, ..Config::new(Law::Xcp, 50_000 + 1_250_000, LINE) });
    router.settle(0, 0);
    let header = xcp(0.1, 1e-6, MOST);
    for _ in 0..100_000 {
        router.queue.arrive(Some(&header), 1);
    }
    let feedback = signed(router.control().feedback);
    router.queue.arrive(Some(&header), 1);
    let granted: i64 = (0..100_000).map(|_| i64::from(router.depart(header, 1).cast_signed())).sum();
    assert!((granted as f64 / feedback - 1.0).abs() < 0.01, "{granted} of {feedback}");
}

/// xcp-rcp 2.2: the router cannot be silenced for long by a silence.
#[test]
fn a_year_of_silence_takes_a_few_thousand_calls() {
    const YEAR: u64 = 365 * 86_400 * 1_000_000_000;
    for law in Law::ALL {
        for backlog in [(0, 0), (60_000, 40)] {
            let mut router = Router::published(law);
            router.settle(backlog.0, backlog.1);
            let begin = router.queue.due();
            let mut calls = 0;
            while router.queue.run_timer(backlog.0, backlog.1, begin + YEAR).is_some() {
                calls += 1;
            }
            assert!(calls < 10_000, "{law:?}: {calls} calls");
            assert!(router.queue.due() > begin + YEAR && router.queue.due() < begin + YEAR + 200_000_000);
            let record = *router.queue.record();
            assert_eq!((record.queue_bytes, record.queue_packets), backlog);
        }
    }
}

/// Leaving out silent intervals changes neither state nor the phase of timers.
#[test]
fn a_silence_ends_as_if_every_interval_had_been_computed() {
    for law in Law::ALL {
        let mut stepped = Router::published(law);
        stepped.settle(9000, 6);
        let mut leaping = Router { queue: stepped.queue.clone(), backlog: (0, 0) };
        stepped.backlog = (0, 0);
        let end = stepped.queue.due() + 7_000_000_000_000;
        while stepped.queue.due() <= end {
            let due = stepped.queue.due();
            stepped.queue.run_timer(0, 0, due);
        }
        while leaping.queue.run_timer(0, 0, end).is_some() {}
        assert_eq!(leaping.queue.record(), stepped.queue.record(), "{law:?}");
        assert_eq!(leaping.control(), stepped.control(), "{law:?}");
    }
}

/// Senders may lie: nothing overflows, and headers never ask for more when they leave.
#[test]
fn extreme_headers_never_raise_what_they_bring() {
    let mut random = Random(3);
    let extreme = |random: &mut Random| match random.next() % 6 {
        0 => 0,
        1 => 1,
        2 => u32::MAX,
        3 => MOST,
        4 => MOST + 1,
        _ => random.next() as u32,
    };
    for law in Law::ALL {
        let mut router = Router::published(law);
        for _ in 0..100_000 {
            let mut header =
                Header { version: if law.is_rate() { VERSION_RCP } else { VERSION_XCP }, ..rcp(0.0, 0.0) };
            header.rtt = extreme(&mut random);
            header.x = extreme(&mut random);
            header.feedback = extreme(&mut random);
            let bytes = extreme(&mut random);
            router.queue.arrive(Some(&header), bytes);
            router.backlog = (u64::from(extreme(&mut random)) << (random.next() % 32), extreme(&mut random));
            let before = header;
            router.queue.depart(Some(&mut header), extreme(&mut random), router.backlog.0, router.backlog.1);
            let lowered = if law.is_rate() {
                header.rate() <= before.rate()
            } else {
                header.delta() <= before.delta() || header.rtt == 0
            };
            assert!(lowered, "{law:?}: {before:?} left as {header:?}");
            if random.next().is_multiple_of(4) {
                let record = router.control();
                assert!(record.interval <= 1_000_000_000);
                assert!(record.average_rtt <= 1_000_000_000);
            }
        }
    }
}

#[test]
fn times_of_headers_are_those_of_the_specification() {
    assert_eq!((units(1.0), units(0.1)), (1 << 28, 26_843_546));
}
