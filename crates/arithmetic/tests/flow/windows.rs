//! Windows that leave a middlebox, and their checksums.

use headway_arithmetic::flow::{Flow, Framing, Packet, flag};
use headway_arithmetic::rwm::{SHARE_BITS, UNLIMITED, bytes, checksum_after, field, rounded};

use crate::support::{CLIENT, Handshake, LAN, MS, SERVER, Segment, WAN, sum};

/// The share of a rate in b/s, in bytes per ns.
fn share(rate: f64) -> u64 {
    (rate / 8e9 * (1_u64 << SHARE_BITS) as f64).round() as u64
}

/// An ACK of the client with this window.
fn ack(acknowledgement: u32, window: u16) -> Packet {
    Segment { acknowledgement, window, ..Handshake::new(7, 7).third }.read(LAN)
}

fn flow(scale: u8) -> Flow {
    Handshake::new(scale, scale).at([0, 30, 60]).unwrap()
}

#[test]
fn published_windows() {
    // wan 7: C = 1 Gb/s, RTT 60 ms, scale 10; one flow, four, and one with delta 0.9 and 1.1.
    for (rate, limit, window) in [
        (1e9, 7_500_000, 7324),
        (0.25e9, 1_875_000, 1831),
        (0.9e9, 6_750_000, 6591),
        (1.1e9, 8_250_000, 8056),
    ] {
        let bytes = bytes(share(rate), 60 * MS);
        assert_eq!((bytes, field(bytes, 10, 1460)), (limit, window));
    }
    // Two classes, of 0.7 with two flows and of 0.3 with one, at 100 Mb/s, 140 ms, scale 7.
    for (rate, limit, window) in [(35e6, 612_500, 4785), (30e6, 525_000, 4101)] {
        let bytes = bytes(share(rate), 140 * MS);
        assert_eq!((bytes, field(bytes, 7, 1460)), (limit, window));
    }
}

#[test]
fn a_limit_of_few_units_is_rounded_up_as_often_as_it_is_more() {
    for (limit, scale) in [(31_400, 14), (100_000, 14), (20_000, 10), (3_000, 7)] {
        for number in [1, 7, 1_000_000] {
            let windows = (0..150).map(|round| rounded(limit, scale, number, round << 26) >> scale << scale);
            let windows: Vec<u64> = windows.collect();
            let mean = windows.iter().sum::<u64>() as f64 / 150.0;
            assert!((mean / limit as f64 - 1.0).abs() < 0.01, "{limit} {scale} {number}: {mean}");
            assert!(windows.iter().all(|window| window.abs_diff(limit) < 1 << scale));
        }
    }
    // Two connections that began one after the other are hardly ever rounded up together.
    let both = (0..100)
        .filter(|round| [1, 2].iter().all(|number| rounded(24_576, 14, *number, round << 26) >> 14 == 2));
    assert!(both.count() < 15);
    // What is many units stays, and so does what is none.
    assert_eq!(
        (rounded(1 << 20, 10, 1, 0), rounded(UNLIMITED, 14, 1, 0), rounded(5_000, 0, 1, 0)),
        (1 << 20, UNLIMITED, 5_000)
    );
}

#[test]
fn a_limit_is_two_segments_at_least_and_has_16_bits() {
    // wan F10: ceil(2 * 1460 / 2^scale)
    for (scale, window) in [(0, 2920), (1, 1460), (7, 23), (10, 3), (14, 1)] {
        assert_eq!(field(1, scale, 1460), window, "{scale}");
        assert_eq!(field(0, scale, 1460), window, "{scale}");
    }
    assert_eq!(field(0, 14, 88), 1);
    assert_eq!(field(UNLIMITED, 0, 1460), 65_535);
    assert_eq!(field(1 << 40, 14, 1460), 65_535);
    // No share, or no RTT, is no limit.
    assert_eq!((bytes(0, MS), bytes(share(1e9), 0)), (UNLIMITED, UNLIMITED));
    // The largest numbers there are do not wrap.
    assert!(bytes(u64::MAX, u64::MAX) > u64::MAX / 2);
    assert_eq!(bytes(share(1e12), 60_000 * MS), 7_500_000_000_000);
}

#[test]
fn a_window_is_lowered_in_the_units_of_the_end_that_tells_it() {
    // wan 2.2: the scale of the sender of the ACK, not its peer's.
    let mut flow = Handshake::new(7, 9).at([0, 30, 60]).unwrap();
    let limit = 1_000_000;
    assert_eq!(flow.window(&ack(7001, 60_000), limit, false), 7812);
    let from_server = Segment { window: 60_000, ..Segment::new(SERVER, CLIENT, flag::ACK) }.read(WAN);
    assert_eq!(flow.window(&from_server, limit, false), 1953);
    // Data and FIN carry windows, too; SYN and reset do not.
    for (flags, window) in [
        (flag::ACK | flag::FIN, 7812),
        (flag::ACK | 0x08, 7812),
        (flag::RST | flag::ACK, 60_000),
        (flag::SYN, 60_000),
        (flag::SYN | flag::ACK, 60_000),
    ] {
        let segment = Segment { window: 60_000, ..Segment::new(CLIENT, SERVER, flags) };
        assert_eq!(flow.window(&segment.read(LAN), limit, false), window, "{flags:#x}");
    }
}

#[test]
fn a_window_is_never_raised() {
    let mut flow = flow(7);
    for window in [0, 1, 22, 23, 7811] {
        assert_eq!(flow.window(&ack(7001, window), 1_000_000, false), window);
    }
    assert_eq!(flow.window(&ack(7001, 65_535), UNLIMITED, false), 65_535);
}

#[test]
fn an_allowed_sequence_number_stays_allowed_where_windows_must_not_shrink() {
    let mut flow = flow(7);
    // Half the limit from now on: the edge does not move until what it allowed is
    // acknowledged, and then moves on.
    assert_eq!(flow.window(&ack(7001, 60_000), 1_000_000, true), 7812);
    let edge = 7001 + (7812 << 7);
    for acknowledged in [1_u32, 99_999, 300_000] {
        let window = flow.window(&ack(7001 + acknowledged, 60_000), 500_000, true);
        let allowed = 7001 + acknowledged + (u32::from(window) << 7);
        assert!((edge..edge + 128).contains(&allowed), "{acknowledged}: {allowed}");
    }
    assert_eq!(flow.window(&ack(7001 + 600_000, 60_000), 500_000, true), 3906);
    // What the host itself takes back is not held up, and an ACK that came late does not move it.
    assert_eq!(flow.window(&ack(7001 + 600_000, 5), 500_000, true), 5);
    assert_eq!(flow.window(&ack(7001 + 600_000, 0), 500_000, true), 0);
    let late = flow.window(&ack(7001, 60_000), 500_000, true);
    assert_eq!(u32::from(late), (600_000_u32 + (3906 << 7)).div_ceil(128));
    // Without the guard it moves back at once.
    let mut flow = self::flow(7);
    flow.window(&ack(7001, 60_000), 1_000_000, false);
    assert_eq!(flow.window(&ack(7002, 60_000), 500_000, false), 3906);
}

#[test]
fn a_rewritten_segment_has_the_right_checksum() {
    // wan F8
    for (source, destination) in
        [(CLIENT, SERVER), (("2001:db8::1".parse().unwrap(), 9), ("2001:db8::2".parse().unwrap(), 443))]
    {
        for length in [0, 1, 2, 1459] {
            let mut segment = Segment::new(source, destination, flag::ACK);
            segment.data = vec![0xa5; length];
            let mut bytes = segment.ip();
            let packet = Packet::read(&bytes, Framing::Ip, LAN).unwrap();
            let at = bytes.len() - length - 20;
            for window in [0, 1, 255, 256, 40_000, 65_535] {
                packet.write_window(&mut bytes, window);
                assert_eq!(bytes[at + 14..at + 16], window.to_be_bytes());
                assert_eq!(sum(source.0, destination.0, &bytes[at..]), 0xffff, "{window}");
            }
        }
    }
}

#[test]
fn checksums_of_the_rfc() {
    // RFC 1624 4: the equation of RFC 1141 gives ffff here, and that of RFC 1071 the right 0000.
    assert_eq!(checksum_after(0xdd2f, 0, 0x5555, 0x3285), 0x0000);
    // A word at an odd place is as if its bytes were swapped.
    assert_eq!(checksum_after(0x1234, 1, 0x0102, 0x0304), checksum_after(0x1234, 0, 0x0201, 0x0403));
}

#[test]
fn a_packet_that_is_shorter_than_it_was_is_not_written() {
    let mut bytes = Segment::syn().ip();
    let packet = Packet::read(&bytes, Framing::Ip, LAN).unwrap();
    bytes.truncate(37);
    let before = bytes.clone();
    packet.write_window(&mut bytes, 1);
    assert_eq!(bytes, before);
}
