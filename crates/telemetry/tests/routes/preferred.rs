//! Routes over several next hops.

use std::net::UdpSocket;
use std::num::NonZeroU8;

use headway_telemetry::preferred::{NextHop, Preferred};

use crate::{ip, is_alone, without_link_local};

/// Returns which part of so many destinations is reached from an address that begins so.
fn part(from: &str, destination: impl Fn(u32) -> String) -> f64 {
    const ALL: u32 = 1_000;
    let is_from = |number: &u32| {
        let host = destination(*number);
        let socket = UdpSocket::bind(if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
        socket.connect((host.as_str(), 9)).unwrap();
        socket.local_addr().unwrap().ip().to_string().starts_with(from)
    };
    (0..ALL).filter(is_from).count() as f64 / f64::from(ALL)
}

#[test]
fn connections_are_spread_by_weights_in_both_versions_of_ip_and_the_rest_stays() {
    if !is_alone() {
        return;
    }
    without_link_local();
    for number in [1, 2] {
        ip(&format!("link add eth{number} type veth peer name far{number}"));
        ip(&format!("link set far{number} up"));
        ip(&format!("link set eth{number} up"));
        ip(&format!("addr add 10.1.{number}.3/24 dev eth{number}"));
        ip(&format!("addr add fd00:{number}::3/64 dev eth{number} nodad"));
    }
    ip("route add default via 10.1.1.9");
    let listed = || ["-4 route", "-6 route"].map(ip);
    let before = listed();
    let routes = Preferred { protocol: 126, metric: 7 };
    let hop = |gateway: &str| NextHop { gateway: Some(gateway.parse().unwrap()), interface: None };
    let weighted = |gateway: &str, weight| (hop(gateway), NonZeroU8::new(weight).unwrap());
    let v4 = |number: u32| format!("198.51.{}.{}", number / 200, number % 200);
    let v6 = |number: u32| format!("2001:db8::{number:x}");
    for (gateways, second, destination) in [
        (["10.1.1.7", "10.1.2.7"], "10.1.2.", &v4 as &dyn Fn(u32) -> String),
        (["fd00:1::7", "fd00:2::7"], "fd00:2:", &v6),
    ] {
        let [one, two] = gateways;
        // In place of a single one, of other weights, and of more hops.
        routes.set(&hop(one)).unwrap();
        assert_eq!(part(second, destination), 0.0);
        for weights in [[50, 50], [20, 80], [250, 5]] {
            routes.spread(&[weighted(one, weights[0]), weighted(two, weights[1])]).unwrap();
            let wanted = f64::from(weights[1]) / f64::from(weights[0] + weights[1]);
            let found = part(second, destination);
            assert!((found - wanted).abs() < 0.06, "{found} instead of {wanted}");
        }
        routes.spread(&[weighted(two, 1)]).unwrap();
        assert_eq!(part(second, destination), 1.0);
    }
    assert!(routes.spread(&[]).is_err());
    let unreachable = [weighted("10.1.1.7", 1), weighted("203.0.113.1", 1)];
    assert!(routes.spread(&unreachable).is_err(), "nothing leads there");
    // All hops go at once.
    routes.spread(&[weighted("10.1.1.7", 1), weighted("10.1.2.7", 1)]).unwrap();
    routes.spread(&[weighted("fd00:1::7", 1), weighted("fd00:2::7", 1)]).unwrap();
    assert!(routes.remove().unwrap() && !routes.remove().unwrap());
    assert_eq!(listed(), before);
}
