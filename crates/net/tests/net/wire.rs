//! The bytes by which messages of the control connection are told apart, as in docs/wire-probe.md: the order
//! of variants is part of the protocol, and another order another version of it.

use headway_net::protocol::{
    Announce, Carrier, Direction, GapRuns, HopRuns, Message, RefusedBy, Report, SentReport, StampSource,
    TimeList, VERSION, encode,
};

/// Bytes of the length before each message.
const LENGTH: usize = 4;

/// Returns the bytes of a message without their length.
fn body(message: &Message) -> Vec<u8> {
    encode(message).expect("a message fits into a frame").split_off(LENGTH)
}

fn announce(direction: Direction, carrier: Carrier) -> Message {
    let (gaps, hops) = (GapRuns::default(), HopRuns::default());
    Message::Announce(Announce { stream: 1, direction, carrier, ip_size: 100, gaps, hops })
}

fn report(source: StampSource) -> Message {
    let times = TimeList::default();
    let (lost, hidden_seen) = (Vec::new(), Vec::new());
    Message::Report(Report {
        stream: 1,
        times,
        lost,
        hidden_seen,
        duplicates: 0,
        source,
        clock_stepped: false,
    })
}

#[test]
fn messages_are_numbered_in_this_order() {
    let sent = SentReport {
        stream: 1,
        times: TimeList::default(),
        source: StampSource::Kernel,
        gaps_kept: true,
        clock_stepped: false,
    };
    let messages = [
        Message::ClientHello { nonce: [0; 32], padding: Vec::new() },
        Message::ServerHello { nonce: [0; 32], token_required: false },
        Message::ClientProof { proof: None },
        Message::Welcome { session: 1, max_packets: 2, reverse_bps: 3, proof: None },
        Message::Refused(RefusedBy::Busy),
        Message::Cookie([0; 16]),
        Message::AddressProved,
        Message::Hellos,
        Message::HellosSeen { seen: 1, elsewhere: 0 },
        Message::Ping { number: 1 },
        Message::Pong { number: 1 },
        Message::SizeTest { sizes: Vec::new() },
        Message::SizeReady,
        Message::SizeEnd { grace_ns: 1 },
        Message::SizeReport { arrived: Vec::new() },
        announce(Direction::Forward, Carrier::Udp),
        Message::Ready { stream: 1 },
        Message::End { stream: 1, grace_ns: 1 },
        report(StampSource::Kernel),
        Message::Sent(sent),
    ];
    let numbers: Vec<u8> = messages.iter().map(|message| body(message)[0]).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<u8>>());
    assert_eq!(VERSION, 3);
}

#[test]
fn refusals_are_numbered_in_this_order() {
    let rules = [
        RefusedBy::TokenRequired,
        RefusedBy::WrongToken,
        RefusedBy::Sessions,
        RefusedBy::SessionsPerNetwork,
        RefusedBy::SessionBytes,
        RefusedBy::SessionTime,
        RefusedBy::Idle,
        RefusedBy::Rate,
        RefusedBy::StreamPackets,
        RefusedBy::StreamTime,
        RefusedBy::HiddenPackets,
        RefusedBy::SendsNoIcmp,
        RefusedBy::RawSocket,
        RefusedBy::PacketSize,
        RefusedBy::AddressNotProved,
        RefusedBy::OutOfOrder,
        RefusedBy::Stopping,
        RefusedBy::Busy,
    ];
    for (rule, number) in rules.into_iter().zip(0..) {
        assert_eq!(body(&Message::Refused(rule)), [4, number], "{rule:?}");
    }
}

#[test]
fn directions_carriers_and_sources_are_numbered_in_this_order() {
    // Number of the message, stream, direction, carrier, 100 B, no gaps, no hops.
    assert_eq!(body(&announce(Direction::Forward, Carrier::Udp)), [15, 1, 0, 0, 100, 0, 0]);
    assert_eq!(body(&announce(Direction::Reverse, Carrier::Icmp)), [15, 1, 1, 1, 100, 0, 0]);
    let sources = [StampSource::Hardware, StampSource::Kernel, StampSource::Program];
    for (source, number) in sources.into_iter().zip(0..) {
        // Number of the message, stream, first time and differences, lost, seen, duplicates,
        // source, step of the clock.
        assert_eq!(body(&report(source)), [18, 1, 0, 0, 0, 0, 0, number, 0], "{source:?}");
    }
}

#[test]
fn numbers_take_seven_bits_a_byte_and_lengths_four_bytes() {
    assert_eq!(encode(&Message::Ping { number: 300 }).unwrap(), [0, 0, 0, 3, 9, 0xac, 0x02]);
    assert_eq!(body(&Message::ClientProof { proof: Some([7; 32]) })[..3], [2, 1, 7]);
}
