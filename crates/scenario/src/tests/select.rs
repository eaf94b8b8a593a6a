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
    let topology = Topology::new(&scenario);
    let routes = select.routes(0, &scenario, &topology).unwrap();
    let names =
        |hops: &[usize]| hops.iter().map(|hop| &topology.directions()[*hop].name[..]).collect::<Vec<_>>();
    let [one, two] = [&routes[0], &routes[1]];
    assert_eq!((names(&one.there), names(&one.back)), (vec!["a->x", "x->b"], vec!["b->x", "x->a"]));
    assert_eq!((names(&[one.tight]), names(&[two.tight])), (vec!["a->x"], vec!["a->y"]));
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

/// Adds a key to the link with this number of the file, and returns why the scenario is refused.
fn refusal(link: usize, key: &str) -> String {
    let mut parts: Vec<String> = LINKS.split_inclusive("[[link]]\n").map(str::to_owned).collect();
    parts[link + 1].insert_str(0, &format!("{key}\n"));
    let text = format!("{}{SELECT}{PATHS}", parts.concat());
    read(&text, &[]).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn what_is_not_modelled_at_a_link_of_a_path_is_refused_with_its_line_and_key() {
    let refused = |link: usize, line: &str, key: &str| {
        let error = refusal(link, line);
        let place = 4 + 4 * link;
        assert!(error.contains(&format!("x.toml, line {place}")), "{error}");
        assert!(error.contains(&format!("link[{link}].{key}`: cannot be on a path")), "{error}");
    };
    for [line, key] in rows(
        r#"
        line = "1 Gb/s"                                              | line
        loss-bursts = { good = "2 s", bad = "100 ms" }               | loss-bursts
        duplicate = 0.01                                             | duplicate
        corrupt = 0.01                                               | corrupt
        ecn = "clear"                                                | ecn
        ack-filter = true                                            | ack-filter
        police = { rate = "10 Mb/s", burst = "30 kB" }               | police
        reverse = { duplicate = 0.1 }                                | reverse.duplicate
        reverse = { loss-bursts = { good = "2 s", bad = "100 ms" } } | reverse.loss-bursts
        "#,
    ) {
        // The narrow link of a path, and the other one, which has no rate.
        refused(0, &line, &key);
        refused(1, &line, &key);
    }
    refused(0, "outages = { every = \"60 s\", length = \"1 s\" }", "outages");
    refused(0, "redrawn = { every = \"1 s\", least = 0.5 }", "redrawn");
    refused(1, "trace = \"x.trace\"", "trace");
    // Also where a path has nothing else to go by.
    let traced = format!("{}{SELECT}{PATHS}", LINKS.replacen("rate = \"50 Mb/s\"", "trace = \"x.trace\"", 1));
    let error = read(&traced, &[]).unwrap_err().to_string();
    assert!(error.contains("line 6") && error.contains("`link[0].trace`: cannot be on a path"), "{error}");
    let kernel = "kernel-queue = \"fq_codel limit 100\"";
    assert!(refusal(0, kernel).contains("`link[0].kernel-queue`"), "{}", refusal(0, kernel));
    for known in [
        "loss = 0.1",
        "jitter = \"3 ms\"\nreordering = true",
        "reverse = { loss = 0.1 }",
        "queue = { kind = \"codel\" }",
    ] {
        assert_eq!(refusal(0, known), "");
    }
    // A link that is on no path may be anything.
    let aside = format!("{LINKS}[[link]]\nfrom = \"x\"\nto = \"y\"\nduplicate = 0.1\n{SELECT}{PATHS}");
    assert!(read(&aside, &[]).is_ok());
}

#[test]
fn what_means_nothing_to_a_choice_is_refused() {
    for [top, rest, key] in rows(
        r#"
        warmup = "60 s"  |  | warmup
        mtu = 9000       |  | mtu
        delays = true    |  | delays
        header-port = 99 |  | header-port
                         | [host.b] // coalescing = "50 us" | host.b
                         | [[change]] // at = "30 s" // link = "a->x" // queue = { kind = "codel" } | change[0]
        "#,
    ) {
        let error = read(&format!("{top}\n{LINKS}{SELECT}{PATHS}{rest}\n"), &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}`: cannot be combined with [[select]]")), "{error}");
        assert!(error.contains("line "), "{error}");
    }
}

#[test]
fn the_way_back_of_a_path_may_be_other_links() {
    let one_way = LINKS.replace("[[link]]", "[[link]]\nduplex = false");
    let error = read(&format!("{one_way}{SELECT}{PATHS}"), &[]).unwrap_err().to_string();
    assert!(error.contains("`select[0].path[0].via`: no way back"), "{error}");
    let both = LINKS.replace(
        "rate = \"50 Mb/s\"",
        "forward = { rate = \"50 Mb/s\" }\nreverse = { loss = 0.1, duplicate = 0.1 }",
    );
    let error = read(&format!("{both}{SELECT}{PATHS}"), &[]).unwrap_err().to_string();
    assert!(error.contains("reverse.duplicate`: cannot be on a path"), "{error}");
}

#[test]
fn the_link_whose_rate_falls_lowest_has_the_cross_traffic() {
    let links = LINKS.replace(
        "delay = \"10 ms\"",
        "delay = \"10 ms\"\nrates = [[\"0 s\", \"90 Mb/s\"], [\"60 s\", \"20 Mb/s\"]]",
    );
    let scenario = read(&format!("{links}{SELECT}{PATHS}"), &[]).unwrap();
    let topology = Topology::new(&scenario);
    let routes = scenario.select[0].routes(0, &scenario, &topology).unwrap();
    assert_eq!(topology.directions()[routes[0].tight].name, "x->b");
}

#[test]
fn the_kernel_in_virtual_time_has_no_choices() {
    let scenario = with(PATHS).unwrap();
    assert!(scenario.check_world(World::Sim).is_ok() && scenario.check_world(World::Lab).is_ok());
    let error = scenario.check_world(World::Uml).unwrap_err().to_string();
    assert!(error.contains("`select[0]`") && error.contains("`--on lab`"), "{error}");
    assert!(scenario.dilated(10).is_err());
}
