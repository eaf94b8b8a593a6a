//! All parsers, with a million inputs in total: random bytes, and valid messages with a few bytes changed.

use headway_net::protocol::frame::{MAX_FRAME, parse};
use headway_net::protocol::preamble::PREAMBLE_LEN;
use headway_net::protocol::probe::{HEADER_LEN, cookie};
use headway_net::protocol::{
    Announce, Carrier, Decoder, Direction, GapRuns, Header, HopRuns, Kind, MAX_HOPS, MAX_STREAM_PACKETS,
    Message, PacketSize, Preamble, RefusedBy, Report, Role, SentReport, StampSource, TimeList, encode,
};
use headway_units::{Duration, Instant};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Configures the number of cases; the tests of this file have a million in total.
fn cases(cases: u32) -> ProptestConfig {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    ProptestConfig { cases, failure_persistence, ..ProptestConfig::default() }
}

fn source() -> impl Strategy<Value = StampSource> {
    prop_oneof![Just(StampSource::Hardware), Just(StampSource::Kernel), Just(StampSource::Program)]
}

fn gaps() -> impl Strategy<Value = GapRuns> {
    vec(any::<i64>().prop_map(Duration::from_ns), 0..8).prop_map(|gaps| GapRuns::encode(&gaps))
}

fn hops() -> impl Strategy<Value = HopRuns> {
    vec(any::<u8>(), 0..8).prop_map(|hops| HopRuns::encode(&hops))
}

fn times() -> impl Strategy<Value = TimeList> {
    vec(any::<u64>().prop_map(Instant::from_ns), 0..8).prop_map(TimeList::encode)
}

fn carrier() -> impl Strategy<Value = Carrier> {
    prop_oneof![Just(Carrier::Udp), Just(Carrier::Icmp)]
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Forward), Just(Direction::Reverse)]
}

/// Any valid message.
fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<[u8; 32]>(), vec(any::<u8>(), 0..80))
            .prop_map(|(nonce, padding)| Message::ClientHello { nonce, padding }),
        (any::<[u8; 32]>(), any::<bool>())
            .prop_map(|(nonce, token_required)| Message::ServerHello { nonce, token_required }),
        any::<Option<[u8; 32]>>().prop_map(|proof| Message::ClientProof { proof }),
        any::<(u64, u32, u64, Option<[u8; 32]>)>().prop_map(|(session, max_packets, reverse_bps, proof)| {
            Message::Welcome { session, max_packets, reverse_bps, proof }
        }),
        prop_oneof![Just(RefusedBy::TokenRequired), Just(RefusedBy::Rate), Just(RefusedBy::Stopping)]
            .prop_map(Message::Refused),
        any::<[u8; 16]>().prop_map(Message::Cookie),
        prop_oneof![Just(Message::AddressProved), Just(Message::Hellos), Just(Message::SizeReady)],
        any::<(u32, u32)>().prop_map(|(seen, elsewhere)| Message::HellosSeen { seen, elsewhere }),
        any::<u32>().prop_map(|number| Message::Ping { number }),
        any::<u32>().prop_map(|number| Message::Pong { number }),
        vec(any::<u16>(), 0..8).prop_map(|sizes| Message::SizeTest { sizes }),
        any::<u64>().prop_map(|grace_ns| Message::SizeEnd { grace_ns }),
        vec(any::<u16>(), 0..8).prop_map(|arrived| Message::SizeReport { arrived }),
        (any::<u32>(), direction(), carrier(), any::<u16>(), gaps(), hops()).prop_map(
            |(stream, direction, carrier, ip_size, gaps, hops)| {
                Message::Announce(Announce { stream, direction, carrier, ip_size, gaps, hops })
            }
        ),
        any::<u32>().prop_map(|stream| Message::Ready { stream }),
        any::<(u32, u64)>().prop_map(|(stream, grace_ns)| Message::End { stream, grace_ns }),
        (
            any::<u32>(),
            times(),
            [vec(any::<u32>(), 0..8), vec(any::<u32>(), 0..8)],
            any::<u32>(),
            source(),
            any::<bool>()
        )
            .prop_map(|(stream, times, [lost, hidden_seen], duplicates, source, clock_stepped)| {
                Message::Report(Report {
                    stream,
                    times,
                    lost,
                    hidden_seen,
                    duplicates,
                    source,
                    clock_stepped,
                })
            }),
        (any::<u32>(), times(), source(), any::<bool>(), any::<bool>()).prop_map(
            |(stream, times, source, gaps_kept, clock_stepped)| {
                Message::Sent(SentReport { stream, times, source, gaps_kept, clock_stepped })
            }
        ),
    ]
}

/// Processes a message as its receiver does, as far as no socket is needed.
fn use_up(message: &Message) {
    let most = MAX_STREAM_PACKETS as usize;
    match message {
        Message::Announce(announce) => {
            if let Some(gaps) = announce.gaps.decode(most) {
                assert!(gaps.len() <= most && gaps.iter().all(|gap| *gap >= Duration::ZERO));
                if let Some(hops) = announce.hops.decode(gaps.len() + 1) {
                    assert!(hops.is_empty() || hops.len() == gaps.len() + 1);
                    assert!(hops.iter().all(|hops| *hops <= MAX_HOPS));
                }
            }
            let _ = PacketSize::from_ip(announce.ip_size);
        }
        Message::Report(report) => {
            let _ = report.times.decode(report.lost.len() + 1);
        }
        Message::Sent(report) => {
            for count in 0..10 {
                let _ = report.times.decode(count).inspect(|times| assert_eq!(times.len(), count));
            }
        }
        _ => {}
    }
    let _ = message.name();
}

proptest! {
    #![proptest_config(cases(300_000))]

    /// Random bytes for the parsers of datagrams, frames and preambles.
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..64)) {
        let _ = Header::parse(&bytes);
        let _ = cookie(&bytes);
        if let Ok(message) = parse(&bytes) {
            use_up(&message);
        }
        if let Some(start) = bytes.first_chunk::<PREAMBLE_LEN>() {
            let _ = Preamble::parse(start);
        }
    }

    /// Random bytes after a valid start that takes the parser further.
    #[test]
    fn plausible_starts_never_panic(kind in 0u8..21, mut bytes in vec(any::<u8>(), 8..64)) {
        bytes[0] = kind;
        if let Ok(message) = parse(&bytes) {
            use_up(&message);
        }
        bytes[..8].copy_from_slice(b"HdwP\0\x02\x03\0");
        bytes[7] = kind % 4;
        let _ = Header::parse(&bytes);
        let start = [b'H', b'D', b'W', b'Y', 0, kind, 0, kind];
        let _ = Preamble::parse(&start);
    }
}

proptest! {
    #![proptest_config(cases(100_000))]

    /// Messages survive a round trip, and with a few bytes changed become other messages or errors.
    #[test]
    fn changed_messages_never_panic(
        message in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let frame = encode(&message).unwrap();
        prop_assert_eq!(parse(&frame[4..]), Ok(message));
        let mut changed = frame[4..].to_vec();
        for (at, value) in changes {
            let at = at.index(changed.len());
            changed[at] = value;
            if let Ok(message) = parse(&changed) {
                use_up(&message);
            }
        }
        let _ = parse(&changed[..cut.index(changed.len())]);
    }

    /// A decoder returns what was encoded, however the bytes are split.
    #[test]
    fn pieces_do_not_matter(messages in vec(message(), 1..4), size in 1usize..40) {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| encode(message).unwrap()).collect();
        let mut decoder = Decoder::default();
        let mut decoded = Vec::new();
        for piece in bytes.chunks(size) {
            decoder.push(piece);
            while let Some(message) = decoder.take().unwrap() {
                decoded.push(message);
            }
        }
        prop_assert_eq!(decoded, messages);
    }

    /// A decoder fed with random frames ends with messages or an error.
    #[test]
    fn random_frames_never_panic(bodies in vec(vec(any::<u8>(), 0..24), 1..5)) {
        let mut decoder = Decoder::default();
        for body in &bodies {
            decoder.push(&(body.len() as u32).to_be_bytes());
            decoder.push(body);
        }
        while let Ok(Some(message)) = decoder.take() {
            use_up(&message);
        }
    }

    /// Headers survive a round trip, and with one byte changed become other headers or errors.
    #[test]
    fn changed_headers_never_panic(
        role in prop_oneof![Just(Role::First), Just(Role::Hidden), Just(Role::Last)],
        session in any::<u64>(),
        stream in any::<u32>(),
        index in 0u32..100,
        more in 1u32..100,
        sent in any::<u64>(),
        at in 0usize..HEADER_LEN,
        value in any::<u8>(),
    ) {
        let sent = Instant::from_ns(sent);
        let header = Header { kind: Kind::Probe, role, session, stream, index, count: index + more, sent };
        let mut bytes = [0; HEADER_LEN];
        header.write(&mut bytes);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
        bytes[at] = value;
        let _ = Header::parse(&bytes);
    }
}

#[test]
fn the_longest_report_fits_into_a_frame() {
    let far_apart =
        (0..MAX_STREAM_PACKETS).map(|i| Instant::from_ns(if i % 2 == 0 { 0 } else { u64::MAX / 2 }));
    let times = TimeList::encode(far_apart);
    let report = Report {
        stream: u32::MAX,
        times,
        lost: Vec::new(),
        hidden_seen: Vec::new(),
        duplicates: u32::MAX,
        source: StampSource::Kernel,
        clock_stepped: true,
    };
    assert!(encode(&Message::Report(report)).unwrap().len() < MAX_FRAME);
}
