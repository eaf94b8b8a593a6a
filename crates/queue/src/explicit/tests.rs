//! The codec and the rules of the two ends.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use headway_units::{Bytes, Duration, Rate};

const RTT: Duration = Duration::from_ms(100);
const MSS: Bytes = Bytes::new(1440);
const PACKET: Bytes = Bytes::new(1500);

fn xcp(delta: i32) -> Header {
    Header { feedback: delta.cast_unsigned(), ..Header::new(VERSION_XCP, Format::Standard) }
}

fn rcp(rate: u32) -> Header {
    Header { feedback: rate, ..Header::new(VERSION_RCP, Format::Standard) }
}

/// xcp-rcp F01: 100 ms, 12 ms, -18 750 B/s and 150 000 B/s.
#[test]
fn headers_have_the_bytes_of_the_layout() {
    let header = Header {
        rtt: to_header_time(RTT),
        x: to_header_time(Duration::from_ms(12)),
        reverse: 150_000,
        ..xcp(-18_750)
    };
    let bytes = [
        6, 20, 0x21, 0, 0x01, 0x99, 0x99, 0x9a, 0x00, 0x31, 0x26, 0xe9, 0xff, 0xff, 0xb6, 0xc2, 0x00, 0x02,
        0x49, 0xf0,
    ];
    assert_eq!(encode(&header), bytes);
    assert_eq!(decode(&bytes), Ok(header));
    assert_eq!(bytes[FEEDBACK], (-18_750_i32).to_be_bytes());
    let rate = encode(&rcp(ANY_RATE));
    assert_eq!(rate[..4], [6, 20, 0xf1, 0]);
    assert_eq!(rate[FEEDBACK], [0xff; 4]);
}

#[test]
fn headers_fit_into_an_option_of_tcp() {
    let header = Header { rtt: 0x0199_999a, x: 0x0031_26e9, reverse: 150_000, ..xcp(-18_750) };
    let bytes = [
        253, 20, 0x48, 0x58, 0x01, 0x99, 0x99, 0x9a, 0x00, 0x31, 0x26, 0xe9, 0xff, 0xff, 0xb6, 0xc2, 0x00,
        0x02, 0x49, 0xf0,
    ];
    assert_eq!(encode_option(&header, OPTION_KIND), Some((bytes, 20)));
    assert_eq!(decode_option(&bytes), Some(Ok(header)));
    assert_eq!(bytes[OPTION_FEEDBACK], (-18_750_i32).to_be_bytes());
    let answer = Header { reverse: 7, ..Header::new(VERSION_RCP, Format::Minimal) };
    let (bytes, length) = encode_option(&answer, 254).unwrap();
    assert_eq!(bytes[..length], [254, 8, 0x48, 0x52, 0, 0, 0, 7]);
    assert_eq!(decode_option(&bytes[..length]), Some(Ok(answer)));
    assert_eq!(encode_option(&Header::new(3, Format::Standard), OPTION_KIND), None);
}

#[test]
fn options_of_other_experiments_and_lengths_are_told_apart() {
    let (option, _) = encode_option(&rcp(1), OPTION_KIND).unwrap();
    let with = |place: usize, value: u8| {
        let mut option = option;
        option[place] = value;
        option
    };
    let decode = |bytes: &[u8]| decode_option(bytes);
    for length in (0..=255).filter(|length| ![8, 20].contains(length)) {
        let expected = match length {
            0..4 => None,
            4..20 => Some(Err(OptionError::Length(length))),
            _ => Some(Err(OptionError::Truncated(20))),
        };
        assert_eq!(decode(&with(1, length)), expected);
    }
    assert_eq!(decode(&with(3, 0x59)), None);
    for bytes in 0..20 {
        let expected = (bytes >= 4).then_some(Err(OptionError::Truncated(bytes)));
        assert_eq!(decode(&option[..bytes]), expected);
    }
}

/// xcp-rcp F01.
#[test]
fn headers_survive_the_wire() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..1_000_000 {
        let header = Header {
            rtt: random.random(),
            x: random.random(),
            feedback: random.random(),
            reverse: random.random(),
            protocol: random.random(),
            version: if random.random() { VERSION_XCP } else { VERSION_RCP },
            format: if random.random() { Format::Standard as u8 } else { Format::Minimal as u8 },
            unused: 0,
        };
        assert_eq!(decode(&encode(&header)), Ok(header));
    }
}

/// xcp-rcp F02.
#[test]
fn headers_that_are_cut_or_of_another_length_version_or_format_are_refused() {
    let good = encode(&xcp(1));
    for length in 0..HEADER_BYTES {
        assert_eq!(decode(&good[..length]), Err(HeaderError::Truncated(length)));
    }
    assert_eq!(decode(&[&good[..], &[9; 40]].concat()), Ok(xcp(1)), "what follows is the payload");
    for number in 0..=255_u8 {
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            decode(&bytes)
        };
        if number != 20 {
            assert_eq!(with(1, number), Err(HeaderError::Length(number)));
        }
        let (version, format) = (number >> 4, number & 0xf);
        match (version, format) {
            (VERSION_XCP | VERSION_RCP, 1 | 2) => assert!(with(2, number).is_ok()),
            (VERSION_XCP | VERSION_RCP, _) => assert_eq!(with(2, number), Err(HeaderError::Format(format))),
            _ => assert_eq!(with(2, number), Err(HeaderError::Version(version))),
        }
        assert_eq!(with(3, number), Ok(xcp(1)), "the unused byte does not matter");
    }
}

#[test]
fn random_bytes_are_headers_or_errors() {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    for _ in 0..200_000 {
        let bytes: [u8; 24] = random.random();
        let length = random.random_range(0..=bytes.len());
        if let Ok(header) = decode(&bytes[..length]) {
            assert_eq!(encode(&header)[4..], bytes[4..20]);
        }
    }
}

/// xcp-rcp F03.
#[test]
fn rates_are_unsigned_and_changes_are_signed() {
    let bytes = encode(&rcp(0xffff_fffe));
    assert_eq!(decode(&bytes).map(|header| header.rate()), Ok(4_294_967_294));
    assert_eq!(decode(&encode(&xcp(-2))).map(|header| header.delta()), Ok(-2));
    let mut window = Window::new(PACKET, MSS);
    window.on_rate(3_000_000_000, RTT);
    assert_eq!(window.bytes(), Bytes::new(300_000_000));
}

#[test]
fn times_are_rounded_and_only_unknown_ones_are_zero() {
    for (ns, units) in [(-5, 0), (0, 0), (1, 1), (4, 1), (1_000_000_000, 1 << 28), (i64::MAX, u32::MAX)] {
        assert_eq!(to_header_time(Duration::from_ns(ns)), units, "{ns} ns");
    }
    for ns in [1_000, 123_456_789, 15_999_999_000] {
        let back = ((u128::from(to_header_time(Duration::from_ns(ns))) * 1_000_000_000) >> 28) as i64;
        assert!((back - ns).abs() <= 4, "{ns} ns came back as {back}");
    }
}

/// xcp-rcp F05.
#[test]
fn spacing_times_throughput_is_a_packet() {
    for packets in [1_u32, 4, 12, 100, 5000] {
        let rate = throughput(PACKET * u64::from(packets), RTT);
        let size = spacing_at_rate(PACKET, rate).secs_f64() * rate.bps_f64() / 8.0;
        assert!((size / 1500.0 - 1.0).abs() < 0.01, "{packets} packets: {size} B");
    }
    let slow = spacing_at_rate(PACKET, Rate::from_bps(8 * 1500));
    assert_eq!(slow, Duration::from_ms(1000), "a tenth of a packet per round trip");
    assert_eq!(spacing_at_rate(PACKET, Rate::ZERO), Duration::ZERO);
}

/// xcp-rcp F06.
#[test]
fn requests_of_a_round_trip_sum_to_the_change_that_is_wanted() {
    for (now, desired) in [(0.15, 12.5e6), (1.2, 1.3), (1_000.0, 1_000.5), (10_000.0, 9_999.0)] {
        let (now, desired) = (Rate::from_mbps(now), Rate::from_mbps(desired));
        let mut request = Request::default();
        let packets = now.bps_f64() / 8.0 * 0.1 / 1440.0;
        let sum: i64 =
            (0..packets as u64).map(|_| i64::from(request.next(share(now, desired, RTT, MSS)))).sum();
        let wanted = (desired.bps_f64() - now.bps_f64()) / 8.0 * packets.floor() / packets;
        if packets >= 2.0 {
            assert!((sum as f64 / wanted - 1.0).abs() < 0.01, "{now} to {desired}: {sum} of {wanted}");
        }
    }
}

/// xcp-rcp 2.1: the request saturates, and without an RTT there is none.
#[test]
fn requests_fit_into_the_header_whatever_is_wanted() {
    let mut request = Request::default();
    let [zero, most] = [Rate::ZERO, Rate::from_bps(u64::MAX)];
    assert_eq!(request.next(share(zero, most, RTT, MSS)), i32::MAX);
    assert_eq!(request.next(share(most, zero, Duration::from_ns(1), MSS)), -i32::MAX);
    assert_eq!(request.next(share(most, most, Duration::MAX, Bytes::new(u64::MAX))), 0);
    assert_eq!(request.next(share(Rate::from_mbps(1.0), most, Duration::ZERO, MSS)), 0);
    assert_eq!(request.next(share(Rate::from_mbps(1.0), most, Duration::from_ns(-1), MSS)), 0);
}

/// xcp-rcp F07.
#[test]
fn negative_feedback_never_takes_a_window_below_a_segment() {
    let mut window = Window::new(PACKET * 10, MSS);
    window.on_change(-60_000, RTT);
    assert_eq!(window.bytes(), Bytes::new(9000));
    for _ in 0..100 {
        window.on_change(-i32::MAX, RTT);
        assert_eq!(window.bytes(), MSS);
    }
    window.on_change(i32::MAX, Duration::MAX);
    assert_eq!(window.bytes(), LARGEST_WINDOW);
}

/// xcp-rcp 2.2.
#[test]
fn feedback_of_less_than_a_byte_adds_up() {
    let mut window = Window::new(PACKET, MSS);
    for _ in 0..1_000_000 {
        window.on_change(1, Duration::from_us(37));
    }
    assert_eq!(window.with_fraction(), 1537 << WINDOW_BITS);
    for _ in 0..1_000_000 {
        window.on_change(-1, Duration::from_us(37));
    }
    assert_eq!(window.with_fraction(), 1500 << WINDOW_BITS);
}

/// xcp-rcp F08.
#[test]
fn receivers_of_xcp_return_the_sum_once() {
    let mut echo = Echo::default();
    assert_eq!((echo.take(), echo.version()), (0, None));
    echo.on_packet(&xcp(700));
    echo.on_packet(&xcp(-1200));
    echo.on_packet(&Header { format: Format::Minimal as u8, ..xcp(9) });
    assert_eq!(echo.take().cast_signed(), -500);
    assert_eq!(echo.take(), 0);
    assert_eq!(echo.version(), Some(VERSION_XCP));
}

/// xcp-rcp F09.
#[test]
fn receivers_of_rcp_return_the_latest_rate() {
    let mut echo = Echo::default();
    echo.on_packet(&rcp(187_500));
    echo.on_packet(&rcp(93_750));
    assert_eq!(echo.take(), 93_750);
    assert_eq!(echo.take(), 0, "nothing is owed");
}

/// xcp-rcp 2.16.
#[test]
fn the_xcp_echo_overflows_to_its_limits() {
    let mut echo = Echo::default();
    (0..3).for_each(|_| echo.on_packet(&xcp(i32::MAX - 1)));
    assert_eq!(echo.take().cast_signed(), i32::MAX);
    (0..3).for_each(|_| echo.on_packet(&xcp(i32::MIN)));
    assert_eq!(echo.take().cast_signed(), -i32::MAX);
}

/// xcp-rcp F42: what is owed in one version means something else in the other.
#[test]
fn a_change_of_version_forgets_the_echo() {
    let mut echo = Echo::default();
    echo.on_packet(&xcp(-5));
    echo.on_packet(&rcp(1000));
    assert_eq!(echo.take(), 1000);
    echo.on_packet(&rcp(1000));
    echo.on_packet(&xcp(3));
    assert_eq!(echo.take(), 3);
}

/// xcp-rcp 2.16 and F10.
#[test]
fn feedback_before_the_first_rtt_sample_leaves_the_window_alone() {
    let mut window = Window::new(PACKET * 3, MSS);
    let before = window;
    window.on_change(50_000, Duration::ZERO);
    window.on_rate(50_000, Duration::ZERO);
    window.on_rate(ANY_RATE, Duration::ZERO);
    assert_eq!(window, before);
}

/// xcp-rcp F41.
#[test]
fn the_window_of_rcp_is_rate_times_rtt_within_its_limits() {
    let mut window = Window::new(PACKET, MSS);
    window.on_rate(187_500, RTT);
    assert_eq!(window.bytes(), Bytes::new(18_750));
    window.on_rate(1, RTT);
    assert_eq!(window.bytes(), MSS);
    window.on_rate(ANY_RATE - 1, Duration::from_ms(1000));
    assert_eq!(window.bytes(), LARGEST_WINDOW);
    let before = window;
    window.on_rate(0, RTT);
    assert_eq!(window, before, "no router grants zero");
}

/// xcp-rcp 2.16.
#[test]
fn the_largest_rate_reaches_the_sender_as_unlimited() {
    let mut window = Window::new(PACKET, MSS);
    window.on_rate(ANY_RATE, Duration::from_us(1));
    assert_eq!(window.bytes(), LARGEST_WINDOW);
}
