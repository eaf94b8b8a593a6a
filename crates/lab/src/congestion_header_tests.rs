use headway_core::explicit::{Format, HEADER_BYTES, VERSION_RCP, VERSION_XCP, encode};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::testing::{Packet, cases, header, udp_sum};

const CARRIER: Carrier = Carrier { protocol: 253, port: Some(4000) };

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
        with(ETHERNET + 9, 6),
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
    let other = Carrier { protocol: 254, port: None };
    assert_eq!(find(&v4, other), None);
    assert!(find(&with(ETHERNET + 9, 254), other).is_some());
}

#[test]
fn a_rewritten_header_differs_in_its_feedback_only() {
    let header = header(VERSION_XCP);
    for packet in [Packet::v4().with_tags(&[0x8100]), Packet::v6().with_extensions(&[60])] {
        let mut frame = packet.build(&header);
        let found = find(&frame, CARRIER).unwrap().unwrap();
        rewrite(&mut frame, found.place, 0xdead_beef);
        let mut expected = packet.build(&header);
        let at = usize::from(found.place.at);
        expected[at..at + HEADER_BYTES].copy_from_slice(&encode(&Header { feedback: 0xdead_beef, ..header }));
        assert_eq!(frame, expected);
    }
}

#[test]
fn the_checksum_of_udp_stays_right_or_absent() {
    let header = header(VERSION_RCP);
    for packet in [Packet::v4().in_udp(4000), Packet::v6().in_udp(4000)] {
        for feedback in (0..100_000u32).map(|k| k.wrapping_mul(0x9e37_79b9)) {
            let mut frame = packet.build(&header);
            let found = find(&frame, CARRIER).unwrap().unwrap();
            let sum = usize::from(found.place.at) - 2;
            rewrite(&mut frame, found.place, feedback);
            assert_eq!(udp_sum(&frame), 0xffff, "{feedback:x}");
            assert_ne!(frame[sum..sum + 2], [0, 0]);
        }
        let mut frame = packet.build(&header);
        let found = find(&frame, CARRIER).unwrap().unwrap();
        let sum = usize::from(found.place.at) - 2;
        frame[sum..sum + 2].fill(0);
        rewrite(&mut frame, found.place, 7);
        assert_eq!(frame[sum..sum + 2], [0, 0]);
    }
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
        let (before, feedback) = (frame.clone(), rng.random());
        rewrite(&mut frame, found.place, feedback);
        let again = find(&frame, CARRIER).unwrap().unwrap();
        assert_eq!(again, Found { header: Header { feedback, ..found.header }, ..found });
        rewrite(&mut frame, found.place, found.header.feedback);
        let at = usize::from(found.place.at);
        let (sum, changed) = if found.place.udp { (at - 2..at, true) } else { (0..0, false) };
        // A checksum of zero and one of all ones are the same.
        assert!(
            frame == before || changed && frame[sum.clone()] == [0xff; 2] && before[sum] == [0, 0],
            "{before:?}"
        );
    }
}

#[test]
fn formats_without_feedback_are_found_too() {
    let minimal = Header::new(VERSION_XCP, Format::Minimal);
    assert_eq!(found(&Packet::v4().build(&minimal)), Some(Ok((minimal, false))));
}
