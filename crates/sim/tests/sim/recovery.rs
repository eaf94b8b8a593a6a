//! What TCP flows do about losses, reordering and timeouts that were none.

use crate::support::*;
use headway_control::Kind;
use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::{AckPolicy, Service};
use headway_sim::{FlowStatistics, LinkConfig, LinkId, Network, TcpConfig};
use headway_units::{Bytes, Duration, Rate};

const MS: fn(i64) -> Duration = Duration::from_ms;

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
    // One segment per millisecond. The one sent at 30 ms is lost; three SACKed segments trigger its
    // retransmission at 53 ms. If that is lost, too, later segments trigger the next retransmission at 74 ms.
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
    // The probe waits as long as the RTO: 200 ms and a round trip from the last ACK, which came at 119 ms.
    // The usual probe timeout for a single segment, two round trips and 200 ms, would be longer. Timers fire
    // after that, at multiples of 8 and 64 ms.
    assert_eq!(finished(101), (0, 344 + 20));
    assert_eq!(finished(400), (1, 568 + 20));
    assert_eq!(finished(1_100), (3, 1_920 + 20));
    assert_eq!(finished(2_000), (4, 3_712 + 20));
}

#[test]
fn a_lost_tail_of_several_segments_is_repaired_in_a_few_round_trips() {
    // The last four of 100 segments are sent at 97 to 100 ms. The last ACK comes at 116 ms. Two
    // round trips, 2 ms and a tick later the last segment is sent again as a probe, and its ACK
    // reveals the holes before it.
    let flow = finite(&[(96_900, 101_000)], 100, |_| ());
    let finished = flow.finished.expect("all arrives").ns() / 1_000_000;
    assert_eq!((flow.retransmitted, flow.recoveries, flow.timeouts), (4, 1, 0), "{flow:?}");
    assert!((159 + 40..=159 + 42).contains(&finished), "{finished} ms");
}

#[test]
fn a_probe_that_was_needless_costs_nothing_and_one_that_repaired_a_loss_the_window() {
    // One segment per second. After the first 16 the receiver delays ACKs for longer than the
    // sender's probe timeout.
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
    (config.jitter, config.reordering) = (MS(15).into(), true);
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
    // The base round trip is 20 ms, and jitter adds up to 1.5 times that. This is more than the initial
    // reordering window of a quarter of a round trip, and in the end nearly its maximum of a round trip.
    for (jitter, again, least) in
        [(1, 0, 150_000), (4, 0, 150_000), (8, 10, 130_000), (15, 10, 110_000), (30, 400, 80_000)]
    {
        for controller in [window(200), Kind::Reno] {
            let mut config = link(mbps(100.0), MS(10), drop_tail(None));
            (config.jitter, config.reordering) = (MS(jitter).into(), true);
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
    // 200 short flows start into a buffer of 20 segments: most losses end in timeouts, none
    // of which is spurious.
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
