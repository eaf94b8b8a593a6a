//! What holds for any packet: nothing but window and checksum changes, no window grows, and a
//! window of zero stays zero.

use headway_arithmetic::flow::{Flow, Framing, Half, Kind, LARGEST_RTT, Packet, flag};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{CLIENT, Handshake, LAN, MS, SERVER, Segment, WAN, scaled, sum};

/// How many random packets there are, unless `HEADWAY_CASES` says it.
const CASES: u32 = 100_000;

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("HEADWAY_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases.unwrap_or(default)) }
}

/// Packets of both versions of IP, with and without Ethernet, from either end.
fn segment() -> impl Strategy<Value = (Segment, Framing)> {
    let flags = prop_oneof![8 => Just(flag::ACK), 1 => any::<u8>()];
    let numbers = (any::<u32>(), any::<u32>(), prop_oneof![Just(0), any::<u16>()]);
    let shape = (any::<[bool; 3]>(), 0_usize..4, 0_usize..3, 0_usize..40, 0_usize..11);
    (flags, numbers, shape).prop_map(|(flags, (sequence, acknowledgement, window), shape)| {
        let ([v6, back, frame], between, tags, data, words) = shape;
        let (client, server) = match v6 {
            false => (CLIENT, SERVER),
            true => (("2001:db8::1".parse().unwrap(), 9), ("2001:db8::2".parse().unwrap(), 443)),
        };
        let (source, destination) = if back { (server, client) } else { (client, server) };
        let segment = Segment {
            sequence,
            acknowledgement,
            window,
            between: if v6 { vec![60; between] } else { vec![0; between] },
            tags: vec![0x8100; tags],
            data: (0..data).map(|byte| (byte * 37) as u8).collect(),
            options: (0..4 * words).map(|byte| if byte % 2 == 0 { 1 } else { sequence as u8 }).collect(),
            ..Segment::new(source, destination, flags)
        };
        (segment, if frame { Framing::Ethernet } else { Framing::Ip })
    })
}

/// What is done to a packet: bytes that become others, and a length.
fn damage() -> impl Strategy<Value = (Vec<(usize, u8)>, usize)> {
    (vec((0_usize..80, any::<u8>()), 0..4), prop_oneof![3 => Just(usize::MAX), 1 => 0_usize..100])
}

fn established(scale: [u8; 2], rtt: u64) -> Flow {
    Handshake::new(scale[0], scale[1]).at([0, rtt / 2, rtt]).unwrap()
}

/// The sum over pseudo-header and segment of a packet whose TCP begins at `at`; 0 and all ones
/// are the same number.
fn whole(bytes: &[u8], at: usize, packet: &Packet) -> u16 {
    let sender = packet.sender();
    let sum = sum(packet.key().address(sender), packet.key().address(1 - sender), &bytes[at..]);
    if sum == 0xffff { 0 } else { sum }
}

/// Lets a packet pass, and holds what left against what came.
fn pass(bytes: &[u8], framing: Framing, flow: &mut Flow, limit: u64, no_shrink: bool) {
    let Ok(packet) = Packet::read(bytes, framing, LAN) else { return };
    let window = flow.window(&packet, limit, no_shrink);
    assert!(window <= packet.window && (packet.window == 0 || window > 0), "{packet:?}: {window}");
    if window == packet.window {
        return;
    }
    assert!(packet.flags & (flag::SYN | flag::RST) == 0);
    let mut left = bytes.to_vec();
    packet.write_window(&mut left, window);
    let at = packet.at();
    for (byte, (before, after)) in bytes.iter().zip(&left).enumerate() {
        assert!(before == after || (at + 14..at + 18).contains(&byte), "byte {byte} of {packet:?}");
    }
    assert_eq!(left[at + 14..at + 16], window.to_be_bytes());
    // Computed anew, the sum is what it was: also if damage had made it wrong.
    assert_eq!(whole(&left, at, &packet), whole(bytes, at, &packet));
    let mut again = Packet::read(&left, framing, LAN).unwrap();
    again.window = packet.window;
    assert_eq!(again, packet);
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn any_packet_passes_with_a_lower_window_or_as_it_is(
        (segment, framing) in segment(),
        (bytes_changed, length) in damage(),
        scale in (0_u8..=15, 0_u8..=15),
        limit in prop_oneof![0_u64..200_000, any::<u64>()],
        no_shrink in any::<bool>(),
    ) {
        let mut bytes = if framing == Framing::Ip { segment.ip() } else { segment.ethernet() };
        if let Ok(packet) = Packet::read(&bytes, framing, LAN) {
            let at = bytes.len() - segment.data.len() - segment.options.len() - 20;
            prop_assert_eq!((packet.at(), packet.window), (at, segment.window));
            prop_assert_eq!(whole(&bytes, at, &packet), 0);
        }
        for (at, value) in bytes_changed {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(length);
        let mut flow = established([scale.0, scale.1], 20);
        // The second time, an edge is known.
        pass(&bytes, framing, &mut flow, limit, no_shrink);
        pass(&bytes, framing, &mut flow, limit / 2, no_shrink);
    }
}

/// A segment between the two ends, with numbers of which few are possible.
fn step() -> impl Strategy<Value = (Packet, u64)> {
    let flags = prop_oneof![Just(2_u8), Just(18), Just(16), Just(17), Just(4), Just(20)];
    let time = prop_oneof![8 => 0_u64..2_000, 1 => any::<u64>()];
    (any::<[bool; 2]>(), flags, 0_u32..4, 0_u32..4, any::<u16>(), 0_u8..20, time).prop_map(
        |([back, wan], flags, sequence, acknowledgement, window, scale, time)| {
            let (source, destination) = if back { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
            let options = if flags & 2 != 0 && scale < 18 { scaled(scale) } else { Vec::new() };
            let segment = Segment {
                sequence,
                acknowledgement,
                window,
                options,
                ..Segment::new(source, destination, flags)
            };
            (segment.read(if wan { WAN } else { LAN }), time.saturating_mul(MS))
        },
    )
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn no_order_of_segments_gives_a_connection_that_cannot_be(steps in vec(step(), 1..40)) {
        let (mut half, mut flow) = (None::<Half>, None::<Flow>);
        for (packet, now) in steps {
            match packet.kind() {
                Kind::Ask => match &mut half {
                    Some(half) => half.on_syn(&packet, now),
                    None => half = Half::begin(&packet, now),
                },
                Kind::Answer => {
                    if half.as_mut().is_some_and(|half| half.on_answer(&packet, now)) {
                        flow = None;
                    }
                }
                Kind::Later => {
                    if let Some(known) = &mut flow {
                        let window = known.window(&packet, 10_000, true);
                        prop_assert!(window <= packet.window && (window > 0 || packet.window == 0));
                        if known.on_segment(&packet, now) {
                            flow = None;
                        }
                    } else if let Some(begun) = half.as_ref().and_then(|half| half.on_third(&packet, now, 30 * MS)) {
                        prop_assert!(begun.rtt().is_none_or(|rtt| rtt <= LARGEST_RTT));
                        prop_assert_eq!(begun.scale(0).is_some(), begun.scale(1).is_some());
                        prop_assert!(begun.scale(0).is_none_or(|scale| scale <= 14));
                        prop_assert_eq!(begun.client(), packet.sender());
                        (half, flow) = (None, Some(begun));
                    }
                }
            }
        }
    }
}
