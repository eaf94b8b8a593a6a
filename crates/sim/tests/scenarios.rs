//! Whole scenarios: the same seed gives the same results, and the records agree with each other.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::path::{Path, PathBuf};

use headway_core::Bytes;
use headway_sim::record::{Results, Run};
use headway_sim::scenario::{Change, Scenario};

const LIMIT: Bytes = Bytes::new(1_000_000_000);

fn scenario(name: &str, changes: &[&str]) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::load(&path, &changes).unwrap()
}

fn run(scenario: &Scenario, seed: u64) -> Results {
    let mut run = Run::new(scenario, seed, LIMIT).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

fn text(results: &Results) -> String {
    [results.flows_csv(), results.links_csv()].join("\n")
}

#[test]
fn all_scenarios_of_the_repository_can_be_built() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut count = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "toml")) {
        // Paths for measurements are written in the lab's own language.
        if std::fs::read_to_string(file).unwrap().contains("[forward]") {
            continue;
        }
        Scenario::load(file, &[]).unwrap().build(1, LIMIT).unwrap();
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn a_short_dumbbell() {
    let scenario = scenario("dumbbell-cubic.toml", &["duration=3 s", "warmup=1 s", "flow.0.count=2"]);
    insta::assert_snapshot!(text(&run(&scenario, 1)));
}

#[test]
fn a_short_parking_lot() {
    let scenario = scenario("parking-lot.toml", &["duration=2 s", "warmup=500 ms", "traffic.2.start=1 s"]);
    insta::assert_snapshot!(text(&run(&scenario, 1)));
}

#[test]
fn the_seed_decides_everything() {
    let scenario = scenario("parking-lot.toml", &["duration=2 s", "warmup=500 ms"]);
    let [one, again, other] = [1, 1, 2].map(|seed| run(&scenario, seed));
    assert_eq!(one, again);
    assert_eq!(one.truth_csv(), again.truth_csv());
    assert_ne!(one.truth_csv(), other.truth_csv());
}

#[test]
fn series_and_summary_agree() {
    let scenario = scenario("parking-lot.toml", &["duration=2 s", "warmup=0", "interval=30 ms"]);
    let results = run(&scenario, 1);
    assert_eq!(results.series.ends.len(), 67);
    for (flow, series) in results.flows.iter().zip(&results.series.goodput) {
        assert_eq!(flow.goodput_bytes, series.iter().copied().sum::<Bytes>().get());
    }
    for (link, series) in results.summary.links.iter().zip(&results.series.links) {
        let cross: u64 = series.iter().map(|interval| interval.cross.get()).sum();
        assert_eq!(link.cross_bps, cross * 8 / 2, "{}", link.link);
        // A packet counts where its transmission ends.
        for interval in series {
            let carried = interval.measured + interval.cross;
            assert!(
                interval.capacity.is_none_or(|most| carried <= most + Bytes::new(1538 * 2)),
                "{interval:?}"
            );
        }
    }
}

#[test]
fn the_warm_up_is_not_counted() {
    let all = run(&scenario("dumbbell-cubic.toml", &["duration=3 s", "warmup=0"]), 1);
    let part = run(&scenario("dumbbell-cubic.toml", &["duration=3 s", "warmup=1050 ms"]), 1);
    assert_eq!(all.series, part.series);
    assert_eq!(part.summary.measured_ns, 1_950_000_000);
    assert!(part.summary.total.sent < all.summary.total.sent);
    let bottleneck = &part.summary.links[2];
    assert_eq!(bottleneck.link, "left->right");
    assert!(bottleneck.utilisation.is_some_and(|used| 0.95 < used && used <= 1.001), "{bottleneck:?}");
}

#[test]
fn a_run_that_is_ended_early_is_partial_and_usable() {
    let scenario = scenario("dumbbell-cubic.toml", &["warmup=200 ms"]);
    let mut run = Run::new(&scenario, 1, LIMIT).unwrap();
    for _ in 0..15 {
        assert!(run.step().unwrap());
    }
    let now = run.now();
    let results = run.finish();
    assert!(results.summary.partial);
    assert_eq!(results.series.ends.last(), Some(&now));
    assert_eq!(results.summary.measured_ns, now.ns() - 200_000_000);
    assert!(results.summary.total.goodput_bps > 50_000_000);
}
