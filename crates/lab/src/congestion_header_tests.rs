use headway_queue::explicit::{
    Format, HEADER_BYTES, OPTION_BYTES, OPTION_KIND, VERSION_RCP, VERSION_XCP, encode, encode_option,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::testing::{Packet, cases, header, transport_sum};

const CARRIER: Carrier = Carrier { protocol: 253, port: Some(4000), option: 253 };

fn found(frame: &[u8]) -> Option<Result<(Header, bool), Fault>> {
    find(frame, CARRIER).map(|result| result.map(|found| (found.header, found.options)))
}

#[test]
fn headers_are_found_behind_whatever_may_precede_them() {
    let header = header(VERSION_XCP);
    let expected = |options| Some(Ok((header, options)));
    let table = [
        (Packet::v4(), expected(false)),
        (Packet::v4().with_tags(&[0x8100]), expected(false)),
        (Packet::v4().with_tags(&[0x88a8, 0x8100]), expected(false)),
        (Packet::v4().with_options(4), expected(true)),
        (Packet::v4().with_options(40), expected(true)),
        (Packet::v6(), expected(false)),
        (Packet::v6().with_tags(&[0x9100]), expected(false)),
        (Packet::v6().with_extensions(&[0]), expected(true)),
        (Packet::v6().with_extensions(&[0, 43, 60]), expected(true)),
        (Packet::v6().with_fragment_header(0), expected(true)),
        (Packet::v4().in_udp(4000), expected(false)),
        (Packet::v6().in_udp(4000), expected(false)),
        (Packet::v4().with_options(8).in_udp(4000), expected(true)),
        (Packet::v4().in_udp(4001), None),
        (Packet::v6().in_udp(4001), None),
        (Packet::v4().in_tcp(0), expected(false)),
        (Packet::v4().in_tcp(20), expected(false)),
        (Packet::v4().with_tags(&[0x8100]).in_tcp(5), expected(false)),
        (Packet::v4().with_options(12).in_tcp(3), expected(true)),
        (Packet::v6().in_tcp(12), expected(false)),
        (Packet::v6().with_extensions(&[60]).in_tcp(1), expected(true)),
    ];
    for (packet, expected) in table {
        assert_eq!(found(&packet.build(&header)), expected, "{packet:?}");
    }
}

#[test]
fn what_is_wrong_with_a_header_has_a_name() {
    let good = header(VERSION_RCP);
    let v4 = Packet::v4().build(&good);
    let at = ETHERNET + IPV4_HEADER;
    let with = |place: usize, value: u8| {
        let mut frame = v4.clone();
        frame[place] = value;
        frame
    };
    let table = [
        (with(at + 1, 19), Some(Fault::Length)),
        (with(at + 1, 24), Some(Fault::Length)),
        (with(at + 2, 0x31), Some(Fault::Version)),
        (with(at + 2, 0x23), Some(Fault::Format)),
        (with(at + 2, 0xf0), Some(Fault::Format)),
        (v4[..at + HEADER_BYTES - 1].to_vec(), Some(Fault::Truncated)),
        (v4[..at].to_vec(), Some(Fault::Truncated)),
        // The IP packet ends before its frame does, as short packets on Ethernet.
        (with(ETHERNET + 3, 39), Some(Fault::Truncated)),
        (with(ETHERNET + 6, 0x20), Some(Fault::Fragment)),
        (with(ETHERNET + 7, 0x01), Some(Fault::Fragment)),
        (Packet::v6().with_fragment_header(1).build(&good), Some(Fault::Fragment)),
        (Packet::v6().with_fragment_header(8).build(&good), Some(Fault::Fragment)),
        // Don't Fragment is no fragment.
        (with(ETHERNET + 6, 0x40), None),
    ];
    for (frame, fault) in table {
        let found = find(&frame, CARRIER).expect("one is expected there");
        assert_eq!(found.err(), fault, "{frame:?}");
    }
}

#[test]
fn packets_that_have_no_business_with_routers_are_left_alone() {
    let good = header(VERSION_XCP);
    let v4 = Packet::v4().build(&good);
    let with = |place: usize, value: u8| {
        let mut frame = v4.clone();
        frame[place] = value;
        frame
    };
    let table = [
        with(ETHERNET, 0x44),
        with(ETHERNET, 0x65),
        with(13, 0x06),
        v4[..ETHERNET + IPV4_HEADER - 1].to_vec(),
        v4[..ETHERNET].to_vec(),
        v4[..3].to_vec(),
        Vec::new(),
        Packet::v6().with_extensions(&[0]).build(&good)[..ETHERNET + IPV6_HEADER].to_vec(),
        Packet::v4().with_tags(&[0x8100; 4]).build(&good),
    ];
    for frame in table {
        assert_eq!(find(&frame, CARRIER), None, "{frame:?}");
    }
    let other = Carrier { protocol: 254, port: None, option: 254 };
    assert_eq!(find(&v4, other), None);
    assert!(find(&with(ETHERNET + 9, 254), other).is_some());
}

#[test]
fn a_rewritten_header_differs_in_its_feedback_only() {
    let header = header(VERSION_XCP);
    for packet in [Packet::v4().with_tags(&[0x8100]), Packet::v6().with_extensions(&[60])] {
        let mut frame = packet.build(&header);
        let found = find(&frame, CARRIER).unwrap().unwrap();
        let place = found.place.unwrap();
        rewrite(&mut frame, place, 0xdead_beef);
        let mut expected = packet.build(&header);
        let at = usize::from(place.at) - FEEDBACK.start;
        expected[at..at + HEADER_BYTES].copy_from_slice(&encode(&Header { feedback: 0xdead_beef, ..header }));
        assert_eq!(frame, expected);
    }
}

/// Rewrites the header of a frame with this feedback; returns where the header's checksum is.
fn rewrite_with(frame: &mut [u8], feedback: u32) -> usize {
    let place = find(frame, CARRIER).unwrap().unwrap().place.unwrap();
    rewrite(frame, place, feedback);
    match place.sum {
        Sum::None => panic!("no checksum covers it"),
        Sum::Udp(at) | Sum::Tcp(at) => at.into(),
    }
}

#[test]
fn the_checksum_of_udp_stays_right_or_absent() {
    let header = header(VERSION_RCP);
    for packet in [Packet::v4().in_udp(4000), Packet::v6().in_udp(4000)] {
        let mut frame = packet.build(&header);
        for feedback in (0..100_000u32).map(|k| k.wrapping_mul(0x9e37_79b9)) {
            let sum = rewrite_with(&mut frame, feedback);
            assert_eq!(transport_sum(&frame), 0xffff, "{feedback:x}");
            assert_ne!(frame[sum..sum + 2], [0, 0]);
        }
        let sum = rewrite_with(&mut frame, 0);
        frame[sum..sum + 2].fill(0);
        rewrite_with(&mut frame, 7);
        assert_eq!(frame[sum..sum + 2], [0, 0]);
    }
}

#[test]
fn the_checksum_of_tcp_stays_right_wherever_the_option_begins() {
    let header = header(VERSION_XCP);
    for padding in 0..=20 {
        for packet in [Packet::v4().in_tcp(padding), Packet::v6().in_tcp(padding)] {
            let mut frame = packet.build(&header);
            for feedback in (0..10_000u32).map(|k| k.wrapping_mul(0x9e37_79b9)) {
                rewrite_with(&mut frame, feedback);
                assert_eq!(transport_sum(&frame), 0xffff, "{padding} {feedback:x}");
            }
            // Whatever the checksum was: also where the sum is zero.
            for difference in 0..=u16::MAX {
                rewrite_with(&mut frame, u32::from(difference) << 8);
            }
            rewrite_with(&mut frame, header.feedback);
            assert_eq!(frame, packet.build(&header));
        }
    }
}

#[test]
fn what_is_wrong_with_an_option_has_a_name_and_other_options_pass() {
    let (option, _) = encode_option(&header(VERSION_RCP), OPTION_KIND).unwrap();
    let tcp = ETHERNET + IPV4_HEADER;
    // The header of TCP with these options, and with this many words.
    let with = |options: &[u8], words: usize| {
        let mut frame = Packet::v4().in_tcp(20).build(&header(VERSION_RCP));
        frame[tcp + 12] = (words << 4) as u8;
        frame[tcp + 20..tcp + 60].fill(1);
        frame[tcp + 20..tcp + 20 + options.len()].copy_from_slice(options);
        frame
    };
    let changed = |place: usize, value: u8| {
        let mut option = option;
        option[place] = value;
        with(&option, 10)
    };
    let minimal = Header { reverse: 9, ..Header::new(VERSION_RCP, Format::Minimal) };
    let (answer, length) = encode_option(&minimal, OPTION_KIND).unwrap();
    let table = [
        (with(&option, 10), Some(Ok(header(VERSION_RCP)))),
        (with(&answer[..length], 7), Some(Ok(minimal))),
        (changed(1, 19), Some(Err(Fault::Length))),
        (changed(1, 4), Some(Err(Fault::Length))),
        (changed(1, 21), Some(Err(Fault::Truncated))),
        (with(&option, 9), Some(Err(Fault::Truncated))),
        (with(&option, 6), Some(Err(Fault::Truncated))),
        // Too short for an identifier, another identifier, another kind, the end of the options, a
        // wrong option before.
        (changed(1, 3), None),
        (changed(3, 0x59), None),
        (changed(0, 254), None),
        (with(&[&[0], &option[..]].concat(), 15), None),
        (with(&[&[8, 1], &option[..]].concat(), 15), None),
        (with(&[&[8, 0], &option[..]].concat(), 15), None),
        (with(&[&[8, 255], &option[..]].concat(), 15), None),
        // Timestamps before it; none in a header without options or with fewer words than it must have.
        (with(&[&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2], &option[..]].concat(), 15), Some(Ok(header(VERSION_RCP)))),
        (with(&option, 5), None),
        (with(&option, 0), None),
    ];
    for (k, (frame, expected)) in table.iter().enumerate() {
        assert_eq!(find(frame, CARRIER).map(|found| found.map(|found| found.header)), *expected, "{k}");
    }
    let mut fragment = with(&option, 10);
    fragment[ETHERNET + 6] = 0x20;
    assert_eq!(find(&fragment, CARRIER), Some(Err(Fault::Fragment)));
    // What follows in a later fragment is no header of TCP.
    fragment[ETHERNET + 7] = 1;
    assert_eq!(find(&fragment, CARRIER), None);
    // The IP packet ends within the option.
    let mut cut = with(&option, 10);
    cut[ETHERNET + 3] = (IPV4_HEADER + 20 + OPTION_BYTES - 1) as u8;
    assert_eq!(find(&cut, CARRIER), Some(Err(Fault::Truncated)));
}

#[test]
fn no_bytes_make_the_parser_panic_or_rewrite_anything_else() {
    let mut rng = Pcg64Mcg::seed_from_u64(17);
    let bases = Packet::all().map(|packet| packet.build(&header(VERSION_XCP)));
    for case in 0..cases(3_000_000) {
        let mut frame = bases[rng.random_range(0..bases.len())].clone();
        if case % 4 == 0 {
            rng.fill(&mut frame[12..]);
        }
        for _ in 0..rng.random_range(0..6) {
            let place = rng.random_range(12..frame.len());
            frame[place] = rng.random();
        }
        frame.truncate(rng.random_range(0..2 * frame.len()));
        let Some(Ok(found)) = find(&frame, CARRIER) else { continue };
        let Some(place) = found.place else { continue };
        let (before, feedback) = (frame.clone(), rng.random());
        rewrite(&mut frame, place, feedback);
        let again = find(&frame, CARRIER).unwrap().unwrap();
        assert_eq!(again, Found { header: Header { feedback, ..found.header }, ..found });
        rewrite(&mut frame, place, found.header.feedback);
        if frame == before {
            continue;
        }
        // A checksum of zero and one of all ones are the same.
        let (Sum::Udp(at) | Sum::Tcp(at)) = place.sum else { panic!("{before:?}") };
        let sum = usize::from(at)..usize::from(at) + 2;
        let [one, other] = [&frame, &before].map(|frame| frame[sum.clone()].to_vec());
        assert!([one, other].iter().all(|sum| sum == &[0; 2] || sum == &[0xff; 2]), "{before:?}");
        frame[sum.clone()].copy_from_slice(&before[sum]);
        assert_eq!(frame, before);
    }
}

#[test]
fn formats_without_feedback_are_found_too() {
    let minimal = Header::new(VERSION_XCP, Format::Minimal);
    assert_eq!(found(&Packet::v4().build(&minimal)), Some(Ok((minimal, false))));
}

#[test]
fn segments_of_tcp_are_told_from_other_packets() {
    let header = header(VERSION_XCP);
    let bare =
        || [Packet::v4(), Packet::v6(), Packet::v4().with_options(4), Packet::v6().with_extensions(&[0])];
    for packet in bare() {
        assert!(is_tcp(&packet.in_tcp(0).build(&header)));
    }
    for packet in bare().into_iter().chain([Packet::v4().in_udp(5)]) {
        assert!(!is_tcp(&packet.build(&header)));
    }
    assert!(!is_tcp(&[]));
}
