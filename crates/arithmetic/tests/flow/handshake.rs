//! Handshakes, and what ends a connection.

use headway_arithmetic::flow::{Flow, HALF_OPEN, Half, NEAR, Packet, flag};

use crate::support::{CLIENT, Handshake, LAN, MS, SERVER, Segment, WAN, scaled};

fn ends(flow: &Flow) -> (usize, usize) {
    (flow.client(), 1 - flow.client())
}

/// A handshake whose SYN and SYN-ACK arrived at these times in ms.
fn answered(handshake: &Handshake, asks: &[u64], answers: &[u64]) -> Half {
    let syn = handshake.syn.read(LAN);
    let mut half = Half::begin(&syn, asks[0] * MS).unwrap();
    asks[1..].iter().for_each(|time| half.on_syn(&syn, time * MS));
    for time in answers {
        assert!(half.on_answer(&handshake.answer.read(WAN), time * MS));
    }
    half
}

fn rtt(handshake: &Handshake, half: &Half, now: u64, previous: u64) -> Option<u64> {
    let flow = half.on_third(&handshake.third.read(LAN), now * MS, previous * MS).unwrap();
    flow.rtt().map(|rtt| rtt / MS)
}

#[test]
fn three_segments_give_rtt_and_both_scales() {
    // wan 2.1, F2: the RTT is that of the whole loop, wherever the middlebox is.
    for middle in [1, 30, 59] {
        let flow = Handshake::new(7, 9).at([100, 100 + middle, 160]).unwrap();
        let (client, server) = ends(&flow);
        assert_eq!((flow.rtt(), flow.seen(), flow.is_ambiguous()), (Some(60 * MS), 160 * MS, false));
        assert_eq!((flow.scale(client), flow.scale(server), flow.segment()), (Some(7), Some(9), 1460));
    }
    // A loop without any delay is no unknown one.
    assert_eq!(Handshake::new(7, 9).at([5, 5, 5]).unwrap().rtt(), Some(1));
}

#[test]
fn without_a_scale_of_both_ends_there_is_none() {
    for (client, server) in [(false, true), (true, false), (false, false)] {
        let mut handshake = Handshake::new(7, 7);
        handshake.syn = handshake.syn.with_options(&if client { scaled(7) } else { Vec::new() });
        handshake.answer = handshake.answer.with_options(&if server { scaled(7) } else { Vec::new() });
        let mut flow = handshake.at([0, 10, 20]).unwrap();
        assert_eq!((flow.scale(0), flow.scale(1), flow.rtt()), (None, None, Some(20 * MS)));
        assert_eq!(flow.window(&handshake.third.read(LAN), 1, false), 65_535);
    }
}

#[test]
fn of_a_repeated_syn_the_larger_rtt_counts_unless_an_earlier_one_says_otherwise() {
    let handshake = Handshake::new(7, 7);
    let half = answered(&handshake, &[0, 1000], &[1040]);
    // wan 2.1: without an estimate the larger candidate; with one that the answer keeps to, the latest SYN.
    assert_eq!(rtt(&handshake, &half, 1060, 0), Some(1060));
    assert_eq!(rtt(&handshake, &half, 1060, 39), Some(1060));
    assert_eq!(rtt(&handshake, &half, 1060, 40), Some(60));
    assert!(half.on_third(&handshake.third.read(LAN), 1060 * MS, 0).unwrap().is_ambiguous());
    // The same for the other half of the loop.
    let half = answered(&handshake, &[0], &[40, 1040]);
    assert_eq!(rtt(&handshake, &half, 1060, 0), Some(1060));
    assert_eq!(rtt(&handshake, &half, 1060, 50), Some(60));
    // A SYN that is repeated after the answer says nothing.
    let mut half = answered(&handshake, &[0], &[40]);
    half.on_syn(&handshake.syn.read(LAN), 50 * MS);
    assert_eq!(rtt(&handshake, &half, 60, 0), Some(60));
}

#[test]
fn an_end_that_says_two_scales_has_none() {
    let handshake = Handshake::new(7, 7);
    let mut half = Half::begin(&handshake.syn.read(LAN), 0).unwrap();
    half.on_syn(&Segment::syn().with_options(&scaled(8)).read(LAN), MS);
    assert!(half.on_answer(&handshake.answer.read(WAN), 2 * MS));
    let flow = half.on_third(&handshake.third.read(LAN), 3 * MS, 0).unwrap();
    assert_eq!((flow.scale(0), flow.scale(1)), (None, None));
}

#[test]
fn what_does_not_belong_to_a_handshake_changes_nothing() {
    let handshake = Handshake::new(7, 7);
    let half = Half::begin(&handshake.syn.read(LAN), 0).unwrap();
    let mut refused = Vec::new();
    for acknowledgement in [1000, 1002, 0] {
        refused.push((Segment { acknowledgement, ..handshake.answer.clone() }.read(WAN), 10 * MS));
    }
    // From the same side, from the client itself, too late, and before the SYN.
    refused.push((handshake.answer.read(LAN), 10 * MS));
    refused
        .push((Segment { acknowledgement: 1001, ..Segment::new(CLIENT, SERVER, 0x12) }.read(WAN), 10 * MS));
    refused.push((handshake.answer.read(WAN), HALF_OPEN + 1));
    for (packet, now) in refused {
        let mut changed = half.clone();
        assert!(!changed.on_answer(&packet, now), "{packet:?}");
        assert_eq!(changed, half);
    }
    let half = answered(&handshake, &[0], &[10]);
    for wrong in [
        Segment { acknowledgement: 7000, ..handshake.third.clone() },
        Segment { sequence: 1000, ..handshake.third.clone() },
        Segment { flags: flag::RST | flag::ACK, ..handshake.third.clone() },
        Segment { source: SERVER, destination: CLIENT, ..handshake.third.clone() },
    ] {
        assert_eq!(half.on_third(&wrong.read(LAN), 20 * MS, 0), None, "{wrong:?}");
    }
    assert_eq!(half.on_third(&handshake.third.read(WAN), 20 * MS, 0), None);
}

#[test]
fn a_syn_may_carry_data() {
    // RFC 7413: the answer may acknowledge the data, and data may follow before the third segment.
    for (acknowledged, sequence, third) in [(1001, 1001, 7001), (1101, 1101, 7001), (1101, 1101, 20_000)] {
        let mut handshake = Handshake::new(7, 7);
        handshake.syn.data = vec![1; 100];
        handshake.answer.acknowledgement = acknowledged;
        (handshake.third.sequence, handshake.third.acknowledgement) = (sequence, third);
        assert_eq!(handshake.at([0, 20, 40]).unwrap().rtt(), Some(40 * MS));
    }
    let mut handshake = Handshake::new(7, 7);
    handshake.syn.data = vec![1; 100];
    handshake.answer.acknowledgement = 1102;
    assert_eq!(handshake.at([0, 20, 40]), None);
}

#[test]
fn ends_that_both_begin_are_left_alone() {
    let handshake = Handshake::new(7, 7);
    let mut half = Half::begin(&handshake.syn.read(LAN), 0).unwrap();
    half.on_syn(&Segment::new(SERVER, CLIENT, flag::SYN).with_options(&scaled(9)).read(WAN), MS);
    assert!(!half.on_answer(&handshake.answer.read(WAN), 2 * MS));
    assert_eq!(half.on_third(&handshake.third.read(LAN), 3 * MS, 0), None);
    // Until there is another attempt.
    let again = Segment { sequence: 9000, ..handshake.syn.clone() };
    half.on_syn(&again.read(LAN), 4 * MS);
    let answer = Segment { acknowledgement: 9001, ..handshake.answer.clone() };
    assert!(half.on_answer(&answer.read(WAN), 5 * MS));
    // An end that connects to itself cannot be distinguished from the other.
    assert_eq!(Half::begin(&Segment::new(CLIENT, CLIENT, flag::SYN).read(LAN), 0), None);
}

#[test]
fn the_same_ends_may_begin_again() {
    let handshake = Handshake::new(7, 7);
    let mut half = answered(&handshake, &[0], &[10]);
    let mut again = Handshake::new(3, 4);
    (again.syn.sequence, again.answer.acknowledgement, again.third.sequence) = (5000, 5001, 5001);
    (again.answer.sequence, again.third.acknowledgement) = (90_000, 90_001);
    half.on_syn(&again.syn.read(LAN), 1000 * MS);
    // What is left of the first attempt does not count.
    assert!(!half.on_answer(&handshake.answer.read(WAN), 1001 * MS));
    assert!(half.on_answer(&again.answer.read(WAN), 1020 * MS));
    assert_eq!(half.on_third(&handshake.third.read(LAN), 1021 * MS, 0), None);
    let flow = half.on_third(&again.third.read(LAN), 1040 * MS, 0).unwrap();
    assert_eq!((flow.scale(flow.client()), flow.rtt()), (Some(3), Some(40 * MS)));
}

#[test]
fn a_clock_that_steps_gives_no_rtt() {
    let handshake = Handshake::new(7, 7);
    // Back between the first two: the answer is not one. Back before the third, or far ahead: no RTT.
    assert_eq!(handshake.at([100, 50, 150]), None);
    assert_eq!(handshake.at([100, 150, 120]).unwrap().rtt(), None);
    assert_eq!(handshake.at([100, 150, 70_000]).unwrap().rtt(), None);
    let mut flow = handshake.at([100, 150, 120]).unwrap();
    let limit = headway_arithmetic::rwm::bytes(1 << 30, flow.rtt().unwrap_or(0));
    assert_eq!(flow.window(&handshake.third.read(LAN), limit, false), 65_535);
}

/// A segment of an established connection, from the client or the server.
fn later(from_client: bool, flags: u8, sequence: u32) -> Packet {
    let (source, destination) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let acknowledgement = if from_client { 7001 } else { 1001 };
    Segment { sequence, acknowledgement, ..Segment::new(source, destination, flags) }.read(LAN)
}

#[test]
fn a_connection_ends_with_both_fins_or_a_reset() {
    let flow = Handshake::new(7, 7).at([0, 10, 20]).unwrap();
    let mut both = flow.clone();
    assert!(!both.on_segment(&later(true, flag::FIN | flag::ACK, 1001), 30 * MS));
    assert!(!both.on_segment(&later(true, flag::FIN | flag::ACK, 1001), 31 * MS));
    assert!(!both.on_segment(&later(false, flag::ACK, 7001), 32 * MS));
    assert!(both.on_segment(&later(false, flag::FIN | flag::ACK, 7001), 33 * MS));
    for flags in [flag::RST, flag::RST | flag::ACK] {
        assert!(flow.clone().on_segment(&later(false, flags, 7001), 30 * MS));
    }
}

#[test]
fn whoever_guesses_a_sequence_number_ends_nothing() {
    let flow = Handshake::new(7, 7).at([0, 10, 20]).unwrap();
    for sequence in [7001 + NEAR + 1, 7000_u32.wrapping_sub(NEAR), 7001 + (1 << 31)] {
        assert!(!flow.clone().on_segment(&later(false, flag::RST, sequence), 30 * MS), "{sequence}");
    }
    for sequence in [7001 + NEAR, 7001_u32.wrapping_sub(NEAR)] {
        assert!(flow.clone().on_segment(&later(false, flag::RST, sequence), 30 * MS), "{sequence}");
    }
}

#[test]
fn the_time_of_the_latest_packet_follows_any_clock() {
    let mut flow = Handshake::new(7, 7).at([0, 10, 20]).unwrap();
    for (now, seen) in [(60, 20), (121, 121), (5000, 5000), (100, 100), (150, 100)] {
        flow.on_segment(&later(true, flag::ACK, 1001), now * MS);
        assert_eq!(flow.seen(), seen * MS);
    }
}
