//! Choices among paths.

use super::*;

const LINKS: &str = r#"duration = "3600 s"
interval = "60 s"
[[link]]
from = "a"
to = "x"
rate = "50 Mb/s"
[[link]]
from = "x"
to = "b"
delay = "10 ms"
[[link]]
from = "a"
to = "y"
rate = "30 Mb/s"
delay = "5 ms"
[[link]]
from = "y"
to = "b"
"#;
const SELECT: &str = "[[select]]\nfrom = \"a\"\nto = \"b\"\n";
const PATHS: &str = "path = [{ via = [\"x\"] }, { via = [\"y\"] }]\n";

fn with(keys: &str) -> Result<Scenario, String> {
    read(&format!("{LINKS}{SELECT}{keys}\n"), &[]).map_err(|error| error.to_string())
}

#[test]
fn a_choice_has_the_settings_of_its_keys_and_the_tight_links_of_its_paths() {
    let keys = "strategy = \"available-with-latency-floor\"\nlatency-floor = \"50 ms\"\ntolerance = \"20 %\"\n\
                max-bytes-per-hour = \"4 MB\"\nmax-bytes-per-month = \"1 GB\"\nrivals = [\"get\", \"oracle\"]\n";
    let scenario = with(&format!("{keys}{PATHS}")).unwrap();
    let select = &scenario.select[0];
    let settings = select.settings();
    assert_eq!((settings.tolerance, settings.max_bytes_per_hour), (0.2, Bytes::new(4_000_000)));
    assert_eq!(settings.strategy.name(), "available-with-latency-floor");
    let tight = select.tight_links(0, &scenario, &Topology::new(&scenario)).unwrap();
    assert_eq!(tight, [(0, Duration::from_ms(10)), (2, Duration::from_ms(5))]);
    assert_eq!(select.path[1].name(), "y");
}

#[test]
fn wrong_choices_are_refused_with_their_key() {
    for (keys, wanted) in [
        ("path = [{ via = [\"x\"] }]".to_owned(), "needs 2 to 64 paths"),
        (
            "path = [{ via = [\"x\"] }, { via = [\"q\"] }]".to_owned(),
            "`select[0].path[1].via`: `q` is not one of the nodes",
        ),
        (format!("{PATHS}tolerance = 2"), "`select[0].tolerance`"),
        (format!("{PATHS}interval = \"1 ms\""), "`select[0].interval`"),
        (format!("{PATHS}load = [0.9, 0.1]"), "`select[0].load`"),
        (format!("{PATHS}stays = [\"0 s\", \"1 s\"]"), "`select[0].stays`"),
        (format!("{PATHS}rivals = [\"guess\"]"), "guess"),
        (format!("{PATHS}strategy = \"fastest\""), "fastest"),
        (
            format!("{PATHS}[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\""),
            "cannot be combined with [[flow]]",
        ),
        (
            "path = [{ via = [\"x\"] }, { via = [\"y\"], down = [[\"9 s\", \"3 s\"]] }]".to_owned(),
            "`select[0].path[1].down`",
        ),
    ] {
        let error = with(&keys).expect_err(wanted);
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn the_kernel_in_virtual_time_has_no_choices() {
    let scenario = with(PATHS).unwrap();
    assert!(scenario.check_world(World::Sim).is_ok() && scenario.check_world(World::Lab).is_ok());
    let error = scenario.check_world(World::Uml).unwrap_err().to_string();
    assert!(error.contains("`select[0]`") && error.contains("`--on lab`"), "{error}");
    assert!(scenario.dilated(10).is_err());
}
