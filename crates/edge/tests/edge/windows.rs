//! Windows that leave a middlebox, and packets that it leaves alone.

use headway_arithmetic::flow::{Framing, flag};
use headway_edge::{Limits, Middlebox};
use headway_units::Rate;

use crate::support::{Connection, LAN, WAN, at, middlebox, several};

#[test]
fn published_windows() {
    // wan 7: 1 Gb/s, 60 ms, scale 10; delta of one.
    for (count, delta, window) in [(1, 1.0, 7324), (4, 1.0, 1831), (1, 0.9, 6591), (1, 1.1, 8056)] {
        let mut middlebox = middlebox(&format!("delta = {delta}"), 1000.0);
        for connection in several(&mut middlebox, count, 443, 60, 10) {
            assert_eq!(connection.window(&mut middlebox, 100), window);
        }
    }
    // 100 Mb/s, 140 ms, scale 7; two connections in a class of 0.7 and one of 0.3.
    let text = "[[class]]\nname = 'a'\nshare = 0.7\nports = [1]\n[[class]]\nname = 'b'\nshare = 0.3";
    let mut middlebox = middlebox(text, 100.0);
    let first = several(&mut middlebox, 2, 1, 140, 7);
    let second = several(&mut middlebox, 1, 2, 140, 7);
    assert_eq!(
        [first[0], first[1], second[0]].map(|one| one.window(&mut middlebox, 200)),
        [4785, 4785, 4101]
    );
    assert_eq!([first[0], second[0]].map(|one| one.limit(&middlebox)), [Some(612_500), Some(525_000)]);
}

#[test]
fn windows_are_proportional_to_round_trips_so_that_rates_are_equal() {
    let mut middlebox = middlebox("", 100.0);
    let short = Connection::new(1, 443, 10, 4);
    let long = Connection::new(2, 443, 140, 4);
    short.begin(&mut middlebox, 0);
    long.begin(&mut middlebox, 0);
    assert_eq!([short, long].map(|one| one.limit(&middlebox)), [Some(62_500), Some(875_000)]);
}

#[test]
fn each_direction_has_the_rate_of_its_side() {
    let capacity = [Rate::from_mbps(100.0), Rate::from_mbps(20.0)];
    let mut middlebox = Middlebox::new(&Default::default(), capacity, Limits::default());
    let connection = Connection::new(1, 443, 40, 7);
    connection.begin(&mut middlebox, 0);
    assert_eq!(middlebox.limits_of(connection.tracked(&middlebox).unwrap()), [Some(500_000), Some(100_000)]);
    assert_eq!(middlebox.on_packet(&connection.up(flag::ACK), at(50)), 3906);
    assert_eq!(middlebox.on_packet(&connection.down(flag::ACK), at(50)), 781);
}

#[test]
fn too_many_connections_have_two_segments_each() {
    // wan F10: 1 Mb/s and 10 ms are 1250 bytes.
    let mut middlebox = middlebox("", 1.0);
    let connections = several(&mut middlebox, 3, 443, 10, 2);
    assert_eq!(connections[0].window(&mut middlebox, 50), 730);
    // Windows of a handshake, and of zero, stay.
    let [(syn, _), (answer, _), _] = connections[0].handshake();
    assert_eq!([syn, answer].map(|packet| middlebox.on_packet(&packet, at(60))), [u16::MAX; 2]);
    let mut closed = connections[1].up(flag::ACK);
    closed.window = 0;
    assert_eq!(middlebox.on_packet(&closed, at(60)), 0);
}

#[test]
fn a_window_that_must_not_shrink_follows_the_limit_slowly() {
    for (guard, window) in [(false, 1953), (true, 3906)] {
        let mut middlebox = middlebox(&format!("no-shrink = {guard}"), 100.0);
        let connections = several(&mut middlebox, 1, 443, 40, 7);
        assert_eq!(connections[0].window(&mut middlebox, 50), 3906);
        Connection::new(9, 443, 40, 7).begin(&mut middlebox, 100);
        assert_eq!(connections[0].window(&mut middlebox, 200), window);
    }
}

/// An ACK of the client of a connection in bytes of IPv4, without checksums.
fn bytes(connection: &Connection) -> Vec<u8> {
    let mut packet = vec![0; 40];
    let packet_of = connection.up(flag::ACK);
    packet[..4].copy_from_slice(&[0x45, 0, 0, 40]);
    packet[9] = 6;
    packet[12..16].copy_from_slice(&[192, 168, 1, 2]);
    packet[16..20].copy_from_slice(&[203, 0, 113, 9]);
    packet[20..22].copy_from_slice(&connection.client.1.to_be_bytes());
    packet[22..24].copy_from_slice(&connection.server.1.to_be_bytes());
    packet[24..28].copy_from_slice(&packet_of.sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&packet_of.acknowledgement.to_be_bytes());
    packet[32..36].copy_from_slice(&[0x50, flag::ACK, 0xff, 0xff]);
    packet
}

#[test]
fn bytes_are_the_same_as_segments_and_what_is_none_is_counted() {
    let mut middlebox = middlebox("", 100.0);
    let connection = Connection::new(1, 443, 40, 7);
    connection.begin(&mut middlebox, 0);
    let mut packet = bytes(&connection);
    assert!(middlebox.on_bytes(&mut packet, Framing::Ip, LAN, at(50)));
    assert_eq!(packet[34..36], 3906_u16.to_be_bytes());
    assert!(!middlebox.on_bytes(&mut packet, Framing::Ip, LAN, at(51)));

    let mut pass = |at_byte: usize, value: u8, length: usize| {
        let mut packet = bytes(&connection);
        packet[at_byte] = value;
        packet.truncate(length);
        let before = packet.clone();
        assert!(!middlebox.on_bytes(&mut packet, Framing::Ip, WAN, at(60)));
        assert_eq!(packet, before);
    };
    pass(9, 17, 40);
    pass(6, 0x20, 40);
    pass(9, 47, 40);
    pass(0, 0x45, 39);
    let counts = middlebox.counts();
    assert_eq!((counts.other, counts.fragments, counts.tunnels, counts.malformed), (1, 1, 1, 1));
    assert_eq!((counts.segments, counts.lowered), (5, 2));
}
