use headway_core::control::Kind as Controlled;

use super::*;

/// An acknowledgement of all segments below `seq`, with these flags.
fn ack(seq: u64, flags: u8) -> Packet {
    Packet { seq, flags, kind: Kind::Ack, extra: 1_000, ..Packet::default() }
}

/// A host's sender that has sent its first window of ten.
fn sender(ecn: Ecn) -> Sender {
    let config = TcpConfig { ecn, ..TcpConfig::new(Controlled::Reno, Vec::new(), Vec::new()) };
    let mut sender = Sender::new(&config, 0, 0, 1, 1_000_000);
    assert_eq!(std::iter::from_fn(|| sender.poll(0)).count(), 10);
    sender
}

#[test]
fn a_reduction_after_a_mark_lasts_until_something_sent_later_is_acknowledged() {
    let mut sender = sender(Ecn::Classic);
    sender.on_ack(1_000_000, &ack(4, ECE), None);
    assert_eq!((sender.state, sender.high), (State::Reducing, 10));
    while sender.poll(1_000_000).is_some() {}
    sender.on_ack(1_100_000, &ack(10, 0), None);
    assert_eq!(sender.state, State::Reducing);
    while sender.poll(1_100_000).is_some() {}
    sender.on_ack(2_100_000, &ack(11, 0), None);
    assert_eq!(sender.state, State::Open);
}

#[test]
fn an_echo_after_a_reduction_begins_another() {
    let mut sender = sender(Ecn::Dctcp);
    sender.on_ack(1_000_000, &ack(4, ECE), None);
    while sender.poll(1_000_000).is_some() {}
    sender.on_ack(1_100_000, &ack(10, ECE), None);
    assert_eq!(sender.counters.reductions, 1);
    while sender.poll(1_100_000).is_some() {}
    sender.on_ack(2_100_000, &ack(11, ECE), None);
    assert_eq!((sender.state, sender.counters.reductions), (State::Reducing, 2));
}

/// ls-aimd F43: with a window of one segment a mark resets the retransmission timer, and the next segment leaves when that expires.
#[test]
fn a_sender_after_rfc_3168_waits_for_its_timer_when_its_only_segment_is_marked() {
    let config = TcpConfig {
        ecn: Ecn::Classic,
        initial_window: 1,
        ..TcpConfig::new(Controlled::Rfc3168, Vec::new(), Vec::new())
    };
    let mut sender = Sender::new(&config, 0, 0, 1, 1_000_000);
    let mut now = 0;
    for doublings in 0..3 {
        assert_eq!(std::iter::from_fn(|| sender.poll(now)).count(), 1);
        let arrival = Packet { sent: now, ..ack(doublings + 1, ECE) };
        now += 1_000_000;
        sender.on_ack(now, &arrival, None);
        let expiry = now + (sender.rtt().timeout() << doublings);
        assert!(sender.rtt().timeout() > 200_000_000 && sender.poll(expiry - 1).is_none());
        assert_eq!(sender.wake(now), expiry);
        now = expiry;
    }
    assert_eq!(sender.poll(now).map(|segment| segment.has(CWR)), Some(true));
    sender.on_ack(now + 1_000_000, &Packet { sent: now, ..ack(4, 0) }, None);
    assert_eq!(std::iter::from_fn(|| sender.poll(now + 1_000_000)).count(), 2);
    assert_eq!(sender.counters.timeouts, 0);
}
