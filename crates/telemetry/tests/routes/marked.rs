//! Routes of packets with a mark.

use headway_telemetry::marked::MarkedRoute;
use headway_telemetry::preferred::NextHop;

use crate::{ip, is_alone, link, without_link_local};

#[test]
fn packets_with_a_mark_take_their_next_hop_and_all_others_what_they_took() {
    if !is_alone() {
        return;
    }
    without_link_local();
    link();
    ip("addr add fd00:1::3/64 dev eth0 nodad");
    ip("route add default via 10.1.2.9");
    // In any order: the kernel lists last what has come last.
    let sorted = |what: &str| {
        let mut lines: Vec<String> = ip(what).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let listed = || ["-4 rule", "-6 rule", "-4 route show table all", "-6 route show table all"].map(sorted);
    let before = listed();
    let to = |destination: &str, mark: u32| ip(&format!("route get {destination} mark {mark}"));
    let route = |mark| MarkedRoute { mark, protocol: 126 };
    let hop = |gateway: &str| NextHop { gateway: Some(gateway.parse().unwrap()), interface: None };
    route(1_000).set(&hop("10.1.2.7")).unwrap();
    route(1_001).set(&hop("fd00:1::7")).unwrap();
    assert!(to("192.0.2.1", 1_000).contains("via 10.1.2.7 "), "{}", to("192.0.2.1", 1_000));
    assert!(to("192.0.2.1", 1_001).contains("via 10.1.2.9 "));
    assert!(to("2001:db8::1", 1_001).contains("via fd00:1::7 "));
    // Another next hop takes the place of the one before.
    route(1_000).set(&hop("10.1.2.8")).unwrap();
    assert!(to("192.0.2.1", 1_000).contains("via 10.1.2.8 "));
    let is_wrong = |mark, gateway: &str| route(mark).leads_elsewhere(&hop(gateway)).unwrap();
    assert!(!is_wrong(1_000, "10.1.2.8") && !is_wrong(1_001, "fd00:1::7"));
    assert!(is_wrong(1_000, "10.1.2.7") && is_wrong(1_001, "fd00:1::8") && is_wrong(1_002, "10.1.2.9"));
    // Without the interface they go nowhere, though others have another way.
    ip("link add eth2 type veth peer name eth3");
    ip("link set eth3 up");
    ip("link set eth2 up");
    ip("addr add 10.1.3.3/24 dev eth2");
    ip("link set eth0 down");
    ip("route replace default via 10.1.3.9");
    let socket = |mark: u32| {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Mark, &mark).unwrap();
        socket.connect("192.0.2.1:9")
    };
    assert!(socket(1_000).is_err() && socket(1_002).is_ok());
    assert!(!is_wrong(1_000, "10.1.2.8"));
    ip("link set eth0 up");
    ip("link del eth2");
    ip("addr add fd00:1::3/64 dev eth0 nodad");
    ip("route add default via 10.1.2.9");
    assert!(route(1_002).set(&hop("203.0.113.1")).is_err(), "nothing leads there");
    for mark in 1_000..1_003 {
        assert!(route(mark).remove().unwrap() && !route(mark).remove().unwrap());
    }
    assert!(is_wrong(1_000, "10.1.2.8"));
    assert_eq!(listed(), before);
}
