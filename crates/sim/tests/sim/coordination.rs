//! Edges at both ends of a link that share it by one allotment (wan F77).

use std::path::Path;

use crate::support::*;
use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// Runs the scenario with so many flows of both edges, of the first and of the second only, who
/// know each other or not, over local networks with a rate and a delay or with neither.
fn run([both, first, second]: [usize; 3], are_peers: bool, takes_time: bool) -> Results {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/edge-peers.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let local = ["rate = \"1 Gb/s\"", "delay = \"1 ms\""];
    let lines = text.lines().filter(|line| are_peers || !line.starts_with("peer = "));
    let lines = lines.filter(|line| takes_time || !local.contains(line));
    let counts = [(0, both), (1, first), (2, second)];
    let changes = counts.map(|(group, count)| format!("flow.{group}.count={count}").parse().unwrap());
    let text = lines.collect::<Vec<_>>().join("\n");
    let scenario = Scenario::parse(&text, &path, &changes).unwrap();
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

#[test]
fn flows_that_only_one_edge_sees_get_as_much_as_those_of_both_without_a_queue() {
    for (flows, takes_time) in [([2, 4, 1], true), ([1, 3, 3], true), ([2, 4, 1], false)] {
        let [apart, together] = [false, true].map(|are_peers| run(flows, are_peers, takes_time));
        let queue = |results: &Results| {
            let shared = results.summary.links.iter().find(|link| link.link == "r1->r2").unwrap();
            shared.delay_mean_ns as f64 / 1e6
        };
        let [before, now] = [&apart, &together].map(|results| results.summary.total.fairness);
        println!("{flows:?}: {before} and {now}, {} and {} ms", queue(&apart), queue(&together));
        assert!(now > 0.99 && now > before, "{now}, and apart {before}");
        assert!(queue(&together) < 0.35 * queue(&apart), "{} and {} ms", queue(&apart), queue(&together));
        // Of 20 Mb/s on the wire.
        let goodput = together.summary.total.goodput_bps as f64;
        assert_near("goodput", goodput, 20e6 * 1448.0 / 1538.0, 0.05);
    }
}
