//! Links whose rate changes, compared with closed forms.

use std::path::Path;

use crate::support::*;
use headway_control::Kind;
use headway_queue::{CodelConfig, QueueSpec};
use headway_record::Results;
use headway_scenario::{Change, Scenario};
use headway_sim::config::Service;
use headway_sim::{LinkConfig, Network, Run, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate, RateSteps};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// A list of times in milliseconds and rates in Mb/s.
fn rates(list: &[(i64, f64)]) -> RateSteps {
    let list: Vec<_> = list.iter().map(|(ms, rate)| (MS(*ms), mbps(*rate))).collect();
    list.try_into().unwrap()
}

fn changing(list: &[(i64, f64)], queue: headway_queue::Queue) -> LinkConfig {
    LinkConfig::new(Service::Steps(rates(list)), MS(5), queue)
}

fn cbr(rate: f64, size: u64) -> Traffic {
    Traffic::Cbr { rate: mbps(rate), size: Bytes::new(size) }
}

fn scenario(text: &str, changes: &[&str]) -> Scenario {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::parse(text, Path::new("x.toml"), &changes).unwrap()
}

fn run(scenario: &Scenario) -> Results {
    let mut run = Run::new(scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

fn text(results: &Results) -> String {
    [results.flows_csv(), results.links_csv(), results.series.truth_csv(), results.tcp_csv()].join("\n")
}

#[test]
fn a_full_link_serves_exactly_the_bytes_of_its_rates() {
    // Both kinds of links: those that know departures on arrival, and those that serve packet by packet.
    let patient = CodelConfig { target: MS(100_000), ..CodelConfig::default() };
    for queue in [drop_tail(None), QueueSpec::Codel(patient).build(None, 1)] {
        let mut network = Network::new(1);
        let list = [(0, 80.0), (1_000, 8.0), (1_500, 800.0), (1_600, 40.0)];
        let link = network.add_link(&changing(&list, queue));
        network.add_source(&source(link, cbr(1_000.0, 1_000)));
        let mut bits = 0;
        for (ms, expected) in
            [(1_000, 80_000_000), (1_500, 4_000_000), (1_600, 80_000_000), (2_000, 16_000_000)]
        {
            bits += expected;
            network.run_until(at(f64::from(ms) / 1e3));
            // The packet in transmission is not counted yet.
            let served = network.link(link).statistics().served_other.bytes.get() * 8;
            assert!(served <= bits && bits - served <= 8_000, "at {ms} ms: {served} of {bits}");
        }
        assert_eq!(network.link(link).capacity(at(0.5), at(1.25)), Some(Bytes::new(5_000_000 + 250_000)));
    }
}

#[test]
fn packets_wait_for_the_rates_to_come() {
    // Ten packets of 1000 bytes at once: 1 ms each at 8 Mb/s, 10 ms at 0.8 Mb/s.
    let mut network = Network::new(1);
    let list = [(0, 8.0), (3, 0.8), (13, 8.0)];
    let link = network.add_link(&changing(&list, drop_tail(None)));
    let burst = Traffic::Cbr { rate: mbps(8_000_000.0), size: Bytes::new(1_000) };
    network.add_source(&headway_sim::SourceConfig {
        stop: Some(us(0) + Duration::from_ns(10)),
        ..source(link, burst)
    });
    network.run_until(at(1.0));
    let statistics = network.link(link).statistics();
    // Starts at 0, 1, 2, 3 ms; the fourth takes 10 ms; then 13, 14, ... 18 ms.
    let sum: i64 = [0, 1, 2, 3, 13, 14, 15, 16, 17, 18].iter().sum();
    assert_eq!(statistics.delay.count(), 10);
    assert!((statistics.delay.mean().ms() - sum as f64 / 10.0).abs() < 0.02, "{}", statistics.delay.mean());
    assert!((statistics.delay.max().ms() - 18.0).abs() < 0.02);
}

#[test]
fn a_fixed_window_queues_what_the_path_no_longer_holds() {
    // 200 segments over a round trip of 20 ms: 123 fit at 76.9 Mb/s (one segment every 160 us).
    let rate = |us: f64| 1538.0 * 8.0 / us;
    let list = [(0, rate(160.0)), (2_000, rate(1_600.0)), (4_000, rate(80.0))];
    let mut pipe = Pipe::new(window(200), &changing(&list, drop_tail(None)), MS(15), |_| {});
    let mut goodput = |from: f64, to: f64| {
        let before = pipe.run(from).goodput.get();
        (pipe.run(to).goodput.get() - before) as f64 * 8.0 / (to - from) / 1e6
    };
    assert_near("goodput at a segment every 160 us", goodput(1.0, 2.0), 1448.0 * 8.0 / 160.0, 0.001);
    assert_near("goodput at a segment every 1600 us", goodput(3.0, 4.0), 1448.0 * 8.0 / 1_600.0, 0.002);
    // Now the window is the limit: 200 segments every 20 ms and the time of one segment.
    assert_near("goodput of the window", goodput(5.0, 6.0), 200.0 * 1448.0 * 8.0 / 20_080.0, 0.01);
}

const DUMBBELL: &str = r#"duration = "4 s"
warmup = "1 s"
[[link]]
from = "a"
to = "b"
rates = [["0 s", "100 Mb/s"]]
delay = "5 ms"
buffer = "100 kB"
[[flow]]
from = "a"
to = "b"
count = 3
controller = "cubic"
stagger = "100 ms"
[[traffic]]
from = "a"
to = "b"
model = "poisson"
rate = "10 Mb/s"
"#;

#[test]
fn a_single_step_is_a_constant_rate_to_the_byte() {
    let constant = DUMBBELL.replace("rates = [[\"0 s\", \"100 Mb/s\"]]", "rate = \"100 Mb/s\"");
    let queues = [
        "loss = 0.0",
        "queue = { kind = \"red\", min = \"15 kB\", max = \"45 kB\" }",
        "queue = { kind = \"codel\" }",
        "queue = { kind = \"pie\" }",
        "jitter = \"1 ms\"",
    ];
    for queue in queues {
        let with = |text: &str| run(&scenario(&text.replace("delay =", &format!("{queue}\ndelay =")), &[]));
        assert_eq!(text(&with(DUMBBELL)), text(&with(&constant)), "{queue}");
    }
    // A step that changes nothing changes nothing, either, where packets are in transmission.
    let again = scenario(DUMBBELL, &["link.0.rates=[[\"0 s\", \"100 Mb/s\"], [\"2 s\", \"100 Mb/s\"]]"]);
    assert_eq!(text(&run(&again)), text(&run(&scenario(&constant, &[]))));
}

#[test]
fn results_follow_the_rate_of_the_time() {
    let steps = "link.0.rates=[[\"0 s\", \"100 Mb/s\"], [\"2 s\", \"20 Mb/s\"]]";
    let results = run(&scenario(DUMBBELL, &[steps]));
    assert_eq!(text(&results), text(&run(&scenario(DUMBBELL, &[steps]))));
    let link = &results.summary.links[0];
    // One second at 100 and two at 20 Mb/s.
    assert_eq!(link.capacity_bps, Some(46_666_666));
    let utilisation = link.utilisation.unwrap();
    assert!((0.9..=1.0).contains(&utilisation), "{utilisation}");
    let of = |index: usize| results.series.links[0][index].capacity.unwrap().get();
    assert_eq!((of(19), of(20)), (1_250_000, 250_000));
    for interval in &results.series.links[0] {
        // A packet that began in the interval before is counted where it ends.
        let used = interval.measured + interval.cross;
        assert!(used.get() <= interval.capacity.unwrap().get() + 1_538, "{interval:?}");
    }
}

#[test]
fn trains_over_a_changing_link_lose_nothing() {
    let list = [(0, 1_000.0), (1_000, 50.0), (2_000, 1_000.0)];
    let mut network = Network::new(1);
    let forward = network.add_link(&changing(&list, drop_tail(Some(300_000))));
    let reverse = network.add_link(&wire(MS(5)));
    let flow =
        network.add_tcp(&TcpConfig::new("cubic".parse::<Kind>().unwrap(), vec![forward], vec![reverse]));
    network.run_until(at(1.0));
    let before = network.flow(flow).goodput;
    network.run_until(at(1.5));
    network.run_until(at(2.0));
    let goodput = (network.flow(flow).goodput.get() - before.get()) as f64 * 8.0;
    assert!((0.9..=1.07).contains(&(goodput / 50e6)), "{goodput}");
    let link = network.link(forward);
    let seen = link.statistics();
    let passed = seen.delivered.packets + seen.dropped.packets + link.queued().packets + link.in_flight();
    assert_eq!(seen.arrived.packets, passed);
}

#[test]
fn measurements_know_the_mean_of_the_rates_while_they_last() {
    let text =
        DUMBBELL.replace("[[flow]]", "[[measure]]\nfrom = \"a\"\nto = \"b\"\nstart = \"1500 ms\"\n[[flow]]");
    let text = text.replace("count = 3", "size = \"1 B\"").replace("stagger = \"100 ms\"", "");
    let list = rates(&[(0, 100.0), (1_700, 60.0)]);
    let results =
        run(&scenario(&text, &["link.0.rates=[[\"0 s\", \"100 Mb/s\"], [\"1700 ms\", \"60 Mb/s\"]]"]));
    let measured = &results.summary.measurements[0];
    let instant = headway_units::Instant::from_ns;
    assert!(measured.begin_ns < 1_700_000_000 && measured.end_ns > 1_700_000_000, "{measured:?}");
    let mean = list.mean(instant(measured.sampled_from_ns), instant(measured.end_ns));
    let narrow = Rate::from_bps(measured.narrow_bps.unwrap());
    assert!((narrow.mbps() - mean.mbps()).abs() < 0.01, "{narrow} instead of {mean}");
}
