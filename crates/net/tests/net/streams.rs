//! Streams over loopback, with a real server in this process.

use crate::common::{Running, config, has_v6, steady};
use headway_net::{NetError, Session, StampSource, StreamOutcome};
use headway_units::{Bytes, Duration};

/// Checks everything that must hold for a stream over loopback, however busy the machine is.
fn check(outcome: &StreamOutcome, packets: usize) {
    let record = &outcome.record;
    assert_eq!(record.arrivals.len(), packets);
    assert_eq!(record.lost(), 0);
    assert_eq!(outcome.duplicates, 0);
    assert_eq!(outcome.receive_stamps, StampSource::Kernel);
    for (arrival, index) in record.arrivals.iter().zip(0..) {
        assert_eq!(arrival.index, index);
        let delay = arrival.received.expect("no packet was lost") - arrival.sent;
        // Both ends use the same clock, and the kernel takes the departure timestamp before
        // the arrival timestamp.
        assert!(delay > Duration::from_us(-5) && delay < Duration::from_ms(500), "delay {delay}");
    }
    assert!(outcome.finished > outcome.started);
    if outcome.refusal.is_none() {
        let total: Duration = record.intended.iter().copied().sum();
        let actual = outcome.finished - outcome.started;
        assert!(
            (actual - total).ns().abs() <= total.scale(0.06).max(Duration::from_us(6)).ns(),
            "{actual} for {total}"
        );
    }
}

#[test]
fn streams_go_both_ways_over_ipv4() {
    let server = Running::start(config());
    let mut session = Session::connect(&server.options()).unwrap();
    assert_eq!(session.packet_size(), Bytes::new(9038));
    for packets in [2, 100, 1000] {
        check(&session.send_stream(&steady(packets, 50)).unwrap(), packets);
        check(&session.receive_stream(&steady(packets, 50)).unwrap(), packets);
    }
    assert!(session.rtt() > Duration::ZERO && session.rtt() < Duration::from_ms(500));
    assert!(session.control_bytes() > Bytes::new(1000));
    assert_eq!(session.peer().port(), server.port);
    let counts = server.handle.counts();
    assert_eq!((counts.forward_streams, counts.reverse_streams), (3, 3));
    assert_eq!((counts.packets_received, counts.packets_sent), (1102, 1102));
    assert_eq!(counts.datagrams_malformed + counts.datagrams_unexpected + counts.datagrams_replayed, 0);
}

#[test]
fn streams_go_both_ways_over_ipv6() {
    if !has_v6() {
        println!("skipped: this host has no IPv6 on loopback");
        return;
    }
    let server = Running::start(config());
    let mut options = server.options();
    options.host = "::1".to_owned();
    let mut session = Session::connect(&options).unwrap();
    check(&session.send_stream(&steady(100, 50)).unwrap(), 100);
    check(&session.receive_stream(&steady(100, 50)).unwrap(), 100);
}

#[test]
fn a_session_may_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Session>();
}

#[test]
fn schedules_that_cannot_be_sent_are_refused_here() {
    let server = Running::start(config());
    let mut session = Session::connect(&server.options()).unwrap();
    for (packets, packet) in [(1, 1538), (20_000, 1538), (10, 60), (10, 9100)] {
        let mut schedule = steady(packets, 50);
        schedule.packet = Bytes::new(packet);
        assert!(
            matches!(session.send_stream(&schedule), Err(NetError::BadStream(_))),
            "{packets} of {packet}"
        );
    }
    check(&session.send_stream(&steady(10, 50)).unwrap(), 10);
}
