//! RTTs of established connections, from timestamps.

use headway_arithmetic::flow::{Flow, Packet, Times, flag};

use crate::support::{CLIENT, Handshake, LAN, MS, SERVER, Segment, WAN, stamps};

/// Of the end on the LAN, and of the other one.
const LEAST: [u64; 2] = [4, 36];

/// A connection whose handshake took 20 + 200 ms: at the middlebox at 1000, 1200 and 1220 ms.
fn flow() -> Flow {
    Handshake::new(7, 7).at([1000, 1200, 1220]).unwrap()
}

/// A segment of the client or the server with a timestamp and an echo.
fn segment(from_client: bool, stamp: u32, echo: u32) -> Packet {
    let (source, destination, side) = if from_client { (CLIENT, SERVER, LAN) } else { (SERVER, CLIENT, WAN) };
    let segment = Segment::new(source, destination, flag::ACK).with_options(&stamps([stamp, echo]));
    let (sequence, acknowledgement) = if from_client { (1001, 7001) } else { (7001, 1001) };
    Segment { sequence, acknowledgement, ..segment }.read(side)
}

/// In periods of 5 s.
fn pass(flow: &mut Flow, packet: &Packet, ms: u64) {
    flow.on_segment(packet, ms * MS);
    flow.follow_rtt(packet, (ms / 5_000) as u32, ms * MS);
}

/// The RTT in ms, to 256 ns for each of two parts.
fn rtt(flow: &Flow) -> u64 {
    (flow.rtt().unwrap() + MS / 2) / MS
}

/// Both ends answer from `begin` on for `count` rounds of 50 ms, the client after `wait[0]`, the
/// server after `wait[1]`.
fn converse(flow: &mut Flow, begin: u64, count: u64, wait: [u64; 2]) {
    for now in (0..count).map(|round| begin + 50 * round) {
        let server = now as u32;
        pass(flow, &segment(false, server, (now - 50 + wait[0]) as u32), now);
        let client = (now + wait[0]) as u32;
        pass(flow, &segment(true, client, server), now + wait[0]);
        pass(flow, &segment(false, server, client), now + wait[0] + wait[1]);
    }
}

#[test]
fn what_arrived_beyond_the_acknowledgement_is_read_behind_timestamps() {
    let sacked = |acknowledgement: u32, blocks: &[[u32; 2]]| {
        let mut options = [stamps([1, 2]), vec![1, 1, 5, 2 + 8 * blocks.len() as u8]].concat();
        options.extend(blocks.iter().flatten().flat_map(|edge| edge.to_be_bytes()));
        let mut segment = Segment::new(SERVER, CLIENT, flag::ACK).with_options(&options);
        segment.acknowledgement = acknowledgement;
        segment.read(WAN).sacked
    };
    assert_eq!(sacked(1_000, &[[3_000, 4_448], [7_000, 9_000], [1_500, 1_600]]), 1_448 + 2_000 + 100);
    // Numbers wrap, and what was received twice lies before (RFC 2883).
    assert_eq!(sacked(u32::MAX - 9, &[[5, 25]]), 20);
    assert_eq!(sacked(1_000, &[[0, 500], [2_000, 2_100]]), 100);
    // The wrong way round; without timestamps; and as it is without any.
    assert_eq!(sacked(1_000, &[[4_000, 3_000]]), 0);
    let plain = Segment::new(SERVER, CLIENT, flag::ACK);
    let alone =
        [vec![1, 1, 5, 10], 3_000_u32.to_be_bytes().to_vec(), 4_000_u32.to_be_bytes().to_vec()].concat();
    assert_eq!(plain.clone().with_options(&alone).read(WAN).sacked, 0);
    assert_eq!(plain.with_options(&stamps([1, 2])).read(WAN).sacked, 0);
}

#[test]
fn timestamps_are_read_where_options_begin_with_them() {
    assert_eq!(segment(true, 7, 0xffff_fffe).timestamps(), Some([7, 0xffff_fffe]));
    let mut other = stamps([1, 2]);
    other.rotate_left(2);
    let plain = Segment::new(CLIENT, SERVER, flag::ACK);
    assert_eq!(plain.clone().with_options(&other).read(LAN).timestamps(), None);
    assert_eq!(plain.read(LAN).timestamps(), None);
    // Behind them there may be blocks of SACK.
    let sack = [stamps([1, 2]), vec![1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]].concat();
    assert_eq!(
        Segment::new(CLIENT, SERVER, flag::ACK).with_options(&sack).read(LAN).timestamps(),
        Some([1, 2])
    );
}

#[test]
fn a_handshake_in_a_full_queue_is_forgotten_when_the_queue_is_gone() {
    let mut flow = flow();
    assert_eq!(rtt(&flow), 220);
    converse(&mut flow, 1300, 4, LEAST);
    assert_eq!(rtt(&flow), LEAST[0] + LEAST[1]);
}

#[test]
fn a_path_that_becomes_longer_is_followed_within_two_periods() {
    let mut flow = flow();
    converse(&mut flow, 1300, 4, LEAST);
    converse(&mut flow, 1500, 60, [4, 45]);
    assert_eq!(rtt(&flow), 40);
    // 10 s after the last RTT of the short path.
    converse(&mut flow, 4500, 200, [4, 45]);
    assert_eq!(rtt(&flow), 49);
}

#[test]
fn a_silent_connection_keeps_its_rtt() {
    let mut flow = flow();
    converse(&mut flow, 1300, 4, LEAST);
    // A minute later the server thinks for 9 s, once.
    pass(&mut flow, &segment(true, 61_000, 1450), 61_000);
    pass(&mut flow, &segment(false, 70_000, 61_000), 70_000);
    assert_eq!(rtt(&flow), 40);
}

#[test]
fn only_the_first_segment_with_a_timestamp_is_waited_for() {
    let mut flow = flow();
    pass(&mut flow, &segment(false, 500, 1), 1300);
    // The echo of the first is that of the second, too, which passed just now.
    pass(&mut flow, &segment(false, 501, 1), 1310);
    pass(&mut flow, &segment(false, 501, 1), 1330);
    pass(&mut flow, &segment(true, 2, 501), 1331);
    assert_eq!(rtt(&flow), 220);
    pass(&mut flow, &segment(false, 502, 1), 1340);
    pass(&mut flow, &segment(true, 3, 501), 1341);
    pass(&mut flow, &segment(true, 3, 502), 1345);
    // The mean of 31 and 5 ms.
    assert_eq!(rtt(&flow), 200 + (21 + 5) / 2);
}

#[test]
fn timestamps_wrap_and_echoes_of_what_was_never_sent_are_none() {
    let mut flow = flow();
    let near_the_end = u32::MAX - 1;
    pass(&mut flow, &segment(false, near_the_end - 1, 1), 1290);
    pass(&mut flow, &segment(false, near_the_end, 1), 1300);
    pass(&mut flow, &segment(false, near_the_end.wrapping_add(3), 1), 1302);
    // Ahead of the newest, and of one who does not know the sequence number.
    pass(&mut flow, &segment(true, 5, near_the_end.wrapping_add(4)), 1303);
    let mut forged = segment(true, 5, near_the_end);
    forged.sequence = forged.sequence.wrapping_add(1 << 30);
    pass(&mut flow, &forged, 1303);
    assert_eq!(rtt(&flow), 220);
    pass(&mut flow, &segment(true, 6, 1), 1307);
    assert_eq!(rtt(&flow), 207);
}

#[test]
fn a_repeated_handshake_gives_no_parts() {
    let handshake = Handshake::new(7, 7);
    let mut half = headway_arithmetic::flow::Half::begin(&handshake.syn.read(LAN), 0).unwrap();
    half.on_syn(&handshake.syn.read(LAN), 1000 * MS);
    half.on_answer(&handshake.answer.read(WAN), 1030 * MS);
    let mut flow = half.on_third(&handshake.third.read(LAN), 1034 * MS, 0).unwrap();
    assert_eq!(rtt(&flow), 1034);
    // One end is known, then both.
    pass(&mut flow, &segment(false, 500, 1), 1290);
    pass(&mut flow, &segment(false, 501, 1), 1300);
    pass(&mut flow, &segment(true, 2, 501), 1304);
    assert_eq!(rtt(&flow), 1034);
    converse(&mut flow, 1400, 2, LEAST);
    assert_eq!(rtt(&flow), 40);
}

/// The mean RTT since an earlier look, and that without a queue, in ms.
fn delays(flow: &Flow, before: &Times) -> Option<[u64; 2]> {
    flow.delays(before).map(|delays| [delays.rtt, delays.least].map(|rtt| (rtt + MS / 2) / MS))
}

#[test]
fn a_mean_is_of_the_time_between_two_looks() {
    let mut flow = flow();
    converse(&mut flow, 1300, 40, LEAST);
    let before = flow.times();
    assert_eq!(delays(&flow, &before), None, "nothing was measured since");
    converse(&mut flow, 3300, 18, [4, 60]);
    assert_eq!(delays(&flow, &before), Some([64, 40]));
}

#[test]
fn what_jitter_spares_now_and_then_is_not_the_least() {
    let mut flow = flow();
    // Every fourth answer comes at once.
    for round in 0..40 {
        converse(&mut flow, 1300 + 50 * round, 1, [4, if round % 4 == 0 { 6 } else { 36 }]);
    }
    assert_eq!(rtt(&flow), 32);
}

/// By how much the clock of the server is ahead, in ms; it wraps within the first second.
const AHEAD: u32 = u32::MAX - 2_000;

/// The clock of the server at a time in ms, which counts what lasts `tick` ms.
fn server(at: u64, tick: u64) -> u32 {
    AHEAD.wrapping_add((at / tick) as u32)
}

/// A connection to a server that is 16 ms away in each direction, and whose SYN-ACK has a timestamp.
fn stamped_flow(tick: u64) -> Flow {
    let mut handshake = Handshake::new(7, 7);
    handshake.answer.options.extend(stamps([server(1216, tick), 1200]));
    handshake.at([1200, 1232, 1234]).unwrap()
}

/// Both ends talk from `begin` on for `count` rounds of 100 ms, with these queues in the directions.
fn talk(flow: &mut Flow, begin: u64, count: u64, queues: [u64; 2], tick: u64) {
    for now in (0..count).map(|round| begin + 100 * round) {
        let there = now + 16 + queues[1];
        let back = there + 16 + queues[0];
        pass(flow, &segment(true, now as u32, server(now - 40, tick)), now);
        pass(flow, &segment(false, server(there, tick), now as u32), back);
        pass(flow, &segment(true, now as u32, server(there, tick)), back + 2);
    }
}

/// The queues towards both sides since an earlier look, in ms.
fn queues(flow: &Flow, before: &Times) -> Option<[u64; 2]> {
    flow.delays(before)?.queues.map(|queues| queues.map(|queue| (queue + MS / 2) / MS))
}

#[test]
fn timestamps_tell_which_direction_has_a_queue() {
    for queued in [[0, 0], [30, 0], [0, 30], [20, 45]] {
        let mut flow = stamped_flow(1);
        let before = flow.times();
        // It is there from the first segment on, and nothing was known before.
        assert_eq!(queues(&flow, &before), None);
        talk(&mut flow, 1300, 30, queued, 1);
        assert_eq!(queues(&flow, &before), Some(queued));
        let before = flow.times();
        talk(&mut flow, 4300, 30, [0, 0], 1);
        assert_eq!(queues(&flow, &before), Some([0, 0]));
        // Nothing is known of a connection that is silent.
        assert_eq!(queues(&flow, &flow.times()), None);
    }
}

#[test]
fn a_connection_that_begins_in_a_later_period_knows_the_delays_of_its_handshake() {
    let mut flow = stamped_flow(1);
    let before = flow.times();
    // Data comes before anything is echoed.
    let later = |packet: &Packet, flow: &mut Flow, ms: u64| {
        flow.on_segment(packet, ms * MS);
        flow.follow_rtt(packet, 7, ms * MS);
    };
    for ms in (1300..4300).step_by(20) {
        let there = ms + 16;
        later(&segment(true, ms as u32, server(ms - 40, 1)), &mut flow, ms);
        later(&segment(false, server(ms - 10, 1), 1), &mut flow, ms + 36);
        later(&segment(false, server(there, 1), ms as u32), &mut flow, there + 46);
    }
    assert_eq!(queues(&flow, &before), Some([30, 0]));
}

#[test]
fn whoever_does_not_know_the_sequence_number_tells_no_delay() {
    let mut flow = stamped_flow(1);
    let before = flow.times();
    talk(&mut flow, 1300, 15, [0, 0], 1);
    for ms in 0..100 {
        let mut forged = segment(false, server(2900, 1) + ms, 1);
        forged.sequence = forged.sequence.wrapping_add(1 << 30);
        pass(&mut flow, &forged, 2780);
    }
    talk(&mut flow, 2900, 15, [0, 0], 1);
    assert_eq!(queues(&flow, &before), Some([0, 0]));
}

#[test]
fn where_the_handshake_tells_nothing_delays_are_known_after_a_period() {
    let mut flow = flow();
    let before = flow.times();
    talk(&mut flow, 1300, 20, [0, 0], 1);
    assert_eq!(queues(&flow, &before), None);
    // The queue is in one direction, then in the other one, and the RTT stays.
    let before = flow.times();
    talk(&mut flow, 5300, 30, [30, 0], 1);
    assert_eq!(queues(&flow, &before), Some([30, 0]));
    let before = flow.times();
    talk(&mut flow, 8300, 15, [0, 30], 1);
    assert_eq!(queues(&flow, &before), Some([0, 30]));
}

#[test]
fn timestamps_of_other_clocks_tell_nothing() {
    // Four and ten milliseconds, as old systems have them.
    for tick in [4, 10] {
        let mut flow = stamped_flow(tick);
        let before = flow.times();
        talk(&mut flow, 1300, 30, [30, 0], tick);
        assert_eq!(queues(&flow, &before), None, "{tick}");
    }
}
