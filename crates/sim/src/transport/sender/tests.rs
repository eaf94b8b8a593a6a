use headway_control::{FixedWindow, Kind as Controlled};
use headway_units::Bytes;
use proptest::prelude::*;

use super::*;

/// An ACK of all segments below `seq`, with these flags.
fn ack(seq: u64, flags: u8) -> Packet {
    Packet { seq, flags, kind: Kind::Ack, extra: 1_000, ..Packet::default() }
}

/// A host's sender that has sent its initial window of ten.
fn sender(ecn: Ecn) -> Sender {
    let config = TcpConfig { ecn, ..TcpConfig::new(Controlled::Reno, Vec::new(), Vec::new()) };
    let mut sender = Sender::new(&config, (0, 0), 1, 1_000_000, 0);
    assert_eq!(std::iter::from_fn(|| sender.poll(0)).count(), 10);
    sender
}

#[test]
fn a_reduction_after_a_mark_lasts_until_something_sent_later_is_acknowledged() {
    let mut sender = sender(Ecn::Classic);
    sender.on_ack(1_000_000, &ack(4, ECE), None);
    assert_eq!((sender.state, sender.high_seq), (State::Reducing, 10));
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

/// ls-aimd F43: with a window of one segment, a mark resets the retransmission timer, and the next segment
/// leaves when it expires.
#[test]
fn a_sender_after_rfc_3168_waits_for_its_timer_when_its_only_segment_is_marked() {
    let config = TcpConfig {
        ecn: Ecn::Classic,
        initial_window: 1,
        ..TcpConfig::new(Controlled::Rfc3168, Vec::new(), Vec::new())
    };
    let mut sender = Sender::new(&config, (0, 0), 1, 1_000_000, 0);
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

#[test]
fn blocks_of_one_report_are_no_sign_of_reordering_whatever_their_order() {
    for blocks in [[(5, 7), (1, 2), (0, 0)], [(1, 2), (5, 7), (0, 0)]] {
        let mut sender = sender(Ecn::Off);
        sender.on_ack(1_000_000, &ack(0, 0), Some(&Report { window: 1_000, blocks, ..Report::default() }));
        // If reordering had been seen, three SACKed segments above a hole would not be enough.
        assert_eq!(sender.state, State::Recovery, "{blocks:?}");
    }
}

/// When the next timer expires (ns).
fn due(sender: &mut Sender) -> u64 {
    while !sender.is_due(sender.deadline()) {}
    sender.deadline()
}

/// Lets the next timer expire.
fn expire(sender: &mut Sender) -> Option<Packet> {
    let now = due(sender);
    sender.on_timeout(now)
}

/// A SACK block of segments, relative to the cumulative ACK.
fn block(from: u32, to: u32) -> Report {
    Report { window: 1_000, blocks: [(from, to), (0, 0), (0, 0)], ..Report::default() }
}

#[test]
fn what_is_sent_again_is_not_ecn_capable_unless_the_controller_needs_ecn() {
    for (ecn, capable) in [(Ecn::Off, false), (Ecn::Classic, false), (Ecn::Dctcp, true)] {
        let mut sender = sender(ecn);
        sender.on_ack(1_000_000, &ack(0, 0), Some(&block(1, 8)));
        let again = sender.poll(1_000_000).expect("the first segment is lost");
        assert!(again.has(RETRANSMITTED) && again.has(ECT) == capable, "{ecn:?}");
        let fresh = sender.poll(1_000_000).expect("the window has room");
        assert!(!fresh.has(RETRANSMITTED) && fresh.has(ECT) == (ecn != Ecn::Off), "{ecn:?}");
    }
}

#[test]
fn a_probe_of_a_closed_window_is_not_ecn_capable() {
    let mut sender = sender(Ecn::Classic);
    sender.on_ack(1_000_000, &Packet { extra: 0, ..ack(10, 0) }, None);
    sender.wnd_end = 10;
    sender.set_timer(1_000_000, true);
    let probe = expire(&mut sender).expect("the window is closed");
    assert!(probe.has(WINDOW_PROBE) && !probe.has(ECT));
}

#[test]
fn a_retransmission_after_a_timeout_that_is_lost_reduces_once_more() {
    let mut sender = sender(Ecn::Off);
    assert!(expire(&mut sender).is_some(), "a probe of the tail");
    assert!(expire(&mut sender).is_none());
    assert_eq!((sender.state, sender.ssthresh()), (State::Loss, 5.0));
    let first = sender.last_sent;
    let now = due(&mut sender) - 100_000_000;
    // The receive window has no space for new data.
    sender.wnd_end = 11;
    // The first segment is retransmitted, and after its ACK the next two; the first of these is lost.
    assert_eq!(sender.poll(now).map(|segment| segment.seq), Some(0));
    let answer = |seq, sent| Packet { sent, extra: 11 - seq as u32, ..ack(seq, RETRANSMITTED) };
    sender.on_ack(now + 1_000_000, &answer(1, now), None);
    let again: Vec<u64> =
        std::iter::from_fn(|| sender.poll(now + 1_000_000)).map(|segment| segment.seq).collect();
    assert_eq!((again, sender.state), (vec![1, 2], State::Loss));
    sender.on_ack(now + 2_000_000, &answer(1, now + 1_000_000), Some(&block(1, 2)));
    assert_eq!((sender.state, sender.ssthresh(), sender.counters.recoveries), (State::Recovery, 2.0, 1));
    assert!(first < now && sender.poll(now + 2_000_000).is_some_and(|segment| segment.seq == 1));
}

#[test]
fn a_timeout_after_one_that_something_has_come_since_reduces_again() {
    let mut sender = sender(Ecn::Off);
    assert!(expire(&mut sender).is_some(), "a probe of the tail");
    assert!(expire(&mut sender).is_none() && sender.poll(sender.last_sent).is_some());
    assert!(expire(&mut sender).is_none() && sender.poll(sender.last_sent).is_some());
    assert_eq!((sender.counters.timeouts, sender.ssthresh()), (2, 5.0));
    let sent = sender.last_sent;
    sender.on_ack(sent + 1_000_000, &Packet { sent, ..ack(1, RETRANSMITTED) }, None);
    while sender.poll(sent + 1_000_000).is_some() {}
    assert!(expire(&mut sender).is_none());
    assert_eq!((sender.counters.timeouts, sender.ssthresh()), (3, 2.0));
}

#[test]
fn the_retransmission_timer_begins_anew_with_a_probe_of_the_tail() {
    let mut sender = sender(Ecn::Off);
    let probed = due(&mut sender);
    assert!(expire(&mut sender).is_some_and(|probe| probe.seq == 10) && sender.poll(probed).is_none());
    // 201 ms for an RTT of 1 ms.
    assert!(due(&mut sender) >= probed + 201_000_000);
    assert!(expire(&mut sender).is_none() && sender.counters.timeouts == 1);
}

#[test]
fn a_burst_waits_for_the_next_ack_where_the_receive_window_is_what_limits() {
    let mut sender = sender(Ecn::Off);
    sender.wnd_end = 10;
    let window = |seq, extra| Packet { extra, ..ack(seq, 0) };
    // Two segments are less than a third of what the receiver takes, and an ACK is due.
    sender.on_ack(1_000_000, &window(2, 10), None);
    assert_eq!((sender.cwnd(), sender.poll(1_000_000).map(|segment| segment.seq)), (12, None));
    // Four are more.
    sender.on_ack(1_000_000, &window(4, 10), None);
    let burst: Vec<u64> = std::iter::from_fn(|| sender.poll(1_000_000)).map(|segment| segment.seq).collect();
    assert_eq!(burst, [10, 11, 12, 13]);
}

#[test]
fn a_probe_that_retransmits_does_not_count_as_sent_in_a_reduction() {
    let size = Some(Bytes::new(7 * 1448));
    let config =
        TcpConfig { ecn: Ecn::Classic, size, ..TcpConfig::new(Controlled::Reno, Vec::new(), Vec::new()) };
    let mut sender = Sender::new(&config, (0, 0), 1, 1_000_000, 0);
    assert_eq!(std::iter::from_fn(|| sender.poll(0)).count(), 7);
    sender.on_ack(1_000_000, &ack(1, ECE), None);
    assert!(sender.poll(1_000_000).is_none() && sender.ssthresh() == 5.0);
    let sent = due(&mut sender);
    assert!(expire(&mut sender).is_some_and(|probe| probe.seq == 6 && probe.has(RETRANSMITTED)));
    // The probe arrives and shows that the five segments before it are lost. Two segments have been delivered
    // since the mark and none sent, so PRR lets two leave.
    sender.on_ack(sent + 1_000_000, &Packet { sent, ..ack(1, RETRANSMITTED) }, Some(&block(5, 6)));
    let again: Vec<u64> = std::iter::from_fn(|| sender.poll(sent + 1_000_000)).map(|one| one.seq).collect();
    assert_eq!((again, sender.state), (vec![1, 2], State::Recovery));
}

#[test]
fn a_timeout_during_a_reduction_after_a_mark_does_not_reduce_again() {
    let mut sender = sender(Ecn::Classic);
    sender.on_ack(1_000_000, &ack(4, ECE), None);
    while sender.poll(1_000_000).is_some() {}
    assert_eq!((sender.state, sender.ssthresh()), (State::Reducing, 5.0));
    assert!(expire(&mut sender).is_some(), "a probe of the tail");
    assert!(expire(&mut sender).is_none() && sender.counters.timeouts == 1);
    assert_eq!((sender.state, sender.cwnd(), sender.ssthresh()), (State::Loss, 1, 5.0));
}

#[test]
fn after_the_wait_for_overtaken_segments_a_window_that_the_controller_owns_is_cut_at_once() {
    let parameters = headway_control::LsParameters::default();
    let config = TcpConfig::new(Controlled::LsReno(parameters), Vec::new(), Vec::new());
    let mut sender = Sender::new(&config, (0, 0), 1, 1_000_000, 0);
    while sender.poll(0).is_some() {}
    // Two SACKed segments above a hole are not enough.
    sender.on_ack(1_000_000, &ack(0, 0), Some(&block(1, 3)));
    assert_eq!(sender.state, State::Open);
    let before = sender.cwnd();
    sender.on_wake(sender.wake(1_000_000));
    assert_eq!((sender.state, sender.cwnd()), (State::Recovery, sender.controller.flight_limit()));
    assert!(sender.cwnd() < before);
}

#[test]
fn the_smoothed_round_trip_is_that_of_the_oldest_segment_and_the_least_that_of_the_newest() {
    let mut sender = sender(Ecn::Off);
    let stamped = |seq, sent| Packet { sent, ..ack(seq, 0) };
    sender.on_ack(1_000_000, &stamped(2, 0), None);
    while sender.poll(1_000_000).is_some() {}
    assert_eq!(sender.rtt.smoothed(), 1_000_000);
    // The first segments left at 0, those after the tenth at 1 ms.
    sender.on_ack(3_000_000, &stamped(12, 1_000_000), None);
    assert_eq!((sender.rtt.smoothed(), sender.rtt.min()), (1_250_000, 1_000_000));
}

#[test]
fn an_acknowledgement_of_a_retransmission_tells_the_time_in_ticks() {
    let mut sender = sender(Ecn::Off);
    sender.on_ack(1_000_000, &ack(0, 0), Some(&block(1, 5)));
    assert!(sender.poll(1_000_000).is_some_and(|segment| segment.has(RETRANSMITTED)));
    let answer = Packet { sent: 1_000_000, ..ack(5, RETRANSMITTED) };
    sender.on_ack(3_900_000, &answer, None);
    assert_eq!(sender.rtt.smoothed(), 1_000_000 / 8 * 7 + 2_000_000 / 8);
}

/// When the reordering timer expires (ns) of a sender that sent ten segments at `sent` and at `heard`
/// receives SACKs of two above a hole.
fn patience(sent: u64, heard: u64) -> u64 {
    let config = TcpConfig::new(Controlled::Reno, Vec::new(), Vec::new());
    let mut sender = Sender::new(&config, (0, 0), 1, 20_000_000, 0);
    while sender.poll(sent).is_some() {}
    sender.on_ack(heard, &Packet { sent, ..ack(0, 0) }, Some(&block(1, 3)));
    sender.wake(heard)
}

#[test]
fn a_hole_is_waited_for_a_quarter_of_the_least_round_trip_and_two_ticks() {
    // 5 and 2 ms from now, in whole ticks, and up to the next tick.
    assert_eq!(patience(0, 20_000_000), 28_000_000);
    assert_eq!(patience(500_000, 20_700_000), 28_000_000);
    // The RTT was longer; a quarter of the minimum RTT applies all the same.
    assert_eq!(patience(0, 90_300_000), 98_000_000);
}

#[test]
fn a_hole_that_left_earlier_is_waited_for_less() {
    let config = TcpConfig { initial_window: 4, ..TcpConfig::new(Controlled::Reno, Vec::new(), Vec::new()) };
    let mut sender = Sender::new(&config, (0, 0), 1, 40_000_000, 0);
    while sender.poll(0).is_some() {}
    let stamped = |seq, sent| Packet { sent, ..ack(seq, 0) };
    sender.on_ack(40_000_000, &stamped(1, 0), None);
    while sender.poll(40_000_000).is_some() {}
    sender.on_ack(46_000_000, &stamped(2, 0), None);
    while sender.poll(46_000_000).is_some() {}
    assert_eq!(sender.departures.of(4).zip(sender.departures.of(6)), Some((40_000_000, 46_000_000)));
    // The fourth, which left at 40 ms, is missing; the RTT of the last one in order was 80 ms.
    sender.on_ack(80_000_000, &stamped(4, 40_000_000), Some(&block(1, 2)));
    assert_eq!(sender.wake(80_000_000), 133_000_000);
    // One more of those that left 6 ms later is SACKed: 4 of 10 ms remain.
    sender.on_ack(86_000_000, &stamped(4, 46_000_000), Some(&block(1, 3)));
    assert_eq!(sender.wake(86_000_000), 93_000_000);
}

#[test]
fn what_left_before_a_retransmission_that_has_arrived_is_lost_too() {
    let mut sender = sender(Ecn::Off);
    // The first and the last of ten segments are missing.
    sender.on_ack(1_000_000, &ack(0, 0), Some(&block(1, 9)));
    sender.wnd_end = 10;
    assert_eq!(sender.poll(1_000_000).map(|segment| segment.seq), Some(0));
    sender.on_ack(2_000_000, &Packet { sent: 1_000_000, ..ack(9, RETRANSMITTED) }, None);
    assert_eq!(
        sender.poll(2_000_000).map(|segment| (segment.seq, segment.has(RETRANSMITTED))),
        Some((9, true))
    );
}

#[test]
fn a_probe_of_the_tail_leaves_two_round_trips_and_two_ticks_after_the_last_segment() {
    let config = TcpConfig::new(Controlled::Reno, Vec::new(), Vec::new());
    for (sent, leaves) in [(0, 43), (300_000, 43), (999_999, 43)] {
        let mut sender = Sender::new(&config, (0, 0), 1, 20_000_000, 0);
        while sender.poll(sent).is_some() {}
        assert_eq!(due(&mut sender), leaves * 1_000_000);
    }
    let mut sender = Sender::new(&config, (0, 0), 1, 20_100_000, 0);
    while sender.poll(0).is_some() {}
    assert_eq!(due(&mut sender), 44_000_000);
}

#[test]
fn a_connection_that_has_to_ask_twice_has_no_ecn() {
    let start = headway_units::Instant::from_ns(1_000_000_000);
    let config = TcpConfig {
        ecn: Ecn::Dctcp,
        burst: Burst::Host,
        start,
        ..TcpConfig::new(Controlled::Dctcp, Vec::new(), Vec::new())
    };
    let mut sender = Sender::new(&config, (0, 0), 1, 1_000_000, 0);
    let (first, again) = sender.send_syn(sender.begin_at()).expect("the connection is not open");
    let (second, _) = sender.send_syn(again).expect("nothing has come back");
    assert_eq!((first.has(ECT), second.has(ECT)), (true, false));
    sender.on_syn_ack(again + 1_000_000, again);
    assert!(sender.poll(again + 1_000_000).is_some_and(|segment| !segment.has(ECT)));
}

/// A sender of four segments at 0, two at 40 ms and two at 60 ms, of which the first two have arrived.
fn staggered() -> Sender {
    let config = TcpConfig { initial_window: 4, ..TcpConfig::new(Controlled::Reno, Vec::new(), Vec::new()) };
    let mut sender = Sender::new(&config, (0, 0), 1, 40_000_000, 0);
    while sender.poll(0).is_some() {}
    for (seq, now) in [(1, 40_000_000), (2, 60_000_000)] {
        sender.on_ack(now, &ack(seq, 0), None);
        while sender.poll(now).is_some() {}
    }
    assert_eq!([4, 6].map(|segment| sender.departures.of(segment)), [Some(40_000_000), Some(60_000_000)]);
    sender
}

#[test]
fn a_hole_above_an_advance_is_lost_with_the_next_acknowledgement() {
    let mut sender = staggered();
    let stamped = |seq| Packet { sent: 60_000_000, ..ack(seq, 0) };
    // The sixth is missing. By the RTT of the fifth, in order, which left together with it, it is not lost
    // yet; by that of the seventh it is.
    sender.on_ack(81_000_000, &stamped(5), Some(&block(1, 2)));
    assert_eq!(sender.state, State::Open);
    sender.on_ack(82_000_000, &stamped(5), Some(&block(1, 3)));
    assert_eq!(sender.state, State::Recovery);
}

#[test]
fn segments_out_of_order_do_not_make_a_window_grow() {
    let mut sender = staggered();
    let window = sender.window();
    sender.on_ack(80_000_000, &ack(2, 0), Some(&block(1, 2)));
    assert_eq!((sender.state, sender.window()), (State::Open, window));
    sender.on_ack(80_000_000, &ack(4, 0), None);
    assert_eq!(sender.window(), window + 1.0);
}

/// A sender whose initial window of ten was lost until the RTO, and whose retransmission
/// has been acknowledged.
fn after_timeout(limit: u64) -> Sender {
    let mut sender = sender(Ecn::Off);
    sender.wnd_end = limit;
    sender.tlp.end();
    assert!(expire(&mut sender).is_none() && sender.counters.timeouts == 1);
    assert!(sender.poll(300_000_000).is_some_and(|segment| segment.seq == 0 && segment.has(RETRANSMITTED)));
    let arrived = Packet { sent: 300_000_000, extra: limit as u32 - 1, ..ack(1, RETRANSMITTED) };
    sender.on_ack(301_000_000, &arrived, None);
    sender
}

/// The segments that leave now, and whether they are retransmissions.
fn sent(sender: &mut Sender, now: u64) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| sender.poll(now)).map(|segment| (segment.seq, segment.has(RETRANSMITTED))).collect()
}

#[test]
fn after_a_timeout_new_data_tell_whether_the_flight_was_lost() {
    let mut lost = after_timeout(100);
    assert_eq!(sent(&mut lost, 301_000_000), [(10, false), (11, false)]);
    lost.on_ack(302_000_000, &Packet { sent: 301_000_000, ..ack(1, 0) }, Some(&block(9, 10)));
    assert_eq!(sent(&mut lost, 302_000_000), [(1, true)]);

    let mut late = after_timeout(100);
    assert_eq!(sent(&mut late, 301_000_000), [(10, false), (11, false)]);
    late.on_ack(302_000_000, &Packet { sent: 300_000_000, ..ack(1, 0) }, Some(&block(1, 2)));
    assert_eq!((late.state, late.counters.undone, late.window()), (State::Open, 1, 10.0));
}

#[test]
fn after_a_timeout_without_new_data_the_flight_is_sent_again_at_once() {
    assert_eq!(sent(&mut after_timeout(10), 301_000_000), [(1, true), (2, true)]);
}

/// Returns a host's sender with ten segments in flight, of which two are acknowledged with a
/// window of `window` more.
fn shrunk(window: u32) -> Sender {
    let mut sender = sender(Ecn::Off);
    sender.on_ack(1_000_000, &Packet { extra: window, ..ack(2, 0) }, None);
    sender
}

#[test]
fn a_window_shrinks_with_what_is_acknowledged_and_grows_with_what_is_not() {
    let mut sender = shrunk(3);
    assert_eq!((sender.wnd_end, sender.next), (5, 10));
    assert!(sender.poll(1_000_000).is_none());
    sender.on_ack(1_100_000, &Packet { extra: 2, ..ack(2, 0) }, None);
    assert_eq!(sender.wnd_end, 5, "an ACK with the same number takes nothing back");
    sender.on_ack(1_200_000, &Packet { extra: 9, ..ack(2, 0) }, None);
    assert_eq!(sender.wnd_end, 11);
    assert_eq!(sent(&mut sender, 1_200_000), [(10, false)]);
    // In order, also while something is missing.
    sender.on_ack(1_300_000, &ack(4, 0), Some(&Report { window: 1, ..block(2, 4) }));
    assert_eq!(sender.wnd_end, 5);
}

#[test]
fn what_is_lost_beyond_a_window_that_shrank_waits_for_it() {
    for (window, again) in [(2, vec![2, 3]), (0, vec![2])] {
        let mut sender = shrunk(window);
        // Segments 2 to 4 are missing, and later ones have arrived.
        sender.on_ack(1_500_000, &ack(2, 0), Some(&Report { window: 0, ..block(3, 8) }));
        let numbers: Vec<u64> = sent(&mut sender, 1_500_000).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(numbers, again, "window {window}");
    }
}

#[test]
fn a_probe_of_the_tail_beyond_a_window_that_shrank_is_left_to_the_timer() {
    let mut sender = shrunk(3);
    assert!(sender.poll(1_000_000).is_none());
    let sent_before = sender.counters.sent;
    assert!(expire(&mut sender).is_none());
    assert_eq!((sender.counters.sent, sender.counters.timeouts), (sent_before, 0));
    assert!(expire(&mut sender).is_none());
    assert_eq!(sender.counters.timeouts, 1);
    let now = 1_000_000_000;
    assert_eq!(sender.poll(now).map(|segment| segment.seq), Some(2));
}

#[test]
fn a_segment_that_came_twice_lets_another_leave_in_recovery() {
    let mut sender = sender(Ecn::Off);
    sender.on_ack(1_000_000, &ack(0, 0), Some(&block(1, 5)));
    assert_eq!(sent(&mut sender, 1_000_000), [(0, true)]);
    sender.on_ack(1_100_000, &ack(0, DUPLICATE), Some(&block(1, 5)));
    assert_eq!(sent(&mut sender, 1_100_000).len(), 1);
}

proptest! {
    /// [`Sender::on_expected_ack`] does what [`Sender::on_any_ack`] would do, in whatever state it is taken.
    #[test]
    fn the_fast_path_of_an_ack_is_the_slow_path(
        kind in prop::sample::select(vec![
            Controlled::Reno,
            Controlled::Cubic,
            Controlled::Dctcp,
            Controlled::LsReno(Default::default()),
            Controlled::FixedWindow(FixedWindow::new(20)),
        ]),
        burst in prop::sample::select(vec![Burst::Host, Burst::Single]),
        size in prop::option::of(1u64..400_000),
        steps in prop::collection::vec((1u64..4_000_000, 0u64..6, 0u8..20, 0u64..8), 1..200),
    ) {
        let ecn = if kind == Controlled::Dctcp { Ecn::Dctcp } else { Ecn::Off };
        let size = size.map(Bytes::new);
        let config = TcpConfig { burst, ecn, size, ..TcpConfig::new(kind, Vec::new(), Vec::new()) };
        let mut senders = [0, 1].map(|_| Sender::new(&config, (0, 0), 1, 0, 0));
        let mut now = 0;
        for (pause, acked, event, lag) in steps {
            now += pause;
            let [fast, slow] = &mut senders;
            for sender in [&mut *fast, &mut *slow] {
                if sender.is_due(now) {
                    sender.on_timeout(now);
                }
                sender.on_wake(now);
                while sender.poll(now).is_some() {}
            }
            let flags = match event {
                0 => ECE,
                1 => DUPLICATE,
                2 => RETRANSMITTED,
                _ => 0,
            };
            let seq = (fast.una + acked).min(fast.next);
            let sent = fast.last_sent.saturating_sub(lag * 500_000);
            let arrival = Packet { sent, ..ack(seq, flags) };
            let report = (event == 3 && seq + 2 < fast.next).then(|| block(1, 2));
            fast.on_ack(now, &arrival, report.as_ref());
            slow.on_any_ack(now, &arrival, report.as_ref());
            prop_assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
        }
    }
}
