//! Middleboxes.

use super::*;

/// Reads a scenario with a middlebox at `right`.
fn with(keys: &str) -> Result<Scenario, String> {
    let start = "[[middlebox]]\nat = \"right\"\nkind = \"receive-window\"\n";
    read(&format!("{GOOD}{start}{keys}\n"), &[]).map_err(|error| error.to_string())
}

const SHARED: &str = "wan = \"left\"\nrate = \"90 Mb/s\"\n";

#[test]
fn a_middlebox_has_the_policy_of_its_keys() {
    let scenario = with(SHARED).unwrap();
    let [middlebox] = &scenario.middlebox[..] else { panic!("{:?}", scenario.middlebox) };
    assert_eq!(middlebox.capacity(), [mbps(90.0), mbps(90.0)]);
    assert_eq!(middlebox.policy(&scenario), headway_edge::Policy::default());
    let class = "[[middlebox.class]]\nname = \"x\"\nshare = \"20 %\"\nflows = [\"reno\"]\n";
    let scenario = with(&format!("{SHARED}up = \"9 Mb/s\"\ndelta = 1.1\nno-shrink = true\n{class}")).unwrap();
    let policy = scenario.middlebox[0].policy(&scenario);
    assert_eq!(scenario.middlebox[0].capacity()[1], mbps(9.0));
    assert_eq!((policy.delta, policy.no_shrink, policy.class[0].share), (1.1, true, 0.2));
    assert_eq!(policy.class[0].ports, [headway_edge::Ports::from(MiddleboxSpec::port(0))]);
    assert_eq!(scenario.dilated(10).unwrap().middlebox[0].rate, mbps(9.0));
}

#[test]
fn wrong_middleboxes_are_refused_with_their_key() {
    let class = |keys: &str| format!("{SHARED}[[middlebox.class]]\nname = \"x\"\nshare = 0.2\n{keys}");
    for (keys, wanted) in [
        ("wan = \"a\"\nrate = \"1 Mb/s\"".to_owned(), "`middlebox[0].wan`: `a` is no neighbour of `right`"),
        ("wan = \"left\"\nrate = \"0 Mb/s\"".to_owned(), "`middlebox[0].rate`"),
        ("wan = \"left\"".to_owned(), "rate"),
        (format!("{SHARED}delta = 3.0"), "`middlebox[0].delta`: must be above 0"),
        (format!("{SHARED}frobnicate = 1"), "frobnicate"),
        (
            format!("{SHARED}follow-available = true\nfollow-rtt = false"),
            "`middlebox[0].follow-available`: needs RTTs that are followed",
        ),
        (
            format!("{SHARED}find-rate = true\nliteral = true"),
            "`middlebox[0].find-rate`: needs RTTs that are followed",
        ),
        (
            format!("{SHARED}find-rate = true\nfollow-available = true"),
            "`middlebox[0].find-rate`: sets what is shared",
        ),
        (
            format!("{SHARED}by-use = true\nfollow-rtt = false"),
            "`middlebox[0].by-use`: needs RTTs that are followed",
        ),
        (class("flows = [\"nobody\"]"), "`middlebox[0].class[0].flows`: there is no flow `nobody`"),
        (class("[[middlebox.class]]\nname = \"y\"\nshare = 0.9"), "`middlebox[0].class[1]`"),
    ] {
        let error = with(&keys).unwrap_err();
        assert!(error.contains(wanted), "{keys}: {error}");
    }
    let twice = format!("{SHARED}[[middlebox]]\nat = \"right\"\nkind = \"receive-window\"\n{SHARED}");
    assert!(with(&twice).unwrap_err().contains("there is one at `right` already"));
    for key in ["literal", "follow-available"] {
        let scenario = with(&format!("{SHARED}{key} = true")).unwrap();
        let error = scenario.check_world(World::Lab).unwrap_err().to_string();
        let wanted = format!("`middlebox[0].{key}`: is not in the lab; `--on sim` has it");
        assert!(error.contains(&wanted), "{error}");
    }
}
