//! Choices among parallel paths.

use std::path::Path;

use headway_queue::{DropTailConfig, QueueSpec};
use headway_record::{Results, SelectResult};
use headway_scenario::Scenario;
use headway_select::Settings;
use headway_sim::config::Service;
use headway_sim::select::{Chooser, PacketLink, PacketPath, PacketWorld, Statement};
use headway_sim::{LinkConfig, Run};
use headway_traffic::Traffic;
use headway_units::statistics::median;
use headway_units::{Bytes, Duration, Instant, Rate};

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

type Kind = fn(Rate) -> Traffic;

/// A path with this share of other traffic, and a slow one, for half an hour with users.
fn steady(load: f64, traffic: Kind, seed: u64) -> PacketWorld {
    let end = Instant::ZERO + Duration::from_ms(1_800_000);
    let link = |mbps: f64, load: f64| {
        let rate = Rate::from_mbps(mbps);
        let wire = |service: Service| {
            let limit = Some(rate.bytes_in(Duration::from_ms(100)));
            let queue = QueueSpec::DropTail(DropTailConfig { limit, packets: None }).build(Some(rate), 1);
            LinkConfig::new(service, Duration::from_ms(10), queue)
        };
        PacketLink {
            forward: wire(Service::Constant(rate)),
            back: wire(Service::Unlimited),
            sources: vec![(traffic(rate.scale(load)), Instant::ZERO, None)],
            flows: Vec::new(),
            free: vec![(Instant::ZERO, rate.scale(1.0 - load))],
        }
    };
    let path = |link: usize| PacketPath { name: format!("{link}"), link, down: Vec::new(), away: Vec::new() };
    let transfer = |number: i64| {
        let size = 20_000 << (number * 7 % 10);
        (Instant::ZERO + Duration::from_ms(20_000 + 9_000 * number), Bytes::new(size))
    };
    PacketWorld {
        links: vec![link(20.0, load), link(3.0, 0.5)],
        paths: vec![path(0), path(1)],
        transfers: (0..190).map(transfer).collect(),
        patience: Duration::from_ms(60_000),
        end,
        seed,
    }
}

/// Neither answers nor what users send make it drift: what is free on the path in use stays as it is for half an hour.
#[test]
fn what_is_said_of_a_constant_load_stays_right() {
    let poisson = |rate| Traffic::Poisson { rate, size: Bytes::new(1_538) };
    let cbr = |rate| Traffic::Cbr { rate, size: Bytes::new(1_538) };
    let loads: [(f64, Kind); 3] = [(0.2, poisson), (0.5, poisson), (0.7, cbr)];
    for (seed, (load, traffic)) in (1..).zip(loads) {
        let run = steady(load, traffic, seed).run(&Chooser::Selector(Settings::default()));
        let used: Vec<_> = run.statements.iter().filter(|one| one.is_used && one.path == 0).collect();
        assert!(used.len() > 50, "{load}: the faster path is in use");
        let error = |one: &&Statement| one.free[0].bps_f64() / one.truth.bps_f64() - 1.0;
        let median = median(used.iter().map(error).collect()).unwrap_or_default();
        let last = error(&used[used.len() - 1]);
        assert!(median.abs() <= 0.1 && last.abs() <= 0.2, "{load}: {median:.2}, {last:.2} at the end");
        let held = used.iter().filter(|one| one.free[1] <= one.truth && one.truth <= one.free[2]).count();
        assert!(held * 10 >= used.len() * 8, "{load}: {held} of {}", used.len());
    }
}
