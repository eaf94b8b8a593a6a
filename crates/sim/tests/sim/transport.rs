//! Behaviour of TCP flows in virtual time: windows, acknowledgements, pacing, starts and ends.

use crate::support::*;
use headway_control::{FixedRate, Kind};
use headway_host::nic::Coalescing;
use headway_sim::config::{AckPolicy, Burst};
use headway_sim::{Network, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};

const MS: fn(i64) -> Duration = Duration::from_ms;

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
    // A buffer of 20 segments and a reader of one segment per second: data flows at the reader's rate, as
    // window updates allow.
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
    // One segment per millisecond and an ACK for every ninth, or after a timeout of 4.5 ms: each ACK
    // covers five segments.
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
        let nic = network.add_nic(coalescing);
        let config =
            TcpConfig { nic: Some(nic), size: Some(segments(50_000)), ..flow(Kind::Reno, forward, reverse) };
        let ids: Vec<_> = (0..3).map(|_| network.add_tcp(&config)).collect();
        network.run_until(at(20.0));
        for id in ids {
            let flow = network.flow(id);
            assert_eq!(flow.delivered, 50_000);
            assert!(flow.finished.is_some() && flow.retransmitted < 2_000, "{flow:?}");
            // Timestamps that measure retransmissions have a resolution of a millisecond.
            assert!(flow.min_rtt.expect("measured") >= MS(2), "{flow:?}");
        }
        assert_eq!(network.held(nic), 0);
    }
}

#[test]
fn a_short_flow_finishes_when_a_hand_calculation_says_so() {
    // 12.304 us per segment at 1 Gb/s, 10 ms each way: 10 segments in the first round trip, 20 in the second,
    // and 5 in the third, the last with 100 bytes of payload.
    let mut pipe = Pipe::new(Kind::Reno, &link(mbps(1_000.0), MS(10), drop_tail(None)), MS(10), |flow| {
        flow.size = Some(Bytes::new(34 * 1448 + 100));
        flow.start = us(3_000);
    });
    let flow = pipe.run(1.0);
    // Each ACK of the first round trip allows two segments. The third round trip begins with the first ACK of
    // the second, and its last segment waits for the third ACK: 2, 2 and 1.
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
