use headway_control::Kind as Controller;

use crate::config::Burst;

use super::*;

/// Which of these segments, given by their flags, are acknowledged immediately after quickack mode.
fn acknowledged<const N: usize>(ecn: Ecn, flags: [u8; N]) -> [bool; N] {
    let config = TcpConfig { ecn, ..TcpConfig::new(Controller::Dctcp, Vec::new(), Vec::new()) };
    let mut receiver = Receiver::new(&config, 0, 0, 0);
    receiver.quickack = 0;
    let mut seq = 0;
    flags.map(|flags| {
        let segment = Packet { seq, flags, kind: Kind::Segment, ..Packet::default() };
        seq += 1;
        receiver.before(0, &segment);
        receiver.on_segment(0, &segment).is_some()
    })
}

#[test]
fn every_second_segment_is_acknowledged() {
    assert_eq!(acknowledged(Ecn::Off, [0; 4]), [false, true, false, true]);
}

#[test]
fn a_change_of_marks_is_acknowledged_at_once() {
    let marks = acknowledged(Ecn::Dctcp, [0, CE, CE, CE, CE, 0]);
    assert_eq!(marks, [false, true, false, true, false, true]);
}

#[test]
fn a_mark_that_is_news_begins_quick_mode_for_two() {
    assert_eq!(acknowledged(Ecn::Classic, [0, CE, CE, CE, CE]), [false, true, true, false, true]);
}

#[test]
fn the_word_of_a_reduction_is_acknowledged_at_once() {
    assert_eq!(acknowledged(Ecn::Classic, [CWR, 0, 0, CWR]), [true, false, true, true]);
}

/// A receiver behind a path of 10 ms whose window has grown.
fn grown() -> Receiver {
    let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
    let mut receiver = Receiver::new(&config, 0, 0, 10_000_000);
    receiver.quickack = 0;
    receiver
}

#[test]
fn segments_out_of_order_share_acknowledgements_after_three() {
    let mut receiver = grown();
    let mut at = |now, seq| receiver.on_segment(now, &Packet { seq, ..Packet::default() }).is_some();
    let prompt: Vec<bool> = (1..6).map(|seq| at(0, seq)).collect();
    assert_eq!(prompt, [true, true, true, false, false]);
    // After RTT/20, and then by the timer.
    assert!(!at(499_999, 6) && at(500_000, 7) && !at(600_000, 8));
    assert_eq!(receiver.deadline(), 600_000 + 500_000 + COMPRESSION_SLACK);
    // A segment that fills the hole is acknowledged immediately.
    assert!(receiver.on_segment(700_000, &Packet::default()).is_some_and(|ack| ack.seq == 9));
    assert_eq!(receiver.deadline(), u64::MAX);
}

#[test]
fn every_segment_is_acknowledged_while_the_window_grows() {
    let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
    let mut receiver = Receiver::new(&config, 0, 0, 10_000_000);
    let segments = config.receive_buffer.get() / u64::from(config.mss);
    let at_once = |seq| receiver.on_segment(0, &Packet { seq, ..Packet::default() }).is_some();
    let count = (0..segments).map(at_once).take_while(|at_once| *at_once).count() as u64;
    // The window grows by a fifth.
    assert!(count.abs_diff(segments / 10) <= segments / 300, "{count} of {segments}");
}

#[test]
fn segments_with_congestion_headers_are_acknowledged_at_once_at_the_start_too() {
    let kind: Controller = "xcp".parse().unwrap();
    for burst in [Burst::Host, Burst::Single] {
        let config = TcpConfig { burst, ..TcpConfig::new(kind, Vec::new(), Vec::new()) };
        let mut receiver = Receiver::new(&config, 0, 0, 10_000_000);
        let mut at_once = |seq| receiver.on_segment(0, &Packet { seq, ..Packet::default() }).is_some();
        assert!((0..1_000).all(&mut at_once));
    }
}

#[test]
fn a_small_window_is_acknowledged_at_once_for_half_of_it() {
    // Linux's tcp_incr_quickack: the window by two segments, 16 at most, and 2 if that is 0. A
    // textbook's window stays.
    for (segments, at_once) in [(1, 2), (2, 1), (3, 1), (8, 4), (31, 15), (32, 16), (1_000, 16)] {
        let receive_buffer = headway_units::Bytes::new(segments * 1448);
        let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
        let config = TcpConfig { receive_buffer, burst: Burst::Single, ..config };
        let mut receiver = Receiver::new(&config, 0, 0, 10_000_000);
        let mut acknowledges = |seq| receiver.on_segment(0, &Packet { seq, ..Packet::default() }).is_some();
        assert_eq!((0..100).take_while(|seq| acknowledges(*seq)).count(), at_once, "{segments}");
    }
}

#[test]
fn late_first_copies_are_refused_after_a_retransmission() {
    let mut receiver = grown();
    let mut at = |seq, sent_ms: u64| {
        let segment = Packet { seq, sent: sent_ms * 1_000_000, ..Packet::default() };
        receiver.on_segment(60_000_000, &segment).map(|ack| (ack.seq, ack.has(DUPLICATE)))
    };
    // Segments 0 and 1 are in order, 3 is out of order, and 1 is a duplicate.
    assert_eq!(
        [at(0, 1), at(1, 1), at(3, 2), at(1, 9)],
        [None, Some((2, false)), Some((2, false)), Some((2, true))]
    );
    // Segment 2 left before the retransmission, by two ticks and by one.
    assert_eq!(at(2, 7), Some((2, false)));
    assert_eq!(at(2, 8), Some((4, false)));
}

#[test]
fn after_a_silence_every_segment_is_acknowledged() {
    let mut receiver = grown();
    let mut at = |now, seq| receiver.on_segment(now, &Packet { seq, ..Packet::default() }).is_some();
    assert!(!at(0, 0) && at(1_000_000, 1) && !at(200_000_000, 2));
    // Longer than an RTT of 10 ms and 200 ms.
    assert!(at(410_000_001, 3) && at(410_000_001, 4));
}

/// A segment of 1448 bytes takes 2408 of memory, of which there is twice the buffer, and 1448/2408 of memory
/// is window, in 256ths; one segment is unread (Linux's `tcp_measure_rcv_mss` and `tcp_space`).
#[test]
fn the_window_of_a_host_is_what_its_memory_holds_beside_one_segment() {
    let windows = |bytes: u64| {
        let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
        let config = TcpConfig { receive_buffer: headway_units::Bytes::new(bytes), ..config };
        let ReceiveWindow { initial, max, .. } = ReceiveWindow::new(&config);
        (initial, max)
    };
    for bytes in (4_400..65_536).step_by(97) {
        let share = 1448 * 256 / 2408;
        // Below 64 KiB the unit of the window is a byte.
        let window = ((2 * bytes - 2408) * share / 256).min(65_535);
        assert_eq!(windows(bytes), (bytes / 1448, window / 1448), "{bytes}");
    }
    // As advertised by Linux in virtual time. In the last line the window is advertised
    // when nothing is unread.
    assert_eq!([65_536, 30_000, 12_000].map(windows), [(45, 53), (20, 23), (8, 8)]);
    assert_eq!([8_192, 7_240, 6_000, 5_000].map(windows), [(5, 5), (5, 4), (4, 3), (3, 3)]);
    assert_eq!([4_344, 2_896, 2_600, 1_000].map(windows), [(3, 2), (2, 2), (1, 1), (1, 1)]);
}

/// Linux's `tcp_cleanup_rbuf`: half of two segments is one.
#[test]
fn a_host_acknowledges_when_half_of_its_window_is_used() {
    for (bytes, acknowledged) in [(2_896, 8), (4_700, 8), (6_000, 4), (12_000, 4)] {
        let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
        let config = TcpConfig { receive_buffer: headway_units::Bytes::new(bytes), ..config };
        let mut receiver = Receiver::new(&config, 0, 0, 10_000_000);
        receiver.quickack = 0;
        let acknowledges = |seq| receiver.on_segment(0, &Packet { seq, ..Packet::default() }).is_some();
        assert_eq!((0..8).map(acknowledges).filter(|at_once| *at_once).count(), acknowledged, "{bytes}");
    }
}

/// A host's receiver on a path of 20 ms that has received these segments out of order and compressed all ACKs
/// but the first three.
fn out_of_order<const N: usize>(segments: [u64; N]) -> Receiver {
    let config = TcpConfig { burst: Burst::Host, ..TcpConfig::new(Controller::Reno, Vec::new(), Vec::new()) };
    let mut receiver = Receiver::new(&config, 0, 0, 20_000_000);
    receiver.quickack = 0;
    for seq in segments {
        let segment = Packet { seq, kind: Kind::Segment, ..Packet::default() };
        assert!(receiver.before(0, &segment).is_none());
        receiver.on_segment(0, &segment);
    }
    receiver
}

#[test]
fn a_range_that_was_pushed_out_of_the_report_is_not_reported_again() {
    let mut receiver = out_of_order([2, 4, 6]);
    for seq in [8, 10, 3] {
        let segment = Packet { seq, kind: Kind::Segment, ..Packet::default() };
        receiver.before(0, &segment);
        receiver.on_segment(0, &segment);
    }
    let ack = receiver.on_timer(1_000_000).expect("nothing reads slowly");
    assert_eq!(receiver.report(0, &ack).blocks, [(3, 5), (10, 11), (8, 9)]);
}

#[test]
fn what_waits_is_told_before_a_third_block_pushes_it_out() {
    let mut receiver = out_of_order([2, 3, 4, 5, 7]);
    let third = Packet { seq: 9, kind: Kind::Segment, ..Packet::default() };
    let ack = receiver.before(0, &third).expect("5 and 7 wait");
    assert_eq!(receiver.report(0, &ack).blocks, [(7, 8), (2, 6), (0, 0)]);
    assert!(receiver.on_segment(0, &third).is_none());
}
