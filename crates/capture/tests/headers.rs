//! Headers of captured packets, link layer by link layer.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod support;

use headway_capture::headers::{self, Tcp};
use headway_capture::{Link, Packet, Skipped};
use headway_core::Instant;
use support::SYN_OPTIONS;

fn parsed(link: Link, data: &[u8], length: u32) -> Result<Tcp, Skipped> {
    let packet =
        Packet { at: Instant::ZERO, data, length, interface: 0, link, check_sequence: false, declared: 0 };
    headers::parse(&packet)
}

fn example(v6: bool) -> support::Tcp {
    let (source, destination) =
        if v6 { ("2001:db8::1", "2001:db8::2") } else { ("192.0.2.1", "198.51.100.2") };
    let mut tcp = support::Tcp::new((source, 40_000), (destination, 443));
    (tcp.sequence, tcp.acknowledgement, tcp.window, tcp.payload) = (7, Some(9), 512, 1_448);
    // Timestamps.
    tcp.options = vec![1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
    tcp
}

/// The packet behind a link layer's header.
fn behind(header: &[u8], ip: &[u8]) -> Vec<u8> {
    [header, ip].concat()
}

#[test]
fn all_link_layers_lead_to_the_same_segment() {
    for v6 in [false, true] {
        let (ip, length) = example(v6).ip();
        let [high, low] = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        let family = if v6 { 30u8 } else { 2 };
        let addresses = [0u8; 12];
        let cases: [(Link, Vec<u8>, Option<bool>); 9] = [
            (Link::Ethernet, [&addresses[..], &[high, low]].concat(), None),
            (Link::Ethernet, [&addresses[..], &[0x81, 0, 0, 5, high, low]].concat(), None),
            (Link::Ethernet, [&addresses[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, high, low]].concat(), None),
            (Link::Raw, vec![], None),
            (Link::Cooked, [&[0, 4][..], &addresses, &[high, low]].concat(), Some(true)),
            (Link::Cooked, [&[0, 0][..], &addresses, &[high, low]].concat(), Some(false)),
            (
                Link::Cooked2,
                [&[high, low, 0, 0, 0, 0, 0, 2, 0, 1, 4, 6], &addresses[..8]].concat(),
                Some(true),
            ),
            (Link::Loopback, vec![family, 0, 0, 0], None),
            (Link::Loopback, vec![0, 0, 0, family], None),
        ];
        let mut expected = None;
        for (link, header, outgoing) in cases {
            let data = behind(&header, &ip);
            let tcp = parsed(link, &data, length + header.len() as u32);
            let tcp = tcp.unwrap_or_else(|reason| panic!("{link}: {}", reason.name()));
            assert_eq!(tcp.outgoing, outgoing, "{link}");
            let tcp = Tcp { outgoing: None, ..tcp };
            assert_eq!(*expected.get_or_insert(tcp), tcp, "{link}");
        }
        let tcp = expected.unwrap();
        assert_eq!((tcp.sequence, tcp.acknowledgement, tcp.window), (7, Some(9), 512));
        assert_eq!((tcp.payload, tcp.headers), (1_448, if v6 { 72 } else { 52 }));
        assert_eq!(tcp.timestamps, Some((5, 6)));
        assert_eq!((tcp.source.port, tcp.destination.port), (40_000, 443));
    }
}

#[test]
fn options_of_a_syn_are_read_and_unknown_ones_skipped() {
    let mut syn = example(false);
    (syn.syn, syn.acknowledgement) = (true, None);
    syn.options = [&[30, 4, 1, 2][..], &SYN_OPTIONS].concat();
    let read = |tcp: &support::Tcp| {
        let (data, length) = tcp.ethernet();
        parsed(Link::Ethernet, &data, length).unwrap()
    };
    let tcp = read(&syn);
    assert_eq!((tcp.mss, tcp.window_scale, tcp.acknowledgement), (Some(1_460), Some(7), None));
    // RFC 7323: shifts above 14 count as 14. Later segments cannot change what the SYN said.
    syn.options = vec![3, 3, 99];
    assert_eq!(read(&syn).window_scale, Some(14));
    syn.syn = false;
    assert_eq!(read(&syn).window_scale, None);
    let mut sack = example(false);
    sack.options = vec![1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    assert!(read(&sack).sack);
    // Forged lengths: zero, beyond the header, and an option cut off.
    for options in [&[30, 0, 2, 4][..], &[30, 200, 2, 4], &[1, 1, 1, 30], &[2, 200, 1, 1], &[5, 9, 1, 1]] {
        sack.options = options.to_vec();
        assert_eq!(read(&sack).mss, None);
    }
}

#[test]
fn ip_options_and_extension_headers_are_passed() {
    let (ip, length) = example(false).ip();
    let mut with_options = ip.clone();
    with_options[0] = 0x46;
    with_options.splice(20..20, [1, 1, 1, 0]);
    with_options[2..4].copy_from_slice(&(length as u16 + 4).to_be_bytes());
    let tcp = parsed(Link::Raw, &with_options, length + 4).unwrap();
    assert_eq!((tcp.payload, tcp.headers), (1_448, 56));

    let (ip, length) = example(true).ip();
    let mut extended = ip.clone();
    extended[6] = 0;
    // Hop-by-hop options, then destination options.
    extended.splice(40..40, [60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]);
    extended[4..6].copy_from_slice(&(length as u16 - 40 + 16).to_be_bytes());
    let tcp = parsed(Link::Raw, &extended, length + 16).unwrap();
    assert_eq!((tcp.payload, tcp.headers), (1_448, 88));
}

#[test]
fn what_is_not_a_whole_tcp_header_is_named() {
    let (ip, length) = example(false).ip();
    let with = |at: usize, value: u8| {
        let mut changed = ip.clone();
        changed[at] = value;
        parsed(Link::Raw, &changed, length)
    };
    assert_eq!(with(9, 17), Err(Skipped::NotTcp));
    assert_eq!(with(6, 0x20), Err(Skipped::Fragment), "the first fragment");
    assert_eq!(with(7, 1), Err(Skipped::Fragment), "a later fragment");
    assert_eq!(with(0, 0x44), Err(Skipped::Malformed), "a header of 16 bytes");
    assert_eq!(with(0, 0x75), Err(Skipped::Malformed), "version 7");
    assert_eq!(with(32, 0x40), Err(Skipped::Malformed), "a TCP header of 16 bytes");
    let mut short = ip.clone();
    short[2..4].copy_from_slice(&[0, 40]);
    assert_eq!(parsed(Link::Raw, &short, length), Err(Skipped::Malformed), "shorter than its headers");
    for kept in 0..ip.len() {
        assert_eq!(parsed(Link::Raw, &ip[..kept], length), Err(Skipped::Snapped), "{kept} bytes kept");
    }
    assert!(parsed(Link::Raw, &ip, length).is_ok());
    assert_eq!(parsed(Link::Other(105), &ip, length), Err(Skipped::ForeignLink));
    let arp = [&[0; 12][..], &[8, 6], &ip].concat();
    assert_eq!(parsed(Link::Ethernet, &arp, length), Err(Skipped::NotIp));

    let (mut ip, length) = example(true).ip();
    ip[6] = 44;
    ip.splice(40..40, [6, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!(parsed(Link::Raw, &ip, length), Err(Skipped::Fragment));
}

#[test]
fn packets_captured_before_segmentation_have_their_original_length() {
    let mut tcp = example(false);
    tcp.payload = 200_000;
    let (mut data, length) = tcp.ethernet();
    // Linux leaves the length field at zero when it does not fit.
    data[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(parsed(Link::Ethernet, &data, length).unwrap().payload, 200_000);
}

#[test]
fn networks_are_24_bits_of_ipv4_and_56_of_ipv6() {
    let prefix = |text: &str| headers::prefix(text.parse().unwrap()).to_string();
    assert_eq!(prefix("192.0.2.77"), "192.0.2.0");
    assert_eq!(prefix("2001:db8:1:2345::7"), "2001:db8:1:2300::");
}
