use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Times in nanoseconds and frame lengths without check sequence.
const FRAMES: [(u64, u32); 3] =
    [(1_700_000_000_000_001_000, 1_514), (1_700_000_000_000_014_000, 60), (1_700_000_001_500_000_000, 1_000)];

fn put(out: &mut Vec<u8>, value: u32, big_endian: bool) {
    out.extend(if big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
}

/// Creates a pcap file that keeps at most 64 bytes of each packet.
fn classic(frames: &[(u64, u32)], nanoseconds: bool, big_endian: bool) -> Vec<u8> {
    let (magic, unit) = if nanoseconds { (0xa1b2_3c4d, 1) } else { (0xa1b2_c3d4, 1_000) };
    let mut out = Vec::new();
    for value in [magic, 0x0004_0002, 0, 0, 64, 1] {
        put(&mut out, value, big_endian);
    }
    for (at, length) in frames {
        let kept = (*length).min(64);
        for value in [(at / 1_000_000_000) as u32, (at % 1_000_000_000 / unit) as u32, kept, *length] {
            put(&mut out, value, big_endian);
        }
        out.resize(out.len() + kept as usize, 0);
    }
    out
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8], big_endian: bool) {
    let length = body.len().next_multiple_of(4) + 12;
    put(out, kind, big_endian);
    put(out, length as u32, big_endian);
    out.extend(body);
    out.resize(out.len().next_multiple_of(4), 0);
    put(out, length as u32, big_endian);
}

/// Creates a pcapng file with one interface whose timestamps are in nanoseconds.
fn pcapng(frames: &[(u64, u32)], big_endian: bool) -> Vec<u8> {
    let words = |values: &[u32]| {
        let mut body = Vec::new();
        values.iter().for_each(|value| put(&mut body, *value, big_endian));
        body
    };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut out = Vec::new();
    block(&mut out, 0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]), big_endian);
    let mut interface = [half(1), half(0), half(0), half(0), half(9), half(1)].concat();
    interface.extend([9, 0, 0, 0]);
    block(&mut out, 1, &interface, big_endian);
    // Blocks of other types are skipped.
    block(&mut out, 5, &words(&[0; 3]), big_endian);
    for (at, length) in frames {
        let mut body = words(&[0, (at >> 32) as u32, *at as u32, 3, *length]);
        body.extend([0; 3]);
        block(&mut out, 6, &body, big_endian);
    }
    out
}

/// Reads everything: times since the first packet, and original lengths.
fn parsed(contents: &[u8]) -> Vec<(i64, u32)> {
    let mut reader = Reader::new(contents);
    let (mut packets, mut first) = (Vec::new(), None);
    while let Next::Packet(packet) = reader.next().unwrap() {
        packets.push(((packet.at - *first.get_or_insert(packet.at)).ns(), packet.length));
    }
    packets
}

/// Reads everything: original lengths, and 0 for odd records.
fn lengths(contents: &[u8]) -> Vec<u32> {
    let mut reader = Reader::new(contents);
    let mut lengths = Vec::new();
    loop {
        match reader.next().unwrap() {
            Next::Packet(packet) => lengths.push(packet.length),
            Next::OddRecord => lengths.push(0),
            Next::Pending => panic!("memory is never pending"),
            Next::End => return lengths,
        }
    }
}

/// Reads until the first error.
fn refusal(contents: &[u8]) -> String {
    let mut reader = Reader::new(contents);
    loop {
        match reader.next() {
            Ok(Next::Packet(_) | Next::OddRecord) => {}
            Ok(end) => panic!("no error before {end:?}"),
            Err(error) => return error.to_string(),
        }
    }
}

/// A stream that arrives in parts, with a pause before each.
struct Trickle {
    parts: VecDeque<Vec<u8>>,
    paused: bool,
}

impl Read for Trickle {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.paused = !self.paused;
        if self.paused {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let part = self.parts.pop_front().unwrap_or_default();
        out[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}

#[test]
fn all_formats_give_the_same_packets() {
    let expected = [(0, 1_514), (13_000, 60), (1_499_999_000, 1_000)];
    for big_endian in [false, true] {
        assert_eq!(parsed(&classic(&FRAMES, false, big_endian)), expected);
        assert_eq!(parsed(&classic(&FRAMES, true, big_endian)), expected);
        assert_eq!(parsed(&pcapng(&FRAMES, big_endian)), expected);
    }
}

/// Changes numbers of a pcap file's header, and moves every record of it to a longer header or
/// exchanges its lengths.
fn variant(magic: u32, version: [u16; 2], extra: usize, exchanged: bool, big_endian: bool) -> Vec<u8> {
    let plain = classic(&FRAMES, false, big_endian);
    let mut out = Vec::new();
    put(&mut out, magic, big_endian);
    for half in version {
        out.extend(if big_endian { half.to_be_bytes() } else { half.to_le_bytes() });
    }
    out.extend(&plain[8..24]);
    let mut rest = &plain[24..];
    for (_, length) in FRAMES {
        let (record, next) = rest.split_at(16 + length.min(64) as usize);
        out.extend(&record[..8]);
        let lengths =
            if exchanged { [&record[12..16], &record[8..12]] } else { [&record[8..12], &record[12..16]] };
        out.extend(lengths.concat());
        out.resize(out.len() + extra, 7);
        out.extend(&record[16..]);
        rest = next;
    }
    out
}

#[test]
fn old_and_modified_versions_give_the_same_packets() {
    let expected = parsed(&classic(&FRAMES, false, false));
    for big_endian in [false, true] {
        let read =
            |magic, version, extra, exchanged| parsed(&variant(magic, version, extra, exchanged, big_endian));
        for (version, exchanged) in [
            ([2, 4], false),
            ([2, 3], false),
            ([2, 3], true),
            ([2, 2], true),
            ([2, 1], true),
            ([543, 0], true),
        ] {
            assert_eq!(read(0xa1b2_c3d4, version, 0, exchanged), expected, "{version:?}");
        }
        assert_eq!(read(0xa1b2_cd34, [2, 4], 8, false), expected);
    }
}

#[test]
fn nanoseconds_in_a_file_of_microseconds_are_read_as_such() {
    // The first fraction could be microseconds, and is not alone.
    let with = |fractions: &[u32]| {
        let frames = vec![(0, 60); fractions.len()];
        let mut file = classic(&frames, false, false);
        for (k, fraction) in fractions.iter().enumerate() {
            file[24 + k * 76 + 4..][..4].copy_from_slice(&fraction.to_le_bytes());
        }
        file
    };
    assert_eq!(
        parsed(&with(&[1_000_000, 2_000_001, 999_999_999])),
        [(0, 60), (1_000_001, 60), (998_999_999, 60)]
    );
    assert_eq!(parsed(&with(&[5_000_000])), [(0, 60)]);
    // Behind enough of them a small fraction is one of nanoseconds, too.
    let many = [&[500_000_000; 8][..], &[7]].concat();
    assert_eq!(lengths(&with(&many)).len(), 9);
    assert_eq!(parsed(&with(&many))[8].0, 7 - 500_000_000);
    // Otherwise they are odd.
    assert_eq!(lengths(&with(&[5_000_000, 7])), [0, 60]);
    assert_eq!(lengths(&with(&[7, 5_000_000])), [60, 0]);
    assert_eq!(lengths(&with(&[1_000_000_000, 5_000_000])), [0, 0]);
}

#[test]
fn times_are_those_since_1970() {
    for contents in [classic(&FRAMES, true, true), pcapng(&FRAMES, false)] {
        let mut reader = Reader::new(&contents[..]);
        let Ok(Next::Packet(packet)) = reader.next() else { panic!("no packet") };
        assert_eq!(packet.at.ns(), FRAMES[0].0);
    }
}

#[test]
fn a_packet_is_available_as_soon_as_it_has_arrived() {
    for contents in [classic(&FRAMES, true, false), pcapng(&FRAMES, true)] {
        // Byte by byte: before every byte there is a pause.
        let parts = contents.iter().map(|byte| vec![*byte]).collect();
        let mut reader = Reader::new(Trickle { parts, paused: false });
        let (mut lengths, mut pauses) = (Vec::new(), 0);
        loop {
            match reader.next().unwrap() {
                Next::Packet(packet) => lengths.push(packet.length),
                Next::Pending => pauses += 1,
                Next::OddRecord => panic!("an odd record"),
                Next::End => break,
            }
        }
        assert_eq!(lengths, FRAMES.map(|(_, length)| length));
        assert_eq!(pauses, contents.len() + 1, "a pause before every byte and before the end");
    }
}

/// An interface description block's body with options.
fn interface(link: u16, options: &[(u16, &[u8])], big_endian: bool) -> Vec<u8> {
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut body = [half(link), half(0), half(0), half(0)].concat();
    for (code, value) in options {
        body.extend([half(*code), half(value.len() as u16)].concat());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    body
}

fn packet(interface: u32, stamp: u64, length: u32, big_endian: bool) -> Vec<u8> {
    let mut body = Vec::new();
    for value in [interface, (stamp >> 32) as u32, stamp as u32, 0, length] {
        put(&mut body, value, big_endian);
    }
    body
}

#[test]
fn interfaces_have_their_own_clocks_and_link_layers() {
    for big_endian in [false, true] {
        let mut out = Vec::new();
        let mut header = Vec::new();
        for value in [0x1a2b_3c4d, 1, u32::MAX, u32::MAX] {
            put(&mut header, value, big_endian);
        }
        block(&mut out, 0x0a0d_0d0a, &header, big_endian);
        let offset = if big_endian { 100i64.to_be_bytes() } else { 100i64.to_le_bytes() };
        block(&mut out, 1, &interface(1, &[(2, b"eth0")], big_endian), big_endian);
        // Units of 2^-10 s and an offset of 100 s; frames with a check sequence.
        let options: [(u16, &[u8]); 3] = [(9, &[0x80 | 10]), (14, &offset), (13, &[4])];
        block(&mut out, 1, &interface(276, &options, big_endian), big_endian);
        // Names, statistics and a block of an unknown type, longer than the buffer, are skipped.
        for (kind, length) in [(4, 40), (5, 12), (0x7abc, 1 << 20)] {
            block(&mut out, kind, &vec![0xff; length], big_endian);
        }
        block(&mut out, 6, &packet(0, 2_000_000, 70, big_endian), big_endian);
        block(&mut out, 6, &packet(1, 1 << 10, 80, big_endian), big_endian);
        let mut reader = Reader::new(&out[..]);
        let mut found = Vec::new();
        while let Next::Packet(packet) = reader.next().unwrap() {
            found.push((packet.at.ns(), packet.length, packet.interface, packet.link, packet.check_sequence));
        }
        assert_eq!(
            found,
            [(2_000_000_000, 70, 0, Link::Ethernet, false), (101_000_000_000, 80, 1, Link::Cooked2, true)]
        );
    }
}

#[test]
fn errors_name_the_place_and_the_next_step() {
    let whole = classic(&FRAMES, false, false);
    assert_eq!(refusal(&whole[..whole.len() - 1]), "it ends at byte 196: 64 bytes are expected, 63 are left");
    assert_eq!(refusal(&whole[..30]), "it ends at byte 24: 16 bytes are expected, 6 are left");
    assert_eq!(refusal(b""), "it ends at byte 0: 4 bytes are expected, 0 are left");
    assert!(
        refusal(&[7; 100]).contains("at byte 0: it is neither pcap nor pcapng; convert it with `editcap")
    );
    assert!(refusal(&[0x1f, 0x8b, 8, 0, 0]).contains("it is compressed; unpack it first"));
    let mut too_long = whole;
    too_long[24 + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(refusal(&too_long).contains("at byte 32: a packet of 1514 bytes, 4294967295 of them captured"));

    let mut next = pcapng(&FRAMES, false);
    assert!(refusal(&next[..next.len() - 1]).contains("36 bytes are expected, 35 are left"));
    let last = next.len() - 4;
    next[last] ^= 4;
    assert!(
        refusal(&next).contains(&format!("at byte {last}: the two lengths of a block differ: 36 and 32"))
    );
    next[last] ^= 4;
}

#[test]
fn odd_records_are_skipped_and_the_rest_is_read() {
    for (nanoseconds, unit) in [(false, 1_000_000u32), (true, 1_000_000_000)] {
        let mut odd = classic(&FRAMES, nanoseconds, false);
        // The second record's fraction of a second, then its length.
        odd[24 + 16 + 64 + 4..][..4].copy_from_slice(&unit.to_le_bytes());
        assert_eq!(lengths(&odd), [1_514, 0, 1_000]);
        odd[24 + 16 + 64 + 4..][..4].copy_from_slice(&(unit - 1).to_le_bytes());
        assert_eq!(lengths(&odd), [1_514, 60, 1_000]);
        odd[24 + 16 + 64 + 12..][..4].fill(0);
        assert_eq!(lengths(&odd), [1_514, 0, 1_000]);
    }
    for big_endian in [false, true] {
        let whole = pcapng(&FRAMES, big_endian);
        // Every packet's block has 36 bytes; the second is 72 bytes before the end.
        let at = whole.len() - 72;
        let with = |at: usize, value: u32| {
            let bytes = if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            let mut changed = whole.clone();
            changed[at..][..4].copy_from_slice(&bytes);
            lengths(&changed)
        };
        assert_eq!(with(at, 6), [1_514, 60, 1_000]);
        // A simple packet block, an unknown interface, more bytes captured than there are, and no bytes.
        for (at, value) in [(at, 3), (at + 8, 1), (at + 20, 5), (at + 20, u32::MAX), (at + 24, 0)] {
            assert_eq!(with(at, value), [1_514, 0, 1_000], "{value} at {at}");
        }
        // An obsolete packet block: 16 bits of interface, and as many of lost packets.
        assert_eq!(with(at, 2), [1_514, 60, 1_000]);
    }
}

#[test]
fn packets_of_an_interface_with_an_impossible_clock_are_odd() {
    let mut out = Vec::new();
    let mut header = Vec::new();
    for value in [0x1a2b_3c4d, 1, u32::MAX, u32::MAX] {
        put(&mut header, value, false);
    }
    block(&mut out, 0x0a0d_0d0a, &header, false);
    block(&mut out, 1, &interface(1, &[(9, &[99])], false), false);
    block(&mut out, 1, &interface(1, &[], false), false);
    block(&mut out, 6, &packet(0, 5, 70, false), false);
    block(&mut out, 6, &packet(1, u64::MAX, 70, false), false);
    block(&mut out, 6, &packet(1, 5, 80, false), false);
    assert_eq!(lengths(&out), [0, 0, 80]);
}

proptest! {
    #[test]
    fn what_is_written_is_read_in_every_format(
        gaps in proptest::collection::vec((0u64..10_000_000, 60u32..9_000), 1..50), big_endian: bool,
    ) {
        let mut at = 1_700_000_000_000_000_000;
        let frames: Vec<(u64, u32)> = gaps.iter().map(|(gap, length)| { at += gap; (at, *length) }).collect();
        let expected: Vec<(i64, u32)> =
            frames.iter().map(|(at, length)| ((at - frames[0].0) as i64, *length)).collect();
        prop_assert_eq!(parsed(&classic(&frames, true, big_endian)), expected.clone());
        prop_assert_eq!(parsed(&pcapng(&frames, big_endian)), expected);
    }
}
