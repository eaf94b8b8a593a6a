//! Which connections a middlebox knows, and when they end.

use headway_arithmetic::flow::flag;
use headway_edge::Counts;

use crate::support::{Connection, LAN, at, middlebox, policy};

const CLASSES: &str = "
    [[class]]
    name = 'web'
    share = 0.5
    ports = [443]
    [[class]]
    name = 'mail'
    share = 0.3
    ports = [25, 993]
    [[class]]
    name = 'ssh'
    share = 0.2
    ports = [22]
";

#[test]
fn three_handshakes_are_three_connections_of_their_classes() {
    // wan F1
    let mut middlebox = middlebox(CLASSES, 100.0);
    let all = [(443, 0), (993, 1), (22, 2)].map(|(port, class)| (Connection::new(port, port, 40, 7), class));
    for (connection, _) in &all {
        connection.begin(&mut middlebox, 0);
    }
    assert_eq!((middlebox.connections().count(), middlebox.half_open(), middlebox.counts().begun), (3, 0, 3));
    for (connection, class) in all {
        let flow = connection.tracked(&middlebox).unwrap().flow();
        assert_eq!((flow.class, flow.rtt(), flow.scale(0)), (class, Some(40_000_000), Some(7)));
    }
}

#[test]
fn what_meets_no_class_or_has_no_scale_passes_and_only_the_latter_counts() {
    let mut middlebox = middlebox(CLASSES, 100.0);
    let other = Connection::new(1, 80, 40, 7);
    let unscaled = Connection { scale: None, ..Connection::new(2, 443, 40, 7) };
    let scaled = Connection::new(3, 443, 40, 7);
    let windows = [other, unscaled, scaled].map(|connection| connection.begin(&mut middlebox, 0));
    // Half of 50 Mb/s times 40 ms, in units of 128 bytes (wan 2.2: n includes connections
    // that cannot be limited).
    assert_eq!(windows, [u16::MAX, u16::MAX, 976]);
    assert_eq!([other, unscaled].map(|connection| connection.limit(&middlebox)), [None, None]);
    let counts = middlebox.counts();
    assert_eq!((counts.without_class, counts.unlimited, counts.lowered), (1, 1, 1));
}

#[test]
fn a_connection_that_was_there_before_passes_unchanged() {
    // wan F9
    let mut middlebox = middlebox("", 1.0);
    let connection = Connection::new(1, 443, 40, 7);
    for ms in 0..100 {
        assert_eq!(connection.window(&mut middlebox, ms), u16::MAX);
        let packet = connection.down(flag::ACK);
        assert_eq!(middlebox.on_packet(&packet, at(ms)), u16::MAX);
    }
    // Nor does one whose first packet was missed become known, or one that turns round at the middlebox.
    let [_, (answer, _), (third, _)] = connection.handshake();
    middlebox.on_packet(&answer, at(200));
    middlebox.on_packet(&third, at(220));
    let [(syn, _), (mut answer, _), (third, _)] = connection.handshake();
    answer.side = LAN;
    for packet in [syn, answer, third] {
        assert_eq!(middlebox.on_packet(&packet, at(300)), u16::MAX);
    }
    assert_eq!((middlebox.connections().count(), middlebox.counts().lowered), (0, 0));
}

#[test]
fn a_connection_ends_with_a_reset_with_both_fins_in_silence_and_when_its_ends_begin_again() {
    let mut middlebox = middlebox("", 100.0);
    let connection = Connection::new(1, 443, 40, 7);
    connection.begin(&mut middlebox, 0);
    connection.end(&mut middlebox, 50);
    assert_eq!((middlebox.connections().count(), middlebox.allocator().live(0)), (0, 0));

    connection.begin(&mut middlebox, 100);
    for packet in [connection.up(flag::FIN | flag::ACK), connection.down(flag::FIN | flag::ACK)] {
        middlebox.on_packet(&packet, at(200));
    }
    assert_eq!(middlebox.allocator().live(0), 0);

    connection.begin(&mut middlebox, 1000);
    middlebox.expire(at(1040 + 300_000));
    assert_eq!(middlebox.allocator().live(0), 1);
    middlebox.expire(at(1041 + 300_000));
    assert_eq!(middlebox.allocator().live(0), 0);

    connection.begin(&mut middlebox, 400_000);
    let again = Connection { rtt: 80, scale: Some(3), ..connection };
    again.begin(&mut middlebox, 500_000);
    let flow = again.tracked(&middlebox).unwrap().flow();
    assert_eq!((flow.rtt(), flow.scale(0), flow.is_ambiguous()), (Some(80_000_000), Some(3), false));
    let Counts { begun, ended, .. } = middlebox.counts();
    assert_eq!((begun, ended, middlebox.allocator().live(0)), (5, 4, 1));
}

#[test]
fn an_earlier_connection_between_the_hosts_tells_what_a_repeated_syn_took() {
    let mut middlebox = middlebox("", 100.0);
    let repeated = |middlebox: &mut _, port| {
        let connection = Connection::new(port, 443, 40, 7);
        let [(syn, _), ..] = connection.handshake();
        headway_edge::Middlebox::on_packet(middlebox, &syn, at(10_000));
        connection.begin(middlebox, 11_000);
        connection.tracked(middlebox).unwrap().flow().rtt().unwrap() / 1_000_000
    };
    // The larger of both, unless a handshake before it was quicker than the repetition.
    assert_eq!(repeated(&mut middlebox, 1), 1040);
    Connection::new(2, 443, 40, 7).begin(&mut middlebox, 0);
    assert_eq!(repeated(&mut middlebox, 3), 40);
}

#[test]
fn another_policy_reaches_the_connections_that_are_there() {
    let mut middlebox = middlebox(CLASSES, 100.0);
    let connection = Connection::new(1, 443, 40, 7);
    connection.begin(&mut middlebox, 0);
    assert_eq!(connection.limit(&middlebox), Some(250_000));
    middlebox.set_policy(&policy("[[class]]\nname = 'all'\nshare = 0.1"), crate::support::mbps(100.0));
    assert_eq!(connection.limit(&middlebox), Some(50_000));
    middlebox.set_policy(
        &policy("[[class]]\nname = 'ssh'\nshare = 0.1\nports = [22]"),
        crate::support::mbps(100.0),
    );
    assert_eq!((connection.limit(&middlebox), connection.window(&mut middlebox, 50)), (None, u16::MAX));
}
