//! Classes by port, prefix and code point.

use headway_arithmetic::flow::{MOST_RULES, Rule, Rules};

use crate::support::{CLIENT, LAN, SERVER, Segment, WAN};

fn rules(list: &[Rule]) -> Rules {
    let mut rules = Rules::default();
    list.iter().for_each(|rule| assert!(rules.push(*rule)));
    rules
}

/// The class of a connection from the client to the server.
fn class(rules: &Rules, dscp: u8) -> Option<u32> {
    let packet = Segment::syn().read(LAN);
    rules.classify(packet.key(), packet.sender(), dscp)
}

#[test]
fn the_first_rule_that_is_met_decides() {
    let web = Rule::any(1).with_ports(&(80..=443));
    assert_eq!(class(&rules(&[web, Rule::any(2)]), 0), Some(1));
    assert_eq!(class(&rules(&[Rule::any(2), web]), 0), Some(2));
    assert_eq!(class(&rules(&[]), 0), None);
}

#[test]
fn a_port_is_that_of_the_end_that_answered() {
    for (ports, met) in [(443..=443, true), (444..=65_535, false), (0..=442, false), (50_000..=50_000, false)]
    {
        assert_eq!(class(&rules(&[Rule::any(1).with_ports(&ports)]), 0).is_some(), met, "{ports:?}");
    }
    // The same where the server is the first end of the key.
    let packet = Segment::new(SERVER, CLIENT, 2).read(WAN);
    let rules = rules(&[Rule::any(1).with_ports(&(50_000..=50_000))]);
    assert_eq!(rules.classify(packet.key(), packet.sender(), 0), Some(1));
}

#[test]
fn a_prefix_holds_for_either_end() {
    for (prefix, bits, met) in [
        ("192.168.1.0", 24, true),
        ("203.0.113.9", 32, true),
        ("203.0.113.8", 31, true),
        ("203.0.113.8", 32, false),
        ("192.168.2.0", 24, false),
        ("0.0.0.0", 0, true),
        ("::", 0, false),
        // The same bits as the client, in the other version.
        ("c0a8:102::", 32, false),
    ] {
        let rule = Rule::any(1).with_prefix(prefix.parse().unwrap(), bits);
        assert_eq!(class(&rules(&[rule]), 0).is_some(), met, "{prefix}/{bits}");
    }
    let v6 = Segment::new(("2001:db8:1::1".parse().unwrap(), 1), ("2001:db8:2::1".parse().unwrap(), 2), 2);
    let packet = v6.read(LAN);
    for (prefix, bits, met) in
        [("2001:db8:2::", 48, true), ("2001:db8:3::", 48, false), ("2001:db8::", 32, true)]
    {
        let rules = rules(&[Rule::any(1).with_prefix(prefix.parse().unwrap(), bits)]);
        assert_eq!(rules.classify(packet.key(), packet.sender(), 0).is_some(), met, "{prefix}");
    }
}

#[test]
fn a_code_point_is_one_of_several() {
    let rules = rules(&[Rule::any(1).with_codepoints(1 << 46 | 1 << 63 | 1)]);
    for (dscp, met) in [(0, true), (46, true), (63, true), (1, false), (45, false)] {
        assert_eq!(class(&rules, dscp).is_some(), met, "{dscp}");
    }
}

#[test]
fn there_is_room_for_as_many_rules_as_are_named() {
    let mut rules = Rules::default();
    let none = Rule::any(1).with_ports(&(1..=1));
    for rule in 0..MOST_RULES {
        assert!(rules.push(if rule == MOST_RULES - 1 { Rule::any(9) } else { none }));
    }
    assert!(!rules.push(none));
    assert_eq!(class(&rules, 0), Some(9));
}
