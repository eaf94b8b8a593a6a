//! Policies as people write them, and the errors that they get.

use std::path::Path;

use headway_edge::{MOST_CLASSES, Policy};

use crate::support::policy;

fn refusal(text: &str) -> String {
    Policy::parse(text, Path::new("edge.toml")).unwrap_err().to_string()
}

#[test]
fn an_empty_policy_is_one_class() {
    assert_eq!(policy(""), Policy::default());
    assert_eq!((policy("").class.len(), policy("").class[0].share), (1, 1.0));
}

#[test]
fn a_policy_is_what_was_written() {
    let text = "
        delta = 0.9
        borrow-idle = true
        no-shrink = true
        [classifier]
        cbr-rate = '2 Mb/s'
        [[class]]
        name = 'voice'
        share = '10 %'
        priority = true
        dscp = ['EF', 34, 'cs6']
        [[class]]
        name = 'web'
        share = 0.6
        ceiling = '5 Mb/s'
        ports = [443, '8000-8100']
        prefixes = ['192.0.2.0/24', '2001:db8::/32', '198.51.100.7']
        [[class]]
        name = 'rest'
        share = 0.3
    ";
    let read = policy(text);
    assert_eq!((read.delta, read.borrow_idle, read.no_shrink, read.literal), (0.9, true, true, false));
    let [voice, web, rest] = &read.class[..] else { panic!("{read:?}") };
    assert_eq!(voice.dscp.iter().map(|point| point.get()).collect::<Vec<_>>(), [46, 34, 48]);
    assert_eq!((voice.share, rest.share), (0.1, 0.3));
    assert_eq!(
        (voice.priority, web.ceiling.map(|rate| rate.mbps()), rest.priority),
        (true, Some(5.0), false)
    );
    assert_eq!((read.classifier.cbr_rate.mbps(), read.classifier.least_packets), (2.0, 10));
    assert_eq!(web.ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["443", "8000-8100"]);
    let prefixes = ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"];
    assert_eq!(web.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>(), prefixes);
    // It reads the same when it is written again.
    assert_eq!(policy(&toml::to_string(&read).unwrap()), read);
}

#[test]
fn a_mistake_is_told_with_line_and_key() {
    let class = "[[class]]\nname = 'a'\n";
    for (text, told) in [
        ("delta = 3".to_owned(), "edge.toml, line 1: `delta`: must be above 0 and at most 2"),
        ("\ndelta = nan".to_owned(), "edge.toml, line 2: `delta`: must be above 0"),
        (
            "[classifier]\nbusy = 0".to_owned(),
            "edge.toml, line 2: `classifier.busy`: must be above 0 and at most 1",
        ),
        (
            "[classifier]\nbussy = 1".to_owned(),
            "edge.toml, line 2: `classifier.bussy`: unknown field `bussy`",
        ),
        (
            format!("{class}share = 1.0\nceiling = '0 Mb/s'"),
            "edge.toml, line 4: `class[0].ceiling`: must be above 0",
        ),
        (
            format!("{class}share = 1.0\nceiling = '1 Mb/s'\npriority = true"),
            "edge.toml, line 4: `class[0].ceiling`: a class with `priority` is never limited",
        ),
        ("delta = 'x'".to_owned(), "edge.toml, line 1: `delta`: invalid type: string \"x\", expected f64"),
        (
            "borow-idle = true".to_owned(),
            "edge.toml, line 1: `borow-idle`: unknown field `borow-idle`, expected one of",
        ),
        (
            "literal = true\nborrow-idle = true".to_owned(),
            "edge.toml, line 2: `borrow-idle`: is no part of the algorithm",
        ),
        ("class = []".to_owned(), "edge.toml, line 1: `class`: there must be one at least"),
        (class.to_owned(), "missing field `share`"),
        (format!("{class}share = 0"), "edge.toml, line 3: `class[0].share`: must be above 0 and at most 1"),
        (format!("{class}share = 1.5"), "edge.toml, line 3: `class[0].share`: must be above 0 and at most 1"),
        (format!("{class}share = 'much'"), "line 3: `class[0].share`: `much` is not a share"),
        (
            "[[class]]\nname = ''\nshare = 1".to_owned(),
            "edge.toml, line 2: `class[0].name`: must not be empty",
        ),
        (
            format!("{class}share = 0.5\nports = [1]\n{class}share = 0.5"),
            "edge.toml, line 6: `class[1].name`: `a` is the name of another class",
        ),
        (
            format!("{class}share = 0.7\nports = [1]\n[[class]]\nname = 'b'\nshare = 0.4"),
            "edge.toml, line 7: `class[1].share`: the shares up to this one are 1.100 in sum",
        ),
        (
            format!("{class}share = 0.7\n[[class]]\nname = 'b'\nshare = 0.3"),
            "edge.toml, line 4: `class[1]`: no connection is left for it: `a` before it",
        ),
        (format!("{class}share = 1\nports = [70000]"), "`70000` is no port"),
        (format!("{class}share = 1\nports = [-1]"), "`-1` is no port"),
        (format!("{class}share = 1\nports = ['9-1']"), "the larger number comes last, `1-9`"),
        (format!("{class}share = 1\nports = [true]"), "expected a port such as 443"),
        (
            format!("{class}share = 1\nprefixes = ['192.0.2.1/24']"),
            "line 4: `class[0].prefixes`: `192.0.2.1/24` has an address with bits behind its length; write `192.0.2.0/24`",
        ),
        (format!("{class}share = 1\nprefixes = ['::/129']"), "`::/129` has a length above 128"),
        (format!("{class}share = 1\nprefixes = ['example.org']"), "`example.org` is no prefix such as"),
        (format!("{class}share = 1\ndscp = [64]"), "`64` is no code point"),
        (format!("{class}share = 1\ndscp = ['af44']"), "`af44` is no code point"),
        (
            format!(
                "{class}share = 1\nports = {:?}\nprefixes = ['::/0', '0.0.0.0/0']",
                (1..=33).collect::<Vec<_>>()
            ),
            "edge.toml, line 1: `class[0]`: with its ports times its prefixes there are 66 conditions, and at most 64",
        ),
        ("[[class]\n".to_owned(), "edge.toml, line 1: "),
    ] {
        let refused = refusal(&text);
        assert!(refused.contains(told), "{text}\n{refused}\n{told}");
    }
    let many: String = (0..=MOST_CLASSES)
        .map(|class| format!("[[class]]\nname = 'c{class}'\nshare = 0.01\nports = [{class}]\n"))
        .collect();
    assert!(refusal(&many).contains("`class`: there are 33, and at most 32"), "{}", refusal(&many));
}

#[test]
fn shares_that_are_the_whole_link_but_for_rounding_are_right() {
    let tenths: String = (0..10)
        .map(|class| format!("[[class]]\nname = 'c{class}'\nshare = 0.1\nports = [{class}]\n"))
        .collect();
    assert_eq!(policy(&tenths).class.len(), 10);
}
