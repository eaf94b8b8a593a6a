//! Flows held at what is free on their path.

use std::path::Path;

use headway_record::{LinkResult, Results};
use headway_scenario::{Change, Scenario};
use headway_sim::Run;
use headway_units::Bytes;

/// Runs the scenario of a half busy link behind the access link for 25 s, without and with
/// following what is free.
fn without_and_with(changes: &[&str]) -> [Results; 2] {
    ["", ", follow-available = true"].map(|follows| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/edge-available.toml");
        // As in the thesis: the edge that shares by use finds by itself that there is a queue.
        let policy = format!("middlebox.0.policy={{ share-by = 'number', follow-rtt = false{follows} }}");
        let changes = ["duration=25 s", &policy].into_iter().chain(changes.iter().copied());
        let changes: Vec<Change> = changes.map(|text| text.parse().unwrap()).collect();
        let scenario = Scenario::load(&path, &changes).unwrap();
        let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
        while run.step().unwrap() {}
        run.finish()
    })
}

fn busy(results: &Results) -> &LinkResult {
    results.summary.links.iter().find(|link| link.link == "core->provider").unwrap()
}

/// Goodput with following what is free, divided by that without.
fn ratio([without, with]: &[Results; 2]) -> f64 {
    with.summary.total.goodput_bps as f64 / without.summary.total.goodput_bps as f64
}

#[test]
fn following_what_is_free_ends_queue_and_losses_at_a_busy_link_elsewhere() {
    let runs = without_and_with(&[]);
    let [without, with] = runs.each_ref().map(busy);
    assert!(without.delay_mean_ns > 30_000_000 && with.delay_mean_ns < 12_000_000, "{without:?} {with:?}");
    assert!(without.dropped > 0 && with.dropped == 0, "{} {}", without.dropped, with.dropped);
    assert!(ratio(&runs) > 0.97, "{}", ratio(&runs));
}

#[test]
fn beside_bursts_there_are_less_queue_and_half_the_losses_at_most() {
    let runs = without_and_with(&["traffic.0.model=batches", "traffic.0.batch=20"]);
    let [without, with] = runs.each_ref().map(busy);
    assert!(with.delay_mean_ns < without.delay_mean_ns * 3 / 4, "{without:?} {with:?}");
    assert!(with.dropped < without.dropped / 2, "{} {}", without.dropped, with.dropped);
    assert!(ratio(&runs) > 0.85, "{}", ratio(&runs));
}

#[test]
fn without_other_traffic_the_access_link_is_used_as_before() {
    let runs = without_and_with(&["traffic=[]", "link.1.rate=1 Gb/s"]);
    assert!((0.97..=1.01).contains(&ratio(&runs)), "{}", ratio(&runs));
}

#[test]
fn what_others_no_longer_use_is_used_again() {
    let runs = without_and_with(&["traffic.0.stop=12 s", "warmup=18 s"]);
    assert!(runs[0].summary.total.goodput_bps > 85_000_000);
    assert!(ratio(&runs) > 0.9, "{}", ratio(&runs));
}
