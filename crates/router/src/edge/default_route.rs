//! By which interfaces the default routes of this network namespace leave, as far as that says that `--lan`
//! and `--wan` are exchanged.

use std::fs;

/// The flags of a route that refuses packets in place of sending them (linux/route.h).
const REFUSES: u32 = 0x200;

/// Returns a sentence if the interface towards the link looks like that towards the hosts, and
/// the other way round.
pub(super) fn contradiction(lan: &str, wan: &str) -> Option<String> {
    let table = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    are_exchanged([&table("route"), &table("ipv6_route")], lan, wan).then(|| {
        format!(
            "the default route leaves by {lan}, so `--lan` and `--wan` look exchanged: `--lan` is the interface towards the hosts"
        )
    })
}

/// Whether a default route in the tables of IPv4 and IPv6 leaves by the first interface,
/// and none by the second.
fn are_exchanged([v4, v6]: [&str; 2], lan: &str, wan: &str) -> bool {
    let interfaces: Vec<&str> = v4.lines().filter_map(of_v4).chain(v6.lines().filter_map(of_v6)).collect();
    interfaces.contains(&lan) && !interfaces.contains(&wan)
}

/// Returns the interface of a line of `/proc/net/route`, if it is a default route.
fn of_v4(line: &str) -> Option<&str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [interface, "00000000", _, flags, _, _, _, "00000000", ..] = fields[..] else { return None };
    sends(flags).then_some(interface)
}

/// Returns the interface of a line of `/proc/net/ipv6_route`, if it is a default route.
fn of_v6(line: &str) -> Option<&str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [to, "00", _, _, _, _, _, _, flags, interface] = fields[..] else { return None };
    (to.bytes().all(|digit| digit == b'0') && sends(flags)).then_some(interface)
}

/// Whether a route with these flags, in hexadecimal, sends packets somewhere.
fn sends(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & REFUSES == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_those_to_everywhere_that_refuse_nothing() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010011AC\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            *\t00000000\t00000000\t0200\t0\t0\t900\t00000000\t0\t0\t0\n\
            tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";
        assert_eq!(v4.lines().filter_map(of_v4).collect::<Vec<_>>(), ["eth0"]);
        let [zero, here] = ["0", "f"].map(|digit| digit.repeat(32));
        let v6 = format!(
            "{zero} 00 {zero} 00 {here} 00000400 00000001 00000000 00000003     eth0\n\
             fd000000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth1\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n"
        );
        assert_eq!(v6.lines().filter_map(of_v6).collect::<Vec<_>>(), ["eth0"]);
        assert!(are_exchanged([v4, ""], "eth0", "eth1") && are_exchanged(["", &v6], "eth0", "eth1"));
        assert!(!are_exchanged([v4, &v6], "eth1", "eth0") && !are_exchanged([v4, &v6], "eth1", "eth2"));
        // There may be two links.
        assert!(!are_exchanged([v4, &v6.replace("eth0", "eth1")], "eth0", "eth1"));
    }
}
