//! Explicit congestion control in virtual time: four flows at a router of 1.5 Mb/s with an RTT of 100 ms,
//! which start 10 s apart and last 60 s each (procedure P of xcp-rcp 4).

use std::path::Path;

use headway_control::{Factory, Kind};
use headway_queue::QueueSpec;
use headway_queue::explicit::{FRACTION_BITS, Record};
use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::config::Service;
use headway_sim::{FlowId, LinkConfig, LinkId, Network, Run, TcpConfig};
use headway_units::{Bytes, Duration, Instant, Rate};

#[path = "support/greedy.rs"]
mod greedy;

use greedy::Greedy;

const CAPACITY: Rate = Rate::from_bps(1_500_000);
const ACCESS: Rate = Rate::from_bps(100_000_000);

/// A client, a router and a sink.
struct Bench {
    network: Network,
    narrow: LinkId,
    flows: Vec<FlowId>,
}

fn queue(text: &str) -> QueueSpec {
    serde_json::from_str(text).expect("a queue")
}

/// Builds procedure P with this queue at the narrow link and this controller.
fn procedure(spec: &str, controller: &str, seed: u64) -> Bench {
    let mut network = Network::new(seed);
    let mut link = |rate: Rate, ms, spec: &str| {
        let queue = queue(spec).build(Some(rate), seed);
        network.add_link(&LinkConfig::new(Service::Constant(rate), Duration::from_ms(ms), queue))
    };
    let access = link(ACCESS, 25, r#"{"kind":"drop-tail"}"#);
    let narrow = link(CAPACITY, 25, spec);
    let back = link(ACCESS, 50, r#"{"kind":"drop-tail"}"#);
    let kind: Kind = controller.parse().expect("a controller");
    let flows = (0..4).map(|number| {
        let start = Instant::from_ns(number * 10_000_000_000);
        let stop = Some(start + Duration::from_ms(60_000));
        let mss = if kind.is_explicit() { 1428 } else { 1448 };
        network.add_tcp(&TcpConfig {
            start,
            stop,
            mss,
            ..TcpConfig::new(kind, vec![access, narrow], vec![back])
        })
    });
    let flows = flows.collect();
    network.keep_records(narrow);
    Bench { network, narrow, flows }
}

/// What a run showed.
struct Shown {
    records: Vec<Record>,
    /// Goodput of every flow in Mb/s, second by second.
    goodputs: Vec<Vec<f64>>,
    dropped: u64,
    /// Bytes that the narrow link delivered from 20 to 60 s, as a share of its capacity.
    utilisation: f64,
}

impl Bench {
    fn run(mut self) -> Shown {
        let mut records = Vec::new();
        let mut goodputs = vec![Vec::new(); self.flows.len()];
        let mut before = vec![Bytes::ZERO; self.flows.len()];
        let mut delivered = [Bytes::ZERO; 2];
        for second in 1..=90u64 {
            self.network.run_until(Instant::from_ns(second * 1_000_000_000));
            records.extend(self.network.take_records(self.narrow));
            for (index, flow) in self.flows.iter().enumerate() {
                let now = self.network.flow(*flow).goodput;
                goodputs[index].push((now.get() - before[index].get()) as f64 * 8e-6);
                before[index] = now;
            }
            let bytes = self.network.link(self.narrow).statistics().delivered.bytes;
            match second {
                20 => delivered[0] = bytes,
                60 => delivered[1] = bytes,
                _ => {}
            }
        }
        let sent = (delivered[1].get() - delivered[0].get()) as f64;
        Shown {
            records,
            goodputs,
            dropped: self.network.link(self.narrow).statistics().dropped.packets,
            utilisation: sent / CAPACITY.bytes_in(Duration::from_ms(40_000)).get() as f64,
        }
    }
}

impl Shown {
    /// The records of the intervals that ended between two times in s.
    fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &Record> {
        let [from, to] = [from, to].map(|s| s * 1_000_000_000);
        self.records.iter().filter(move |record| (from..to).contains(&record.time))
    }

    /// The mean of a field with fraction bits over the intervals that ended between two times in s.
    fn mean(&self, from: u64, to: u64, field: impl Fn(&Record) -> f64) -> f64 {
        let values: Vec<f64> = self.between(from, to).map(field).collect();
        values.iter().sum::<f64>() / values.len() as f64 / f64::from(1u32 << FRACTION_BITS)
    }

    /// Lambda, the weighted queue, in bytes.
    fn lambda(&self, from: u64, to: u64) -> f64 {
        self.mean(from, to, |record| record.weighted as f64)
    }

    /// The error of the capacity that ErrorS has found: xi / alpha, in Mb/s.
    fn error_mbps(&self, from: u64, to: u64) -> f64 {
        self.mean(from, to, |record| record.xi as f64) / 0.6 * 8e-6
    }

    /// The mean goodput of every flow while all four send, in Mb/s.
    fn shares(&self) -> Vec<f64> {
        self.goodputs.iter().map(|rates| rates[36..55].iter().sum::<f64>() / 19.0).collect()
    }

    fn largest_queue(&self, from: u64, to: u64) -> u64 {
        self.between(from, to).map(|record| record.backlog_bytes).max().expect("a record")
    }
}

fn spread(shares: &[f64]) -> f64 {
    let most = shares.iter().copied().fold(0.0, f64::max);
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    most / least
}

#[test]
fn xcp_fills_the_link_and_keeps_the_queue_below_three_packets() {
    for seed in 1..=5 {
        let shown = procedure(r#"{"kind":"xcp","limit":"75 kB"}"#, "xcp", seed).run();
        assert!(shown.utilisation > 0.95, "{}", shown.utilisation);
        let persistent = shown.between(15, 80).map(|record| record.queue_bytes).max();
        assert!(persistent.is_some_and(|bytes| bytes <= 4_500), "{persistent:?}");
        assert_eq!(shown.dropped, 0);
        assert!(spread(&shown.shares()) < 1.15, "{:?}", shown.shares());
    }
}

#[test]
fn xcp_without_a_capacity_holds_the_queue_that_it_is_told() {
    for kind in ["xcp-b", "xcp-kappa"] {
        let shown = procedure(&format!(r#"{{"kind":"{kind}","limit":"75 kB"}}"#), "xcp", 1).run();
        assert!(shown.utilisation > 0.98, "{kind}: {}", shown.utilisation);
        let lambda = shown.lambda(15, 60);
        assert!((lambda / 6_000.0 - 1.0).abs() < 0.1, "{kind}: {lambda}");
        assert_eq!(shown.dropped, 0);
        assert!(shown.between(0, 90).all(|record| record.kappa >= 6_000 << FRACTION_BITS), "{kind}");
    }
}

#[test]
fn errors_finds_how_wrong_the_capacity_is() {
    for (capacity, error) in [("0 b/s", -1.5), ("1.5 Mb/s", 0.0), ("3 Mb/s", 1.5)] {
        let spec = format!(r#"{{"kind":"errors","limit":"75 kB","capacity":"{capacity}"}}"#);
        let shown = procedure(&spec, "xcp", 1).run();
        let found = shown.error_mbps(30, 60);
        assert!((found - error).abs() < 0.075, "{capacity}: {found}");
        assert!(shown.largest_queue(30, 60) < 15_000, "{capacity}");
        assert!(shown.utilisation > 0.97, "{capacity}: {}", shown.utilisation);
    }
}

#[test]
fn rcp_gives_every_flow_the_same_rate_by_window_and_by_pace() {
    for (kind, controller) in [("rcp", "rcp"), ("rcp", "rcp:paced"), ("rcp-b", "rcp"), ("rcp-errors", "rcp")]
    {
        let spec = format!(r#"{{"kind":"{kind}","limit":"75 kB"}}"#);
        let shown = procedure(&spec, controller, 1).run();
        assert!(shown.utilisation > 0.95, "{kind} {controller}: {}", shown.utilisation);
        assert!(spread(&shown.shares()) < 1.02, "{kind} {controller}: {:?}", shown.shares());
    }
}

#[test]
fn an_arrival_makes_rcp_undershoot_and_each_one_less_than_the_one_before() {
    let shown = procedure(r#"{"kind":"rcp","limit":"75 kB"}"#, "rcp", 1).run();
    // The second flow doubles what is sent until the rate has halved: 26 kB in the thesis
    // (xcp-rcp H9), 22.5 kB here.
    let peaks: Vec<u64> = [10, 20, 30].iter().map(|from| shown.largest_queue(*from, from + 5)).collect();
    assert!((17_000..32_500).contains(&peaks[0]), "{peaks:?}");
    assert!(peaks[0] > peaks[1] && peaks[1] > peaks[2], "{peaks:?}");
    let least = shown.between(10, 12).map(|record| record.rate >> FRACTION_BITS).min().expect("a record");
    assert!(least < 70 * 187_500 / 2 / 100, "{least}");
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let run = || procedure(r#"{"kind":"xcp","limit":"20 kB"}"#, "xcp", 3).run().records;
    assert_eq!(run(), run());
}

fn kind(controller: &str) -> Kind {
    controller.parse().expect("a controller")
}

/// One flow over links with these queues in a row.
fn one_flow(
    queues: &[(Rate, &str)],
    controller: impl Into<Factory>,
    loss: f64,
) -> (Network, FlowId, Vec<LinkId>) {
    let mut network = Network::new(1);
    let links: Vec<LinkId> = queues
        .iter()
        .map(|(rate, spec)| {
            let queue = queue(spec).build(Some(*rate), 1);
            let config = LinkConfig::new(Service::Constant(*rate), Duration::from_ms(10), queue);
            network.add_link(&LinkConfig { loss, ..config })
        })
        .collect();
    let back = queue(r#"{"kind":"xcp"}"#).build(Some(ACCESS), 1);
    let delay = Duration::from_ms(10);
    let back = network.add_link(&LinkConfig::new(Service::Constant(ACCESS), delay, back));
    let config = TcpConfig::new(controller, links.clone(), vec![back]);
    let flow = network.add_tcp(&TcpConfig { mss: 1428, ..config });
    (network, flow, links)
}

#[test]
fn the_tighter_of_two_routers_decides() {
    let [wide, narrow] = [2.0, 1.0].map(Rate::from_mbps);
    for queues in [
        [(wide, r#"{"kind":"xcp"}"#), (narrow, r#"{"kind":"xcp"}"#)],
        [(narrow, r#"{"kind":"xcp"}"#), (wide, r#"{"kind":"xcp"}"#)],
    ] {
        let (mut network, flow, links) = one_flow(&queues, kind("xcp"), 0.0);
        network.run_until(Instant::from_ns(30_000_000_000));
        let goodput = network.flow(flow).goodput.get() as f64 * 8e-6 / 30.0;
        assert!((0.85..0.95).contains(&goodput), "{goodput}");
        let dropped: u64 = links.iter().map(|link| network.link(*link).statistics().dropped.packets).sum();
        assert_eq!(dropped, 0);
    }
}

#[test]
fn an_explicit_controller_that_is_not_in_the_table_fills_the_link() {
    let rate = Rate::from_mbps(10.0);
    let (mut network, flow, links) = one_flow(&[(rate, r#"{"kind":"xcp"}"#)], Factory::new(Greedy::new), 0.0);
    network.run_until(Instant::from_ns(30_000_000_000));
    let goodput = network.flow(flow).goodput.get() as f64 * 8e-6 / 30.0;
    assert!((8.5..9.5).contains(&goodput), "{goodput}");
    assert_eq!(network.link(links[0]).statistics().dropped.packets, 0);
}

#[test]
fn a_router_drops_headers_of_a_version_that_it_does_not_serve() {
    // ACKs of this flow are of RCP's version, too, and cross a router of XCP on the way back.
    let (mut network, flow, links) = one_flow(&[(ACCESS, r#"{"kind":"xcp"}"#)], kind("rcp"), 0.0);
    network.run_until(Instant::from_ns(5_000_000_000));
    assert_eq!(network.flow(flow).delivered, 0);
    let dropped = network.link(links[0]).statistics().dropped.packets;
    assert!(dropped > 1, "{dropped}");
}

#[test]
fn losses_are_repaired_and_lost_headers_take_no_memory() {
    for controller in ["xcp", "xcp:loss=reno"] {
        let (mut network, flow, _) = one_flow(&[(ACCESS, r#"{"kind":"xcp"}"#)], kind(controller), 0.01);
        network.run_until(Instant::from_ns(20_000_000_000));
        let before = network.memory();
        network.run_until(Instant::from_ns(120_000_000_000));
        let statistics = network.flow(flow);
        assert!(statistics.retransmitted > 100, "{controller}: {statistics:?}");
        assert!(statistics.window >= 1.0, "{controller}");
        assert!(network.memory().get() <= 2 * before.get(), "{controller}");
    }
}

#[test]
fn packets_without_a_header_count_as_input_and_pass() {
    let (mut network, flow, links) = one_flow(&[(ACCESS, r#"{"kind":"xcp"}"#)], kind("cubic"), 0.0);
    network.keep_records(links[0]);
    network.run_until(Instant::from_ns(5_000_000_000));
    assert!(network.flow(flow).delivered > 1_000);
    assert!(network.take_records(links[0]).iter().any(|record| record.input_packets > 100));
}

/// Runs one flow `named` over a router `a->r` and a link `r->b` of 2 Mb/s with these
/// queues, with these changes.
fn changing(queues: [&str; 2], controller: &str, changes: &str) -> Results {
    let link = |from, to, rate, queue| {
        format!(
            "[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}\"\ndelay = \"10 ms\"\nqueue = {queue}\n"
        )
    };
    let text = format!(
        "duration = \"30 s\"\ninterval = \"1 s\"\n{}{}[[flow]]\nname = \"named\"\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"\n{changes}",
        link("a", "r", "8 Mb/s", queues[0]),
        link("r", "b", "2 Mb/s", queues[1]),
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).expect("a scenario");
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).expect("a run");
    while run.step().expect("enough memory") {}
    run.finish()
}

/// Mb/s of goodput in these seconds.
fn goodput(results: &Results, seconds: std::ops::Range<usize>) -> f64 {
    let part = &results.series.goodput[0][seconds];
    part.iter().map(|bytes| bytes.get() as f64 * 8e-6).sum::<f64>() / part.len() as f64
}

/// One flow whose application writes 0.5 Mb/s, and one that takes what it gets.
#[test]
fn what_an_application_does_not_use_is_for_other_flows() {
    let slow = "application-rate = \"0.5 Mb/s\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"xcp\"\n";
    let results = changing([XCP, XCP], "xcp", slow);
    let mbps = |flow: usize| {
        let part = &results.series.goodput[flow][10..];
        part.iter().map(|bytes| bytes.get() as f64 * 8e-6).sum::<f64>() / part.len() as f64
    };
    assert!((mbps(0) - 0.5).abs() < 0.01, "{}", mbps(0));
    // 2 Mb/s carry 1.857 Mb/s of payload.
    assert!(mbps(0) + mbps(1) > 0.98 * 1.857, "{} + {}", mbps(0), mbps(1));
}

fn switch(at: u32, what: &str) -> String {
    format!("[[change]]\nat = \"{at} s\"\n{what}\n")
}

const XCP: &str = "{ kind = \"xcp\" }";

/// xcp-rcp F42: routers in both directions and senders switch, and both versions transfer.
#[test]
fn a_path_switches_from_xcp_to_rcp_and_back_while_flows_run() {
    let mut changes = String::new();
    for (at, name) in [(10, "rcp"), (20, "xcp")] {
        for link in ["a->r", "r->a", "r->b", "b->r"] {
            changes += &switch(at, &format!("link = \"{link}\"\nqueue = {{ kind = \"{name}\" }}"));
        }
        changes += &switch(at, &format!("flow = \"named\"\ncontroller = \"{name}\""));
    }
    let results = changing([XCP, XCP], "xcp", &changes);
    for seconds in [5..10, 13..20, 25..30] {
        let goodput = goodput(&results, seconds.clone());
        assert!(goodput > 1.6, "{seconds:?}: {goodput}");
    }
    let laws = |from: u64, to: u64| -> Vec<&str> {
        let within = results.control.iter().filter(|record| record.link == "r->b");
        let mut laws: Vec<&str> = within
            .filter(|record| (from..to).contains(&(record.end_ns / 1_000_000_000)))
            .map(|record| record.law.as_str())
            .collect();
        laws.dedup();
        laws
    };
    assert_eq!((laws(0, 10), laws(11, 20), laws(21, 30)), (vec!["xcp"], vec!["rcp"], vec!["xcp"]));
    // Both laws see the same RTT; it is not measured anew.
    let mut rtts =
        results.control.iter().filter(|record| record.link == "r->b" && record.end_ns > 9_000_000_000);
    assert!(rtts.all(|record| record.average_rtt_ns > 39_000_000));
}

/// xcp-rcp F44: the second router serves XCP only until it changes.
#[test]
fn a_router_without_rcp_drops_and_counts_its_packets_until_it_learns_it() {
    let rcp = "{ kind = \"rcp\" }";
    let mut changes = String::new();
    for link in ["r->b", "b->r"] {
        changes += &switch(4, &format!("link = \"{link}\"\nqueue = {rcp}"));
    }
    let results = changing([rcp, XCP], "rcp", &changes);
    assert_eq!(goodput(&results, 0..4), 0.0);
    assert!(goodput(&results, 15..30) > 1.6);
    let rejected =
        results.control.iter().filter(|record| record.link == "r->b").map(|record| record.rejected);
    // Retransmission timeouts: after 0.2, 0.4, 0.8 and 1.6 s.
    assert!((3..8).contains(&rejected.max().expect("records")));
}

#[test]
fn a_router_takes_over_the_packets_of_a_queue_that_knew_no_headers() {
    let mut changes = switch(
        10,
        "link = \"r->b\"\nqueue = { kind = \"xcp-b\", kappa = \"3 kB\", q-max = \"20 kB\", limit = \"50 kB\" }",
    );
    changes += &switch(20, "link = \"r->b\"\nqueue = { kind = \"drop-tail\", limit = \"50 kB\" }");
    let tail = "{ kind = \"drop-tail\", limit = \"50 kB\" }";
    // Without a router of its kind on the path, the flow takes what it asks for: more than there is.
    let results = changing([tail, tail], "xcp:demand=2.5 Mb/s", &changes);
    let links = &results.series.links;
    let number = results.series.names.iter().position(|name| name == "r->b").expect("the link");
    let queue = |second: usize| links[number][second].queue.get();
    assert!(queue(9) > 20_000, "{}", queue(9));
    assert!((14..20).all(|second| queue(second) < 12_000), "{:?}", (14..20).map(queue).collect::<Vec<_>>());
    assert!(goodput(&results, 14..20) > 1.6);
    let link = &results.summary.links[number];
    let gone = link.arrived - link.dropped - link.lost;
    let records = results.control.iter().filter(|record| record.link == "r->b").count();
    assert!(gone > 4_000 && (100..400).contains(&records), "{gone} {records}");
}

/// Flows of XCP, RCP and CUBIC at one router of 9 Mb/s that start and stop at these times in s; the goodput
/// of each in Mb/s, second by second, and the link's.
fn sharing(queue: &str, times: [(u32, u32); 3]) -> Results {
    let mut text = format!(
        "duration = \"40 s\"\ninterval = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"9 Mb/s\"\ndelay = \"20 ms\"\nduplex = false\nqueue = {queue}\n\
         [[link]]\nfrom = \"b\"\nto = \"a\"\nrate = \"100 Mb/s\"\ndelay = \"20 ms\"\nduplex = false\n"
    );
    for ((start, stop), controller) in times.into_iter().zip(["xcp", "rcp", "cubic"]) {
        text += &format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"\nstart = \"{start} s\"\nstop = \"{stop} s\"\n"
        );
    }
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).expect("a scenario");
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).expect("a run");
    while run.step().expect("enough memory") {}
    run.finish()
}

/// Mb/s of each flow in these seconds.
fn shares(results: &Results, seconds: std::ops::Range<usize>) -> [f64; 3] {
    std::array::from_fn(|flow| {
        let part = &results.series.goodput[flow][seconds.clone()];
        part.iter().map(|bytes| bytes.get() as f64 * 8e-6).sum::<f64>() / part.len() as f64
    })
}

const CLASSES: &str = "{ kind = \"classes\", limit = \"100 kB\" }";

/// xcp-rcp F43.
#[test]
fn each_class_gets_its_share_and_what_others_leave() {
    let results = sharing(CLASSES, [(0, 40), (10, 30), (0, 20)]);
    for (seconds, expected) in [
        (5..10, [0.5, 0.0, 0.5]),
        (14..20, [0.33, 0.33, 0.33]),
        (24..30, [0.5, 0.5, 0.0]),
        (34..40, [1.0, 0.0, 0.0]),
    ] {
        let shares = shares(&results, seconds.clone());
        for (share, expected) in shares.iter().zip(expected) {
            // Goodput is 94 % of what is on the wire.
            let expected = 9.0 * 0.94 * expected;
            assert!((share - expected).abs() < 0.1 * expected + 0.01, "{seconds:?}: {shares:?}");
        }
    }
    assert!(results.summary.links[0].utilisation.expect("a rate") > 0.97);
    let mut laws: Vec<&str> = results.control.iter().map(|record| record.law.as_str()).collect();
    laws.sort_unstable();
    laws.dedup();
    assert_eq!(laws, ["rcp", "xcp"]);
}

#[test]
fn without_classes_a_flow_that_fills_the_queue_starves_explicit_ones() {
    let shares = |queue| shares(&sharing(queue, [(0, 40), (39, 40), (5, 40)]), 15..39);
    let [together, apart] = ["{ kind = \"xcp\", limit = \"100 kB\" }", CLASSES].map(shares);
    assert!(together[0] < 0.2 * apart[0], "{together:?} {apart:?}");
}

#[test]
fn classes_without_a_capacity_share_by_their_turns() {
    let queue =
        "{ kind = \"classes\", limit = \"100 kB\", xcp = { kind = \"xcp-b\" }, rcp = { kind = \"rcp-b\" } }";
    let shares = shares(&sharing(queue, [(0, 40), (5, 40), (5, 40)]), 15..40);
    assert!(shares.iter().all(|share| (share / (9.0 * 0.94 / 3.0) - 1.0).abs() < 0.15), "{shares:?}");
}

#[test]
fn packets_that_wait_are_kept_when_classes_come_and_go() {
    let mut changes = switch(10, &format!("link = \"r->b\"\nqueue = {CLASSES}"));
    changes += &switch(20, "link = \"r->b\"\nqueue = { kind = \"drop-tail\", limit = \"100 kB\" }");
    let tail = "{ kind = \"drop-tail\", limit = \"100 kB\" }";
    let results = changing([tail, tail], "xcp:demand=3 Mb/s", &changes);
    let number = results.series.names.iter().position(|name| name == "r->b").expect("the link");
    let link = &results.summary.links[number];
    assert!(goodput(&results, 5..30) > 1.7, "{}", goodput(&results, 5..30));
    // The router of the class drains what filled the buffer before.
    let queue = |second: usize| results.series.links[number][second].queue.get();
    assert!(queue(9) > 50_000 && queue(19) < 10_000 && queue(29) > 50_000, "{link:?}");
}

#[test]
fn the_last_segment_of_a_flow_has_its_header_too() {
    for (size, wire) in [(1u64, 1 + 20 + 90), (1_428, 1_538), (1_429, 1_538 + 1 + 20 + 90)] {
        let mut network = Network::new(1);
        let link = |network: &mut Network| {
            let queue = queue(XCP_QUEUE).build(Some(ACCESS), 1);
            network.add_link(&LinkConfig::new(Service::Constant(ACCESS), Duration::from_ms(10), queue))
        };
        let (there, back) = (link(&mut network), link(&mut network));
        let kind: Kind = "xcp".parse().expect("a controller");
        let config = TcpConfig::new(kind, vec![there], vec![back]);
        let flow = network.add_tcp(&TcpConfig { mss: 1428, size: Some(Bytes::new(size)), ..config });
        network.run_until(Instant::from_ns(1_000_000_000));
        assert_eq!(network.flow(flow).goodput, Bytes::new(size));
        assert_eq!(network.link(there).statistics().delivered.bytes, Bytes::new(wire));
    }
}

const XCP_QUEUE: &str = r#"{"kind":"xcp"}"#;
/// Goodput in Mb/s of nine honest flows, on average, and of one that is not, at a router of 10 Mb/s.
fn beside(spec: &str, honest: &str, other: &str) -> [f64; 2] {
    let mut network = Network::new(1);
    let mut link = |rate: Rate, spec: &str| {
        let queue = queue(spec).build(Some(rate), 1);
        network.add_link(&LinkConfig::new(Service::Constant(rate), Duration::from_ms(50), queue))
    };
    let narrow = link(Rate::from_mbps(10.0), spec);
    let back = link(ACCESS, r#"{"kind":"drop-tail"}"#);
    let flows: Vec<FlowId> = (0..10)
        .map(|number| {
            let controller = if number < 9 { honest } else { other };
            let kind: Kind = controller.parse().expect("a controller");
            let start = Instant::from_ns(number * 500_000_000);
            let config = TcpConfig::new(kind, vec![narrow], vec![back]);
            network.add_tcp(&TcpConfig { start, mss: 1428, ..config })
        })
        .collect();
    network.run_until(Instant::from_ns(40_000_000_000));
    let goodput = |flow: &FlowId| network.flow(*flow).goodput.get() as f64 * 8e-6 / 40.0;
    [flows[..9].iter().map(goodput).sum::<f64>() / 9.0, goodput(&flows[9])]
}

#[test]
fn a_router_that_checks_senders_keeps_liars_near_their_part() {
    for (kind, liar) in [("xcp", "xcp:says-x=10"), ("rcp", "rcp:takes=3")] {
        let [plain, checked] =
            ["", r#","police":16"#].map(|key| format!(r#"{{"kind":"{kind}","limit":"125 kB"{key}}}"#));
        let [without, with, truthful] = [(&plain, liar), (&checked, liar), (&checked, kind)]
            .map(|(spec, other)| beside(spec, kind, other));
        assert!(without[1] > 2.0 * without[0], "{kind}: {without:?}");
        assert!(with[1] < 1.7 * with[0] && with[0] > 0.75, "{kind}: {with:?}");
        assert!(truthful.iter().all(|goodput| *goodput > 0.65), "{kind}: {truthful:?}");
        let classes =
            beside(&format!(r#"{{"kind":"classes","limit":"125 kB","{kind}":{checked}}}"#), kind, liar);
        assert!(classes[1] < 1.7 * classes[0], "{kind}: {classes:?}");
    }
}

#[test]
fn windows_of_a_segment_do_not_wait_for_delayed_acks_while_the_receive_window_grows() {
    let text = "duration = \"5 s\"\ninterval = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"100 Mb/s\"\n\
                delay = \"5 ms\"\nqueue = { kind = \"xcp\" }\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"xcp:demand=1 Mb/s\"\n";
    let scenario = Scenario::parse(text, Path::new("x.toml"), &[]).expect("a scenario");
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).expect("a run");
    while run.step().expect("enough memory") {}
    let goodput = goodput(&run.finish(), 1..5);
    // A segment of 1428 B per round trip of 10 ms and the transmission of a segment and an ACK.
    let expected = 1428.0 * 8.0 / (10_000.0 + 123.04 + 8.8);
    assert!((goodput / expected - 1.0).abs() < 0.02, "{goodput} instead of {expected}");
}

/// Share of 10 Mb/s that a thousand paced flows use from 5 to 15 s, which begin within 2.5 s.
fn thousand_paced(keys: &str, controller: &str) -> f64 {
    let text = format!(
        "duration = \"15 s\"\nwarmup = \"5 s\"\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nduplex = false\nrate = \"10 Mb/s\"\ndelay = \"50 ms\"\nbuffer = \"125 kB\"\n\
         queue = {{ kind = \"rcp\", interval-max = \"10 ms\"{keys} }}\n\
         [[link]]\nfrom = \"b\"\nto = \"a\"\nduplex = false\ndelay = \"50 ms\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncount = 1000\nstagger = \"2500 us\"\ncontroller = \"{controller}\"\n"
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).expect("a scenario");
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).expect("a run");
    while run.step().expect("enough memory") {}
    run.finish().summary.links[0].utilisation.expect("a rate")
}

/// xcp-rcp 2.12: as published, the overload of the start takes R to its minimum, at which paced
/// senders wait for minutes.
#[test]
fn paced_senders_starve_at_a_published_router_and_at_no_other() {
    let repaired = thousand_paced("", "rcp:paced");
    let published = thousand_paced(", published = true", "rcp:paced,published");
    assert!(repaired > 0.75 && published < 0.5, "{repaired}, {published}");
}
