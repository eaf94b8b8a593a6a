//! Choices among parallel paths.

use std::path::Path;

use headway_record::{Results, SelectResult};
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// Three paths whose cross traffic moves: 50, 30 and 80 Mb/s with 20, 10 and 60 ms.
fn run(duration: u32, keys: &str, paths: &str) -> Results {
    let link = |name: &str, rate: f64, delay: f64| {
        format!(
            "[[link]]\nfrom = \"home\"\nto = \"{name}\"\nrate = \"{rate} Mb/s\"\nbuffer = \"100 ms\"\n\
             [[link]]\nfrom = \"{name}\"\nto = \"server\"\ndelay = \"{delay} ms\"\n"
        )
    };
    let links = link("a", 50.0, 10.0) + &link("b", 30.0, 5.0) + &link("c", 80.0, 30.0);
    let select = format!("[[select]]\nfrom = \"home\"\nto = \"server\"\n{keys}\npath = [{paths}]\n");
    let text = format!("duration = \"{duration} s\"\ninterval = \"60 s\"\n{links}{select}");
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, 3, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

const PATHS: &str = "{ via = [\"a\"] }, { via = [\"b\"] }, { via = [\"c\"] }";

fn one<'a>(results: &'a Results, strategy: &str) -> &'a SelectResult {
    results.summary.selections.iter().find(|one| one.strategy == strategy).unwrap()
}

#[test]
fn the_best_path_is_found_for_few_bytes() {
    let keys = "max-bytes-per-hour = \"20 MB\"\nrivals = [\"lowest-ping\", \"iperf\", \"oracle\"]";
    let results = run(5_400, keys, PATHS);
    let (own, ping) = (one(&results, "available"), one(&results, "lowest-ping"));
    assert!(own.on_good >= 0.75 && own.on_good >= 1.5 * ping.on_good, "{own:?} {ping:?}");
    assert!(own.bytes_per_path_hour * 5 <= one(&results, "iperf").bytes_per_path_hour, "{own:?}");
    assert!(own.most_bytes_in_an_hour <= 20_000_000, "{own:?}");
    let oracle = one(&results, "oracle");
    assert!(own.changes_per_hour <= 2.0 * oracle.changes_per_hour, "{own:?} {oracle:?}");
    assert!(oracle.on_best > 0.999 && own.free_bps <= oracle.free_bps);
}

#[test]
fn the_same_seed_gives_the_same_choice() {
    let results = || run(600, "rivals = [\"get\"]", PATHS).summary.selections;
    assert_eq!(results(), results());
}

#[test]
fn a_path_that_is_down_is_left_within_an_interval() {
    let paths =
        "{ via = [\"a\"] }, { via = [\"c\"], down = [[\"600 s\", \"900 s\"], [\"1000 s\", \"1200 s\"]] }";
    let keys = "load = [0.5, 0.5]\nmax-bytes-per-hour = \"10 MB\"";
    let results = run(1_500, keys, paths);
    let own = one(&results, "available");
    // Four times the other path is better or the only one, and after the second outage it must settle first.
    assert!(own.on_good > 0.95 && own.reaction_ns < 15_000_000_000, "{own:?}");
}

#[test]
fn among_paths_over_one_link_it_hardly_ever_changes() {
    let paths = "{ name = \"one\", via = [\"a\"] }, { name = \"two\", via = [\"a\"] }";
    let results = run(5_400, "max-bytes-per-hour = \"10 MB\"", paths);
    let own = one(&results, "available");
    assert!(own.changes_per_hour <= 1.0 && own.bytes_per_path_hour < 5_000_000, "{own:?}");
}
