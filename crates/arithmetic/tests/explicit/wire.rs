//! Congestion headers in packets, as kernel modules find them.

use headway_arithmetic::explicit::wire::{BYTES, Found, find, write};
use headway_arithmetic::explicit::{Format, Header, VERSION_RCP, VERSION_XCP};

use crate::support::Random;

const PROTOCOL: u8 = 253;
const TCP: u8 = 6;
/// How many random packets there are, unless `HEADWAY_CASES` says it.
const CASES: u32 = 1_000_000;

fn header(random: &mut Random) -> Header {
    let word = |random: &mut Random| random.next() as u32;
    Header {
        rtt: word(random),
        x: word(random),
        feedback: word(random),
        reverse: word(random),
        protocol: TCP,
        version: if random.next().is_multiple_of(2) { VERSION_XCP } else { VERSION_RCP },
        format: Format::Standard as u8,
        unused: 0,
    }
}

/// A packet of IPv4 with this many words of options.
fn ipv4(options: u8, payload: &[u8]) -> Vec<u8> {
    let length = 20 + 4 * usize::from(options);
    let mut packet = vec![0; length];
    packet[0] = 0x45 + options;
    packet[2..4].copy_from_slice(&((length + payload.len()) as u16).to_be_bytes());
    packet[9] = PROTOCOL;
    packet.extend(payload);
    packet
}

/// A packet of IPv6 with these extension headers, of 8 bytes each.
fn ipv6(extensions: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&((8 * extensions.len() + payload.len()) as u16).to_be_bytes());
    let mut chain = extensions.iter().copied().chain([PROTOCOL]);
    packet[6] = chain.next().unwrap_or(PROTOCOL);
    packet.extend(chain.flat_map(|next| [next, 0, 0, 0, 0, 0, 0, 0]));
    packet.extend(payload);
    packet
}

#[test]
fn a_header_is_found_behind_options_and_extensions_and_reads_as_it_was_written() {
    let mut random = Random(1);
    let header = header(&mut random);
    let mut payload = write(&header).to_vec();
    assert_eq!((payload[0], payload[1], payload[2] >> 4), (TCP, 20, header.version));
    payload.extend([0; 40]);
    for options in 0..=10 {
        let at = 20 + 4 * u32::from(options);
        assert_eq!(find(&ipv4(options, &payload)), Found::Header(header, at));
    }
    for extensions in [&[][..], &[0], &[0, 60, 43], &[44]] {
        let at = 40 + 8 * extensions.len() as u32;
        assert_eq!(find(&ipv6(extensions, &payload)), Found::Header(header, at));
    }
}

#[test]
fn what_is_no_header_is_told_apart() {
    let payload = write(&header(&mut Random(2)));
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = ipv4(0, &payload);
        change(&mut packet);
        find(&packet)
    };
    assert_eq!(changed(&|packet| packet[9] = TCP), Found::Nothing);
    assert_eq!(changed(&|packet| packet[0] = 0x55), Found::Nothing);
    assert_eq!(changed(&|packet| packet[0] = 0x44), Found::Nothing);
    assert_eq!(changed(&|packet| packet.truncate(19)), Found::Nothing);
    assert_eq!(changed(&|packet| packet.truncate(20 + BYTES - 1)), Found::Truncated);
    assert_eq!(changed(&|packet| packet[3] -= 1), Found::Truncated);
    assert_eq!(changed(&|packet| packet[21] = 24), Found::BadLength);
    assert_eq!(changed(&|packet| packet[6] = 0x20), Found::Fragment);
    assert_eq!(changed(&|packet| packet[7] = 1), Found::Fragment);
    assert_eq!(changed(&|packet| packet[6] = 0x40), changed(&|_| ()), "don't fragment");
    let mut part = ipv6(&[44], &payload);
    part[43] = 1;
    assert_eq!(find(&part), Found::Fragment);
}

/// Whatever bytes follow the packet in memory, the answer is the same, so they are not read.
#[test]
fn random_and_mutated_packets_are_read_within_their_bounds() {
    let mut random = Random(3);
    let mut found = 0;
    let cases = std::env::var("HEADWAY_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    for case in 0..cases {
        let payload = write(&header(&mut random));
        let mut packet = match case % 3 {
            0 => ipv4((random.next() % 11) as u8, &payload),
            1 => ipv6(&[0, 44, 60, 43][..(random.next() % 5) as usize], &payload),
            _ => (0..random.next() % 100).map(|_| random.next() as u8).collect(),
        };
        for _ in 0..random.next() % 4 {
            let length = packet.len().max(1) as u64;
            if let Some(byte) = packet.get_mut((random.next() % length) as usize) {
                *byte = random.next() as u8;
            }
        }
        packet.truncate((random.next() % 120) as usize);
        let answers = [0, 0xff, random.next() as u8].map(|byte| {
            let mut longer = packet.clone();
            longer.extend([byte; 64]);
            find(&longer[..packet.len()])
        });
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{packet:?}: {answers:?}");
        if let Found::Header(_, at) = answers[0] {
            assert!(at as usize + BYTES <= packet.len());
            found += 1;
        }
    }
    assert!(found > cases / 20, "{found}");
}
