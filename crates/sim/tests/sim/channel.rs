//! Links that vary with time: capacities drawn anew, outages, and bursts of losses (xcp-rcp F49).

use std::path::Path;

use crate::support::*;
use headway_control::Kind;
use headway_queue::{CodelConfig, QueueSpec};
use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::config::Service;
use headway_sim::{LinkConfig, Network, Run, TcpConfig};
use headway_traffic::Traffic;
use headway_traffic::channel::LossBursts;
use headway_units::{Bytes, Duration, Instant};

const MS: fn(i64) -> Duration = Duration::from_ms;
const BURSTS: LossBursts =
    LossBursts { good: Duration::from_ms(900), bad: Duration::from_ms(100), loss: 0.4 };

/// Runs one link of 10 Mb/s with these keys, and a constant load of 5 Mb/s or one flow of this controller.
fn run(link: &str, controller: Option<&str>, seed: u64) -> Results {
    let load = controller.map_or_else(
        || "[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"cbr\"\nrate = \"5 Mb/s\"\n".to_owned(),
        |controller| format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"\n"),
    );
    let text = format!(
        "duration = \"2 s\"\ninterval = \"10 ms\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\ndelay = \"5 ms\"\n{link}\n{load}"
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, seed, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

#[test]
fn nothing_leaves_in_an_outage_and_the_queue_keeps_what_arrives() {
    // Both kinds of links: those that know departures on arrival, and those that serve packet by packet.
    for queue in ["drop-tail", "codel"] {
        let more = if queue == "codel" { ", target = \"10 s\"" } else { "" };
        let link = format!(
            "queue = {{ kind = \"{queue}\", limit = \"1 MB\"{more} }}\noutages = {{ every = \"1 s\", length = \"200 ms\", start = \"300 ms\" }}"
        );
        let results = run(&link, None, 1);
        let sent: Vec<u64> = results.series.links[0].iter().map(|part| part.cross.get()).collect();
        assert_eq!(sent[31..50], [0; 19], "{queue}");
        assert_eq!(sent[131..150], [0; 19], "{queue}");
        assert!(sent[51..60].iter().all(|bytes| *bytes > 10_000), "{queue}: {sent:?}");
        let queued = results.series.links[0][49].queue.get();
        assert!((queued as f64 / 125_000.0 - 1.0).abs() < 0.03, "{queue}: {queued}");
        let link = &results.summary.links[0];
        assert_eq!((link.dropped, link.lost), (0, 0), "{queue}");
        assert_eq!(link.capacity_bps, Some(8_000_000), "{queue}");
    }
}

#[test]
fn every_controller_meets_the_same_capacities() {
    let link = "redrawn = { least = 0.5, every = \"50 ms\" }\noutages = [[\"700 ms\", \"80 ms\"]]";
    let capacities = |controller, seed| -> Vec<_> {
        let results = run(link, controller, seed);
        results.series.links[0].iter().map(|part| part.capacity).collect()
    };
    let first = capacities(Some("reno"), 1);
    for controller in [None, Some("cubic"), Some("bbr")] {
        assert_eq!(capacities(controller, 1), first, "{controller:?}");
    }
    assert_ne!(capacities(None, 2), first);
}

/// A link of 80 Mb/s with bursts of losses, and whether it serves packet by packet.
fn lossy(staged: bool) -> LinkConfig {
    let patient = CodelConfig { target: MS(100_000), ..CodelConfig::default() };
    let queue = if staged { QueueSpec::Codel(patient).build(None, 1) } else { drop_tail(None) };
    LinkConfig { loss_bursts: Some(BURSTS), ..LinkConfig::new(Service::Constant(mbps(80.0)), MS(5), queue) }
}

#[test]
fn bursts_lose_their_share_alike_on_both_kinds_of_links() {
    let lost = |staged| {
        let mut network = Network::new(3);
        let link = network.add_link(&lossy(staged));
        let traffic = Traffic::Cbr { rate: mbps(8.0), size: Bytes::new(1_000) };
        network.add_source(&source(link, traffic));
        network.run_until(Instant::from_ns(100_000_000_000));
        network.link(link).statistics().lost.packets
    };
    // 100 000 packets; the number of bad times varies by a tenth.
    assert!((lost(false) as f64 / 4_000.0 - 1.0).abs() < 0.3, "{}", lost(false));
    assert_eq!(lost(false), lost(true));
}

#[test]
fn flows_survive_bursts_of_losses_and_leave_no_memory_behind() {
    let mut network = Network::new(1);
    let [there, back] = [lossy(true), lossy(false)].map(|link| network.add_link(&link));
    let kinds: [Kind; 3] =
        ["xcp:demand=20 Mb/s", "cubic", "rcp:demand=20 Mb/s"].map(|kind| kind.parse().unwrap());
    let flows = kinds.map(|kind| network.add_tcp(&TcpConfig::new(kind, vec![there], vec![back])));
    network.run_until(Instant::from_ns(20_000_000_000));
    let before = network.memory().get();
    network.run_until(Instant::from_ns(60_000_000_000));
    for flow in flows {
        let seen = network.flow(flow);
        assert!(seen.delivered > 1_000 && seen.retransmitted > 10, "{seen:?}");
    }
    assert!(network.memory().get() < 2 * before);
}
