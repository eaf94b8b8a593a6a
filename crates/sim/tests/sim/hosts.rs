//! Behaviour of Linux hosts on whole paths; the expected values follow from the rules of Linux.

use crate::support::*;
use headway_control::{FixedRate, FixedWindow, Kind};
use headway_sim::config::Burst;
use headway_sim::{Network, TcpConfig};
use headway_units::{Bytes, Duration};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// A host that sends in bursts, with a receiver that acknowledges every second segment.
fn host(flow: &mut TcpConfig) {
    flow.burst = Burst::Host;
    flow.ack.every = 2;
}

/// HyStart's ACK train ends slow start when it has lasted for half a round trip plus 0.25 ms since the first
/// ACK of the round; ACKs come at the rate of the link.
#[test]
fn slow_start_ends_when_half_a_round_trip_of_acknowledgements_has_come() {
    for (rate, delay) in [(50.0, 20), (20.0, 50), (100.0, 20)] {
        let config = link(mbps(rate), MS(delay), drop_tail(None));
        let mut pipe = Pipe::new(Kind::Cubic, &config, MS(delay), host);
        let flow = pipe.run(3.0);
        // Each round begins with the window at which the train of the round begins. A round of W segments
        // gives a train of W packet times, and the window grows by one segment per packet time.
        let packet = mbps(rate).time_for(Bytes::new(SEGMENT)).secs_f64();
        let train = (delay as f64 / 1e3 + 0.000_25) / packet;
        println!("{rate} {delay}: {} {train}", flow.ssthresh);
        let rounds = (train / 10.0).log2().ceil().exp2() * 10.0;
        assert_near("threshold", flow.ssthresh, rounds + train, 0.05);
    }
}

/// The duplicate sent by a needless tail-loss probe arrives alone, after everything has been acknowledged.
#[test]
fn a_needless_probe_of_the_tail_costs_nothing() {
    let mut pipe = Pipe::new(Kind::Reno, &link(mbps(100.0), MS(10), drop_tail(None)), MS(10), |flow| {
        host(flow);
        flow.receive_buffer = segments(80);
    });
    // 1.25 MB of probes ahead of the flow take 100 ms.
    let prober = pipe.network.add_prober(&[pipe.forward], None);
    (0..813).for_each(|_| pipe.network.send_probe(prober, us(2_000_000), Bytes::new(SEGMENT)));
    let before = pipe.run(1.99);
    let flow = pipe.run(4.0);
    println!("{before:?} {flow:?}");
    assert_eq!((flow.retransmitted, flow.timeouts), (1, 0));
    assert_eq!((flow.reductions, flow.ssthresh), (0, f64::INFINITY));
}

/// In the long run the memory of 20 flows does not depend on the length of the run.
#[test]
fn memory_does_not_grow_with_time() {
    let kinds = [
        ("application-limited", Kind::Cubic, Some(mbps(1.0))),
        ("fixed rate", Kind::FixedRate(FixedRate::new(mbps(1.0))), None),
        ("bbr", Kind::Bbr, None),
        ("reno", Kind::Reno, None),
    ];
    for (name, kind, application_rate) in kinds {
        for burst in [Burst::Host, Burst::Single] {
            let mut network = Network::new(1);
            let forward = network.add_link(&link(mbps(25.0), MS(10), drop_tail(Some(100 * SEGMENT))));
            let reverse = network.add_link(&wire(MS(10)));
            for _ in 0..20 {
                let config = flow(kind, forward, reverse);
                network.add_tcp(&TcpConfig { application_rate, burst, ..config });
            }
            let mut held = |seconds| {
                network.run_until(at(seconds));
                network.memory().get()
            };
            let (short, long) = (held(10.0), held(100.0));
            println!("{name} {burst:?}: {short} {long}");
            assert!(2 * long <= 3 * short, "{name} {burst:?}: {short} bytes after 10 s, {long} after 100 s");
        }
    }
}

/// The window grows from 128/256 to 153/256 of twice the buffer (Linux's `scaling_ratio`), less the segment
/// that has not been read yet. It cannot exceed what 16 bits express with the initial window scale: 4 bytes
/// for 256 kB. A burst that waits for the next ACK leaves a little of it unused (the kernel's world: 298.7
/// and 178.6 segments at 1 Gb/s).
#[test]
fn a_receive_window_that_has_grown_limits_by_what_it_has_become() {
    for (buffer, window) in [(segments(256), 305), (Bytes::new(256_000), 65_535 * 4 / 1448)] {
        let mut pipe = Pipe::new(Kind::Cubic, &wire(MS(50)), MS(50), |flow| {
            host(flow);
            flow.receive_buffer = buffer;
        });
        pipe.run(5.0);
        pipe.network.reset_statistics();
        let flow = pipe.run(15.0);
        let used = flow.delivered as f64 / 100.0 / window as f64;
        assert!((0.98..=1.003).contains(&used), "{used} of {window} segments a round trip");
    }
}

/// Of 53, 12 and 2 segments all are used, as in Linux in virtual time; the last ones of five and of three
/// segments wait for a delayed ACK of 40 ms.
#[test]
fn a_receive_buffer_limits_by_the_window_that_it_holds() {
    for (bytes, least, most) in [
        (65_536, 52.5, 53.1),
        (16_384, 11.9, 12.1),
        (8_192, 4.6, 4.8),
        (5_000, 2.7, 2.85),
        (4_096, 1.95, 2.05),
    ] {
        let mut pipe = Pipe::new(Kind::Cubic, &wire(MS(80)), MS(80), |flow| {
            host(flow);
            flow.receive_buffer = Bytes::new(bytes);
        });
        pipe.run(5.0);
        pipe.network.reset_statistics();
        let used = pipe.run(21.0).delivered as f64 / 100.0;
        assert!((least..=most).contains(&used), "{bytes} B: {used} segments a round trip of 160 ms");
    }
}

/// The handshake of a late flow waits in the queue that exists by then, and Linux's BBR starts with that RTT.
#[test]
fn a_late_flow_measures_its_handshake_through_the_queue() {
    let mut network = Network::new(1);
    let forward = network.add_link(&link(mbps(10.0), MS(10), drop_tail(None)));
    let reverse = network.add_link(&wire(MS(10)));
    let mut first = flow(Kind::FixedWindow(FixedWindow::new(40)), forward, reverse);
    host(&mut first);
    network.add_tcp(&first);
    let mut late = flow(Kind::Bbr, forward, reverse);
    host(&mut late);
    let late = network.add_tcp(&TcpConfig { start: at(2.0), ..late });
    network.run_until(at(1.999));
    let rtt = network.flow(late).min_rtt.expect("the connection is open");
    // Forty segments of 1.23 ms are always in flight.
    assert!((MS(46)..MS(50)).contains(&rtt), "{rtt}");
    assert_eq!(network.flow(late).sent, 0);
    network.run_until(at(2.0001));
    assert!(network.flow(late).sent >= 10);
}

/// A lost handshake packet costs a second.
#[test]
fn a_connection_whose_handshake_is_lost_is_asked_for_again() {
    let mut config = wire(MS(10));
    config.policer = Some((mbps(0.001), Bytes::new(700)));
    let mut pipe = Pipe::new(Kind::Reno, &config, MS(10), |flow| {
        host(flow);
        flow.start = at(1.0);
    });
    let prober = pipe.network.add_prober(&[pipe.forward], None);
    pipe.network.send_probe(prober, us(900_000), Bytes::new(700));
    assert_eq!(pipe.run(1.9).srtt, None);
    let flow = pipe.run(1.98);
    assert_eq!(flow.srtt.map(|rtt| (rtt, flow.sent >= 10)), Some((MS(20), true)));
}
