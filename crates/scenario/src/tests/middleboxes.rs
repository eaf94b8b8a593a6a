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
    assert_eq!(middlebox.rates(), Some([mbps(90.0), mbps(90.0)]));
    assert_eq!(middlebox.policy(&scenario), headway_edge::Policy::default());
    let class = "[[middlebox.class]]\nname = \"x\"\nshare = \"20 %\"\nflows = [\"reno\"]\n";
    let scenario =
        with(&format!("{SHARED}up = \"9 Mb/s\"\npolicy = {{ delta = 1.1, no-shrink = true }}\n{class}"))
            .unwrap();
    let policy = scenario.middlebox[0].policy(&scenario);
    assert_eq!(scenario.middlebox[0].rates(), Some([mbps(90.0), mbps(9.0)]));
    assert_eq!((policy.delta, policy.no_shrink, policy.class[0].share), (1.1, true, 0.2));
    assert_eq!(policy.class[0].ports, [headway_edge::Ports::from(MiddleboxSpec::port(0))]);
    assert_eq!(scenario.dilated(10).unwrap().middlebox[0].rate, Some(mbps(9.0)));
    // Without a rate it is found.
    assert_eq!(with("wan = \"left\"").unwrap().middlebox[0].rates(), None);
}

#[test]
fn wrong_middleboxes_are_refused_with_their_key() {
    let class = |keys: &str| format!("{SHARED}[[middlebox.class]]\nname = \"x\"\nshare = 0.2\n{keys}");
    for (keys, wanted) in [
        ("wan = \"a\"\nrate = \"1 Mb/s\"".to_owned(), "`middlebox[0].wan`: `a` is no neighbour of `right`"),
        ("wan = \"left\"\nrate = \"0 Mb/s\"".to_owned(), "`middlebox[0].rate`"),
        ("wan = \"left\"\nup = \"1 Mb/s\"".to_owned(), "`middlebox[0].up`: needs `rate`"),
        (format!("{SHARED}policy = {{ delta = 3.0 }}"), "`middlebox[0].policy.delta`: must be above 0"),
        (format!("{SHARED}policy = {{ delt = 1.0 }}"), "unknown field `delt`"),
        (format!("{SHARED}policy = \"missing.toml\""), "`middlebox[0].policy`: cannot read"),
        (format!("{SHARED}frobnicate = 1"), "frobnicate"),
        (
            "wan = \"left\"\npolicy = { share-by = \"number\" }".to_owned(),
            "`middlebox[0].rate`: is needed where flows share by number",
        ),
        (
            format!("{SHARED}policy = \"x.toml\"\ndelta = 1.1"),
            "`middlebox[0].delta`: is a key of the file that `policy` names",
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
        let scenario = with(&format!("{SHARED}policy = {{ {key} = true }}")).unwrap();
        let error = scenario.check_world(World::Lab).unwrap_err().to_string();
        let wanted = "`middlebox[0].policy`: is not in the lab; `--on sim` has it".to_owned();
        assert!(error.contains(&wanted), "{error}");
    }
}

#[test]
fn older_files_run_with_a_warning_for_each_key() {
    let old = "delta = 0.9\nby-use = true\nfind-rate = true\ndecide = true\nfollow-available = false\n";
    let scenario = with(&format!("{SHARED}{old}")).unwrap();
    let middlebox = &scenario.middlebox[0];
    assert_eq!((middlebox.rates(), middlebox.policy(&scenario).delta), (None, 0.9));
    assert_eq!(scenario.warnings.len(), 5, "{:?}", scenario.warnings);
    let by_number = with(&format!("{SHARED}by-use = false")).unwrap();
    assert!(!by_number.middlebox[0].policy(&by_number).follows_rtt());
    assert!(
        by_number.warnings[0].contains("`middlebox[0].by-use` is an older form; write"),
        "{:?}",
        by_number.warnings
    );
}
