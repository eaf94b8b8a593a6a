//! Input that is cut, changed and forged, case by case from a seed: nothing panics, and
//! every packet is counted.
//!
//! `HEADWAY_CASES=1000000` runs as many cases of each kind instead of 20 000.

use crate::support::{Bulk, Pcap, Pcapng, Random, SYN_OPTIONS, Tcp};
use headway_capture::{Link, Next, Packet, ReadError, Reader};
use headway_passive::{Options, Skipped, Tracker, headers};
use headway_units::Instant;

fn cases() -> u64 {
    std::env::var("HEADWAY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20_000)
}

/// Numbers that lengths, counts and offsets like to fail at.
const EDGES: [u32; 14] =
    [0, 1, 3, 4, 12, 15, 20, 0x7fff, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX - 3, u32::MAX];

/// Numbers of link layers: all that are read, Ethernet more often, and one that is not.
const LINKS: [u16; 16] = [1, 1, 1, 101, 113, 276, 0, 9, 166, 51, 104, 239, 147, 105, 127, 192];

/// Changes some bytes, writes edge numbers, inserts, removes and cuts.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => {
                let edge = EDGES[random.below(EDGES.len() as u64) as usize];
                let edge = if random.chance(2) { edge.to_le_bytes() } else { edge.to_be_bytes() };
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&edge[..end - at]);
            }
            3 => bytes.truncate(at),
            4 => {
                let end = (at + random.below(40) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let more: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
                bytes.splice(at..at, more);
            }
        }
    }
}

/// A small tracker, so that its tables overflow.
fn small() -> Options {
    Options { connections: 8, paths: 4, memory: 64 << 10, ..Options::default() }
}

/// A few packets of several kinds, with link layers and fragments.
fn frames(random: &mut Random) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for _ in 0..=random.below(6) {
        frames.push(frame(random));
    }
    frames
}

fn frame(random: &mut Random) -> Vec<u8> {
    let v6 = random.chance(2);
    let (a, b) = if v6 { ("2001:db8::1", "2001:db8:0:9::2") } else { ("192.0.2.1", "198.51.100.2") };
    let (a, b) = if random.chance(2) { (a, b) } else { (b, a) };
    let port = 1 + random.below(12) as u16;
    let mut tcp = Tcp::new((a, port), (b, port));
    tcp.sequence = EDGES[random.below(14) as usize].wrapping_add(random.below(3_000) as u32);
    tcp.acknowledgement = (!random.chance(4)).then(|| random.next() as u32);
    tcp.window = random.next() as u16;
    tcp.payload = if random.chance(2) { random.below(70_000) as u32 } else { 0 };
    (tcp.syn, tcp.fin) = (random.chance(6), random.chance(9));
    if tcp.syn {
        tcp.options = SYN_OPTIONS.to_vec();
    } else if random.chance(2) {
        tcp.options = (0..random.below(40)).map(|_| EDGES[random.below(14) as usize] as u8).collect();
    }
    let (mut frame, _) = tcp.ethernet();
    wrap(&mut frame, v6, random);
    match random.below(8) {
        // A fragment: the first, or one that overlaps it.
        0 if !v6 => frame[20..22].copy_from_slice(&(0x2000 | random.below(3) as u16).to_be_bytes()),
        1 if v6 => {
            frame[20] = 44;
            frame.splice(54..54, [6, 0, 0, random.below(16) as u8, 0, 0, 0, 1]);
        }
        2 => {
            frame.splice(12..12, [0x81, 0, 0, 7]);
        }
        _ => {}
    }
    frame
}

/// Puts what is behind the Ethernet addresses into some tunnels and tags.
fn wrap(frame: &mut Vec<u8>, v6: bool, random: &mut Random) {
    let outer = |protocol: u8| {
        let mut header = vec![8, 0, 0x45, 0, 5, 0xdc, 0, 0, 0, 0, 64, protocol, 0, 0];
        header.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        header
    };
    for _ in 0..random.below(6) / 2 {
        let kind = [frame[12], frame[13]];
        let ip = kind == [8, 0] || kind == [0x86, 0xdd];
        let bits = random.next() as u8;
        let optional = vec![0; (bits & 0xb0).count_ones() as usize * 4];
        let udp = |port: u16, more: &[u8]| {
            [&outer(17)[..], &[0, 7], &port.to_be_bytes(), &[5, 0, 0, 0], more].concat()
        };
        // What comes before the EtherType (12) or before what it announces (14).
        let (head, at) = match random.below(13) {
            0 => (vec![0x88, 0xa8, 0, bits], 12),
            1 => (vec![0x92, 0, 0, bits], 12),
            2 if ip => (vec![0x88, 0x64, 0x11, 0, 0, 1, 5, 0, 0, if v6 { 0x57 } else { 0x21 }], 14),
            3 if ip => (vec![0x88, 0x47, 0, 0, bits & 0xf0, 64, 0, 0, 1, 64], 14),
            4 => ([&outer(47)[..], &[bits & 0xb0, 0], &kind, &optional].concat(), 14),
            5 => (udp(4_789, &[8, 0, 0, 0, 0, 0, 7, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]), 12),
            6 => (udp(6_081, &[0, 0, 0x65, 0x58, 0, 0, 7, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]), 12),
            7 if ip => (udp(2_152, &[0x30 | bits & 7, 255, 0, 0, 0, 0, 0, 1]), 14),
            9 => (udp(1_701, &[bits & 0x4a, 2 | bits & 1, 0, 0, 0, 0, 0, 1, 0xff, 3]), 14),
            10 => ([&[2; 12][..], &outer(115), &[0, 0, 0, bits]].concat(), 0),
            11 => ([&[2; 12][..], &outer(47), &[0x20, 1, 0x64, 0, 0, 0, 0, bits]].concat(), 0),
            8 if ip => (outer(if kind == [8, 0] { 4 } else { 41 }), 14),
            _ => (vec![0, 99, 0xaa, 0xaa, 3, 0, 0, 0], 12),
        };
        let rest = frame.split_off(at);
        frame.truncate(12);
        frame.extend(head);
        frame.extend(rest);
    }
}

/// Reads a file to its end or first error and checks that everything is accounted for.
fn read(bytes: &[u8]) -> (u64, Option<ReadError>) {
    let mut tracker = Tracker::new(&small());
    let mut reader = Reader::new(bytes);
    let mut packets = 0;
    let error = loop {
        match reader.next() {
            Ok(Next::Packet(packet)) => {
                assert!(packet.data.len() <= bytes.len());
                packets += 1;
                tracker.packet(&packet, None);
            }
            Ok(Next::OddRecord) => {
                packets += 1;
                tracker.odd_record();
            }
            Ok(Next::Pending) => panic!("memory is never pending"),
            Ok(Next::End) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(reader.position() <= bytes.len() as u64);
    accounted(&mut tracker, packets);
    (packets, error)
}

/// Checks that every packet was used or skipped for a reason, and that reports can be made.
fn accounted(tracker: &mut Tracker, packets: u64) {
    tracker.finish();
    let counts = *tracker.counts();
    let skipped: u64 = Skipped::ALL.into_iter().map(|reason| counts.skipped(reason)).sum();
    assert_eq!((counts.packets, counts.used + skipped), (packets, packets));
    tracker.end_interval();
    assert!(tracker.paths().len() <= 6);
    assert!(tracker.flows().len() <= 16);
}

#[test]
fn changed_pcap_files_are_read_or_refused() {
    let mut random = Random(1);
    let (mut whole, mut refused, mut packets) = (0, 0, 0);
    for _ in 0..cases() {
        let mut file = Pcap::new(LINKS[random.below(LINKS.len() as u64) as usize].into());
        for frame in frames(&mut random) {
            file.push(random.next() >> random.below(60), &frame, frame.len() as u32);
        }
        match random.below(6) {
            // As on a machine of the other byte order: headers that make no sense.
            0 => file.bytes[..4].reverse(),
            // Microseconds, longer headers, and versions before the lengths changed places.
            1 => file.bytes[..4].copy_from_slice(&0xa1b2_c3d4u32.to_le_bytes()),
            2 => file.bytes[..4].copy_from_slice(&0xa1b2_cd34u32.to_le_bytes()),
            3 => file.bytes[6] = random.below(4) as u8,
            _ => {}
        }
        mutate(&mut file.bytes, &mut random);
        let (found, error) = read(&file.bytes);
        packets += found;
        *if error.is_some() { &mut refused } else { &mut whole } += 1;
    }
    assert!(whole > 0 && refused > 0 && packets > 0, "{whole} read, {refused} refused, {packets} packets");
}

#[test]
fn changed_pcapng_files_are_read_or_refused() {
    let mut random = Random(2);
    let (mut whole, mut refused, mut packets) = (0, 0, 0);
    for _ in 0..cases() {
        let mut file = Pcapng::new(1);
        file.interface(LINKS[random.below(LINKS.len() as u64) as usize]);
        for frame in frames(&mut random) {
            if random.chance(4) {
                let kind =
                    [4, 5, 3, 2, 0xbad, 9, 10, 0x4000_0bad, 0x8000_0001, 77][random.below(10) as usize];
                file.block(kind, &frame[..random.below(frame.len() as u64) as usize]);
            }
            let at = random.next() >> random.below(60);
            file.push(random.below(3) as u32, at, &frame, frame.len() as u32);
        }
        if !random.chance(8) {
            mutate(&mut file.bytes, &mut random);
        }
        let (found, error) = read(&file.bytes);
        packets += found;
        *if error.is_some() { &mut refused } else { &mut whole } += 1;
    }
    assert!(whole > 0 && refused > 0 && packets > 0, "{whole} read, {refused} refused, {packets} packets");
}

#[test]
fn changed_headers_are_used_or_named() {
    let mut random = Random(3);
    let (mut used, mut named) = (0u64, [0u64; Skipped::ALL.len()]);
    for _ in 0..cases() {
        let mut data = frame(&mut random);
        let link = if random.chance(3) {
            Link::from_number(LINKS[random.below(LINKS.len() as u64) as usize])
        } else {
            Link::Ethernet
        };
        if link == Link::Raw {
            data.drain(..14);
        }
        let length = if random.chance(4) { random.next() as u32 } else { data.len() as u32 };
        if !random.chance(4) {
            mutate(&mut data, &mut random);
        }
        let at = Instant::from_ns(random.next());
        let packet =
            Packet { at, data: &data, length, interface: 0, link, check_sequence: false, declared: 0 };
        match headers::parse(&packet) {
            Ok(tcp) => {
                used += 1;
                assert!(
                    (tcp.segment.cut || tcp.segment.headers as usize <= data.len())
                        && tcp.segment.window_scale.is_none_or(|shift| shift <= 14)
                );
            }
            Err(reason) => named[reason as usize] += 1,
        }
    }
    assert!(used > 0);
    let of_others = [Skipped::Copy, Skipped::WrongStamp, Skipped::OddRecord, Skipped::Filtered];
    for reason in Skipped::ALL.into_iter().filter(|reason| !of_others.contains(reason)) {
        assert!(named[reason as usize] > 0, "never {}", reason.name());
    }
}

#[test]
fn forged_segments_and_clock_steps_are_survived() {
    let transfer = Bulk {
        client: ("192.0.2.1", 4_000),
        server: ("198.51.100.2", 443),
        at: 1_000_000_000,
        rtt: 5_000_000,
        gap: 246_080,
        segments: 60,
    };
    let packets: Vec<(u64, Vec<u8>, u32)> =
        transfer.packets().iter().map(|(at, tcp)| (*at, tcp.ethernet().0, tcp.ethernet().1)).collect();
    let mut random = Random(4);
    let mut tracker = Tracker::new(&small());
    let (mut fed, mut shift) = (0, 0u64);
    for case in 0..cases() {
        // A start in the middle, packets lost, repeated and out of order, and a clock that steps.
        let begin = random.below(packets.len() as u64 - 1) as usize;
        for k in begin..(begin + 12).min(packets.len()) {
            let (at, data, length) = &packets[if random.chance(9) { begin } else { k }];
            let mut data = data.clone();
            if random.chance(12) {
                let at = 14 + random.below(data.len() as u64 - 14) as usize;
                data[at] = random.next() as u8;
            }
            if random.chance(40) {
                shift = random.next() >> random.below(60);
            }
            let at = Instant::from_ns(at.wrapping_add(shift).wrapping_add(case * 1_000_000));
            let interface = if random.chance(50) { random.next() as u32 } else { 0 };
            let packet = Packet {
                at,
                data: &data,
                length: *length,
                interface,
                link: Link::Ethernet,
                check_sequence: false,
                declared: 0,
            };
            tracker.packet(
                &packet,
                [None, Some(true), Some(false)]
                    [(random.below(30) as usize).min(2) * usize::from(random.chance(30))],
            );
            fed += 1;
        }
        if random.chance(100) {
            tracker.end_interval();
        }
    }
    assert!(tracker.clock().steps > 0 && tracker.counts().evicted > 0);
    accounted(&mut tracker, fed);
}
