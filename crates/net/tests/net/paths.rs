//! Paths with loss, duplication, reordering and blocked UDP, simulated by a relay between client and server.

use crate::common::relay::{Fate, Relay, Way};
use crate::common::{Running, config, steady};
use headway_estimate::Refusal;
use headway_net::protocol::{Header, Kind, RefusedBy};
use headway_net::{ConnectOptions, NetError, Session, StreamOutcome};
use headway_units::{Bytes, Duration, Instant};

fn through(relay: &Relay) -> ConnectOptions {
    ConnectOptions { port: relay.port, ..ConnectOptions::new("127.0.0.1") }
}

/// Returns the index of a probe packet.
fn probe(datagram: &[u8]) -> Option<u32> {
    Header::parse(datagram).ok().filter(|header| header.kind == Kind::Probe).map(|header| header.index)
}

fn lost(outcome: &StreamOutcome) -> Vec<u32> {
    let arrivals = outcome.record.arrivals.iter();
    arrivals.filter(|arrival| arrival.received.is_none()).map(|arrival| arrival.index).collect()
}

#[test]
fn lost_packets_are_named_in_both_directions() {
    let server = Running::start(config());
    let relay = Relay::start(server.port, |_, datagram| match probe(datagram) {
        Some(0 | 7 | 19) => Fate::Drop,
        _ => Fate::Pass,
    });
    let mut session = Session::connect(&through(&relay)).unwrap();
    for outcome in
        [session.send_stream(&steady(20, 200)).unwrap(), session.receive_stream(&steady(20, 200)).unwrap()]
    {
        assert_eq!(lost(&outcome), [0, 7, 19]);
        assert_eq!(outcome.record.gaps(&mut Default::default()), Err(Refusal::Lost));
    }
}

#[test]
fn a_stream_of_which_nothing_arrives_is_a_result() {
    let server = Running::start(config());
    let relay = Relay::start(server.port, |_, datagram| match probe(datagram) {
        Some(_) => Fate::Drop,
        None => Fate::Pass,
    });
    let mut session = Session::connect(&through(&relay)).unwrap();
    assert_eq!(session.send_stream(&steady(20, 50)).unwrap().record.lost(), 20);
    assert_eq!(session.receive_stream(&steady(20, 50)).unwrap().record.lost(), 20);
}

#[test]
fn doubled_and_swapped_packets_are_counted() {
    let server = Running::start(config());
    let relay = Relay::start(server.port, |_, datagram| match probe(datagram) {
        Some(3 | 5) => Fate::Twice,
        Some(10) => Fate::Swap,
        _ => Fate::Pass,
    });
    let mut session = Session::connect(&through(&relay)).unwrap();
    let forward = session.send_stream(&steady(20, 200)).unwrap();
    assert_eq!((lost(&forward), forward.duplicates), (vec![], 2));
    let arrivals = &forward.record.arrivals;
    assert!(arrivals[10].received > arrivals[11].received, "the record shows the swap");
    assert_eq!(forward.record.gaps(&mut Default::default()), Err(Refusal::Reordered));
    let counts = server.handle.counts();
    assert_eq!((counts.datagrams_replayed, counts.datagrams_reordered), (2, 1));
    let reverse = session.receive_stream(&steady(20, 200)).unwrap();
    assert_eq!((lost(&reverse), reverse.duplicates), (vec![], 2));
}

#[test]
fn blocked_udp_is_told_from_a_blocked_answer() {
    let server = Running::start(config());
    let relay =
        Relay::start(server.port, |way, _| if way == Way::ToServer { Fate::Drop } else { Fate::Pass });
    let error = Session::connect(&through(&relay)).err().expect("UDP is blocked");
    assert!(matches!(error, NetError::UdpBlockedForward { .. }), "{error}");

    let relay =
        Relay::start(server.port, |way, _| if way == Way::ToClient { Fate::Drop } else { Fate::Pass });
    let error = Session::connect(&through(&relay)).err().expect("UDP is blocked");
    assert!(matches!(error, NetError::UdpBlockedReverse { .. }), "{error}");
}

#[test]
fn the_largest_packet_that_passes_both_ways_is_found() {
    let server = Running::start(config());
    // 1500 bytes pass in one direction, 1420 in the other, including 28 bytes of IP and UDP headers.
    let relay = Relay::start(server.port, |way, datagram| {
        let mtu = if way == Way::ToServer { 1500 } else { 1420 };
        if datagram.len() + 28 > mtu { Fate::Drop } else { Fate::Pass }
    });
    let session = Session::connect(&through(&relay)).unwrap();
    assert_eq!(session.packet_size(), Bytes::new(1438));

    let relay = Relay::start(
        server.port,
        |_, datagram| {
            if datagram.len() + 28 > 500 { Fate::Drop } else { Fate::Pass }
        },
    );
    let error = Session::connect(&through(&relay)).err().expect("the MTU is too small");
    assert!(matches!(error, NetError::MtuTooSmall { smallest: 576 }), "{error}");
}

#[test]
fn a_lost_connection_is_an_error_and_no_hang() {
    let server = Running::start(config());
    let mut session = Session::connect(&server.options()).unwrap();
    drop(server);
    let error = session.send_stream(&steady(10, 50)).expect_err("the server has gone");
    assert!(matches!(error, NetError::Refused(RefusedBy::Stopping)), "{error}");
    let error = session.send_stream(&steady(10, 50)).expect_err("the server has gone");
    assert!(matches!(error, NetError::ConnectionLost(_)), "{error}");
}

#[test]
fn departure_times_stay_close_to_the_schedule() {
    let server = Running::start(config());
    let mut session = Session::connect(&server.options()).unwrap();
    // On a busy machine a stream may be refused, but it must then report that.
    let kept = (0..200).any(|_| {
        let outcome = session.send_stream(&steady(100, 100)).unwrap();
        assert!(outcome.started > Instant::ZERO);
        outcome.refusal.is_none() && outcome.finished - outcome.started < Duration::from_us(10_400)
    });
    assert!(kept, "200 streams of 10 ms and not one as scheduled");
}
