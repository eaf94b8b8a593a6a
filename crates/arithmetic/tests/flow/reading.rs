//! What is read of packets.

use headway_arithmetic::flow::{Framing, Kind, NotSegment, Packet, flag};

use crate::support::{CLIENT, LAN, SERVER, Segment, scaled};

fn scale_of(options: &[u8]) -> Option<u8> {
    Segment::syn().with_options(options).read(LAN).scale()
}

fn read(frame: &[u8]) -> Result<Packet, NotSegment> {
    Packet::read(frame, Framing::Ethernet, LAN)
}

fn v6() -> Segment {
    Segment::new(("2001:db8::1".parse().unwrap(), 50_000), ("2001:db8::2".parse().unwrap(), 443), flag::SYN)
}

#[test]
fn a_segment_reads_as_it_was_written() {
    for mut segment in [Segment::syn(), v6()] {
        (segment.window, segment.dscp, segment.data) = (4321, 46, vec![7; 11]);
        segment = segment.with_options(&scaled(7));
        for tags in [vec![], vec![0x8100], vec![0x88a8, 0x8100]] {
            segment.tags = tags;
            let packet = read(&segment.ethernet()).unwrap();
            let sender = packet.sender();
            assert_eq!((packet.sequence, packet.acknowledgement, packet.data), (1000, 2000, 11));
            assert_eq!((packet.window, packet.mss, packet.scale()), (4321, 1460, Some(7)));
            assert_eq!((packet.dscp, packet.flags, packet.kind()), (46, flag::SYN, Kind::Ask));
            assert_eq!((packet.key().address(sender), packet.key().port(sender)), segment.source);
            assert_eq!(
                (packet.key().address(1 - sender), packet.key().port(1 - sender)),
                segment.destination
            );
        }
    }
}

#[test]
fn marks_are_read_beside_the_code_point() {
    for mut segment in [Segment::syn(), v6()] {
        segment.dscp = 46;
        for ecn in 0..4 {
            let mut packet = segment.ip();
            packet[1] |= if segment.source.0.is_ipv4() { ecn } else { ecn << 4 };
            let read = Packet::read(&packet, Framing::Ip, LAN).unwrap();
            assert_eq!((read.ecn, read.dscp), (ecn, 46));
        }
    }
}

#[test]
fn both_directions_have_one_key_and_swapped_ports_another() {
    let there = Segment::syn().read(LAN);
    let back = Segment::new(SERVER, CLIENT, flag::ACK).read(LAN);
    assert_eq!((there.key(), there.sender()), (back.key(), 1 - back.sender()));
    let swapped = Segment::new((CLIENT.0, SERVER.1), (SERVER.0, CLIENT.1), flag::SYN).read(LAN);
    assert_ne!(there.key(), swapped.key());
    // A simulator makes the same without bytes.
    assert_eq!(Packet::between(CLIENT, SERVER).key(), there.key());
    let v6 = v6();
    assert_eq!(Packet::between(v6.source, v6.destination).key(), v6.read(LAN).key());
}

#[test]
fn a_scale_is_found_wherever_it_is() {
    // wan F2: any order, any padding; Linux, BSD and Windows begin differently.
    assert_eq!(scale_of(&[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]), Some(7));
    assert_eq!(
        scale_of(&[2, 4, 5, 180, 1, 3, 3, 6, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 4, 2, 0, 0]),
        Some(6)
    );
    assert_eq!(scale_of(&[1, 1, 1, 1, 1, 3, 3, 0]), Some(0));
    assert_eq!(scale_of(&[3, 3, 10]), Some(10));
    let mut last = [1; 40];
    last[37..].copy_from_slice(&[3, 3, 9]);
    assert_eq!(scale_of(&last), Some(9));
    assert_eq!(scale_of(&[254, 37].into_iter().chain([0; 35]).chain([3, 3, 9]).collect::<Vec<_>>()), Some(9));
}

#[test]
fn a_scale_is_what_the_other_end_takes_it_for() {
    // RFC 7323 2.3: larger ones mean 14.
    for (told, taken) in [(14, 14), (15, 14), (255, 14)] {
        assert_eq!(scale_of(&[1, 3, 3, told]), Some(taken));
    }
    // Linux, tcp_parse_options(): the last one of several.
    assert_eq!(scale_of(&[1, 3, 3, 2, 1, 3, 3, 8]), Some(8));
    for absent in [
        &[][..],
        // Another length, the end before it, and options without length or that do not end.
        &[1, 3, 4, 7, 0, 0, 0, 0],
        &[0, 3, 3, 7],
        &[8, 0, 1, 3, 3, 7, 1, 1],
        &[8, 1, 1, 3, 3, 7, 1, 1],
        &[254, 9, 3, 3, 7, 1, 1, 1],
        &[1, 1, 1, 3],
        &[1, 1, 3, 3],
    ] {
        assert_eq!(scale_of(absent), None, "{absent:?}");
    }
    // What comes before an option without length counts.
    assert_eq!(scale_of(&[1, 3, 3, 5, 8, 0, 1, 1]), Some(5));
}

#[test]
fn a_signed_header_has_no_scale_for_others() {
    // RFC 2385 3.0 and RFC 5925 5.1: the signature covers the window.
    for signature in [[19, 18], [29, 16]] {
        let mut options = scaled(7);
        options.extend(signature);
        options.resize(8 + usize::from(signature[1]), 0xaa);
        assert_eq!(scale_of(&options), None);
    }
}

#[test]
fn a_largest_segment_that_is_not_said_is_that_of_the_standard() {
    // RFC 9293 3.7.1
    assert_eq!(Segment::syn().read(LAN).mss, 536);
    assert_eq!(v6().read(LAN).mss, 1220);
    assert_eq!(Segment::syn().with_options(&[2, 4, 0, 0]).read(LAN).mss, 88);
}

#[test]
fn what_is_no_whole_segment_is_for_others() {
    let mut fragment = Segment::syn().ethernet();
    for (first, second) in [(0x20, 0), (0, 1), (0x20, 9)] {
        fragment[20..22].copy_from_slice(&[first, second]);
        assert_eq!(read(&fragment), Err(NotSegment::Fragment));
    }
    let mut do_not = Segment::syn().ethernet();
    do_not[20] = 0x40;
    assert!(read(&do_not).is_ok());
    for (protocol, why) in
        [(17, NotSegment::Other), (1, NotSegment::Other), (4, NotSegment::Tunnel), (47, NotSegment::Tunnel)]
    {
        let mut frame = Segment::syn().ethernet();
        frame[23] = protocol;
        assert_eq!(read(&frame), Err(why));
    }
    for (kind, why) in
        [(0x8864_u16, NotSegment::Tunnel), (0x8847, NotSegment::Tunnel), (0x0806, NotSegment::Other)]
    {
        let mut frame = Segment::syn().ethernet();
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        assert_eq!(read(&frame), Err(why));
    }
    let mut tagged = Segment::syn();
    tagged.tags = vec![0x88a8, 0x8100, 0x8100];
    assert_eq!(read(&tagged.ethernet()), Err(NotSegment::Other));
}

#[test]
fn a_segment_is_read_behind_options_and_extensions() {
    for words in 0..=10 {
        let mut segment = Segment::syn().with_options(&scaled(3));
        segment.between = vec![1; words];
        assert_eq!(read(&segment.ethernet()).map(|packet| packet.scale()), Ok(Some(3)), "{words}");
    }
    for (extensions, found) in [
        (vec![0], Ok(())),
        (vec![0, 60, 43, 44, 60], Ok(())),
        (vec![50], Err(NotSegment::Tunnel)),
        (vec![0; 9], Err(NotSegment::Other)),
    ] {
        let mut segment = v6();
        segment.between = extensions;
        assert_eq!(read(&segment.ethernet()).map(|_| ()), found, "{:?}", segment.between);
    }
}

#[test]
fn every_end_of_a_packet_that_is_cut_off_is_noticed() {
    for segment in [Segment::syn(), v6()] {
        let frame = segment.with_options(&scaled(7)).ethernet();
        for length in 0..frame.len() {
            assert_eq!(read(&frame[..length]), Err(NotSegment::Malformed), "{length}");
        }
        assert!(read(&frame).is_ok());
    }
    // A header that is longer than the packet says, or shorter than a header is.
    for (at, value) in [(14 + 20 + 12, 0xf0), (14 + 20 + 12, 0x40), (14, 0x44), (17, 30)] {
        let mut frame = Segment::syn().ethernet();
        frame[at] = value;
        assert_eq!(read(&frame), Err(NotSegment::Malformed), "{at}");
    }
}

#[test]
fn flags_that_no_tcp_sends_are_malformed() {
    use flag::{ACK, FIN, RST, SYN};
    for flags in [0, FIN, SYN | FIN, SYN | RST, SYN | ACK | FIN, SYN | RST | ACK] {
        let segment = Segment::new(CLIENT, SERVER, flags);
        assert_eq!(Packet::read(&segment.ip(), Framing::Ip, LAN), Err(NotSegment::Malformed), "{flags:#x}");
    }
    for (flags, kind) in [
        (SYN | ACK, Kind::Answer),
        (ACK, Kind::Later),
        (FIN | ACK, Kind::Later),
        (RST, Kind::Later),
        (SYN, Kind::Ask),
    ] {
        assert_eq!(Segment::new(CLIENT, SERVER, flags).read(LAN).kind(), kind);
    }
}

#[test]
fn structures_are_the_same_in_both_languages() {
    for (c, rust) in headway_arithmetic::flow::sizes() {
        assert_eq!(c as usize, rust);
    }
}
