//! TCP Rapid in the simulator: the criteria of its specification (rapid 5).

use std::collections::HashMap;
use std::path::Path;

use crate::support::*;
use headway_control::Kind;
use headway_record::{Results, TcpInterval};
use headway_scenario::Scenario;
use headway_sim::config::Burst;
use headway_sim::{Network, Run, TapEvent, TapPlace, TapRecord, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant};

/// The memory that a run may use.
const LIMIT: Bytes = Bytes::new(1 << 30);

/// Runs a flow over a link of 10 Gb/s with an RTT of 5 ms to a NIC that coalesces for 120 us; `more` follows
/// in the description of the flow.
fn results(controller: &str, more: &str, changes: &[&str]) -> Results {
    let text = format!(
        "duration = \"6 s\"\nwarmup = \"3 s\"\nmtu = 9000\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Gb/s\"\ndelay = \"2.5 ms\"\nbuffer = \"1 MB\"\n\
         [host.b]\ncoalescing = {{ kind = \"fixed\", interval = \"120 us\" }}\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"\noffload = false\n{more}"
    );
    run(&text, changes)
}

fn run(text: &str, changes: &[&str]) -> Results {
    let changes: Vec<_> = changes.iter().map(|change| change.parse().unwrap()).collect();
    let scenario = Scenario::parse(text, Path::new("rapid.toml"), &changes).unwrap();
    let mut run = Run::new(&scenario, 1, LIMIT).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

/// Runs flows with these RTTs in ms over a link of 10 Gb/s, each between hosts of its own.
fn shared(rtts: &[u32]) -> Results {
    let mut text = "duration = \"20 s\"\nwarmup = \"10 s\"\nmtu = 9000\n\
         [[link]]\nfrom = \"left\"\nto = \"right\"\nrate = \"10 Gb/s\"\nbuffer = \"2 MB\"\n"
        .to_owned();
    for (host, rtt) in rtts.iter().enumerate() {
        text += &format!(
            "[[link]]\nfrom = \"from-{host}\"\nto = \"left\"\nrate = \"10 Gb/s\"\nbuffer = \"2 MB\"\n\
             [[link]]\nfrom = \"right\"\nto = \"to-{host}\"\nrate = \"10 Gb/s\"\nbuffer = \"20 MB\"\n\
             delay = \"{} us\"\n\
             [host.to-{host}]\ncoalescing = {{ kind = \"fixed\", interval = \"120 us\" }}\n\
             [[flow]]\nfrom = \"from-{host}\"\nto = \"to-{host}\"\ncontroller = \"rapid\"\noffload = false\n\
             start = \"{} ms\"\nreceive-buffer = \"300 MB\"\n",
            500 * rtt,
            300 * host,
        );
    }
    run(&text, &[])
}

/// Goodput of all flows, Gb/s.
fn goodput(results: &Results) -> f64 {
    results.flows.iter().map(|flow| flow.goodput_bps as f64 / 1e9).sum()
}

#[test]
fn an_idle_path_is_filled_without_a_queue_or_a_loss() {
    for controller in ["rapid:published,tau=10ms,kd=1/3", "rapid"] {
        let results = results(controller, "", &[]);
        let link = &results.summary.links[0];
        assert!(goodput(&results) >= 9.3, "{}", goodput(&results));
        assert_eq!(results.flows[0].retransmitted, 0);
        assert!(link.delay_mean_ns < 100_000, "{}", link.delay_mean_ns);
    }
}

#[test]
fn a_trained_model_loses_less_than_bass_behind_a_slow_card() {
    let model = format!("model = \"{}/../../models/rapid.json\"\n", env!("CARGO_MANIFEST_DIR"));
    let results = |more: &str| {
        let traffic = "[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"cbr-profile\"\n";
        results("rapid", &format!("{more}{traffic}"), &["host.b.coalescing.interval=300 us"])
    };
    let (bass, learned) = (results(""), results(&model));
    assert!(bass.flows[0].retransmitted > 100, "{}", bass.flows[0].retransmitted);
    assert!(learned.flows[0].retransmitted < 10, "{}", learned.flows[0].retransmitted);
    assert!(goodput(&learned) > 0.95 * goodput(&bass), "{} {}", goodput(&learned), goodput(&bass));
}

/// Round trips from the first segment until the pace of a new flow is four fifths of what constant
/// traffic leaves free.
fn start_up(rate_mbps: u32, mtu: u32, rtt_ms: u32, constant_mbps: u32) -> f64 {
    let traffic = match constant_mbps {
        0 => String::new(),
        rate => {
            format!("[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"cbr\"\nrate = \"{rate} Mb/s\"\n")
        }
    };
    let text = format!(
        "duration = \"{} ms\"\ninterval = \"{} us\"\nmtu = {mtu}\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"{rate_mbps} Mb/s\"\ndelay = \"{} us\"\nbuffer = \"2 MB\"\n\
         [host.b]\ncoalescing = {{ kind = \"fixed\", interval = \"120 us\" }}\n{traffic}\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"rapid\"\noffload = false\nreceive-buffer = \"300 MB\"\n",
        20 * rtt_ms,
        100 * rtt_ms,
        500 * rtt_ms,
    );
    let results = run(&text, &[]);
    let enough = 0.8 * f64::from(rate_mbps - constant_mbps);
    let is_there = |interval: &TcpInterval| interval.pacing.is_some_and(|pace| pace.mbps() >= enough);
    results.series.tcp[0].iter().position(is_there).map_or(f64::INFINITY, |at| (at + 1) as f64 / 10.0)
}

/// rapid F53 asks for eight round trips, the handshake among them.
#[test]
fn a_new_flow_is_at_four_fifths_of_what_is_free_within_eight_round_trips() {
    for (rate, mtu, rtt, constant) in [
        (10, 1500, 20, 3),
        (100, 1500, 10, 0),
        (100, 1500, 10, 30),
        (1_000, 1500, 5, 0),
        (1_000, 1500, 100, 300),
        (10_000, 9000, 5, 0),
        (10_000, 9000, 10, 3_000),
        (10_000, 9000, 30, 0),
        (10_000, 9000, 100, 3_000),
    ] {
        let found = start_up(rate, mtu, rtt, constant);
        assert!(found <= 8.0, "{rate} Mb/s, {rtt} ms, {constant} Mb/s of others: {found} RTTs");
    }
}

#[test]
fn random_losses_slow_it_down_only_as_published() {
    let of = |controller| {
        let buffer = "receive-buffer = \"30 MB\"\n";
        goodput(&results(controller, buffer, &["link.0.loss=1e-2", "duration=5 s"]))
    };
    assert!(of("rapid") >= 8.0, "{}", of("rapid"));
    assert!(of("rapid:published") <= 0.1, "{}", of("rapid:published"));
}

#[test]
fn flows_with_equal_and_with_different_round_trips_share_a_link() {
    for (rtts, least) in [([30; 4], 0.98), ([10, 100, 10, 100], 0.95)] {
        let results = shared(&rtts);
        let rates: Vec<f64> = results.flows.iter().map(|flow| flow.goodput_bps as f64 / 1e9).collect();
        let sum: f64 = rates.iter().sum();
        let jain = sum * sum / (4.0 * rates.iter().map(|rate| rate * rate).sum::<f64>());
        assert!(jain >= least && sum > 8.5, "{jain} {rates:?}");
    }
}

#[test]
fn a_short_write_is_not_held_back_until_a_stream_is_full() {
    let results = results("rapid", "size = \"26844 B\"\n", &["warmup=0 s", "flow.0.offload=true"]);
    let flow = &results.flows[0];
    // Two round trips and 1 ms (rapid F15).
    assert!(flow.finished_ns.unwrap() - flow.start_ns < 11_000_000, "{:?}", flow.finished_ns);
}

#[test]
fn an_application_that_writes_slowly_is_not_slowed_down() {
    let results = results("rapid", "application-rate = \"100 Mb/s\"\n", &[]);
    assert!((goodput(&results) - 0.1).abs() < 0.001, "{}", goodput(&results));
}

#[test]
fn the_window_never_limits_also_after_losses_and_timeouts() {
    for loss in ["1e-4", "0.3"] {
        let results = results("rapid:published", "", &[&format!("link.0.loss={loss}")]);
        let flow = &results.flows[0];
        assert!(flow.retransmitted > 0 && flow.cwnd >= 128, "{loss}: {flow:?}");
        assert!(flow.goodput_bytes > 0, "{loss}");
    }
}

#[test]
fn a_rate_limit_below_the_line_is_found() {
    let results = results("rapid:published", "line = \"10 Gb/s\"\n", &["link.0.rate=4 Gb/s", "duration=8 s"]);
    assert!((3.4..=3.96).contains(&goodput(&results)), "{}", goodput(&results));
}

#[test]
fn flows_of_one_host_share_its_line() {
    let results = results("rapid:published,tau=10ms,kd=1/3", "count = 2\nline = \"9.9 Gb/s\"\n", &[]);
    let link = &results.summary.links[0];
    assert!(goodput(&results) <= 10.0 && goodput(&results) > 5.0, "{}", goodput(&results));
    // Packets do not leave at the same time, so none waits at a link that is a little faster than the line.
    assert!(link.delay_max_ns < 1_000, "{}", link.delay_max_ns);
}

#[test]
fn worse_stamps_and_gaps_never_stop_the_flow() {
    for more in
        ["stamp = \"ack\"", "stamp = \"ms\"", "stamp = \"none\"", "gaps = \"timer\"", "gaps = \"byte-clock\""]
    {
        let results = results("rapid:published", &format!("{more}\n"), &["link.0.rate=4 Gb/s"]);
        assert!(goodput(&results) > 0.5 && goodput(&results) <= 4.0, "{more}: {}", goodput(&results));
    }
}

#[test]
fn without_a_nic_and_with_every_ack_it_works_as_well() {
    let results = results(
        "rapid:published,coalescing=0ms",
        "ack-every = 1\n",
        &["host.b.coalescing={ kind = \"fixed\", interval = \"0 us\" }"],
    );
    assert!(goodput(&results) > 9.0, "{}", goodput(&results));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let results = results("rapid", "", &["link.0.loss=1e-4", "duration=4 s"]);
        [results.flows_csv(), results.links_csv()].join("\n")
    };
    assert_eq!(run(), run());
}

/// Beside traffic, with stamps in whole microseconds (rapid F26).
#[test]
fn differences_of_one_way_delays_are_those_of_the_path_within_two_microseconds() {
    let mut network = Network::new(1);
    let forward = network.add_link(&link(mbps(100.0), Duration::from_ms(10), drop_tail(Some(1_000_000))));
    let reverse = network.add_link(&wire(Duration::from_ms(10)));
    network.add_source(&source(forward, Traffic::Poisson { rate: mbps(40.0), size: Bytes::new(1500) }));
    let mut config = TcpConfig::new(Kind::Rapid(Default::default()), vec![forward], vec![reverse]);
    config.burst = Burst::Single;
    let places = [TapPlace::Sender, TapPlace::Receiver];
    config.taps = places.map(|place| (network.add_tap(), place)).to_vec();
    let flow = network.add_tcp(&config);
    let rows: Vec<(Instant, Duration)> = (1..3_000)
        .filter_map(|ms| {
            let end = at(f64::from(ms) / 1e3);
            network.run_until(end);
            Some((end, network.flow(flow).inside?.one_way?))
        })
        .collect();
    let [near, far] = [0, 1].map(|place| records_of(&mut network, &config, place));
    let arrivals: HashMap<u64, Instant> = far.iter().filter_map(sent).collect();
    let mut errors = Vec::new();
    let mut delays = Vec::new();
    let mut departures = HashMap::new();
    let mut near = near.iter().peekable();
    let mut latest = None;
    for (end, told) in rows {
        while let Some(record) = near.next_if(|record| record.at <= end) {
            departures.extend(sent(record));
            if let TapEvent::Ack { number, .. } = record.event {
                latest = Some(number - 1);
            }
        }
        let segment = latest.unwrap();
        let delay = arrivals[&segment] - departures[&segment];
        delays.push(delay);
        errors.push(told - delay);
    }
    let range = |values: &[Duration]| *values.iter().max().unwrap() - *values.iter().min().unwrap();
    assert!(errors.len() > 2_900 && range(&errors) <= Duration::from_us(2), "{:?}", range(&errors));
    assert!(range(&delays) > Duration::from_ms(1), "{:?}", range(&delays));
}

/// The segment that passed a tap, and when.
fn sent(record: &TapRecord) -> Option<(u64, Instant)> {
    match record.event {
        TapEvent::Segment { sequence, .. } => Some((sequence, record.at)),
        _ => None,
    }
}

fn records_of(network: &mut Network, config: &TcpConfig, place: usize) -> Vec<TapRecord> {
    let mut records = Vec::new();
    network.take_tap_records(config.taps[place].0, &mut records);
    records
}
