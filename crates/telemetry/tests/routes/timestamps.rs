//! Routes whose connections have timestamps of microseconds.

use headway_telemetry::route::Route;

use crate::{ip, is_alone, link};

fn listed() -> [String; 2] {
    ["-4 route", "-6 route"].map(ip)
}

#[test]
fn a_route_gets_microseconds_and_is_as_before_afterwards() {
    if !is_alone() {
        return;
    }
    link();
    ip("route add 10.7.0.0/16 via 10.1.2.9 dev eth0 metric 50 mtu 1400 features ecn");
    ip("route add 10.7.0.0/16 via 10.1.2.8 dev eth0 metric 60");
    ip("route add 10.8.0.0/16 nexthop via 10.1.2.8 dev eth0 weight 3 nexthop via 10.1.2.9 dev eth0");
    ip("nexthop add id 7 via 10.1.2.7 dev eth0");
    ip("route add 10.9.0.0/16 nhid 7");
    ip("route add unreachable 10.10.0.0/16");
    ip("-6 route add fd00:7::/64 dev eth0");
    ip("-6 route add default via fe80::1 dev eth0");
    let before = (listed(), Route::all().unwrap());
    // Two, one for each interface.
    assert!(before.0[1].matches("fe80::/64").count() == 2, "{}", before.0[1]);
    let names: Vec<String> = before.1.iter().map(Route::to_string).collect();
    for name in ["10.1.2.0/24", "10.7.0.0/16", "10.8.0.0/16", "fd00:7::/64", "::/0"] {
        assert!(names.iter().any(|other| other == name), "{name} of {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("10.10.") || name.starts_with("fe80")), "{names:?}");
    if before.1[0].set_microseconds(true).is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
        return println!("SKIPPED: this kernel has no microsecond timestamps");
    }
    assert_eq!(before.1.len(), 6, "{names:?}");
    for route in &before.1 {
        assert!(!route.has_microseconds(), "{route}");
        route.set_microseconds(true).unwrap_or_else(|error| panic!("{route}: {error}"));
    }
    let changed = Route::all().unwrap();
    assert_eq!(changed.len(), before.1.len());
    let without: Vec<String> =
        changed.iter().filter(|route| !route.has_microseconds()).map(Route::to_string).collect();
    assert!(without.is_empty(), "{without:?}");
    assert!(ip("-4 route").contains("mtu 1400"));
    changed.iter().try_for_each(|route| route.set_microseconds(false)).unwrap();
    let sorted = |mut lists: [String; 2]| {
        lists.iter_mut().for_each(|list| {
            let mut lines: Vec<&str> = list.lines().collect();
            lines.sort();
            *list = lines.join("\n");
        });
        lists
    };
    assert_eq!(sorted(listed()), sorted(before.0));
    assert_eq!(Route::all().unwrap().len(), before.1.len());
}
