//! Headers of captured packets, link layer by link layer.

use crate::support::SYN_OPTIONS;
use headway_capture::{Link, Packet};
use headway_estimate::sabes::Segment;
use headway_passive::Skipped;
use headway_passive::headers::{self, Tcp};
use headway_units::Instant;

fn parsed(link: Link, data: &[u8], length: u32) -> Result<Tcp, Skipped> {
    let packet =
        Packet { at: Instant::ZERO, data, length, interface: 0, link, check_sequence: false, declared: 0 };
    headers::parse(&packet)
}

fn example(v6: bool) -> crate::support::Tcp {
    let (source, destination) =
        if v6 { ("2001:db8::1", "2001:db8::2") } else { ("192.0.2.1", "198.51.100.2") };
    let mut tcp = crate::support::Tcp::new((source, 40_000), (destination, 443));
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
        assert_eq!(
            (tcp.segment.sequence, tcp.segment.acknowledgement, tcp.segment.window),
            (7, Some(9), 512)
        );
        assert_eq!((tcp.segment.payload, tcp.segment.headers), (1_448, if v6 { 72 } else { 52 }));
        assert_eq!(tcp.segment.timestamps, Some((5, 6)));
        assert_eq!((tcp.source.port, tcp.destination.port), (40_000, 443));
    }
}

#[test]
fn options_of_a_syn_are_read_and_unknown_ones_skipped() {
    let mut syn = example(false);
    (syn.syn, syn.acknowledgement) = (true, None);
    syn.options = [&[30, 4, 1, 2][..], &SYN_OPTIONS].concat();
    let read = |tcp: &crate::support::Tcp| {
        let (data, length) = tcp.ethernet();
        parsed(Link::Ethernet, &data, length).unwrap()
    };
    let tcp = read(&syn);
    assert_eq!(
        (tcp.segment.mss, tcp.segment.window_scale, tcp.segment.acknowledgement),
        (Some(1_460), Some(7), None)
    );
    // RFC 7323: shifts above 14 count as 14. Later segments cannot change what the SYN said.
    syn.options = vec![3, 3, 99];
    assert_eq!(read(&syn).segment.window_scale, Some(14));
    syn.syn = false;
    assert_eq!(read(&syn).segment.window_scale, None);
    let mut sack = example(false);
    sack.options = vec![1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    assert!(read(&sack).segment.sack);
    // Forged lengths: zero, beyond the header, and an option cut off.
    for options in [&[30, 0, 2, 4][..], &[30, 200, 2, 4], &[1, 1, 1, 30], &[2, 200, 1, 1], &[5, 9, 1, 1]] {
        sack.options = options.to_vec();
        assert_eq!(read(&sack).segment.mss, None);
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
    assert_eq!((tcp.segment.payload, tcp.segment.headers), (1_448, 56));

    // A header that authenticates the packet.
    let mut authenticated = ip.clone();
    authenticated[9] = 51;
    authenticated.splice(20..20, [6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
    authenticated[2..4].copy_from_slice(&(length as u16 + 24).to_be_bytes());
    let tcp = parsed(Link::Raw, &authenticated, length + 24).unwrap();
    assert_eq!((tcp.segment.payload, tcp.segment.headers), (1_448, 76));

    let (ip, length) = example(true).ip();
    let mut extended = ip.clone();
    extended[6] = 0;
    // Hop-by-hop options, then destination options.
    extended.splice(40..40, [60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]);
    extended[4..6].copy_from_slice(&(length as u16 - 40 + 16).to_be_bytes());
    let tcp = parsed(Link::Raw, &extended, length + 16).unwrap();
    assert_eq!((tcp.segment.payload, tcp.segment.headers), (1_448, 88));
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
    for kept in 0..36 {
        assert_eq!(parsed(Link::Raw, &ip[..kept], length), Err(Skipped::Snapped), "{kept} bytes kept");
    }
    // Up to the window all that matters is there; options may be cut.
    let whole = parsed(Link::Raw, &ip, length).unwrap();
    for kept in 36..ip.len() {
        let segment = Segment { cut: true, timestamps: None, ..whole.segment };
        let cut = Tcp { segment, ..whole };
        assert_eq!(parsed(Link::Raw, &ip[..kept], length), Ok(cut), "{kept} bytes kept");
    }
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
    assert_eq!(parsed(Link::Ethernet, &data, length).unwrap().segment.payload, 200_000);
}

#[test]
fn networks_are_24_bits_of_ipv4_and_56_of_ipv6() {
    let prefix = |text: &str| headers::prefix(text.parse().unwrap()).to_string();
    assert_eq!(prefix("192.0.2.77"), "192.0.2.0");
    assert_eq!(prefix("2001:db8:1:2345::7"), "2001:db8:1:2300::");
}

/// A packet of IPv4 from another host, with this protocol and what is in it.
fn outer(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![0x45, 0];
    out.extend((20 + inner.len() as u16).to_be_bytes());
    out.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    out.extend(inner);
    out
}

/// A packet of IPv6 from another host.
fn outer_v6(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((inner.len() as u16).to_be_bytes());
    out.extend([protocol, 64]);
    out.extend([0x20; 32]);
    out.extend(inner);
    out
}

fn udp(port: u16, inner: &[u8]) -> Vec<u8> {
    [&[0xc0, 0, (port >> 8) as u8, port as u8, 0, 0, 0, 0], inner].concat()
}

#[test]
fn tags_labels_and_tunnels_lead_to_the_segment_in_them() {
    for v6 in [false, true] {
        let (ip, _) = example(v6).ip();
        let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        let ppp = if v6 { 0x57 } else { 0x21 };
        let ethernet = |kind: &[u8], inner: &[u8]| [&[2; 12], kind, inner].concat();
        let frame = ethernet(&kind, &ip);
        let gre = |flags: [u8; 2], kind: [u8; 2], optional: &[u8], inner: &[u8]| {
            outer(47, &[&flags, &kind, optional, inner].concat())
        };
        let (teb, ipip) = ([0x65, 0x58], if v6 { 41 } else { 4 });
        let in_ip: Vec<(&str, Vec<u8>)> = vec![
            ("IP in IPv4", outer(ipip, &ip)),
            ("IP in IPv6", outer_v6(ipip, &ip)),
            ("IP in IP in IP", outer(4, &outer_v6(ipip, &ip))),
            ("GRE", gre([0, 0], kind, &[], &ip)),
            ("GRE in IPv6", outer_v6(47, &[&[0, 0], &kind[..], &ip].concat())),
            ("GRE with checksum, key and sequence", gre([0xb0, 0], kind, &[7; 12], &ip)),
            ("GRE with key", gre([0x20, 0], kind, &[7; 4], &ip)),
            ("GRE with Ethernet", gre([0, 0], teb, &[], &frame)),
            ("GRE with MPLS", gre([0, 0], [0x88, 0x47], &[], &[&[0, 1, 1, 64], &ip[..]].concat())),
            ("PPTP", gre([0x30, 0x81], [0x88, 0x0b], &[7; 12], &[&[0xff, 3, 0, ppp], &ip[..]].concat())),
            ("ERSPAN I", gre([0, 0], [0x88, 0xbe], &[], &frame)),
            ("ERSPAN II", gre([0x10, 0], [0x88, 0xbe], &[7; 12], &frame)),
            ("ERSPAN III", gre([0x10, 0], [0x22, 0xeb], &[6; 16], &frame)),
            ("ERSPAN III with a subheader", gre([0x10, 0], [0x22, 0xeb], &[7; 24], &frame)),
            ("EtherIP", outer(97, &[&[0x30, 0], &frame[..]].concat())),
            ("MPLS in IP", outer(137, &[&[0, 1, 1, 64], &ip[..]].concat())),
            ("VXLAN", outer(17, &udp(4_789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &frame[..]].concat()))),
            ("VXLAN in IPv6", outer_v6(17, &udp(8_472, &[&[8, 0, 0, 0, 0, 0, 7, 0], &frame[..]].concat()))),
            ("VXLAN-GPE", outer(17, &udp(4_790, &[&[12, 0, 0, 3, 0, 0, 7, 0], &frame[..]].concat()))),
            (
                "Geneve",
                outer(17, &udp(6_081, &[&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 1, 1, 1], &frame[..]].concat())),
            ),
            (
                "L2TP",
                outer(17, &udp(1_701, &[&[0x40, 2, 0, 0, 0, 1, 0, 2, 0xff, 3, 0, ppp], &ip[..]].concat())),
            ),
            (
                "L2TP with an offset and numbers",
                outer(
                    17,
                    &udp(1_701, &[&[0x0a, 2, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 9, 9, 0, ppp], &ip[..]].concat()),
                ),
            ),
            ("L2TP version 3", outer(115, &[&[0, 0, 0, 7], &frame[..]].concat())),
            (
                "L2TP version 3 over UDP with a cookie",
                outer(17, &udp(1_701, &[&[0, 3, 0, 0, 0, 0, 0, 7, 9, 8, 7, 6], &frame[..]].concat())),
            ),
            ("EoIP", outer(47, &[&[0x20, 1, 0x64, 0, 0, 90, 7, 0], &frame[..]].concat())),
            ("WCCP", outer(47, &[&[0, 0, 0x88, 0x3e, 0, 0, 0, 0], &ip[..]].concat())),
            ("GTP", outer(17, &udp(2_152, &[&[0x30, 255, 0, 0, 0, 0, 0, 1], &ip[..]].concat()))),
            (
                "GTP with an extension",
                outer(
                    17,
                    &udp(
                        2_152,
                        &[&[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0], &ip[..]].concat(),
                    ),
                ),
            ),
        ];
        let mut cases: Vec<(&str, u16, Vec<u8>)> =
            in_ip.into_iter().map(|(name, data)| (name, 101, data)).collect();
        let pppoe = [&[0x11, 0, 0, 1, 5, 0, 0, ppp], &ip[..]].concat();
        cases.extend([
            (
                "802.1Q in QinQ 0x9200",
                1,
                ethernet(&[0x92, 0, 0, 5, 0x81, 0, 0, 6], &[&kind, &ip[..]].concat()),
            ),
            ("six tags", 1, ethernet(&[0x81, 0, 0, 5].repeat(6), &[&kind, &ip[..]].concat())),
            ("PPPoE", 1, ethernet(&[0x88, 0x64], &pppoe)),
            ("PPPoE in a VLAN", 1, ethernet(&[0x81, 0, 0, 5, 0x88, 0x64], &pppoe)),
            ("MPLS", 1, ethernet(&[0x88, 0x47, 0, 1, 1, 64], &ip)),
            ("three labels", 1, ethernet(&[0x88, 0x48, 0, 1, 0, 64, 0, 2, 0, 64, 0, 3, 1, 64], &ip)),
            ("a pseudowire", 1, ethernet(&[0x88, 0x47, 0, 1, 1, 64, 0, 0, 0, 9], &frame)),
            (
                "a pseudowire without control word",
                1,
                ethernet(&[0x88, 0x47, 0, 1, 1, 64], &[&[0xa2], &frame[1..]].concat()),
            ),
            ("802.1ah", 1, ethernet(&[0x88, 0xe7, 0, 0, 0, 7], &frame)),
            ("802.1BR", 1, ethernet(&[0x89, 0x3f, 0, 0, 0, 0, 0, 7], &[&kind, &ip[..]].concat())),
            ("SNAP", 1, ethernet(&[5, 0xdc, 0xaa, 0xaa, 3, 0, 0, 0], &[&kind, &ip[..]].concat())),
            ("PPP", 9, [&[0, ppp], &ip[..]].concat()),
            ("PPP with a short protocol number", 9, [&[ppp], &ip[..]].concat()),
            ("PPP with address and control", 50, [&[0xff, 3, 0, ppp], &ip[..]].concat()),
            ("Cisco HDLC", 50, [&[0x0f, 0], &kind[..], &ip].concat()),
            ("Cisco HDLC", 104, [&[0x8f, 0], &kind[..], &ip].concat()),
            ("PPPoE without Ethernet", 51, pppoe),
            (
                "Netfilter's log",
                239,
                [&[2, 0, 0, 7, 8, 0, 1, 0, 0, 0, 0, 0, 5, 0, 10, 0, 65, 0, 0, 0, 200, 0, 9, 0], &ip[..]]
                    .concat(),
            ),
            (
                "Netfilter's log, big-endian",
                239,
                [&[10, 0, 0, 7, 0, 8, 0, 1, 0, 0, 0, 0, 0, 200, 0, 9], &ip[..]].concat(),
            ),
            (
                "Netfilter's log of a bridge",
                239,
                [
                    &[7, 0, 0, 7, 8, 0, 1, 0, kind[0], kind[1], 1, 0, 5, 0, 10, 0, 65, 0, 0, 0, 200, 0, 9, 0],
                    &ip[..],
                ]
                .concat(),
            ),
        ]);
        // 802.11: plain; with QoS; between access points, with QoS and HT control.
        let wireless = |control: [u8; 2], more: usize| {
            [&control[..], &vec![0; 22 + more], &[0xaa, 0xaa, 3, 0, 0, 0], &kind, &ip].concat()
        };
        // Time, flags and rate behind two words that say so.
        let radiotap = |flags: u8, frame: &[u8]| {
            let fields = [&[0, 0, 26, 0, 7, 0, 0, 0x80, 0, 0, 0, 0][..], &[0; 12], &[flags, 2]].concat();
            [&fields[..], frame].concat()
        };
        let ppi = [0, 0, 12, 0, 105, 0, 0, 0, 1, 2, 0, 0];
        cases.extend([
            ("802.11", 105, wireless([8, 1], 0)),
            ("802.11 with QoS", 105, wireless([0x88, 2], 2)),
            ("802.11 with all fields", 105, wireless([0x88, 0x83], 12)),
            ("radiotap", 127, radiotap(0x10, &wireless([8, 1], 0))),
            ("radiotap, padded", 127, radiotap(0x30, &wireless([0x88, 1], 4))),
            ("PPI", 192, [&ppi[..], &wireless([8, 1], 0)].concat()),
        ]);
        let expected = parsed(Link::Raw, &ip, 5_000).unwrap();
        for (name, link, data) in cases {
            let found = parsed(Link::from_number(link), &data, data.len() as u32);
            assert_eq!(found, Ok(expected), "{name}");
            // Whatever is cut off, what is before it is not misread.
            for kept in 0..data.len().min(120) {
                if let Ok(tcp) = parsed(Link::from_number(link), &data[..kept], data.len() as u32) {
                    let timestamps = expected.segment.timestamps;
                    let segment = Segment { cut: false, timestamps, ..tcp.segment };
                    assert_eq!(Tcp { segment, ..tcp }, expected, "{name}: {kept}");
                }
            }
        }
        for (number, bytes) in
            [(166, vec![1, 3, 0, ppp]), (204, vec![1, 0, ppp]), (204, vec![1, 0xff, 3, 0, ppp])]
        {
            let sent = parsed(Link::from_number(number), &[&bytes, &ip[..]].concat(), 5_000);
            assert_eq!(sent, Ok(Tcp { outgoing: Some(true), ..expected }), "{number}");
        }
    }
}

#[test]
fn what_is_not_read_is_named_by_its_number() {
    let unread = |link: u16, data: &[u8]| {
        let packet = Packet {
            at: Instant::ZERO,
            data,
            length: data.len() as u32,
            interface: 0,
            link: Link::from_number(link),
            check_sequence: false,
            declared: 0,
        };
        headers::parse(&packet).unwrap_err();
        headers::unread(&packet).unwrap().to_string()
    };
    assert_eq!(unread(147, &[0; 40]), "link type 147");
    assert_eq!(unread(1, &[&[0; 12][..], &[0x88, 0xcc], &[0; 40]].concat()), "EtherType 0x88cc");
    assert_eq!(
        unread(1, &[&[0; 12][..], &[0x81, 0, 0, 5, 8, 6], &[0; 40]].concat()),
        "EtherType 0x0806, ARP"
    );
    assert_eq!(unread(1, &[&[0; 12][..], &[0, 38, 0x42, 0x42, 3], &[0; 40]].concat()), "802.2");
    assert_eq!(unread(9, &[0xff, 3, 0xc0, 0x21, 1, 1, 0, 4]), "PPP protocol 0xc021");
    assert_eq!(unread(0, &[7, 0, 0, 0, 0]), "address family 7");
    let wireless =
        |control: [u8; 2], more: [u8; 8]| unread(105, &[&control[..], &[0; 20], &more, &[0; 40]].concat());
    assert_eq!(wireless([0x80, 0], [0; 8]), "802.11, no data");
    assert_eq!(wireless([8, 0x41], [0; 8]), "802.11, encrypted");
    assert_eq!(wireless([8, 1], [1, 0, 0, 0, 0, 0, 0, 0]), "802.11, a fragment");
    assert_eq!(wireless([0x88, 1], [0, 0, 0x80, 0, 0, 0, 0, 0]), "802.11, several packets in one frame");
    let ip = |protocol: u8, payload: &[u8]| {
        let header = [0x45, 0, 5, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        unread(101, &[&header[..], payload, &[0; 20]].concat())
    };
    assert_eq!(ip(50, &[]), "IP protocol 50, ESP");
    assert_eq!(ip(47, &[0, 0, 0x20, 0]), "EtherType 0x2000 in a tunnel");
    // Of a packet that another host sent to a third one, this host says nothing.
    let (ip, length) = example(false).ip();
    let other = [&[0, 3][..], &[0; 12], &[8, 0], &ip].concat();
    assert_eq!(parsed(Link::Cooked, &other, length + 16).unwrap().outgoing, None);
}
