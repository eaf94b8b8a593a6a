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
    let select = format!(
        "[[select]]\nfrom = \"home\"\nto = \"server\"\nstrategy = \"available\"\n{keys}\npath = [{paths}]\n"
    );
    let text = format!("duration = \"{duration} s\"\ninterval = \"60 s\"\n{links}{select}");
    finish(&Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap())
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

/// A path of 40 Mb/s with 20 ms beside one of 30 Mb/s with 10 ms, both with nothing else on them. `links` are
/// keys of both links of the first path, the narrow one first, and of the second link of the other path.
fn two(duration: u32, links: [&str; 3], keys: &str) -> Results {
    let [narrow, other, second] = links;
    let rate = if narrow.contains("rates") { "" } else { "rate = \"40 Mb/s\"" };
    let text = format!(
        "duration = \"{duration} s\"\ninterval = \"60 s\"\n\
         [[link]]\nfrom = \"home\"\nto = \"a\"\nbuffer = \"100 ms\"\n{rate}\n{narrow}\n\
         [[link]]\nfrom = \"a\"\nto = \"server\"\ndelay = \"10 ms\"\n{other}\n\
         [[link]]\nfrom = \"home\"\nto = \"b\"\nrate = \"30 Mb/s\"\nbuffer = \"100 ms\"\n\
         [[link]]\nfrom = \"b\"\nto = \"server\"\ndelay = \"5 ms\"\n{second}\n\
         [[select]]\nfrom = \"home\"\nto = \"server\"\nstrategy = \"available\"\nload = [0.0, 0.0]\npath = [{{ via = [\"a\"] }}, {{ via = [\"b\"] }}]\n{keys}\n"
    );
    finish(&Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap())
}

fn finish(scenario: &Scenario) -> Results {
    let mut run = Run::new(scenario, 3, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

#[test]
fn losses_of_any_link_of_a_path_make_fetches_slow() {
    let rivals = "rivals = [\"oracle\"]";
    let fetch = |links: [&str; 3]| one(&two(600, links, rivals), "oracle").fetch_p50_ns;
    let clean = fetch(["", "", ""]);
    for lossy in [["loss = 0.02", "", ""], ["", "loss = 0.02", ""], ["loss = 0.01", "loss = 0.01", ""]] {
        assert!(fetch(lossy) > 2 * clean, "{lossy:?}: {} of {clean}", fetch(lossy));
    }
    // Of acknowledgements hardly any is missed, and where nearly all packets are lost everything still ends.
    assert!(fetch(["reverse = { loss = 0.02 }", "", ""]) < clean * 3 / 2);
    assert!(fetch(["loss = 0.9", "", ""]) >= 60_000_000_000);
    let lossy = two(600, ["loss = 0.9", "", ""], rivals);
    assert!(one(&lossy, "available").fetch_p95_ns > 2 * clean, "{lossy:?}");
}

#[test]
fn jitter_delays_packets_and_counts_in_round_trip_times() {
    let run = |links: [&str; 3]| two(1_200, links, "rivals = [\"lowest-ping\", \"oracle\"]");
    let fetch = |results: &Results| one(results, "oracle").fetch_p50_ns;
    let (plain, shaky) = (run([""; 3]), run(["", "jitter = \"20 ms\"", ""]));
    assert!(fetch(&shaky) > fetch(&plain) + 10_000_000, "{shaky:?} {plain:?}");
    // With 10 ms of jitter there and back on average, the path with the shorter delay has the
    // longer round-trip time.
    let ping = |results: &Results| one(results, "lowest-ping").on_best;
    assert_eq!((ping(&plain), ping(&run(["", "", "jitter = \"20 ms\""]))), (0.0, 1.0));
    // The better path is found where packets are not shaken by more than their gaps.
    let own = run(["jitter = \"100 us\"", "", ""]);
    assert!(one(&own, "available").on_good > 0.9, "{own:?}");
}

#[test]
fn the_truth_follows_rates_of_the_time() {
    // 40 Mb/s, which for the middle third are 8 Mb/s, at either link.
    let rates = "rates = [[\"0 s\", \"40 Mb/s\"], [\"600 s\", \"8 Mb/s\"], [\"1200 s\", \"40 Mb/s\"]]";
    let rivals =
        "rivals = [\"oracle\", \"largest-capacity\", \"lowest-ping\"]\nmax-bytes-per-hour = \"40 MB\"";
    for links in [[rates, "", ""], ["", rates, ""]] {
        let results = two(1_800, links, rivals);
        let free = |strategy: &str| one(&results, strategy).free_bps as f64 / 1e6;
        assert!((free("oracle") - (40.0 + 30.0 + 40.0) / 3.0).abs() < 0.1, "{}", free("oracle"));
        assert_eq!(free("largest-capacity"), free("oracle"));
        assert_eq!(free("lowest-ping"), 30.0);
        let own = one(&results, "available");
        assert!(own.on_good > 0.9 && own.changes_per_hour >= 4.0, "{own:?}");
        assert_eq!(own.right, own.decisions);
    }
}

#[test]
fn cross_traffic_takes_its_share_of_the_rate_of_the_time() {
    let rates = "rates = [[\"0 s\", \"40 Mb/s\"], [\"600 s\", \"20 Mb/s\"]]";
    let text = format!(
        "duration = \"1200 s\"\ninterval = \"60 s\"\n\
         [[link]]\nfrom = \"home\"\nto = \"a\"\n{rates}\ndelay = \"5 ms\"\n[[link]]\nfrom = \"a\"\nto = \"server\"\n\
         [[link]]\nfrom = \"home\"\nto = \"b\"\nrate = \"1 Mb/s\"\ndelay = \"9 ms\"\n[[link]]\nfrom = \"b\"\nto = \"server\"\n\
         [[select]]\nfrom = \"home\"\nto = \"server\"\nstrategy = \"available\"\nload = [0.5, 0.5]\npath = [{{ via = [\"a\"] }}, {{ via = [\"b\"] }}]\n\
         rivals = [\"oracle\"]\n"
    );
    let results = finish(&Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap());
    assert_eq!(one(&results, "oracle").free_bps, 15_000_000);
    let own = one(&results, "available");
    // What it believes at 20 and 10 Mb/s is right enough to stay.
    assert!(own.on_good > 0.99, "{own:?}");
}
