//! Routes of packets with a mark.

use headway_telemetry::marked::MarkedRoute;
use headway_telemetry::preferred::NextHop;

use crate::{ip, is_alone, link};

#[test]
fn packets_with_a_mark_take_their_next_hop_and_all_others_what_they_took() {
    if !is_alone() {
        return;
    }
    link();
    ip("addr add fd00:1::3/64 dev eth0 nodad");
    ip("route add default via 10.1.2.9");
    let listed = || ["-4 rule", "-6 rule", "-4 route show table all", "-6 route show table all"].map(ip);
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
    let is_set = |mark, gateway: &str| route(mark).is_set(&hop(gateway)).unwrap();
    assert!(is_set(1_000, "10.1.2.8") && is_set(1_001, "fd00:1::7"));
    assert!(!is_set(1_000, "10.1.2.7") && !is_set(1_001, "fd00:1::8") && !is_set(1_002, "10.1.2.9"));
    assert!(route(1_002).set(&hop("203.0.113.1")).is_err(), "nothing leads there");
    assert!(route(1_000).remove().unwrap() && route(1_001).remove().unwrap());
    assert!(!route(1_000).remove().unwrap() && !is_set(1_000, "10.1.2.8"));
    assert_eq!(listed(), before);
}
