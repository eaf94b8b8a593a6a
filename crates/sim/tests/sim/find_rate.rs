//! A middlebox at an access link of unknown rate.

use std::path::Path;

use headway_record::Results;
use headway_scenario::{Change, Scenario};
use headway_sim::Run;
use headway_units::Bytes;

/// Runs four downloads over 50 Mb/s and a buffer of 600 ms for 30 s.
fn run(changes: &[&str]) -> Results {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/edge-rwm.toml");
    let all = ["duration=30 s", "middlebox.0.find-rate=true"];
    let changes: Vec<Change> = all.iter().chain(changes).map(|text| text.parse().unwrap()).collect();
    let scenario = Scenario::load(&path, &changes).unwrap();
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

/// The queueing delay of the downlink in ms.
fn queue(results: &Results) -> f64 {
    let down = results.summary.links.iter().find(|link| link.link == "provider->home").unwrap();
    down.delay_mean_ns as f64 / 1e6
}

#[test]
fn the_rate_is_found_and_downloads_share_it_without_a_deep_queue() {
    let found = run(&[]);
    let goodput = found.summary.total.goodput_bps;
    assert!(goodput > 44_000_000 && queue(&found) < 15.0, "{goodput} {}", queue(&found));
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let both = [run(&[]), run(&[])].map(|results| serde_json::to_string(&results.summary).unwrap());
    assert_eq!(both[0], both[1]);
}

#[test]
fn what_silent_connections_leave_others_get() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/edge-rwm.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let silent = "[[flow]]\nfrom = \"server\"\nto = \"laptop\"\ncontroller = \"cubic\"\ncount = 3\nchunk = \"100 kB\"\npause = \"5 s\"\n[[middlebox]]";
    let bulk = |key: &str| {
        let keys = format!("{silent}\n{key}");
        let text = text.replace("[[middlebox]]", &keys).replace("count = 4", "count = 1");
        let text = text.replace("60 s", "25 s");
        let scenario = Scenario::parse(&text, Path::new("silent.toml"), &[]).unwrap();
        let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
        while run.step().unwrap() {}
        run.finish().flows[0].goodput_bps as f64 / 1e6
    };
    // Divided by their number, as in the thesis, it is a quarter of 50 Mb/s.
    let [by_number, found, by_use] = ["policy.share-by = \"number\"", "find-rate = true", ""].map(bulk);
    assert!(by_number < 12.5 && found > 40.0 && by_use > 40.0, "{by_number} {found} {by_use}");
}
