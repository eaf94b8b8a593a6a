//! Behaviour of TCP flows in virtual time.

mod support;

use headway_core::control::{FixedRate, FixedWindow, Kind};
use headway_core::queue::{DropTailConfig, QueueSpec};
use headway_core::{Bytes, Duration, Rate};
use headway_host::nic::Coalescing;
use headway_sim::config::{AckPolicy, Burst, Ecn, Service};
use headway_sim::{FlowStatistics, LinkConfig, LinkId, Network, TcpConfig};
use headway_traffic::Traffic;
use support::*;

const MS: fn(i64) -> Duration = Duration::from_ms;

fn window(segments: u32) -> Kind {
    Kind::FixedWindow(FixedWindow::new(segments))
}

/// A wire that loses everything sent within the given times (us): a prober uses up the tokens of its policer.
///
/// Otherwise the policer lets four segments pass every 0.5 ms.
fn cut(network: &mut Network, delay: Duration, cuts: &[(i64, i64)]) -> LinkId {
    let mut config = wire(delay);
    config.policer = Some((mbps(100.0), Bytes::new(4 * SEGMENT)));
    let link = network.add_link(&config);
    let prober = network.add_prober(&[link], None);
    for (from, to) in cuts {
        (0..4).for_each(|_| network.send_probe(prober, us(*from), Bytes::new(SEGMENT)));
        for time in (*from..*to).step_by(50) {
            network.send_probe(prober, us(time), Bytes::new(700));
        }
    }
    link
}

/// A flow over a wire with cuts and a return wire, 10 ms each.
fn with_cuts(cuts: &[(i64, i64)], controller: Kind, change: impl FnOnce(&mut TcpConfig)) -> Pipe {
    let mut network = Network::new(1);
    let forward = cut(&mut network, MS(10), cuts);
    let reverse = network.add_link(&wire(MS(10)));
    let mut config = flow(controller, forward, reverse);
    change(&mut config);
    let flow = network.add_tcp(&config);
    Pipe { network, forward, reverse, flow }
}

#[test]
fn slow_start_doubles_the_window_every_round_trip() {
    for every in [1, 2, 8] {
        let mut pipe = Pipe::new(Kind::Reno, &wire(MS(50)), MS(50), |flow| flow.ack.every = every);
        for round in 0..8 {
            let cwnd = f64::from(pipe.run(0.1 * f64::from(round) + 0.05).cwnd);
            let expected = 10.0 * 2.0_f64.powi(round);
            // A receiver that delays ACKs still owes some at the end of a round.
            let least = if every == 1 { expected } else { expected * 0.8 };
            assert!(cwnd <= expected && cwnd >= least, "every {every}, round {round}: {cwnd}");
        }
    }
}

#[test]
fn one_loss_costs_one_fast_retransmit_and_no_timeout() {
    // The last of ten segments sent at once finds the queue full.
    let queue = QueueSpec::DropTail(DropTailConfig { limit: None, packets: Some(9) }).build(None, 1);
    let config = LinkConfig::new(Service::Constant(mbps(100.0)), MS(10), queue);
    for controller in [Kind::Reno, Kind::Cubic, Kind::Dctcp, window(10)] {
        let mut pipe = Pipe::new(controller, &config, MS(10), |flow| flow.size = Some(segments(20)));
        let flow = pipe.run(2.0);
        assert_eq!(pipe.network.link(pipe.forward).statistics().dropped.packets, 1);
        assert_eq!((flow.retransmitted, flow.recoveries, flow.reductions, flow.timeouts), (1, 1, 1, 0));
        assert!(flow.finished.expect("all arrives") < at(0.085), "{controller}: {flow:?}");
    }
}

/// Runs a flow that sends a segment per millisecond over a path with cuts, 10 ms each way.
fn finite(cuts: &[(i64, i64)], count: u64, change: impl FnOnce(&mut TcpConfig)) -> FlowStatistics {
    let mut pipe = with_cuts(cuts, window(60), |flow| {
        flow.application_rate = Some(Rate::from_bps(1448 * 8 * 1000));
        flow.size = Some(segments(count));
        change(flow);
    });
    pipe.run(400.0)
}

#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    // One segment per millisecond. The one sent at 30 ms is lost; three SACKed segments trigger its retransmission at
    // 53 ms. If that is lost, too, later segments trigger the next retransmission at 74 ms.
    let once = finite(&[(29_900, 30_100)], 300, |_| ());
    assert_eq!((once.retransmitted, once.recoveries, once.timeouts), (1, 1, 0));
    let twice = finite(&[(29_900, 30_100), (52_900, 53_100)], 300, |_| ());
    // The new segment sent at 53 ms is lost as well.
    assert_eq!((twice.retransmitted, twice.timeouts), (3, 0), "{twice:?}");
}

#[test]
fn a_lost_last_segment_is_probed_for_and_then_waits_for_the_timer_which_doubles() {
    // The last of 100 segments is sent at 100 ms and lost, as are its retransmissions for a while.
    let finished = |until_ms: i64| {
        let flow = finite(&[(99_900, until_ms * 1000)], 100, |_| ());
        assert_eq!(flow.retransmitted, flow.timeouts + 1);
        (flow.timeouts, flow.finished.expect("all arrives").ns() / 1_000_000)
    };
    // The probe waits as long as the RTO: 200 ms and a round trip from the last ACK, which came at 119 ms. The usual
    // probe timeout for a single segment, two round trips and 200 ms, would be longer. Timers fire after that, at
    // multiples of 8 and 64 ms.
    assert_eq!(finished(101), (0, 344 + 20));
    assert_eq!(finished(400), (1, 568 + 20));
    assert_eq!(finished(1_100), (3, 1_920 + 20));
    assert_eq!(finished(2_000), (4, 3_712 + 20));
}

#[test]
fn a_lost_tail_of_several_segments_is_repaired_in_a_few_round_trips() {
    // The last four of 100 segments are sent at 97 to 100 ms. The last ACK comes at 116 ms. Two round trips, 2 ms and a
    // tick later the last segment is sent again as a probe, and its ACK reveals the holes before it.
    let flow = finite(&[(96_900, 101_000)], 100, |_| ());
    let finished = flow.finished.expect("all arrives").ns() / 1_000_000;
    assert_eq!((flow.retransmitted, flow.recoveries, flow.timeouts), (4, 1, 0), "{flow:?}");
    assert!((159 + 40..=159 + 42).contains(&finished), "{finished} ms");
}

#[test]
fn a_probe_that_was_needless_costs_nothing_and_one_that_repaired_a_loss_the_window() {
    // One segment per second. After the first 16 the receiver delays ACKs for longer than the sender's probe timeout.
    let slow = |flow: &mut TcpConfig| {
        flow.application_rate = Some(Rate::from_bps(1448 * 8));
        flow.ack = AckPolicy { every: 2, timeout: MS(500) };
        flow.size = Some(segments(30));
        // A window that hardly grows; otherwise the receiver would acknowledge everything at once.
        flow.receive_buffer = segments(160);
    };
    // The first probe is a duplicate, and makes the receiver acknowledge the next 16 segments at once.
    let needless = with_cuts(&[], Kind::Reno, slow).run(60.0);
    assert_eq!((needless.retransmitted, needless.timeouts, needless.reductions), (1, 0, 0), "{needless:?}");
    let lost = with_cuts(&[(4_999_900, 5_000_100)], Kind::Reno, |flow| {
        slow(flow);
        flow.ack.every = 1;
    })
    .run(60.0);
    assert_eq!((lost.retransmitted, lost.timeouts, lost.reductions), (1, 0, 1), "{lost:?}");
}

#[test]
fn a_timeout_that_a_sudden_queue_caused_is_taken_back() {
    for controller in [Kind::Reno, Kind::Cubic, Kind::Dctcp, Kind::Bbr] {
        let mut pipe = Pipe::new(controller, &link(mbps(100.0), MS(10), drop_tail(None)), MS(10), |flow| {
            flow.application_rate = Some(Rate::from_bps(1448 * 8 * 1000));
        });
        // 5 MB of probes ahead of the flow take 400 ms.
        let prober = pipe.network.add_prober(&[pipe.forward], None);
        (0..3_251).for_each(|_| pipe.network.send_probe(prober, us(2_000_000), Bytes::new(SEGMENT)));
        let before = pipe.run(1.99);
        let flow = pipe.run(4.0);
        println!("{controller}: {before:?} {flow:?}");
        assert_eq!((flow.timeouts, flow.undone), (1, 1), "{controller}");
        assert!(flow.retransmitted <= 2, "{controller}: {} sent again", flow.retransmitted);
        assert!(flow.cwnd >= before.cwnd && flow.ssthresh >= before.ssthresh, "{controller}");
    }
}

#[test]
fn reductions_for_segments_that_were_only_overtaken_are_taken_back() {
    let mut config = link(mbps(100.0), MS(10), drop_tail(None));
    (config.jitter, config.reordering) = (MS(15), true);
    for controller in [Kind::Reno, Kind::Cubic] {
        let mut pipe = Pipe::new(controller, &config, MS(10), |flow| flow.receive_buffer = segments(400));
        let flow = pipe.run(4.0);
        println!("{controller}: {flow:?}");
        assert!(flow.reductions > 0 && flow.undone == flow.reductions, "{controller}: {flow:?}");
        assert!(flow.cwnd >= 150, "{controller}: {flow:?}");
    }
}

#[test]
fn half_of_all_packets_lost_still_lets_a_flow_finish() {
    for controller in [Kind::Reno, Kind::Cubic, Kind::Dctcp, Kind::Bbr] {
        let mut config = wire(MS(10));
        config.loss = 0.5;
        let mut pipe = Pipe::new(controller, &config, MS(10), |flow| flow.size = Some(segments(200)));
        let flow = pipe.run(3_600.0);
        println!("{controller} {flow:?}");
        let finished = flow.finished.expect("all arrives").ns() as f64 / 1e9;
        // A timeout just after new data was sent is undone when that data arrives.
        assert!(flow.goodput == segments(200) && flow.undone <= 1, "{controller}: {flow:?}");
        assert!(finished < 600.0, "{controller}: {finished} s");
    }
}

#[test]
fn reordering_costs_few_retransmissions_once_it_has_been_seen() {
    // The base round trip is 20 ms, and jitter adds up to 1.5 times that. This is more than the initial reordering
    // window of a quarter of a round trip, and in the end nearly its maximum of a round trip.
    for (jitter, again, least) in
        [(1, 0, 150_000), (4, 0, 150_000), (8, 10, 130_000), (15, 10, 110_000), (30, 400, 80_000)]
    {
        for controller in [window(200), Kind::Reno] {
            let mut config = link(mbps(100.0), MS(10), drop_tail(None));
            (config.jitter, config.reordering) = (MS(jitter), true);
            let mut pipe = Pipe::new(controller, &config, MS(10), |flow| flow.receive_buffer = segments(400));
            let first = pipe.run(4.0);
            pipe.network.reset_statistics();
            let flow = pipe.run(24.0);
            assert!(first.retransmitted <= 500, "{jitter} ms: {} sent again", first.retransmitted);
            assert!(flow.retransmitted <= again, "{jitter} ms: {} sent again", flow.retransmitted);
            assert!(flow.delivered > least && flow.timeouts == 0, "{jitter} ms: {flow:?}");
        }
    }
}

#[test]
fn nothing_is_sent_twice_in_vain_on_a_path_that_keeps_order() {
    // 200 short flows start into a buffer of 20 segments: most losses end in timeouts, none of which is spurious.
    for controller in [Kind::Reno, Kind::Cubic, Kind::Dctcp, Kind::Bbr] {
        let mut network = Network::new(1);
        let forward = network.add_link(&link(mbps(10.0), MS(5), drop_tail(Some(20 * SEGMENT))));
        let reverse = network.add_link(&wire(MS(5)));
        let ids: Vec<_> = (0..200)
            .map(|i| {
                let config = flow(controller, forward, reverse);
                network.add_tcp(&TcpConfig { start: us(i * 500), size: Some(segments(50)), ..config })
            })
            .collect();
        // Long enough for the unluckiest flow, whose RTO doubles.
        network.run_until(at(1_200.0));
        for id in ids {
            let flow = network.flow(id);
            assert!(flow.finished.is_some(), "{flow:?}");
            assert_eq!((flow.received, flow.delivered, flow.undone), (50, 50, 0), "{flow:?}");
        }
    }
}

#[test]
fn the_receive_window_limits_throughput_to_a_window_a_round_trip() {
    for every in [1, 2] {
        let mut pipe = Pipe::new(Kind::Cubic, &wire(MS(50)), MS(50), |flow| {
            flow.receive_buffer = segments(64);
            flow.ack.every = every;
        });
        pipe.run(5.0);
        pipe.network.reset_statistics();
        let flow = pipe.run(15.0);
        assert_eq!(flow.delivered, 64 * 100, "every {every}");
    }
}

#[test]
fn a_slow_reader_shuts_the_window_and_is_probed_until_it_reads_on() {
    // A buffer of 20 segments and a reader of one segment per second: data flows at the reader's rate, as window
    // updates allow.
    let mut pipe = Pipe::new(window(100), &wire(MS(10)), MS(10), |flow| {
        flow.receive_buffer = segments(20);
        flow.read_rate = Some(Rate::from_bps(1448 * 8));
    });
    let flow = pipe.run(100.0);
    println!("{flow:?}");
    assert!((118..=121).contains(&flow.delivered), "{}", flow.delivered);
    assert_eq!((flow.retransmitted, flow.timeouts), (0, 0));
    assert!(flow.sent > flow.delivered, "probes were sent");
}

#[test]
fn lost_window_updates_only_cost_time() {
    // A third of all ACKs and window updates is lost: the persist timer keeps the flow going.
    let mut network = Network::new(1);
    let forward = network.add_link(&wire(MS(10)));
    let mut back = wire(MS(10));
    back.loss = 0.33;
    let reverse = network.add_link(&back);
    let id = network.add_tcp(&TcpConfig {
        receive_buffer: segments(20),
        read_rate: Some(Rate::from_bps(1448 * 8 * 10)),
        size: Some(segments(1_000)),
        ..flow(window(100), forward, reverse)
    });
    network.run_until(at(300.0));
    let flow = network.flow(id);
    let finished = flow.finished.expect("all arrives").ns() as f64 / 1e9;
    println!("{finished} {flow:?}");
    // The reader needs 100 s, less the time for the 20 segments of the buffer.
    assert!((98.0..150.0).contains(&finished), "{finished}");
}

#[test]
fn a_queue_that_grows_for_seconds_causes_no_timeout() {
    for controller in [Kind::Reno, Kind::Cubic, Kind::Dctcp] {
        let mut pipe = Pipe::new(controller, &link(mbps(5.0), MS(10), drop_tail(None)), MS(10), |flow| {
            flow.receive_buffer = segments(2_000);
        });
        let flow = pipe.run(60.0);
        println!("{flow:?}");
        assert!(controller == Kind::Cubic || flow.srtt.expect("measured") > MS(3_000), "{flow:?}");
        assert_eq!((flow.timeouts, flow.retransmitted), (0, 0));
    }
}

#[test]
fn a_receive_window_of_one_segment_is_enough() {
    let mut pipe = Pipe::new(Kind::Reno, &wire(MS(10)), MS(10), |flow| {
        flow.receive_buffer = segments(1);
        flow.size = Some(segments(100));
        flow.ack.every = 1;
    });
    let flow = pipe.run(10.0);
    assert_eq!(flow.finished.expect("all arrives"), at(2.0));
}

#[test]
fn an_application_that_writes_slowly_does_not_grow_the_window() {
    for controller in [Kind::Reno, Kind::Cubic, Kind::Dctcp] {
        let mut pipe = Pipe::new(controller, &wire(MS(50)), MS(50), |flow| {
            flow.application_rate = Some(Rate::from_bps(1448 * 8 * 50));
        });
        let flow = pipe.run(60.0);
        // In slow start the window may grow to twice the segments in flight, here six.
        assert!(flow.cwnd <= 12, "{controller}: {}", flow.cwnd);
        assert!((2_994..=3_000).contains(&flow.delivered), "{}", flow.delivered);
    }
}

#[test]
fn an_application_faster_than_the_path_costs_no_events_of_its_own() {
    let events = |rate: f64| {
        let mut pipe = Pipe::new(window(20), &link(mbps(10.0), MS(10), drop_tail(None)), MS(10), |flow| {
            flow.application_rate = Some(mbps(rate));
        });
        pipe.network.run_until(at(0.1));
        let before = pipe.network.events();
        assert!(before < 10_000, "{before} events in 0.1 s");
        let flow = pipe.run(10.0);
        assert!(flow.delivered > 8_000, "{}", flow.delivered);
        pipe.network.events()
    };
    let (slow, fast) = (events(20.0), events(2_000.0));
    assert!(fast < slow + slow / 10, "{slow} and {fast} events");
}

#[test]
fn marks_within_a_round_trip_cost_one_reduction_and_are_echoed_until_then() {
    for ecn in [Ecn::Classic, Ecn::Dctcp] {
        // The flow uses a quarter of the link and never fills the queue, but other packets keep the queue above the
        // threshold for 28 ms.
        let mut pipe =
            Pipe::new(Kind::Reno, &link(mbps(100.0), MS(20), step(200 * SEGMENT)), MS(20), |flow| {
                flow.ecn = ecn;
                flow.application_rate = Some(mbps(25.0));
            });
        let others = TcpConfig {
            start: at(5.0),
            size: Some(segments(370)),
            ecn: Ecn::Dctcp,
            ..flow(window(370), pipe.forward, pipe.reverse)
        };
        pipe.network.add_tcp(&others);
        let before = pipe.run(4.9);
        let flow = pipe.run(5.4);
        println!("{flow:?}");
        assert_eq!((before.marked, before.reductions), (0, 0));
        assert!(flow.marked > 20, "{}", flow.marked);
        assert_eq!((flow.reductions, flow.recoveries, flow.timeouts), (1, 0, 0));
        match ecn {
            Ecn::Classic => assert!(flow.echoed > flow.marked, "{} of {}", flow.echoed, flow.marked),
            _ => assert_eq!(flow.echoed, flow.marked),
        }
        let later = pipe.run(10.0);
        assert_eq!((later.echoed, later.reductions), (flow.echoed, 1));
    }
}

#[test]
fn marks_that_never_end_cost_one_reduction_a_round_trip() {
    // Everything is marked: the queue is never empty, because no window can go below two segments.
    for ecn in [Ecn::Classic, Ecn::Dctcp] {
        let mut network = Network::new(1);
        let queue = step(0);
        let forward = network.add_link(&link(mbps(10.0), MS(20), queue));
        let reverse = network.add_link(&wire(MS(20)));
        let config = TcpConfig { ecn, ..flow(Kind::Reno, forward, reverse) };
        let ids: Vec<_> = (0..30).map(|_| network.add_tcp(&config)).collect();
        network.run_until(at(5.0));
        network.reset_statistics();
        network.run_until(at(25.0));
        for id in ids {
            let flow = network.flow(id);
            let rounds = 20.0 / flow.srtt.expect("measured").secs_f64();
            let per_round = flow.reductions as f64 / rounds;
            assert!((0.5..=1.05).contains(&per_round), "{ecn:?}: {per_round} a round trip");
        }
    }
}

#[test]
fn the_dctcp_echo_tells_exactly_which_segments_were_marked() {
    for every in [1, 2, 4, 8] {
        let mut network = Network::new(1);
        let forward = network.add_link(&link(mbps(200.0), MS(2), step(30 * SEGMENT)));
        let reverse = network.add_link(&wire(MS(2)));
        let config = TcpConfig {
            ecn: Ecn::Dctcp,
            ack: AckPolicy { every, timeout: MS(40) },
            size: Some(segments(40_000)),
            ..flow(Kind::Dctcp, forward, reverse)
        };
        let ids = [network.add_tcp(&config), network.add_tcp(&config)];
        network.run_until(at(60.0));
        let flows = ids.map(|id| network.flow(id));
        assert!(flows.iter().all(|flow| flow.finished.is_some() && flow.marked > 500), "{flows:?}");
        for flow in flows {
            assert_eq!(flow.echoed, flow.marked, "every {every}");
        }
        let marked: u64 = flows.iter().map(|flow| flow.marked).sum();
        assert_eq!(marked, network.link(forward).statistics().marked);
    }
}

#[test]
fn acknowledgements_come_every_so_many_segments_or_when_the_timer_says_so() {
    // Windows of 40 segments per round trip of 100 ms: the first 16 ACKs are quick.
    for (every, timeout) in [(1u32, 40), (2, 40), (4, 40)] {
        let mut pipe = Pipe::new(window(40), &wire(MS(50)), MS(50), |flow| {
            flow.ack = AckPolicy { every, timeout: MS(timeout) };
            flow.size = Some(segments(4_000));
        });
        let flow = pipe.run(100.0);
        let acks = pipe.network.link(pipe.reverse).statistics().arrived;
        let expected = 16 + (4_000 - 16) / u64::from(every);
        assert_eq!((flow.delivered, flow.retransmitted), (4_000, 0));
        assert_eq!(acks.packets, expected, "every {every}");
        assert_eq!(acks.bytes.get(), acks.packets * ACK);
    }
    // One segment per millisecond and an ACK for every ninth, or after a timeout of 4.5 ms: each ACK covers five
    // segments.
    let mut pipe = Pipe::new(window(40), &wire(MS(5)), MS(5), |flow| {
        flow.ack = AckPolicy { every: 9, timeout: Duration::from_us(4_500) };
        flow.application_rate = Some(Rate::from_bps(1448 * 8 * 1000));
    });
    pipe.run(1.0);
    pipe.network.reset_statistics();
    pipe.run(11.0);
    assert_eq!(pipe.network.link(pipe.reverse).statistics().arrived.packets, 2_000);
}

#[test]
fn pacing_spreads_the_window_over_the_round_trip() {
    let rate = mbps(100.0);
    // 200 segments per round trip of 40 ms are 61.5 Mb/s.
    let queue = |pacing| {
        let mut pipe = Pipe::new(window(200), &link(rate, MS(20), drop_tail(None)), MS(20), |flow| {
            flow.pacing = pacing;
            flow.ack.every = 32;
        });
        pipe.run(2.0);
        pipe.network.reset_statistics();
        let flow = pipe.run(6.0);
        assert!(flow.delivered > 17_000, "{flow:?}");
        pipe.network.link(pipe.forward).statistics().delay.max()
    };
    let (unpaced, paced) = (queue(false), queue(true));
    println!("{unpaced} {paced}");
    assert!(unpaced > rate.time_for(Bytes::new(25 * SEGMENT)), "{unpaced}");
    assert!(paced <= rate.time_for(Bytes::new(SEGMENT)), "{paced}");
}

#[test]
fn a_fixed_rate_is_kept_whatever_is_lost() {
    for loss in [0.0, 0.01, 0.2] {
        let mut config = wire(MS(20));
        config.loss = loss;
        let rate = mbps(20.0);
        let mut pipe = Pipe::new(Kind::FixedRate(FixedRate::new(rate)), &config, MS(20), |_| ());
        pipe.run(5.0);
        pipe.network.reset_statistics();
        let flow = pipe.run(25.0);
        let expected = 20e6 * 20.0 / (8.0 * SEGMENT as f64);
        assert_near(&format!("segments at loss {loss}"), flow.sent as f64, expected, 0.0001);
        assert_near("delivered", flow.delivered as f64, expected * (1.0 - loss), 0.02);
    }
}

#[test]
fn coalescing_delays_segments_and_loses_none() {
    for coalescing in [
        Coalescing::Fixed { interval: Duration::from_us(120), jitter: 0.2, frames: None },
        Coalescing::Adaptive { interval: Duration::from_us(50), frames: 24 },
    ] {
        let mut network = Network::new(1);
        let forward = network.add_link(&link(mbps(1_000.0), MS(1), drop_tail(Some(200 * SEGMENT))));
        let reverse = network.add_link(&wire(MS(1)));
        let card = network.add_card(coalescing);
        let config = TcpConfig {
            card: Some(card),
            size: Some(segments(50_000)),
            ..flow(Kind::Reno, forward, reverse)
        };
        let ids: Vec<_> = (0..3).map(|_| network.add_tcp(&config)).collect();
        network.run_until(at(20.0));
        for id in ids {
            let flow = network.flow(id);
            assert_eq!(flow.delivered, 50_000);
            assert!(flow.finished.is_some() && flow.retransmitted < 2_000, "{flow:?}");
            // Timestamps that measure retransmissions have a resolution of a millisecond.
            assert!(flow.min_rtt.expect("measured") >= MS(2), "{flow:?}");
        }
        assert_eq!(network.held(card), 0);
    }
}

#[test]
fn a_short_flow_finishes_when_a_hand_calculation_says_so() {
    // 12.304 us per segment at 1 Gb/s, 10 ms each way: 10 segments in the first round trip, 20 in the second, and 5 in
    // the third, the last with 100 bytes of payload.
    let mut pipe = Pipe::new(Kind::Reno, &link(mbps(1_000.0), MS(10), drop_tail(None)), MS(10), |flow| {
        flow.size = Some(Bytes::new(34 * 1448 + 100));
        flow.start = us(3_000);
    });
    let flow = pipe.run(1.0);
    // Each ACK of the first round trip allows two segments. The third round trip begins with the first ACK of the
    // second, and its last segment waits for the third ACK: 2, 2 and 1.
    let segment = 12_304;
    let first = 3_000_000 + segment + 20_000_000;
    let second = first + segment + 20_000_000;
    // The last segment, which is short, follows four others.
    let third = second + 4 * segment + (100 + 90) * 8 + 20_000_000;
    assert_eq!(flow.finished.expect("all arrives").ns(), third);
    assert_eq!((flow.sent, flow.delivered), (35, 35));
    assert_eq!(flow.goodput, Bytes::new(34 * 1448 + 100));
}

#[test]
fn a_flow_starts_and_stops_when_told() {
    for (rate, fixed) in [(None, 10u32), (Some(Rate::from_bps(1448 * 8 * 500)), 1_000)] {
        let mut pipe = Pipe::new(window(fixed), &wire(MS(10)), MS(10), |flow| {
            flow.start = us(1_000_000);
            flow.stop = Some(us(3_000_000));
            flow.application_rate = rate;
        });
        assert_eq!(pipe.run(0.9999).sent, 0);
        let begun = pipe.run(1.0021).sent;
        assert!(begun > 0, "{rate:?}");
        let end = pipe.run(3.0).sent;
        assert!((999..=1_000).contains(&end), "{end}");
        let flow = pipe.run(10.0);
        assert_eq!((flow.sent, flow.delivered, flow.finished), (end, end, None));
    }
}

#[test]
fn a_flow_and_a_source_added_late_start_at_once_and_not_in_the_past() {
    let mut network = Network::new(1);
    let forward = network.add_link(&link(mbps(10.0), MS(5), drop_tail(None)));
    let reverse = network.add_link(&wire(MS(5)));
    network.run_until(at(2.0));
    let traffic = Traffic::Cbr { rate: mbps(1.0), size: Bytes::new(1_000) };
    let id = network.add_source(&source(forward, traffic));
    let flow = network.add_tcp(&flow(window(2), forward, reverse));
    assert!(network.next_event().expect("two begin") >= at(2.0));
    network.run_until(at(3.0));
    assert!((124..=125).contains(&network.source_statistics(id).sent.packets));
    assert!(network.flow(flow).delivered > 0);
}

#[test]
fn a_full_buffer_is_recovered_from_without_timeouts() {
    // Slow start into a small buffer loses half a window at once.
    for every in [1, 2] {
        let queue = QueueSpec::DropTail(DropTailConfig { limit: None, packets: Some(50) }).build(None, 1);
        let config = LinkConfig::new(Service::Constant(mbps(50.0)), MS(20), queue);
        let mut pipe = Pipe::new(Kind::Reno, &config, MS(20), |flow| flow.ack.every = every);
        let flow = pipe.run(20.0);
        let dropped = pipe.network.link(pipe.forward).statistics().dropped.packets;
        println!("{dropped} {flow:?}");
        assert_eq!((flow.timeouts, flow.retransmitted, flow.undone), (0, dropped, 0));
    }
}

#[test]
fn a_host_sends_thirds_of_its_window_at_once_though_acknowledgements_come_evenly() {
    // 60 segments per round trip, which has capacity for 81: whatever queues was sent at once.
    let longest = |burst| {
        let config = link(mbps(1000.0), MS(1), drop_tail(None));
        let mut pipe = Pipe::new(window(60), &config, Duration::ZERO, |flow| {
            flow.burst = burst;
            flow.ack.every = 2;
        });
        pipe.run(1.0);
        pipe.network.reset_statistics();
        let flow = pipe.run(2.0);
        println!("{flow:?}");
        let packet = mbps(1000.0).time_for(Bytes::new(SEGMENT));
        pipe.network.link(pipe.forward).statistics().delay.max().ns() as f64 / packet.ns() as f64
    };
    assert!(longest(Burst::Single) < 2.0, "{}", longest(Burst::Single));
    assert!((18.0..=30.0).contains(&longest(Burst::Host)), "{}", longest(Burst::Host));
}
