//! More connections than there is room for.

use std::net::{IpAddr, Ipv4Addr};

use headway_arithmetic::flow::flag;
use headway_edge::{Limits, Middlebox, Policy};
use headway_units::Duration;

use crate::support::{Connection, at, mbps};

fn small() -> Middlebox {
    let limits = Limits { half_open: 100, established: 50, idle: Duration::from_ms(1000) };
    Middlebox::new(&Policy::default(), mbps(1000.0), limits)
}

fn from(number: u32) -> Connection {
    let client = (IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number / 50_000)), (number % 50_000) as u16);
    Connection { client, ..Connection::new(1, 443, 40, 7) }
}

#[test]
fn a_flood_of_syns_takes_no_limit_away() {
    let mut middlebox = small();
    let connection = Connection::new(1, 443, 40, 7);
    let before = connection.begin(&mut middlebox, 0);
    for number in 0..100_000 {
        middlebox.on_packet(&from(number).up(flag::SYN), at(100));
    }
    assert_eq!((middlebox.half_open(), middlebox.counts().pushed_out), (100, 99_900));
    assert_eq!((connection.window(&mut middlebox, 200), middlebox.allocator().live(0)), (before, 1));
    // A handshake that the flood overtakes passes unlimited, and one that is quicker does not.
    let [(syn, _), (answer, _), (third, _)] = from(200_000).handshake();
    for packet in [syn, answer, third] {
        middlebox.on_packet(&packet, at(300));
    }
    assert_eq!(middlebox.counts().begun, 2);
}

#[test]
fn a_table_that_is_full_lets_others_pass_until_there_is_room() {
    let mut middlebox = small();
    for number in 0..80 {
        let window = from(number).begin(&mut middlebox, 0);
        assert_eq!(window == u16::MAX, number >= 50, "{number}");
    }
    assert_eq!((middlebox.connections().count(), middlebox.counts().without_room), (50, 30));
    from(0).end(&mut middlebox, 100);
    assert!(from(100).begin(&mut middlebox, 200) < u16::MAX);
    middlebox.expire(at(2000));
    assert_eq!((middlebox.connections().count(), middlebox.allocator().live(0)), (0, 0));
}

#[test]
fn connections_that_come_and_go_leave_nothing() {
    let mut middlebox = small();
    for number in 0..100_000 {
        let connection = from(number);
        connection.begin(&mut middlebox, u64::from(number));
        connection.end(&mut middlebox, u64::from(number) + 50);
    }
    let counts = middlebox.counts();
    assert_eq!((counts.begun, counts.ended, counts.without_room), (100_000, 100_000, 0));
    assert_eq!((middlebox.connections().count(), middlebox.half_open()), (0, 0));
}
